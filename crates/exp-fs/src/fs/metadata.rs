//! What does a name cost?
//!
//! ## Question
//!
//! How long does it take to make, open, ask for, rename and remove a file or directory, and to list
//! a directory, with few and with many entries in it?
//!
//! ## Method
//!
//! A directory with `entries` empty files (names of `name` bytes: a key in hexadecimal digits and a
//! number) is made once, before the rounds, and everything happens in it. Calls are made by their
//! instruction, relative to a descriptor of the directory that was opened with O_PATH, so that the
//! path walked is one component. All is in memory: before the first case of a round every entry is
//! asked for once.
//!
//! Calls are timed in batches of n against 2n in ABBA quartets, so that the clock and the loop fall
//! out of the difference. Before a batch its names are put into place, after it its traces are
//! removed, both outside of the timed windows:
//!
//! - `create`: openat(O_CREAT | O_EXCL) of names that never were; afterwards one of them must be
//!   there, all are closed and unlinked.
//! - `open`, `stat` (fstatat): entries in random order; what was opened is closed afterwards.
//! - `rename`: entries in random order, each to a name that never was; afterwards the new name must
//!   be there and the old one gone, and all get their names back.
//! - `unlink`: files made before the batch; afterwards one must be gone.
//! - `mkdir`, `rmdir`: the same of directories.
//! - `readdir`: all of the directory by getdents64 into 32 KiB, from its beginning to its end, and
//!   its records walked, as readdir(3) does; the figure is per entry.
//!
//! A batch is at most an eighth of the directory, at least 16 and at most 128 names in the short
//! one, so that the directory has the entries that are stated, or up to 32 more. After each case
//! the entries are counted, and must be as many as before: nothing that was removed is there, and
//! nothing more. Before each round what others wrote goes to the device (`settle_ns`).
//!
//! ## Prediction
//!
//! A system call, the walk over a path of one component, and what the file system does for a
//! change, in cycles by its kind: in memory a third of a journal's, trees two and stacked file
//! systems two and a half times as much. `open` and `stat` are derived from what os.syscall
//! measured of a device node two components deep. Directories larger than the caches add lines of
//! memory. The journal is written later, by the kernel: it is no part of these calls but where it
//! is full or being committed.
//!
//! ## Parameters
//!
//! - `call`: see Method.
//! - `entries`: files in the directory.
//! - `name`: bytes of a name.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves are
//!   planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another,
//!   which costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//!
//! These are rates of a warm cache on one thread without syncs: what unpacking an archive, a build
//! or a mail queue does between its syncs; fs.sync's `create` is a file that must last. `create`
//! and `unlink` bound files in a second (1e9 over the sum); `stat` is what `git status` and backups
//! pay for each file, `readdir` what `ls` pays. A line over `entries` that is flat is a file system
//! with an index; one that rises with them searches. `open` over `stat` is the file's object and
//! descriptor. A client of a network file system has its server's round trip in each change.
//!
//! ## Pitfalls
//!
//! A name that was looked for and not found stays in memory as such: making it then is quicker;
//! names here are new each time. Files of one directory lie side by side; a tree of many would miss
//! caches more. The journal's commit (every 5 s) holds up who changes the same blocks: it is in the
//! slow quartets. An ext4 without a journal that is mounted with `discard` tells the device of
//! every freed block within the call: `rmdir` then waits for the device, which `unlink` of an empty
//! file does not. Negative and unused entries of the cache pile up until memory is short. Security
//! modules, auditing and fanotify watch names, and are in each call. Mount options: `relatime` has
//! open and readdir write times at most once a day.
//!
//! ## Sources
//!
//! lmbench `lat_fs` (create and delete of 0 to 10 KiB files); mdtest (IOR), whose files have
//! directories of their own; fs_mark; Bonnie++'s file tests; will-it-scale `open1`, `unlink1`;
//! openat(2), renameat2(2), getdents64(2); Documentation/filesystems/path-lookup.rst,
//! ext4/directory.rst. The cycles' sources stand in `predict/fs/metadata.rs`.

mod batches;
mod directory;

use super::file;
use super::offered::{Offered, cost, describe_place, rounds, settled, standard_first};
use anyhow::Result;
use bench::device;
use bench::experiment::contract::{Experiment, Facts, Files};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Domain, Fields, Hazards, Known, Need, Offer, Param, Params, Preset, Site, Skip, ViewCard,
};
use bench::link::RoundOrder;
use bench::measure::{Bench, Declared};
use bench::params;
use directory::Directory;
use laws::fs::journal::promise;
use laws::fs::metadata::{self as law, Call, Named};
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::Value;
use record::key_figure::KeyFigure;
use record::metric::{Kind, Metric};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Metadata = Metadata;

/// `fs.metadata`.
pub struct Metadata;

/// What an entry has written, in bytes: its inode and its name, and both in the journal.
const ENTRY_BYTES: u64 = 768;
/// What a round of a case that changes names has written, in bytes: the same few blocks again and
/// again, which the journal takes once in a commit.
const CASE_BYTES: u64 = 384 << 10;
/// Bytes of a name where none is set.
const NAME_BYTES: u64 = 24;
/// Where a case has them.
const NAME_AT: &str = "name_bytes";
/// For stated costs, in ns: start and end of a worker; putting a batch into place and removing it,
/// over the timed part; making an entry; asking for one.
const WORKER_NS: f64 = 4e7;
const AROUND_FACTOR: f64 = 1.3;
const MAKE_NS: f64 = 2.5e4;
const ASK_NS: f64 = 1.5e3;

