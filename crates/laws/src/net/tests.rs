use super::{
    Ends, Kind, Protocol, Toward, Transport, Waking, Way, far_stack_cost, goodput, link_bound,
    link_rate, passage, ping, round_trip, stack, stack_cost,
};
use crate::Facts;
use bench::experiment::fixtures::bare_site;
use bench::experiment::fixtures::joined::{FAST, GIGABIT, HALF, RADIO, USB, VETH, VIRTIO, joined};
use bench::experiment::fixtures::{case, recorded, sites};
use bench::experiment::{Known, Site};
use host::{Distance, Host, Root};
use record::event::Range;
use record::key::Key;

fn ordered(range: Range) -> bool {
    0.0 <= range.low && range.low <= range.likely && range.likely <= range.high
}

#[test]
fn laws_answer_at_every_host_and_for_every_kind_of_peer() {
    let devices = [GIGABIT, FAST, RADIO, USB, VETH, VIRTIO, HALF, ""];
    let mut all: Vec<Site> =
        devices.iter().flat_map(|near| devices.iter().map(|far| joined(near, far))).collect();
    for site in sites() {
        for far in devices {
            let peer = joined(GIGABIT, far).peer;
            all.push(Site { peer, ..site.clone() });
        }
        all.push(site);
    }
    for site in &all {
        let way = Way::for_site(site);
        for transport in [Transport::Tcp, Transport::Udp, Transport::Icmp] {
            let rate = goodput(&way, transport);
            assert!(ordered(rate.range) && rate.range.low > 0.0);
            for bytes in [1, 56, 65_507] {
                let there = passage(&way, transport, bytes, Toward::Far);
                let both = round_trip(&way, transport, bytes, bytes);
                assert!(ordered(there.range) && ordered(both.range));
                assert!(both.range.likely >= there.range.likely);
            }
            for waking in
                [Waking::Nobody, Waking::Same, Waking::Other, Waking::Interrupt, Waking::Sparse]
            {
                let ends = [
                    stack_cost(Facts::prior(site), transport, waking),
                    far_stack_cost(site, transport, waking),
                ];
                for end in ends {
                    assert!(ordered(end.range) && end.range.low > 100.0);
                }
            }
        }
    }
}

#[test]
fn ways_are_what_their_slower_end_is() {
    let kind = |near, far| Way::for_site(&joined(near, far)).kind();
    assert_eq!(kind(GIGABIT, GIGABIT), Kind::Wired);
    assert_eq!(kind(GIGABIT, RADIO), Kind::Wireless);
    assert_eq!(kind(VIRTIO, GIGABIT), Kind::Paravirtual);
    assert_eq!(kind(VETH, VETH), Kind::Virtual);
    assert_eq!(kind(VETH, GIGABIT), Kind::Wired);
    assert_eq!(Way::for_site(&bare_site()).kind(), Kind::Loopback);
    let mut nowhere = joined(GIGABIT, GIGABIT);
    nowhere.host = Host::read(&Root::tree(""));
    if let Some(peer) = &mut nowhere.peer {
        peer.interface = None;
    }
    assert_eq!(Way::for_site(&nowhere).kind(), Kind::Unknown);
    let rate = |near, far| link_rate(&Way::for_site(&joined(near, far)));
    assert_eq!(rate(FAST, GIGABIT), Some(125e6));
    assert_eq!(rate(VETH, VETH), None, "what veth claims is no link's rate");
    assert_eq!(link_rate(&Way::for_site(&bare_site())), None);
}

#[test]
fn payload_is_what_the_heads_leave() {
    let site = joined(GIGABIT, GIGABIT);
    let way = Way::for_site(&site);
    let full = way.full_frames(Transport::Tcp);
    assert_eq!((full.count, full.payload, full.wire_bytes), (1, 1448, 1538));
    // R1 reckons without time stamps: 1460 of 1538.
    let without = Way { has_timestamps: false, ..way };
    assert_eq!(without.full_frames(Transport::Tcp).payload, 1460);
    let bound = link_bound(&way, Transport::Tcp).expect("a rate is told");
    assert!((bound.constant - 125e6 * 1448.0 / 1538.0).abs() < 1.0);
    let range = goodput(&way, Transport::Tcp).range;
    assert!(range.low < 100e6 && (116e6..118e6).contains(&range.likely) && range.high < 119e6);
    // Twenty bytes more by IPv6.
    let v6 = Way { is_v6: true, ..way };
    assert_eq!(v6.full_frames(Transport::Tcp).payload, 1428);
    // 65,507 B and the head are 65,515 B in 44 fragments of 1480 B and one of 395.
    let cut = way.frames(Transport::Udp, 65_507);
    assert_eq!(cut.count, 45);
    assert_eq!(cut.wire_bytes, 44 * 1538 + 395 + 20 + 38);
    assert_eq!(cut.shaped_bytes, 44 * 1514 + 395 + 20 + 14);
    // The smallest frame is padded.
    assert_eq!(way.frames(Transport::Udp, 1).wire_bytes, 84);
    assert_eq!(way.frames(Transport::Icmp, 56).wire_bytes, 84 + 38);
    // A stream of 4 MiB: 2897 segments.
    let stream = way.frames(Transport::Tcp, 4 << 20);
    assert_eq!(stream.count, (4_u64 << 20).div_ceil(1448));
}

