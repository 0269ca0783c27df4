//! What differs between runs: figures joined by experiment, case and metric, judged by
//! [`stats::compare`] alone, and what differs around them.
//!
//! The first run is the base; every other is compared with it, each comparison corrected for its
//! own number of figures. A figure of a published machine has no rounds and gives no finding.

pub mod answer;
mod band;
pub mod conditions;
mod join;
mod nearest;
mod reasons;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

pub use band::{Band, Source};
use conditions::Condition;
pub use join::Incomparable;
#[cfg(test)]
pub use join::Why;
pub use nearest::{Near, printed, table};
use record::order::{Gather, InOrder};

use super::figure::{Figure, Interval};
use super::history::{History, used, used_rounds};
use super::verdict::is_speed;
use record::metric::{Better, Metric};
use record::note::NoteKind;
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use stats::compare::ratio::{Change, Point};
use stats::compare::{Evidence, Pair, compare as tested};
use stats::interval::Interval as Ends;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Measured<'run> {
    pub run: &'run Run,
    pub figures: Vec<Figure>,
}

#[derive(Debug)]
pub struct Comparison<'a> {
    pub base: &'a Measured<'a>,
    pub against: Vec<Against<'a>>,
}

#[derive(Debug)]
pub struct Against<'a> {
    pub new: &'a Measured<'a>,
    pub same_machine: bool,
    /// In what the two machines differ, if they do.
    pub apart: Option<String>,
    pub conditions: Vec<Condition>,
    /// Figures that both have, in the order of the base.
    pub figures: Vec<Compared<'a>>,
    /// Figures of a published machine beside the nearest ones of the other run.
    pub nearest: Vec<Near<'a>>,
    /// Figures of only one run, or figures that are not comparable.
    pub incomparable: Vec<Incomparable<'a>>,
}

#[derive(Debug)]
pub struct Compared<'a> {
    pub base: &'a Figure,
    pub new: &'a Figure,
    /// What it is; the unit is that of both.
    pub metric: &'a Metric,
    /// New over base, or new less base where a value is not positive.
    pub change: Change,
    /// Two-sided p before any correction; `None` where nothing was tested.
    pub p: Option<f64>,
    pub outcome: Outcome,
    /// Whether cycles were compared: a figure of the core whose clocks differ.
    pub in_cycles: bool,
    /// The difference between two runs of an unchanged machine.
    pub band: Band,
    /// What stands beside a finding: recorded conditions that may explain it.
    pub reasons: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Finding(Direction),
    /// No change exceeds the variation of an unchanged machine.
    Quiet,
    Untested(Untested),
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Worse.
    Worse,
    /// Better.
    Better,
    /// Up, if neither direction is better.
    Up,
    /// Down, likewise.
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untested {
    Published,
    NoInterval,
    /// A value, or an end of its interval, is not positive: there is a difference, no ratio.
    NotPositive,
    /// The symbols of its case resolved to another size.
    OtherSize,
    /// Nothing scatters in either run.
    NoScatter,
    /// It depends on what happened in the minutes before, and too few stored runs say how much.
    History,
}

impl Untested {
    /// Every reason, in the order of the report.
    pub const ALL: [Untested; 6] = [
        Untested::Published,
        Untested::NoInterval,
        Untested::NotPositive,
        Untested::OtherSize,
        Untested::NoScatter,
        Untested::History,
    ];

    /// In words, after "not tested:".
    pub fn text(self) -> &'static str {
        match self {
            Untested::Published => "published figures have no rounds",
            Untested::NoInterval => "no interval in one of the runs",
            Untested::NotPositive => "a value or an end of its interval is not positive",
            Untested::OtherSize => "measured with another size or another number of threads",
            Untested::NoScatter => "nothing scatters",
            Untested::History => {
                "depends on the minutes before the run: three stored runs say how much, and \
                 `plumb ab` compares rounds of one minute"
            }
        }
    }
}

