//! Files: what the page cache holds, what a device or a server gives, what writing and syncing
//! cost.

mod file;
#[cfg(test)]
mod fixtures;
mod job;
mod offered;
mod window;

/// The words of the contract, and of files, which nearly every file of the family uses.
mod prelude {
    pub(super) use bench::device;
    #[cfg(test)]
    pub(super) use bench::experiment::AnyExperiment;
    pub(super) use bench::experiment::contract::Files;
    pub(super) use bench::prelude::*;
    pub(super) use laws::Law;
    pub(super) use laws::fs::Pattern;
    pub(super) use record::event::Samples;
    pub(super) use record::order::{Gather, InOrder};
    pub(super) use std::collections::BTreeSet;
    pub(super) use std::fs::File;
    pub(super) use std::os::unix::fs::FileExt;
    pub(super) use std::path::{Path, PathBuf};
    pub(super) use std::time::Instant;
}

bench::family!(
    "fs",
    "files: page-cache size, reads and writes by block, depth and threads, contention, remote \
     files, syncs, metadata",
    hidden: false,
    [
        cache_size,
        read,
        io,
        contention,
        remote,
        sync,
        metadata,
    ]
);
