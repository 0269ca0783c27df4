//! The lists are those of a kernel 6.18 for a namespace that ran `tc qdisc add dev eth0 root tbf
//! rate 1gbit burst 256kb latency 50ms`, and for one with `htb default 10`, classes of 1 Gbit/s,
//! below it 200 Mbit/s (10) and 50 Mbit/s with a ceiling of 10 Gbit/s (20), and `clsact`.

use super::{Place, Shaper, of};
use crate::{Host, Root};

const TBF_DISCIPLINES: &str = include_str!("../../testdata/tbf-disciplines");
const HTB_DISCIPLINES: &str = include_str!("../../testdata/htb-disciplines");
const HTB_CLASSES: &str = include_str!("../../testdata/htb-classes");

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(pair).collect()
}

/// The interface is the second of its namespace.
fn shapers(disciplines: &[u8], classes: &[u8]) -> Vec<Shaper> {
    let mut all = of(disciplines, classes);
    let found = all.remove(&2).unwrap_or_default();
    assert!(all.is_empty(), "{all:?}");
    found
}

#[test]
fn a_token_bucket_tells_its_rate_and_burst() {
    let found = shapers(&bytes(TBF_DISCIPLINES), &[]);
    let [bucket] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((bucket.kind.as_str(), bucket.place), ("tbf", Place::Root));
    assert_eq!(bucket.bits_per_second, Some(1_000_000_000));
    assert_eq!(bucket.burst_bytes, Some(262_144));
    assert_eq!(bucket.peak_bits_per_second, None);
    assert_eq!(bucket.name(), "tbf 1000 Mbit/s");
}

#[test]
fn a_hierarchy_lets_unclassified_packets_out_by_their_class_and_those_above() {
    let found = shapers(&bytes(HTB_DISCIPLINES), &bytes(HTB_CLASSES));
    let [htb, filter] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((htb.kind.as_str(), htb.place), ("htb", Place::Root));
    assert_eq!((filter.kind.as_str(), filter.place), ("clsact", Place::Filter));
    assert_eq!(htb.bits_per_second, Some(200_000_000));
    let class = |at: usize| {
        let class = &htb.classes[at];
        (
            class.id.as_str(),
            class.parent.as_deref(),
            class.bits_per_second / 1_000_000,
            class.ceiling_bits_per_second / 1_000_000,
            class.is_default,
        )
    };
    assert_eq!(class(0), ("1:1", None, 1000, 1000, false));
    assert_eq!(class(1), ("1:10", Some("1:1"), 200, 200, true));
    assert_eq!(class(2), ("1:20", Some("1:1"), 50, 10_000, false));
    assert_eq!(htb.classes.len(), 3);
    assert_eq!(htb.name(), "htb 200 Mbit/s (class 1:10)");
    // Its rate is unknown without its classes.
    let alone = shapers(&bytes(HTB_DISCIPLINES), &[]);
    assert_eq!(alone[0].bits_per_second, None);
}

#[test]
fn lists_that_are_cut_or_torn_are_read_as_far_as_they_go() {
    let (disciplines, classes) = (bytes(HTB_DISCIPLINES), bytes(HTB_CLASSES));
    for cut in 0..disciplines.len() {
        assert!(of(&disciplines[..cut], &classes[..cut]).len() <= 1);
    }
    for at in 0..disciplines.len() {
        let mut torn = disciplines.clone();
        torn[at] ^= 0xff;
        of(&torn, &classes);
    }
}

#[test]
fn a_recorded_machine_has_the_lists_by_the_interfaces_index() {
    let tree = format!(
        "== sys/class/net/eth0/mtu\n1500\n== ethtool.txt\neth0 index=2 driver=veth\nlo index=1\n\
         =x netlink/disciplines\n{HTB_DISCIPLINES}\n=x netlink/classes\n{HTB_CLASSES}\n"
    );
    let host = Host::read(&Root::tree(&tree));
    let eth0 = &host.net.interfaces[0];
    assert_eq!(eth0.shaping[0].bits_per_second, Some(200_000_000));
    assert!(host.net.interfaces[1].shaping.is_empty());
    let text = serde_json::to_string(&host.net).expect("writes");
    let again: crate::Net = serde_json::from_str(&text).expect("reads");
    assert_eq!(again.interfaces, host.net.interfaces);
}
