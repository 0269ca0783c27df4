//! Laws of files, a file per experiment; devices stand in `predict/device.rs`.

pub(crate) mod remote;
