//! What a case of fs.io does, as laws and the experiment know it.

use crate::fs::{BLOCK_BYTES, Mode, Pattern};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use host::block::Disk;
use record::case::Case;
use record::key::Value;

symbols! {
    /// What is done.
    pub enum Op { Read = "read", Write = "write" }
}

symbols! {
    /// The way to submit operations to the kernel.
    pub enum Engine { Psync = "psync", Uring = "io_uring" }
}

symbols! {
    /// Where several threads work.
    pub enum Files { Own = "own", Shared = "shared" }
}

case! {
    /// What a case does.
    #[derive(Copy)]
    pub struct Work {
        /// read or write
        op: Op,
        /// order of the offsets
        pattern: Pattern,
        /// past the page cache or through it, and what each write waits for
        mode: Mode = Domain::Symbols(&[
            "direct", "cold", "cached", "buffered", "buffered_fdatasync", "dsync",
        ]),
        /// bytes of an operation
        block: u64 = Domain::bytes(1, 1 << 30),
        /// system calls or a ring
        engine: Engine,
        /// operations in flight per thread
        depth: u64 = Domain::count(1, 1024),
        /// threads that do the same work
        threads: u64 = Domain::count(1, 64),
        /// a file per thread, or a part of one file
        files: Option<Files>,
    }
}

impl Work {
    pub fn is_read(&self) -> bool {
        self.op == Op::Read
    }

    /// Whether its places are in no order.
    pub fn is_random(&self) -> bool {
        self.pattern == Pattern::Random
    }

    /// Whether it goes past the page cache.
    pub fn is_direct(&self) -> bool {
        self.mode == Mode::Direct
    }

    pub fn is_ring(&self) -> bool {
        self.engine == Engine::Uring
    }

    pub(super) fn waits_for_flush(&self) -> bool {
        matches!(self.mode, Mode::BufferedFdatasync | Mode::Dsync)
    }

    pub(super) fn bytes(&self) -> f64 {
        self.block as f64
    }

    pub(super) fn pages(&self) -> f64 {
        (self.bytes() / BLOCK_BYTES).max(1.0)
    }

    pub(super) fn in_flight(&self) -> f64 {
        (self.depth * self.threads) as f64
    }
}

/// A case and what is known of its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'case> {
    pub work: &'case Work,
    pub(super) span: f64,
    /// Name of the disk, where there is one.
    device: Option<&'case str>,
    /// Symbol of what lies below.
    pub(super) ground: &'case str,
}

impl<'case> Request<'case> {
    pub fn from_case(work: &'case Work, case: &'case Case) -> Self {
        const USUAL: u64 = 256 << 20;
        let told = |name: &str| case.at.get(name).and_then(Value::text);
        Request {
            work,
            span: case.int("file_bytes").unwrap_or(USUAL) as f64,
            device: told("device"),
            ground: told("ground").unwrap_or("unknown"),
        }
    }

    /// Whether no device is waited for: the mode does not, or the file system keeps its files in
    /// memory without one.
    pub(super) fn is_in_memory(self) -> bool {
        let has_no_device = self.ground == "memory" && self.device.is_none();
        self.work.mode.is_in_memory() || has_no_device
    }

    pub(super) fn disk(self, site: &Site) -> Option<&Disk> {
        let name = self.device?;
        site.host.block.disks.iter().find(|disk| disk.name == name)
    }
}