static CARD: Card = Card {
    id: "fs.metadata",
    title: "Names of files",
    metrics: &[Metric::time("latency", "one call (readdir: one entry)", Kind::Io)],
    params: params![
        Named::PARAMS,
        &[
            Param::setting(
                "name",
                "bytes of a name",
                Domain::bytes(directory::NAME_BYTES_MIN, 255),
                ["24B"; 3],
            ),
            PLACEMENT_PARAM,
        ],
    ],
    after: &["clock.rate", "os.syscall"],
    needs: &[Need::Directory],
    views: &[
        ViewCard::line("entries", "latency").log(),
        ViewCard::bars("latency").each(&["entries"]),
    ],
    keys: &[KeyFigure::new("file created", "", "latency", "call=create,entries=1000")],
    ..Card::PLAIN
};

impl Experiment for Metadata {
    type Case = Named;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("metadata.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, alive| {
            let made = sizes(series).into_iter();
            made.map(|entries| Directory::make(dir, entries, name_bytes(series), alive)).collect()
        },
        cost: |site, series| {
            let entries: u64 = sizes(series).into_iter().sum();
            let made = Duration::from_nanos((entries as f64 * MAKE_NS) as u64);
            made + device::write_cost(site, entries * ENTRY_BYTES)
        },
        has: |_| true,
    });

    fn cases(_: &Site, preset: Preset) -> Vec<Named> {
        let calls = match preset {
            Preset::Rehearsal | Preset::Quick => &[Call::Create, Call::Stat],
            Preset::Standard | Preset::Thorough => Call::ALL,
        };
        let entries: &[u64] = match preset {
            Preset::Thorough => &[10, 100, 1000, 10_000, 100_000],
            _ => &[1000],
        };
        let of = |&entries| calls.iter().map(move |&call| Named { call, entries });
        entries.iter().flat_map(of).collect()
    }

    fn series(site: &Site, mut cases: Vec<Named>, params: &Params) -> Result<Offer, Skip> {
        let name = params.ints("name").first().copied().unwrap_or(NAME_BYTES);
        let changing = |named: &&Named| named.call.row().changes;
        let mut offered = Offered::default();
        cases.sort_by_key(|named| named.entries);
        standard_first::<Self>(site, &mut cases);
        let mut written = 0;
        for of_size in cases.chunk_by(|a, b| a.entries == b.entries) {
            let entries = of_size[0].entries;
            let changing = of_size.iter().filter(changing).count() as u64;
            let more = entries * ENTRY_BYTES + rounds(params.preset) * changing * CASE_BYTES;
            let afforded = match site.dir.is_some() {
                true => device::affords(site, CARD.id, written + more, "entries=COUNT"),
                false => Ok(()),
            };
            written += if afforded.is_ok() { more } else { 0 };
            for named in of_size {
                let mut case = Case::new(named.id());
                case.at.insert(NAME_AT.to_owned(), Value::Int(name));
                offered.push(case, afforded.clone().err());
            }
        }
        offered.series(&CARD, "", BTreeMap::from([("name".to_owned(), Value::Int(name))]))
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        let mut series = file::ground_facts(site, series);
        if let Some(promise) = site.dir.as_ref().and_then(|dir| promise(&dir.file_system)) {
            for case in &mut series.cases {
                case.at.insert("promise".to_owned(), Value::from(promise));
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, named: &Named, at: &Case, _: &Metric) -> Option<Prediction> {
        let narrows = facts.known.is_none() || law::is_known(facts, named.call);
        let name_bytes = at.int(NAME_AT).unwrap_or(NAME_BYTES);
        narrows.then(|| law::latency(facts, named, name_bytes).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let measured = bench.order().case_ns.saturating_mul(series.cases.len() as u64);
        let (dir, settled) = settled(bench, measured)?;
        let mut directories: BTreeMap<u64, Directory> = BTreeMap::new();
        bench.each_of::<Named>(series, |bench, case, named| {
            let seed = bench.order().seed;
            // Each is asked for once in a round, and then is in memory.
            let directory = match directories.entry(named.entries) {
                Entry::Occupied(opened) => opened.into_mut(),
                Entry::Vacant(place) => {
                    let mut alive = || bench.declare(Declared::Alive);
                    let name = name_bytes(series);
                    place.insert(Directory::open(&dir, named.entries, name, seed, &mut alive)?)
                }
            };
            let samples = match batches::time(named.call, directory, case, bench) {
                Ok(samples) => samples,
                Err(error) => {
                    // The next case finds the directory as it was, or opens and mends it.
                    let mut alive = || bench.declare(Declared::Alive);
                    if directory.restore(&mut alive).is_err() {
                        directories.remove(&named.entries);
                    }
                    return Err(error);
                }
            };
            describe_place(samples, case, settled);
            Ok(())
        });
        Ok(())
    }
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let asked: u64 = sizes(series).into_iter().sum();
    cost(WORKER_NS + asked as f64 * ASK_NS, series, |case| {
        let Some(named) = Named::of(&case.id) else { return 0.0 };
        let asked_ns = named.entries as f64 * ASK_NS / 4.0;
        let timed_ns = match named.call {
            // Quartets of whole listings, six at least.
            Call::Readdir => (site.case_ns as f64).max(36.0 * asked_ns),
            _ => site.case_ns as f64,
        };
        AROUND_FACTOR * timed_ns + asked_ns
    })
}

fn sizes(series: &Series) -> BTreeSet<u64> {
    series.cases.iter().filter_map(|case| case.int("entries")).collect()
}

fn name_bytes(series: &Series) -> u64 {
    series.setting("name").unwrap_or(NAME_BYTES)
}

#[cfg(test)]
mod tests;
