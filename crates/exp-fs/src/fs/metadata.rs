//! What do operations on file names cost?
//!
//! ## Question
//!
//! How long does it take to create, open, stat, rename and remove a file or directory, and to list
//! a directory, with few and with many entries?
//!
//! ## Method
//!
//! A directory with `entries` empty files (names of `name` bytes: a key in hexadecimal digits and a
//! number) is made once, before the rounds, and everything happens in it. Calls are made by their
//! instruction, relative to a descriptor of the directory opened with O_PATH, so the kernel walks a
//! path of one component. Everything is in memory: before the first case of a round plumb calls
//! stat on every entry once.
//!
//! Calls are timed in batches of n against 2n in ABBA quartets, so the costs of the clock and of
//! the loop cancel. Before a batch its names are prepared, and after it the results are removed,
//! both outside the timed windows:
//!
//! - `create`: openat(O_CREAT | O_EXCL) of names that never existed; afterwards one of them must
//!   exist, and all are closed and unlinked.
//! - `open`, `stat` (fstatat): entries in random order; opened files are closed afterwards.
//! - `rename`: entries in random order, each to a name that never existed; afterwards the new name
//!   must exist and the old one not, and all get their names back.
//! - `unlink`: files made before the batch; afterwards one of them must be gone.
//! - `mkdir`, `rmdir`: the same with directories.
//! - `readdir`: the whole directory with getdents64 into 32 KiB, walking all records as readdir(3)
//!   does; the figure is per entry.
//!
//! A batch is at most an eighth of the directory, and at least 16 and at most 128 names in the
//! short one, so the directory has the stated number of entries, or up to 32 more. After each case
//! plumb counts the entries: there must be as many as before, without removed or additional names.
//! Before each round other processes' unwritten data goes to the device (`settle_ns`).
//!
//! ## Prediction
//!
//! A system call, the walk over a path of one component, and the file system's work for a change,
//! in cycles that depend on its kind: a file system in memory takes a third of a journaling one,
//! trees two times and stacked file systems two and a half times as much. `open` and `stat` are
//! derived from os.syscall's figures for a device node two components deep. Directories larger than
//! the caches add cache lines from memory. The kernel writes the journal later, so these calls
//! include it only if the journal is full or being committed.
//!
//! ## Parameters
//!
//! - `call`: see Method.
//! - `entries`: files in the directory.
//! - `name`: bytes of a name.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//!
//! These are rates with a warm cache, on one thread and without syncs: the work of unpacking an
//! archive, of a build or of a mail queue between syncs. For a durable file see fs.sync's `create`.
//! `create` and `unlink` bound the files per second (1e9 divided by the sum). `stat` is the cost
//! per file of `git status` and backups, `readdir` that of `ls`. A flat line over `entries`
//! indicates a file system with an index; a rising line indicates a search. `open` less `stat` is
//! the file object and the descriptor. On a network file system each change includes a round trip
//! to the server.
//!
//! ## Pitfalls
//!
//! The kernel remembers names that it looked up and did not find, and creating such a name is
//! faster; names here are new each time. Files of one directory are close together; a tree of many
//! directories would miss caches more often. The journal's commit (every 5 s) delays writers of the
//! same blocks; it shows in the slow quartets. An ext4 without a journal, mounted with `discard`,
//! sends the discard of every freed block within the call: `rmdir` then waits for the device, which
//! `unlink` of an empty file does not. Without a journal `create` and `mkdir` also look past each
//! inode of their block group that was deleted 1 to 360 s before (some 0.1 µs each), by whatever
//! program: two runs compare only once three stored runs say how much that differs; `plumb ab`
//! compares rounds of the same minute. Negative and unused cache entries accumulate until memory is
//! short. Security modules, auditing and fanotify watch names and are part of each call. Mount
//! options: with `relatime`, open and readdir write timestamps at most once a day.
//!
//! ## Sources
//!
//! [lmbench] `lat_fs` (create and delete of 0 to 10 KiB files); [mdtest], whose files have
//! directories of their own; [fs-mark]; [bonnie] (file tests); [will-it-scale] `open1`, `unlink1`;
//! [man] openat(2), renameat2(2), getdents64(2); [linux] Documentation/filesystems/path-lookup.rst,
//! ext4/directory.rst.

mod directory;

use super::file;
use super::offered::{Offered, cost, describe_place, promise, rounds, settled, standard_first};
use crate::fs::prelude::*;
use directory::Directory;
use laws::fs::metadata::{self as law, Call, Named};
use record::note::{Note, NoteKind};
use std::collections::btree_map::Entry;

bench::experiment!(Metadata);

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
    title: "File metadata: create, stat, rename, unlink",
    metrics: metrics! {
        "latency" => Ns Lower Io: "one call (readdir: one entry)";
    },
    params: params![
        Named::PARAMS,
        settings! {
            "name": Domain::bytes(directory::NAME_BYTES_MIN, 255), ["24B"; 3] =>
                "length of a file name in bytes";
        },
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
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let asked: u64 = sizes(series).into_iter().sum();
        cost(WORKER_NS + asked as f64 * ASK_NS, series, |case| {
            let Some(named) = Named::from_id(&case.id) else { return 0.0 };
            let asked_ns = named.entries as f64 * ASK_NS / 4.0;
            let timed_ns = match named.call {
                // Quartets of whole listings, six at least.
                Call::Readdir => (site.case_ns as f64).max(36.0 * asked_ns),
                _ => site.case_ns as f64,
            };
            AROUND_FACTOR * timed_ns + asked_ns
        })
    };
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
        cases.order_by_key(|named| named.entries);
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
        offered.series(&CARD, "", [("name".to_owned(), Value::Int(name))].gather())
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        let mut series = file::ground_facts(site, series);
        for case in &mut series.cases {
            case.at.extend(promise(site));
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
            let samples = match directory::time(named.call, directory, case, bench) {
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
            samples.notes.extend(history(named.call, case));
            Ok(())
        });
        Ok(())
    }
}

/// What the time of a new inode depends on where ext4 has no journal.
fn history(call: Call, case: &Case) -> Option<Note> {
    let is_unjournaled = case.at.contains_key(file::JOURNAL_AT);
    (matches!(call, Call::Create | Call::Mkdir) && is_unjournaled).then(|| {
        let text = "this ext4 has no journal: the kernel looks past the inodes that were deleted \
                    in the minutes before, and the time grows with their number";
        Note::with_kind(NoteKind::History, text)
    })
}

fn sizes(series: &Series) -> BTreeSet<u64> {
    series.cases.iter().filter_map(|case| case.int("entries")).gather()
}

fn name_bytes(series: &Series) -> u64 {
    series.setting("name").unwrap_or(NAME_BYTES)
}

#[cfg(test)]
mod tests;
