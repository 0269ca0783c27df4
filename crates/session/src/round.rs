//! One round: a fresh worker, for a two-ended experiment one at each end.

use crate::budget::CoreState;
use crate::directory::{self, Before, Hanging, Unprepared, all_failed};
use crate::is_interrupt;
use crate::live::Live;
use crate::node::worker::{Hung, OutOfMemory, Worker};
use crate::node::{Node, Silent};
use crate::quiet::Look;
use crate::setup::Setup;
use anyhow::{Context, Error, Result, bail};
use bench::experiment::{FAR, LOOPBACK};
use bench::link::{CalibrateOrder, Done, Endpoint, FromWorker, RoundOrder, ToWorker};
use record::case::{Case, Order, Series};
use record::codec::EventText;
use record::event::{Calibration, Event, FailedCase};
use record::key::CaseId;
use stats::disturbed::{Deltas, judge};
use stats::width::by_design;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Part of the time of a case that it has while others use the core.
const SHORTER: u64 = 4;
/// A round may take this much longer than stated before it is given up.
const PATIENCE: u32 = 10;
/// And this long at least.
const PATIENCE_LEAST: Duration = Duration::from_secs(30);
/// Time for the ends of a connection to find each other, and to drain.
const LINK_TIME: Duration = Duration::from_secs(20);

/// The experiment that proves that two ends find each other.
const GREETING: &str = "selftest.echo";

/// What stands before the names of the far end's counters in a round's environment.
const OF_FAR: &str = "far_";

/// Time for one end to say why it failed, when the other has.
const LAST_WORDS_TIME: Duration = Duration::from_millis(300);

/// Calibrates the clocks in a worker, and in a second one if the first fails: a worker that is
/// killed costs a round, and not the run. Errors: both failed; [`crate::node::Interrupted`].
pub fn calibrate(setup: &Setup, stop: &AtomicBool) -> Result<Calibration> {
    match calibrated(setup, stop) {
        Err(error) if !is_interrupt(&error) => calibrated(setup, stop),
        first => first,
    }
}

fn calibrated(setup: &Setup, stop: &AtomicBool) -> Result<Calibration> {
    let (windows, window) = setup.calibration;
    let order = CalibrateOrder {
        cpu: first_cpu(setup)?,
        windows,
        window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
    };
    let mut worker = Worker::start()?;
    worker.order(&ToWorker::Calibrate(order))?;
    match worker.next(Instant::now() + PATIENCE_LEAST + window * windows * 2, stop)? {
        FromWorker::Calibrated(mut calibration) => {
            calibration.width = calibration.width.map(|width| by_design(width, units(setup)));
            Ok(calibration)
        }
        other => bail!("the worker answered a calibration with {other:?}"),
    }
}

/// Additions per cycle of the measuring core's design.
pub fn units(setup: &Setup) -> Option<f64> {
    let cpu = setup.site.cpus.first()?;
    setup.site.host.cpu.core_of(*cpu).additions()
}

/// Relative change of the counter's frequency since the calibration; none where it failed.
pub fn counter_drift(setup: &Setup, then: &Calibration, stop: &AtomicBool) -> Option<f64> {
    let now = calibrate(setup, stop).ok()?;
    (then.source != "clock_gettime").then_some(now.counter_hz / then.counter_hz - 1.0)
}

fn first_cpu(setup: &Setup) -> Result<usize> {
    setup.site.cpus.first().copied().context("no CPU is allowed")
}

/// Whether the session saw before the round that others use the core.
fn is_beside(live: &Live<'_>) -> bool {
    live.look.is_some_and(|look| look.state == CoreState::Shared)
}

/// The CPUs of a round, one first whose core is alone. A case for which the plan resolved something
/// may name CPUs there: its series stays where it was planned.
fn cpus(planned: &[usize], cases: &[Case], look: Option<Look>) -> Vec<usize> {
    let is_resolved = cases.iter().any(|case| !case.at.is_empty());
    let mut cpus = planned.to_vec();
    if let Some(look) = look.filter(|_| !is_resolved)
        && let Some(place) = cpus.iter().position(|cpu| *cpu == look.cpu)
    {
        cpus[..=place].rotate_right(1);
    }
    cpus
}

