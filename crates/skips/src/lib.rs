//! How a test says that it, or a part, cannot run on this machine. `scripts/test` counts what
//! is said here. The kinds of reasons are in `tests/skips.txt`.
#![expect(
    clippy::print_stdout,
    reason = "the test harness captures it like the output of the test itself"
)]
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// A line per kind: its name, a colon, and why a test may do without what is missing.
const KINDS: &str = include_str!("../../../tests/skips.txt");

/// The environment variable that names the file to which skips are appended.
const FILE: &str = "PLUMB_SKIPS";

/// The test that calls this ends here: what it needs is missing. Panics: where the kind is not in
/// the list, or the file cannot be written.
#[track_caller]
pub fn test(kind: &str) {
    note(kind, reason(kind));
}

/// The test that calls this leaves out `what`, or ends here for the cause in `what`. Panics: as
/// [`test`].
#[track_caller]
pub fn part(kind: &str, what: impl Display) {
    reason(kind);
    note(kind, what);
}

fn reason(kind: &str) -> &'static str {
    let mut lines = KINDS.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(name, _)| *name == kind);
    found.unwrap_or_else(|| panic!("{kind:?} is not in tests/skips.txt")).1
}

#[track_caller]
fn note(kind: &str, what: impl Display) {
    let place = Location::caller();
    // The harness names the thread of a test by it. Threads of a test's own have no name.
    let thread = std::thread::current();
    let test =
        thread.name().map_or_else(|| format!("{}:{}", place.file(), place.line()), str::to_owned);
    let what = what.to_string().replace('\n', " ");
    let line = format!("skipped: {test}: {kind}: {what}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os(FILE) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{FILE}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "tests/skips.txt")]
    fn a_kind_that_is_not_listed_fails_the_test() {
        super::test("no-such-kind");
    }
}
