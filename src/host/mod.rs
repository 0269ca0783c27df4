//! The machine as one read-only value.

/// The machine (being built).
#[derive(Clone, Debug)]
pub struct Host {}
