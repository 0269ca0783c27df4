use super::{Client, Link, Reading, Way, block, cpu, is_known, link_bound, one_read, wire};
use crate::Facts;
use bench::experiment::fixtures::{bare_site, case};
use bench::experiment::{Known, Peer, Site};
use host::Host;
use record::key::Key;
use std::net::{IpAddr, Ipv4Addr};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// R1's way to its server: an adapter of 100 Mbit/s behind USB.
const SLOW: Way<'static> = Way {
    client: Client::Nfs,
    file_system: "nfs",
    link: Link::Wired,
    server: Some(SERVER),
    interface: Some("eth0"),
    bits_per_second: Some(100_000_000),
    mtu_bytes: Some(1500),
    has_gateway: false,
};

/// Puts a figure of an earlier experiment.
fn with(known: &mut Known, experiment: &str, of: &str, metric: &str, value: f64) {
    known.insert(Key::new(experiment, &case(of), metric), value);
}

/// A site with a far end at an address, about which nothing else is known.
fn site_with_peer(address: IpAddr) -> Site {
    Site {
        peers: vec![Peer {
            name: "peer".to_owned(),
            address,
            host: Host::read(&host::Root::tree("")),
            cpus: vec![0],
            interface: None,
        }],
        ..bare_site()
    }
}

#[test]
fn a_link_of_100_mbit_bounds_and_r1_s_figures_hold() {
    let site = bare_site();
    let bound = link_bound(&site, &SLOW).expect("nominal rate");
    assert!((bound.constant - 12.5e6).abs() < 1.0);
    assert!(bound.rule.contains("12.5 MB/s"), "{}", bound.rule);
    // R1 table XVII: 1.26 and 1.43 ms a block in order, 1.60 and 1.64 ms in a random one.
    let asked = block(Facts::prior(&site), &SLOW, Reading::Asked);
    for measured in [1.26e6, 1.43e6, 1.60e6, 1.64e6] {
        assert!(asked.range.low < measured && measured < asked.range.high, "{asked:?}");
    }
    // In order and through the cache the link is what is left: 0.33 ms, R1's own estimate.
    let ahead = block(Facts::prior(&site), &SLOW, Reading::Ahead);
    assert!(ahead.range.low > 0.33e6 && ahead.range.likely < 0.5e6, "{ahead:?}");
    assert!(ahead.range.likely < asked.range.likely);
    // Nothing nominal bounds what is copied between namespaces.
    let link = Link::Virtual;
    assert!(link_bound(&site, &Way { link, ..SLOW }).is_none());
}

#[test]
fn slower_links_and_clients_take_longer() {
    let site = bare_site();
    let likely = |way: &Way| block(Facts::prior(&site), way, Reading::Asked).range.likely;
    let of = |link, bits_per_second| likely(&Way { link, bits_per_second, ..SLOW });
    let fast = of(Link::Wired, Some(25_000_000_000));
    assert!(of(Link::Loopback, None) < fast);
    assert!(fast < of(Link::Wired, Some(1_000_000_000)));
    assert!(of(Link::Wired, Some(1_000_000_000)) < of(Link::Wireless, Some(300_000_000)));
    let client = |client| likely(&Way { client, ..SLOW });
    assert!(client(Client::Nfs) < client(Client::Smb));
    assert!(client(Client::Smb) < client(Client::Fuse));
    let far = Way { has_gateway: true, ..SLOW };
    let beyond = wire(Facts::prior(&site), &far).range;
    assert!(beyond.high > 1e8 && wire(Facts::prior(&site), &SLOW).range.high < 1e9);
    // The reading thread is on a CPU for a part of what its client takes, and for a copy of what is
    // there.
    let busy = |reading| cpu(Facts::prior(&site), &far, reading).range;
    assert!(busy(Reading::Asked).likely < super::client(&far).range.likely);
    assert!(busy(Reading::Cached).likely < busy(Reading::Ahead).likely);
    assert!(busy(Reading::Ahead).likely < busy(Reading::Missed).likely);
    // From the cache nothing of the way counts.
    let cached = one_read(Facts::prior(&site), &far, Reading::Cached).range;
    assert!(cached.high < 1e4, "{cached:?}");
}

#[test]
fn figures_of_the_same_run_say_better() {
    let site = site_with_peer(SERVER);
    let mut known = Known::default();
    assert!(!is_known(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Asked));
    // Of loopback and of another protocol: not the way to the server.
    with(&mut known, "net.rtt", "protocol=tcp,far=loopback", "round_trip", 2e4);
    with(&mut known, "net.rtt", "protocol=udp,far=peer", "round_trip", 7e5);
    assert!(!is_known(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Asked));
    with(&mut known, "net.rtt", "protocol=tcp,far=peer", "round_trip", 9.3e5);
    // Not as requests are: none of these counts, however many there are.
    for other in [
        "receiver=polling",
        "exchange=connect_echo",
        "message=65507",
        "connections=4",
        "ends=one_thread",
    ] {
        let of = format!("protocol=tcp,far=peer,{other}");
        with(&mut known, "net.rtt", &of, "round_trip", 9e9);
    }
    with(&mut known, "net.bandwidth", "protocol=tcp,far=peer", "bandwidth", 10.6e6);
    assert!(is_known(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Asked));
    let derived = block(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Asked);
    let prior = block(Facts::prior(&site), &SLOW, Reading::Asked);
    // R1's own round trip and transfer: 0.93 + 0.39 ms, and what client and server add.
    assert!(derived.range.likely > 1.3e6 && derived.range.likely < 1.5e6, "{derived:?}");
    assert!(derived.range.low > prior.range.low);
    // A far end that is not the server, or has no known address, does not describe the path to the
    // server.
    let other = site_with_peer(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)));
    assert!(!is_known(Facts { site: &other, known: Some(&known) }, &SLOW, Reading::Asked));
    let elsewhere = block(Facts { site: &other, known: Some(&known) }, &SLOW, Reading::Asked);
    assert_eq!(elsewhere.range, prior.range);
    let unnamed = Way { server: None, ..SLOW };
    assert!(!is_known(Facts { site: &site, known: Some(&known) }, &unnamed, Reading::Asked));
    // The server of a run without a far end is another machine: its figures are of loopback.
    assert!(!is_known(Facts { site: &bare_site(), known: Some(&known) }, &SLOW, Reading::Asked));
    let here = Way { link: Link::Loopback, ..SLOW };
    assert!(is_known(Facts { site: &site, known: Some(&known) }, &here, Reading::Asked));
}

#[test]
fn a_server_like_this_machine_is_what_fs_read_measured() {
    let site = bare_site();
    let mut known = Known::default();
    for (mode, ns) in [("cached", 400.0), ("direct", 9e4)] {
        with(&mut known, "fs.read", &format!("mode={mode}"), "latency_per_block", ns);
    }
    let derived = block(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Asked);
    let prior = block(Facts::prior(&site), &SLOW, Reading::Asked);
    assert!(derived.range.high < prior.range.high);
    // The client's cache is this machine's own.
    let cached = block(Facts { site: &site, known: Some(&known) }, &SLOW, Reading::Cached).range;
    assert_eq!((cached.low, cached.high), (200.0, 1200.0));
}
