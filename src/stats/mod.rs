//! Pure statistics.

pub mod ladder;
