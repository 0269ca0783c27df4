//! Tests of `child`.

use super::{Files, Moved, PATIENCE, completed};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SILENCE: Duration = Duration::from_secs(20);

fn moved(device: Option<u32>, unwritten: u64) -> Moved {
    Moved {
        process_io: String::new(),
        device: device.map(|count| vec![count.to_string()]),
        unwritten: Some(unwritten),
    }
}

fn files() -> Files {
    Files { silence: SILENCE, ..Files::default() }
}

#[test]
fn a_device_that_answers_nothing_does_nothing_though_its_times_go_on() {
    let before = "  8 0 sda 5 1 2 3 6 1 2 3 1 40 50 7 0 0 0 8 9\n 8 1 sda1 1 1 1 1\n";
    let waiting = "  8 0 sda 5 1 2 3 6 1 2 3 1 90 95 7 0 0 0 8 9\n 8 1 sda1 1 1 1 1\n";
    let flushed = "  8 0 sda 5 1 2 3 6 1 2 3 0 90 95 7 0 0 0 9 10\n 8 1 sda1 1 1 1 1\n";
    let of = |text| completed(text, "8:0").expect("is there");
    assert_eq!(of(before), of(waiting));
    assert_ne!(of(before), of(flushed));
    assert_eq!(completed(before, "8:1").expect("is there").len(), 1);
    assert_eq!(completed(before, "8:2"), None);
}

#[test]
fn a_device_that_works_is_waited_for_and_for_others_not_for_ever() {
    let (early, late) = (SILENCE, SILENCE * PATIENCE * 2);
    let of = |before, now, silent| files().gets_on(&before, &now, silent);
    assert!(of(moved(Some(1), 0), moved(Some(2), 0), early));
    assert!(!of(moved(Some(1), 0), moved(Some(1), 0), early));
    assert!(!of(moved(Some(1), 0), moved(Some(2), 0), late));
    // Another disk writes.
    assert!(!of(moved(Some(1), 9 * MIB), moved(Some(1), 0), early));
}

#[test]
fn what_waits_to_be_written_is_waited_for_while_it_gets_less() {
    let late = SILENCE * PATIENCE * 2;
    for device in [[Some(1), Some(2)], [None, None]] {
        let mut files = files();
        let mut gets_on = |before, now| {
            let [then, since] = device;
            files.gets_on(&moved(then, before), &moved(since, now), late)
        };
        assert!(gets_on(900 * MIB, 500 * MIB));
        assert!(gets_on(500 * MIB, 400 * MIB));
        // It grew and fell again: others write.
        assert!(!gets_on(600 * MIB, 500 * MIB));
        assert!(!gets_on(400 * MIB, 400 * MIB));
    }
}
