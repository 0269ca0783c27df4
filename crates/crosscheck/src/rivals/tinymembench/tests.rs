use super::parse;
use crate::tests::said;

const WHOLE: &str = include_str!("../../testdata/tinymembench/0.4.9.txt");

#[test]
fn a_recorded_output_is_read() {
    let output = said(WHOLE);
    assert_eq!(parse(&output, "SSE2 copy"), Ok(3011.4e6));
    assert_eq!(parse(&output, "SSE2 fill"), Ok(2192.5e6));
    assert_eq!(parse(&output, "base:67108864"), Ok(266.8));
    assert_eq!(parse(&output, "huge:67108864"), Ok(250.2));
    assert_eq!(parse(&output, "huge:33554432"), Ok(124.5));
}

#[test]
fn an_older_version_prints_the_same() {
    let output = said(include_str!("../../testdata/tinymembench/0.3.txt"));
    assert_eq!(parse(&output, "SSE2 copy"), Ok(13952.3e6));
    assert_eq!(parse(&output, "base:67108864"), Ok(169.2));
    assert_eq!(parse(&output, "huge:67108864"), Ok(148.8));
}

#[test]
fn what_it_does_not_say_is_an_error() {
    for what in ["SSE2 copy", "huge:1048576"] {
        assert!(parse(&said(""), what).is_err());
        assert!(parse(&said("tinymembench v0.4.9\n"), what).is_err());
        assert!(parse(&said(&WHOLE.replace("tinymembench", "other")), what).is_err());
    }
    assert!(parse(&said(WHOLE), "AVX copy").is_err());
    assert!(parse(&said(WHOLE), "huge:4711").is_err());
    let older = WHOLE.replace(", [MADV_HUGEPAGE]", "");
    assert!(parse(&said(&older), "huge:1048576").is_err());
    // A load that took no time: nothing to compare with.
    assert!(parse(&said(WHOLE), "huge:1024").is_err());
}
