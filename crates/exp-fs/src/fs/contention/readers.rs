//! Readers at work at the same time, as processes or threads, and what each had in the time that
//! all shared.
//!
//! All read from before the common start until all are past the common end, so no reader ever has
//! the device to itself in between. The measured reader is the calling thread; it sets both ends.
//! It is no `bench::measure::Crew`: the end is not known at the start (it waits for a slow device's
//! reads), every read is looked at by itself, and readers are processes as well, which meet at
//! words that they share.

mod reading;
mod timed;

use super::As;
use super::round::{READS_LEAST, WARM_READS, WINDOW_MOST_NS};
use crate::fs::file::{BLOCK_BYTES, right};
use crate::fs::prelude::*;
use host::refused;
use metal::io::Buffers;
use metal::memory::SharedWords;
use metal::place;
use metal::process::{Child, Ending};
use reading::{Places, Tally, Used};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;
use timed::block;

/// Words at which the readers meet: how many are ready, the window's ends, how many are past its
/// end, whether one failed, and how many have had a read in the window.
const READY: usize = 0;
const START: usize = 1;
const END: usize = 2;
const PAST: usize = 3;
const FAILED: usize = 4;
const SERVED: usize = 5;
const SHARED: usize = 8;
/// Words of each reader: what it had, in the order of [`Had`], and the number of its error.
const EACH: usize = 16;
const CPU_NS: usize = 5;
const ERROR: usize = 8;

/// Both ends of the window are set so long ahead, in ns: longer than from a clock's read to the
/// look at them.
const LEAD_NS: f64 = 100e3;
/// Reads whose latencies are kept: with so many the window ends.
const ROOM: usize = 1 << 17;
/// Those that come between that decision and the end.
const SLACK: usize = 1 << 12;
/// Readers wait for one another to begin and to end, so long, in ns.
const PATIENCE_NS: f64 = 8e9;

/// How a reader ends; also the exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well = 0,
    Failed = 3,
    Wrong = 4,
    Lost = 5,
    Other = 6,
    Unmade = 7,
}

const ENDS: [End; 6] = [End::Well, End::Failed, End::Wrong, End::Lost, End::Other, End::Unmade];

/// What a reader reads, and where it runs.
pub(super) struct Reader<'file> {
    pub(super) file: &'file File,
    pub(super) seed: u64,
    pub(super) blocks: u64,
    /// Block at which it begins, counted round the file; where it draws its blocks, the seed of
    /// that.
    pub(super) first: u64,
    pub(super) random: bool,
    pub(super) cpu: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    pub(super) kind: As,
    /// A clock that counts the same on all CPUs.
    pub(super) clock: Clock,
    /// Shared time, in ns.
    pub(super) window_ns: f64,
    pub(super) is_free: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Length of the window, in ns.
    pub(super) window_ns: f64,
    /// The measured reader first.
    pub(super) readers: Vec<ReaderWindow>,
    /// Every read of the measured reader that began in the window, in ticks.
    pub(super) latencies: Vec<u64>,
}

/// What one reader had in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReaderWindow {
    /// Reads that began in it.
    pub(super) reads: u64,
    /// Reads, those across an edge by their part inside.
    pub(super) units: f64,
    /// Sum of those reads' latencies, in ticks.
    pub(super) ticks: u64,
    /// Bytes that it asked for in all, before and after the window too.
    pub(super) asked: u64,
    /// CPU that it was on at the end.
    pub(super) cpu: usize,
    /// CPU time, in ns, and the reads that it went to.
    pub(super) cpu_ns: u64,
    pub(super) cpu_reads: u64,
    /// Involuntary switches in that time.
    pub(super) forced: u64,
}

