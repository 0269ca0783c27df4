use super::{CARD, EXPERIMENT};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::joined::{GIGABIT, RADIO, joined};
use bench::experiment::fixtures::{self, recorded};
use bench::prelude::*;
use host::net::Echoes;
use record::event::Samples;
use session::fixtures::{check, offered, params, skipped, smoke};

#[test]
fn echoes_that_the_kernel_refuses_are_skipped() {
    let mut site = recorded("vm-granite-rapids");
    site.host.net.echoes = Some(Echoes::Refused);
    let skip = EXPERIMENT.series(&site, &params(&CARD, Preset::Quick, &[]));
    assert!(skip.expect_err("refused").needed.is_some());
}

#[test]
fn a_peer_is_asked_by_the_address_by_which_it_was_reached() {
    let mut site = joined(GIGABIT, GIGABIT);
    for (address, ip) in [("192.0.2.7", "v4"), ("fd00::1", "v6")] {
        if let Some(peer) = &mut site.peer {
            peer.address = address.parse().expect("an address");
        }
        let offer = check(&EXPERIMENT, &site, Preset::Standard);
        let mut cases = offer.series.iter().flat_map(|series| &series.cases);
        assert!(cases.all(|case| case.text("ip") == Some(ip)));
        let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[("ip", "v4,v6")]);
        assert_eq!((offer.series[0].cases.len(), offer.skipped.len()), (2, 2));
    }
}

#[test]
fn hosts_that_leave_echoes_unanswered_are_not_waited_for() {
    let of = |site: &Site, preset| {
        let offer = offered(&EXPERIMENT, site, preset, &[]);
        (offer.series.len(), skipped(&offer).join(" "))
    };
    let mut site = recorded("vm-granite-rapids");
    assert_eq!(of(&site, Preset::Standard), (1, String::new()));
    site.host.net.has_loopback_v6 = false;
    let (series, skipped) = of(&site, Preset::Standard);
    assert!(series == 1 && skipped.contains("ip=v6") && !skipped.contains("ip=v4"));
    site.host.net.ignores_echoes = [true, false];
    assert_eq!(of(&site, Preset::Quick).0, 0);
    let mut remote = joined(GIGABIT, GIGABIT);
    remote.host.net.ignores_echoes = [true, true];
    assert_eq!(of(&remote, Preset::Quick).0, 1, "only the peer's own rule counts");
    if let Some(peer) = &mut remote.peer {
        peer.host.net.ignores_echoes = [true, false];
    }
    assert_eq!(of(&remote, Preset::Quick).0, 0);
}

fn case(far: &str, message: u64, arrivals: &str) -> Case {
    let text = format!("far={far},ip=v4,message={message},arrivals={arrivals}");
    Case::new(fixtures::case(&text))
}

fn prediction(site: &Site, known: Option<&Known>, case: &Case, name: &str) -> Option<Prediction> {
    fixtures::predicted(&EXPERIMENT, site, known, case, name)
}

/// A figure of a case as net.rtt has them.
fn measured_rtt(far: &str, ends: &str, protocol: &str, message: u64, ns: f64) -> (Key, f64) {
    let id = fixtures::case(&format!(
        "far={far},protocol={protocol},message={message},ends={ends},connections=1,\
         receiver=blocking,arrivals=saturated,exchange=echo"
    ));
    (Key::new("net.rtt", &id, "round_trip"), ns)
}

