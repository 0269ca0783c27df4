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
    for broken in [
        "",
        "1 2 3 4 5 6 7 8 9",
        "1 2 3 4 5\n6 7 8 9 10",
        "1 2 3 4 5 6 7 8 9 ten",
        // No request was answered.
        "0 0 0 0 0 0 0 0 1 9",
        "ioping: failed",
    ] {
        parse(&said(broken), "mean").expect_err(broken);
    }
}

#[test]
fn the_version_is_told_by_its_name() {
    assert_eq!((RIVAL.version)(&said("ioping 1.3\n")), Some("1.3".to_owned()));
    assert_eq!((RIVAL.version)(&said("1.3\n")), None);
}
