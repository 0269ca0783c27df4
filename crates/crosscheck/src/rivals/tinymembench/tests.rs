use super::RIVAL;
use crate::tests::{reads, refuses, text};

#[test]
fn recorded_outputs_of_two_versions_are_read() {
    let told = [
        ("0.4.9.txt", "SSE2 copy", 3011.4e6),
        ("0.4.9.txt", "SSE2 fill", 2192.5e6),
        ("0.4.9.txt", "base:67108864", 266.8),
        ("0.4.9.txt", "huge:67108864", 250.2),
        ("0.4.9.txt", "huge:33554432", 124.5),
        ("0.3.txt", "SSE2 copy", 13952.3e6),
        ("0.3.txt", "base:67108864", 169.2),
        ("0.3.txt", "huge:67108864", 148.8),
    ];
    reads(&RIVAL, &told);
}

#[test]
fn what_it_does_not_say_is_an_error() {
    let whole = text(&RIVAL, "0.4.9.txt");
    for what in ["SSE2 copy", "huge:1048576"] {
        let other = whole.replace("tinymembench", "other");
        refuses(&RIVAL, what, &["", "tinymembench v0.4.9\n", &other]);
    }
    // The last is a load that took no time: nothing to compare with.
    for what in ["AVX copy", "huge:4711", "huge:1024"] {
        refuses(&RIVAL, what, &[&whole]);
    }
    refuses(&RIVAL, "huge:1048576", &[&whole.replace(", [MADV_HUGEPAGE]", "")]);
}
