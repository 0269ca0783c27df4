//! Bytes from one process to another through memory that both map, with the kernel only for
//! waiting.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Mapped, base_page_bytes};
use crate::answer::invalid;
use crate::raw::{Scope, futex_wait, futex_wake};

/// Set in a position while its other side waits for it to move.
const WAITED_FOR: u32 = 1;
/// A position counts bytes in steps of this, so that the bit above is free.
const STEP: u32 = 2;
/// Largest capacity: positions wrap at 2^31 bytes.
const CAPACITY_MAX: usize = 1 << 30;
/// At most this share of the capacity is copied before the other side is notified, so that the two
/// copies of a long message overlap on two CPUs.
const PARTS: usize = 4;

/// A stream of at most `capacity` bytes on their way: its writer and its reader. One of them is
/// used here and the other in a child that was forked after this; each copies the bytes (`memcpy`)
/// into and out of the ring between them. A side that finds it full or empty waits in the kernel
/// (futex), and is woken only where it waits. Errors: those of mmap(2); `capacity` is not a power
/// of two from 4 to 2^30.
pub fn shared_stream(capacity: usize) -> io::Result<(StreamWriter, StreamReader)> {
    let ring = Arc::new(Ring::new(capacity)?);
    Ok((StreamWriter(Arc::clone(&ring)), StreamReader(ring)))
}

/// The side of a [`shared_stream`] that writes.
#[derive(Debug)]
pub struct StreamWriter(Arc<Ring>);

/// The side of a [`shared_stream`] that reads.
#[derive(Debug)]
pub struct StreamReader(Arc<Ring>);

impl StreamWriter {
    /// Writes all of `bytes`; waits while the ring is full. Errors: `Interrupted` by a signal that
    /// has a handler; a ring that the other side spoilt.
    #[inline]
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let ring = &*self.0;
        while !bytes.is_empty() {
            let room = ring.capacity - ring.filled()?;
            if room == 0 {
                ring.wait(ring.read(), |filled| filled < ring.capacity)?;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(room).min(ring.part()));
            ring.copy_in(part);
            ring.advance(ring.written(), part.len())?;
            bytes = rest;
        }
        Ok(())
    }
}

impl StreamReader {
    /// Fills all of `buffer`; waits while the ring is empty. Errors as [`StreamWriter::write_all`].
    #[inline]
    pub fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        let ring = &*self.0;
        while !buffer.is_empty() {
            let filled = ring.filled()?;
            if filled == 0 {
                ring.wait(ring.written(), |filled| filled > 0)?;
                continue;
            }
            let bytes = buffer.len().min(filled).min(ring.part());
            let (part, rest) = buffer.split_at_mut(bytes);
            ring.copy_out(part);
            ring.advance(ring.read(), bytes)?;
            buffer = rest;
        }
        Ok(())
    }
}

/// Shared anonymous memory: a page with both positions on lines of their own, and the ring. What
/// both sides touch is atomic, or bytes that the positions give to one side at a time; only the one
/// writer and the one reader copy, each by a unique reference.
#[derive(Debug)]
struct Ring {
    mapped: Mapped,
    capacity: usize,
    page_bytes: usize,
}

/// Bytes between the two positions: a pair of cache lines of 64 bytes, or one of 128.
const APART: usize = 128;

impl Ring {
    fn new(capacity: usize) -> io::Result<Ring> {
        if !capacity.is_power_of_two() || !(PARTS..=CAPACITY_MAX).contains(&capacity) {
            return Err(invalid(format!("cannot share a ring of {capacity} bytes")));
        }
        let page_bytes = base_page_bytes();
        Ok(Ring { mapped: Mapped::shared(page_bytes + capacity)?, capacity, page_bytes })
    }

    /// Bytes written so far, modulo 2^31, in steps of [`STEP`].
    #[inline]
    fn written(&self) -> &AtomicU32 {
        // SAFETY: the first page holds the positions, aligned, for as long as `self`.
        unsafe { self.mapped.start().cast::<AtomicU32>().as_ref() }
    }

    /// Bytes read so far, as [`Ring::written`].
    #[inline]
    fn read(&self) -> &AtomicU32 {
        // SAFETY: as in `written`; a page is longer than `APART`.
        unsafe { self.mapped.start().add(APART).cast::<AtomicU32>().as_ref() }
    }

    fn part(&self) -> usize {
        self.capacity / PARTS
    }

    /// Bytes on their way.
    #[inline]
    fn filled(&self) -> io::Result<usize> {
        let position = |word: &AtomicU32| word.load(Ordering::Acquire) & !WAITED_FOR;
        let filled = position(self.written()).wrapping_sub(position(self.read())) / STEP;
        match filled as usize {
            filled if filled <= self.capacity => Ok(filled),
            filled => Err(io::Error::other(format!(
                "{filled} bytes in a ring of {}: a second writer or reader?",
                self.capacity
            ))),
        }
    }

