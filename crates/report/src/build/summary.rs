//! The answer first: how fast a machine is, whether the figures can be trusted, and what to look at.

use super::{columns, machine};
use crate::document::{Cell, Document, Row, Table, Tone};
use crate::plain;
use crate::values::{self, counted, percent};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, findings};
use analysis::gather::distinct;
use analysis::health::health;
use analysis::keys::{Line, lines};
use analysis::misses;
use analysis::quality::{Aspect, Grade, Quality, quality};
use analysis::score::score;
use analysis::verdict::OVERLAPS;
use record::event::{End, PredictionKind, Range};
use record::note::NoteKind;
use record::quantity::scale;
use record::run::Run;
use record::shown::{self, Parts};
use record::unit::Unit;

/// A run on one screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Preset, duration and machine.
    pub title: String,
    /// How far the run can be trusted, and why; nothing of a run without rounds.
    pub quality: Option<Cell>,
    /// How good the predictions were, by where they come from.
    pub score: Vec<String>,
    /// Key figures in the order of the reports.
    pub keys: Table,
    /// What else a reader must know of some of them: the modes of their samples.
    pub notes: Vec<String>,
    /// What the mark of shared samples means, and what can be done; `None` where nothing has it.
    pub shared: Option<String>,
    /// In place of the table, how far a run came that ended before it had a key figure.
    pub so_far: Option<String>,
    /// The experiments in full, where there are so few that these take the table's place.
    pub experiments: Option<Document>,
    /// What to look at, worst first: the severity's tone and the sentence.
    pub look_at: Vec<Cell>,
}

/// Columns of the key figures, the group first.
pub(crate) const HEADINGS: [&str; 6] =
    ["", "figure", "measured", "interval", "predicted", "verdict"];

/// Experiments that are shown whole in place of their key figures, if there are no more.
const WHOLE: usize = 3;

/// A run on one screen; of few experiments, these in full.
pub fn screen(run: &Run) -> Summary {
    let figures = figures(run);
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let measured = planned.filter(|planned| planned.skipped.is_none()).count();
    let lines = lines(run, &figures);
    let so_far = so_far(run, &figures, measured).filter(|_| lines.is_empty());
    let is_whole = so_far.is_none() && (measured <= WHOLE || lines.is_empty());
    let look_at = findings(run, &figures);
    let mut shown = lines.iter().flat_map(|line| &line.figures);
    let is_marked = is_whole || shown.any(|(_, figure)| !values::mark(figure).is_empty());
    let shared = health(run).shared.filter(|_| is_marked);
    let mut summary = Summary {
        title: title(run),
        quality: quality(run).map(|quality| quality_cell(&quality)),
        score: scores(&figures),
        shared: shared.and_then(|share| values::of_mark(&figures, share)),
        keys: keys(&lines),
        notes: lines.iter().flat_map(notes).collect(),
        so_far,
        experiments: is_whole.then(|| super::experiments(run, &figures)),
        look_at: look_at.iter().map(cell).collect(),
    };
    plain::summary(&mut summary);
    summary
}

/// The table of the key figures; a group is named once.
fn keys(lines: &[Line]) -> Table {
    let mut group = "";
    let row = |line: &Line| {
        let title = if line.group == group { "" } else { line.group };
        group = line.group;
        Row::always_shown(std::iter::once(Cell::plain(title)).chain(cells(line)).collect())
    };
    let rows: Vec<Row> = lines.iter().map(row).collect();
    Table::new("", &HEADINGS, rows).hiding(&["predicted"])
}

/// `4 KiB written and synced: two modes: 64 % of the samples around 76.5 µs, …`.
fn notes(line: &Line) -> Vec<String> {
    let notes = line.figures.iter().filter_map(|(name, figure)| {
        let modes = figure.notes.first_of_kind(NoteKind::TwoModes)?;
        Some(format!("{}: {modes}", line.title_of(name)))
    });
    notes.collect()
}

/// How far a run of many experiments came that has not reached its end; `None` of others, whose
/// sections say as much.
fn so_far(run: &Run, figures: &[Figure], planned: usize) -> Option<String> {
    let has_ended = run.has_ended() || (1..=WHOLE).contains(&planned);
    let measured = figures.iter().filter(|figure| figure.value.is_some());
    let experiments = distinct(measured.clone().map(|figure| &figure.experiment)).len();
    let of = counted(planned, "experiment");
    (!has_ended).then(|| match (measured.count(), planned) {
        (0, 0) => "nothing yet".to_owned(),
        (0, _) => format!("nothing yet of {of}"),
        (some, _) => format!(
            "{} so far, of {experiments} of {of}; none is a key figure, and --full shows them",
            counted(some, "figure")
        ),
    })
}

