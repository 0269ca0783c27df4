//! What a comparison comes to: its effects, how far to trust it, and what it cannot see.

use super::conditions::about;
use super::{Against, Compared, Direction, Outcome, Source, Untested, table};
use crate::figure::Figure;
use crate::gather::gathered;
use crate::health::{Health, health};
use crate::names::around;
use crate::verdict::is_speed;
use record::metric::{Better, Kind, Metric};
use record::quantity::render;
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use stats::compare::family::centre;
use stats::quantile::median;

/// Findings of one experiment in one direction: an operation that became slower has a longer
/// latency, a lower rate and a higher cost, and so have its cases.
#[derive(Clone, Debug)]
pub struct Effect<'of, 'a> {
    pub direction: Direction,
    /// The findings, the greatest first; never empty.
    pub figures: Vec<&'of Compared<'a>>,
}

impl<'a> Effect<'_, 'a> {
    pub fn greatest(&self) -> &Compared<'a> {
        self.figures[0]
    }

    /// Its least and its greatest factor, both at least 1.
    pub fn factors(&self) -> (f64, f64) {
        let least = self.figures.last().map_or(0.0, |one| one.size());
        (least.exp(), self.greatest().size().exp())
    }

    pub fn interval(&self) -> Option<(f64, f64)> {
        let width = |ends: &(f64, f64)| ends.1 / ends.0;
        let all = self.figures.iter().filter_map(|one| one.interval());
        all.max_by(|a, b| width(a).total_cmp(&width(b)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confidence {
    pub level: Level,
    pub doubts: Vec<Doubt>,
}

/// What lowers the confidence, as it is in the base run and in the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    pub what: &'static str,
    pub of_runs: [Option<String>; 2],
}

impl Doubt {
    /// In one line: `rounds disturbed: A 12 %, B 3 %`.
    pub fn text(&self) -> String {
        let named = ["A", "B"].into_iter().zip(&self.of_runs);
        let named = named.filter_map(|(run, text)| Some(format!("{run} {}", text.as_ref()?)));
        format!("{}{}", self.what, around(": ", &named.collect::<Vec<_>>().join(", "), ""))
    }
}

/// A degree of confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Low: repeat the run on a quieter machine.
    Low,
    /// Fair: see the reasons.
    Fair,
    /// High: no known reason for doubt.
    High,
}

impl Level {
    pub fn text(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Fair => "fair",
            Level::High => "high",
        }
    }
}

/// Shares of a run that lower the confidence: their name, how many are worth a word, and how many
/// make it low.
type Limits = (fn(&Health) -> Option<f64>, &'static str, f64, f64);
const SHARES: [Limits; 5] = [
    (Health::disturbed_share, "rounds disturbed", 0.1, 0.3),
    (|health| health.run_delay, "CPU time of other programs", 0.02, 0.05),
    (|health| health.steal, "steal", 0.02, 0.05),
    (|health| health.shared, "core shared", 0.1, 0.3),
    (|health| health.moved, "CPUs moved", 0.05, 1.0),
];
/// What is said of figures without three stored runs.
const VARIATION: &str = "run-to-run variation, until three runs are stored";

/// How two runs, or a report and a run, compare in a family of experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    /// The family: `cpu`, `fs` …
    pub family: String,
    /// How many times as fast the new run is: the median over the experiments, of which each has the
    /// median of its figures. For the run beside a report, the median over the figures.
    pub factor: f64,
    /// Its interval ([`centre`]): what experiments of the family, and runs of an unchanged machine,
    /// differ by. `None` beside a report.
    pub interval: Option<(f64, f64)>,
    /// Times and rates that both have.
    pub figures: usize,
}

/// How many times as fast a value is than another one of its metric; `None` of what is no speed.
fn times_as_fast(metric: &Metric, new_over_base: f64) -> Option<f64> {
    match metric.better {
        _ if !is_speed(metric.unit) => None,
        Better::Lower => Some(new_over_base.recip()),
        Better::Higher => Some(new_over_base),
        Better::None => None,
    }
}

/// One family by its experiments: the logarithms of their figures' factors, each with the reach of
/// the variation between runs.
fn speed(family: &str, experiments: &[Vec<(f64, f64)>]) -> Option<Speed> {
    let logs = |figures: &Vec<(f64, f64)>| figures.iter().map(|(log, _)| *log).collect();
    let logs: Vec<Vec<f64>> = experiments.iter().map(logs).collect();
    let reaches: Vec<f64> = experiments.iter().flatten().map(|(_, reach)| *reach).collect();
    let (middle, half) = centre(&logs, median(&reaches)?)?;
    Some(Speed {
        family: family.to_owned(),
        factor: middle.exp(),
        interval: Some(((middle - half).exp(), (middle + half).exp())),
        figures: reaches.len(),
    })
}

impl<'a> Against<'a> {
    /// Each figure of a report with the run's figure beside it. The same measurements come first.
    fn printed(&self) -> impl Iterator<Item = (&'a Figure, &'a Figure)> {
        let same = self.figures.iter().filter_map(|one| {
            match [one.base, one.new].map(|figure| table(figure).is_some()) {
                [true, false] => Some((one.base, one.new)),
                [false, true] => Some((one.new, one.base)),
                _ => None,
            }
        });
        same.chain(self.nearest.iter().map(|near| (near.published, near.figure)))
    }

