//! Files: what the page cache holds, what a device or a server gives, what writing and syncing
//! cost.

mod file;
#[cfg(test)]
mod fixtures;
mod offered;
mod window;

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
