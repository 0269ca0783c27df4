//! Perf events that are kept in a ring: the kernel's tracepoints on a CPU, and the switches of a
//! thread, each with its time.
//!
//! The ring is not overwritten: what finds no room is lost and counted, and the stretch for which
//! that may be so is known ([`Ring::holes`]). No thread is woken, so tracing costs the writing of
//! the records and no extra interrupt. Times are `CLOCK_MONOTONIC_RAW`'s.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer::{done, owned};
use crate::clock::{self, Clock};
use crate::memory::{Mapped, base_page_bytes};

mod record;

pub use record::Record;

/// `perf_event_attr` as of Linux 4.1 (PERF_ATTR_SIZE_VER3), which every later kernel takes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_watermark: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clock: i32,
}

const _: () = assert!(size_of::<Attributes>() == 96);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const PERF_FORMAT_LOST: u64 = 1 << 4;
const PERF_FLAG_FD_CLOEXEC: usize = 8;
const DISABLED: u64 = 1;
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const EXCLUDE_HV: u64 = 1 << 6;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// Written like this: `_IO('$', …)`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// Offsets in the ring's first page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
/// A ring with less room than this may have refused a record: longer than any that is asked for.
const MARGIN_BYTES: u64 = 1024;

/// Events of one CPU or of one thread, in one buffer.
#[derive(Debug)]
pub struct Ring {
    /// The first is the group's leader, whose buffer the others use.
    events: Vec<File>,
    tells_lost: bool,
    map: Mapped,
    page_bytes: usize,
    data_bytes: usize,
    holes: Vec<(u64, u64)>,
}

impl Ring {
    /// These tracepoints of the kernel (by number, from tracefs) on `cpu`, for all threads there,
    /// in a buffer of at least `bytes`. They begin with [`Ring::start`]. Errors: those of
    /// perf_event_open(2) and mmap(2): EACCES or EPERM without the right to trace the kernel,
    /// EMFILE when there are too many files, EINVAL before Linux 4.1.
    pub fn of_cpu(cpu: usize, tracepoints: &[u64], bytes: usize) -> io::Result<Ring> {
        let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
        let sampled = Attributes {
            sample_type: PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
            sample_period: 1,
            ..Attributes::default()
        };
        let leader = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_DUMMY,
            flags: DISABLED,
            ..sampled
        };
        let (leader, tells_lost) = open(leader, -1, cpu, None)?;
        let mut ring = Ring::map(leader, tells_lost, bytes)?;
        for tracepoint in tracepoints {
            let attributes =
                Attributes { kind: PERF_TYPE_TRACEPOINT, config: *tracepoint, ..sampled };
            let leader = &ring.events[0];
            let (event, _) = open(attributes, -1, cpu, Some(leader))?;
            control(&event, IOC_SET_OUTPUT, leader.as_raw_fd())?;
            ring.events.push(event);
        }
        Ok(ring)
    }

    /// When the thread `tid` (0: the calling one) is switched out and in, whoever runs instead, in
    /// a buffer of at least `bytes`. It begins with [`Ring::start`]. Linux 4.3. Errors: those of
    /// perf_event_open(2) and mmap(2): EACCES where `perf_event_paranoid` is above 2, or for
    /// another user's thread.
    pub fn of_thread(tid: u32, bytes: usize) -> io::Result<Ring> {
        let tid = i32::try_from(tid).map_err(io::Error::other)?;
        let attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_DUMMY,
            sample_type: PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | CONTEXT_SWITCH,
            ..Attributes::default()
        };
        let (event, tells_lost) = open(attributes, tid, -1, None)?;
        Ring::map(event, tells_lost, bytes)
    }

    fn map(leader: File, tells_lost: bool, bytes: usize) -> io::Result<Ring> {
        let page_bytes = base_page_bytes();
        let data_bytes = bytes.div_ceil(page_bytes).next_power_of_two() * page_bytes;
        let map = Mapped::new(
            page_bytes + data_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            leader.as_raw_fd(),
            0,
        )?;
        Ok(Ring {
            events: vec![leader],
            tells_lost,
            map,
            page_bytes,
            data_bytes,
            holes: Vec::new(),
        })
    }

    /// The events begin, all together. Errors: those of ioctl(2).
    pub fn start(&self) -> io::Result<()> {
        control(&self.events[0], IOC_ENABLE, 0)
    }

    /// The events end, all together. Errors: those of ioctl(2).
    pub fn stop(&self) -> io::Result<()> {
        control(&self.events[0], IOC_DISABLE, 0)
    }

    /// Hands every record since the last call to `take`, in the order of the ring, and makes room.
    pub fn drain(&mut self, mut take: impl FnMut(Record<'_>)) {
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let bytes = self.copy(tail, head);
        self.word(DATA_TAIL).store(head, Ordering::Release);
        let room_ends = (self.data_bytes as u64).saturating_sub(MARGIN_BYTES);
        let mut hole_from = None;
        for (end, record) in record::all(&bytes) {
            if end as u64 > room_ends && hole_from.is_none() {
                hole_from = record.time_ns();
            }
            take(record);
        }
        if let Some(from_ns) = hole_from {
            self.holes.push((from_ns, clock::monotonic_raw_ns()));
        }
    }

    /// Stretches in which records may be missing because the ring was full, in ns of
    /// `CLOCK_MONOTONIC_RAW`, as far as [`Ring::drain`] has come.
    pub fn holes(&self) -> &[(u64, u64)] {
        &self.holes
    }

    /// Records that found no room since the ring was made; `None` before Linux 6.0, whose kernels
    /// do not report it.
    pub fn lost(&self) -> Option<u64> {
        let lost = |event: &File| {
            // The value, then the count of lost ones.
            let mut bytes = [0u8; 16];
            let mut event: &File = event;
            event.read_exact(&mut bytes).ok()?;
            let count = bytes[8..].try_into().expect("the rest has eight bytes");
            Some(u64::from_ne_bytes(count))
        };
        self.tells_lost.then_some(())?;
        self.events.iter().map(lost).sum()
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.data_bytes
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped, writable and page-aligned as long as `self` lives, both
        // offsets are multiples of eight in it, and the kernel accesses the words atomically.
        unsafe { AtomicU64::from_ptr(self.map.as_ptr().add(offset).cast()) }
    }

    /// The bytes from `tail` to `head`, which count on without end while the ring repeats.
    fn copy(&self, tail: u64, head: u64) -> Vec<u8> {
        let size = self.data_bytes as u64;
        let count = (head - tail).min(size) as usize;
        let at = (tail % size) as usize;
        let first = count.min(self.data_bytes - at);
        let mut bytes = Vec::with_capacity(count);
        // SAFETY: the data follow the first page; `at + first` and `count - first` are within their
        // length. The kernel wrote these bytes before it moved the head, which was read with
        // acquire, and writes no others there before the tail is moved.
        unsafe {
            let data = self.map.as_ptr().add(self.page_bytes);
            bytes.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            bytes.extend_from_slice(std::slice::from_raw_parts(data, count - first));
        }
        bytes
    }
}

