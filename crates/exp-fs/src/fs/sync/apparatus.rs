//! One durable write after another, each by itself, with what the device counted around them all.

use crate::fs::file::{Opened, open_with};
use crate::fs::job::{Count, Counted};
use crate::fs::offered::{describe_place, text_at};
use crate::fs::prelude::*;
use bench::measure::Settled;
use bench::prepared::{demand_space, demand_written_extents, fill, right};
use laws::fs::journal::Medium;
use laws::fs::sync::{Call, Sync, Write};
use metal::memory::{Mapping, Pages};
use metal::metadata::reserve;
use metal::storage::Way;
use record::note::Note;
use stats::quantile::median;
use std::fs::OpenOptions;
use std::io::Write as _;

use super::{SYNCS_MIN, pool_blocks};

pub(super) struct Plan {
    /// Measuring time of a case, in ns.
    pub(super) window_ns: u64,
    pub(super) most: u64,
    pub(super) settled: Settled,
}

const WAY_OUT: &str = "--set fs.sync.most=COUNT";
/// Flushes for a sync below which none was sent.
const NO_FLUSH: f64 = 0.1;

pub(super) fn time(plan: &Plan, case: &Case, sync: Sync, bench: &mut Bench) -> Result<()> {
    let dir = bench.order().directory()?;
    let mut party = Party::new(dir, sync, plan.most, bench.order().seed)?;
    let clock = bench.order().clock();
    // The first finds the file's blocks and wakes the device: it does not count.
    party.sync(clock)?;
    let count = Count::begin(case);
    let begin = clock.start();
    let mut seen = Seen::default();
    while seen.latencies.len() < plan.most as usize {
        let elapsed_ns = clock.between_ns(begin, clock.end());
        if seen.latencies.len() >= SYNCS_MIN as usize && elapsed_ns > plan.window_ns as f64 {
            break;
        }
        let Timed { whole, call } = party.sync(clock)?;
        seen.latencies.push(whole);
        seen.calls.extend(call);
        seen.rows.push(vec![elapsed_ns, whole]);
    }
    let counted = count.end(seen.latencies.len());
    party.verify()?;
    seen.record(plan, case, bench, &party, counted)
}

/// What one durable write took, in ns.
#[derive(Clone, Copy)]
struct Timed {
    whole: f64,
    /// The call after the write, where there is one.
    call: Option<f64>,
}

/// A file, and where its next write goes; gone when dropped.
struct Party {
    scratch: Scratch,
    opened: Option<Opened>,
    directory: Option<File>,
    write: Write,
    call: Call,
    block: u64,
    /// Blocks that writes go round in; none where each has a place of its own.
    pool: Option<u64>,
    seed: u64,
    buffer: Mapping,
    done: u64,
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Where this fails, the run's own directory goes as a whole.
        let _ = match self.0.is_dir() {
            true => std::fs::remove_dir_all(&self.0),
            false => std::fs::remove_file(&self.0),
        };
    }
}

impl Party {
    fn new(dir: &Path, sync: Sync, most: u64, seed: u64) -> Result<Party> {
        let (Sync { write, call, .. }, block) = (&sync, sync.bytes());
        let room = match write {
            Write::Nothing => 1,
            Write::Overwrite => pool_blocks(block),
            _ => most + 1,
        };
        let bytes = block.saturating_mul(room);
        demand_space(dir, bytes, WAY_OUT)?;
        let scratch =
            Scratch(dir.join(format!("fs-sync-{}-{}-{block}", write.text(), call.text())));
        let path = &scratch.0;
        let directory = if *write == Write::Create {
            std::fs::create_dir(path).with_context(|| format!("making {}", path.display()))?;
            Some(File::open(path).context("opening the directory")?)
        } else {
            make(path, *write, block, bytes, seed)?;
            None
        };
        // A file's own name must not be what its first sync is about.
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .with_context(|| format!("syncing {}", dir.display()))?;
        let (direct, dsync) = (*call == Call::DirectDsync, call.is_in_write());
        let opened = match directory {
            None => Some(open_with(path, Way { write: true, direct, dsync, sync: false })?),
            Some(_) => None,
        };
        let buffer = usize::try_from(block)?.next_multiple_of(metal::memory::base_page_bytes());
        let mut buffer = Mapping::new(buffer, Pages::Base).context("memory for a block")?;
        buffer.touch();
        if let Some(opened) = opened.as_ref().filter(|_| direct) {
            ensure!(
                block.is_multiple_of(opened.offset_alignment),
                "O_DIRECT needs multiples of {} bytes here; use another --set fs.sync.block=SIZE",
                opened.offset_alignment
            );
        }
        Ok(Party {
            pool: (*write == Write::Overwrite).then_some(room),
            // Other data than what the file was filled with.
            seed: seed ^ 0x5eed_0f5e_ed0f_5eed,
            scratch,
            opened,
            directory,
            write: *write,
            call: *call,
            block,
            buffer,
            done: 0,
        })
    }

