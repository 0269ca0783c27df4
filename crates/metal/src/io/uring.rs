//! Many operations at a time through io_uring.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;

use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue, types};

use super::{Buffers, Failure, Latencies, Op, Ran, Steady, Stop};
use crate::clock::{Clock, vdso_clock_gettime};

/// So many operations are submitted together at most. The kernel passes them to the device at the
/// end of a call: it then works on the first while the rest are prepared, which on a virtual disk
/// is up to a third more of them (docs/notes/2026-11-22-crosscheck-files.md).
const AT_ONCE: usize = 4;
/// A drain that the kernel refuses so often will never end.
const MOST_REFUSED: u32 = 1_000_000;

/// What a ring is to have; what the kernel does not give is an error, never left out in silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringSetup {
    /// The kernel holds the file, so that no operation looks it up.
    pub registered_file: bool,
    /// The kernel holds the pages of the blocks, so that no operation pins them. They count against
    /// `RLIMIT_MEMLOCK` of a process without `CAP_IPC_LOCK`.
    pub registered_buffers: bool,
}

impl UringSetup {
    pub const REGISTERED: UringSetup =
        UringSetup { registered_file: true, registered_buffers: true };
}

/// A ring for reads and writes of one file, with one block or several in turn for each operation in
/// flight. It is used by the thread that made it, because the kernel requires it.
pub struct Uring {
    // Dropped before the blocks that the kernel holds through it.
    ring: IoUring,
    work: Work,
    /// Not to be sent to another thread.
    here: PhantomData<*const ()>,
}

/// All but the ring.
struct Work {
    file: File,
    buffers: Buffers,
    setup: UringSetup,
    /// Offset of the operation that last used a block.
    offsets: Vec<Option<u64>>,
    /// Tick of the last submission of a slot.
    submitted: Vec<u64>,
    /// The block of a slot's last operation: a slot goes round in every depth-th block.
    block_of: Vec<u16>,
    slots: Free,
}

impl Uring {
    /// A ring of depth `buffers.count()`. Errors: as for [`Uring::with_depth`].
    pub fn new(file: File, buffers: Buffers, setup: UringSetup) -> io::Result<Uring> {
        let depth = buffers.count();
        Uring::with_depth(file, buffers, depth, setup)
    }

