//! Empty operations through io_uring: what a batch costs per operation.

use std::io;

use io_uring::{IoUring, opcode};

/// A ring for empty operations.
pub struct UringNop {
    ring: IoUring,
    depth: u32,
}

impl UringNop {
    /// A ring that submits up to `depth` operations (rounded up to a power of two by the kernel)
    /// with one system call. Errors: no io_uring in this kernel, or forbidden
    /// (`kernel.io_uring_disabled`, seccomp); a depth of 0 or above the kernel's limit.
    pub fn new(depth: u32) -> io::Result<UringNop> {
        Ok(UringNop { ring: IoUring::new(depth)?, depth })
    }

    /// Operations to a system call.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Runs exactly `n` empty operations, [`UringNop::depth`] to a system call (the last batch may
    /// be smaller), each batch waited for. Returns how many succeeded. Errors: those of
    /// io_uring_enter(2), or of an operation.
    pub fn submit_nops(&mut self, n: u64) -> io::Result<u64> {
        let mut done = 0;
        while done < n {
            let batch = (n - done).min(u64::from(self.depth));
            done += self.batch(batch as usize)?;
        }
        Ok(done)
    }

    fn batch(&mut self, count: usize) -> io::Result<u64> {
        let nop = opcode::Nop::new().build();
        {
            let mut queue = self.ring.submission();
            for _ in 0..count {
                // SAFETY: an empty operation refers to no memory.
                unsafe { queue.push(&nop) }
                    .map_err(|_| io::Error::other("the submission queue is full"))?;
            }
        }
        let (mut submitted, mut completed) = (0, 0);
        while completed < count {
            submitted += self.ring.submit_and_wait(count - completed)?;
            for entry in self.ring.completion() {
                if entry.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-entry.result()));
                }
                completed += 1;
            }
        }
        if submitted != count || completed != count {
            return Err(io::Error::other(format!(
                "{submitted} operations submitted and {completed} completed of {count}"
            )));
        }
        Ok(count as u64)
    }
}
