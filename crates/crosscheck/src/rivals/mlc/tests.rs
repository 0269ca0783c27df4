//! Text as Intel's page and published outputs have it; no output of a run of ours.

use super::{HITM, IDLE, LOADED_BANDWIDTH, LOADED_LATENCY, READS, RIVAL, TRIAD};
use crate::tests::{reads, refuses, text, versions};

#[test]
fn documented_formats_are_read() {
    versions(&RIVAL, &[("3.11b-peak.txt", "3.11b")], &[]);
    let told = [
        ("3.11b-idle.txt", IDLE, 89.0),
        ("3.5-idle.txt", IDLE, 80.8),
        ("3.11b-peak.txt", READS, 34419.9e6),
        ("3.11b-peak.txt", TRIAD, 29556.1e6),
        ("3.11b-loaded.txt", LOADED_LATENCY, 383.60),
        ("3.11b-loaded.txt", LOADED_BANDWIDTH, 35243.8e6),
        ("3.11b-c2c.txt", HITM, 54.9),
    ];
    reads(&RIVAL, &told);
}

#[test]
fn what_it_does_not_say_is_an_error() {
    for what in [IDLE, READS, TRIAD, LOADED_LATENCY, LOADED_BANDWIDTH, HITM, "anything else"] {
        refuses(&RIVAL, what, &["", "Buffer allocation failed!"]);
    }
    let other = |file, from, to| text(&RIVAL, file).replace(from, to);
    refuses(&RIVAL, IDLE, &[&other("3.11b-idle.txt", "ns)", "us)")]);
    refuses(&RIVAL, READS, &[&other("3.11b-peak.txt", "1,000,000", "1,048,576")]);
    refuses(&RIVAL, LOADED_LATENCY, &[&other("3.11b-loaded.txt", "00000", "00002")]);
}
