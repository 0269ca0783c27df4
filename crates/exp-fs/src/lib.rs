//! Experiments on files.
#![forbid(unsafe_code)]

pub mod fs;
