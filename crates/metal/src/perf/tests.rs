use super::record::all;
use super::{Record, Ring};
use crate::clock::monotonic_raw_ns;

/// A record: kind, misc, then the words.
fn bytes(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    let length = u16::try_from(8 + 8 * words.len()).expect("short");
    bytes.extend(length.to_ne_bytes());
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

/// Two numbers of 32 bits in one word, as the kernel lays them.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[test]
fn records_are_read_as_the_kernel_lays_them() {
    let mut ring = bytes(14, 1 << 13 | 1 << 14, &[pair(5, 6), 100]);
    ring.extend(bytes(14, 0, &[pair(5, 6), 130]));
    ring.extend(bytes(77, 0, &[1, 2]));
    ring.extend(bytes(9, 0, &[pair(5, 7), 140, pair(12, 0x0203_0004), 9]));
    ring.extend(bytes(2, 0, &[3, 4, pair(0, 0), 150]));
    let records: Vec<(usize, Record<'_>)> = all(&ring).collect();
    let switch = |time_ns, is_out| Record::Switch { time_ns, tid: 6, is_out, is_preempted: is_out };
    assert_eq!(records[0], (24, switch(100, true)));
    assert_eq!(records[1], (48, switch(130, false)));
    let Record::Sample { time_ns, tid, raw } = records[2].1 else { panic!("{records:?}") };
    assert_eq!((time_ns, tid, raw.len(), raw[0]), (140, 7, 12, 4));
    let lost = Record::Lost { time_ns: 150, count: 4 };
    assert_eq!(records[3], (ring.len(), lost));
    assert_eq!(records.len(), 4);
}

#[test]
fn a_record_that_is_cut_short_ends_the_reading() {
    let whole = bytes(14, 0, &[pair(5, 6), 130]);
    assert_eq!(all(&whole[..20]).count(), 0);
    // A length of nothing would never end.
    assert_eq!(all(&[0; 64]).count(), 0);
    // A raw record that says it is longer than its frame.
    let liar = bytes(9, 0, &[pair(5, 7), 140, pair(4000, 0)]);
    assert_eq!(all(&liar).count(), 0);
}

#[test]
fn own_switches_are_seen_at_their_time() {
    let mut ring = match Ring::of_thread(0, 1 << 14) {
        Ok(ring) => ring,
        Err(error) => return skips::part("perf", error),
    };
    ring.start().expect("it was opened");
    let before = monotonic_raw_ns();
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let after = monotonic_raw_ns();
    ring.stop().expect("it was opened");
    let (mut outs, mut ins) = (Vec::new(), Vec::new());
    ring.drain(|record| match record {
        Record::Switch { time_ns, is_out: true, .. } => outs.push(time_ns),
        Record::Switch { time_ns, .. } => ins.push(time_ns),
        other => panic!("{other:?} was not asked for"),
    });
    assert!(outs.len() >= 3, "{outs:?}");
    assert!(outs.iter().chain(&ins).all(|at| (before..after).contains(at)));
    let slept = outs.iter().zip(&ins).filter(|(out, back)| *back - *out >= 150_000);
    assert!(slept.count() >= 3, "{outs:?} {ins:?}");
    assert_eq!(ring.holes(), []);
    assert!(ring.lost().is_none_or(|lost| lost == 0));
}

#[test]
fn a_full_ring_says_from_when_on_it_is_silent() {
    let mut ring = match Ring::of_thread(0, 1) {
        Ok(ring) => ring,
        Err(error) => return skips::part("perf", error),
    };
    ring.start().expect("it was opened");
    // A switch out and in take 48 bytes.
    let before = monotonic_raw_ns();
    for _ in 0..ring.capacity() / 48 + 50 {
        std::thread::sleep(std::time::Duration::from_nanos(1));
    }
    let after = monotonic_raw_ns();
    let mut count = 0;
    ring.drain(|_| count += 1);
    assert!(count > 0 && count * 24 <= ring.capacity());
    let [(from_ns, to_ns)] = *ring.holes() else { panic!("{:?}", ring.holes()) };
    assert!(before < from_ns && from_ns < after && after <= to_ns);
    assert!(ring.lost().is_none_or(|lost| lost > 0));
    // There is room again.
    std::thread::sleep(std::time::Duration::from_nanos(1));
    let mut later = 0;
    ring.drain(|_| later += 1);
    assert!(later > 0);
}