    /// A ring of a depth that goes round in as many blocks as there are: what is written one after
    /// another is then different, and not one block again and again. Errors: fewer blocks than the
    /// depth, or a number of them that it does not divide (EINVAL). No io_uring in this kernel
    /// (ENOSYS), or forbidden (EPERM: `kernel.io_uring_disabled`, seccomp); more than 16384 blocks
    /// (EINVAL); blocks that may not be locked (ENOMEM).
    pub fn with_depth(
        file: File,
        buffers: Buffers,
        depth: usize,
        setup: UringSetup,
    ) -> io::Result<Uring> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        // 16 bits of an operation identify its block.
        u16::try_from(buffers.count()).map_err(|_| invalid())?;
        if depth == 0 || !buffers.count().is_multiple_of(depth) {
            return Err(invalid());
        }
        let depth = depth as u16;
        let ring = ring(u32::from(depth))?;
        let submitter = ring.submitter();
        if setup.registered_file {
            submitter.register_files(&[file.as_raw_fd()])?;
        }
        if setup.registered_buffers {
            let blocks: Vec<libc::iovec> = (0..buffers.count())
                .map(|index| libc::iovec {
                    iov_base: buffers.get(index).as_ptr().cast_mut().cast(),
                    iov_len: buffers.block_bytes(),
                })
                .collect();
            // SAFETY: the blocks are mapped for as long as the ring is: `Uring` owns both, and
            // drops the ring first.
            unsafe { submitter.register_buffers(&blocks) }?;
        }
        Ok(Uring {
            ring,
            work: Work {
                file,
                offsets: vec![None; buffers.count()],
                submitted: vec![0; usize::from(depth)],
                // The first operation of a slot has the block after the last, which is its first.
                block_of: (0..depth).map(|slot| last_of(slot, &buffers, depth)).collect(),
                buffers,
                setup,
                slots: Free::all(depth),
            },
            here: PhantomData,
        })
    }

    pub fn file(&self) -> &File {
        &self.work.file
    }

    /// The blocks, as the last operations left them.
    pub fn buffers(&self) -> &Buffers {
        &self.work.buffers
    }

    /// Where in the file the block of a buffer was last read or written; `None` if never.
    pub fn offset_of(&self, index: usize) -> Option<u64> {
        self.work.offsets[index]
    }

    /// Keeps `buffers.count()` operations in flight at the offsets that are given, until `stop` or
    /// their end, then waits for the rest. Each time that completions are seen, all of their blocks
    /// are submitted again, a few at a time, and with the last of these system calls the next
    /// completion is waited for. `now` reads the clock: just before each call and just after the
    /// last. Every operation is logged, those as well that complete after the last submission: they
    /// were submitted into a full queue, and the slowest of all are among them. The steady stretch
    /// ends before, because fewer and fewer are in flight then: `stop.at_least` is to be several
    /// times the depth. Errors: the first operation that failed or was short; no operation is in
    /// flight then. [`Op::WriteSynced`] is not for rings.
    #[inline]
    pub fn run(
        &mut self,
        op: Op,
        offsets: impl FnMut() -> Option<u64>,
        now: impl Fn() -> u64,
        stop: Stop,
        log: &mut Latencies,
    ) -> Result<Ran, Failure> {
        if op == Op::WriteSynced {
            let reason = "a ring does not write and sync in one operation";
            let error = io::Error::new(io::ErrorKind::Unsupported, reason);
            return Err(Failure::Engine(error));
        }
        let (mut submitter, mut queue, mut done) = self.ring.split();
        // The kernel then need not look the ring up (Linux 5.18); else calls cost a little more.
        let is_registered = submitter.register_ring_fd().is_ok();
        let rings = Rings { submitter: &submitter, queue: &mut queue, done: &mut done };
        let cpu_before_ns = vdso_clock_gettime(Clock::THREAD_CPU);
        let mut state = State::new(now());
        let outcome = self.work.turns(rings, op, offsets, &now, stop, log, &mut state);
        let thread_cpu_ns = vdso_clock_gettime(Clock::THREAD_CPU) - cpu_before_ns;
        if is_registered {
            submitter.unregister_ring_fd().map_err(Failure::Engine)?;
        }
        drop((queue, done));
        match outcome {
            Ok(()) => Ok(state.ran(self.work.buffers.block_bytes(), thread_cpu_ns)),
            Err(failure) => {
                self.drain();
                Err(failure)
            }
        }
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) {
        let mut refused = 0;
        while self.work.slots.in_flight() > 0 {
            if self.ring.submit_and_wait(1).is_err() {
                refused += 1;
                // The kernel may write to the blocks until it has said that it is done.
                if refused == MOST_REFUSED {
                    std::process::abort();
                }
            }
            for completion in self.ring.completion() {
                self.work.slots.give(completion.user_data() as u16);
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.drain();
    }
}

/// The two queues and the way to the kernel, for the length of a run.
struct Rings<'run, 'ring> {
    submitter: &'run Submitter<'ring>,
    queue: &'run mut SubmissionQueue<'ring>,
    done: &'run mut CompletionQueue<'ring>,
}

impl Work {
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "those of `Uring::run`, taken apart")]
    fn turns(
        &mut self,
        rings: Rings<'_, '_>,
        op: Op,
        mut offsets: impl FnMut() -> Option<u64>,
        now: &impl Fn() -> u64,
        stop: Stop,
        log: &mut Latencies,
        state: &mut State,
    ) -> Result<(), Failure> {
        let bytes = self.buffers.block_bytes();
        self.slots.before = self.slots.left;
        loop {
            while !state.is_over && self.slots.left > 0 {
                let goes_on = !stop.is_over(state.begun, state.tick);
                let Some(offset) = goes_on.then(&mut offsets).flatten() else {
                    state.is_over = true;
                    break;
                };
                let entry = self.entry(op, offset);
                // SAFETY: the block is the ring's until its completion is seen: every way out of
                // `run`, and the drop, waits for what is in flight.
                let pushed = unsafe { rings.queue.push(&entry) };
                // The queue has room for all slots.
                pushed.map_err(|_| Failure::Engine(io::Error::other("the queue is full")))?;
                self.slots.left -= 1;
                state.begun += 1;
                if self.slots.just_taken().len() == AT_ONCE && self.slots.left > 0 {
                    rings.queue.sync();
                    self.submits(now(), state);
                    enter(rings.submitter, 0)?;
                }
            }
            rings.queue.sync();
            if self.slots.in_flight() == 0 {
                return Ok(());
            }
            self.submits(now(), state);
            enter(rings.submitter, 1)?;
            let tick = now();
            rings.queue.sync();
            rings.done.sync();
            let mut failure = None;
            let mut seen = 0;
            for completion in &mut *rings.done {
                let slot = completion.user_data() as usize;
                self.slots.give(slot as u16);
                seen += 1;
                let result = i64::from(completion.result());
                if result != bytes as i64 {
                    let offset = self.offsets[usize::from(self.block_of[slot])].unwrap_or_default();
                    failure.get_or_insert(Failure::from_result(op, offset, bytes, result));
                } else {
                    log.add(tick.saturating_sub(self.submitted[slot]));
                }
            }
            self.slots.before = self.slots.left;
            state.seen(seen, tick);
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
    }

    /// What was taken is submitted now.
    #[inline(always)]
    fn submits(&mut self, tick: u64, state: &mut State) {
        for slot in self.slots.just_taken() {
            self.submitted[usize::from(*slot)] = tick;
        }
        self.slots.before = self.slots.left;
        state.submitted(self.slots.in_flight() as u32, tick);
    }

    /// The operation at `offset` with the next block of the next free slot.
    #[inline(always)]
    fn entry(&mut self, op: Op, offset: u64) -> squeue::Entry {
        let slot = self.slots.next();
        let depth = self.block_of.len() as u16;
        let next = self.block_of[usize::from(slot)] + depth;
        let index = if usize::from(next) < self.offsets.len() { next } else { slot };
        self.block_of[usize::from(slot)] = index;
        let block = usize::from(index);
        self.offsets[block] = Some(offset);
        if op.writes() {
            self.buffers.stamp(block);
        }
        let block = self.buffers.get_mut(block);
        let (start, bytes) = (block.as_mut_ptr(), block.len() as u32);
        // The same operation for a file that is registered and for one that is not.
        macro_rules! built {
            ($file:expr) => {
                match (op == Op::Read, self.setup.registered_buffers) {
                    (true, true) => {
                        opcode::ReadFixed::new($file, start, bytes, index).offset(offset).build()
                    }
                    (true, false) => opcode::Read::new($file, start, bytes).offset(offset).build(),
                    (false, true) => {
                        opcode::WriteFixed::new($file, start, bytes, index).offset(offset).build()
                    }
                    (false, false) => {
                        opcode::Write::new($file, start, bytes).offset(offset).build()
                    }
                }
            };
        }
        let entry = match self.setup.registered_file {
            true => built!(types::Fixed(0)),
            false => built!(types::Fd(self.file.as_raw_fd())),
        };
        entry.user_data(u64::from(slot))
    }
}

