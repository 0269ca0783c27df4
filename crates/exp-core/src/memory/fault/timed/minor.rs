//! Faults that need no device: n touches of fresh pages against 2n, in windows that hold nothing
//! but the touches, and each batch with the kernel's count of its faults.

use super::super::Touch;
use bench::measure::placed::{bind, near_node, verify_node, verify_pages};
use bench::measure::{Quartet, Timer, Turns, Watch, abba};
use bench::prelude::*;
use host::refused;
use metal::clock::monotonic_raw_ns;
use metal::fault::{Area, TURN_TOUCHES, resident_pages, stress_turn, unlinked};
use metal::memory::{Mapping, Pages, base_page_bytes, huge_page_bytes};
use metal::process::{Child, rusage_thread};
use metal::signal::Mender;
use std::fs::File;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

/// Addresses of fresh base pages; only as many are ever touched as two batches need.
const FRESH_BYTES: usize = 64 << 20;
/// The same of huge pages, at least two.
const FRESH_HUGE_BYTES: usize = 64 << 20;
/// A file in the page cache, and how many faults its mappings have room for.
const FILE_BYTES: usize = 4 << 20;
const FILE_FAULTS: usize = 4096;
/// Pages that a child shares until they are written, and pages that are protected.
const SHARED_PAGES: usize = 4096;
/// Turns of a case at least.
const TURNS_MIN: usize = 8;

/// Pages that fault when they are touched.
trait Touched {
    fn room(&self) -> usize;
    /// Has the next `count` pages fault again. Outside of every window.
    fn renew(&mut self, count: usize) -> Result<()>;
    /// Touches them once each: the window.
    fn touch(&mut self, count: usize);
    /// Faults of the last touch, if another counter than the kernel's minor faults applies.
    fn delivered(&self) -> Option<u64> {
        None
    }
    /// What is to be verified while the pages of the last touch are there, with notes.
    fn verify(&self, _notes: &mut Vec<String>) -> Result<()> {
        Ok(())
    }
    /// How many pages a fault maps, where that is the question.
    fn mapped(&self) -> Mapped {
        Mapped::NotAsked
    }
    /// Times that this thread was switched from in favour of a child of its own.
    fn planned_switches(&self) -> u64 {
        0
    }
}

/// Pages that one fault maps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mapped {
    NotAsked,
    /// The result of touches over faults of the batches.
    ByBatches,
    Counted(f64),
}

pub(in crate::memory::fault) fn time(case: &Case, touch: Touch, bench: &mut Bench) -> Result<()> {
    if touch == Touch::Stress {
        return turns(case, bench);
    }
    let dir = bench.order().dir.clone().unwrap_or_else(std::env::temp_dir);
    let seed = bench.order().seed;
    let mut touched = apparatus(touch, &dir, seed)?;
    let timer = bench.timer();
    let mut counted = Counted::new(touched.as_mut(), timer);
    let batch = timer.search(&mut |n| counted.batch(n)).context("searching for a batch")?;
    let k = batch.operations.min(counted.most());
    let turns = timer.repeat(&mut |watch| counted.turn(k, watch))?;
    counted.refuse(&turns)?;
    let wrong = counted.void_note();
    let all = counted.all;
    bench.declare(Declared::Switches(touched.planned_switches()));
    // The last batch is there still.
    let mut notes = Vec::new();
    touched.verify(&mut notes)?;
    let samples = bench.record(case, "latency", Values::quartets(k, turns))?;
    let told = notes.into_iter().chain(batch.note());
    samples.notes.extend(told.chain(wrong));
    let pages = match touched.mapped() {
        Mapped::NotAsked => return Ok(()),
        Mapped::ByBatches => all.touches as f64 / all.faults as f64,
        Mapped::Counted(pages) => pages,
    };
    bench.record(case, "pages_per_fault", Values::batches(1, vec![pages]))?;
    Ok(())
}

