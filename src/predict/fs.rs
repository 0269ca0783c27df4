//! Laws of files, a file per experiment; devices stand in `predict/device.rs`.

pub(crate) mod contention;
pub(crate) mod io;
pub(crate) mod read;
pub(crate) mod remote;
