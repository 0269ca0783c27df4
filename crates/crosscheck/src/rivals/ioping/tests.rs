use super::{RIVAL, parse};
use crate::tests::said;

#[test]
fn the_mean_is_the_sixth_number() {
    let of = |text: &str| parse(&said(text), "mean");
    assert_eq!(of(include_str!("../../testdata/ioping/1.2-raw.txt")), Ok(256_928.0));
    assert_eq!(of(include_str!("../../testdata/ioping/1.3-raw.txt")), Ok(125_994.0));
}

#[test]
fn anything_else_is_refused() {
    let why = |text: &str| parse(&said(text), "mean").expect_err("it is broken");
    assert_eq!(why(""), "0 numbers in place of one line of 10");
    assert_eq!(why("1 2 3 4 5 6 7 8 9"), "9 numbers in place of one line of 10");
    assert_eq!(why("1 2 3 4 5\n6 7 8 9 10"), "10 numbers in place of one line of 10");
    assert_eq!(why("1 2 3 4 5 6 7 8 9 ten"), "no number: ten");
    assert_eq!(why("0 0 0 0 0 0 0 0 1 9"), "no request was answered");
    assert_eq!(why("ioping: failed to open \"/x\""), "no number: ioping:");
}

#[test]
fn the_version_is_told_by_its_name() {
    assert_eq!((RIVAL.version)(&said("ioping 1.3\n")), Some("1.3".to_owned()));
    assert_eq!((RIVAL.version)(&said("1.3\n")), None);
}
