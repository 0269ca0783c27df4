//! Footprints of random walks that are to be answered by one level of the hierarchy.

use crate::experiment::{Known, Params, Preset, Site, Skip};
use crate::predict::cpu::is_guest;
use crate::predict::memory::{MEMORY, described_levels, line_bytes};
use record::case::Case;
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;

const MIB: u64 = 1 << 20;
/// Most bytes of a walk in the standard preset: what a prediction goes by before a case is resolved.
pub(super) const USUAL_MOST: u64 = 128 * MIB;
/// What an unknown last cache is taken to have: nearly all have less for one core.
const UNKNOWN_LAST: u64 = 32 * MIB;
/// A footprint in main memory has so many times the last cache, and at least so much.
const TIMES_LAST: u64 = 4;
const LEAST_MEMORY: u64 = 64 * MIB;
/// Where huge pages are given whole, so are footprints beyond some of them.
const GRAIN: u64 = 2 * MIB;
/// Of making a walk, in ns: touching a byte first (in a guest the hypervisor may have to find it)
/// and drawing and linking a slot.
const TOUCH_NS: f64 = 0.5;
const TOUCH_GUEST_NS: f64 = 1.0;
const LINK_NS: f64 = 35.0;

/// A footprint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sized {
    /// Bytes walked over.
    pub(super) bytes: u64,
    /// Distance of slots: a line, or 64 bytes where lines are shorter.
    pub(super) slot: u64,
    /// What a reader must know of it.
    pub(super) note: Option<String>,
}

impl Sized {
    /// Writes it into what a case's symbols resolved to.
    pub(super) fn write(&self, case: &mut Case) {
        let at = &mut case.at;
        at.insert("footprint".to_owned(), Value::from(self.bytes));
        at.insert("slot".to_owned(), Value::from(self.slot));
        if let Some(note) = &self.note {
            at.insert("footprint_note".to_owned(), Value::from(note.as_str()));
        }
    }

    /// The footprint of a resolved case.
    pub(super) fn of(case: &Case) -> Option<Sized> {
        let note = case.at.get("footprint_note").and_then(Value::text);
        Some(Sized {
            bytes: case.at.get("footprint")?.int()?,
            slot: case.at.get("slot")?.int()?,
            note: note.map(str::to_owned),
        })
    }

    /// Time to touch the memory and to link a walk through it, in ns.
    pub(super) fn making_ns(&self, site: &Site) -> f64 {
        let touch_ns = if is_guest(site) {
            TOUCH_GUEST_NS
        } else {
            TOUCH_NS
        };
        self.bytes as f64 * touch_ns + (self.bytes / self.slot) as f64 * LINK_NS
    }
}

/// Most bytes of a walk, by the parameter `most` or the preset.
pub(super) fn most(params: &Params) -> u64 {
    let given = params.chosen("most").and_then(|values| values.first());
    given.and_then(Value::int).unwrap_or(match params.preset {
        Preset::Rehearsal => MIB,
        Preset::Quick => 32 * MIB,
        Preset::Standard => USUAL_MOST,
        Preset::Thorough => 1024 * MIB,
    })
}

/// The footprint of a level, at most `most`: of a cache four times the one before, at most half of
/// itself; of main memory four times the last cache.
///
/// # Errors
/// No such cache is described, there is no room between two of them, or memory is too small.
pub(super) fn footprint(
    site: &Site,
    known: Option<&Known>,
    level: &str,
    most: u64,
) -> Result<Sized, Skip> {
    let slot = line_bytes(site).0.max(64);
    let described = described_levels(site);
    let sizes: Vec<(&str, u64)> = described
        .iter()
        .map(|(name, bytes)| (*name, measured(known, name).unwrap_or(*bytes)))
        .collect();
    let (bytes, note) = if level == MEMORY {
        in_memory(site, sizes.last().map(|level| level.1), most)?
    } else {
        (in_cache(&sizes, level)?.min(most), None)
    };
    Ok(Sized {
        bytes: bytes / slot * slot,
        slot,
        note,
    })
}

/// The size of a level as `memory.latency` found it.
fn measured(known: Option<&Known>, level: &str) -> Option<u64> {
    let id = CaseId::new().with("level", level);
    let bytes = known?.get("memory.latency", &id, "level_size")?;
    (bytes >= 1024.0).then_some(bytes as u64)
}