pub type Measured = (Event, EventText);

/// Measures one round: its events, and what the workers saw of their environment. Errors: the round
/// is void; [`crate::node::Interrupted`] is in the chain if a signal ended it.
pub fn measure(
    setup: &Setup,
    calibration: &Calibration,
    live: &mut Live<'_>,
    hanging: &Hanging,
    n: u32,
    seed: u64,
    stop: &AtomicBool,
) -> Result<(Vec<Measured>, Done)> {
    // What can do without a directory does without one that hangs.
    let dir = directory::of_series(setup, live)?.filter(|dir| hanging.reason(dir).is_none());
    let site = setup.site_of(&live.work.series);
    let order = RoundOrder {
        series: live.in_order(n, seed),
        round: n,
        seed,
        cpus: cpus(&site.cpus, &live.series.cases, live.look),
        calibration: calibration.clone(),
        dir: dir.clone(),
        far: None,
        far_address: site.peer.as_ref().map(|peer| peer.address),
        case_ns: setup.site.case_ns / if is_beside(live) { SHORTER } else { 1 },
        rehearsal: setup.options.preset == "rehearsal",
    };
    let patience = (live.work.cost * PATIENCE).max(PATIENCE_LEAST);
    for remote in setup.remotes.values() {
        remote.beat(patience + live.work.preparation * PATIENCE + LINK_TIME, stop);
    }
    if live.prepared.is_none() && live.work.experiment.is_prepared(&order.series) {
        let began = Instant::now();
        let device = directory::device(setup, dir.as_deref());
        prepare(&order, device, live.work.preparation, stop)?;
        live.prepared = Some(began.elapsed());
    }
    let mut far = if live.work.experiment.two_ended() {
        Some(far_end(setup, &order, stop)?)
    } else {
        meet(setup, &order, stop)?;
        None
    };
    let endpoint = far.as_ref().map(|(_, endpoint)| endpoint.clone());
    let mut near = Worker::start()?;
    let device = directory::device(setup, dir.as_deref());
    let touches_files = dir.is_some() && directory::depends(live);
    near.has_files(dir, device, directory::silence(live.work.cost));
    near.order(&ToWorker::Round(Box::new(RoundOrder { far: endpoint, ..order })))?;
    if touches_files {
        near.may_hang();
    }
    let measured = collect(&mut near, Instant::now() + patience, stop);
    let (events, mut ended) = match (measured, &mut far) {
        (Err(error), Some((worker, _))) => return Err(with_far(error, worker.as_mut(), stop)),
        (measured, _) => measured?,
    };
    if let Some((mut worker, _)) = far {
        let far = drained(worker.as_mut(), stop)?;
        let cpus = ("cpus".to_owned(), far.cpus.len() as f64);
        let of_far = far.environment.into_iter().chain([cpus]);
        ended.environment.extend(of_far.map(|(name, value)| (format!("{OF_FAR}{name}"), value)));
        if let Some(remote) = site.peer.as_ref().and_then(|peer| setup.remotes.get(&peer.name)) {
            remote.met.set(true);
        }
    }
    Ok((events, ended))
}

/// Ends a round at its far end: what it saw.
fn drained(worker: &mut dyn Node, stop: &AtomicBool) -> Result<Done> {
    worker.order(&ToWorker::Drain)?;
    let (_, done) =
        collect(worker, Instant::now() + LINK_TIME, stop).context("the far end failed")?;
    Ok(done)
}

/// Has the files made that the rounds of a series only read. Where that fails, the series has no
/// rounds and none of its files is left. Errors: [`Unprepared`], [`Hung`], or an interruption.
fn prepare(
    order: &RoundOrder,
    device: Option<String>,
    stated: Duration,
    stop: &AtomicBool,
) -> Result<()> {
    let dir = order.dir.as_deref();
    let before = dir.map(|dir| Before::list(dir, stop)).transpose()?;
    let made = make_files(order, device, directory::silence(stated), stop);
    let Err(error) = made else { return Ok(()) };
    let hung = error.downcast_ref::<Hung>();
    // One that waits in the kernel holds its file.
    if let Some(before) = before.filter(|_| hung.is_none_or(|hung| !hung.is_stuck)) {
        before.restore();
    }
    if hung.is_some() || is_interrupt(&error) {
        return Err(error);
    }
    bail!(Unprepared(host::refused::text(&error)))
}