/// Turns of stress-ng's stressor: the mean of the four touches that it times, turn by turn.
fn turns(case: &Case, bench: &mut Bench) -> Result<()> {
    // The run's own, which goes with all in it even where the worker is killed within a turn.
    let dir = bench.order().directory()?;
    let path = dir.join("memory-fault-turn");
    let clock = bench.order().clock();
    let steady_ns = if bench.order().rehearsal { 0 } else { case.int("steady").unwrap_or(0) };
    let turn = |number: usize| {
        stress_turn(&path, number % 2 == 1).with_context(|| format!("a turn in {}", dir.display()))
    };
    let until = monotonic_raw_ns() + steady_ns;
    let mut lead = 0;
    while monotonic_raw_ns() < until {
        turn(lead)?;
        lead += 1;
    }
    let case_ns = bench.order().case_ns.max(steady_ns) as f64;
    let begin = clock.start();
    let before = rusage_thread();
    let mut means = Vec::new();
    while means.len() < TURNS_MIN || clock.between_ns(begin, clock.end()) < case_ns {
        let touches = turn(means.len())?;
        means.push(touches.iter().sum::<u64>() as f64 / TURN_TOUCHES as f64);
    }
    let after = rusage_thread();
    let faults = after.minflt + after.majflt - before.minflt - before.majflt;
    let timed = (means.len() * TURN_TOUCHES) as u64;
    ensure!(faults >= timed, "{timed} touches made {faults} page faults");
    bench.declare(Declared::MajorFaults(after.majflt - before.majflt));
    bench.record(case, "latency", means)?;
    Ok(())
}

/// Batches whose faults are counted.
struct Counted<'touched> {
    touched: &'touched mut dyn Touched,
    timer: Timer,
    /// Batches with another number of faults than touches, and the last of them.
    wrong: u32,
    last: Option<(u64, u64)>,
    all: Sum,
}

/// All batches together, void ones as well.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    touches: u64,
    faults: u64,
}

impl<'touched> Counted<'touched> {
    fn new(touched: &'touched mut dyn Touched, timer: Timer) -> Self {
        Counted { touched, timer, wrong: 0, last: None, all: Sum::default() }
    }

    /// The largest n: there must be room for 2 n.
    fn most(&self) -> u64 {
        (self.touched.room() / 2) as u64
    }

    /// One window of `n` touches (at most as many as there is room for), in ns.
    fn batch(&mut self, n: u64) -> Result<f64> {
        let count = n.min(self.touched.room() as u64);
        self.touched.renew(count as usize)?;
        let before = rusage_thread();
        let touched = &mut self.touched;
        let ns = self.timer.timed(count, &mut |count| {
            touched.touch(count as usize);
            Ok(())
        })?;
        let after = rusage_thread();
        let minor = after.minflt - before.minflt;
        // A fault that was tried again counts as a major one, whatever it waited for.
        let major = after.majflt - before.majflt;
        let faults = self.touched.delivered().unwrap_or(minor + major);
        self.all.touches += count;
        self.all.faults += faults;
        if faults != count || major > 0 {
            self.wrong += 1;
            self.last = Some((count, faults));
        }
        Ok(ns)
    }

    /// A quartet; none where a batch had another number of faults.
    fn turn(&mut self, k: u64, watch: &mut Watch) -> Result<Option<Quartet>> {
        let wrong = self.wrong;
        let value = abba(k, watch, &mut |n| self.batch(n))?;
        Ok((self.wrong == wrong).then_some(value))
    }

    /// Fails where no batch was as it should be.
    fn refuse(&self, turns: &Turns<Quartet>) -> Result<()> {
        if let Some((touches, faults)) = self.last
            && turns.kept.is_empty()
        {
            bail!("{touches} touches made {faults} page faults, in no quartet as many as touches");
        }
        Ok(())
    }

    fn void_note(&self) -> Option<String> {
        let (touches, faults) = self.last?;
        Some(format!(
            "{} batches had another number of faults than touches and are void (the last: {touches} \
             touches, {faults} faults)",
            self.wrong
        ))
    }
}

fn apparatus(touch: Touch, dir: &std::path::Path, seed: u64) -> Result<Box<dyn Touched>> {
    let page = base_page_bytes();
    Ok(match touch {
        Touch::Anonymous => Box::new(Fresh::private(FRESH_BYTES, Pages::Base, true)?),
        Touch::Zero => Box::new(Fresh::private(FRESH_BYTES, Pages::Base, false)?),
        Touch::Huge => {
            let bytes = FRESH_HUGE_BYTES.max(2 * huge_page_bytes());
            Box::new(Fresh::private(bytes, Pages::Huge, true)?)
        }
        Touch::Shared => {
            let area = Area::shared(FRESH_BYTES).context("mapping shared memory")?;
            Box::new(Fresh { writes: true, ..Fresh::read(area, page, Mapped::NotAsked) })
        }
        Touch::File => Box::new(apart(&cached_file(dir, seed)?)?),
        Touch::FileAround => Box::new(around(&cached_file(dir, seed)?)?),
        Touch::Copy => Box::new(Copied::new()?),
        Touch::Protect => Box::new(Protected {
            mender: Mender::new(SHARED_PAGES).context("pages whose protection is lifted")?,
            delivered: 0,
        }),
        other => bail!("unknown minor fault `{}`", other.text()),
    })
}