/// Has the readers read: the first is the calling thread, the others are made.
pub(super) fn read(readers: &[Reader<'_>], errand: Errand) -> Result<Shared> {
    let words = SharedWords::new(SHARED + EACH * readers.len())?;
    let meeting =
        Meeting { words: &words, errand, readers: readers.len(), begun: errand.clock.end() };
    let mut latencies = Vec::with_capacity(ROOM + SLACK);
    let ends = match errand.kind {
        As::Processes => beside_processes(readers, &meeting, &mut latencies)?,
        As::Threads => beside_threads(readers, &meeting, &mut latencies)?,
    };
    meeting.judge(&ends)?;
    let had: Vec<ReaderWindow> = (0..readers.len()).map(|number| meeting.outcome(number)).collect();
    let shared_ms = meeting.window_ns() / 1e6;
    for (number, (had, reader)) in had.iter().zip(readers).enumerate() {
        let (name, is, was) = (name(number), had.cpu, reader.cpu);
        ensure!(had.reads > 0, "{name} completed no read in the shared {shared_ms:.0} ms");
        ensure!(
            errand.is_free || is == was,
            "{name} ended on CPU {is} although it was pinned to CPU {was}"
        );
    }
    Ok(Shared { window_ns: meeting.window_ns(), readers: had, latencies })
}

fn name(number: usize) -> String {
    match number {
        0 => "the measured reader".to_owned(),
        number => format!("competitor {number}"),
    }
}

fn beside_processes(
    readers: &[Reader<'_>],
    meeting: &Meeting<'_>,
    latencies: &mut Vec<u64>,
) -> Result<Vec<Result<End>>> {
    // Dropped on an error, and with that killed.
    let mut children = Vec::with_capacity(readers.len());
    for (number, reader) in readers.iter().enumerate().skip(1) {
        let child = Child::fork(|| meeting.compete(number, reader) as i32);
        children.push(child.map_err(|error| refused::explained(error).context(name(number)))?);
    }
    let own = meeting.measured(&readers[0], latencies);
    let ended = children.into_iter().map(|child| {
        let ending = child.wait()?;
        let known = ENDS.into_iter().find(|end| ending == Ending::Exited(*end as i32));
        known.ok_or_else(|| anyhow!("ended {ending}"))
    });
    Ok(std::iter::once(Ok(own)).chain(ended).collect())
}

fn beside_threads(
    readers: &[Reader<'_>],
    meeting: &Meeting<'_>,
    latencies: &mut Vec<u64>,
) -> Result<Vec<Result<End>>> {
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(readers.len());
        for (number, reader) in readers.iter().enumerate().skip(1) {
            let work = move || meeting.compete(number, reader);
            // Those that were made must not wait for one that was not.
            let made = thread::Builder::new().spawn_scoped(scope, work);
            let made = made.inspect_err(|_| meeting.fail());
            threads.push(made.map_err(|error| refused::explained(error).context(name(number)))?);
        }
        let own = meeting.measured(&readers[0], latencies);
        let joined = |thread: thread::ScopedJoinHandle<'_, End>| {
            thread.join().map_err(|_| anyhow!("panicked"))
        };
        Ok(std::iter::once(Ok(own)).chain(threads.into_iter().map(joined)).collect())
    })
}

struct Meeting<'words> {
    words: &'words SharedWords,
    errand: Errand,
    readers: usize,
    /// Tick before the first was made.
    begun: u64,
}