/// The slots that no operation uses, the next at the end of `left`.
struct Free {
    slots: Vec<u16>,
    left: usize,
    /// How many there were at the last submission or completion.
    before: usize,
}

impl Free {
    fn all(count: u16) -> Free {
        let left = usize::from(count);
        Free { slots: (0..count).rev().collect(), left, before: left }
    }

    #[inline(always)]
    fn next(&self) -> u16 {
        self.slots[self.left - 1]
    }

    /// Those taken and not yet submitted.
    #[inline(always)]
    fn just_taken(&self) -> &[u16] {
        &self.slots[self.left..self.before]
    }

    #[inline(always)]
    fn give(&mut self, slot: u16) {
        self.slots[self.left] = slot;
        self.left += 1;
    }

    #[inline(always)]
    fn in_flight(&self) -> usize {
        self.slots.len() - self.left
    }
}

/// The last of the blocks that a slot goes round in.
fn last_of(slot: u16, buffers: &Buffers, depth: u16) -> u16 {
    (buffers.count() - usize::from(depth)) as u16 + slot
}

#[derive(Default)]
struct State {
    first_tick: u64,
    /// Of the last event.
    tick: u64,
    begun: u64,
    completed: u64,
    in_flight: u32,
    most_in_flight: u32,
    /// Operations in flight times ticks, over the steady stretch.
    area: u128,
    steady: Steady,
    /// No more are submitted.
    is_over: bool,
}

impl State {
    fn new(tick: u64) -> State {
        State { first_tick: tick, tick, ..State::default() }
    }

    #[inline(always)]
    fn goes_to(&mut self, tick: u64) {
        if self.completed > 0 && !self.is_over {
            self.area += u128::from(self.in_flight) * u128::from(tick.saturating_sub(self.tick));
        }
        self.tick = tick;
    }

    #[inline(always)]
    fn submitted(&mut self, in_flight: u32, tick: u64) {
        self.goes_to(tick);
        self.in_flight = in_flight;
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    #[inline(always)]
    fn seen(&mut self, count: u32, tick: u64) {
        self.goes_to(tick);
        self.in_flight -= count;
        if count > 0 && !self.is_over {
            if self.completed == 0 {
                self.steady.from_tick = tick;
            } else {
                self.steady.operations += u64::from(count);
            }
            self.steady.until_tick = tick;
        }
        self.completed += u64::from(count);
    }

    fn ran(self, block_bytes: usize, thread_cpu_ns: u64) -> Ran {
        let steady_ticks = self.steady.until_tick - self.steady.from_tick;
        Ran {
            operations: self.completed,
            bytes: self.completed * block_bytes as u64,
            first_tick: self.first_tick,
            last_tick: self.tick,
            steady: self.steady,
            most_in_flight: self.most_in_flight,
            mean_in_flight: match steady_ticks {
                0 => f64::from(self.most_in_flight),
                ticks => self.area as f64 / ticks as f64,
            },
            thread_cpu_ns,
        }
    }
}

/// A ring with as little to do on completion as this kernel allows: those of fio's engine
/// (`IORING_SETUP_DEFER_TASKRUN` is Linux 6.1). Kernels that know less get less.
fn ring(depth: u32) -> io::Result<IoUring> {
    let is_unknown = |ring: &io::Result<IoUring>| {
        ring.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    };
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
    let mut cooperative = IoUring::builder();
    cooperative.setup_coop_taskrun();
    for builder in [deferred, cooperative] {
        let ring = builder.build(depth);
        if !is_unknown(&ring) {
            return ring;
        }
    }
    IoUring::new(depth)
}

/// Submits what is in the queue and waits for so many completions, again after a signal.
#[inline(always)]
fn enter(submitter: &Submitter<'_>, completions: usize) -> Result<(), Failure> {
    loop {
        match submitter.submit_and_wait(completions) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Engine(error)),
        }
    }
}
