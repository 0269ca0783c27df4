//! Physics of machines: laws by resource over a site's description and earlier figures. What a law
//! is stands in [`bench::law`].
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod cpu;
mod designs;
pub mod device;
pub mod fs;
#[cfg(test)]
mod hosts;
pub mod line;
pub mod memory;
pub mod net;
pub mod noise;
pub mod os;
pub mod rows;

pub use bench::law::{
    Facts, Law, around, at_most, difference, end_by_end, inverse, product, range, scaled, sum,
};
use record::event::{Bound, Side};

/// A rate that is not passed, of which a warning is given: what it follows from is nominal.
fn ceiling(constant: f64, uncertainty: f64, rule: String) -> Bound {
    Bound { side: Side::AtMost, constant, inputs: Vec::new(), uncertainty, rule, warns_only: true }
}