impl Meeting<'_> {
    fn word(&self, number: usize, which: usize) -> &std::sync::atomic::AtomicU64 {
        &self.words[SHARED + EACH * number + which]
    }

    fn fail(&self) {
        self.words[FAILED].store(1, Release);
    }

    fn window_ns(&self) -> f64 {
        let (start, end) = (self.words[START].load(Acquire), self.words[END].load(Acquire));
        self.errand.clock.between_ns(start, end)
    }

    /// The measured reader: it keeps its latencies, and sets both ends of the window.
    fn measured(&self, reader: &Reader<'_>, latencies: &mut Vec<u64>) -> End {
        let clock = self.errand.clock;
        let ticks = |ns: f64| clock.ticks(ns);
        self.work(0, reader, |start, end, begin| {
            let words = self.words;
            if begin == 0 {
                if words[READY].load(Acquire) == self.readers as u64 {
                    words[START].store(end + ticks(LEAD_NS), Release);
                }
                return;
            }
            let finish = words[END].load(Relaxed);
            if start >= begin && (finish == 0 || start < finish) {
                latencies.push(end - start);
            }
            let enough = end >= begin + ticks(self.errand.window_ns)
                && latencies.len() as u64 >= READS_LEAST
                && words[SERVED].load(Relaxed) == self.readers as u64
                || end >= begin + ticks(WINDOW_MOST_NS)
                || latencies.len() + 1 >= ROOM;
            if finish == 0 && enough {
                // After this look at the clock, so that what others have not yet seen lies ahead.
                words[END].store(clock.end() + ticks(LEAD_NS), Release);
            }
        })
    }

    fn compete(&self, number: usize, reader: &Reader<'_>) -> End {
        self.work(number, reader, |_, _, _| ())
    }

    /// A reader from its first to its last read. `seen` is called for each: its start, its end and the
    /// window's begin as it stood after the read, 0 until it is set.
    fn work(&self, number: usize, reader: &Reader<'_>, seen: impl FnMut(u64, u64, u64)) -> End {
        let end = match self.reads(number, reader, seen) {
            Ok(end) => end,
            Err(error) => {
                let code = error.raw_os_error().map_or(0, i64::from);
                self.word(number, ERROR).store(code as u64, Release);
                End::Failed
            }
        };
        if end != End::Well {
            self.fail();
        }
        end
    }

    fn reads(
        &self,
        number: usize,
        reader: &Reader<'_>,
        mut seen: impl FnMut(u64, u64, u64),
    ) -> io::Result<End> {
        let Ok(mut buffers) = Buffers::new(1, BLOCK_BYTES, number as u64) else {
            return Ok(End::Unmade);
        };
        if !self.errand.is_free && place::pin(reader.cpu).is_err() {
            return Ok(End::Unmade);
        }
        let clock = self.errand.clock;
        let deadline = self.begun + clock.ticks(PATIENCE_NS + WINDOW_MOST_NS);
        let mut places = Places::for_reader(reader);
        let (mut tally, mut asked, mut done) = (Tally::default(), 0, 0);
        let (mut used, mut is_past) = (None, false);
        let offset = loop {
            let offset = places.next();
            let start = clock.start();
            block(reader.file, buffers.get_mut(0), offset)?;
            let end = clock.end();
            asked += BLOCK_BYTES as u64;
            done += 1;
            if done == WARM_READS {
                self.words[READY].fetch_add(1, AcqRel);
            }
            let begin = self.words[START].load(Acquire);
            let finish = self.words[END].load(Acquire);
            seen(start, end, begin);
            if begin != 0 {
                let first = tally.reads == 0;
                tally.add((start, end), (begin, finish));
                if first && tally.reads > 0 {
                    self.words[SERVED].fetch_add(1, Relaxed);
                }
            }
            // Reads between these two looks are those that the CPU time went to.
            if begin != 0 && end >= begin && used.is_none() {
                used = Some(Used::now(done));
            }
            if finish != 0 && end >= finish && !is_past {
                is_past = true;
                let used = used.map(|used| used.until(done)).unwrap_or_default();
                self.put(number, CPU_NS, [used.cpu_ns, used.reads, used.forced]);
                self.words[PAST].fetch_add(1, AcqRel);
            }
            if self.words[FAILED].load(Acquire) != 0 {
                return Ok(End::Other);
            }
            if is_past && self.words[PAST].load(Acquire) == self.readers as u64 {
                break offset;
            }
            if end > deadline {
                return Ok(End::Lost);
            }
        };
        let cpu = place::current_cpu() as u64;
        self.put(number, 0, [tally.reads, tally.units.to_bits(), tally.ticks, asked, cpu]);
        Ok(match right(buffers.get(0), reader.seed, offset) {
            true => End::Well,
            false => End::Wrong,
        })
    }

    fn put<const COUNT: usize>(&self, number: usize, from: usize, values: [u64; COUNT]) {
        for (which, value) in (from..).zip(values) {
            self.word(number, which).store(value, Release);
        }
    }

    fn outcome(&self, number: usize) -> ReaderWindow {
        let words: [u64; ERROR] =
            std::array::from_fn(|which| self.word(number, which).load(Acquire));
        let [reads, units, ticks, asked, cpu, cpu_ns, cpu_reads, forced] = words;
        let (units, cpu) = (f64::from_bits(units), cpu as usize);
        ReaderWindow { reads, units, ticks, asked, cpu, cpu_ns, cpu_reads, forced }
    }

    /// All ended well. The reader at fault is named before those that ended as a consequence.
    fn judge(&self, ends: &[Result<End>]) -> Result<()> {
        let is = |end: &Result<End>, all: &[End]| end.as_ref().is_ok_and(|end| all.contains(end));
        let mut ranked = [&[End::Well, End::Other, End::Lost][..], &[End::Well]].into_iter();
        let first = ranked.find_map(|fine| ends.iter().position(|end| !is(end, fine)));
        let Some(number) = first else {
            return Ok(());
        };
        let name = name(number);
        match &ends[number] {
            Err(error) => bail!("{name} {error:#}"),
            Ok(End::Failed) => {
                let code = self.word(number, ERROR).load(Acquire) as i32;
                let error = match code {
                    0 => io::Error::from(io::ErrorKind::UnexpectedEof),
                    code => io::Error::from_raw_os_error(code),
                };
                Err(error).with_context(|| format!("{name}: reading its file"))
            }
            Ok(End::Wrong) => {
                let text = format!("{name} read a block that differs from what was written");
                Err(WrongResult(text).into())
            }
            Ok(End::Lost) => {
                bail!(
                    "{name} waited {:.0} s for the other readers, which did not start",
                    PATIENCE_NS / 1e9
                )
            }
            Ok(End::Unmade) => bail!("{name} could not get its memory or its CPU"),
            Ok(End::Well | End::Other) => bail!("{name} stopped because another reader failed"),
        }
    }
}

#[cfg(test)]
mod tests;
