//! lmbench 3: the programs of the distribution, each found by its name in PATH. What stands beside
//! which of plumb's is a table ([`table::entries`]); what is not compared stands, with its reason,
//! in another ([`NOT_COMPARED`]).
//!
//! All of its programs that use `benchmp` are run by its own rules with times said: an interval is
//! 0.1 s (ENOUGH), long enough that it subtracts neither its clock nor its loop (TIMING_O, LOOP_O),
//! and as many repetitions (`-N`) as fit into a turn; it prints their median.

mod absent;
mod machine;
mod os;
#[cfg(test)]
mod tests;

use crate::bandwidth::{Moves, huge_pages};
use crate::ours::figure_value;
use crate::read::line;
use crate::sides::case;
use crate::table::{Entry, Needs, words};
use crate::{Conditions, Output, Pairing, Rival, Server, Theirs};
pub(super) use absent::NOT_COMPARED;
use anyhow::Result;
use bench::experiment::Skip;
use record::run::Run;
use std::path::Path;

// None of its programs prints a version.
pub static RIVAL: Rival = Rival::new("lmbench", &["lat_syscall"], pairings, parse)
    .about("the classic: latencies and bandwidths of system calls, processes, messages, memory");

/// The line of lat_usleep, and what it is asked to sleep, in ns.
const SLEEP: &str = "usleep 1000 microseconds: {measured}";
const SLEEP_NS: f64 = 1e6;
/// The shortest interval that is asked of it, in seconds: the longest that it would choose by
/// itself, and above the one from which on it does not take off what its clock costs.
const ENOUGH_S: f64 = 0.1;
const REPETITIONS_MOST: f64 = 11.0;
/// A program is ended after so many seconds: lat_mem_rd does not end on some machines.
const LIMIT_S: u64 = 90;
/// The file that some programs read or map.
const FILE: &str = "lmbench.data";
const FILE_MIB: u64 = 8;
/// lmbench takes its size in units of this, in bytes.
const UNIT_BYTES: u64 = 512;
/// lat_proc executes `/tmp/hello` and does not see where that fails: a link to lmbench's own, for
/// as long as it runs. One that an ended turn left behind serves again; another's file of this name
/// is never touched.
const HELLO: &str = "hello=$(dirname \"$(command -v lat_proc)\")/hello; test -x \"$hello\" || \
    { echo 'no hello beside lat_proc' >&2; exit 1; }; \
    test \"$(readlink /tmp/hello)\" = \"$hello\" || ln -s \"$hello\" /tmp/hello || exit 1; \
    trap 'rm /tmp/hello' EXIT; ";

/// The programs that something of plumb's stands beside.
fn table() -> impl Iterator<Item = &'static Entry> {
    os::TABLE.iter().chain(machine::TABLE)
}

const fn entry(program: &'static str, experiment: &'static str) -> Entry {
    let entry = crate::table::entry(program, experiment);
    Entry { limit_s: LIMIT_S, enough_s: ENOUGH_S, ..entry }
}

impl Entry {
    const fn interval(self, interval_s: f64) -> Entry {
        Entry { interval_s, ..self }
    }

    const fn enough(self, enough_s: f64) -> Entry {
        Entry { enough_s, ..self }
    }

    const fn without_status(self) -> Entry {
        Entry { has_status: false, ..self }
    }
}

/// The value of a case of plumb's run, which has one experiment.
fn value(run: &Run, (name, choice): (&str, &str), metric: &str) -> Result<f64> {
    figure_value(run, &case(&format!("{name}={choice}")), metric)
}

/// A value in ns or B/s; of a sleep, what it takes beyond its length.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let value = line(said, what)?;
    Ok(if what == SLEEP { value - SLEEP_NS } else { value })
}

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let offered = table().filter(|entry| entry.is_offered(conditions));
    offered.map(|entry| pairing(entry, conditions)).collect()
}