#[test]
fn a_shaper_counts_frames_without_what_the_wire_adds() {
    let mut site = joined(VETH, VETH);
    site.host.given.set("host.net.shaped_rate", "100Mbit/s").expect("a fact");
    let way = Way::for_site(&site);
    let rate = goodput(&way, Transport::Tcp);
    let told = 12.5e6 * 1448.0 / 1514.0;
    assert!((rate.range.likely - told).abs() < 1.0, "{rate:?}");
    assert!(rate.range.low > 0.96 * told && rate.range.high < 1.02 * told);
    assert!(rate.because().contains("shaped_rate"));
}

#[test]
fn time_on_the_way_grows_with_bytes_switches_and_what_cards_hold_back() {
    let at = |site: &Site, bytes| {
        passage(&Way::for_site(site), Transport::Udp, bytes, Toward::Far).range.likely
    };
    let (slow, fast) = (joined(GIGABIT, GIGABIT), joined(FAST, FAST));
    assert!(at(&slow, 65_507) > at(&slow, 1) + 500_000.0);
    assert!(at(&fast, 65_507) < at(&slow, 65_507) / 5.0);
    assert!(at(&joined(USB, GIGABIT), 56) < at(&joined(GIGABIT, USB), 56));
    assert!(at(&joined(RADIO, GIGABIT), 56) > 10.0 * at(&slow, 56));
    assert_eq!(at(&bare_site(), 56), 0.0);
    let mut given = joined(GIGABIT, GIGABIT);
    given.host.given.set("net.rtt", "2ms").expect("a fact");
    let trip = round_trip(&Way::for_site(&given), Transport::Tcp, 1, 1);
    assert!((2.0e6..2.01e6).contains(&trip.range.likely), "{trip:?}");
}

#[test]
fn the_far_end_is_judged_by_its_own_host() {
    let mut site = joined(GIGABIT, GIGABIT);
    let alone = far_stack_cost(&site, Transport::Tcp, Waking::Nobody);
    let slow = "== proc/cpuinfo\nprocessor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 800.000\n\
         == sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq\n800000\n";
    if let Some(peer) = &mut site.peer {
        peer.host = Host::read(&Root::tree(slow));
    }
    let slowed = far_stack_cost(&site, Transport::Tcp, Waking::Nobody);
    assert!(slowed.range.likely > 1.5 * alone.range.likely, "{slowed:?} {alone:?}");
}
#[test]
fn a_hand_over_is_taken_of_the_pair_that_is_measured() {
    let mut site = recorded("epyc-7763-2s");
    let mut known = Known::default();
    for (pair, ns) in [("smt", 1_000.0), ("remote", 9_000.0)] {
        let of = case(&format!("via=pipe,parties=processes,pair={pair}"));
        known.insert(Key::new("os.switch", &of, "handover"), ns + 500.0);
        known.insert(Key::new("os.switch", &of, "one_party"), 500.0);
    }
    let far = (0..).find(|cpu| site.host.cpu.distance(0, *cpu) == Some(Distance::OtherSocket));
    site.cpus = vec![0, far.expect("two sockets")];
    let woken = |site: &Site| {
        let facts = Facts { site, known: Some(&known) };
        stack::woken(facts, Waking::Other).expect("it wakes").range
    };
    assert_eq!(woken(&site).likely, 9_000.0);
    // Of a pair that was not measured no other pair's stands.
    let near = (1..).find(|cpu| site.host.cpu.distance(0, *cpu) == Some(Distance::SharedLlc));
    site.cpus = vec![0, near.expect("a shared cache")];
    assert!(![1_000.0, 9_000.0].contains(&woken(&site).likely));
}

#[test]
fn an_echo_is_not_told_from_two_cpus_of_one_host() {
    let site = recorded("epyc-7763-2s");
    let way = Way::for_site(&site);
    let left = |ends| ping::less_socket(&site, (50_000.0, ends), Protocol::Udp, &way);
    assert!(left(Ends::SameCpu).is_some() && left(Ends::OtherCpu).is_none());
}

#[test]
fn a_pause_costs_an_echo_more_where_the_core_may_sleep() {
    use super::ping::{Echoes, Ip, parts};
    use super::rtt::Arrivals;
    let mut site = recorded("epyc-7763-2s");
    let mut slower = |is_guest| {
        site.host.kernel.virtualisation.is_guest = Some(is_guest);
        let time = |arrivals| {
            let echo = Echoes { ip: Ip::V4, message: 56, arrivals };
            parts(Facts::prior(&site), &echo).kernel.range.likely
        };
        time(Arrivals::Sparse) / time(Arrivals::Saturated)
    };
    let [bare, guest] = [false, true].map(&mut slower);
    assert!(guest > 1.5 && bare > 2.0 * guest, "{bare} {guest}");
}
