use super::echo::{Ask, FarCounts};
use super::{EXPERIMENT, Rtt, connect, fresh};
use crate::net::wire::tests::{complete, hold, only_order, rehearse_both, shout};
use crate::net::wire::timed::{Plan, Prober};
use crate::net::wire::{Dialer, Line, PATIENCE};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::joined::{GIGABIT, joined};
use bench::experiment::fixtures::{predicted, recorded, set};
use bench::fitted::Fitted;
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::Ends;
use laws::net::rtt::{Arrivals, By, Exchange, Protocol, Receiver};
use session::fixtures::{here, offered, params};
use std::time::Instant;

/// Cases that no preset has, and combinations without a meaning.
#[test]
fn what_cannot_be_measured_is_refused() {
    let plain = Exchange {
        protocol: Protocol::Tcp,
        message: 64,
        ends: Ends::SameCpu,
        connections: 1,
        receiver: Receiver::Blocking,
        arrivals: Arrivals::Saturated,
        exchange: By::Echo,
    };
    let peer = Exchange { ends: Ends::TwoHosts, ..plain.clone() };
    let fresh = Exchange { exchange: By::ConnectEcho, ..plain.clone() };
    let (here, there) = (here(), joined(GIGABIT, GIGABIT));
    let unset = params(EXPERIMENT.card(), Preset::Quick, &[]);
    let absent = |site: &_, case: &_| Rtt::absent(site, case, &unset);
    for (site, right, wrong) in [
        (&here, &plain, Exchange { ends: Ends::TwoHosts, ..plain.clone() }),
        (&there, &peer, Exchange { ends: Ends::SameCpu, ..plain.clone() }),
        (&there, &peer, Exchange { protocol: Protocol::Unix, ..peer.clone() }),
        (&here, &plain, Exchange { receiver: Receiver::Polling, ..plain.clone() }),
        (&here, &plain, Exchange { protocol: Protocol::Udp, message: 65_508, ..plain.clone() }),
        (&here, &fresh, Exchange { protocol: Protocol::Udp, ..fresh.clone() }),
        (&here, &fresh, Exchange { message: 63, ..fresh.clone() }),
        (&here, &plain, Exchange { ends: Ends::OneThread, message: 1 << 20, ..plain.clone() }),
    ] {
        assert_eq!(absent(site, right), None, "{right:?}");
        assert!(absent(site, &wrong).is_some(), "{wrong:?}");
    }
}

/// A prediction is of the pause that the case has, not of the default.
#[test]
fn a_longer_pause_is_predicted_as_such() {
    let site = recorded("epyc-7763-2s");
    let likely = |pause: &str| {
        let case = "receiver=polling arrivals=sparse protocol=tcp exchange=echo ends=other_cpu";
        let text = format!("pause={pause} {case}");
        let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &set(&text));
        let found = predicted(&EXPERIMENT, &site, None, &offer.series[0].cases[0], "cpu_far");
        found.unwrap().range.unwrap().likely
    };
    // A polling end works through the pause.
    assert!(likely("100ms") > 50.0 * likely("1ms"));
}

/// Rehearses, and checks what every case gives beside its figures.
fn rehearse(set: &[(&str, &str)], least: usize) {
    let rehearsed = rehearse_both(&EXPERIMENT, Preset::Thorough, set);
    let cases = complete(&EXPERIMENT, &rehearsed);
    assert!(cases.len() >= least, "{} of {least}", cases.len());
    for id in cases {
        let trips = rehearsed.samples_of(&id, "round_trip").unwrap();
        let values = trips.raw.samples();
        assert!(!values.is_empty() && values.iter().all(|ns| *ns > 0.0), "{id}");
        assert!(rehearsed.samples_of(&id, "cpu_near").unwrap().raw.samples()[0] > 0.0, "{id}");
        let of = Exchange::from_id(&id).unwrap();
        let has_cpu = trips.at.contains_key("near_softirq_cpu");
        assert_eq!(has_cpu, of.protocol != Protocol::Unix, "{id}: {:?}", trips.at);
        let named = |name: &str| trips.quantities.get(name).copied();
        assert!(named("messages") >= Some(values.len() as f64), "{id}");
        if of.protocol == Protocol::Udp {
            assert_eq!((named("lost_there"), named("lost_back")), (Some(0.0), Some(0.0)), "{id}");
        }
    }
}

#[test]
fn messages_of_every_protocol_and_size_come_back() {
    let set = set("exchange=echo connections=1 receiver=blocking arrivals=saturated");
    let ends = if here().cpus.len() > 1 { 3 } else { 2 };
    rehearse(&set, ends * 18);
}

