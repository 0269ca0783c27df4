//! The answer first: how fast a machine is, whether the figures can be trusted, and what to look at.

use super::machine;
use crate::document::{Cell, Document, Tone};
use crate::values::{self, percent};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, findings};
use analysis::keys::{Line, lines};
use analysis::misses;
use analysis::quality::{Aspect, Grade, Quality, quality};
use analysis::verdict::Verdict;
use record::event::{Ending, PredictionKind, Range};
use record::note::NoteKind;
use record::run::Run;
use record::unit::Unit;

/// A run on one screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Preset, duration and machine.
    pub title: String,
    /// How far the run can be trusted, and why; nothing of a run without rounds.
    pub quality: Option<Cell>,
    /// Key figures in the order of the reports.
    pub rows: Vec<Row>,
    /// The experiments in full, where there are so few that these take the table's place.
    pub experiments: Option<Document>,
    /// What to look at, worst first: the severity's tone and the sentence.
    pub look_at: Vec<Cell>,
}

/// A line of key figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `CPU`, `MEM`, …
    pub group: &'static str,
    /// What was measured: `load latency, L1 / DRAM`.
    pub heading: String,
    /// The values: `0.95 / 142 ns`.
    pub measured: String,
    /// The interval; of several figures, the widest as a share.
    pub interval: String,
    /// What was predicted of each.
    pub predicted: String,
    /// What became of it: the worst of several.
    pub verdict: Cell,
    /// What else a reader must know of a figure: the modes of its samples.
    pub notes: Vec<String>,
}

/// Experiments that are shown whole in place of their key figures, if there are no more.
const WHOLE: usize = 3;

/// A run on one screen; of few experiments, these in full.
pub fn screen(run: &Run) -> Summary {
    let figures = figures(run);
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let measured = planned.filter(|planned| planned.skipped.is_none()).count();
    let rows: Vec<Row> = lines(run, &figures).iter().map(row).collect();
    let is_whole = measured <= WHOLE || rows.is_empty();
    let look_at = findings(run, &figures);
    Summary {
        title: title(run),
        quality: quality(run).map(|quality| told(&quality)),
        rows,
        experiments: is_whole.then(|| super::experiments(run, &figures)),
        look_at: look_at.iter().map(cell).collect(),
    }
}

fn cell(finding: &Finding) -> Cell {
    Cell::toned(finding.sentence(), Tone::of(finding.severity))
}

/// `plumb standard · 6 min 4 s · AMD EPYC, 2 vCPU KVM, …`.
pub(super) fn title(run: &Run) -> String {
    let elapsed = run.footer.as_ref().map(|footer| {
        let seconds = footer.elapsed_s.round() as u64;
        match seconds / 60 {
            0 => format!(" · {seconds} s"),
            minutes => format!(" · {minutes} min {} s", seconds % 60),
        }
    });
    let elapsed = elapsed.unwrap_or_default();
    format!("plumb {}{elapsed} · {}", run.header.options.preset, machine::in_a_line(run))
}

/// `fair: the core was shared 22 % of the time; …`.
pub(super) fn told(quality: &Quality) -> Cell {
    let aspects = quality.aspects.iter();
    // The first three are what a reader looks for; others where there is something of them.
    let shown = aspects.enumerate().filter(|(at, (.., grade))| *at < 3 || *grade > Grade::Good);
    let mut parts: Vec<String> = shown
        .map(|(_, (aspect, share, _))| {
            let share = match *share {
                share if share < 0.0005 => "0 %".to_owned(),
                share => percent(share),
            };
            match aspect {
                Aspect::Shared => format!("the core was shared {share} of the time"),
                Aspect::Steal => format!("steal {share}"),
                Aspect::Disturbed => format!("{share} of rounds disturbed"),
                Aspect::Throttled => format!("throttled {share} of the time"),
                Aspect::RunDelay => format!("other programs had the CPU {share} of the time"),
            }
        })
        .collect();
    if !quality.is_whole {
        parts.push("the run did not come to its end".to_owned());
    }
    let tone = match quality.grade {
        Grade::Good => Tone::Good,
        Grade::Fair => Tone::Warn,
        Grade::Poor => Tone::Bad,
    };
    Cell::toned(format!("{}: {}", quality.grade.text(), parts.join(", ")), tone)
}

