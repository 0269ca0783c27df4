//! What reports' parents had or did beside making processes: many areas of memory, writes, a long
//! run-up. `fork_calls` is theirs too, a call like the others.

use super::apparatus::resident;
use bench::prelude::*;
use metal::memory::{Mapping, Pages};
use std::io;

pub(super) const SETTINGS: &[Param] = &[
    Param::setting(
        "areas",
        "least number of memory areas of the parent (lines of /proc/self/maps); 0: as many as it \
         has",
        Domain::count(0, 30_000),
        ["0"; 3],
    ),
    Param::setting(
        "written",
        "bytes that the parent writes before each process, besides its resident memory: after a \
         fork, each of their pages faults; only in_sequence includes the writing itself",
        Domain::bytes(0, 1 << 30),
        ["0"; 3],
    ),
    Param::setting(
        "steady",
        "least time for which processes are created before the timed ones, and least time of the \
         timed ones: to compare with tools that create processes for seconds",
        Domain::ns(0, 60_000_000_000),
        ["0"; 3],
    ),
];

/// Whether the parent of a case was given areas or writes.
pub(super) fn are_given(case: &Case) -> bool {
    ["areas", "written"].iter().any(|name| case.at.contains_key(*name))
}

/// For how long processes are made at least before those that are timed, in ns.
pub(super) fn steady_ns(params: &Params) -> u64 {
    params.ints("steady").first().copied().unwrap_or(0)
}

pub(super) struct Given {
    /// Held, and not written to: for their number.
    _more: Vec<Mapping>,
    written: Option<Mapping>,
}

impl Given {
    pub(super) fn new(series: &Series) -> Result<Given> {
        let least = usize::try_from(series.setting("areas").unwrap_or(0))?;
        let more = more_areas(least).context("areas of memory")?;
        let written = match series.setting("written").unwrap_or(0) {
            0 => None,
            bytes => Some(resident(usize::try_from(bytes)?, Pages::Base)?),
        };
        Ok(Given { _more: more, written })
    }

    pub(super) fn write(&mut self, value: u8) {
        if let Some(written) = &mut self.written {
            written.as_mut_slice().fill(value);
        }
    }
}

pub(super) fn count_areas() -> io::Result<usize> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().count())
}

/// Maps and touches pages apart from each other until this process has `least` areas.
fn more_areas(least: usize) -> io::Result<Vec<Mapping>> {
    let mut areas = Vec::new();
    loop {
        let lacking = least.saturating_sub(count_areas()?);
        if lacking == 0 {
            return Ok(areas);
        }
        // A page between two that cannot be accessed makes one area to three.
        for _ in 0..lacking.div_ceil(3) {
            let mut area = Mapping::new(1, Pages::Base)?;
            area.touch();
            areas.push(area);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_has_the_areas_that_are_asked_for() {
        let before = count_areas().expect("proc is mounted");
        let areas = more_areas(before + 100).expect("pages can be mapped");
        assert!((20..=100).contains(&areas.len()), "{}", areas.len());
        let after = count_areas().expect("proc is mounted");
        // Other tests map and unmap meanwhile.
        assert!(after + 20 >= before + 100, "{before} {after}");
        assert!(more_areas(0).expect("nothing to map").is_empty());
    }
}
