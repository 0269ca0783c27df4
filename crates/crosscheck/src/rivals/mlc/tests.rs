//! Text as Intel's page and published outputs have it; no output of a run of ours.

use super::{HITM, IDLE, LOADED_BANDWIDTH, LOADED_LATENCY, READS, TRIAD, parse, version};
use crate::tests::said;

const IDLE_NOW: &str = include_str!("../../testdata/mlc/3.11b-idle.txt");
const IDLE_BEFORE: &str = include_str!("../../testdata/mlc/3.5-idle.txt");
const PEAK: &str = include_str!("../../testdata/mlc/3.11b-peak.txt");
const LOADED: &str = include_str!("../../testdata/mlc/3.11b-loaded.txt");
const C2C: &str = include_str!("../../testdata/mlc/3.11b-c2c.txt");

#[test]
fn documented_formats_are_read() {
    assert_eq!(version(&said(PEAK)).as_deref(), Some("3.11b"));
    assert_eq!(parse(&said(IDLE_NOW), IDLE), Ok(89.0));
    assert_eq!(parse(&said(IDLE_BEFORE), IDLE), Ok(80.8));
    assert_eq!(parse(&said(PEAK), READS), Ok(34419.9e6));
    assert_eq!(parse(&said(PEAK), TRIAD), Ok(29556.1e6));
    assert_eq!(parse(&said(LOADED), LOADED_LATENCY), Ok(383.60));
    assert_eq!(parse(&said(LOADED), LOADED_BANDWIDTH), Ok(35243.8e6));
    assert_eq!(parse(&said(C2C), HITM), Ok(54.9));
}

#[test]
fn what_it_does_not_say_is_an_error() {
    for what in [IDLE, READS, TRIAD, LOADED_LATENCY, LOADED_BANDWIDTH, HITM, "anything else"] {
        assert!(parse(&said(""), what).is_err(), "{what}");
        assert!(parse(&said("Buffer allocation failed!"), what).is_err(), "{what}");
    }
    assert!(parse(&said(&IDLE_NOW.replace("ns)", "us)")), IDLE).is_err());
    assert!(parse(&said(&PEAK.replace("1,000,000", "1,048,576")), READS).is_err());
    assert!(parse(&said(&LOADED.replace("00000", "00002")), LOADED_LATENCY).is_err());
}
