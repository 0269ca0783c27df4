//! One round: a fresh worker, for a two-ended experiment one at each end.

use crate::link::{CalibrateOrder, Endpoint, FromWorker, RoundOrder, ToWorker};
use crate::session::Setup;
use crate::session::child::{OutOfMemory, Worker};
use crate::session::live::Live;
use crate::session::passes::Ended;
use crate::stats::disturbed::{Deltas, judge};
use anyhow::{Context, Result, bail};
use record::case::Series;
use record::event::{Calibration, Event, FailedCase};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A round may take this much longer than stated before it is given up.
const PATIENCE: u32 = 10;
/// And this long at least.
const PATIENCE_LEAST: Duration = Duration::from_secs(30);
/// Time for the ends of a connection to find each other, and to drain.
const LINK_TIME: Duration = Duration::from_secs(20);

/// Calibrates the clocks in a worker.
pub fn calibrate(setup: &Setup, stop: &AtomicBool) -> Result<Calibration> {
    let (windows, window) = setup.calibration;
    let order = CalibrateOrder {
        cpu: first_cpu(setup)?,
        windows,
        window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
    };
    let mut worker = Worker::start()?;
    worker.order(&ToWorker::Calibrate(order))?;
    match worker.next(Instant::now() + PATIENCE_LEAST + window * windows * 2, stop)? {
        FromWorker::Calibrated(calibration) => Ok(calibration),
        FromWorker::Failed(chain) => bail!(chain.join(": ")),
        other => bail!("the worker answered a calibration with {other:?}"),
    }
}

/// Relative change of the counter's frequency since the calibration; none where it failed.
pub fn counter_drift(setup: &Setup, then: &Calibration, stop: &AtomicBool) -> Option<f64> {
    let now = calibrate(setup, stop).ok()?;
    (then.source != "clock_gettime").then_some(now.counter_hz / then.counter_hz - 1.0)
}

fn first_cpu(setup: &Setup) -> Result<usize> {
    setup
        .site
        .cpus
        .first()
        .copied()
        .context("no CPU is allowed")
}

/// Measures one round: its events, and what the workers saw of their environment.
///
/// # Errors
/// The round is void; [`crate::session::child::Interrupted`] is in the chain if a signal ended it.
pub fn measure(
    setup: &Setup,
    calibration: &Calibration,
    live: &mut Live<'_>,
    n: u32,
    seed: u64,
    stop: &AtomicBool,
) -> Result<(Vec<Event>, Ended)> {
    let order = RoundOrder {
        series: live.in_order(n, seed),
        round: n,
        seed,
        cpus: setup.site.cpus.clone(),
        calibration: calibration.clone(),
        dir: files(setup, live)?,
        far: None,
        case_ns: setup.site.case_ns,
        rehearsal: setup.options.preset == "rehearsal",
    };
    let patience = (live.work.cost * PATIENCE).max(PATIENCE_LEAST);
    if live.prepared.is_none() && live.work.experiment.is_prepared(&order.series) {
        let began = Instant::now();
        let patience = (live.work.preparation * PATIENCE).max(PATIENCE_LEAST);
        prepare(&order, patience, stop)?;
        live.prepared = Some(began.elapsed());
    }
    let far = if live.work.experiment.two_ended() {
        Some(far_end(&order, stop)?)
    } else {
        None
    };
    let endpoint = far.as_ref().map(|(_, endpoint)| endpoint.clone());
    let mut near = Worker::start()?;
    near.order(&ToWorker::Round(Box::new(RoundOrder {
        far: endpoint,
        ..order
    })))?;
    let (mut events, mut ended) = collect(&mut near, Instant::now() + patience, stop)?;
    if let Some((mut worker, _)) = far {
        worker.order(&ToWorker::Drain)?;
        let (more, far) =
            collect(&mut worker, Instant::now() + LINK_TIME, stop).context("the far end failed")?;
        events.extend(more);
        let of_far = far.environment.into_iter();
        ended
            .environment
            .extend(of_far.map(|(name, value)| (format!("far_{name}"), value)));
    }
    Ok((events, ended))
}

/// Where the series has its files.
fn files(setup: &Setup, live: &Live<'_>) -> Result<Option<PathBuf>> {
    match live.work.experiment.files_below(&live.series) {
        None => Ok(setup.site.dir.as_ref().map(|dir| dir.path.clone())),
        Some(below) => match setup.elsewhere.get(&below) {
            Some(Ok(dir)) => Ok(Some(dir.clone())),
            Some(Err(reason)) => bail!("{reason}"),
            None => bail!("no work directory was made in {}", below.display()),
        },
    }
}