    /// How the machines of a report and of the run compare, by family; none without a report.
    pub fn speeds(&self) -> Vec<Speed> {
        let factor = |(printed, own): (&'a Figure, &'a Figure)| {
            let factor = times_as_fast(own.metric.as_ref()?, own.value? / printed.value?)?;
            Some((own.family(), factor))
        };
        let speeds = gathered(self.printed().filter_map(factor)).into_iter();
        let speeds = speeds.filter_map(|(family, factors)| {
            let figures = factors.len();
            let factor = median(&factors)?;
            Some(Speed { family: family.to_owned(), factor, interval: None, figures })
        });
        speeds.collect()
    }

    /// How much faster the new run is, by family, whether single figures are decided or not. A figure
    /// that is not tested for lack of stored runs does not count.
    pub fn families(&self) -> Vec<Speed> {
        let log = |one: &Compared<'a>| {
            let factor = times_as_fast(one.metric, one.ratio()?)?;
            let experiment = (one.base.family(), one.base.experiment.as_str());
            Some((experiment, (factor.ln(), one.band.between.reach())))
        };
        let counts = |one: &&Compared| one.outcome != Outcome::Untested(Untested::History);
        let experiments = gathered(self.figures.iter().filter(counts).filter_map(log)).into_iter();
        let families = gathered(experiments.map(|((family, _), figures)| (family, figures)));
        families.into_iter().filter_map(|(family, all)| speed(family, &all)).collect()
    }

    /// The name of the report: `R1`.
    pub fn report(&self) -> Option<&'a str> {
        let (printed, _) = self.printed().next()?;
        table(printed)?.split(' ').next()
    }

    /// What changed, each effect once, the greatest first.
    pub fn effects(&self) -> Vec<Effect<'_, 'a>> {
        let of = |one: &'_ Compared<'a>| Some((one.base.experiment.clone(), one.finding()?));
        let found = self.findings().into_iter().filter_map(|one| Some((of(one)?, one)));
        let effects = gathered(found).into_iter();
        effects.map(|((_, direction), figures)| Effect { direction, figures }).collect()
    }

    /// Whether nothing changed, but fewer than half of the figures could be tested.
    pub fn is_undecided(&self) -> bool {
        self.findings().is_empty() && 2 * self.tested() < self.figures.len()
    }

    /// How far to trust it, by what this run and the base recorded.
    pub fn confidence(&self, base: &Run) -> Confidence {
        let runs = [base, self.new.run];
        let mut confidence = Confidence { level: Level::High, doubts: Vec::new() };
        let mut doubt = |level, what, of_runs| {
            confidence.level = confidence.level.min(level);
            confidence.doubts.push(Doubt { what, of_runs });
        };
        let healths = runs.map(health);
        for (share, what, some, much) in SHARES {
            let shares = healths.each_ref().map(share);
            let most = shares.iter().flatten().copied().fold(0.0, f64::max);
            if most >= some {
                let level = if most >= much { Level::Low } else { Level::Fair };
                doubt(level, what, shares.map(|share| Some(render(share?, Unit::Percent))));
            }
        }
        let unfinished = runs.map(|run| about(run).unfinished.map(str::to_owned));
        if unfinished.iter().any(Option::is_some) {
            doubt(Level::Fair, "incomplete", unfinished);
        }
        let is_assumed =
            |one: &Compared| one.p.is_some() && matches!(one.band.source, Source::Default(_));
        if self.figures.iter().any(is_assumed) {
            doubt(Level::Fair, VARIATION, ["assumed"; 2].map(|text| Some(text.to_owned())));
        }
        confidence
    }

    /// By kind of figure the least change that half of the tested figures show; kinds without
    /// tested figures are left out.
    pub fn least_seen(&self) -> Vec<(Kind, f64)> {
        let of = |kind: Kind| {
            let tested = self.figures.iter().filter(|one| one.p.is_some());
            let own = tested.filter(|one| one.metric.kind == kind);
            let least: Vec<f64> = own.map(Compared::least_seen).collect();
            Some((kind, median(&least)?))
        };
        [Kind::Hardware, Kind::Os, Kind::Io].into_iter().filter_map(of).collect()
    }
}

impl Compared<'_> {
    /// The least |ratio - 1| that would be a finding: what an unchanged machine differs by, or what
    /// the interval of the ratio leaves open.
    pub fn least_seen(&self) -> f64 {
        let open = match (self.ratio(), self.interval()) {
            (Some(_), Some((low, high))) if low > 0.0 => (high / low).sqrt() - 1.0,
            _ => 0.0,
        };
        self.band.share.max(open)
    }
}

#[cfg(test)]
mod tests {
    use super::speed;

    #[test]
    fn a_family_has_the_median_of_its_experiments_within_what_they_differ_by() {
        let experiment = |centre: f64| (-4..=4).map(move |n| (centre + f64::from(n) * 0.01, 0.03));
        let experiments = [0.1, 0.2, 0.9].map(|centre| experiment(centre).collect());
        let found = speed("cpu", &experiments).expect("has figures");
        assert_eq!((found.family.as_str(), found.figures), ("cpu", 27));
        assert!((found.factor - 0.2_f64.exp()).abs() < 1e-12);
        let (low, high) = found.interval.expect("has one");
        assert!(((low * high).ln() - 0.4).abs() < 1e-12, "{low} {high}");
        // Farther than runs of an unchanged machine differ by, and not as far as one experiment is.
        assert!((0.03..0.7).contains(&(high.ln() - 0.2)), "{high}");
        assert_eq!(speed("cpu", &[]), None);
    }
}
