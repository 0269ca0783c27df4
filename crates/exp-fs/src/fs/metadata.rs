//! What does a name cost?
//!
//! ## Question
//!
//! How long does it take to make, open, ask for, rename and remove a file or directory, and to list a
//! directory, with few and with many entries in it?
//!
//! ## Method
//!
//! A directory with `entries` empty files (names of `name` bytes: a key in hexadecimal digits and a number)
//! is made once, before the rounds, and everything happens in it. Calls are made by their instruction,
//! relative to a descriptor of the directory that was opened with O_PATH, so that the path walked is one
//! component. All is in memory: before the first case of a round every entry is asked for once.
//!
//! Calls are timed in batches of n against 2n in ABBA quartets, so that the clock and the loop fall out
//! of the difference. Before a batch its names are put into place, after it its traces are removed, both
//! outside of the timed windows:
//!
//! - `create`: openat(O_CREAT | O_EXCL) of names that never were; afterwards one of them must be there,
//!   all are closed and unlinked.
//! - `open`, `stat` (fstatat): entries in random order; what was opened is closed afterwards.
//! - `rename`: entries in random order, each to a name that never was; afterwards the new name must be there
//!   and the old one gone, and all get their names back.
//! - `unlink`: files made before the batch; afterwards one must be gone.
//! - `mkdir`, `rmdir`: the same of directories.
//! - `readdir`: all of the directory by getdents64 into 32 KiB, from its beginning to its end, and its
//!   records walked, as readdir(3) does; the figure is per entry.
//!
//! A batch is at most an eighth of the directory, at least 16 and at most 128 names in the short one, so
//! that the directory has the entries that are stated, or up to 32 more. After each case the entries are
//! counted, and must be as many as before: nothing that was removed is there, and nothing more. Before each
//! round what others wrote goes to the device (`settle_ns`).
//!
//! ## Prediction
//!
//! A system call, the walk over a path of one component, and what the file system does for a change, in
//! cycles by its kind: in memory a third of a journal's, trees two and stacked file systems two and a half
//! times as much. `open` and `stat` are derived from what os.syscall measured of a device node two
//! components deep. Directories larger than the caches add lines of memory. The journal is written later,
//! by the kernel: it is no part of these calls but where it is full or being committed.
//!
//! ## Parameters
//!
//! - `call`: see Method.
//! - `entries`: files in the directory.
//! - `name`: bytes of a name.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves
//!   are planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another, which
//!   costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//!
//! These are rates of a warm cache on one thread without syncs: what unpacking an archive, a build or a
//! mail queue does between its syncs; fs.sync's `create` is a file that must last. `create` and `unlink`
//! bound files in a second (1e9 over the sum); `stat` is what `git status` and backups pay for each file,
//! `readdir` what `ls` pays. A line over `entries` that is flat is a file system with an index; one that
//! rises with them searches. `open` over `stat` is the file's object and descriptor. A client of a network
//! file system has its server's round trip in each change.
//!
//! ## Pitfalls
//!
//! A name that was looked for and not found stays in memory as such: making it then is quicker; names here
//! are new each time. Files of one directory lie side by side; a tree of many would miss caches more.
//! The journal's commit (every 5 s) holds up who changes the same blocks: it is in the slow quartets. An
//! ext4 without a journal that is mounted with `discard` tells the device of every freed block within the
//! call: `rmdir` then waits for the device, which `unlink` of an empty file does not.
//! Negative and unused entries of the cache pile up until memory is short. Security modules, auditing and
//! fanotify watch names, and are in each call. Mount options: `relatime` has open and readdir write times
//! at most once a day.
//!
//! ## Sources
//!
//! lmbench `lat_fs` (create and delete of 0 to 10 KiB files); mdtest (IOR), whose files have directories
//! of their own; fs_mark; Bonnie++'s file tests; will-it-scale `open1`, `unlink1`; openat(2),
//! renameat2(2), getdents64(2); Documentation/filesystems/path-lookup.rst, ext4/directory.rst. The
//! cycles' sources stand in `predict/fs/metadata.rs`.

mod batches;
mod directory;

use super::file::{ground, ground_note};
use anyhow::{Context, Result};
use bench::device;
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Domain, Experiment, Known, Need, Offer, Param, Params, Preset, Role, Site, Skip,
    ViewCard, unknown,
};
use bench::measure::{Bench, settle};
use directory::Directory;
use laws::fs::journal::promise;
use laws::fs::metadata::{self as law, Call, Named};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Kind, Metric};
use record::unit::Unit;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The experiment.
pub static EXPERIMENT: Metadata = Metadata;

/// `fs.metadata`.
pub struct Metadata;

