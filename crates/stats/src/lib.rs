//! Pure statistics: values in, values out; no clock, no files, no globals.
//!
//! Rounds are the unit of replication: an [`estimate`] is the median of round values with an exact
//! [`interval`]; [`disturbed`] says which rounds count, and [`compare`] whether two runs differ.
//! All values must be finite; units are the caller's.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod alone;
pub mod autocorrelation;
pub mod blocks;
pub mod compare;
pub mod dip;
pub mod disturbed;
pub mod estimate;
pub mod histogram;
pub mod interval;
pub mod ladder;
pub mod modes;
pub mod moments;
pub mod outlier;
pub mod phase;
pub mod quantile;
pub mod resample;
pub mod rounds;
pub mod shift;
pub mod steady;
pub mod step;
pub mod threshold;
pub mod trend;
pub mod width;

#[cfg(test)]
mod coverage;
#[cfg(any(test, feature = "fixtures"))]
pub mod draw;
#[cfg(test)]
mod neighbour;
