//! Pure statistics: values in, values out; no clock, no files, no globals.
//!
//! Rounds are the unit of replication: an [`estimate`] is the median of round values with an
//! exact [`interval`]; [`disturbed`] says which rounds count, and [`compare`] whether two runs differ. All values must be finite; units are the caller's.

pub(crate) mod autocorrelation;
pub(crate) mod blocks;
pub(crate) mod compare;
pub(crate) mod dip;
pub(crate) mod disturbed;
pub(crate) mod estimate;
pub(crate) mod histogram;
pub(crate) mod interval;
pub(crate) mod ladder;
pub(crate) mod modes;
pub(crate) mod moments;
pub(crate) mod outlier;
pub(crate) mod phase;
pub(crate) mod quantile;
pub(crate) mod resample;
pub mod rounds;
pub(crate) mod shift;
pub(crate) mod steady;
pub(crate) mod step;
pub(crate) mod threshold;
pub(crate) mod trend;
pub(crate) mod width;

#[cfg(test)]
mod coverage;
#[cfg(test)]
pub(crate) mod draw;
#[cfg(test)]
mod neighbour;
