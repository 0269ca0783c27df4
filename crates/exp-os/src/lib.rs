//! Experiments on the operating system and on what it takes away.
#![forbid(unsafe_code)]

pub mod noise;
pub mod os;
