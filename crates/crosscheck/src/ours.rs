//! plumb's side: a run of its own like any other, whose record is read.

use super::{Ours, Row, Statistic};
use analysis::figure::Figure;
use analysis::figures;
use anyhow::{Context, Result, anyhow, bail};
use bench::link::{FromWorker, RunOrder, ToWorker};
use record::event::{Ending, Event, Options, Raw};
use record::key::CaseId;
use record::metric::Better;
use record::order::InOrder;
use record::run::Run;
use session::node::Node as _;
use session::node::worker::Worker;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// With such a goal a run ends at its first look.
const FIRST_LOOK: f64 = 1.0;
/// It is ended so much after its budget: it calibrates, prepares files and removes them.
const LIMIT: Duration = Duration::from_secs(90);

/// The arguments of a run whose record is `record`, to be repeated by hand.
pub(super) fn args(ours: &Ours, record: &Path) -> Vec<String> {
    let mut args: Vec<String> =
        ["run", ours.experiment, "--preset", ours.preset.name()].map(str::to_owned).into();
    args.extend(["--precision", "100", "--budget"].map(str::to_owned));
    args.push(humantime::format_duration(ours.budget).to_string().replace(' ', ""));
    args.push("--cpu".to_owned());
    args.push(host::format_cpus(&ours.cpus));
    if let Some(dir) = &ours.dir {
        args.extend(["--dir".to_owned(), dir.display().to_string()]);
    }
    args.extend(ours.settings().into_iter().flat_map(|one| ["--set".to_owned(), one]));
    args.extend(["--out".to_owned(), record.display().to_string()]);
    args
}

/// Runs it on a node of this host. Errors: it did not come to its end in its time, and why; a signal
/// sets `stop`.
pub(super) fn run(
    ours: &Ours,
    here: &Path,
    store: &Path,
    token: &str,
    stop: &AtomicBool,
) -> Result<Run> {
    let order = RunOrder {
        options: Options {
            selectors: vec![ours.experiment.to_owned()],
            preset: ours.preset.name().to_owned(),
            budget_s: ours.budget.as_secs_f64(),
            precision: FIRST_LOOK,
            set: ours.settings(),
            cpus: Some(host::format_cpus(&ours.cpus)),
            dir: ours.dir.as_ref().map(|dir| dir.display().to_string()),
            ..Options::default()
        },
        here: here.to_owned(),
        store: store.to_owned(),
        token: token.to_owned(),
    };
    let deadline = Instant::now() + ours.budget + LIMIT;
    let mut node = Worker::start()?;
    node.order(&ToWorker::Run(Box::new(order)))?;
    let mut run: Option<Run> = None;
    loop {
        match node.next(deadline, stop)? {
            FromWorker::Measured(text) => match (&mut run, text.event()?) {
                (None, Event::Header(header)) => run = Some(Run::new(*header)),
                (None, other) => bail!("its record begins with {other:?}"),
                (Some(run), event) => run.push(event),
            },
            FromWorker::Done(_) => return run.context("it has no record"),
            other => bail!("it answered with {other:?}"),
        }
    }
}

pub(super) fn value(run: &Run, ours: &Ours, row: &Row) -> Result<f64> {
    // As found: other tools cannot tell which program had the core.
    let as_found = |figure: Figure| match figure.as_found {
        Some(found) => *found,
        None => figure,
    };
    let all: Vec<Figure> = figures(run).into_iter().map(as_found).collect();
    let figure = figure(&all, ours, row);
    if let Statistic::Own(_, of) = row.statistic {
        // It may need no figure; if it has no value, the figure's own reason says more.
        return match of(run, row) {
            Ok(value) => finite(ours, row, &row.case, value),
            Err(why) => figure.and(Err(why)),
        };
    }
    let figure = figure?;
    let stats = || figure.stats.as_ref().context("a derived figure has no samples");
    let value = match row.statistic {
        Statistic::Value => figure.value.context("it has no value")?,
        Statistic::Best => {
            let better = figure.metric.as_ref().map(|metric| metric.better);
            match better {
                Some(Better::Higher) => stats()?.max,
                _ => stats()?.min,
            }
        }
        Statistic::MeanOfRounds => {
            let rounds = &figure.rounds;
            rounds.iter().map(|round| round.value).sum::<f64>() / rounds.len() as f64
        }
        Statistic::MeanOfAll => {
            let counted = counted(run, ours.experiment, &figure.case, row.metric);
            let total: f64 = counted.iter().map(|(_, count)| count).sum();
            counted.iter().map(|(value, count)| value * count).sum::<f64>() / total
        }
        Statistic::MedianOfAll => {
            middle(counted(run, ours.experiment, &figure.case, row.metric)).context("no events")?
        }
        Statistic::Own(_, of) => of(run, row)?,
    };
    finite(ours, row, &figure.case, value)
}

