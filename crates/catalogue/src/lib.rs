//! The catalogue: every family, and what holds for all experiments (`laws`).
#![forbid(unsafe_code)]

#[cfg(test)]
mod laws;
#[cfg(test)]
mod same;

use bench::experiment::{AnyExperiment, Catalogue};

/// Every family, in the order in which a user sees them.
pub static FAMILIES: Catalogue = &[
    &exp_core::clock::FAMILY,
    &exp_core::cpu::FAMILY,
    &exp_os::os::FAMILY,
    &exp_core::memory::FAMILY,
    &exp_os::noise::FAMILY,
    &exp_fs::fs::FAMILY,
    &exp_net::net::FAMILY,
    &exp_net::selftest::FAMILY,
];

/// The experiment of an id.
pub fn find(id: &str) -> Option<&'static dyn AnyExperiment> {
    bench::experiment::find(FAMILIES, id)
}
