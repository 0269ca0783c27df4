use super::{adds, figure};
use bench::experiment::fixtures::joined::{GIGABIT, RADIO, USB, joined};
use bench::experiment::fixtures::sites;
use bench::experiment::{Known, Site};
use record::case::Case;
use record::key::{CaseId, Key};

fn case(ends: &str, listener: &str) -> Case {
    let id = CaseId::new().with("ends", ends).with("listener", listener);
    Case::new(id)
}

fn likely(site: &Site, known: Option<&Known>, ends: &str, metric: &str) -> f64 {
    let told = figure(site, known, &case(ends, "ready"), metric);
    told.expect("there is such a figure").range.likely
}

#[test]
fn a_connection_is_more_than_its_parts_and_close_less_than_connect() {
    for site in sites() {
        for ends in ["one_thread", "same_cpu", "other_cpu"] {
            let of = |metric| likely(&site, None, ends, metric);
            assert!(of("connect") < of("socket_connect"));
            assert!(of("connect") < of("accepted"));
            assert!(of("client_close") < of("client_fin"));
            assert!(of("server_fin") <= of("client_fin"));
            assert!((of("accept_rate") * of("accept_cpu") - 1e9).abs() < 1.0);
            // Even a phone connects to itself within a fifth of a millisecond.
            assert!((2e3..2e5).contains(&of("connect")), "{}", of("connect"));
        }
    }
}

#[test]
fn connect_to_a_peer_is_one_round_trip_and_no_figure_of_loopback() {
    let site = joined(GIGABIT, GIGABIT);
    let mut known = Known::default();
    let trip = |far: &str, ends: &str| {
        let case = CaseId::new()
            .with("far", far)
            .with("protocol", "tcp")
            .with("message", 1)
            .with("ends", ends)
            .with("connections", 1)
            .with("receiver", "blocking")
            .with("arrivals", "saturated")
            .with("exchange", "echo");
        Key::new("net.rtt", &case, "round_trip")
    };
    let before = likely(&site, None, "two_hosts", "connect");
    known.insert(trip("loopback", "one_thread"), 6e3);
    assert!(!adds(&known, &site));
    let still = likely(&site, Some(&known), "two_hosts", "connect");
    assert_eq!(before, still);
    known.insert(trip(site.far(), "two_hosts"), 4e6);
    assert!(adds(&known, &site));
    let now = likely(&site, Some(&known), "two_hosts", "connect");
    assert!((3e6..5e6).contains(&now), "{now}");
    // close does not wait for anybody.
    let close = likely(&site, Some(&known), "two_hosts", "client_close");
    assert!(close < 1e5, "{close}");
    let fin = likely(&site, Some(&known), "two_hosts", "client_fin");
    assert!(fin > 3e6, "{fin}");
    assert!(figure(&site, None, &case("two_hosts", "ready"), "accepted").is_err());
}

#[test]
fn a_dropped_syn_takes_a_second() {
    for site in sites() {
        let late = figure(&site, None, &case("other_cpu", "full"), "connect_late");
        let late = late.expect("it is told").range;
        assert!(late.low > 0.9e9 && late.high < 1.3e9, "{late:?}");
        for metric in ["accepted", "client_close", "accept_rate"] {
            assert!(figure(&site, None, &case("other_cpu", "full"), metric).is_err());
        }
    }
}

#[test]
fn a_close_pays_for_the_driver_and_for_sleeps_between_connections() {
    let close = |site: &Site, ends| likely(site, None, ends, "server_close");
    let wire = close(&joined(GIGABIT, GIGABIT), "two_hosts");
    assert!(close(&joined(USB, GIGABIT), "two_hosts") > 1.3 * wire);
    assert!(close(&joined(RADIO, GIGABIT), "two_hosts") > 1.3 * wire);
    // The far end's adapter is not this end's work.
    assert_eq!(close(&joined(GIGABIT, USB), "two_hosts"), wire);
    for site in sites() {
        assert!(close(&site, "other_cpu") > 1.2 * close(&site, "same_cpu"));
        // A loop of accept(2) alone is warm wherever the clients are.
        let accepts = |ends| likely(&site, None, ends, "accept_cpu");
        assert_eq!(accepts("other_cpu"), accepts("one_thread"));
        // The woken end's turn is in the call of who wakes it.
        let connect = |ends| figure(&site, None, &case(ends, "ready"), "connect");
        let [one, same] = ["one_thread", "same_cpu"].map(|ends| connect(ends).expect("told").range);
        assert!(same.high > one.high && same.low >= one.low, "{one:?} {same:?}");
    }
}
