use super::{DIVISION, MIB, READS, RIVAL, TRANSFERRED, divisions};
use crate::tests::{reads, refuses, text};

/// What its loop does, counted one by one.
fn divided(primes_below: u64) -> u64 {
    let mut count = 0;
    for number in 3..primes_below {
        let mut divisor = 2;
        while divisor as f64 <= (number as f64).sqrt() {
            count += 1;
            if number % divisor == 0 {
                break;
            }
            divisor += 1;
        }
    }
    count
}

#[test]
fn divisions_of_an_event_are_those_of_its_loop() {
    // 3: none; 4: by 2; 5, 7: by 2; 6, 8: by 2; 9: by 2 and 3.
    assert_eq!(divisions(4), 0);
    assert_eq!(divisions(10), 7);
    for limit in [100, 1000, 10_000, 20_000] {
        assert_eq!(divisions(limit), divided(limit), "{limit}");
    }
}

#[test]
fn recorded_outputs_are_read() {
    let per_division = |events_per_s: f64, limit| 1e9 / (events_per_s * divided(limit) as f64);
    let told = [
        ("1.0.20-cpu.txt", DIVISION, per_division(564.96, 10_000)),
        ("1.0.20-trixie-cpu.txt", DIVISION, per_division(476.02, 10_000)),
        ("1.1.0-cpu.txt", DIVISION, per_division(435.54, 20_000)),
        ("1.0.20-memory.txt", TRANSFERRED, 5346.58 * MIB as f64),
        ("1.0.20-trixie-memory.txt", TRANSFERRED, 7061.24 * MIB as f64),
        ("1.1.0-memory.txt", TRANSFERRED, 15373.63 * MIB as f64),
        ("1.0.20-fileio.txt", READS, 9092.44),
        ("1.1.0-fileio.txt", READS, 6474.26),
    ];
    reads(&RIVAL, &told);
}

#[test]
fn what_it_does_not_say_is_an_error() {
    let memory = text(&RIVAL, "1.0.20-memory.txt");
    for what in [DIVISION, TRANSFERRED, READS] {
        refuses(&RIVAL, what, &["", "FATAL: unknown option"]);
    }
    refuses(&RIVAL, READS, &[&memory]);
    refuses(&RIVAL, "anything else", &[&memory]);
    let broken = [&*memory.replace("5346.58", "0.00"), &memory.replace("MiB/sec)", "MB/sec)")];
    refuses(&RIVAL, TRANSFERRED, &broken);
    let cpu = text(&RIVAL, "1.1.0-cpu.txt").replace("limit: 20000", "limit: 4");
    refuses(&RIVAL, DIVISION, &[&cpu]);
}
