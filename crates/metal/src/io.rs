//! Reads and writes of a file, one after another by system calls ([`Psync`]) or many at a time
//! through io_uring ([`Uring`]), each operation timed until its completion is seen.
//!
//! Inside a run nothing is allocated and no other system call is made than those that do the
//! operations. Blocks go out stamped, so that no two are alike.

use std::fmt;
use std::io;

mod buffers;
mod latencies;
mod psync;
mod uring;

pub use buffers::Buffers;
pub use latencies::Latencies;
pub use psync::Psync;
pub use uring::{Uring, UringSetup};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// By pread(2), or `IORING_OP_READ`.
    Read,
    /// By pwrite(2), or `IORING_OP_WRITE`.
    Write,
    /// pwrite(2) and fdatasync(2), timed together; only by [`Psync`].
    WriteSynced,
}

impl Op {
    pub fn writes(self) -> bool {
        self != Op::Read
    }
}

impl fmt::Display for Op {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Op::Read => "reading",
            Op::Write => "writing",
            Op::WriteSynced => "writing and syncing",
        })
    }
}

/// When a run ends: at `until_tick` once `at_least` operations are done, in any case after
/// `at_most`, and where the offsets end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Tick of the run's clock.
    pub until_tick: u64,
    /// Operations that are done however long they take.
    pub at_least: u64,
    /// Operations that are never exceeded.
    pub at_most: u64,
}

impl Stop {
    /// Whether no further operation is to begin.
    #[inline(always)]
    fn is_over(&self, begun: u64, tick: u64) -> bool {
        begun >= self.at_most || (begun >= self.at_least && tick >= self.until_tick)
    }
}

/// What a run did. Ticks are those of the run's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    pub operations: u64,
    pub bytes: u64,
    /// Before the first submission.
    pub first_tick: u64,
    /// After the last completion was seen.
    pub last_tick: u64,
    /// The stretch in which every completed operation was followed by another: from
    /// `steady.from_tick` to `steady.until_tick`, `steady.operations` completed. The rate of
    /// operations is taken here, where filling and emptying the queue are not in it.
    pub steady: Steady,
    /// The most operations that were submitted and not yet seen complete.
    pub most_in_flight: u32,
    /// Their mean over the steady stretch.
    pub mean_in_flight: f64,
    /// CPU time of the calling thread, user and system, from before the first submission to after
    /// the last completion, in ns; workers of the kernel's (io-wq) are not in it.
    pub thread_cpu_ns: u64,
}

/// The stretch of a run in which its queue was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// Its begin: the first submission of [`Psync`]; the first completion seen of [`Uring`].
    pub from_tick: u64,
    /// Its end: the last completion seen before no more were submitted.
    pub until_tick: u64,
    /// Operations seen complete after the begin, up to the end.
    pub operations: u64,
}

/// Why a run ended early. Operations before it have happened.
#[derive(Debug)]
pub enum Failure {
    /// The kernel refused or failed an operation.
    Operation {
        op: Op,
        /// Where in the file, in bytes.
        offset: u64,
        /// Its length in bytes.
        bytes: usize,
        source: io::Error,
    },
    /// An operation moved fewer bytes than asked for.
    Short {
        op: Op,
        /// Where in the file, in bytes.
        offset: u64,
        /// Its length in bytes.
        bytes: usize,
        moved: usize,
    },
    /// The engine itself failed, or cannot do what was asked for.
    Engine(io::Error),
}

impl Failure {
    /// The kernel's number of the error, where it gave one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Failure::Operation { source, .. } | Failure::Engine(source) => source.raw_os_error(),
            Failure::Short { .. } => None,
        }
    }

    /// What a result of a system call or a completion says, if it is not `bytes`.
    fn from_result(op: Op, offset: u64, bytes: usize, result: i64) -> Failure {
        match usize::try_from(result) {
            Ok(moved) => Failure::Short { op, offset, bytes, moved },
            Err(_) => Failure::Operation {
                op,
                offset,
                bytes,
                // Errors of the kernel are above -4096.
                source: io::Error::from_raw_os_error(-result as i32),
            },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Operation { op, offset, bytes, .. } => {
                write!(to, "{op} {bytes} bytes at offset {offset} failed")
            }
            Failure::Short { op, offset, bytes, moved } => {
                write!(to, "{op} {bytes} bytes at offset {offset} moved only {moved}")
            }
            Failure::Engine(_) => to.write_str("the engine of reads and writes failed"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Operation { source, .. } | Failure::Engine(source) => Some(source),
            Failure::Short { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
