//! The machine as one read-only value.