fn finite(ours: &Ours, row: &Row, case: &CaseId, value: f64) -> Result<f64> {
    match value.is_finite() {
        true => Ok(value * row.times),
        false => bail!("{} {case} has no {}", ours.experiment, row.statistic.name()),
    }
}

/// The value of the first figure of a case and a metric, in a run of one experiment.
pub(super) fn figure_value(run: &Run, case: &CaseId, metric: &str) -> Result<f64> {
    let is_meant = |figure: &Figure| {
        figure.metric.as_ref().is_some_and(|told| told.name == metric) && is_of(&figure.case, case)
    };
    let found = figures(run).into_iter().find(is_meant);
    found.and_then(|figure| figure.value).with_context(|| format!("no {metric} of {case}"))
}

pub(super) fn is_of(case: &CaseId, told: &CaseId) -> bool {
    told.0.iter().all(|(name, value)| case.get(name) == Some(value))
}

fn figure<'run>(all: &'run [Figure], ours: &Ours, row: &Row) -> Result<&'run Figure> {
    let label = || format!("{} {} of {}", row.metric, row.case, ours.experiment);
    let is_meant = |figure: &&Figure| {
        figure.experiment == ours.experiment
            && figure.metric.as_ref().is_some_and(|metric| metric.name == row.metric)
            && is_of(&figure.case, &row.case)
    };
    let meant: Vec<&Figure> = all.iter().filter(is_meant).collect();
    match meant.as_slice() {
        [figure] if figure.outcome == Ending::Measured => Ok(figure),
        [figure] => Err(anyhow!(
            "{} was not measured: {}",
            label(),
            figure.reason.as_deref().unwrap_or("no reason was recorded")
        )),
        [] => {
            let absent = all.iter().find_map(|figure| figure.reason.as_deref());
            Err(anyhow!("no figure {}: {}", label(), absent.unwrap_or("none was planned")))
        }
        several => Err(anyhow!("{} figures are {}", several.len(), label())),
    }
}

/// All values of a case's metric, each with how many operations had it, of all rounds that count:
/// of a batch, all of it. Where a round has a histogram, its samples are an excerpt of it.
fn counted(run: &Run, experiment: &str, case: &CaseId, metric: &str) -> Vec<(f64, f64)> {
    let is_own = |series: &str| series.split('/').next() == Some(experiment);
    let mut rounds: BTreeMap<(&str, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for samples in &run.samples {
        let is_first = samples.visit == 0 && is_own(&samples.series);
        if is_first && samples.case == *case && samples.metric == metric {
            let operations = match &samples.raw {
                Raw::Quartets { k, .. } | Raw::Batch { k, .. } => (*k).max(1) as f64,
                Raw::Event { .. } => 1.0,
            };
            let values = samples.raw.samples().into_iter();
            let values = values.map(|value| (value, operations));
            rounds.insert((&samples.series, samples.round), values.collect());
        }
    }
    for histogram in &run.histograms {
        if is_own(&histogram.series) && histogram.case == *case && histogram.metric == metric {
            let buckets = histogram.buckets.iter();
            let values =
                buckets.map(|(value, count)| (*value as f64 * histogram.scale, *count as f64));
            rounds.insert((&histogram.series, histogram.round), values.collect());
        }
    }
    rounds.into_values().flatten().collect()
}

fn middle(mut counted: Vec<(f64, f64)>) -> Option<f64> {
    counted.order_by(|one, other| one.0.total_cmp(&other.0));
    let half = counted.iter().map(|(_, count)| count).sum::<f64>() / 2.0;
    let mut below = 0.0;
    counted
        .into_iter()
        .find(|(_, count)| {
            below += count;
            below >= half
        })
        .map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::counted;
    use analysis::crosscheck::sample;
    use record::event::Raw;
    use record::key::CaseId;
    use record::run::Run;

    #[test]
    fn a_batch_weighs_as_much_as_it_holds() {
        let known = analysis::sample::run();
        let mut samples = known.samples[0].clone();
        samples.case = CaseId::new();
        samples.raw =
            Raw::Quartets { k: 10, n: vec![100.0, 100.0], two_n: vec![200.0, 240.0], voids: 0 };
        let mut run = Run::new(sample::run_of_plumb().header);
        let experiment = samples.series.split('/').next().map(str::to_owned);
        let experiment = experiment.expect("a series has a name");
        let metric = samples.metric.clone();
        run.samples.push(samples.clone());
        samples.round += 1;
        samples.raw = Raw::Event { values: vec![9.0] };
        run.samples.push(samples);
        let all = counted(&run, &experiment, &CaseId::new(), &metric);
        assert_eq!(all, [(5.0, 10.0), (7.0, 10.0), (9.0, 1.0)]);
    }
}
