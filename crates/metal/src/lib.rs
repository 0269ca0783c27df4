//! The instruments of plumb: clocks, placement, memory, rings, timed bodies,
//! system calls and processes, with safe faces.
//!
//! All `unsafe` code of the workspace is here, and all assembly is under `arch/`. Nothing here
//! computes a statistic, prints, or decides what to measure. Times are counter ticks or
//! nanoseconds, sizes are bytes; each function says which.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("plumb measures Linux on x86-64 and aarch64 only");

pub mod access;
pub mod backlog;
pub mod chains;
pub mod clock;
pub mod connection;
pub mod counter;
pub mod coverage;
pub mod cpuid;
pub mod deadline;
pub mod directory;
pub mod elf;
pub mod ethtool;
pub mod fault;
pub mod gaps;
pub mod handover;
pub mod icmp;
pub mod instruction;
pub mod io;
pub mod kernel;
pub mod known_answer;
pub mod line;
pub mod lock;
pub mod matrix;
pub mod memory;
pub mod metadata;
pub mod mount;
pub mod path;
pub mod peak;
pub mod perf;
pub mod place;
pub mod process;
pub mod raw;
pub mod readiness;
pub mod ring;
pub mod signal;
pub mod sleep;
pub mod socket;
pub mod storage;
pub mod stream;
pub mod tap;
pub mod tcp;
pub mod thread;
pub mod timer;
pub mod wait;

mod answer;
mod arch;
#[cfg(test)]
mod scratch;
