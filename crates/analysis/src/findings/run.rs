//! Findings about the run as a whole.

use super::{Finding, LISTED, Severity, no_probe, with_more};
use crate::gather::distinct;
use crate::health::seen;
use record::event::{End, PeerHeader, Round, RoundStatus};
use record::quantity::digits;
use record::run::Run;

/// Drift of the counter that marks a run, as a ratio.
const DRIFT: f64 = 50e-6;

/// Share of the samples above the level from which on it does not hold any more.
const LEVEL_LOST: f64 = 0.01;

/// How it ended, its clocks and its rounds.
pub(super) fn findings(run: &Run) -> Vec<Finding> {
    let parts = [ended(run), clocks(run), probe(run)].into_iter().flatten();
    let parts = parts.chain(damaged(run)).chain(same_machine(run));
    parts.chain(other_plumb(run)).chain(void(run)).collect()
}

/// Lines that were changed by accident.
fn damaged(run: &Run) -> Option<Finding> {
    let lines =
        run.damaged.iter().map(|damaged| format!("line {}: {}", damaged.line, damaged.lost));
    let first: Vec<String> = lines.take(LISTED).collect();
    let all = run.damaged.len();
    (all > 0).then(|| {
        let text = format!("damaged lines of the record are lost: {}", with_more(&first, all));
        Finding::new(Severity::Error, "damaged_record", text)
            .so("restore the record from a copy, or measure again")
    })
}

/// Other plumbs that measured beside its rounds.
fn other_plumb(run: &Run) -> Option<Finding> {
    let met: Vec<&Round> = run.rounds.iter().filter(|round| !round.others.is_empty()).collect();
    let others = distinct(met.iter().flat_map(|round| &round.others).cloned());
    (!met.is_empty()).then(|| {
        let first: Vec<String> = others.iter().take(LISTED).cloned().collect();
        let text = format!(
            "another plumb measured on this machine beside {} of {} rounds: {}",
            met.len(),
            run.rounds.len(),
            with_more(&first, others.len())
        );
        warning("other_plumb", text).so("measure again with --wait, which waits for its end")
    })
}

/// Far ends that have this machine's identity.
fn same_machine(run: &Run) -> Option<Finding> {
    let header = &run.header;
    let here = header.machine();
    let is_same = |peer: &&PeerHeader| peer.machine().is_same(&here);
    let names: Vec<&str> =
        header.peers.iter().filter(is_same).map(|peer| peer.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let text = format!(
            "far ends with this machine's identity: {}; each is this host itself or another guest \
             of the same host, so its figures are no network's",
            names.join(", ")
        );
        warning("same_machine", text).so("measure towards another host to learn about a network")
    })
}

fn warning(cause: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(Severity::Warning, cause, text)
}

fn ended(run: &Run) -> Vec<Finding> {
    let is_crosscheck = run.header.is_crosscheck();
    let plan = (run.plan.is_none() && !is_crosscheck).then(|| {
        let why = match run.rounds.is_empty() {
            true => "the run ended before its plan was written",
            false => "the plan of the run is lost",
        };
        Finding::new(Severity::Error, "no_plan", why)
    });
    let end = match run.footer.as_ref().map(|footer| footer.end) {
        None => Some(warning(
            "killed",
            "the record is incomplete: the run was killed or is still running; figures use the \
             rounds written so far",
        )),
        // The quality of the run reports a budget that ran out.
        Some(End::Complete | End::Budget) => None,
        Some(End::Interrupted) if is_crosscheck => Some(warning(
            "interrupted",
            "the crosscheck was interrupted: comparisons without turns are missing",
        )),
        Some(End::Interrupted) => {
            Some(warning("interrupted", "the run was interrupted").so("continue it with --resume"))
        }
    };
    let is_debug = run.header.profile == "debug";
    let debug = is_debug.then(|| {
        warning(
            "debug_build",
            "measured with a debug build: the loops around timed kernels are not optimised",
        )
        .so("measure with a release build")
    });
    [plan, end, debug].into_iter().flatten().collect()
}

fn clocks(run: &Run) -> Vec<Finding> {
    let clocks = &run.header.calibration;
    let drift = run.footer.as_ref().and_then(|footer| footer.counter_drift);
    let drift = drift.filter(|drift| drift.abs() > DRIFT).map(|drift| {
        let ppm = digits(drift * 1e6);
        let text =
            format!("the counter's frequency drifted by {ppm} ppm during the run (more than 50)");
        warning("counter_drift", text)
    });
    let falls_back = clocks.vdso_falls_back.then(|| {
        warning(
            "clock_by_system_call",
            "reading the clock takes a system call here, and event times include it",
        )
    });
    let is_unconfirmed = clocks.core_source == "chains" && clocks.multiply_cycles.is_none();
    let unconfirmed = is_unconfirmed.then(|| {
        warning(
            "core_clock_unconfirmed",
            "the core clock is unconfirmed (the ratio of multiply to rotate is not an integer): \
             figures in cycles are doubtful",
        )
    });
    [drift, falls_back, unconfirmed].into_iter().flatten().collect()
}

/// The core has no usable width probe, or its level drifted.
fn probe(run: &Run) -> Vec<Finding> {
    let known = run.width(0);
    let from_design = known.filter(|width| width.from_design).map(|width| {
        let text = format!(
            "no reading of the width probe shows the core alone: its level ({} operations a cycle) \
             is that of the processor's design",
            digits(width.level.unwrap_or_default())
        );
        warning("no_width_probe", text)
    });
    let unusable = known.and_then(|width| width.unusable).map(|why| {
        let text = format!(
            "no usable width probe: {}; figures may include time that others used the core",
            no_probe(why)
        );
        warning("no_width_probe", text)
    });
    let fast = seen(run).share(|seen| seen.fast).filter(|fast| *fast > LEVEL_LOST).map(|fast| {
        let text = format!(
            "plumb could not tell well when another program shared the core ({} % of the width \
             probe's readings are above the level of a core alone); take figures marked § as \
             slow-side values",
            digits(fast * 100.0)
        );
        warning("width_probe_drift", text)
    });
    [from_design, unusable, fast].into_iter().flatten().collect()
}

/// Rounds that do not count.
fn void(run: &Run) -> Option<Finding> {
    let void = run.rounds.iter().filter_map(|round| match &round.status {
        RoundStatus::Void(reason) => Some((round.series.as_str(), reason.as_str())),
        RoundStatus::Ok => None,
    });
    let void: Vec<(&str, &str)> = void.collect();
    let uncounted = match void.len() {
        0 => return None,
        1 => "1 round does not count".to_owned(),
        count => format!("{count} rounds do not count"),
    };
    let reasons = distinct(void.iter().map(|(_, reason)| *reason));
    let first = reasons.iter().take(LISTED).map(|reason| {
        let of_it = void.iter().filter(|(_, other)| other == reason);
        let series = distinct(of_it.map(|(series, _)| *series));
        match series.as_slice() {
            [first, _, others @ ..] if !others.is_empty() => {
                format!("{first} and {} more series: {reason}", others.len() + 1)
            }
            few => format!("{}: {reason}", few.join(" and ")),
        }
    });
    let text = format!("{uncounted}: {}", with_more(&first.collect::<Vec<_>>(), reasons.len()));
    Some(warning("void_rounds", text))
}
