use super::parse;
use crate::crosscheck::Output;

fn value(text: &str) -> Result<f64, String> {
    let said = Output {
        stdout: text.to_owned(),
        ..Output::default()
    };
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
    for text in [
        "",
        ",\n",
        ",\n,\n",
        ",\nNaN,\n",
        ",\n0,\n",
        ",,\n1,,\n2,3,\n",
        "1,\n2,\n",
        ",\n1,2\n",
    ] {
        assert!(value(text).is_err(), "{text:?}");
    }
}