#[test]
fn pauses_polling_and_several_connections_work() {
    if here().cpus.len() < 2 {
        return skips::test("one-cpu");
    }
    let base = [("message", "64"), ("exchange", "echo"), ("ends", "other_cpu")];
    for (more, least) in [
        ([("receiver", "polling"), ("connections", "1"), ("pause", "10us")], 6),
        ([("arrivals", "sparse"), ("pause", "10us"), ("connections", "1")], 5),
        ([("connections", "4"), ("receiver", "blocking"), ("arrivals", "saturated")], 3),
    ] {
        rehearse(&[&base[..], &more].concat(), least);
    }
}

#[test]
fn fresh_connections_carry_a_message_and_leave_no_port_waiting() {
    let set = set(
        "exchange=connect_echo arrivals=saturated connections=1 message=64,1024 receiver=blocking \
         ends=same_cpu",
    );
    rehearse(&set, 4);
}

/// Runs the experiment's own far end for what a user chose under `near`.
fn under(set: &[(&str, &str)], near: impl FnOnce(&mut Dialer, &[Case]) -> Result<()> + Send) {
    let order = only_order(&EXPERIMENT, Preset::Thorough, set);
    let serve = |far: &mut FarEnd| EXPERIMENT.serve(&order.series, far);
    hold(&order, serve, |_, dialer| near(dialer, &order.series.cases));
}

/// Calls a case and connects as the experiment does, as far as messages could go.
fn begin(dialer: &mut Dialer, case: &Case) -> Result<(Line, Vec<Prober>)> {
    let mut line = dialer.call(case, &Ask { window_ns: 1_000_000 })?;
    let probers = connect(dialer, &mut line, &Exchange::decode(case)?, Clock::Monotonic)?;
    Ok((line, probers))
}

#[test]
fn a_near_end_that_is_gone_in_the_middle_ends_its_case_at_once() {
    let set = set("message=64 ends=same_cpu exchange=echo connections=2 receiver=blocking \
         arrivals=saturated");
    under(&set, |dialer, cases| {
        for case in cases {
            let began = Instant::now();
            // Before it connected, and with the connections open.
            drop(dialer.call(case, &Ask { window_ns: 1_000_000 })?);
            let (line, trips) = begin(dialer, case)?;
            drop(line);
            // The far end is there for the next one, while these are still open.
            let (mut line, others) = begin(dialer, case)?;
            line.hear::<String>(PATIENCE)?;
            ensure!(began.elapsed() < PATIENCE / 2, "{}: waited", case.id);
            drop(others);
            drop(trips);
        }
        Ok(())
    });
}

#[test]
fn strangers_at_the_port_of_fresh_connections_cost_no_exchange() {
    let set = set("message=64 protocol=tcp ends=same_cpu exchange=connect_echo connections=1 \
         receiver=blocking arrivals=saturated");
    under(&set, |dialer, cases| {
        let mut line = dialer.call(&cases[0], &Ask { window_ns: 1_000_000 })?;
        let name: Option<String> = line.hear(PATIENCE)?;
        line.hear::<String>(PATIENCE)?;
        let said = [&[][..], &[0; 64], b"GET / HTTP/1.1", &[7; 1000]];
        let _strangers = shout(dialer.address, said);
        let (plan, of) = (Plan { window_ns: 1e6, ..Plan::default() }, Exchange::decode(&cases[0])?);
        let ran = fresh::run(dialer, name.as_deref(), &of, &plan, Clock::Monotonic)?;
        line.tell(&"enough")?;
        let told: FarCounts = line.hear(PATIENCE)?;
        ensure!(told.messages == ran.sent, "{} of {}", told.messages, ran.sent);
        Ok(())
    });
}

/// Whatever a table of coefficients says, 64 KiB over a wire of 1 Gbit/s take twice 45 full frames
/// of 1538 bytes and one of 415.
#[test]
fn no_coefficient_scales_the_time_on_a_wire() {
    let case = "far=peer,protocol=tcp,message=65536,ends=two_hosts,connections=1,\
                receiver=blocking,arrivals=saturated,exchange=echo";
    let case = Case::new(bench::experiment::fixtures::case(case));
    let metric = EXPERIMENT.card().metrics.iter().find(|metric| metric.name == "round_trip");
    let likely = |factor: f64| {
        let table = Fitted([("prior net".to_owned(), factor)].into());
        let site = Site { fitted: Box::leak(Box::new(table)), ..joined(GIGABIT, GIGABIT) };
        let found = EXPERIMENT.predict(&site, None, &case, metric.expect("in the card"));
        found.and_then(|found| found.range).expect("a prior").likely
    };
    let wire_ns = (3.0 * likely(1.0) - likely(3.0)) / 2.0;
    let expected_ns = 2.0 * (45 * 1538 + 65536 - 45 * 1448 + 90) as f64 * 8.0;
    assert!((wire_ns / expected_ns - 1.0).abs() < 0.02, "{wire_ns} {expected_ns}");
}
