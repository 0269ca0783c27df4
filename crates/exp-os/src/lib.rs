//! Experiments on the operating system and on what it takes away.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md.
#![forbid(unsafe_code)]

pub mod noise;
pub mod os;