fn pairing(entry: &'static Entry, conditions: &Conditions) -> Pairing {
    let cpus = &conditions.cpus[..1];
    let dir = match entry.needs {
        Needs::File => conditions.files.clone(),
        Needs::Memory => conditions.in_memory.clone(),
        _ => None,
    };
    let mut pairing = entry.pairing(conditions, &Vec::new());
    match entry.needs {
        Needs::Arrays { ops, .. } => pairing.ours = moves(ops, cpus, conditions).ours(conditions),
        _ => pairing.ours.dir.clone_from(&dir),
    }
    match theirs(entry, cpus, dir.as_deref(), conditions) {
        Ok(theirs) => Pairing { theirs, ..pairing },
        Err(skip) => {
            pairing.theirs.args.clear();
            pairing.unless(Some(skip))
        }
    }
}

/// plumb's side where lmbench's arrays must be as large: main memory, one thread.
fn moves<'a>(ops: &'a [&'static str], cpus: &'a [usize], conditions: &Conditions) -> Moves<'a> {
    Moves {
        ops,
        stores: "regular",
        level: "DRAM",
        cpus,
        limit: (conditions.memory_bytes / 8).min(128 << 20),
    }
}

fn theirs(
    entry: &'static Entry,
    cpus: &[usize],
    dir: Option<&Path>,
    conditions: &Conditions,
) -> Result<Theirs, Skip> {
    let shown = |dir: &Path| dir.display().to_string();
    let (mut prepare, mut server) = (Vec::new(), None);
    let mut environment: Vec<(&'static str, String)> =
        [("LOOP_O", "0"), ("TIMING_O", "0")].map(|(name, value)| (name, value.to_owned())).into();
    environment.push(("ENOUGH", format!("{:.0}", entry.enough_s * 1e6)));
    let value = match entry.needs {
        Needs::Nothing | Needs::Hello => String::new(),
        Needs::File => {
            let dir = dir.ok_or_else(|| Skip::because("no directory for files").needs("--dir"))?;
            let file = shown(&dir.join(FILE));
            let (to, count) = (format!("of={file}"), format!("count={FILE_MIB}"));
            let words = ["dd", "if=/dev/zero", &to, "bs=1048576", &count];
            prepare.push(words.map(str::to_owned).into());
            file
        }
        Needs::Memory => shown(dir.ok_or_else(|| Skip::because("no directory in memory"))?),
        Needs::Listener { port } => {
            // Its server leaves at once and stays behind as a daemon: the shell holds its place
            // until both are ended.
            let line = format!("{} -s; exec sleep 3600", entry.program);
            server = Some(Server {
                command: ["sh", "-c", &line].map(str::to_owned).into(),
                cpus: cpus.to_vec(),
                ports: vec![port],
            });
            String::new()
        }
        Needs::Arrays { ops, shares } => {
            environment.push(huge_pages());
            let bytes = moves(ops, cpus, conditions).footprint(conditions)? / shares;
            (bytes / UNIT_BYTES * UNIT_BYTES).to_string()
        }
    };
    let least = entry.enough_s.max(entry.interval_s);
    let repetitions = (conditions.seconds / least).floor().clamp(1.0, REPETITIONS_MOST);
    let mut args = vec!["-N".to_owned(), repetitions.to_string()];
    args.extend(words(entry.args, &vec![("value", value)]));
    let line = format!("{} {}", entry.program, args.join(" "));
    let (program, args) = match (entry.needs, entry.has_status) {
        (Needs::Hello, _) => shell(format!("{HELLO}{line}")),
        (_, true) => (entry.program, args),
        // Its main does not return a status: whatever was left is no failure.
        (_, false) => shell(format!("{line}; exit 0")),
    };
    Ok(Theirs {
        args,
        behind: vec![entry.program],
        environment,
        prepare,
        server,
        ..conditions.theirs(program, &[]).within(LIMIT_S)
    })
}

fn shell(line: String) -> (&'static str, Vec<String>) {
    ("sh", vec!["-c".to_owned(), line])
}