/// Pages that are fresh again after they were dropped.
struct Fresh {
    area: Area,
    stride: usize,
    writes: bool,
    mapped: Mapped,
    /// What could not be asked of the kernel.
    notes: Vec<String>,
}

impl Fresh {
    fn private(bytes: usize, pages: Pages, writes: bool) -> Result<Fresh> {
        let mapping = Mapping::new(bytes, pages).context("mapping fresh memory")?;
        // Else a full node's neighbour would serve, and the figure be another's.
        let mut notes = Vec::new();
        let node = near_node(&mut notes);
        bind(&mapping, node, &mut notes)?;
        let stride = mapping.page_bytes();
        let area = Area::private(mapping).context("freeing memory")?;
        Ok(Fresh { writes, notes, ..Fresh::read(area, stride, Mapped::NotAsked) })
    }

    /// Pages that are only read.
    fn read(area: Area, stride: usize, mapped: Mapped) -> Fresh {
        Fresh { area, stride, writes: false, mapped, notes: Vec::new() }
    }
}

impl Touched for Fresh {
    fn room(&self) -> usize {
        self.area.bytes() / self.stride
    }

    fn renew(&mut self, count: usize) -> Result<()> {
        self.area.renew(count * self.stride).context("dropping pages")
    }

    #[inline(never)]
    fn touch(&mut self, count: usize) {
        match self.writes {
            true => self.area.write(0, self.stride, count),
            false => drop(black_box(self.area.read(0, self.stride, count))),
        }
    }

    fn verify(&self, notes: &mut Vec<String>) -> Result<()> {
        notes.extend(self.notes.iter().cloned());
        let Some(mapping) = self.area.mapping().filter(|_| self.writes) else { return Ok(()) };
        verify_node(mapping, near_node(&mut Vec::new()), notes)?;
        verify_pages(
            mapping,
            Some("so that the faults are on base pages, as with fault=anonymous"),
        )?;
        Ok(())
    }

    fn mapped(&self) -> Mapped {
        self.mapped
    }
}

/// A file without a name, unique in every page, all of it in the page cache.
fn cached_file(dir: &std::path::Path, seed: u64) -> Result<File> {
    let shown = dir.display();
    let mut file =
        unlinked(dir).with_context(|| format!("making a file in {shown}; name one with --dir"))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut piece = vec![0_u8; 64 << 10];
    for _ in 0..FILE_BYTES / piece.len() {
        random.fill(&mut piece);
        file.write_all(&piece).with_context(|| {
            format!("writing a file in {shown}; name another directory with --dir")
        })?;
    }
    let pages = FILE_BYTES / base_page_bytes();
    let resident = resident_pages(&file, 0, FILE_BYTES);
    let resident = resident.context("reading which pages are in memory")?;
    ensure!(
        resident == pages,
        "{resident} of {pages} pages of a file just written are in the page cache"
    );
    Ok(file)
}

/// Every page is a mapping of its own and its neighbours are not its neighbours in the file, so
/// that a fault has nothing else to map.
fn apart(file: &File) -> Result<Fresh> {
    let page = base_page_bytes();
    let pages = FILE_BYTES / page;
    let offsets: Vec<u64> =
        (0..FILE_FAULTS).map(|index| (2 * index % pages * page) as u64).collect();
    let area = Area::file(file, page, &offsets).context("mapping pages one by one")?;
    Ok(Fresh::read(area, page, Mapped::ByBatches))
}

/// The file mapped as a whole, again and again. How many pages a fault maps is found out by
/// touching all; then one page of so many is touched.
fn around(file: &File) -> Result<Fresh> {
    let page = base_page_bytes();
    let pages = FILE_BYTES / page;
    let whole = Area::file(file, FILE_BYTES, &[0]).context("mapping a file")?;
    let before = rusage_thread().minflt;
    black_box(whole.read(0, page, pages));
    let faults = rusage_thread().minflt - before;
    ensure!((1..=pages as u64).contains(&faults), "{pages} touches made {faults} page faults");
    let per_fault = pages as f64 / faults as f64;
    let span = (per_fault.ceil() as usize).next_power_of_two();
    ensure!(
        span * 2 <= pages,
        "one fault maps {per_fault:.0} pages of the {pages} of a file: as a huge page"
    );
    let offsets = vec![0; FILE_FAULTS * span / pages];
    let area = Area::file(file, FILE_BYTES, &offsets).context("mapping a file repeatedly")?;
    Ok(Fresh::read(area, span * page, Mapped::Counted(per_fault)))
}

