//! What `plumb crosscheck` shows while it works.

use crate::cmd::output;
use crate::cmd::run::{Bar, duration};
use analysis::crosscheck::{Bout, Compared, rivals};
use anyhow::Result;
use crosscheck::turns::Observer;
use crosscheck::{Rival, not_compared};
use record::crosscheck::{DIR, Pairing, PairingEnd};
use record::event::Event;
use record::quantity::{digits, render};
use record::run::Run;
use report::{counted, shell};
use session::Sink as _;
use session::store::RecordFile;
use std::time::{Duration, Instant};

/// Stores events and shows progress.
pub(super) struct Sink {
    file: RecordFile,
    pub run: Run,
    bar: Bar,
    begun: Instant,
}

impl Sink {
    pub fn new(file: RecordFile, run: Run) -> Self {
        Sink { file, run, bar: Bar::new(true), begun: Instant::now() }
    }

    pub fn finish(&self) {
        self.bar.clear();
    }
}

impl Observer for Sink {
    fn event(&mut self, event: &Event) -> Result<()> {
        self.file.append(event)?;
        // Between two comparisons: a disk that writes disturbs them.
        if matches!(event, Event::PairingEnd(_) | Event::Footer(_)) {
            self.file.sync()?;
        }
        self.run.push(event.clone());
        if let Event::PairingEnd(end) = event {
            let lines = lines(&self.run, end);
            self.bar.clear();
            lines.iter().for_each(|line| output::diagnose(line));
        }
        Ok(())
    }

    fn begins(&mut self, pairings: usize, turns: u64, expected: Duration) {
        if pairings > 0 {
            output::diagnose(&format!(
                "plumb: {}, {}, expected time about {}",
                counted(pairings, "comparison"),
                counted(turns as usize, "turn"),
                duration(rough(expected))
            ));
        }
        self.begun = Instant::now();
    }

    fn progress(&mut self, pairing: &str, done: u64, all: u64) {
        let spent = self.begun.elapsed().as_secs_f64();
        let left = match done {
            0 => String::new(),
            _ => {
                let seconds = spent / done as f64 * (all - done) as f64;
                format!(", about {} left", duration(Duration::from_secs_f64(seconds)))
            }
        };
        let message = format!("{pairing}, turn {} of {all}{left}", done + 1);
        self.bar.draw(done as f64 / all.max(1) as f64, &message);
    }
}

/// A time that is known roughly: whole minutes from ten on.
fn rough(expected: Duration) -> Duration {
    match expected.as_secs() {
        seconds if seconds >= 600 => Duration::from_secs(seconds.div_ceil(60) * 60),
        seconds => Duration::from_secs(seconds),
    }
}

/// The result of a pairing, as soon as it has ended: a line for each row that has a ratio, and one
/// for what it lacks.
fn lines(run: &Run, end: &PairingEnd) -> Vec<String> {
    let all = rivals(run);
    let mut bouts = all.iter().flat_map(|beside| &beside.bouts);
    let is_own =
        |bout: &&Bout<'_>| bout.pairing.rival == end.rival && bout.pairing.name == end.pairing;
    let Some(bout) = bouts.find(is_own) else {
        return Vec::new();
    };
    let label = format!("plumb: {}:{}", end.rival, end.pairing);
    let mut lines: Vec<String> = bout.rows.iter().filter_map(|row| line(&label, row)).collect();
    let lack = |row: &Compared<'_>| Some(format!("plumb: {}: {}", row.label(), row.lack.as_ref()?));
    lines.extend(bout.rows.iter().filter_map(lack));
    lines.extend(bout.disturbance().map(|text| format!("{label}: {text}")));
    lines.extend(bout.lack().map(|lack| format!("{label}: {lack}")));
    lines
}

fn line(label: &str, found: &Compared<'_>) -> Option<String> {
    let row = found.row;
    let name = match row.name.is_empty() {
        true => String::new(),
        false => format!(", {}", row.name),
    };
    let interval =
        found.interval.map(|(low, high)| format!(" [{}, {}]", digits(low), digits(high)));
    Some(format!(
        "{label}{name}: {} and {}, ratio {}{}, {}",
        render(found.ours?, row.unit),
        render(found.theirs?, row.unit),
        digits(found.ratio?),
        interval.unwrap_or_default(),
        found.verdict.text()
    ))
}

/// The commands of a pairing, in the order in which they would be typed.
fn commands(pairing: &Pairing) -> String {
    let mut text = format!("\n{}:{}\n", pairing.rival, pairing.name);
    for (file, lines) in &pairing.inputs {
        text.push_str(&format!("  {DIR}/{file}:\n"));
        lines.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    for command in &pairing.prepare {
        text.push_str(&format!("  {}\n", shell(command)));
    }
    if let Some(server) = &pairing.server {
        text.push_str(&format!("  {} &\n", shell(server)));
    }
    text.push_str(&format!("  {}\n  {}\n", shell(&pairing.theirs), shell(&pairing.ours)));
    text
}

/// What is here and what would run, listed as it is found.
#[derive(Default)]
pub(super) struct Listing {
    pub text: String,
    has_pairings: bool,
}

impl Listing {
    /// What is not compared with a rival, and why.
    pub fn absent(&mut self, rival: &Rival) {
        let all = not_compared(rival);
        if all.is_empty() {
            return;
        }
        self.text.push_str(&format!("\nnot compared with {}:\n", rival.name));
        for (what, reason) in all {
            self.text.push_str(&format!("  {what}: {reason}\n"));
        }
    }
}

impl Observer for Listing {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Rival(rival) => {
                let state = match (&rival.absent, &rival.version) {
                    (None, Some(version)) => format!("version {version}"),
                    (None, None) => "here".to_owned(),
                    (Some(absent), _) => {
                        let needed = absent.needed.as_ref().map(|needed| format!("; {needed}"));
                        format!("not run: {}{}", absent.reason, needed.unwrap_or_default())
                    }
                };
                self.text.push_str(&format!("{:<22} {} ({state})\n", rival.name, rival.about));
            }
            Event::Pairing(pairing) => {
                if !self.has_pairings {
                    self.has_pairings = true;
                    self.text.push_str(
                        "\nComparisons by name, each with the command of the tool and of plumb:\n",
                    );
                }
                self.text.push_str(&commands(pairing));
            }
            Event::PairingEnd(end) => {
                let details = [&end.reason, &end.needed].into_iter().flatten();
                let details: Vec<&str> = details.map(String::as_str).collect();
                self.text.push_str(&format!("  skipped: {}\n", details.join("; ")));
            }
            _ => {}
        }
        Ok(())
    }

    fn begins(&mut self, _pairings: usize, _turns: u64, _expected: Duration) {}

    fn progress(&mut self, _pairing: &str, _done: u64, _all: u64) {}
}
