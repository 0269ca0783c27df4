//! The catalogue: one directory per family, one file per experiment.

pub mod clock;
pub mod cpu;
pub(crate) mod device;
pub mod fs;
#[cfg(test)]
pub(crate) mod laws;
pub mod memory;
pub mod net;
pub mod noise;
pub mod os;
pub(crate) mod pair;
pub(crate) mod prepared;
#[cfg(test)]
mod same;
pub mod selftest;
#[cfg(test)]
pub(crate) mod tests;

use crate::experiment::{Experiment, Family};

/// Every family, in the order of the catalogue.
pub static FAMILIES: &[&Family] = &[
    &clock::FAMILY,
    &cpu::FAMILY,
    &os::FAMILY,
    &memory::FAMILY,
    &noise::FAMILY,
    &fs::FAMILY,
    &net::FAMILY,
    &selftest::FAMILY,
];

/// The experiment of an id.
pub fn find(id: &str) -> Option<&'static dyn Experiment> {
    FAMILIES
        .iter()
        .flat_map(|family| family.experiments)
        .copied()
        .find(|experiment| experiment.card().id == id)
}
