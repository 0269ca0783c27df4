//! The measuring child: takes one order on its standard input, answers on its standard output.

use crate::experiment::Experiment;
use crate::experiments;
use crate::link::frame::{receive, send};
use crate::link::{FromWorker, RoundOrder, ToWorker};
use crate::measure::{self, Bench, FarEnd};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};

/// Serves one order and returns.
///
/// # Errors
/// The session cannot be read or written; failures of the order itself are its answer.
pub fn serve(parent: u32, mut input: impl Read, mut output: impl Write) -> Result<()> {
    metal::process::die_with_parent(parent).context("cannot tie the worker to its session")?;
    let Some(order) = receive::<ToWorker>(&mut input)? else {
        return Ok(());
    };
    let answered = match order {
        ToWorker::Calibrate(order) => {
            measure::calibrate(&order).map(|calibration| vec![FromWorker::Calibrated(calibration)])
        }
        ToWorker::Prepare(order) => prepare(*order),
        ToWorker::Round(order) => round(*order),
        ToWorker::Serve(order) => far_end(*order, &mut input, &mut output),
        ToWorker::Drain => Err(anyhow::anyhow!("nothing to drain: no round was ordered")),
    };
    let messages = answered.unwrap_or_else(|error| {
        vec![FromWorker::Failed(
            error.chain().map(ToString::to_string).collect(),
        )]
    });
    for message in messages {
        send(&mut output, &message)?;
    }
    Ok(())
}

fn find(order: &RoundOrder) -> Result<&'static dyn Experiment> {
    experiments::find(&order.series.experiment)
        .with_context(|| format!("this plumb has no experiment {}", order.series.experiment))
}

fn prepare(order: RoundOrder) -> Result<Vec<FromWorker>> {
    let dir = order
        .dir
        .clone()
        .context("no directory for files was given")?;
    let files = find(&order)?.prepare(&order.series, &dir)?;
    Ok(vec![FromWorker::Prepared(files)])
}

fn round(order: RoundOrder) -> Result<Vec<FromWorker>> {
    let experiment = find(&order)?;
    let series = order.series.clone();
    let mut bench = Bench::new(order)?;
    experiment
        .measure(&series, &mut bench)
        .with_context(|| format!("a round of {} failed", series.label()))?;
    let (samples, histograms, traces, done) = bench.finish()?;
    if samples.is_empty() && traces.is_empty() {
        bail!("the round of {} gave no samples", series.label());
    }
    let mut messages: Vec<FromWorker> = samples.into_iter().map(FromWorker::Samples).collect();
    messages.extend(histograms.into_iter().map(FromWorker::Histogram));
    messages.extend(traces.into_iter().map(FromWorker::Trace));
    messages.push(FromWorker::Done(done));
    Ok(messages)
}

fn far_end(
    order: RoundOrder,
    input: &mut impl Read,
    output: &mut impl Write,
) -> Result<Vec<FromWorker>> {
    let experiment = find(&order)?;
    let series = order.series.clone();
    let mut far = FarEnd::new(order, input, output)?;
    experiment
        .serve(&series, &mut far)
        .with_context(|| format!("the far end of {} failed", series.label()))?;
    let (samples, done) = far.finish()?;
    let mut messages: Vec<FromWorker> = samples.into_iter().map(FromWorker::Samples).collect();
    messages.push(FromWorker::Done(done));
    Ok(messages)
}