/// Pages that a waiting child shares since the fork, until they are written.
struct Copied {
    // Before the area: the child goes first.
    child: Option<Sharer>,
    area: Area,
    next: usize,
    /// Involuntary switches while a child began or ended.
    switches: u64,
    notes: Vec<String>,
}

/// The child, and the pipe that it waits at.
struct Sharer {
    _child: Child,
    _hold: PipeWriter,
}

impl Copied {
    fn new() -> Result<Copied> {
        let mapping = Mapping::new(SHARED_PAGES * base_page_bytes(), Pages::Base)?;
        let mut notes = Vec::new();
        let node = near_node(&mut notes);
        bind(&mapping, node, &mut notes)?;
        let mut area = Area::private(mapping)?;
        area.write(0, base_page_bytes(), SHARED_PAGES);
        Ok(Copied { child: None, area, next: SHARED_PAGES, switches: 0, notes })
    }
}

impl Sharer {
    /// A child that has everything of this process and waits, having said so.
    fn fork() -> Result<Sharer> {
        let (mut ready, said) = pipe().context("a pipe")?;
        let (waits, hold) = pipe().context("a pipe")?;
        let child = Child::fork(|| wait_in_child(said, waits)).map_err(refused::explained)?;
        // The child closed neither of these: the read ends by its byte.
        ready.read_exact(&mut [0]).context("the child that shares the pages has ended")?;
        Ok(Sharer { _child: child, _hold: hold })
    }
}

/// The child reports that it runs, and waits for its end.
fn wait_in_child(mut said: PipeWriter, mut waits: PipeReader) -> i32 {
    match said.write_all(&[1]).and_then(|()| waits.read(&mut [0])) {
        Ok(_) => 0,
        Err(_) => 1,
    }
}

impl Touched for Copied {
    fn room(&self) -> usize {
        SHARED_PAGES
    }

    fn renew(&mut self, count: usize) -> Result<()> {
        if self.next + count > SHARED_PAGES {
            let before = rusage_thread().nivcsw;
            self.child = None;
            self.child = Some(Sharer::fork()?);
            self.switches += rusage_thread().nivcsw - before;
            self.next = 0;
        }
        Ok(())
    }

    #[inline(never)]
    fn touch(&mut self, count: usize) {
        let page = base_page_bytes();
        self.area.write(self.next * page, page, count);
        self.next += count;
    }

    fn verify(&self, notes: &mut Vec<String>) -> Result<()> {
        notes.extend(self.notes.iter().cloned());
        let mapping = self.area.mapping().expect("the area is private memory");
        verify_node(mapping, near_node(&mut Vec::new()), notes)
    }

    fn planned_switches(&self) -> u64 {
        self.switches
    }
}

/// Pages that may not be written, until the handler of the fault lets them be.
struct Protected {
    mender: Mender,
    delivered: u64,
}

impl Touched for Protected {
    fn room(&self) -> usize {
        self.mender.pages()
    }

    fn renew(&mut self, count: usize) -> Result<()> {
        self.mender.protect(count).context("protecting pages")
    }

    #[inline(never)]
    fn touch(&mut self, count: usize) {
        self.delivered = self.mender.store(count);
    }

    fn delivered(&self) -> Option<u64> {
        Some(self.delivered)
    }
}

/// Times pages that are already mapped, as in memory that was locked or populated before: must
/// fail.
#[cfg(test)]
pub(in crate::memory::fault) fn present_pages(bench: &Bench) -> Result<()> {
    struct Present;
    impl Touched for Present {
        fn room(&self) -> usize {
            1024
        }
        fn renew(&mut self, _count: usize) -> Result<()> {
            Ok(())
        }
        fn touch(&mut self, count: usize) {
            black_box(count);
        }
    }
    let mut present = Present;
    let timer = bench.timer();
    let mut counted = Counted::new(&mut present, timer);
    let turns = timer.repeat(&mut |watch| counted.turn(100, watch))?;
    counted.refuse(&turns)
}
