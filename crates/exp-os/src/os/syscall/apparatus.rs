//! What the system calls work on: files, a pipe, an epoll set, pools of descriptors.

use anyhow::{Context, Result, ensure};
use bench::measure::{Bench, Watch};
use metal::clock::monotonic_raw_ns;
use metal::kernel::{ClockRead, clock_read};
use metal::raw;
use record::case::Case;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

/// Bytes of the page that is read and of the area that is mapped.
pub(super) const PAGE_BYTES: usize = 4096;

/// The apparatus of the calls that are simply repeated.
pub(super) struct Calls {
    pub(super) zero: File,
    pub(super) null: File,
    pub(super) program: File,
    pub(super) page: Vec<u8>,
    pub(super) word: AtomicU32,
    pub(super) epoll: OwnedFd,
    pub(super) reader: PipeReader,
    /// Kept open: a pipe without a writer is ready for reading.
    _writer: PipeWriter,
}

impl Calls {
    /// Opens everything.
    ///
    /// # Errors
    /// What could not be opened.
    pub(super) fn new() -> Result<Calls> {
        let program = File::open("/proc/self/exe").context("plumb's own program file")?;
        let (reader, writer) = std::io::pipe().context("a pipe")?;
        let epoll = raw::epoll_create().context("an epoll set")?;
        raw::epoll_add(epoll.as_fd(), reader.as_fd()).context("a pipe in an epoll set")?;
        Ok(Calls {
            zero: File::open("/dev/zero").context("/dev/zero")?,
            null: OpenOptions::new().write(true).open("/dev/null").context("/dev/null")?,
            program,
            page: vec![1; PAGE_BYTES],
            word: AtomicU32::new(0),
            epoll,
            reader,
            _writer: writer,
        })
    }
}

/// Times a read of a clock, as clock.read does.
pub(super) fn clocks(bench: &mut Bench, case: &Case, clock: ClockRead) -> Result<()> {
    bench.time(case, "latency", |n| {
        black_box(clock_read(clock, n));
    })?;
    Ok(())
}

/// Times a call that cannot fail.
pub(super) fn read<T>(bench: &mut Bench, case: &Case, once: impl Fn() -> T) -> Result<()> {
    bench.time(case, "latency", |n| {
        for _ in 0..n {
            black_box(once());
        }
    })?;
    Ok(())
}

/// Times a call that must return `expected` each time.
pub(super) fn serve(
    bench: &mut Bench,
    case: &Case,
    expected: usize,
    mut once: impl FnMut() -> std::io::Result<usize>,
) -> Result<()> {
    bench.try_time(case, "latency", |n| {
        for _ in 0..n {
            let returned = once()?;
            ensure!(returned == expected, "it returned {returned}, not {expected}");
        }
        Ok(())
    })?;
    Ok(())
}

/// Lengths of one quartet of pools, in ns: the sums of the two short and of the two long pools.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quartet {
    pub(super) open: (f64, f64),
    pub(super) close: (f64, f64),
}

impl Quartet {
    /// From opening and closing a short, a long, a long and a short pool.
    pub(super) fn of([first, second, third, fourth]: [(u64, u64); 4]) -> Quartet {
        let sums = |of: fn((u64, u64)) -> u64| {
            let short = of(first) + of(fourth);
            let long = of(second) + of(third);
            (short as f64, long as f64)
        };
        Quartet { open: sums(|(open, _)| open), close: sums(|(_, close)| close) }
    }
}

/// Descriptors that are opened in one go and closed in one go.
pub(super) struct Pools {
    open: Vec<OwnedFd>,
    short: usize,
}

impl Pools {
    /// Pools of `short` and twice as many. The descriptor table has grown when this returns.
    ///
    /// # Errors
    /// So many files may not be open.
    pub(super) fn new(short: usize) -> Result<Pools> {
        ensure!(short > 0, "a pool of no descriptors");
        let mut pools = Pools { open: Vec::with_capacity(2 * short), short };
        pools.once(2 * short)?;
        Ok(pools)
    }

    /// A quartet of pools: short, long, long, short.
    ///
    /// # Errors
    /// Those of open(2) and close(2).
    pub(super) fn quartet(&mut self, watch: &mut Watch) -> Result<Quartet> {
        let short = self.short;
        let mut batches = [(0, 0); 4];
        for (batch, count) in batches.iter_mut().zip([short, 2 * short, 2 * short, short]) {
            *batch = self.once(count)?;
            watch.batch((batch.0 + batch.1) as f64);
        }
        Ok(Quartet::of(batches))
    }

    /// Opens `count` descriptors and closes them; ns of both.
    fn once(&mut self, count: usize) -> Result<(u64, u64)> {
        let start = monotonic_raw_ns();
        for _ in 0..count {
            let fd = raw::openat(None, c"/dev/null", 0).context("open of /dev/null")?;
            self.open.push(fd);
        }
        let opened = monotonic_raw_ns();
        for fd in self.open.drain(..) {
            raw::close(fd).context("close of /dev/null")?;
        }
        let closed = monotonic_raw_ns();
        Ok((opened - start, closed - opened))
    }
}
