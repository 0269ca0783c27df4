use super::{
    Bytes, Direction, Flow, Streams, Transfer, adds, bandwidth, measure_of, share, transfer_time,
};
use crate::Facts;
use crate::net::{Ends, Protocol};
use bench::experiment::fixtures::joined::{GIGABIT, VETH, joined};
use bench::experiment::fixtures::{known, recorded, sites};
use bench::experiment::{Known, Site};
use record::event::Range;

const TCP: Bytes = Bytes {
    protocol: Protocol::Tcp,
    message: 131_072,
    ends: Ends::OtherCpu,
    streams: Streams::Number(1),
    direction: Direction::Up,
    transfer: Transfer::Steady,
};

fn flow(of: Bytes) -> Flow {
    Flow { bytes: of, streams: 1, interval_ns: 0 }
}

fn prior(site: &Site, of: Bytes) -> Range {
    bandwidth(Facts::prior(site), &flow(of)).range
}

fn copying(rate: f64) -> Known {
    known(&[("memory.bandwidth", "op=copy,level=DRAM,threads=1", "bandwidth", rate)])
}

#[test]
fn a_wire_s_payload_limits_whatever_loopback_did() {
    let site = joined(GIGABIT, GIGABIT);
    let rate = prior(&site, TCP);
    assert!((rate.likely / 117.7e6 - 1.0).abs() < 0.02, "{rate:?}");
    assert!(rate.high < 119e6, "{rate:?}");
    // Copies measured here do not describe it.
    let known = copying(2e9);
    let facts = Facts { site: &site, known: Some(&known) };
    assert!(!adds(facts));
    assert_eq!(bandwidth(facts, &flow(TCP)).range.likely, rate.likely);
    let compared = measure_of(&site, &known, &flow(TCP)).expect("a link");
    assert!((compared.0 / 117.7e6 - 1.0).abs() < 0.01, "{compared:?}");
    assert_eq!(measure_of(&joined(VETH, VETH), &known, &flow(TCP)), None);
}

#[test]
fn small_datagrams_carry_less_than_large_ones() {
    let site = joined(GIGABIT, GIGABIT);
    let of = |message: u64| prior(&site, Bytes { protocol: Protocol::Udp, message, ..TCP }).likely;
    assert!(of(18) < 0.25 * of(1472), "{} {}", of(18), of(1472));
    assert!((of(1472) / 119.6e6 - 1.0).abs() < 0.03, "{}", of(1472));
}

#[test]
fn one_cpu_is_slower_than_two_and_small_messages_than_large_ones() {
    for site in sites() {
        let plain = prior(&site, TCP);
        let small = prior(&site, Bytes { message: 64, ..TCP });
        assert!(prior(&site, Bytes { ends: Ends::SameCpu, ..TCP }).likely < plain.likely);
        assert!(small.likely < 0.1 * plain.likely && small.high < plain.high);
    }
}

#[test]
fn measured_copies_move_loopback_and_are_its_measure() {
    let site = recorded("vm-granite-rapids");
    let with = |rate| {
        let known = copying(rate);
        bandwidth(Facts { site: &site, known: Some(&known) }, &flow(TCP)).range
    };
    let (slow, fast) = (with(4e9), with(40e9));
    assert!(slow.likely < 0.6 * fast.likely, "{slow:?} {fast:?}");
    let (rate, _) = measure_of(&site, &copying(40e9), &flow(TCP)).expect("a measure");
    assert_eq!(rate, 20e9);
}

#[test]
fn a_paced_sender_gives_no_more_than_it_sends() {
    let site = recorded("vm-granite-rapids");
    let of = Bytes { protocol: Protocol::Udp, message: 1000, ..TCP };
    let paced = Flow { interval_ns: 100_000, ..flow(of) };
    let rate = bandwidth(Facts::prior(&site), &paced).range;
    assert!(rate.high < 10.2e6 && rate.likely > 9e6, "{rate:?}");
}

#[test]
fn a_transfer_takes_as_long_as_its_stream_and_its_signs() {
    let site = joined(GIGABIT, GIGABIT);
    let time_of = |of| transfer_time(Facts::prior(&site), &flow(of)).range;
    let fixed = Bytes { message: 4096, transfer: Transfer::Fixed16M, ..TCP };
    let time = time_of(fixed.clone());
    assert!((time.likely / 143e6 - 1.0).abs() < 0.1, "{time:?}");
    let rate = prior(&site, fixed);
    assert!((rate.likely * time.likely / 1e9 / f64::from(16 << 20) - 1.0).abs() < 0.01);
    let trip = time_of(Bytes { message: 65_536, transfer: Transfer::ThereAndBack, ..TCP });
    assert!(trip.likely > 1.0e6 && trip.likely < 3e6, "{trip:?}");
}

#[test]
fn a_long_way_carries_a_window_each_round_trip() {
    let mut site = joined(GIGABIT, GIGABIT);
    site.host.net.tcp_send_buffer_max_bytes = Some(4 << 20);
    if let Some(peer) = &mut site.peer {
        peer.host.net.tcp_receive_buffer_max_bytes = Some(6 << 20);
    }
    let near = prior(&site, TCP);
    let limited = |site: &Site, metric| share(site, &flow(TCP), metric).expect("a share").range;
    let short = limited(&site, "send_buffer_limited");
    assert!(short.high < 0.5, "{short:?}");
    site.host.given.set("net.rtt", "200ms").expect("a fact");
    let far = prior(&site, TCP);
    // 6 MiB at most, on any account, each 150 ms or more.
    assert!(far.high < 6.3e6 / 0.15 && far.high < 0.5 * near.high, "{far:?}");
    let four = Flow { streams: 4, ..flow(TCP) };
    assert!(bandwidth(Facts::prior(&site), &four).range.likely > 2.0 * far.likely);
    let long = limited(&site, "send_buffer_limited");
    assert!(long.likely > 0.3 && long.high == 1.0, "{long:?}");
}

#[test]
fn what_is_paced_far_below_all_limits_is_not_lost() {
    let sent = |interval_ns| {
        let of = Bytes { protocol: Protocol::Udp, message: 1024, ..TCP };
        Flow { interval_ns, ..flow(of) }
    };
    let lost = |site: &Site, flow: &Flow, metric| share(site, flow, metric).expect("a share").range;
    let wire = joined(GIGABIT, GIGABIT);
    // 1 MB/s.
    for metric in ["loss", "loss_sender", "loss_path", "loss_receiver"] {
        for site in [&wire, &recorded("epyc-7763-2s")] {
            let of = lost(site, &sent(1_000_000), metric);
            assert!(of.low == 0.0 && of.likely < 0.01 && of.high < 0.2, "{metric} {of:?}");
        }
    }
    // A shaper of 1 Mbit/s loses nearly all of what a core sends.
    let mut shaped = joined(VETH, VETH);
    shaped.host.given.set("net.shaped_rate", "1Mbit/s").expect("a fact");
    let of = lost(&shaped, &sent(0), "loss");
    assert!(of.likely > 0.9 && of.high <= 1.0, "{of:?}");
    let parts = lost(&shaped, &sent(0), "loss_path").likely
        + lost(&shaped, &sent(0), "loss_receiver").likely;
    assert!((of.likely - parts).abs() < 0.1, "{of:?} {parts}");
}
