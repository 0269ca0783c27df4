use super::{Via, Way, round_trip, switches};
use crate::Facts;
use bench::experiment::fixtures::{bare_site, case, known};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use record::key::Key;

fn facts<'run>(site: &'run Site, known: &'run Known) -> Facts<'run> {
    Facts { site, known: Some(known) }
}

fn syscall_known(getpid_ns: f64) -> Known {
    known(&[("os.syscall", "call=getpid", "latency", getpid_ns)])
}

#[test]
fn a_message_switches_at_most_twice_unless_it_fills_the_way() {
    let of = |via: Via, size: u64| switches(&bare_site(), &Way { via, pair: Class::Same, size });
    assert_eq!(of(Via::Pipe, 1).high, 2.0);
    assert_eq!(of(Via::Pipe, 1).low, 2.0 / 65536.0);
    // Ten messages to a queue, however short.
    assert_eq!(of(Via::Mqueue, 1).low, 0.2);
    // Messages of the largest size, as many as the sender's memory holds.
    assert!((of(Via::UnixDatagram, 1 << 16).low - 2.0 / 3.25).abs() < 1e-9);
    // Exactly a pipe's buffer, and sixteen of them.
    assert_eq!(of(Via::Pipe, 1 << 16).low, 2.0);
    assert_eq!(of(Via::Pipe, 1 << 20).low, 32.0);
    assert_eq!(of(Via::Pipe, 1 << 20).high, 64.0);
}

#[test]
fn measured_parts_take_the_place_of_stated_ones() {
    let site = bare_site();
    let way = Way { via: Via::Pipe, pair: Class::Llc, size: 1 };
    assert!(!super::adds(&Known::default()));
    let mut known = syscall_known(80.0);
    assert!(super::adds(&known));
    let without = round_trip(facts(&site, &known), &way);
    let switch = case("via=pipe,parties=processes,pair=llc");
    known.insert(Key::new("os.switch", &switch, "handover"), 20_000.0);
    assert_eq!(round_trip(facts(&site, &known), &way), without, "with the calls in it");
    known.insert(Key::new("os.switch", &switch, "one_party"), 400.0);
    let told = round_trip(facts(&site, &known), &way);
    // Two ways of two calls, a pipe's service of hundreds of cycles, and what the hand-over takes
    // beyond them: not the calls once more.
    let beyond = told.range.likely - 2.0 * (20_000.0 - 400.0);
    assert!((320.0..1_500.0).contains(&beyond), "{told:?}");
    let prior = round_trip(Facts::prior(&site), &way).range;
    assert!(told.range.high / told.range.low < prior.high / prior.low);
    // A figure of another distance says nothing.
    let same = Way { pair: Class::Same, ..way };
    let blind = syscall_known(80.0);
    assert_eq!(round_trip(facts(&site, &known), &same), round_trip(facts(&site, &blind), &same));
}
