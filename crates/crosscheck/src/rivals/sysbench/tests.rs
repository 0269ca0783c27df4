use super::{DIVISION, MIB, READS, TRANSFERRED, divisions, parse};
use crate::tests::said;

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
    let cpu = [
        (include_str!("../../testdata/sysbench/1.0.20-cpu.txt"), 564.96, 10_000),
        (include_str!("../../testdata/sysbench/1.0.20-trixie-cpu.txt"), 476.02, 10_000),
        (include_str!("../../testdata/sysbench/1.1.0-cpu.txt"), 435.54, 20_000),
    ];
    for (text, events_per_s, limit) in cpu {
        let ns = parse(&said(text), DIVISION).unwrap();
        assert_eq!(ns, 1e9 / (events_per_s * divided(limit) as f64));
    }
    let memory = [
        (include_str!("../../testdata/sysbench/1.0.20-memory.txt"), 5346.58),
        (include_str!("../../testdata/sysbench/1.0.20-trixie-memory.txt"), 7061.24),
        (include_str!("../../testdata/sysbench/1.1.0-memory.txt"), 15373.63),
    ];
    for (text, mib_per_s) in memory {
        assert_eq!(parse(&said(text), TRANSFERRED), Ok(mib_per_s * MIB as f64));
    }
    let fileio = [
        (include_str!("../../testdata/sysbench/1.0.20-fileio.txt"), 9092.44),
        (include_str!("../../testdata/sysbench/1.1.0-fileio.txt"), 6474.26),
    ];
    for (text, reads) in fileio {
        assert_eq!(parse(&said(text), READS), Ok(reads));
    }
}

#[test]
fn what_it_does_not_say_is_an_error() {
    let memory = include_str!("../../testdata/sysbench/1.0.20-memory.txt");
    for what in [DIVISION, TRANSFERRED, READS] {
        assert!(parse(&said(""), what).is_err());
        assert!(parse(&said("FATAL: unknown option"), what).is_err());
    }
    assert!(parse(&said(memory), READS).is_err());
    assert!(parse(&said(memory), "anything else").is_err());
    assert!(parse(&said(&memory.replace("5346.58", "0.00")), TRANSFERRED).is_err());
    assert!(parse(&said(&memory.replace("MiB/sec)", "MB/sec)")), TRANSFERRED).is_err());
    let cpu = include_str!("../../testdata/sysbench/1.1.0-cpu.txt");
    assert!(parse(&said(&cpu.replace("limit: 20000", "limit: 4")), DIVISION).is_err());
}
