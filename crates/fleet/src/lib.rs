//! Many machines: a sweep over a fleet, its record, and which node or link is slower than its peers.
//!
//! A sweep is N copies of `plumb fleet node`, started by whatever starts programs there ([`place`]).
//! Rank 0 decides (`rank0`) what a [`recipe`] asks for, and writes the record ([`book`]); the
//! others execute orders (`wire`) that reach them over a tree ([`tree`], `relay`). A node
//! measures by starting its own binary ([`serve`]).
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod book;
pub mod compare;
pub mod drawn;
pub mod engine;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod hosts;
pub mod kubernetes;
pub mod matchings;
pub mod model;
mod nodelist;
pub mod place;
pub mod plan;
mod rank0;
pub mod read;
pub mod recipe;
mod relay;
pub mod report;
pub mod secret;
pub mod serve;
#[cfg(any(test, feature = "fixtures"))]
pub mod simulated;
pub mod sweep;
pub mod tree;
mod values;
mod wire;
