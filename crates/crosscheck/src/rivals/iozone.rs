//! IOzone: a file written, read, and gone through at random, once each.

use crate::Goal::{self, AtLeast, AtLeastNearly};
use crate::table::{Entry, RATE, Reading, entry};
use crate::{Conditions, Output, Pairing, Rival, Statistic};
use bench::experiment::Preset::{Rehearsal, Standard};

pub static RIVAL: Rival = Rival::new("iozone", &["iozone"], pairings, parse)
    .about("rates of writing, reading and going through a file")
    .version(&["-v"], version);

/// Its file, in MiB, and the length of its records, in KiB.
const FILE_MIB: u64 = 16;
const RECORD_KIB: u64 = 4;
const ROUND_MS: u64 = 150;
const REHEARSED_MS: u64 = 30;

fn version(said: &Output) -> Option<String> {
    let (_, rest) = said.stdout.split_once("$Revision:")?;
    Some(rest.split_once('$')?.0.trim().to_owned())
}

/// Write and rewrite, read and reread, random read and write. Its first write extends the file,
/// which plumb's fs.io never does: it stands beside nothing.
const TABLE: [Entry; 2] = [
    IOZONE
        .named("direct-4k", Rehearsal)
        .asked(
            "-R -i 0 -i 1 -i 2 -s 16m -r 4k -I -f {file}",
            "op=read,write pattern=sequential,random mode=direct block=4096 engine=psync depth=1 \
             threads=1 size=16777216 written=16777216 window={ms}ms",
        )
        .beside(&[
            write(
                "rewrite",
                "Re-writer report",
                "op=write pattern=sequential mode=direct",
                AtLeast,
            ),
            read("read", "Reader report", "op=read pattern=sequential mode=direct", AtLeast),
            read("reread", "Re-Reader report", "op=read pattern=sequential mode=direct", AtLeast),
            read(
                "random-read",
                "Random read report",
                "op=read pattern=random mode=direct",
                AtLeast,
            ),
            write(
                "random-write",
                "Random write report",
                "op=write pattern=random mode=direct",
                AtLeast,
            ),
        ]),
    IOZONE
        .named("cached-4k", Standard)
        .asked(
            "-R -i 0 -i 1 -i 2 -s 16m -r 4k -f {file}",
            "op=read,write pattern=sequential,random mode=cached,buffered block=4096 engine=psync \
             depth=1 threads=1 size=16777216 written=16777216 window={ms}ms",
        )
        .beside(&[
            write(
                "rewrite",
                "Re-writer report",
                "op=write pattern=sequential mode=buffered",
                AtLeastNearly,
            ),
            read("read", "Reader report", "op=read pattern=sequential mode=cached", AtLeastNearly),
            read(
                "reread",
                "Re-Reader report",
                "op=read pattern=sequential mode=cached",
                AtLeastNearly,
            ),
            read(
                "random-read",
                "Random read report",
                "op=read pattern=random mode=cached",
                AtLeastNearly,
            ),
            write(
                "random-write",
                "Random write report",
                "op=write pattern=random mode=buffered",
                AtLeastNearly,
            ),
        ]),
];

const IOZONE: Entry = Entry { limit_s: 120, budget_s: 60, ..entry("iozone", "fs.io") };
/// The report of this title beside plumb's reads of this case.
const fn read(name: &'static str, title: &'static str, case: &'static str, goal: Goal) -> Reading {
    let rate = RATE.named(name).metric("bandwidth").in_case(case, title).goal(goal);
    rate.taken(Statistic::MeanOfRounds).differs(READ)
}

const fn write(name: &'static str, title: &'static str, case: &'static str, goal: Goal) -> Reading {
    read(name, title, case, goal).differs(WRITE)
}

const READ: &str = "IOzone goes over its file once and times the whole pass, including checks of \
                    some bytes of each record and, for random access, a seek before each; plumb \
                    times each operation and checks afterwards";
const WRITE: &str = "IOzone goes over its 16 MiB file once and times the whole pass; plumb cycles \
                     through an 8 MiB file, changes eight bytes of each block beforehand, and \
                     times each operation";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let file = conditions.files.clone().unwrap_or_default().join("iozone");
    let places = vec![
        ("file", file.display().to_string()),
        ("ms", conditions.rehearsed(REHEARSED_MS, ROUND_MS).to_string()),
    ];
    let pairing = |entry: &Entry| entry.pairing(conditions, &places).in_files(conditions);
    TABLE.iter().filter(|entry| entry.is_offered(conditions)).map(pairing).collect()
}

/// The report of this title, of one size and one length: three lines, rates in KiB/s.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let reports = said.stdout.split_once("Excel output is below:");
    let (_, reports) = reports.ok_or("no reports (-R)")?;
    let title = format!("\"{what}\"");
    let mut lines = reports.lines().map(str::trim).skip_while(|line| *line != title).skip(1);
    let records = lines.next().ok_or_else(|| format!("no {what}"))?;
    let row = lines.next().unwrap_or_default();
    let mut cells = row.split_whitespace();
    let size = format!("\"{}\"", FILE_MIB << 10);
    let is_its = records == format!("\"{RECORD_KIB}\"") && cells.next() == Some(&size);
    match (is_its, cells.next(), cells.next()) {
        (true, Some(rate), None) => {
            let kib_per_s: f64 = rate.parse().map_err(|_| format!("no rate in {what}: {rate}"))?;
            Ok(kib_per_s * 1024.0)
        }
        _ => Err(format!("{what} is not of one size and one length: {row}")),
    }
}

#[cfg(test)]
mod tests;
