//! Bandwidth: loops that do nothing but move an array's words.

use crate::stream::{Code, Kernel};

/// A kernel's loop.
pub(crate) fn stream_code(_: Kernel) -> Option<Code> {
    None
}