fn in_cache(sizes: &[(&str, u64)], level: &str) -> Result<u64, Skip> {
    let at = sizes.iter().position(|(name, _)| *name == level);
    let Some(at) = at.filter(|at| *at > 0) else {
        return Err(Skip::because(format!("the machine describes no {level}")));
    };
    let (inner, bytes) = (sizes[at - 1].1, sizes[at].1);
    let footprint = (4 * inner).min(bytes / 2);
    if footprint < 2 * inner {
        return Err(Skip::because(format!(
            "{level} ({}) is not four times the cache before it ({})",
            render(bytes as f64, Unit::B),
            render(inner as f64, Unit::B)
        )));
    }
    Ok(footprint)
}

fn in_memory(site: &Site, last: Option<u64>, most: u64) -> Result<(u64, Option<String>), Skip> {
    let last = last.unwrap_or(UNKNOWN_LAST);
    let wanted = TIMES_LAST.saturating_mul(last).max(LEAST_MEMORY);
    let allowed = most.min(site.memory_bytes / 2);
    let bytes = wanted.min(allowed);
    let bytes = match bytes > GRAIN {
        true => bytes / GRAIN * GRAIN,
        false => bytes,
    };
    if bytes < MIB {
        return Err(Skip::because(format!(
            "{} of memory may be touched, which is no main memory's worth",
            render(site.memory_bytes as f64, Unit::B)
        ))
        .needs("more free memory or a higher limit"));
    }
    let note = (bytes < last.saturating_mul(2)).then(|| {
        format!(
            "{} are less than twice the last cache ({}): it may answer a part of the loads",
            render(bytes as f64, Unit::B),
            render(last as f64, Unit::B)
        )
    });
    Ok((bytes, note))
}

#[cfg(test)]
mod tests {
    use super::{GRAIN, MIB, Sized, footprint};
    use crate::experiment::{Known, Site};
    use crate::experiments::tests::{recorded, sites};
    use crate::predict::memory::{MEMORY, described_levels};
    use crate::predict::tests::bare_site;
    use record::case::Case;
    use record::key::{CaseId, Key};

    fn bytes(site: &Site, known: Option<&Known>, level: &str, most: u64) -> u64 {
        footprint(site, known, level, most)
            .expect("a footprint")
            .bytes
    }

    #[test]
    fn a_cache_s_footprint_is_beyond_the_one_before_and_inside_it() {
        for site in sites() {
            let levels = described_levels(&site);
            for two in levels.windows(2) {
                let bytes = bytes(&site, None, two[1].0, u64::MAX);
                assert!(2 * two[0].1 <= bytes && 2 * bytes <= two[1].1, "{two:?}");
            }
            footprint(&site, None, "L1", u64::MAX).expect_err("nothing before it");
        }
    }

    #[test]
    fn main_memory_is_four_times_the_last_cache_as_it_was_measured() {
        let mut site = recorded("alder-lake-hybrid");
        site.memory_bytes = 1 << 40;
        let last = *described_levels(&site).last().expect("caches");
        let whole = bytes(&site, None, MEMORY, u64::MAX);
        assert_eq!(whole, (4 * last.1).max(64 * MIB) / GRAIN * GRAIN);
        let mut known = Known::default();
        let id = CaseId::new().with("level", last.0);
        known.insert(
            Key::new("memory.latency", &id, "level_size"),
            40.0 * MIB as f64,
        );
        assert_eq!(bytes(&site, Some(&known), MEMORY, u64::MAX), 160 * MIB);
        let cut = footprint(&site, Some(&known), MEMORY, 32 * MIB).expect("a part");
        assert_eq!(cut.bytes, 32 * MIB);
        assert!(
            cut.note
                .as_deref()
                .is_some_and(|note| note.contains("last cache"))
        );
        let mut case = Case::new(CaseId::new());
        cut.write(&mut case);
        assert_eq!(Sized::of(&case), Some(cut));
    }

    #[test]
    fn little_memory_is_a_reason() {
        let mut site = bare_site();
        site.memory_bytes = 100_000;
        let skip = footprint(&site, None, MEMORY, u64::MAX).expect_err("too little");
        assert!(
            skip.needed.is_some() && skip.reason.contains("may be touched"),
            "{skip:?}"
        );
        footprint(&site, None, "L2", u64::MAX).expect_err("no cache is described");
    }
}
