//! Many machines: what the nodes of a sweep measure, and which node or link is slower than its peers.
//!
//! An engine starts a copy of `plumb fleet run` on each node ([`place`]). All copies compute the same
//! [`schedule`] and follow it by the clock ([`node`]). Each writes a [`file`] of its own, and no process
//! gathers them: [`read`] takes a directory of files, [`model`] judges, [`report`] shows it.
//!
//! METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod compare;
mod describe;
#[cfg(any(test, feature = "fixtures"))]
pub mod drawn;
mod extract;
pub mod file;
mod fit;
pub mod hosts;
pub mod matchings;
pub mod model;
pub mod names;
pub mod node;
pub mod nodelist;
mod paired;
mod peers;
pub mod place;
mod process;
pub mod read;
mod repeats;
pub mod report;
pub mod schedule;
pub mod secret;
