//! What the system calls work on: files, a pipe, an epoll set, pools of descriptors.

use anyhow::{Context, Result, ensure};
use bench::measure::{Bench, Quartet, Watch};
use metal::clock::monotonic_raw_ns;
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
    /// Opens everything, or says what could not be opened.
    pub(super) fn new() -> Result<Calls> {
        let (reader, writer) = std::io::pipe().context("a pipe")?;
        let epoll = raw::epoll_create().context("an epoll set")?;
        raw::epoll_add(epoll.as_fd(), reader.as_fd()).context("a pipe in an epoll set")?;
        let null = OpenOptions::new().write(true).open("/dev/null");
        Ok(Calls {
            zero: File::open("/dev/zero").context("/dev/zero")?,
            null: null.context("/dev/null")?,
            program: File::open("/proc/self/exe").context("plumb's own program file")?,
            page: vec![1; PAGE_BYTES],
            word: AtomicU32::new(0),
            epoll,
            reader,
            _writer: writer,
        })
    }
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
    bench.time(case, "latency", |n| {
        for _ in 0..n {
            let returned = once()?;
            ensure!(returned == expected, "it returned {returned}, not {expected}");
        }
        Ok(())
    })?;
    Ok(())
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

    /// A quartet of pools: short, long, long, short. Of opening and of closing, the sums of the two
    /// short and of the two long ones, in ns.
    ///
    /// # Errors
    /// Those of open(2) and close(2).
    pub(super) fn quartet(&mut self, watch: &mut Watch) -> Result<[Quartet; 2]> {
        let short = self.short;
        let mut pools = [[0; 2]; 4];
        for (pool, count) in pools.iter_mut().zip([short, 2 * short, 2 * short, short]) {
            *pool = self.once(count)?;
            watch.batch((pool[0] + pool[1]) as f64);
        }
        let [first, second, third, fourth] = pools;
        let sums = |side: usize| {
            ((first[side] + fourth[side]) as f64, (second[side] + third[side]) as f64)
        };
        Ok([sums(0), sums(1)])
    }

    /// Opens `count` descriptors and closes them; ns of both.
    fn once(&mut self, count: usize) -> Result<[u64; 2]> {
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
        Ok([opened - start, closed - opened])
    }
}
