//! Experiments on files.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md.
#![forbid(unsafe_code)]

pub mod fs;