/// Calls by their symbols.
const CALLS: [(&str, Call); 8] = [
    ("create", Call::Create),
    ("open", Call::Open),
    ("stat", Call::Stat),
    ("rename", Call::Rename),
    ("unlink", Call::Unlink),
    ("mkdir", Call::Mkdir),
    ("rmdir", Call::Rmdir),
    ("readdir", Call::Readdir),
];
/// What an entry has written, in bytes: its inode and its name, and both in the journal.
const ENTRY_BYTES: u64 = 768;
/// What a round of a case that changes names has written, in bytes: the same few blocks again and again,
/// which the journal takes once in a commit.
const CASE_BYTES: u64 = 384 << 10;
/// Bytes of a name where none is set.
const NAME_BYTES: u64 = 24;
/// Where a case has them.
const NAME_AT: &str = "name_bytes";
/// For stated costs, in ns: start and end of a worker; putting a batch into place and removing it, over
/// the timed part; making an entry; asking for one.
const WORKER_NS: f64 = 4e7;
const AROUND_FACTOR: f64 = 1.3;
const MAKE_NS: f64 = 2.5e4;
const ASK_NS: f64 = 1.5e3;

static CARD: Card = Card {
    id: "fs.metadata",
    title: "Names of files",
    metrics: &[Metric::time("latency", "one call (readdir: one entry)", Kind::Io)],
    params: &[
        Param {
            name: "call",
            doc: "what is done with names",
            domain: Domain::Symbols(&[
                "create", "open", "stat", "rename", "unlink", "mkdir", "rmdir", "readdir",
            ]),
            defaults: [
                "create,stat",
                "create,open,stat,rename,unlink,mkdir,rmdir,readdir",
                "create,open,stat,rename,unlink,mkdir,rmdir,readdir",
            ],
            role: Role::Case,
        },
        Param {
            name: "entries",
            doc: "files in the directory",
            domain: Domain::Integer { low: 1, high: 10_000_000, unit: Unit::Count },
            defaults: ["1000", "1000", "10,100,1000,10000,100000"],
            role: Role::Case,
        },
        Param {
            name: "name",
            doc: "bytes of a name",
            domain: Domain::Integer { low: directory::NAME_BYTES_MIN, high: 255, unit: Unit::B },
            defaults: ["24B"; 3],
            role: Role::Setting,
        },
        PLACEMENT_PARAM,
    ],
    after: &["clock.rate", "os.syscall"],
    needs: &[Need::Directory],
    views: &[
        ViewCard::line("entries", "latency").log(),
        ViewCard::bars("latency").each(&["entries"]),
    ],
    ..Card::PLAIN
};

