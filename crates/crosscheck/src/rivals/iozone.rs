//! IOzone: a file written, read, and gone through at random, once each.

use crate::sides::{case, words};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic, Theirs};
use record::unit::Unit;

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

/// Figures of IOzone's: name, its report's title, and what plumb does of it. Its first write extends
/// the file, which plumb's fs.io never does: it stands beside nothing.
const REPORTS: [(&str, &str, &str, &str); 5] = [
    ("rewrite", "Re-writer report", "write", "sequential"),
    ("read", "Reader report", "read", "sequential"),
    ("reread", "Re-Reader report", "read", "sequential"),
    ("random-read", "Random read report", "read", "random"),
    ("random-write", "Random write report", "write", "random"),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let ways: &[bool] = if conditions.is_whole() { &[true, false] } else { &[true] };
    ways.iter().map(|is_direct| pairing(conditions, *is_direct)).collect()
}

fn pairing(conditions: &Conditions, is_direct: bool) -> Pairing {
    let round_ms = conditions.rehearsed(REHEARSED_MS, ROUND_MS);
    let file = conditions.files.clone().unwrap_or_default().join("iozone");
    // Write and rewrite, read and reread, random read and write; a report of each by its name.
    let direct = if is_direct { "-I" } else { "" };
    let mut args = words(&format!("-R -i 0 -i 1 -i 2 -s {FILE_MIB}m -r {RECORD_KIB}k {direct}"));
    args.extend(["-f".to_owned(), file.display().to_string()]);
    let mode = if is_direct { "direct" } else { "cached,buffered" };
    let (block, size) = (RECORD_KIB << 10, FILE_MIB << 20);
    let set = format!(
        "op=read,write pattern=sequential,random mode={mode} block={block} engine=psync depth=1 threads=1 \
         size={size} written={size} window={round_ms}ms"
    );
    let row = |(name, title, op, pattern): (&str, &str, &'static str, &'static str)| {
        let (mode, goal) = match (is_direct, op) {
            (true, _) => ("direct", Goal::AtLeast),
            (false, "read") => ("cached", Goal::AtLeastNearly),
            (false, _) => ("buffered", Goal::AtLeastNearly),
        };
        Row {
            name: name.to_owned(),
            case: case(&format!("op={op} pattern={pattern} mode={mode}")),
            statistic: Statistic::MeanOfRounds,
            goal,
            ..Row::new("burst", Unit::BPerS, title, if op == "read" { READ } else { WRITE })
        }
    };
    let name = if is_direct { "direct-4k" } else { "cached-4k" };
    let ours = conditions.ours_in_files("fs.io", &set).within(60);
    let theirs = Theirs { args, ..conditions.theirs("iozone", &[]).within(120) };
    Pairing::new(name, ours, theirs, REPORTS.map(row)).unless(conditions.no_files())
}

const READ: &str = "IOzone goes over its file once and times the whole pass, including checks of \
                    some bytes of each record and, for random access, a seek before each; plumb \
                    times each operation and checks afterwards";
const WRITE: &str = "IOzone goes over its 16 MiB file once and times the whole pass; plumb cycles \
                     through an 8 MiB file, changes eight bytes of each block beforehand, and \
                     times each operation";

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