/// Opens an event, with the count of lost records where the kernel has it.
fn open(
    mut attributes: Attributes,
    pid: i32,
    cpu: i32,
    leader: Option<&File>,
) -> io::Result<(File, bool)> {
    attributes.flags |= WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID;
    // No thread is to be woken: the mark is the whole ring, whatever its length.
    attributes.wakeup_watermark = u32::MAX;
    attributes.clock = Clock::MONOTONIC_RAW.id();
    attributes.read_format = PERF_FORMAT_LOST;
    match attributes.open(pid, cpu, leader) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attributes.read_format = 0;
            Ok((attributes.open(pid, cpu, leader)?, false))
        }
        Err(error) => Err(error),
    }
}

impl Attributes {
    /// Opens the event of a thread (0: the calling one; -1: any) on a CPU (-1: any).
    pub(crate) fn open(mut self, pid: i32, cpu: i32, leader: Option<&File>) -> io::Result<File> {
        self.size = size_of::<Attributes>() as u32;
        let group = leader.map_or(-1, AsRawFd::as_raw_fd);
        let (call, on_exec) = (libc::SYS_perf_event_open, PERF_FLAG_FD_CLOEXEC);
        // SAFETY: the kernel reads `size` bytes of the attributes, which is their length; it owns
        // what it opens.
        unsafe { owned(libc::syscall(call, &raw const self, pid, cpu, group, on_exec)) }
            .map(File::from)
    }
}

fn control(event: &File, request: libc::c_ulong, argument: i32) -> io::Result<()> {
    // SAFETY: these requests take a plain value.
    done(unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) })
}

#[cfg(test)]
mod tests;
