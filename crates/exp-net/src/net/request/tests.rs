use super::EXPERIMENT;
use super::party::FarAnswer;
use crate::net::wire::tests::{complete, only_order, rehearse_both, round};
use crate::net::wire::{Acceptor, NO_PORTS, PATIENCE};
use bench::experiment::fixtures::joined::joined;
use bench::experiment::fixtures::{recorded, set};
use bench::experiment::{AnyExperiment, Preset};
use bench::measure::FarEnd;
use laws::net::request::Requests;
use record::event::Samples;
use session::fixtures::params;
use std::time::{Duration, Instant};

fn quantity(samples: &Samples, name: &str) -> f64 {
    samples.quantities[name]
}

#[test]
fn one_cpu_is_enough_where_the_far_end_has_its_own() {
    let mut site = recorded("vm-granite-rapids");
    site.cpus.truncate(1);
    let all = params(EXPERIMENT.card(), Preset::Standard, &[]);
    let skip = EXPERIMENT.series(&site, &all).unwrap_err();
    assert!(skip.needed.is_some());
    site.peer = joined("", "").peer;
    assert!(EXPERIMENT.series(&site, &all).unwrap().skipped.is_empty());
}

#[test]
fn quick_refers_to_standard_and_one_cpu_for_both_is_refused() {
    let site = recorded("vm-granite-rapids");
    let offered = |preset, set: &[(&str, &str)]| {
        EXPERIMENT.series(&site, &params(EXPERIMENT.card(), preset, set))
    };
    let skip = offered(Preset::Quick, &[]).unwrap_err();
    assert!(skip.needed.unwrap().contains("--preset standard"));
    assert!(offered(Preset::Quick, &[("load", "50")]).is_ok());
    let offer = offered(Preset::Standard, &[("ends", "same_cpu,other_cpu")]).unwrap();
    assert_eq!((offer.series[0].cases.len(), offer.skipped.len()), (4, 4));
    // A rate instead of shares, and both where both are asked for.
    let rates = offered(Preset::Standard, &[("rate", "1000,5000")]).unwrap();
    assert_eq!(rates.series[0].cases.len(), 2);
    let both = offered(Preset::Standard, &[("rate", "1000"), ("load", "closed,50")]).unwrap();
    assert_eq!(both.series[0].cases.len(), 3);
}

#[test]
fn a_rehearsal_has_every_figure_by_both_protocols() {
    let set = [("protocol", "tcp,udp"), ("schedule", "fixed,poisson")];
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, &set);
    let cases = complete(&EXPERIMENT, &rehearsed);
    assert_eq!(cases.len(), 6);
    for case in cases {
        for metric in ["cpu_near", "cpu_far"] {
            let at = &rehearsed.samples_of(&case, metric).unwrap().at;
            assert!(at.contains_key("softirq_cpu"), "{at:?}");
        }
        let rate = rehearsed.samples_of(&case, "rate").unwrap();
        assert!(
            quantity(rate, "served") >= quantity(rate, "requests") - quantity(rate, "no_reply")
        );
    }
}

/// Whatever else the machine does: every request that was due while the far end stood still, and
/// could not be answered before it went on, has at least the rest of the stall in its response.
#[test]
fn a_stall_of_the_far_end_is_in_every_request_that_was_due_in_it() {
    const RATE: f64 = 5000.0;
    let set = [("rate", "5000"), ("connections", "1"), ("time", "60ms"), ("stall", "20ms")];
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, &set);
    assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
    let of = |metric: &str| {
        let mut all = rehearsed.samples.iter();
        all.find(|samples| samples.metric == metric).unwrap()
    };
    let response = of("response").raw.samples();
    assert_eq!(response.len(), 300);
    // Due no later than 10 ms after the request before whose reply it stood still for 20.
    let hit = response.iter().filter(|ns| **ns >= 10e6).count();
    assert!(hit as f64 >= RATE * 0.01, "{hit} of {}", response.len());
    assert!(response.iter().any(|ns| *ns >= 20e6));
    let parts = of("service").raw.samples().into_iter().zip(of("lateness").raw.samples());
    for (whole, (service, lateness)) in response.into_iter().zip(parts) {
        assert!((whole - service - lateness).abs() <= 1e-6 * whole + 1.0);
        assert!(lateness >= 0.0 && service > 0.0);
    }
}

#[test]
fn requests_that_come_too_late_are_in_the_distribution_without_a_value() {
    let set = set("rate=2000 connections=1 time=100ms timeout=1ms stall=40ms");
    // Ten median times of the warm-up may be longer than the time-out; then fewer are too late, or
    // none.
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, &set);
    for samples in rehearsed.samples.iter().filter(|of| of.metric == "response") {
        let limit = rehearsed.samples_of(&samples.case, "rate").unwrap();
        let limit = quantity(limit, "timeout_ns");
        assert!(samples.raw.samples().iter().all(|ns| *ns < limit));
        let lost = rehearsed.samples_of(&samples.case, "lost").unwrap().raw.samples()[0];
        let censored = samples.quantities.get("censored").copied().unwrap_or(0.0);
        assert_eq!(lost, censored / 200.0);
        if limit < 10e6 {
            // Due in the first 30 ms of the stall: those wait longer.
            assert!(censored >= 60.0, "{censored} beyond {limit}");
        }
    }
}

/// What becomes of the only case when the far end takes connections and then does something else.
fn reason_with(after: impl Fn(&mut Vec<std::net::TcpStream>) + Sync) -> String {
    let order = only_order(&EXPERIMENT, Preset::Rehearsal, &[("load", "closed")]);
    let serve = |far: &mut FarEnd| {
        Acceptor::open(far)?.serve(far, |acceptor, _, call| {
            let of: Requests = call.decode()?;
            call.line.tell(&NO_PORTS)?;
            let mut streams = Vec::new();
            for _ in 0..of.connections {
                streams.push(acceptor.admit(Instant::now() + PATIENCE)?.0);
            }
            call.line.tell(&FarAnswer::Ready)?;
            after(&mut streams);
            while call.line.is_open() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
    };
    let begin = Instant::now();
    let (samples, mut done) = round(&EXPERIMENT, &order, serve);
    // Twice the first time-out, for a case is tried twice, and much room for a busy machine.
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert!(samples.is_empty() && done.failed.len() == 1);
    // Time without its CPU disturbs a thread that is always awake.
    let has = |name: &str| done.environment.contains_key(name);
    assert_eq!(has("minded_run_delay_ns"), has("run_delay_ns"));
    done.failed.remove(0).reason
}

#[test]
fn a_far_end_that_is_silent_or_gone_fails_the_case_with_the_reason() {
    let (silent, gone) = (reason_with(|_| {}), reason_with(Vec::clear));
    assert!(!silent.is_empty() && !gone.is_empty() && silent != gone, "{silent}; {gone}");
}
