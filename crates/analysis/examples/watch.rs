//! False alarms of a watch, and how soon it finds a change: the search of `plumb watch` over histories
//! whose values are drawn from the rounds of a real record. Usage: `watch RECORD [HISTORIES CYCLES]`.

use analysis::figures;
use analysis::trend::{Chance, Over, RunPoint, TrendRun, trends_by};
use analysis::watch::{Change, Seen};
use anyhow::{Context, Result};
use fastrand::Rng;
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use stats::quantile::median;
use std::fs::File;
use std::io::{BufReader, Write};

/// Rounds of a measurement of the watch: the first look of the preset quick.
const ROUNDS: usize = 6;
/// By how much equal values are moved apart, as a share: far less than any shift that counts.
const APART: f64 = 1e-6;
/// Runs that a watch keeps of each experiment.
const KEPT: usize = 60;
/// Cycles before a change, and cycles after it: a watch that finds it later has missed it.
const BEFORE: usize = 30;
const AFTER: usize = 30;
/// Factors of a change.
const FACTORS: [f64; 3] = [1.05, 1.1, 1.2];
/// Figures that change. Each has one history, in which no other figure changes.
const CHANGED: usize = 30;

/// A figure with the rounds of the record, disturbed ones included.
struct Recorded {
    key: Key,
    unit: Unit,
    better: Better,
    kind: Kind,
    rounds: Vec<f64>,
}

fn recorded(path: &str) -> Result<Vec<Recorded>> {
    let file = File::open(path).with_context(|| path.to_owned())?;
    let run = record::codec::read(BufReader::new(file))?.run;
    let of = |figure: &analysis::figure::Figure| {
        let metric = figure.metric.as_ref()?;
        let rounds: Vec<f64> = figure.rounds.iter().map(|round| round.value).collect();
        (rounds.len() >= ROUNDS && rounds.iter().all(|value| *value > 0.0)).then_some(())?;
        let (unit, better, kind) = (metric.unit, metric.better, metric.kind);
        Some(Recorded { key: figure.key()?, unit, better, kind, rounds })
    };
    Ok(figures(&run).iter().filter_map(of).collect())
}

/// A watched machine.
struct Watched<'a> {
    figures: &'a [Recorded],
    /// Values by figure, of the cycles that are kept.
    values: Vec<Vec<f64>>,
    cycle: usize,
    seen: Seen,
    rng: Rng,
}

impl<'a> Watched<'a> {
    fn new(figures: &'a [Recorded], seed: u64) -> Self {
        let values = vec![Vec::new(); figures.len()];
        Watched { figures, values, cycle: 0, seen: Seen::default(), rng: Rng::with_seed(seed) }
    }

    /// One rotation and its search; `changed` is a figure with the factor of its values.
    fn turn(&mut self, changed: Option<(usize, f64)>, chance: &mut Chance) -> Vec<Change> {
        self.cycle += 1;
        for (at, (figure, values)) in self.figures.iter().zip(&mut self.values).enumerate() {
            let mut draw = || figure.rounds[self.rng.usize(..figure.rounds.len())];
            let rounds: Vec<f64> = (0..ROUNDS).map(|_| draw()).collect();
            // A clock gives no two values that are equal; a few rounds drawn again give many.
            let apart = 1.0 + APART * self.rng.f64();
            let factor = changed.filter(|(of, _)| *of == at).map_or(1.0, |(_, factor)| factor);
            values.push(median(&rounds).unwrap_or(f64::NAN) * factor * apart);
            let more = values.len().saturating_sub(KEPT);
            values.drain(..more);
        }
        let first = self.cycle - self.values.first().map_or(0, Vec::len);
        let run = |cycle: usize| TrendRun {
            name: format!("{cycle:06}"),
            started: format!("{cycle:06}"),
            environment: std::collections::BTreeMap::new(),
        };
        let over = |(figure, values): (&Recorded, &Vec<f64>)| Over {
            key: figure.key.clone(),
            unit: figure.unit,
            better: figure.better,
            kind: figure.kind,
            points: (0..)
                .zip(values)
                .map(|(run, value)| RunPoint { run, value: *value, ci: None })
                .collect(),
        };
        let figures = self.figures.iter().zip(&self.values).map(over).collect();
        let found = trends_by((first..self.cycle).map(run).collect(), figures, chance);
        self.seen.search(&found)
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().context("name a record")?;
    let number = |at: usize, usual: usize| args.get(at).map_or(Ok(usual), |text| text.parse());
    let (histories, cycles) = (number(1, 5)?, number(2, 1000)?);
    let figures = recorded(path)?;
    let mut out = std::io::stdout();
    let mut chance = Chance::default();
    writeln!(out, "{} figures, {ROUNDS} rounds a value, {KEPT} values kept\n", figures.len())?;
    writeln!(out, "| history | cycles | changes reported | in figures |\n|---|---|---|---|")?;
    for seed in 0..histories {
        let mut watched = Watched::new(&figures, seed as u64);
        let found: Vec<Change> =
            (0..cycles).flat_map(|_| watched.turn(None, &mut chance)).collect();
        let keys: std::collections::BTreeSet<&Key> =
            found.iter().map(|change| &change.key).collect();
        writeln!(out, "| {seed} | {cycles} | {} | {} |", found.len(), keys.len())?;
    }
    writeln!(
        out,
        "\n| kind | change | figures | found | after cycles: median | 90 % | other changes |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for kind in [Kind::Hardware, Kind::Os, Kind::Io] {
        let of_kind: Vec<usize> =
            (0..figures.len()).filter(|at| figures[*at].kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        for factor in FACTORS {
            let mut rng = Rng::with_seed(7);
            let (mut after, mut others) = (Vec::new(), 0);
            for seed in 0..CHANGED {
                let at = of_kind[rng.usize(..of_kind.len())];
                let mut watched = Watched::new(&figures, 1000 + seed as u64);
                (0..BEFORE).for_each(|_| drop(watched.turn(None, &mut chance)));
                for cycle in 1..=AFTER {
                    let found = watched.turn(Some((at, factor)), &mut chance);
                    let (own, other): (Vec<&Change>, Vec<&Change>) =
                        found.iter().partition(|change| change.key == figures[at].key);
                    others += other.len();
                    if !own.is_empty() {
                        after.push(cycle as f64);
                        break;
                    }
                }
            }
            let at = |q| {
                stats::quantile::quantile(&after, q).map_or("-".to_owned(), |x| format!("{x:.0}"))
            };
            writeln!(
                out,
                "| {kind:?} | {:.0} % | {CHANGED} | {} | {} | {} | {others} |",
                100.0 * (factor - 1.0),
                after.len(),
                at(0.5),
                at(0.9),
            )?;
        }
    }
    Ok(())
}
