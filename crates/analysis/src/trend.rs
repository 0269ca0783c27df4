//! Figures over the runs of one machine, with the shifts of their level.

use crate::compare::CLOCK;
use crate::gather::ends;
use record::order::Gather;
use stats::compare::multiple::benjamini_hochberg;
use stats::quantile::median;
use stats::shift::{RATE, Shift, p_value, shifts};
// What a report shows of shifts.
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
pub use stats::compare::ratio::Change;
pub use stats::shift::{Chance, LEAST_RUNS};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
pub struct TrendRun {
    pub name: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    pub environment: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    pub key: Key,
    /// Unit in which people read the values.
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
    /// Its values, in the order of the runs; runs that lack it are left out.
    pub points: Vec<RunPoint>,
}

impl Over {
    /// The same figure of the core in cycles, one for each point, where the clocks of its runs differ.
    #[must_use]
    pub fn in_cycles(mut self, cycles: &[f64]) -> Over {
        let factors = self.points.iter().zip(cycles).map(|(point, cycles)| cycles / point.value);
        let factors: Vec<f64> = factors.collect();
        let (low, high) = ends(factors.iter().copied());
        if high / low - 1.0 > CLOCK {
            self.unit = Unit::Cycle;
            for (point, factor) in self.points.iter_mut().zip(factors) {
                point.value *= factor;
                point.ci = point.ci.map(|(low, high)| (low * factor, high * factor));
            }
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunPoint {
    pub run: usize,
    pub value: f64,
    pub ci: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trends {
    pub runs: Vec<TrendRun>,
    pub trends: Vec<Trend>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    pub over: Over,
    /// Probability that chance alone divides its runs as well; `None` where there are too few runs,
    /// or all are equal.
    pub p: Option<f64>,
    /// Its shifts; indices are those of its points.
    pub shifts: Vec<Changed>,
}

/// A shift, and what else changed at that run.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub shift: Shift,
    /// Entries of the environment that changed at that run, and at no other from the shift before
    /// to the next: name, before, after. Candidates, not causes.
    pub environment: Vec<(String, String, String)>,
}

/// Searches figures for shifts. Where there are several, those are searched whose first division
/// stands at a false discovery rate of [`RATE`] (Benjamini and Hochberg 1995). A shift by less than
/// the kind's default deviation between runs does not count.
pub fn trends(runs: Vec<TrendRun>, figures: Vec<Over>) -> Trends {
    trends_by(runs, figures, &mut Chance::default())
}

/// As [`trends`], with the distributions of chance that earlier searches made.
pub fn trends_by(runs: Vec<TrendRun>, figures: Vec<Over>, chance: &mut Chance) -> Trends {
    let p_values: Vec<Option<f64>> =
        figures.iter().map(|over| p_value(&values(over), chance)).collect();
    let tested: Vec<f64> = p_values.iter().flatten().copied().collect();
    let mut believed = benjamini_hochberg(&tested, RATE).into_iter();
    let mut trends = Vec::new();
    for (over, p) in figures.into_iter().zip(p_values) {
        let is_believed = p.is_some() && believed.next().unwrap_or(false);
        let found = match is_believed {
            true => shifts(&values(&over), over.kind.default_between_run_sd(), chance),
            false => Vec::new(),
        };
        let changed = (0..found.len())
            .map(|index| Changed {
                shift: found[index].clone(),
                environment: environment(&runs, &over, &found, index),
            })
            .collect();
        trends.push(Trend { over, p, shifts: changed });
    }
    Trends { runs, trends }
}

fn values(over: &Over) -> Vec<f64> {
    over.points.iter().map(|point| point.value).collect()
}

/// What changed at a shift and only there, among the runs from the shift before to the next.
fn environment(
    runs: &[TrendRun],
    over: &Over,
    shifts: &[Shift],
    index: usize,
) -> Vec<(String, String, String)> {
    let first = index.checked_sub(1).map_or(0, |before| shifts[before].first);
    let end = shifts.get(index + 1).map_or(over.points.len(), |next| next.first);
    let at = shifts[index].first;
    let of = |points: &[RunPoint], name: &str| -> Option<Option<String>> {
        let mut texts = points.iter().map(|point| runs[point.run].environment.get(name).cloned());
        let one = texts.next()?;
        texts.all(|text| text == one).then_some(one)
    };
    let (before, after) = (&over.points[first..at], &over.points[at..end]);
    let names: BTreeSet<&String> = over.points[first..end]
        .iter()
        .flat_map(|point| runs[point.run].environment.keys())
        .gather();
    names
        .into_iter()
        .filter_map(|name| {
            let (old, new) = (of(before, name)?, of(after, name)?);
            let said = |text: Option<String>| text.unwrap_or_else(|| "absent".to_owned());
            (old != new).then(|| (name.clone(), said(old), said(new)))
        })
        .collect()
}

impl Trend {
    /// The level of each point: the median of the runs between two shifts.
    pub fn levels(&self) -> Vec<f64> {
        let whole = median(&values(&self.over)).unwrap_or(f64::NAN);
        let first = self.shifts.first().map_or(whole, |first| first.shift.before);
        let level = |index: usize| {
            let passed = self.shifts.iter().rev();
            let mut passed = passed.filter(|changed| changed.shift.first <= index);
            passed.next().map_or(first, |changed| changed.shift.after)
        };
        (0..self.over.points.len()).map(level).collect()
    }
}

impl Trends {
    /// How the figures were searched, in a sentence or two.
    pub fn method(&self) -> String {
        let is_in_cycles = |trend: &Trend| trend.over.unit == Unit::Cycle;
        let in_cycles = match self.trends.iter().any(is_in_cycles) {
            true => " Figures of the core whose clocks differ between runs are in cycles.",
            false => "",
        };
        let tested = self.trends.iter().filter(|trend| trend.p.is_some()).count();
        if tested == 0 {
            return format!("The search for shifts needs {LEAST_RUNS} runs.{in_cycles}");
        }
        let kept = match self.trends.len() {
            1 => "false shifts in at most 5 of 100 such trends",
            _ => "at most 5 of 100 reported shifts are false (Benjamini and Hochberg)",
        };
        format!(
            "Shifts of level: the largest rank-sum statistic over all divisions, compared with \
             random orders of the same runs; {kept}, if runs of an unchanged machine are \
             exchangeable. Shifts of less than 1.5 % (hardware) or 4 % (os, io) are left \
             out.{in_cycles}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Over, RunPoint, TrendRun, Trends, trends};
    use record::key::{CaseId, Key};
    use record::metric::{Better, Kind};
    use record::unit::Unit;
    use stats::draw::Draw;

    fn runs(count: usize) -> Vec<TrendRun> {
        let run = |index: usize| {
            let kernel = if index < 12 { "6.1" } else { "6.2" };
            TrendRun {
                name: format!("run-{index:02}"),
                started: String::new(),
                environment: [
                    ("kernel".to_owned(), kernel.to_owned()),
                    ("load_1m".to_owned(), index.to_string()),
                    ("thp".to_owned(), "madvise".to_owned()),
                ]
                .into(),
            }
        };
        (0..count).map(run).collect()
    }

    fn over(name: usize, draw: &mut Draw, factor: f64) -> Over {
        let point = |run: usize, draw: &mut Draw| RunPoint {
            run,
            value: 80.0 * f64::exp(0.01 * draw.normal()) * if run < 12 { 1.0 } else { factor },
            ci: None,
        };
        Over {
            key: Key::new("os.x", &CaseId::new().with("call", name as u64), "latency"),
            unit: Unit::Ns,
            better: Better::Lower,
            kind: Kind::Hardware,
            points: (0..24).map(|run| point(run, draw)).collect(),
        }
    }

    fn shifted(found: &Trends) -> Vec<usize> {
        (0..found.trends.len()).filter(|index| !found.trends[*index].shifts.is_empty()).collect()
    }

    #[test]
    fn figures_of_the_core_are_in_cycles_where_clocks_differ() {
        let figure = |ghz: f64| {
            let mut figure = over(1, &mut Draw::new(1), 1.0);
            for (at, point) in figure.points.iter_mut().enumerate() {
                let value = 60.0 / if at < 12 { 3.0 } else { ghz };
                (point.value, point.ci) = (value, Some((0.9 * value, 1.1 * value)));
            }
            figure.in_cycles(&[60.0; 24])
        };
        assert_eq!(figure(3.01).unit, Unit::Ns);
        let found = figure(2.2);
        assert_eq!(found.unit, Unit::Cycle);
        assert!(found.points.iter().all(|point| (point.value - 60.0).abs() < 1e-9));
        assert!(found.points.iter().all(|point| (point.ci.unwrap().1 - 66.0).abs() < 1e-9));
        let found = trends(runs(24), vec![found]);
        assert!(shifted(&found).is_empty() && found.method().contains("are in cycles"));
    }

    #[test]
    fn one_shift_among_many_figures_is_found_with_what_changed_there() {
        let mut draw = Draw::new(1);
        let mut figures: Vec<Over> = (0..200).map(|name| over(name, &mut draw, 1.0)).collect();
        figures[77] = over(77, &mut draw, 1.2);
        let found = trends(runs(24), figures);
        assert_eq!(shifted(&found), [77]);
        let [changed] = found.trends[77].shifts.as_slice() else {
            panic!("{:?}", found.trends[77].shifts)
        };
        assert_eq!(changed.shift.first, 12);
        let kernel = ["kernel", "6.1", "6.2"].map(str::to_owned);
        assert_eq!(changed.environment, [kernel.into()]);
    }

    #[test]
    fn many_figures_without_a_shift_have_none() {
        let mut draw = Draw::new(2);
        let alarms = (0..20).filter(|_| {
            let figures = (0..50).map(|name| over(name, &mut draw, 1.0)).collect();
            !shifted(&trends(runs(24), figures)).is_empty()
        });
        assert!(alarms.count() <= 3);
    }
}
