//! What does not change from boot to boot.

use serde::{Deserialize, Serialize};

/// A machine's stable identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// 16 hexadecimal digits: FNV-1a over `parts`.
    pub hash: String,
    /// What went into it, `name=value` each, sorted by name; the machine id only as a hash.
    pub parts: Vec<String>,
}

pub(super) fn of(_: &super::Root, _: &super::Outside, _: &super::Cpu, _: &super::Caches, _: &super::Memory, _: &super::Kernel) -> Identity { Identity::default() }