fn cell(finding: &Finding) -> Cell {
    Cell::toned(finding.sentence(), Tone::from_severity(finding.severity))
}

/// `plumb standard · 6 min 4 s · AMD EPYC, 2 vCPU KVM, …`.
pub(super) fn title(run: &Run) -> String {
    // A footer knows the last segment alone.
    let segments = u32::try_from(run.segments.len()).unwrap_or(0);
    let earlier: f64 = (0..segments).map(|segment| run.segment_s(segment)).sum();
    let elapsed = run.footer.as_ref().map_or_else(String::new, |footer| {
        let seconds = (earlier + footer.elapsed_s).round() as u64;
        match seconds / 60 {
            0 => format!(" · {seconds} s"),
            minutes => format!(" · {minutes} min {} s", seconds % 60),
        }
    });
    format!("plumb {}{elapsed} · {}", run.header.options.preset, machine::in_a_line(run))
}

/// `before the run: 92 % of 1,644 figures fell into their predicted ranges (2.2 % were not
/// predictable)`, and the same from earlier figures.
pub(super) fn scores(figures: &[Figure]) -> Vec<String> {
    let sources = [
        ("before the run", PredictionKind::Prior),
        ("from earlier figures", PredictionKind::Derived),
    ];
    let sentence = |(from, kind)| {
        let all = score(figures, kind).all;
        let [inside, unpredicted] =
            [all.inside, all.unpredicted].map(|some| all.share(some).map(percent));
        Some(format!(
            "{from}: {} of {} fell into their predicted ranges ({} were not predictable)",
            inside?,
            counted(all.figures, "figure"),
            unpredicted?
        ))
    };
    sources.into_iter().filter_map(sentence).collect()
}

/// `fair: the core was shared 22 % of the time; …`.
pub(super) fn quality_cell(quality: &Quality) -> Cell {
    let aspects = quality.aspects.iter();
    // The first three are what a reader looks for; others where there is something of them.
    let shown = aspects.enumerate().filter(|(at, (.., grade))| *at < 3 || *grade > Grade::Good);
    let mut parts: Vec<String> = shown
        .map(|(_, (aspect, share, _))| {
            let share = two_digits(*share);
            match aspect {
                Aspect::Shared => format!("the core was shared {share} of the time"),
                Aspect::Steal => format!("steal {share}"),
                Aspect::Disturbed => format!("{share} of rounds disturbed"),
                Aspect::Throttled => format!("throttled {share} of the time"),
                Aspect::RunDelay => format!("other programs used the CPU {share} of the time"),
                Aspect::Moved => format!(
                    "the host moved the virtual CPUs between groups of cores ({share} of rounds)"
                ),
            }
        })
        .collect();
    parts.extend(
        match quality.end {
            Some(End::Complete) => None,
            Some(End::Budget) => Some(
                "the time budget ran out before the precision goal was \
                                       reached",
            ),
            Some(End::Interrupted) => Some("interrupted"),
            None => Some("the run is incomplete"),
        }
        .map(str::to_owned),
    );
    let tone = match quality.grade {
        Grade::Good => Tone::Good,
        Grade::Fair => Tone::Warn,
        Grade::Poor => Tone::Bad,
    };
    Cell::toned(format!("{}: {}", quality.grade.text(), parts.join(", ")), tone)
}

/// A line of the table: figure, measured, interval, predicted, verdict.
pub(super) fn cells(line: &Line) -> [Cell; 5] {
    let figures: Vec<&Figure> = line.figures.iter().map(|(_, figure)| *figure).collect();
    let measured = figures.iter().filter_map(|figure| quantity(figure, figures.len()));
    let interval = match figures.as_slice() {
        [one] => parts(one).and_then(|shown| shown.ends).map(ends).unwrap_or_default(),
        _ => widest(&figures),
    };
    let ranges: Vec<Option<String>> = figures.iter().map(|figure| range(figure)).collect();
    let predicted = match ranges.iter().any(Option::is_some) {
        true => {
            let ranges = ranges.into_iter().map(|range| range.unwrap_or("?".to_owned()));
            ranges.collect::<Vec<_>>().join(" / ")
        }
        false => String::new(),
    };
    let [measured, interval, predicted] =
        [joined(measured.collect()), interval, predicted].map(Cell::plain);
    [Cell::plain(line.heading()), measured, interval, predicted, verdict(line)]
}

