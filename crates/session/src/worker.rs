//! The measuring child: takes one order on its standard input, answers on its standard output.

use crate::Sink;
use crate::header::Build;
use crate::machine::Machine;
use crate::setup::{Setup, Wanted, run_name};
use crate::store::Store;
use anyhow::{Context, Result, bail};
use bench::experiment::{self, AnyExperiment, Catalogue};
use bench::link::frame::{receive, send};
use bench::link::{Done, FromWorker, RoundOrder, RunOrder, ToWorker};
use bench::measure::{self, Bench, FarEnd, Heartbeat};
use record::codec::EventText;
use record::event::{Event, Repeat};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Serves one order from standard input and returns. Errors: the session cannot be read or written;
/// failures of the order itself are its answer.
pub fn serve(catalogue: Catalogue, build: Build, parent: u32) -> Result<()> {
    metal::process::die_with_parent(parent).context("cannot bind the worker to its session")?;
    let Some(order) = receive::<ToWorker>(&mut io::stdin().lock())? else { return Ok(()) };
    if !matches!(order, ToWorker::Run(_)) {
        offer_as_victim();
    }
    let answered = match order {
        ToWorker::Run(order) => run(catalogue, build, *order),
        ToWorker::Calibrate(order) => {
            measure::calibrate(&order).map(|calibration| vec![FromWorker::Calibrated(calibration)])
        }
        ToWorker::Prepare(order) => prepare(catalogue, *order),
        ToWorker::Round(order) => round(catalogue, *order),
        ToWorker::Serve(order) => far_end(catalogue, *order),
        ToWorker::Drain => Err(anyhow::anyhow!("nothing to drain: no round was ordered")),
    };
    let messages = answered.unwrap_or_else(|error| {
        vec![FromWorker::Failed(error.chain().map(ToString::to_string).collect())]
    });
    let mut output = io::BufWriter::new(io::stdout().lock());
    for message in messages {
        send(&mut output, &message)?;
    }
    Ok(output.flush()?)
}

/// Where memory runs out, the one that takes it is ended, and neither the session nor anybody
/// else's process. Raising one's own score needs no privilege.
fn offer_as_victim() {
    const FIRST: &str = "1000";
    // A sandbox that forbids it leaves the kernel's choice, which most often is the largest anyway.
    let _ = std::fs::write("/proc/self/oom_score_adj", FIRST);
}

fn find(catalogue: Catalogue, order: &RoundOrder) -> Result<&'static dyn AnyExperiment> {
    experiment::find(catalogue, &order.series.experiment)
        .with_context(|| format!("this plumb has no experiment {}", order.series.experiment))
}

fn prepare(catalogue: Catalogue, order: RoundOrder) -> Result<Vec<FromWorker>> {
    let dir = order.dir.clone().context("no directory for files was given")?;
    let began = Instant::now();
    let mut heartbeat = Heartbeat::new(io::stdout());
    let mut alive = || heartbeat.alive(began.elapsed().as_secs_f64());
    let files = find(catalogue, &order)?.prepare(&order.series, &dir, &mut alive)?;
    heartbeat.finish().context("sending a heartbeat")?;
    Ok(vec![FromWorker::Prepared(files)])
}

fn round(catalogue: Catalogue, order: RoundOrder) -> Result<Vec<FromWorker>> {
    let experiment = find(catalogue, &order)?;
    let (series, calibration) = (order.series.clone(), order.calibration.clone());
    let mut bench = Bench::new(order)?.speaking_to(io::stdout());
    experiment::measure(experiment, &series, &mut bench)
        .with_context(|| format!("a round of {} failed", series.label()))?;
    let (mut samples, histograms, traces, done) = bench.finish()?;
    if samples.is_empty() && traces.is_empty() {
        if let Some(first) = done.failed.first() {
            // What all have in common is of none of them alone.
            if done.failed.iter().all(|failed| failed.reason == first.reason) {
                bail!("{}", first.reason);
            }
            bail!("{}: {}", first.case, first.reason);
        }
        bail!("the round of {} produced no samples", series.label());
    }
    let in_order = experiment.card().repeat != Repeat::Rounds;
    samples.iter_mut().for_each(|samples| samples.shorten(&calibration, in_order));
    let samples = samples.into_iter().map(Event::Samples);
    let histograms = histograms.into_iter().map(Event::Histogram);
    let events = samples.chain(histograms).chain(traces.into_iter().map(Event::Trace));
    let texts = events.map(|event| Ok(FromWorker::Measured(EventText::new(&event)?)));
    texts.chain([Ok(FromWorker::Done(done))]).collect()
}

/// Events of a run go to the plumb that ordered it.
struct Ordered(io::Stdout);

impl Sink for Ordered {
    fn take(&mut self, _: &Event, text: &EventText) -> Result<()> {
        Ok(send(&mut self.0, &FromWorker::Measured(text.clone()))?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A whole run. It is ended with its process: what it leaves is in the journal.
fn run(catalogue: Catalogue, build: Build, order: RunOrder) -> Result<Vec<FromWorker>> {
    let RunOrder { options, here, store, token } = order;
    std::env::set_current_dir(&here).context("cannot run where it is ordered to")?;
    let stop = AtomicBool::new(false);
    let what = format!("plumb run {}", options.selectors.join(" "));
    let machine = Some(token).filter(|token| !token.is_empty());
    let machine = machine.map(|token| Machine::look(&what, Some(&token))).transpose()?;
    machine.iter().try_for_each(Machine::enter)?;
    let dir = options.dir.clone().map(PathBuf::from);
    let mut setup = Setup::new(
        Wanted {
            build,
            catalogue,
            options,
            dir: dir.as_deref(),
            seed: None,
            name: Some(run_name()),
            then: &[],
            host_tree: None,
            machine,
        },
        &stop,
    )?;
    setup.measures_something()?;
    let work = setup.make_dirs(&Store::in_directory(store), &stop)?;
    let finished = crate::run(&setup, &mut Ordered(io::stdout()), &mut |_| {}, &stop, None)?;
    for work in work {
        let is_hanging = finished.hanging.iter().any(|dir| dir == work.path());
        work.remove(is_hanging)?;
    }
    Ok(vec![FromWorker::Done(Done::default())])
}

fn far_end(catalogue: Catalogue, order: RoundOrder) -> Result<Vec<FromWorker>> {
    let experiment = find(catalogue, &order)?;
    let series = order.series.clone();
    let mut far = FarEnd::new(order, io::stdin(), io::stdout())?;
    experiment
        .serve(&series, &mut far)
        .with_context(|| format!("the far end of {} failed", series.label()))?;
    Ok(vec![FromWorker::Done(far.finish())])
}