impl Experiment for Metadata {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("metadata.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let mut cases = Vec::new();
        let calls = params.texts("call");
        let changing = calls.iter().filter(|call| changes(call)).count() as u64;
        let name = params.ints("name").first().copied().unwrap_or(NAME_BYTES);
        let mut written = 0;
        let mut entries = params.ints("entries");
        entries.sort_unstable();
        for entries in entries {
            let more = entries * ENTRY_BYTES + rounds(params.preset) * changing * CASE_BYTES;
            let affords = match site.dir.is_some() {
                true => device::affords(site, CARD.id, written + more, "entries=COUNT"),
                false => Ok(()),
            };
            if affords.is_ok() {
                written += more;
            }
            for call in &calls {
                let id = CaseId::new().with("call", *call).with("entries", entries);
                match &affords {
                    Ok(()) => {
                        let mut case = Case::new(id);
                        case.at.insert(NAME_AT.to_owned(), Value::Int(name));
                        cases.push(case);
                    }
                    Err(skip) => offer.skipped.push((id, skip.clone())),
                }
            }
        }
        if cases.is_empty() {
            let first = offer.skipped.into_iter().next();
            return Err(first.map_or_else(|| Skip::because("no call was chosen"), |(_, skip)| skip));
        }
        offer.series.push(Series {
            experiment: CARD.id.to_owned(),
            name: String::new(),
            order: Order::Shuffled,
            cases,
            settings: BTreeMap::from([("name".to_owned(), Value::Int(name))]),
        });
        Ok(offer)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let of = |case: &Case| {
            let entries = case.int("entries").unwrap_or(0) as f64;
            let timed = match case.text("call") {
                // Quartets of whole listings, six at least.
                Some("readdir") => (site.case_ns as f64).max(36.0 * entries * ASK_NS / 4.0),
                _ => site.case_ns as f64,
            };
            AROUND_FACTOR * timed + entries * ASK_NS / 4.0
        };
        let cases: f64 = series.cases.iter().map(of).sum();
        let asked: u64 = sizes(series).into_iter().sum();
        Duration::from_nanos((WORKER_NS + cases + asked as f64 * ASK_NS) as u64)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        let Some(dir) = &site.dir else {
            return Ok(series);
        };
        let ground = ground(site, &dir.path);
        let mut facts = BTreeMap::new();
        ground.put(site, &mut facts);
        if let Some(promise) = promise(&dir.file_system) {
            facts.insert("promise".to_owned(), Value::from(promise));
        }
        for case in &mut series.cases {
            case.at.extend(facts.clone());
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        let call = case.text("call").and_then(call_of);
        let Some((call, entries)) = call.zip(case.int("entries")) else {
            return Some(unknown(format!("unknown: no case {}", case.id)));
        };
        if known.is_some_and(|known| !law::is_known(known, call)) {
            return None;
        }
        let named = Named {
            call,
            entries,
            name_bytes: case.int(NAME_AT).unwrap_or(NAME_BYTES),
            file_system: site.dir.as_ref().map_or("", |dir| &dir.file_system),
            discards: discards(site),
        };
        Some(law::latency(site, known, named).prediction())
    }

    fn prepare(
        &self,
        series: &Series,
        dir: &Path,
        alive: &mut dyn FnMut(),
    ) -> Result<Vec<PathBuf>> {
        let name_bytes = series.setting("name").unwrap_or(NAME_BYTES);
        let sizes = sizes(series).into_iter();
        let made = sizes.map(|entries| Directory::make(dir, entries, name_bytes, alive));
        made.collect()
    }

    fn is_prepared(&self, _series: &Series) -> bool {
        true
    }

    fn prepare_cost(&self, site: &Site, series: &Series) -> Duration {
        let entries: u64 = sizes(series).into_iter().sum();
        let made = Duration::from_nanos((entries as f64 * MAKE_NS) as u64);
        made + device::write_cost(site, entries * ENTRY_BYTES)
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.minds_run_delay();
        let dir = bench.dir().context("no directory for files was given")?;
        let dir = dir.to_owned();
        let name_bytes = series.setting("name").unwrap_or(NAME_BYTES);
        let opened = std::fs::File::open(&dir).context("opening the directory for files")?;
        let measured = bench.order().case_ns.saturating_mul(series.cases.len() as u64);
        let settled = settle(&opened, Duration::from_nanos(measured))?;
        let mut directories: BTreeMap<u64, Directory> = BTreeMap::new();
        bench.each(series, |bench, case| {
            bench.may_hang_in(case);
            let entries = case.int("entries").context("no number of entries")?;
            let call = case.text("call").and_then(call_of).context("no such call")?;
            let (began, seed) = (Instant::now(), bench.order().seed);
            // Each is asked for once in a round, and then is in memory.
            if let std::collections::btree_map::Entry::Vacant(place) = directories.entry(entries) {
                let mut alive = || bench.alive(began.elapsed().as_secs_f64());
                let opened = Directory::open(&dir, entries, name_bytes, seed, &mut alive)?;
                place.insert(opened);
            }
            let directory = directories.get_mut(&entries).context("it was opened")?;
            let samples = match batches::time(call, directory, case, bench) {
                Ok(samples) => samples,
                Err(error) => {
                    // The next case finds the directory as it was, or opens and mends it.
                    let mut alive = || bench.alive(began.elapsed().as_secs_f64());
                    if directory.restore(&mut alive).is_err() {
                        directories.remove(&entries);
                    }
                    return Err(error);
                }
            };
            settled.write(&mut samples.quantities);
            samples.notes.extend(settled.note());
            let promise = case.at.get("promise").and_then(Value::text);
            samples.notes.extend(promise.map(str::to_owned));
            samples.notes.extend(ground_note(case));
            Ok(())
        });
        Ok(())
    }
}

/// Numbers of entries of a series' directories.
fn sizes(series: &Series) -> BTreeSet<u64> {
    let of = |case: &Case| case.int("entries");
    series.cases.iter().filter_map(of).collect()
}

fn call_of(symbol: &str) -> Option<Call> {
    let mut calls = CALLS.iter();
    calls.find(|(name, _)| *name == symbol).map(|(_, call)| *call)
}

fn changes(call: &str) -> bool {
    !["open", "stat", "readdir"].contains(&call)
}

/// Whether the file system is mounted with `discard`.
fn discards(site: &Site) -> bool {
    let mount = site.dir.as_ref().and_then(|dir| ground(site, &dir.path).mount);
    mount.is_some_and(|mount| mount.options.split(',').any(|option| option == "discard"))
}

/// Rounds of a preset, at most.
fn rounds(preset: Preset) -> u64 {
    u64::from(*preset.looks().last().unwrap_or(&1))
}

#[cfg(test)]
mod tests;