/// A number as text, and its unit.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    number: String,
    unit: &'static str,
}

/// Figures of a line up to which each has all its digits.
const FEW: usize = 2;

/// Why nothing can be predicted of the first figure of a line, where it has a prediction.
pub(super) fn why_not(line: &Line) -> Option<String> {
    let (_, figure) = line.figures.first()?;
    let judged = figure.shown_prediction().filter(|_| figure.shown_range().is_none())?;
    Some(judged.prediction.why_not().to_owned()).filter(|why| !why.is_empty())
}

/// The parts of a value with its interval; shares in percent.
fn parts(figure: &Figure) -> Option<Parts> {
    let (value, unit) = (figure.value?, figure.unit());
    if unit != Unit::Ratio {
        return Some(shown::parts(MOST_DIGITS, value, figure.ci, unit));
    }
    let percent = |share: f64| share * 100.0;
    let ends = figure.ci.map(|(low, high)| (percent(low), percent(high)));
    Some(Parts { unit: "%", ..shown::parts(MOST_DIGITS, percent(value), ends, unit) })
}

/// A value, which is brief beside many others.
fn quantity(figure: &Figure, among: usize) -> Option<Quantity> {
    let shown = parts(figure)?;
    let factor = match figure.unit() {
        Unit::Ratio => 0.01,
        unit => scale(figure.value?, unit).0,
    };
    let number = match among {
        ..=FEW => shown.number,
        _ => brief(figure.value? / factor),
    };
    Some(Quantity { number: format!("{number}{}", values::mark(figure)), unit: shown.unit })
}