#[test]
fn sockets_are_compared_with_the_nearest_of_their_cases() {
    let mut known = Known::default();
    for (far, ends, protocol, message, ns) in [
        ("loopback", "other_cpu", "tcp", 56, 30_000.0),
        ("loopback", "same_cpu", "tcp", 64, 20_000.0),
        ("loopback", "same_cpu", "tcp", 56, 18_000.0),
        ("loopback", "same_cpu", "tcp", 1024, 99_000.0),
        ("loopback", "other_cpu", "udp", 64, 25_000.0),
        ("peer", "two_hosts", "tcp", 64, 80_000.0),
    ] {
        let (key, ns) = measured_rtt(far, ends, protocol, message, ns);
        known.insert(key, ns);
    }
    let mut values = Known::default();
    for (far, message, arrivals, ns) in [
        ("loopback", 56, "saturated", 7_000.0),
        ("loopback", 56, "sparse", 15_000.0),
        ("loopback", 8192, "saturated", 12_000.0),
        ("peer", 56, "saturated", 60_000.0),
    ] {
        let id = case(far, message, arrivals).id;
        values.insert(Key::new("net.ping", &id, "round_trip"), ns);
    }
    let derived = EXPERIMENT.derive(&joined(GIGABIT, GIGABIT), &known, &values);
    let found: Vec<(String, &str, f64, String)> = derived
        .into_iter()
        .map(|value| {
            let ends = value.at["ends"].text().unwrap_or_default().to_owned();
            let far = value.case.text("far").unwrap_or_default().to_owned();
            (far, value.metric, value.value, ends)
        })
        .collect();
    let expected = [
        ("loopback", "tcp_over_ping", 11_000.0, "same_cpu"),
        ("loopback", "udp_over_ping", 18_000.0, "other_cpu"),
        ("peer", "tcp_over_ping", 20_000.0, "two_hosts"),
    ]
    .map(|(far, metric, ns, ends)| (far.to_owned(), metric, ns, ends.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn a_peers_echo_comes_from_its_own_figures_never_from_loopbacks() {
    let site = joined(GIGABIT, GIGABIT);
    let of = |known: &Known| {
        prediction(&site, Some(known), &case("peer", 56, "saturated"), "round_trip")
    };
    let mut known = Known::default();
    assert!(of(&known).is_none(), "nothing is known");
    let (key, ns) = measured_rtt("loopback", "same_cpu", "udp", 56, 18_000.0);
    known.insert(key, ns);
    assert!(of(&known).is_none(), "loopback tells nothing of a peer");
    let (key, ns) = measured_rtt("peer", "two_hosts", "udp", 56, 90_000.0);
    known.insert(key, ns);
    let derived = of(&known).expect("its own round trip is known");
    let range = derived.range.expect("a range");
    assert!(range.low > 9_000.0 && range.high < 110_000.0, "{range:?}");
}

#[test]
fn priors_tell_kinds_of_ways_apart() {
    let likely = |site: &Site, far: &str, message, name: &str| {
        let prior = prediction(site, None, &case(far, message, "saturated"), name);
        prior.and_then(|prior| prior.range).expect("a prior").likely
    };
    let home = recorded("epyc-7763-2s");
    let wire = joined(GIGABIT, GIGABIT);
    let radio = joined(RADIO, GIGABIT);
    assert!(likely(&home, "loopback", 56, "round_trip") < 15_000.0);
    assert!(likely(&wire, "peer", 56, "round_trip") > 20_000.0);
    assert!(likely(&radio, "peer", 56, "round_trip") > 500_000.0);
    let more =
        likely(&wire, "peer", 65_507, "round_trip") - likely(&wire, "peer", 56, "round_trip");
    assert!(more > 1_000_000.0, "65,507 B twice over 1 Gbit/s are more than a millisecond");
    assert_eq!(likely(&home, "loopback", 56, "loss"), 0.0);
    let whole = likely(&wire, "peer", 56, "round_trip");
    let parts =
        likely(&wire, "peer", 56, "kernel_round_trip") + likely(&wire, "peer", 56, "wake_up");
    // Each metric has a coefficient of its own.
    assert!((whole / parts).ln().abs() < 0.5, "{whole} {parts}");
}

/// The same key is the same quantity whichever preset measured it, and no policer is provoked.
#[test]
fn pauses_are_alike_in_all_presets_and_a_millisecond_at_least() {
    let interval = CARD.params.iter().find(|param| param.name == "interval").expect("in the card");
    assert!(interval.defaults.iter().all(|default| *default == interval.defaults[0]));
    let set = |value| session::params::Settings::default().with(&CARD, "interval", value).is_ok();
    assert!(set("1ms") && !set("999us"));
}

fn events(samples: &[Samples], metric: &str) -> Vec<f64> {
    let of = samples.iter().find(|samples| samples.metric == metric);
    of.expect("it was measured").raw.samples()
}

#[test]
fn echoes_of_loopback_come_back_and_their_parts_add_up() {
    use metal::icmp::{Access, is_granted};
    if !is_granted(Access::Datagram, false) && !is_granted(Access::Raw, false) {
        return skips::test("icmp");
    }
    let samples = smoke(&EXPERIMENT);
    let [trips, in_kernel, wake_ups] =
        ["round_trip", "kernel_round_trip", "wake_up"].map(|metric| events(&samples, metric));
    assert!(trips.len() >= 2 && trips.len() == in_kernel.len() && trips.len() == wake_ups.len());
    for ((trip, in_kernel), wake_up) in trips.iter().zip(&in_kernel).zip(&wake_ups) {
        assert!(*in_kernel > 0.0 && *trip > 0.0);
        // The wall clock is read around the counter. (It may be slewed, and figures have seven
        // digits.)
        assert!(*wake_up >= 0.0 && in_kernel + wake_up > 0.999 * trip, "{trip}");
    }
    assert_eq!(events(&samples, "loss"), [0.0]);
    let trip = samples.iter().find(|samples| samples.metric == "round_trip");
    let trip = trip.expect("measured");
    assert!(trip.quantities.get("hops_left").is_some_and(|hops| *hops >= 32.0));
    assert!(trip.at.contains_key("access"));
    assert!(!trip.notes.is_empty());
}