    /// Where the write of this number goes, and with which place its data is stamped.
    fn offset(&self, number: u64) -> u64 {
        self.block * self.pool.map_or(number, |pool| number % pool)
    }

    /// One durable write. Its data is put into place before.
    fn sync(&mut self, clock: Clock) -> Result<Timed> {
        let offset = self.offset(self.done);
        let data = &mut self.buffer.as_mut_slice()[..self.block as usize];
        // Unique in every turn of the pool.
        fill(data, self.seed.wrapping_add(self.done), offset);
        let timed = match self.write {
            Write::Nothing => self.nothing(clock),
            Write::Create => self.create(clock),
            _ => self.write(clock, offset),
        };
        let timed = timed.with_context(|| format!("the {}th sync", self.done + 1))?;
        self.done += 1;
        Ok(timed)
    }

    fn file(&self) -> Result<&File> {
        let opened = self.opened.as_ref().context("no file is open")?;
        Ok(&opened.file)
    }

    fn nothing(&self, clock: Clock) -> Result<Timed> {
        let file = self.file()?;
        let start = clock.start();
        let outcome = file.sync_all();
        let end = clock.end();
        outcome.context("fsync")?;
        let whole = clock.between_ns(start, end);
        Ok(Timed { whole, call: Some(whole) })
    }

    fn write(&self, clock: Clock, offset: u64) -> Result<Timed> {
        let file = self.file()?;
        let data = &self.buffer.as_slice()[..self.block as usize];
        let start = clock.start();
        let written = file.write_at(data, offset);
        let between = clock.end();
        let outcome = match self.call {
            Call::Fsync => file.sync_all(),
            Call::Fdatasync => file.sync_data(),
            Call::Dsync | Call::DirectDsync => Ok(()),
        };
        let end = clock.end();
        let written = written.context("writing")?;
        ensure!(
            written == data.len(),
            "one write call wrote only {written} of {} bytes",
            data.len()
        );
        outcome.context("syncing")?;
        Ok(match self.call.is_in_write() {
            true => Timed { whole: clock.between_ns(start, between), call: None },
            false => Timed {
                whole: clock.between_ns(start, end),
                call: Some(clock.between_ns(between, end)),
            },
        })
    }

    fn create(&self, clock: Clock) -> Result<Timed> {
        let directory = self.directory.as_ref().context("no directory is open")?;
        let data = &self.buffer.as_slice()[..self.block as usize];
        let path = self.created(self.done);
        let start = clock.start();
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = made.with_context(|| format!("making {}", path.display()))?;
        let written = file.write_all(data);
        let between = clock.end();
        let outcome = file.sync_all().and_then(|()| directory.sync_all());
        let end = clock.end();
        written.context("writing")?;
        outcome.context("syncing")?;
        Ok(Timed {
            whole: clock.between_ns(start, end),
            call: Some(clock.between_ns(between, end)),
        })
    }

    fn created(&self, index: u64) -> PathBuf {
        self.scratch.0.join(format!("record-{index:08}"))
    }

    /// What was written must be there, as it was written last.
    fn verify(&self) -> Result<()> {
        let last = self.done.checked_sub(1).context("nothing was written")?;
        let stamped = self.offset(last);
        let (path, offset, expected) = match self.write {
            Write::Nothing => return Ok(()),
            // A file of its own has its block at its beginning.
            Write::Create => {
                let found = std::fs::read_dir(&self.scratch.0)?.count() as u64;
                ensure!(
                    found == self.done,
                    "{} files were created, but the directory has {found}",
                    self.done
                );
                (self.created(last), 0, Some(self.block))
            }
            Write::Append => (self.scratch.0.clone(), stamped, Some(self.done * self.block)),
            _ => (self.scratch.0.clone(), stamped, None),
        };
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        let mut found = vec![0; self.block as usize];
        file.read_exact_at(&mut found, offset)
            .with_context(|| format!("reading {} back", path.display()))?;
        ensure!(
            right(&found, self.seed.wrapping_add(last), stamped),
            "the data read back differs from what was written last"
        );
        let length = file.metadata()?.len();
        if let Some(expected) = expected {
            ensure!(length == expected, "the file has {length} bytes instead of {expected}");
        }
        Ok(())
    }
}

