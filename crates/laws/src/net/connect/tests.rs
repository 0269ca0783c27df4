use super::{Closer, Connections, Listener, adds, figure};
use crate::Facts;
use crate::net::Ends;
use crate::net::rtt::tests::trip_key;
use bench::experiment::fixtures::joined::{GIGABIT, RADIO, USB, joined};
use bench::experiment::fixtures::sites;
use bench::experiment::{Known, Site};

fn case(ends: Ends, listener: Listener) -> Connections {
    Connections { ends, listener, closer: Some(Closer::Client) }
}

fn likely(site: &Site, known: Option<&Known>, ends: Ends, metric: &str) -> f64 {
    let told = figure(Facts { site, known }, &case(ends, Listener::Ready), metric);
    told.expect("there is such a figure").range.likely
}

#[test]
fn a_connection_is_more_than_its_parts_and_close_less_than_connect() {
    for site in sites() {
        for ends in [Ends::OneThread, Ends::SameCpu, Ends::OtherCpu] {
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
    let before = likely(&site, None, Ends::TwoHosts, "connect");
    known.insert(trip_key("loopback", 1, Ends::OneThread), 6e3);
    assert!(!adds(Facts { site: &site, known: Some(&known) }));
    let still = likely(&site, Some(&known), Ends::TwoHosts, "connect");
    assert_eq!(before, still);
    known.insert(trip_key(site.far(), 1, Ends::TwoHosts), 4e6);
    assert!(adds(Facts { site: &site, known: Some(&known) }));
    let now = likely(&site, Some(&known), Ends::TwoHosts, "connect");
    assert!((3e6..5e6).contains(&now), "{now}");
    // close does not wait for anybody.
    let close = likely(&site, Some(&known), Ends::TwoHosts, "client_close");
    assert!(close < 1e5, "{close}");
    let fin = likely(&site, Some(&known), Ends::TwoHosts, "client_fin");
    assert!(fin > 3e6, "{fin}");
    assert!(
        figure(Facts::prior(&site), &case(Ends::TwoHosts, Listener::Ready), "accepted").is_err()
    );
}

#[test]
fn a_dropped_syn_takes_a_second() {
    for site in sites() {
        let late =
            figure(Facts::prior(&site), &case(Ends::OtherCpu, Listener::Full), "connect_late");
        let late = late.expect("it is told").range;
        assert!(late.low > 0.9e9 && late.high < 1.3e9, "{late:?}");
        for metric in ["accepted", "client_close", "accept_rate"] {
            assert!(
                figure(Facts::prior(&site), &case(Ends::OtherCpu, Listener::Full), metric).is_err()
            );
        }
    }
}

#[test]
fn a_close_pays_for_the_driver_and_for_sleeps_between_connections() {
    let close = |site: &Site, ends| likely(site, None, ends, "server_close");
    let wire = close(&joined(GIGABIT, GIGABIT), Ends::TwoHosts);
    assert!(close(&joined(USB, GIGABIT), Ends::TwoHosts) > 1.3 * wire);
    assert!(close(&joined(RADIO, GIGABIT), Ends::TwoHosts) > 1.3 * wire);
    // The far end's adapter is not this end's work.
    assert_eq!(close(&joined(GIGABIT, USB), Ends::TwoHosts), wire);
    for site in sites() {
        assert!(close(&site, Ends::OtherCpu) > 1.2 * close(&site, Ends::SameCpu));
        // A loop of accept(2) alone is warm wherever the clients are.
        let accepts = |ends| likely(&site, None, ends, "accept_cpu");
        assert_eq!(accepts(Ends::OtherCpu), accepts(Ends::OneThread));
        // The woken end's turn is part of the call that wakes it.
        let connect = |ends| figure(Facts::prior(&site), &case(ends, Listener::Ready), "connect");
        let [one, same] =
            [Ends::OneThread, Ends::SameCpu].map(|ends| connect(ends).expect("told").range);
        assert!(same.high > one.high && same.low >= one.low, "{one:?} {same:?}");
    }
}
