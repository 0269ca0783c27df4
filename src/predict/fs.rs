//! Laws of files, a file per experiment; devices stand in `predict/device.rs`, what file systems do for
//! a change of names in `fs/journal.rs`.

pub(crate) mod cache_size;
pub(crate) mod contention;
pub(crate) mod io;
pub(crate) mod journal;
mod limit;
pub(crate) mod metadata;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod sync;
