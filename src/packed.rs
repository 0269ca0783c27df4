//! Texts that `build.rs` packs.

/// A text by the name that `build.rs` gives it.
macro_rules! packed {
    ($name:expr) => {
        ::report::unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")))
    };
}
pub(crate) use packed;
