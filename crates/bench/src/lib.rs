//! The bench: what an experiment is ([`experiment`]), what times it ([`measure`]), and the messages
//! between a session and its workers ([`link`]).
//!
//! METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod device;
pub mod experiment;
pub mod fitted;
pub mod law;
pub mod link;
pub mod measure;
pub mod pair;
pub mod prelude;
pub mod prepared;
pub mod ranges;
pub mod reason;
pub mod widths;