/// Has the files made that the rounds of a series only read.
fn prepare(order: &RoundOrder, patience: Duration, stop: &AtomicBool) -> Result<()> {
    let mut worker = Worker::start()?;
    worker.order(&ToWorker::Prepare(Box::new(order.clone())))?;
    match worker.next(Instant::now() + patience, stop)? {
        FromWorker::Prepared(_) => Ok(()),
        FromWorker::Failed(chain) => bail!(chain.join(": ")),
        other => bail!("the worker answered a preparation with {other:?}"),
    }
}

fn far_end(order: &RoundOrder, stop: &AtomicBool) -> Result<(Worker, Endpoint)> {
    let mut worker = Worker::start().context("the far end cannot be started")?;
    worker.order(&ToWorker::Serve(Box::new(order.clone())))?;
    match worker
        .next(Instant::now() + LINK_TIME, stop)
        .context("the far end failed")?
    {
        FromWorker::Listening(endpoint) => Ok((worker, endpoint)),
        FromWorker::Failed(chain) => bail!("the far end failed: {}", chain.join(": ")),
        other => bail!("the far end answered with {other:?} before it listened"),
    }
}

/// Takes messages until the round is over.
fn collect(
    worker: &mut Worker,
    mut deadline: Instant,
    stop: &AtomicBool,
) -> Result<(Vec<Event>, Ended)> {
    let mut events = Vec::new();
    let patience = deadline.saturating_duration_since(Instant::now());
    loop {
        match worker.next(deadline, stop)? {
            FromWorker::Samples(samples) => events.push(Event::Samples(samples)),
            FromWorker::Histogram(histogram) => events.push(Event::Histogram(histogram)),
            FromWorker::Trace(trace) => events.push(Event::Trace(trace)),
            FromWorker::Alive(_) => deadline = Instant::now() + patience,
            FromWorker::Done(done) => {
                let ended = Ended {
                    window_ns: done.window_ns,
                    cpus: done.cpus,
                    environment: done.environment,
                    failed: done.failed,
                };
                return Ok((events, ended));
            }
            FromWorker::Failed(chain) => bail!(chain.join(": ")),
            other @ (FromWorker::Calibrated(_)
            | FromWorker::Prepared(_)
            | FromWorker::Listening(_)
            | FromWorker::TakesMemory(_)
            | FromWorker::MayHangIn(_)) => {
                bail!("the worker sent {other:?} in the middle of a round")
            }
        }
    }
}

/// The cases that a void round gives up for good: those that its worker took memory for when the OOM
/// killer ended it. Of one that did not say, the only case.
pub fn given_up(error: &anyhow::Error, series: &Series) -> Vec<FailedCase> {
    let Some(killed) = error.downcast_ref::<OutOfMemory>() else {
        return Vec::new();
    };
    let cases = match series.cases.as_slice() {
        [only] => vec![only.id.clone()],
        _ => killed.cases.clone(),
    };
    let failed = cases.into_iter().map(|case| FailedCase {
        case,
        reason: killed.to_string(),
    });
    failed.collect()
}

/// Why a round counts as disturbed (METHOD §4). Counters that could not be read disturb nothing.
pub fn disturbances(ended: &Ended) -> Vec<String> {
    let read = |name: &str| ended.environment.get(name).copied();
    let count = |name: &str| read(name).unwrap_or(0.0).max(0.0) as u64;
    let deltas = Deltas {
        // Steal is summed over the CPUs that measured.
        window_ns: ended.window_ns * ended.cpus.len().max(1) as f64,
        steal_ns: read("steal_ns").unwrap_or(0.0),
        throttled_ns: read("throttled_ns").unwrap_or(0.0),
        migrations: count("migrations"),
        major_faults: count("major_faults").saturating_sub(count("planned_major_faults")),
        involuntary_switches: count("involuntary_switches") + count("foreign_switches"),
        planned_switches: count("planned_switches"),
        foreign_ns: read("foreign_ns").unwrap_or(0.0),
        core_clock_before_hz: read("core_hz_before"),
        core_clock_after_hz: read("core_hz_after"),
    };
    if ended.window_ns <= 0.0 {
        return Vec::new();
    }
    judge(&deltas).iter().map(ToString::to_string).collect()
}