/// A worker that makes files may hang from its beginning.
fn make_files(
    order: &RoundOrder,
    device: Option<String>,
    silence: Duration,
    stop: &AtomicBool,
) -> Result<()> {
    let mut worker = Worker::start()?;
    worker.has_files(order.dir.clone(), device, silence);
    worker.order(&ToWorker::Prepare(Box::new(order.clone())))?;
    worker.may_hang();
    loop {
        match worker.next(Instant::now() + silence, stop)? {
            FromWorker::Alive(_) => {}
            FromWorker::Prepared(_) => return Ok(()),
            other => bail!("the worker answered a preparation with {other:?}"),
        }
    }
}

fn far_end<'a>(
    setup: &'a Setup,
    order: &RoundOrder,
    stop: &'a AtomicBool,
) -> Result<(Box<dyn Node + 'a>, Endpoint)> {
    let far = order.series.cases.first().and_then(|case| case.id.text(FAR));
    let remote = far.filter(|far| *far != LOOPBACK).map(|far| {
        let remote = setup.remotes.get(far);
        remote.with_context(|| format!("unknown far end `{far}`"))
    });
    let mut worker: Box<dyn Node> = match remote.transpose()? {
        Some(remote) => remote.start(stop),
        None => Worker::start().map(|worker| Box::new(worker) as Box<dyn Node>),
    }
    .context("cannot start the far end")?;
    worker.order(&ToWorker::Serve(Box::new(order.clone())))?;
    match worker.next(Instant::now() + LINK_TIME, stop).context("the far end failed")? {
        FromWorker::Listening(endpoint) => Ok((worker, endpoint)),
        other => bail!("the far end answered with {other:?} before it listened"),
    }
}

/// Makes sure, once a run, that an address which no program serves is where the agent says: that
/// host is sent what it has not asked for, and an agent may be mistaken about its address, or lie.
fn meet(setup: &Setup, order: &RoundOrder, stop: &AtomicBool) -> Result<()> {
    let far = order.series.cases.first().and_then(|case| case.id.text(FAR));
    let remote = far.and_then(|far| setup.remotes.get(far).map(|remote| (far, remote)));
    let Some((far, remote)) = remote.filter(|(_, remote)| !remote.met.get()) else {
        return Ok(());
    };
    let greeting = Case::new(CaseId::new().with(FAR, far).with("messages", 1_u64));
    let order = RoundOrder {
        series: Series {
            settings: [("end".to_owned(), "serves".into())].into(),
            ..Series::new(GREETING, Order::Shuffled, vec![greeting])
        },
        rehearsal: true,
        ..order.clone()
    };
    let (mut worker, endpoint) = far_end(setup, &order, stop)?;
    let mut near = Worker::start()?;
    near.order(&ToWorker::Round(Box::new(RoundOrder { far: Some(endpoint), ..order })))?;
    let met = collect(&mut near, Instant::now() + LINK_TIME, stop);
    met.map_err(|error| with_far(error, worker.as_mut(), stop)).with_context(|| {
        format!(
            "cannot reach the far end {far} at the address that its agent \
                                  gave"
        )
    })?;
    drained(worker.as_mut(), stop)?;
    remote.met.set(true);
    Ok(())
}

/// Why the near end failed, with what the far end says of itself, where it failed as well: of the
/// two, the cause is there.
fn with_far(error: Error, far: &mut dyn Node, stop: &AtomicBool) -> Error {
    if is_interrupt(&error) {
        return error;
    }
    match far.next(Instant::now() + LAST_WORDS_TIME, stop) {
        Err(why) if why.chain().any(|cause| cause.is::<Silent>()) => error,
        Err(why) => error.context(format!("the far end failed: {why:#}")),
        Ok(_) => error,
    }
}

