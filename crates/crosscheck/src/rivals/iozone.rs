//! IOzone: a file written, read, and gone through at random, once each.

use crate::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Preset;
use record::key::CaseId;
use record::unit::Unit;
use std::time::Duration;

/// The rival.
pub static RIVAL: Rival = Rival {
    name: "iozone",
    about: "rates of writing, reading and going through a file",
    package: None,
    programs: &["iozone"],
    version_args: &["-v"],
    version,
    oldest: None,
    pairings,
    parse,
};

/// Its file, in MiB, and the length of its records, in KiB.
const FILE_MIB: u64 = 16;
const RECORD_KIB: u64 = 4;
const ROUND_MS: u64 = 150;
const REHEARSED_MS: u64 = 30;

fn version(said: &Output) -> Option<String> {
    let (_, rest) = said.stdout.split_once("$Revision:")?;
    Some(rest.split_once('$')?.0.trim().to_owned())
}

/// A figure of IOzone's: its report's title, and what plumb does of it.
struct Report {
    name: &'static str,
    title: &'static str,
    op: &'static str,
    pattern: &'static str,
}

const fn report(
    name: &'static str,
    title: &'static str,
    op: &'static str,
    pattern: &'static str,
) -> Report {
    Report { name, title, op, pattern }
}

/// Its first write extends the file, which plumb's fs.io never does: it stands beside nothing.
const REPORTS: [Report; 5] = [
    report("rewrite", "Re-writer report", "write", "sequential"),
    report("read", "Reader report", "read", "sequential"),
    report("reread", "Re-Reader report", "read", "sequential"),
    report("random-read", "Random read report", "read", "random"),
    report("random-write", "Random write report", "write", "random"),
];

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let cached = conditions.is_whole().then(|| pairing(conditions, false));
    [Some(pairing(conditions, true)), cached].into_iter().flatten().collect()
}

fn pairing(conditions: &Conditions, is_direct: bool) -> Pairing {
    let cpus = vec![conditions.cpus[0]];
    let (preset, round_ms) = match conditions.preset {
        Preset::Rehearsal => (Preset::Rehearsal, REHEARSED_MS),
        _ => (Preset::Quick, ROUND_MS),
    };
    let file = conditions.files.clone().unwrap_or_default().join("iozone");
    // Write and rewrite, read and reread, random read and write; a report of each by its name.
    let words = format!("-R -i 0 -i 1 -i 2 -s {FILE_MIB}m -r {RECORD_KIB}k");
    let direct = is_direct.then(|| "-I".to_owned());
    let file = ["-f".to_owned(), file.display().to_string()];
    let own = [
        ("op", "read,write".to_owned()),
        ("pattern", "sequential,random".to_owned()),
        ("mode", if is_direct { "direct" } else { "cached,buffered" }.to_owned()),
        ("block", (RECORD_KIB << 10).to_string()),
        ("engine", "psync".to_owned()),
        ("depth", "1".to_owned()),
        ("threads", "1".to_owned()),
        ("size", (FILE_MIB << 20).to_string()),
        ("written", (FILE_MIB << 20).to_string()),
        ("window", format!("{round_ms}ms")),
    ];
    Pairing {
        name: if is_direct { "direct-4k" } else { "cached-4k" }.to_owned(),
        ours: Ours {
            experiment: "fs.io",
            set: own.into(),
            cpus: cpus.clone(),
            dir: conditions.files.clone(),
            budget: Duration::from_secs(60),
            preset,
        },
        theirs: Theirs {
            program: "iozone",
            args: words.split(' ').map(str::to_owned).chain(direct).chain(file).collect(),
            cpus,
            limit: Duration::from_secs(120),
            ..Theirs::default()
        },
        rows: REPORTS.iter().map(|report| report.row(is_direct)).collect(),
        skip: conditions.no_files(),
        is_once: false,
    }
}

impl Report {
    fn row(&self, is_direct: bool) -> Row {
        let mode = match (is_direct, self.op) {
            (true, _) => "direct",
            (false, "read") => "cached",
            (false, _) => "buffered",
        };
        Row {
            name: self.name.to_owned(),
            case: CaseId::new()
                .with("op", self.op)
                .with("pattern", self.pattern)
                .with("mode", mode),
            metric: "burst",
            statistic: Statistic::MeanOfRounds,
            times: 1.0,
            unit: Unit::BPerS,
            what: self.title.to_owned(),
            goal: match is_direct {
                true => Goal::AtLeast,
                false => Goal::AtLeastNearly,
            },
            difference: match self.op {
                "read" => READ,
                _ => WRITE,
            },
        }
    }
}

const READ: &str = "IOzone goes over its file once and times the whole, checks of some bytes of each record \
                    included, and at random seeks by a system call of its own before each; plumb times each \
                    operation, and what checks it does come after";
const WRITE: &str = "IOzone goes over its file of 16 MiB once and times the whole; plumb goes round in one of \
                     8 MiB, changes eight bytes of each block before, and times each operation";

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
