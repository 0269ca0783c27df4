//! The record of a plumb run: the only published types.
//!
//! A run is append-only JSON Lines, one [`event::Event`] a line; [`codec`] writes and reads it,
//! [`run::Run`] is what a reader gets. No I/O happens here beyond `Read` and `Write`.
//!
//! METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod case;
pub mod codec;
mod complete;
pub mod crosscheck;
pub mod estimate;
pub mod event;
pub mod key;
pub mod key_figure;
pub mod lines;
pub mod machine;
pub mod metric;
pub mod note;
pub mod order;
pub mod plain;
pub mod plan;
mod prediction;
pub mod quantity;
pub mod redact;
pub mod run;
mod samples;
pub mod seal;
mod sequence;
pub mod shared;
pub mod shown;
pub mod unit;
pub mod view;
mod width;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Version of the record's format. A reader refuses records with a higher one.
pub const FORMAT: u32 = 6;
/// The first format that was released. Earlier ones are of development versions and are not read.
pub const FIRST_FORMAT: u32 = 5;
/// From this format on each line has its number, and its checksum begins with the header's.
const NUMBERED_FORMAT: u32 = 6;