    /// Waits until the other side moves `word`, unless it has: `enough` is asked of the bytes on
    /// their way after the wish to be woken stands in the word.
    fn wait(&self, word: &AtomicU32, enough: impl Fn(usize) -> bool) -> io::Result<()> {
        let seen = word.fetch_or(WAITED_FOR, Ordering::AcqRel) | WAITED_FOR;
        if enough(self.filled()?) { Ok(()) } else { futex_wait(word, seen, Scope::Machine) }
    }

    /// Moves a position, which only its own side does, and wakes the other side if it waits.
    #[inline]
    fn advance(&self, word: &AtomicU32, bytes: usize) -> io::Result<()> {
        let position = word.load(Ordering::Relaxed) & !WAITED_FOR;
        let next = position.wrapping_add(STEP.wrapping_mul(bytes as u32));
        if word.swap(next, Ordering::AcqRel) & WAITED_FOR != 0 {
            futex_wake(word, 1, Scope::Machine)?;
        }
        Ok(())
    }

    #[inline]
    fn offset(&self, word: &AtomicU32) -> usize {
        (word.load(Ordering::Relaxed) / STEP) as usize & (self.capacity - 1)
    }

    /// Copies `bytes`, no more than there is room for, behind the last ones.
    #[inline]
    fn copy_in(&self, bytes: &[u8]) {
        let at = self.offset(self.written());
        let first = bytes.len().min(self.capacity - at);
        // SAFETY: both parts lie inside the ring, whose bytes no reference covers; the reader does
        // not touch this part until the position passes it.
        unsafe {
            let ring = self.mapped.start().add(self.page_bytes);
            ring.add(at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), first);
            let rest = NonNull::from(bytes).cast::<u8>().add(first);
            ring.copy_from_nonoverlapping(rest, bytes.len() - first);
        }
    }

    /// Copies the oldest bytes, as many as `buffer` has and no more than there are.
    #[inline]
    fn copy_out(&self, buffer: &mut [u8]) {
        let at = self.offset(self.read());
        let first = buffer.len().min(self.capacity - at);
        let rest = buffer.len() - first;
        let to = NonNull::from(buffer).cast::<u8>();
        // SAFETY: as in `copy_in`, with the sides exchanged.
        unsafe {
            let ring = self.mapped.start().add(self.page_bytes);
            to.copy_from_nonoverlapping(ring.add(at), first);
            to.add(first).copy_from_nonoverlapping(ring, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP, shared_stream};
    use crate::process::Child;
    use std::sync::atomic::Ordering;

    /// Bytes that are never 0 and not the same in any two rounds of a small ring.
    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at % 251 + 1) as u8).collect()
    }

    #[test]
    fn what_is_written_is_read_through_a_ring_smaller_than_it() {
        let (mut writer, mut reader) = shared_stream(64).expect("maps");
        let sent = bytes(10_000);
        let child = Child::fork(|| {
            // Parts of other sizes than the reader's.
            let written = sent.chunks(77).try_for_each(|part| writer.write_all(part));
            i32::from(written.is_err())
        })
        .expect("forks");
        let mut got = vec![0; sent.len()];
        for part in got.chunks_mut(100) {
            reader.read_exact(part).expect("reads");
        }
        child.succeed().expect("all is written");
        assert!(got == sent);
    }

    #[test]
    fn positions_wrap() {
        let (mut writer, mut reader) = shared_stream(64).expect("maps");
        let near_the_end = 0u32.wrapping_sub(STEP * 16);
        for word in [writer.0.written(), writer.0.read()] {
            word.store(near_the_end, Ordering::Relaxed);
        }
        let sent = bytes(48);
        for _ in 0..3 {
            let mut got = vec![0; sent.len()];
            writer.write_all(&sent).expect("has room");
            assert_eq!(writer.0.filled().expect("sane"), sent.len());
            reader.read_exact(&mut got).expect("is there");
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn a_spoilt_ring_is_an_error() {
        let (mut writer, mut reader) = shared_stream(64).expect("maps");
        writer.0.written().store(STEP * 65, Ordering::Relaxed);
        reader.read_exact(&mut [0]).expect_err("too full");
        writer.write_all(&[1]).expect_err("too full");
    }

    #[test]
    fn rings_of_odd_sizes_are_refused() {
        for capacity in [0, 1, 3, 96, 1 << 31] {
            shared_stream(capacity).expect_err("is refused");
        }
    }
}