/// A number without a third digit behind its point.
fn brief(value: f64) -> String {
    let places = match value.abs() {
        ..1.0 => 2,
        1.0..10.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

/// A predicted range of two digits, in the scale of the value beside it where that is near; its
/// unit stands with the value.
fn range(figure: &Figure) -> Option<String> {
    let Range { low, high, .. } = figure.shown_range()?;
    let unit = figure.unit();
    let factor = match unit {
        Unit::Ratio => 0.01,
        _ => scale(figure.value?, unit).0,
    };
    let is_near = |end: f64| end == 0.0 || NEAR.contains(&(end / factor).abs());
    let end = |value: f64| match unit == Unit::Ratio || (is_near(low) && is_near(high)) {
        true => two(value / factor),
        false => {
            let (factor, name) = scale(value, unit);
            format!("{} {name}", two(value / factor)).trim_end().to_owned()
        }
    };
    Some(format!("{}–{}", end(low), end(high)))
}

/// Digits of a key figure: the whole report has those that the interval supports.
const MOST_DIGITS: i32 = 5;

/// Numbers that people read in a scale that is another number's.
const NEAR: std::ops::Range<f64> = 0.01..9_500.0;

/// A number to two digits.
fn two(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = 1 - value.abs().log10().floor() as i32;
    let step = 10_f64.powi(-places);
    let places = usize::try_from(places).unwrap_or(0);
    format!("{:.places$}", (value / step).round() * step)
}

/// A share to two digits.
fn two_digits(share: f64) -> String {
    match share * 100.0 {
        ..0.05 => "0 %".to_owned(),
        percent => format!("{} %", two(percent)),
    }
}

/// An interval whose half width has no digit that is shown.
const NARROW: &str = "±<0.1 %";

/// `1.2–3.4`; a sign stays apart from the dash.
fn ends((low, high): (String, String)) -> String {
    match (low == high, low.starts_with('-') || high.starts_with('-')) {
        (true, _) => NARROW.to_owned(),
        (false, true) => format!("{low} to {high}"),
        (false, false) => format!("{low}–{high}"),
    }
}

/// Quantities beside each other, their unit once where it is the same.
fn joined(quantities: Vec<Quantity>) -> String {
    let first = quantities.first().map_or("", |first| first.unit);
    let is_shared = quantities.iter().all(|one| one.unit == first);
    let last = quantities.len().saturating_sub(1);
    let texts = quantities.iter().enumerate().map(|(at, Quantity { number, unit })| {
        match unit.is_empty() || (is_shared && at < last) {
            true => number.clone(),
            false => format!("{number} {unit}"),
        }
    });
    let between = if quantities.len() > FEW { "/" } else { " / " };
    texts.collect::<Vec<_>>().join(between)
}

/// The widest half of the intervals relative to its value.
fn widest(figures: &[&Figure]) -> String {
    let halves = figures.iter().filter_map(|figure| {
        let (value, (low, high)) = (figure.value?, figure.ci?);
        let half = (high - value).max(value - low) / value.abs();
        half.is_finite().then_some(half)
    });
    let widest = halves.reduce(f64::max);
    match widest {
        None => String::new(),
        Some(..5e-4) => NARROW.to_owned(),
        Some(half) => format!("±{}", two_digits(half)),
    }
}

/// The verdict of a line: of several figures, the worst, with its name.
fn verdict(line: &Line) -> Cell {
    let weight = |cell: &Cell| match cell.tone {
        Tone::Bad => 4,
        Tone::Warn => 3,
        Tone::Muted | Tone::Plain => 2,
        Tone::Good => u32::from(cell.text == OVERLAPS),
    };
    let factor = |figure: &Figure| misses::of_figure(figure).and_then(|miss| miss.factor);
    let all = line.figures.iter().map(|(name, figure)| {
        let judged = columns::judged(figure);
        (weight(&judged), factor(figure), *name, judged)
    });
    let worst = all.reduce(|worst, other| match (other.0, other.1) > (worst.0, worst.1) {
        true => other,
        false => worst,
    });
    match worst {
        None => Cell::absent(),
        Some((weight, _, name, cell)) if weight > 0 && line.figures.len() > 1 => {
            Cell { text: format!("{name} {}", cell.text).trim_start().to_owned(), ..cell }
        }
        Some((.., cell)) => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::cells;
    use crate::build::columns;
    use analysis::figure::{Condition, Figure};
    use analysis::keys::Line;
    use analysis::verdict::judge;
    use analysis::{figures, sample};
    use record::event::Segment;

    fn line<'run>(figures: Vec<(&'run str, &'run Figure)>) -> Line<'run> {
        Line { group: "MEM", title: "load,".to_owned(), figures }
    }

    fn ladder() -> Vec<Figure> {
        let all = figures(&sample::run()).into_iter();
        all.filter(|one| one.experiment == "memory.latency" && one.value.is_some()).collect()
    }

    #[test]
    fn the_time_of_a_resumed_run_is_that_of_all_its_segments() {
        let mut run = sample::run();
        assert!(super::title(&run).contains(" · 6 min 2 s · "));
        let rounds = run.rounds.len();
        run.rounds[rounds - 1].at_s = 62.0;
        run.segments.push(Segment {
            n: 1,
            started: String::new(),
            environment: Default::default(),
            calibration: Default::default(),
            peers: Vec::new(),
        });
        assert!(super::title(&run).contains(" · 7 min 4 s · "), "{}", super::title(&run));
    }

    #[test]
    fn a_mark_does_not_part_units() {
        for marked in [[false, false], [true, false], [false, true], [true, true]] {
            let mut figures = ladder();
            for (figure, is_marked) in figures.iter_mut().zip(marked) {
                figure.condition = is_marked.then_some(Condition::AsFound);
                figure.shared = Some(0.9);
            }
            let [_, measured, ..] = cells(&line(vec![("L1", &figures[0]), ("L2", &figures[1])]));
            let measured = measured.text;
            assert_eq!(measured.matches(" ns").count(), 1, "{measured}");
            let marks = marked.iter().filter(|is_marked| **is_marked).count();
            assert_eq!(measured.matches('§').count(), marks, "{measured}");
        }
    }

    #[test]
    fn a_value_outside_its_range_is_never_within() {
        let mut figure = ladder().swap_remove(0);
        let metric = figure.metric.clone().expect("measured");
        let judged = figure.prior.as_ref().expect("predicted");
        let range = judged.prediction.range.expect("a range");
        for (times, expected) in [(0.999, "within"), (1.0, "within"), (1.001, "overlaps")] {
            let value = range.high * times;
            let ci = (value * 0.99, value * 1.01);
            (figure.value, figure.ci) = (Some(value), Some(ci));
            let judged = figure.prior.as_mut().expect("predicted");
            judged.verdict = Some(judge(ci, &range, metric.unit, metric.better));
            let in_table = columns::judged(&figure);
            assert_eq!(in_table.text, expected, "{times}");
            let [.., verdict] = cells(&line(vec![("", &figure)]));
            assert_eq!(verdict, in_table, "{times}");
        }
    }
}