impl Direction {
    /// That of a value which grew, or did not.
    pub fn from_growth(better: Better, grew: bool) -> Self {
        match (better, grew) {
            (Better::Lower, true) | (Better::Higher, false) => Direction::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Direction::Better,
            (Better::None, true) => Direction::Up,
            (Better::None, false) => Direction::Down,
        }
    }
}

impl Compared<'_> {
    /// New over base; `None` where there is only a difference.
    pub fn ratio(&self) -> Option<f64> {
        self.change.ratio()
    }

    /// New less base, in the metric's unit; `None` where there is a ratio.
    pub fn difference(&self) -> Option<f64> {
        self.change.difference()
    }

    pub fn interval(&self) -> Option<(f64, f64)> {
        self.change.interval().map(|ends| (ends.low, ends.high))
    }

    /// Where it went, if it is a finding.
    pub fn finding(&self) -> Option<Direction> {
        match self.outcome {
            Outcome::Finding(direction) => Some(direction),
            Outcome::Quiet | Outcome::Untested(_) => None,
        }
    }

    /// The size of the change, whichever its direction: |ln ratio|; 0 without a ratio.
    pub fn size(&self) -> f64 {
        self.ratio().map_or(0.0, |ratio| ratio.ln().abs())
    }

    /// The change in one word: `slower`, `faster` for times and rates, else `more`, `less`.
    pub fn word(&self) -> &'static str {
        let grew = self.ratio().is_none_or(|ratio| ratio > 1.0);
        word(self.metric.unit, self.metric.better, grew)
    }
}

/// A change in one word: `slower`, `faster` for times and rates, else `more`, `less`.
pub fn word(unit: Unit, better: Better, grew: bool) -> &'static str {
    match (Direction::from_growth(better, grew), grew) {
        (Direction::Worse, _) if is_speed(unit) => "slower",
        (Direction::Better, _) if is_speed(unit) => "faster",
        (_, true) => "more",
        (_, false) => "less",
    }
}

impl<'a> Against<'a> {
    /// What changed, the greatest change first.
    pub fn findings(&self) -> Vec<&Compared<'a>> {
        let found = self.figures.iter().filter(|one| one.finding().is_some());
        let mut found: Vec<&Compared> = found.collect();
        found.order_by(|a, b| b.size().total_cmp(&a.size()));
        found
    }

    /// What was tested without a finding, the least p first.
    pub fn closest(&self) -> Vec<&Compared<'a>> {
        let quiet = self.figures.iter().filter(|one| one.outcome == Outcome::Quiet);
        let mut quiet: Vec<&Compared> = quiet.collect();
        let p = |one: &Compared| one.p.unwrap_or(1.0);
        quiet.order_by(|a, b| p(a).total_cmp(&p(b)));
        quiet
    }

    pub fn tested(&self) -> usize {
        let is_tested = |one: &&Compared| !matches!(one.outcome, Outcome::Untested(_));
        self.figures.iter().filter(is_tested).count()
    }

    /// Figures that were not tested for a reason.
    pub fn untested(&self, why: Untested) -> Vec<&Compared<'a>> {
        let outcome = Outcome::Untested(why);
        let fits = self.figures.iter().filter(|one| one.outcome == outcome);
        fits.collect()
    }
}

impl Comparison<'_> {
    pub fn has_finding(&self) -> bool {
        let figures = self.against.iter().flat_map(|against| &against.figures);
        figures.into_iter().any(|one| one.finding().is_some())
    }
}

