//! `rtla osnoise`: the kernel's own noise tracer, a thread of the kernel's that reads the clock in
//! a loop as noise.activity does.

use crate::read::version_behind;
use crate::sides::{case_of, words};
use crate::{Conditions, Goal, Output, Pairing, Rival, Row, Statistic, Theirs};
use bench::experiment::Skip;
use record::unit::Unit;

pub static RIVAL: Rival = Rival::new("rtla", &["rtla"], pairings, parse)
    .about("rtla osnoise: what takes the CPU away, by the kernel's own tracer")
    .package("rtla")
    .version(&["--version"], |said| version_behind(said, "rtla version "));

/// The tracer watches the whole of each period, in µs.
const PERIOD_US: u64 = 1_000_000;
/// plumb's windows: two a round.
const WINDOW: &str = "100ms";
/// Columns of the table that count noises by what they were.
const KINDS: [&str; 5] = ["HW", "NMI", "IRQ", "Softirq", "Thread"];

const LOST: &str = "the tracer's thread runs in the kernel, so an interrupt does not include \
    leaving and entering user mode. It reports noise of 1 µs and more, plumb gaps above its \
    measured threshold. They run one after the other";
const GAPS: &str = "the tracer counts each cause, however short, so an interrupt followed by a \
    soft interrupt counts twice; plumb counts gaps of 1 µs and more. They run one after the other";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let cpu = conditions.cpus[0];
    let other = conditions.cpus.get(1).copied().unwrap_or(cpu);
    // It reports whole periods; the last has to end in time.
    let duration_s = conditions.seconds.ceil() as u64 + 1;
    let args = format!(
        "osnoise top --quiet --cpus {cpu} --duration {duration_s}s --period {PERIOD_US} --runtime {PERIOD_US} \
         --threshold 1"
    );
    let set = format!("cpu=quietest duration={WINDOW} attribution=counters");
    let row = |metric: &'static str, unit, difference| Row {
        name: metric.to_owned(),
        case: case_of(&set, 1),
        // The tracer leaves nothing out.
        statistic: Statistic::MeanOfRounds,
        goal: Goal::Explained,
        ..Row::new(metric, unit, metric, difference)
    };
    let ours = conditions.ours("noise.activity", &set).within(10);
    // Its own thread waits meanwhile; the kernel's is on the CPU in its options.
    let theirs = conditions.theirs("rtla", &[]).on(&[other]).within(30);
    let theirs = Theirs { args: words(&args), ..theirs };
    let rows = [row("lost", Unit::Ratio, LOST), row("gap_rate_1us", Unit::Hz, GAPS)];
    vec![Pairing::new("osnoise", ours, theirs, rows).unless(refused(conditions))]
}

/// Why it cannot be run here.
fn refused(conditions: &Conditions) -> Option<Skip> {
    if !conditions.is_root {
        return Some(Skip::because("the kernel's tracers are root's").needs("root"));
    }
    // If the list of tracers is not readable, rtla reports them.
    let tracers = conditions.host.kernel.tracers.as_ref()?;
    (!tracers.iter().any(|tracer| tracer == "osnoise")).then(|| {
        Skip::because(format!("this kernel has no osnoise tracer (it has {})", tracers.join(", ")))
            .needs("a kernel with CONFIG_OSNOISE_TRACER, such as Debian's linux-image-rt-amd64")
    })
}

/// Share of time lost, or noises a second, of the one CPU in the table.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let table = Table::of(&said.stdout)?;
    let runtime_us = table.number("Runtime")?;
    if runtime_us <= 0.0 {
        return Err("no period of the tracer has ended".to_owned());
    }
    match what {
        "lost" => Ok(table.number("Noise")? / runtime_us),
        "gap_rate_1us" => {
            let counts: Result<Vec<f64>, String> =
                KINDS.iter().map(|kind| table.number(kind)).collect();
            Ok(counts?.iter().sum::<f64>() / (runtime_us / 1e6))
        }
        other => Err(format!("rtla osnoise reports no {other}")),
    }
}

/// The titles of `rtla osnoise top`, and the row of its one CPU.
struct Table {
    titles: Vec<&'static str>,
    values: Vec<String>,
}

impl Table {
    /// Possible titles; a title comes before those that are its beginning or part.
    const TITLES: [&'static str; 12] = [
        "CPU Period",
        "Runtime",
        "% CPU Aval",
        "Max Noise",
        "Max Single",
        "Noise",
        "HW",
        "NMI",
        "IRQ",
        "Softirq",
        "Thread",
        "CPU",
    ];

    fn of(text: &str) -> Result<Table, String> {
        let lines: Vec<String> = text.lines().map(uncoloured).collect();
        let at = lines
            .iter()
            .position(|line| line.trim_start().starts_with("CPU Period"))
            .ok_or("no table of rtla osnoise top")?;
        let mut titles = Vec::new();
        let mut rest = lines[at].trim();
        while !rest.is_empty() {
            let title = Table::TITLES.iter().find(|title| rest.starts_with(**title));
            let title = title.ok_or_else(|| format!("an unknown column: {rest}"))?;
            rest = rest[title.len()..].trim_start();
            match *title {
                "CPU Period" => titles.extend(["CPU", "Period"]),
                title => titles.push(title),
            }
        }
        let is_row =
            |line: &&String| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        let rows: Vec<&String> = lines[at + 1..].iter().take_while(is_row).collect();
        let [row] = rows[..] else {
            return Err(format!("{} CPUs in the table, not one", rows.len()));
        };
        let values: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
        match values.len() == titles.len() {
            true => Ok(Table { titles, values }),
            false => Err(format!("{} values under {} titles", values.len(), titles.len())),
        }
    }

    fn number(&self, title: &str) -> Result<f64, String> {
        let at = self.titles.iter().position(|found| *found == title);
        let value = at.map(|at| &self.values[at]).ok_or_else(|| format!("no column {title}"))?;
        value.parse().map_err(|_| format!("{title} is {value}"))
    }
}

/// A line without the terminal's colours, whether or not their first character is still there.
fn uncoloured(line: &str) -> String {
    let line = line.replace('\u{1b}', " ");
    let mut shown = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(at) = rest.find('[') {
        let after = &rest[at + 1..];
        let length = after.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
        shown.push_str(&rest[..at]);
        match length {
            Some(length) if length > 0 && after[length..].starts_with('m') => {
                rest = &after[length + 1..];
            }
            _ => {
                shown.push('[');
                rest = after;
            }
        }
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests;
