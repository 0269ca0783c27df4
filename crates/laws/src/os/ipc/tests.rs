use super::{Via, Way, switches};
use bench::experiment::fixtures::bare_site;
use bench::pair::Class;

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