/// Takes messages until the round is over. Of an agent none but its end comes here, so that no
/// agent talks on without end; a worker of this host is given its time by what it reads and writes.
fn collect(
    worker: &mut dyn Node,
    mut deadline: Instant,
    stop: &AtomicBool,
) -> Result<(Vec<Measured>, Done)> {
    let mut events = Vec::new();
    let patience = deadline.saturating_duration_since(Instant::now());
    loop {
        match worker.next(deadline, stop)? {
            FromWorker::Measured(text) => events.push((text.event()?, text)),
            FromWorker::Alive(_) => deadline = Instant::now() + patience,
            FromWorker::Done(done) => return Ok((events, done)),
            other => bail!("the worker sent {other:?} in the middle of a round"),
        }
    }
}

/// The cases that a void round gives up for good: those that its worker took memory for when the
/// OOM killer ended it (of one that did not say, the only case), the one whose files hung, all
/// whose files could not be made.
pub fn given_up(error: &Error, series: &Series) -> Vec<FailedCase> {
    if let Some(unprepared) = error.downcast_ref::<Unprepared>() {
        return all_failed(series, &unprepared.to_string());
    }
    let (cases, reason) = if let Some(hung) = error.downcast_ref::<Hung>() {
        let Some(case) = &hung.case else { return all_failed(series, &hung.reason) };
        (vec![case.clone()], hung.to_string())
    } else if let Some(killed) = error.downcast_ref::<OutOfMemory>() {
        let cases = match series.cases.as_slice() {
            [only] => vec![only.id.clone()],
            _ => killed.cases.clone(),
        };
        (cases, killed.to_string())
    } else {
        return Vec::new();
    };
    let failed = cases.into_iter().map(|case| FailedCase { case, reason: reason.clone() });
    failed.collect()
}

/// Why a round counts as disturbed (METHOD §4): what happened around its worker, and around the one
/// at its far end, where that has one. Counters that could not be read disturb nothing.
pub fn disturbances(ended: &Done) -> Vec<String> {
    let near = deltas(ended.window_ns, ended.cpus.len(), &ended.environment, "");
    let mut reasons = Vec::new();
    if ended.window_ns > 0.0 {
        reasons.extend(judge(&near).iter().map(ToString::to_string));
    }
    let of_far = |name: &str| ended.environment.get(&format!("{OF_FAR}{name}")).copied();
    let Some(window_ns) = of_far("window_ns").filter(|window_ns| *window_ns > 0.0) else {
        return reasons;
    };
    let cpus = of_far("cpus").unwrap_or(1.0).max(1.0) as usize;
    // Of the far end only what is done to its CPUs: how it waits, and what its threads do to each
    // other between two cases, is the experiment's own.
    let far = Deltas {
        migrations: 0,
        major_faults: 0,
        involuntary_switches: 0,
        foreign_ns: 0.0,
        run_delay_share: 0.0,
        ..deltas(window_ns, cpus, &ended.environment, OF_FAR)
    };
    let far_reasons = judge(&far);
    reasons.extend(far_reasons.iter().map(|reason| format!("far end: {reason}")));
    reasons
}

fn deltas(window_ns: f64, cpus: usize, environment: &BTreeMap<String, f64>, of: &str) -> Deltas {
    let read = |name: &str| environment.get(&format!("{of}{name}")).copied();
    let count = |name: &str| read(name).unwrap_or(0.0).max(0.0) as u64;
    Deltas {
        window_ns: window_ns * cpus.max(1) as f64,
        throttled_ns: read("throttled_ns").unwrap_or(0.0),
        migrations: count("migrations").saturating_sub(count("planned_migrations")),
        major_faults: count("major_faults").saturating_sub(count("planned_major_faults")),
        involuntary_switches: count("involuntary_switches") + count("foreign_switches"),
        planned_switches: count("planned_switches"),
        foreign_ns: read("foreign_ns").unwrap_or(0.0),
        run_delay_share: read("minded_run_delay_ns").unwrap_or(0.0) / window_ns,
        core_clock_before_hz: read("core_hz_before"),
        core_clock_after_hz: read("core_hz_after"),
    }
}

#[cfg(test)]
mod tests;
