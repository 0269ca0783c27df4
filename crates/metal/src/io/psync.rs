//! One operation after another by system calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::{Buffers, Failure, Latencies, Op, Ran, Steady, Stop};
use crate::clock::{Clock, vdso_clock_gettime};

/// pread(2) and pwrite(2) of one file by the calling thread.
#[derive(Debug)]
pub struct Psync {
    file: File,
    buffers: Buffers,
    offsets: Vec<Option<u64>>,
}

impl Psync {
    /// An engine that takes the blocks of `buffers` in turn.
    pub fn new(file: File, buffers: Buffers) -> Psync {
        let offsets = vec![None; buffers.count()];
        Psync { file, buffers, offsets }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The blocks, as the last operations left them.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Where in the file the block of a buffer was last read or written; `None` if never.
    pub fn offset_of(&self, index: usize) -> Option<u64> {
        self.offsets[index]
    }

    /// Does one operation after another at the offsets that are given, until `stop` or their end.
    /// `now` reads the clock: just before and just after each operation. Errors: the first
    /// operation that failed or was short. EINTR is tried again.
    #[inline]
    pub fn run(
        &mut self,
        op: Op,
        mut offsets: impl FnMut() -> Option<u64>,
        now: impl Fn() -> u64,
        stop: Stop,
        log: &mut Latencies,
    ) -> Result<Ran, Failure> {
        let fd = self.file.as_raw_fd();
        let bytes = self.buffers.block_bytes();
        let cpu_before_ns = vdso_clock_gettime(Clock::THREAD_CPU);
        let first_tick = now();
        let (mut last_tick, mut operations, mut index) = (first_tick, 0, 0);
        while !stop.is_over(operations, last_tick) {
            let Some(offset) = offsets() else { break };
            if op.writes() {
                self.buffers.stamp(index);
            }
            let begin = now();
            let result = operation(fd, op, self.buffers.get_mut(index), offset);
            last_tick = now();
            if result != bytes as i64 {
                return Err(Failure::from_result(op, offset, bytes, result));
            }
            log.add(last_tick.saturating_sub(begin));
            self.offsets[index] = Some(offset);
            operations += 1;
            index += 1;
            if index == self.offsets.len() {
                index = 0;
            }
        }
        let thread_cpu_ns = vdso_clock_gettime(Clock::THREAD_CPU) - cpu_before_ns;
        let some = u32::from(operations > 0);
        Ok(Ran {
            operations,
            bytes: operations * bytes as u64,
            first_tick,
            last_tick,
            steady: Steady { from_tick: first_tick, until_tick: last_tick, operations },
            most_in_flight: some,
            mean_in_flight: f64::from(some),
            thread_cpu_ns,
        })
    }
}

/// One operation; the bytes moved, or the negative number of the error.
#[inline(always)]
fn operation(fd: RawFd, op: Op, block: &mut [u8], offset: u64) -> i64 {
    let result = match op {
        Op::Read => again(|| {
            // SAFETY: the block is ours to write for its whole length.
            let moved =
                unsafe { libc::pread64(fd, block.as_mut_ptr().cast(), block.len(), offset as i64) };
            moved as i64
        }),
        Op::Write | Op::WriteSynced => again(|| {
            // SAFETY: the block is ours to read for its whole length.
            let moved =
                unsafe { libc::pwrite64(fd, block.as_ptr().cast(), block.len(), offset as i64) };
            moved as i64
        }),
    };
    if op != Op::WriteSynced || result != block.len() as i64 {
        return result;
    }
    // SAFETY: a plain value; the descriptor is open.
    match again(|| i64::from(unsafe { libc::fdatasync(fd) })) {
        0 => result,
        error => error,
    }
}

/// A system call, again where a signal came between; its result, or the negative error.
#[inline(always)]
fn again(mut call: impl FnMut() -> i64) -> i64 {
    loop {
        let result = call();
        if result >= 0 {
            return result;
        }
        let error = io::Error::last_os_error().raw_os_error();
        match error {
            Some(libc::EINTR) => {}
            Some(error) => return -i64::from(error),
            None => return -i64::from(libc::EIO),
        }
    }
}
