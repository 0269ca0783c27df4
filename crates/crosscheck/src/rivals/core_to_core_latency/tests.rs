use super::{RIVAL, parse};
use crate::Output;

fn value(text: &str) -> Result<f64, String> {
    let said = Output { stdout: text.to_owned(), ..Output::default() };
    parse(&said, "ns a transfer")
}

#[test]
fn recorded_outputs_are_read() {
    let pair = include_str!("../../testdata/core-to-core-latency/1.2.0-pair.txt");
    assert_eq!(value(pair), Ok(13747.836349999998));
    let older = include_str!("../../testdata/core-to-core-latency/1.1.0-pair.txt");
    assert_eq!(value(older), Ok(47.86826500000001));
}

#[test]
fn what_is_no_matrix_of_two_is_an_error() {
    for text in
        ["", ",\n", ",\n,\n", ",\nNaN,\n", ",\n0,\n", ",,\n1,,\n2,3,\n", "1,\n2,\n", ",\n1,2\n"]
    {
        assert!(value(text).is_err(), "{text:?}");
    }
}

#[test]
fn its_version_is_told_by_its_options() {
    let told =
        |help: &str| (RIVAL.version)(&Output { stdout: help.to_owned(), ..Output::default() });
    let oldest = "        --csv     Outputs the mean latencies in CSV format on stdout\n";
    assert_eq!(told(oldest).as_deref(), Some("1.0"));
    let newer = format!("    -b, --bench <BENCH>    Select which benchmark to run\n{oldest}");
    assert_eq!(told(&newer).as_deref(), Some("1.1+"));
    assert_eq!(told("usage"), None);
}