/// Compares runs with the first of them; `None` where there are fewer than two.
pub fn compare<'a>(runs: &'a [Measured<'a>], history: &History) -> Option<Comparison<'a>> {
    let (base, others) = runs.split_first()?;
    (!others.is_empty()).then(|| Comparison {
        base,
        against: others.iter().map(|new| against(base, new, history)).collect(),
    })
}

fn against<'a>(base: &'a Measured, new: &'a Measured, history: &History) -> Against<'a> {
    let apart = base.run.header.machine().difference(&new.run.header.machine());
    let same_machine = apart.is_none();
    let mut joined = join::join(base, new);
    let nearest = nearest::nearest(base, new);
    joined.incomparable.retain(|one| {
        let is = |figure| std::ptr::eq(figure, one.figure);
        !nearest.iter().any(|near| is(near.published) || is(near.figure))
    });
    let unknown = History::default();
    let history = if same_machine { history } else { &unknown };
    Against {
        new,
        same_machine,
        apart,
        conditions: conditions::differences(base.run, new.run, same_machine),
        figures: judged(base.run, new.run, joined.series, history),
        nearest,
        incomparable: joined.incomparable,
    }
}

fn judged<'a>(
    base_run: &Run,
    new_run: &Run,
    series: Vec<Vec<join::Joined<'a>>>,
    history: &History,
) -> Vec<Compared<'a>> {
    let published = base_run.header.is_published() || new_run.header.is_published();
    let learnt = band::Learnt::learn(&series, history);
    let mut families = BTreeMap::new();
    let mut prepared: Vec<Vec<(join::Joined, Band, Prepared)>> = Vec::new();
    for figures in series {
        let of_series = figures.into_iter().map(|joined| {
            let band = band::band(&joined, base_run, new_run, &learnt);
            let known = families.len();
            let family = (joined.base.family().to_owned(), joined.metric.kind);
            let family = *families.entry(family).or_insert(known);
            let prepared = prepare(&joined, &band, family, published);
            (joined, band, prepared)
        });
        prepared.push(of_series.collect());
    }
    let pairs: Vec<Vec<Pair>> = prepared
        .iter()
        .map(|series| {
            let pairs = series.iter().filter_map(|(.., one)| one.tested.clone().ok());
            pairs.collect()
        })
        .collect();
    let found = tested(&pairs);
    let mut all = Vec::new();
    for (series, found) in prepared.into_iter().zip(found) {
        let mut found = found.into_iter();
        for (joined, band, prepared) in series {
            let result = match &prepared.tested {
                Ok(_) => Ok(found.next().flatten()),
                Err(untested) => Err(*untested),
            };
            all.push((joined.index, compared(&joined, band, &prepared, result)));
        }
    }
    all.order_by_key(|(at, _)| *at);
    let mut all: Vec<Compared> = all.into_iter().map(|(_, one)| one).collect();
    settle_derived(&mut all);
    for one in all.iter_mut().filter(|one| one.finding().is_some()) {
        one.reasons = reasons::reasons(base_run, new_run, one);
    }
    all
}

/// How much a derived figure differs from run to run is not known before three stored runs have it:
/// until then it changes only where a case of its experiment does, which is tested itself.
fn settle_derived(all: &mut [Compared]) {
    let is_found = |one: &&Compared| one.finding().is_some() && !one.metric.derived;
    let changed: BTreeSet<String> =
        all.iter().filter(is_found).map(|one| one.base.experiment.clone()).gather();
    let is_assumed = |one: &&mut Compared| one.metric.derived && one.band.between.runs == 0;
    for one in all.iter_mut().filter(is_assumed) {
        if one.finding().is_some() && !changed.contains(&one.base.experiment) {
            one.outcome = Outcome::Quiet;
        }
    }
}

struct Prepared {
    base: Point,
    new: Point,
    in_cycles: bool,
    tested: Result<Pair, Untested>,
}