/// A line of the table.
pub fn row(line: &Line) -> Row {
    let figures: Vec<&Figure> = line.figures.iter().map(|(_, figure)| *figure).collect();
    let interval = match figures.as_slice() {
        [one] => values::of_figure(one).map_or_else(String::new, |shown| ends(&shown.interval)),
        _ => widest(&figures),
    };
    let unit = figures.first().map_or(Unit::Count, |figure| figure.unit());
    let ranges = figures.iter().map(|figure| range_of(figure));
    let ranges: Option<Vec<String>> =
        ranges.map(|range| range.map(|range| short(&values::range(&range, unit)))).collect();
    let notes = line.figures.iter().filter_map(|(name, figure)| {
        let modes = figure.notes.of(NoteKind::TwoModes)?;
        Some(format!("{name} {modes}").trim_start().to_owned())
    });
    Row {
        group: line.group,
        heading: line.heading(),
        measured: joined(figures.iter().filter_map(|figure| values::value(figure)).collect()),
        interval,
        predicted: ranges.map_or_else(String::new, joined),
        verdict: verdict(line),
        notes: notes.collect(),
    }
}

fn range_of(figure: &Figure) -> Option<Range> {
    figure.shown_prediction().and_then(|judged| judged.prediction.range)
}

/// `1.2 – 3.4 ns` as `1.2–3.4 ns`.
fn short(range: &str) -> String {
    range.replace(" – ", "–")
}

/// `[1.2, 3.4]` as `1.2–3.4`; a sign stays apart from the dash.
fn ends(interval: &str) -> String {
    let ends = interval.trim_matches(['[', ']']);
    match ends.contains('-') {
        true => ends.replace(", ", " to "),
        false => ends.replace(", ", "–"),
    }
}

/// Quantities beside each other, their unit once where it is the same.
fn joined(quantities: Vec<String>) -> String {
    let unit = |quantity: &str| quantity.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    let first = quantities.first().and_then(|first| unit(first));
    let is_shared = first.is_some() && quantities.iter().all(|one| unit(one) == first);
    let last = quantities.len().saturating_sub(1);
    let texts = quantities.iter().enumerate().map(|(at, quantity)| {
        match quantity.rsplit_once(' ').filter(|_| is_shared && at < last) {
            Some((number, _)) => number,
            None => quantity,
        }
    });
    texts.collect::<Vec<_>>().join(" / ")
}

/// The widest half of the intervals relative to its value.
fn widest(figures: &[&Figure]) -> String {
    let halves = figures.iter().filter_map(|figure| {
        let (value, (low, high)) = (figure.value?, figure.ci?);
        let half = (high - value).max(value - low) / value.abs();
        half.is_finite().then_some(half)
    });
    let widest = halves.reduce(f64::max);
    widest.map_or_else(String::new, |half| match half {
        ..0.0001 => "±0 %".to_owned(),
        half => format!("±{}", percent(half)),
    })
}

/// The verdict of a line: of several figures, the one that missed by most.
fn verdict(line: &Line) -> Cell {
    let is_alone = line.figures.len() == 1;
    let told = |name: &str, text: String| match is_alone || name.is_empty() {
        true => text,
        false => format!("{name} {text}"),
    };
    if let Some((name, _)) = line.figures.iter().find(|(_, figure)| is_failed(figure)) {
        return Cell::toned(told(name, "failed".to_owned()), Tone::Bad);
    }
    let missed = line.figures.iter().filter_map(|(name, figure)| {
        let kind = match figure.prior {
            Some(_) => PredictionKind::Prior,
            None => PredictionKind::Derived,
        };
        Some((misses::of(figure, kind)?, *name))
    });
    let worst = missed.reduce(|worst, other| match other.0.factor > worst.0.factor {
        true => other,
        false => worst,
    });
    if let Some((miss, name)) = worst {
        let factor = miss.factor.map_or_else(String::new, |factor| format!("{}× ", times(factor)));
        let tone = if misses::is_worse(&miss) { Tone::Warn } else { Tone::Plain };
        return Cell::toned(told(name, format!("{factor}{}", word(miss.verdict))), tone);
    }
    let figures = line.figures.iter().map(|(_, figure)| *figure);
    let judged = figures.clone().filter(|figure| misses::is_judged(figure)).count();
    match judged {
        0 if figures.clone().all(|figure| range_of(figure).is_none()) => {
            Cell::toned("not predicted", Tone::Muted)
        }
        0 => Cell::toned("no interval", Tone::Muted),
        _ => Cell::toned("within", Tone::Good),
    }
}

fn is_failed(figure: &Figure) -> bool {
    figure.outcome == Ending::Failed
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Within => "within",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Above => "above",
        Verdict::Below => "below",
        Verdict::Impossible => "impossible",
    }
}

/// A factor as people compare.
fn times(factor: f64) -> String {
    match factor {
        ..1.095 => format!("{factor:.2}"),
        1.095..9.95 => format!("{factor:.1}"),
        _ => format!("{factor:.0}"),
    }
}
