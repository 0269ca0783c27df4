//! One reader's reads: where, how, and what they took of its CPU.

use super::Reader;
use crate::fs::file::BLOCK_BYTES;
use metal::clock::{Clock, vdso_clock_gettime};
use metal::process::rusage_thread;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a thread had used of its CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) cpu_ns: u64,
    pub(super) forced: u64,
    pub(super) reads: u64,
}

impl Used {
    pub(super) fn now(reads: u64) -> Used {
        Used {
            cpu_ns: vdso_clock_gettime(Clock::THREAD_CPU),
            forced: rusage_thread().nivcsw,
            reads,
        }
    }

    pub(super) fn until(self, reads: u64) -> Used {
        let now = Used::now(reads);
        Used {
            cpu_ns: now.cpu_ns - self.cpu_ns,
            forced: now.forced - self.forced,
            reads: now.reads - self.reads,
        }
    }
}

pub(super) struct Places {
    blocks: u64,
    next: u64,
    random: Option<fastrand::Rng>,
}

impl Places {
    pub(super) fn of(reader: &Reader<'_>) -> Places {
        Places {
            blocks: reader.blocks,
            next: reader.first % reader.blocks,
            random: reader.random.then(|| fastrand::Rng::with_seed(reader.first)),
        }
    }

    /// Its offset, in bytes.
    pub(super) fn next(&mut self) -> u64 {
        let block = match &mut self.random {
            Some(random) => random.u64(..self.blocks),
            None => {
                let block = self.next;
                self.next = (block + 1) % self.blocks;
                block
            }
        };
        block * BLOCK_BYTES as u64
    }
}

/// One block, whole.
#[inline]
pub(super) fn block(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    loop {
        match file.read_at(buffer, offset) {
            Ok(bytes) if bytes == buffer.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Places};
    use crate::fs::contention::readers::Reader;
    use std::collections::BTreeSet;

    fn places(random: bool, first: u64) -> Places {
        let file = std::fs::File::open("/").expect("it is there");
        Places::of(&Reader { file: &file, seed: 1, blocks: 16, first, random, cpu: 0 })
    }

    #[test]
    fn in_order_every_block_comes_once_a_turn_and_the_first_follows_the_last() {
        let mut places = places(false, 14);
        let blocks: Vec<u64> = (0..18).map(|_| places.next() / BLOCK_BYTES as u64).collect();
        assert_eq!(blocks[..4], [14, 15, 0, 1]);
        assert_eq!(blocks[..2], blocks[16..], "the turn begins anew");
    }

    #[test]
    fn at_random_blocks_are_of_the_file_and_differ_by_reader() {
        let drawn = |first| -> Vec<u64> {
            let mut places = places(true, first);
            (0..200).map(|_| places.next()).collect()
        };
        let one = drawn(3);
        assert!(one.iter().all(|at| at % 4096 == 0 && *at < 16 * 4096));
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 16, "all of them");
        assert_ne!(one, drawn(4));
    }
}