fn prepare(joined: &join::Joined, band: &Band, family: usize, published: bool) -> Prepared {
    let [base, new] = [joined.base, joined.new]
        .map(|figure| Point { value: figure.value.unwrap_or(f64::NAN), interval: ends(figure) });
    let of_rounds =
        [joined.base, joined.new].iter().all(|figure| figure.interval == Interval::Rounds);
    let untested = if published {
        Some(Untested::Published)
    } else if reasons::has_other_size(joined.base, joined.new) {
        Some(Untested::OtherSize)
    } else if band.between.runs == 0 && has_history(joined) {
        Some(Untested::History)
    } else if base.interval.is_none() || new.interval.is_none() {
        Some(Untested::NoInterval)
    } else if !(base.is_positive() && new.is_positive()) {
        Some(Untested::NotPositive)
    } else {
        None
    };
    let cycles = in_cycles(joined).filter(|_| of_rounds && untested.is_none());
    let in_cycles = cycles.is_some();
    let pair = Pair {
        evidence: match (of_rounds, cycles) {
            (true, Some([base, new])) => Evidence::Rounds { base, new },
            (true, None) => {
                Evidence::Rounds { base: used_rounds(joined.base), new: used_rounds(joined.new) }
            }
            (false, _) => Evidence::Intervals { base, new },
        },
        family,
        between: band.between,
        band: band.share,
    };
    Prepared { base, new, in_cycles, tested: untested.map_or(Ok(pair), Err) }
}

/// Whether the value of either run depends on what happened before it.
fn has_history(joined: &join::Joined) -> bool {
    [joined.base, joined.new].iter().any(|figure| figure.notes.has(NoteKind::History))
}

/// Relative difference of core clocks from which on figures of the core are compared in cycles.
pub(crate) const CLOCK: f64 = 0.01;

/// The round values of both in cycles, of a figure of the core whose clocks differ.
fn in_cycles(joined: &join::Joined) -> Option<[Vec<f64>; 2]> {
    let clock = |figure: &Figure| Some(figure.core_cycles()? / figure.value?);
    let ratio = clock(joined.new)? / clock(joined.base)?;
    let cycles = |figure| used(figure).map(|round| round.cycles).collect::<Option<Vec<f64>>>();
    let both = [cycles(joined.base)?, cycles(joined.new)?];
    ((ratio - 1.0).abs() > CLOCK).then_some(both)
}

/// A position's grid cell has no confidence of its own: it counts as an interval of 95 %.
const CELL: f64 = 0.95;

fn ends(figure: &Figure) -> Option<Ends> {
    let (low, high) = figure.ci?;
    Some(Ends { low, high, confidence: figure.confidence.unwrap_or(CELL) })
}

fn is_same(prepared: &Prepared) -> bool {
    prepared.base == prepared.new
}

fn compared<'a>(
    joined: &join::Joined<'a>,
    band: Band,
    prepared: &Prepared,
    result: Result<Option<stats::compare::Comparison>, Untested>,
) -> Compared<'a> {
    let untested = || {
        let reach = band.between.reach();
        stats::compare::ratio::change(prepared.base, prepared.new, reach)
    };
    let (change, p, outcome) = match result {
        // Nothing was lost in either run, for example.
        Err(Untested::NotPositive) if is_same(prepared) => (untested(), None, Outcome::Quiet),
        Err(why) => (untested(), None, Outcome::Untested(why)),
        Ok(None) => (untested(), None, Outcome::Untested(Untested::NoInterval)),
        Ok(Some(found)) => {
            let grew = found.change.ratio().is_some_and(|ratio| ratio > 1.0);
            let outcome = match (found.finding, found.p) {
                (true, _) => Outcome::Finding(Direction::from_growth(joined.metric.better, grew)),
                (false, Some(_)) => Outcome::Quiet,
                (false, None) if is_same(prepared) => Outcome::Quiet,
                (false, None) => Outcome::Untested(Untested::NoScatter),
            };
            (found.change, found.p, outcome)
        }
    };
    Compared {
        base: joined.base,
        new: joined.new,
        metric: joined.metric,
        change,
        p,
        outcome,
        in_cycles: prepared.in_cycles,
        band,
        reasons: Vec::new(),
    }
}