/// Makes a file in the state that its first write finds, synced.
fn make(path: &Path, write: Write, block: u64, bytes: u64, seed: u64) -> Result<()> {
    let shown = path.display();
    let mut file = OpenOptions::new()
        .write(true)
        .read(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("making {shown}"))?;
    match write {
        Write::Append | Write::Create => {}
        Write::Reserved => {
            reserve(&file, bytes).context("this file system does not support fallocate")?
        }
        Write::Nothing | Write::Overwrite => {
            let mut data = vec![0; block as usize];
            for index in 0..bytes / block {
                fill(&mut data, seed, index * block);
                file.write_all(&data).with_context(|| format!("writing {shown}"))?;
            }
        }
    }
    file.sync_all().with_context(|| format!("syncing {shown}"))?;
    if write == Write::Overwrite && bytes >= super::PAGE_BYTES {
        demand_written_extents(&file, bytes)?;
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    latencies: Vec<f64>,
    calls: Vec<f64>,
    rows: Vec<Vec<f64>>,
}

impl Seen {
    fn record(
        self,
        plan: &Plan,
        case: &Case,
        bench: &mut Bench,
        party: &Party,
        counted: Option<Counted>,
    ) -> Result<()> {
        let count = self.latencies.len() as u64;
        let syncs = count as f64;
        let total_ns: f64 = self.latencies.iter().sum();
        let median_ns = median(&self.latencies).unwrap_or(f64::INFINITY);
        let flushes = counted.and_then(|counted| counted.flushes_each);
        let samples = bench.record(case, "latency", self.latencies)?;
        describe_place(samples, case, plan.settled);
        describe(case, party, samples);
        let power = power(case, party.write, party.call, median_ns, flushes);
        samples.notes.extend(power.map(Note::power));
        samples.notes.extend(crowd(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default()));
        if !self.calls.is_empty() {
            bench.record(case, "sync", self.calls)?;
        }
        let rate = syncs / total_ns * 1e9;
        bench.record(case, "iops", Values::batches(count, vec![rate]))?;
        if let Some(counted) = &counted {
            let is_written = party.write != Write::Nothing;
            let amplification = counted.bytes_each / party.block as f64;
            let figures = [
                ("amplification", Some(amplification).filter(|_| is_written)),
                ("flushes", flushes),
                ("requests", Some(counted.requests_each)),
            ];
            for (metric, value) in figures {
                if let Some(value) = value {
                    let value = Values::batches(count, vec![value]);
                    counted.describe(bench.record(case, metric, value)?);
                }
            }
        }
        bench.trace(case, "syncs", &["at_ns", "latency_ns"], self.rows)?;
        Ok(())
    }
}

/// What a reader must know of the ground.
fn describe(case: &Case, party: &Party, samples: &mut Samples) {
    let device = text_at(case, "device").unwrap_or_default();
    if text_at(case, "file_system") == Some("ext4")
        && is_without_journal(device, &names_in("/proc/fs/ext4"), &names_in("/proc/fs/jbd2"))
    {
        samples.notes.push(NO_JOURNAL.to_owned());
    }
    samples.notes.extend(party.opened.iter().flat_map(|opened| opened.notes.clone()));
}

const NO_JOURNAL: &str = "this ext4 has no journal: a sync writes data and inode in place, and a \
                          power loss requires a file-system check";

/// Whether ext4 is mounted from a disk or its partitions, without a running journal (journals have
/// names such as `sda1-8`).
fn is_without_journal(device: &str, mounted: &[String], journals: &[String]) -> bool {
    let of = |names: &[String]| names.iter().any(|name| name.starts_with(device));
    !device.is_empty() && of(mounted) && !of(journals)
}

fn names_in(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether others want the CPUs that the kernel's threads need for a sync: `runnable/all` stands
/// fourth in /proc/loadavg, and one of the runnable is this.
fn crowd(loadavg: &str) -> Option<String> {
    let runnable = loadavg.split_ascii_whitespace().nth(3)?.split('/').next()?;
    let others = runnable.parse::<usize>().ok()?.checked_sub(1)?;
    let cpus = std::thread::available_parallelism().ok()?.get();
    (others >= cpus).then(|| {
        format!(
            "{others} other threads were runnable at the end; the kernel threads that a sync needs \
             wait behind them"
        )
    })
}

/// Whether the device answered before it could have stored the data, or got no flush.
fn power(
    case: &Case,
    write: Write,
    call: Call,
    median_ns: f64,
    flushes: Option<f64>,
) -> Option<String> {
    if write == Write::Nothing {
        return None;
    }
    let text = |name| text_at(case, name);
    let medium = Medium::from_value(case.at.get("medium"));
    let least_ns = case.int("medium_least_ns").map(|ns| ns as f64);
    if let Some(least_ns) = least_ns.filter(|least_ns| median_ns < *least_ns) {
        return Some(format!(
            "power: half of the syncs returned within {:.0} µs, faster than {:.0} µs ({}): either \
             the device's cache survives a power loss (capacitors, a battery), or the device \
             reports data as durable that is not",
            median_ns / 1e3,
            least_ns / 1e3,
            medium.map_or("the least of such a device", Medium::why)
        ));
    }
    let by_fua = text("fua") == Some("yes") && call == Call::DirectDsync;
    let none = flushes.is_some_and(|flushes| flushes < NO_FLUSH);
    (none && !by_fua && text("write_cache") == Some("write back")).then(|| {
        "power: the device has a volatile cache (write back) but counted no flush: the mount has \
         barriers off, or the file system does not sync"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::{Call, Medium, Write, crowd, is_without_journal};
    use bench::prelude::*;

    /// What is said of syncs of a write, with these facts.
    fn power(write: Write, at: &[(&str, Value)], ns: f64, flushes: Option<f64>) -> Option<String> {
        let mut case = Case::new(CaseId::new());
        case.at.extend(at.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        super::power(&case, write, Call::Fsync, ns, flushes)
    }

    #[test]
    fn an_answer_sooner_than_the_medium_is_told() {
        let medium = Medium::Spinning;
        let least = ("medium_least_ns", Value::Int(1_000_000));
        let spins = [least, ("medium", medium.text().into())];
        let note = power(Write::Append, &spins, 9e4, Some(1.0)).expect("too soon");
        assert!(note.starts_with("power:") && note.contains(medium.why()), "{note}");
        assert_eq!(power(Write::Append, &spins, 9e6, Some(1.0)), None);
        // A flush of an empty cache is no lie.
        assert_eq!(power(Write::Nothing, &spins, 9e4, Some(1.0)), None);
        assert_eq!(power(Write::Append, &[], 9e4, Some(1.0)), None);
    }

    #[test]
    fn a_journal_is_missed_only_where_its_file_system_is_mounted() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let mounted = names(&["vda", "sdb1"]);
        let journals = names(&["sdb1-8"]);
        assert!(is_without_journal("vda", &mounted, &journals));
        assert!(!is_without_journal("sdb", &mounted, &journals));
        assert!(!is_without_journal("nvme0n1", &mounted, &journals), "it is not ext4");
        assert!(!is_without_journal("", &mounted, &[]));
    }

    #[test]
    fn a_crowd_is_told() {
        assert_eq!(crowd("0.10 0.20 0.30 1/300 999"), None);
        let note = crowd("9.10 0.20 0.30 100001/300000 999").expect("more than any machine has");
        assert!(note.starts_with("100000 other threads"), "{note}");
        assert_eq!(crowd(""), None);
    }

    #[test]
    fn a_cache_that_is_never_flushed_is_told() {
        let cached = [("write_cache", Value::from("write back"))];
        let note = power(Write::Append, &cached, 9e4, Some(0.0)).expect("no flush");
        assert!(note.contains("no flush"), "{note}");
        assert_eq!(power(Write::Append, &cached, 9e4, Some(1.0)), None);
        // Not counted is not zero.
        assert_eq!(power(Write::Append, &cached, 9e4, None), None);
        let through = [("write_cache", Value::from("write through"))];
        assert_eq!(power(Write::Append, &through, 9e4, Some(0.0)), None);
    }
}
