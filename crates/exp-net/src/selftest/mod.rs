//! Experiments that try the way through: every kind that the contract knows, in miniature. A
//! shipped binary has the two-ended one alone, which shows that a far end can be reached.

pub mod echo;
#[cfg(debug_assertions)]
pub mod fault;
#[cfg(debug_assertions)]
pub mod file;
#[cfg(debug_assertions)]
pub mod planted;
#[cfg(debug_assertions)]
pub mod pulse;
#[cfg(debug_assertions)]
pub mod sweep;

use bench::experiment::Family;

pub static FAMILY: Family = Family {
    name: "selftest",
    about: "a miniature run from end to end; its figures mean nothing",
    hidden: true,
    experiments: &[
        &echo::EXPERIMENT,
        #[cfg(debug_assertions)]
        &planted::EXPERIMENT,
        #[cfg(debug_assertions)]
        &pulse::EXPERIMENT,
        #[cfg(debug_assertions)]
        &sweep::EXPERIMENT,
        #[cfg(debug_assertions)]
        &file::EXPERIMENT,
        #[cfg(debug_assertions)]
        &fault::EXPERIMENT,
    ],
};
