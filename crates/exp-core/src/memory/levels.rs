//! Sizes of the levels of the hierarchy as the family's experiments go by them, and footprints of
//! random walks that are to be answered by one level.

use bench::prelude::*;
use laws::cpu::is_guest;
use laws::memory::{Level, described_levels, level_size, line_bytes};

const MIB: u64 = 1 << 20;
/// Most bytes of a walk in the standard preset: what a prediction goes by before a case is
/// resolved.
pub(super) const USUAL_MOST: u64 = 128 * MIB;
/// What an unknown last cache is taken to have: nearly all have less for one core.
pub(super) const UNKNOWN_LAST: u64 = 32 * MIB;
/// Up to this size the described last cache counts, whatever part of it was found.
const LAST_MOST: u64 = 64 * MIB;
/// What lies in main memory has so many times the last cache, and at least so much altogether.
pub(super) const TIMES_LAST: u64 = 4;
pub(super) const LEAST_MEMORY: u64 = 64 * MIB;
/// Where huge pages are given whole, so are footprints beyond some of them.
const GRAIN: u64 = 2 * MIB;
/// Of making a walk, in ns: touching a byte first (in a guest the hypervisor may have to find it)
/// and drawing and linking a slot.
const TOUCH_NS: f64 = 0.5;
const TOUCH_GUEST_NS: f64 = 1.0;
const LINK_NS: f64 = 35.0;

/// Bytes of a level that one core can fill, as `memory.latency` found them, else as a person gave
/// them (`host.cache.l2`, `host.cache.l3`); and which of both.
pub(super) fn known_bytes(facts: Facts, level: Level) -> Option<(u64, &'static str)> {
    let id = CaseId::new().with("level", level.text());
    let given = &facts.site.host.given;
    let given = match level {
        Level::L2 => given.value("cache.l2"),
        Level::L3 => given.value("cache.l3"),
        _ => None,
    };
    let measured = facts.figure("memory.latency", &id, "level_size");
    // Less than 1 KiB is no cache: neither a finding nor a wish to go by.
    let found = [(measured, "measured"), (given, "given")].into_iter();
    let mut found = found.filter_map(|(bytes, from)| Some((bytes? as u64, from)));
    found.find(|(bytes, _)| *bytes >= 1024)
}

/// Bytes of a cache that one core can fill: as [`known_bytes`], else what its law takes it to be
/// from the description (of a last cache that a virtual machine shares, a part).
pub(super) fn level_bytes(facts: Facts, level: Level) -> Option<(u64, &'static str)> {
    known_bytes(facts, level).or_else(|| {
        let described = level_size(facts.site, level).ok()?;
        Some((described.range.likely as u64, "described"))
    })
}

/// Bytes of a level as [`known_bytes`], else as the machine describes all of it.
pub(super) fn whole_bytes(facts: Facts, level: Level) -> Option<(u64, &'static str)> {
    known_bytes(facts, level).or_else(|| {
        let mut described = described_levels(facts.site).into_iter();
        described.find(|(other, _)| *other == level).map(|(_, bytes)| (bytes, "described"))
    })
}

/// Bytes of one instance of the last cache; arrays in main memory must be larger. The part that one
/// core was found to fill changes with what the neighbours do, so the described size counts, up to
/// [`LAST_MOST`].
pub(super) fn last_bytes(facts: Facts) -> (u64, &'static str) {
    let described = described_levels(facts.site);
    let Some((level, all)) = described.last() else { return (UNKNOWN_LAST, "assumed") };
    match whole_bytes(facts, *level) {
        Some((part, "measured")) if part < *all && *all <= LAST_MOST => (*all, "described"),
        found => found.unwrap_or((UNKNOWN_LAST, "assumed")),
    }
}

/// How many of `cpus` share the fullest instance of the level `at` (0: the first).
pub(super) fn sharing(site: &Site, at: usize, cpus: &[usize]) -> usize {
    groups(site, at, cpus).into_iter().max().unwrap_or(1).max(1)
}

/// Instances of the last cache under `cpus`: what these together fill is so many times one.
pub(super) fn instances(site: &Site, cpus: &[usize]) -> usize {
    match described_levels(site).len().checked_sub(1) {
        None => 1,
        Some(at) => groups(site, at, cpus).len().max(1),
    }
}

/// How many of the CPUs each instance of a level serves that serves any. A cache that only CPUID
/// describes has no instances: then the first two levels are taken as private, others as shared.
fn groups(site: &Site, at: usize, cpus: &[usize]) -> Vec<usize> {
    let level = at as u32 + 1;
    let first = cpus.first().copied().unwrap_or(0);
    let Some(cache) = site.host.cache.data(level, first) else {
        return vec![1; cpus.len()];
    };
    if cache.shared_by.is_empty() {
        return if at < 2 { vec![1; cpus.len()] } else { vec![cpus.len()] };
    }
    // Cores of other kinds have instances of other geometry.
    let caches = site.host.cache.levels.iter();
    let same = caches.filter(|other| other.level == level && other.kind == cache.kind);
    same.flat_map(|cache| &cache.shared_by)
        .map(|group| group.iter().filter(|cpu| cpus.contains(cpu)).count())
        .filter(|count| *count > 0)
        .collect()
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sized {
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
        at.put("footprint", self.bytes);
        at.put("slot", self.slot);
        at.put_known("footprint_note", self.note.clone());
    }

    /// The footprint of a resolved case.
    pub(super) fn from_case(case: &Case) -> Option<Sized> {
        let note = case.at.get("footprint_note").and_then(Value::text);
        Some(Sized {
            bytes: case.at.get("footprint")?.int()?,
            slot: case.at.get("slot")?.int()?,
            note: note.map(str::to_owned),
        })
    }

    /// Time to touch the memory and to link a walk through it, in ns.
    pub(super) fn making_ns(&self, site: &Site) -> f64 {
        self.bytes as f64 * touch_ns(site) + (self.bytes / self.slot) as f64 * LINK_NS
    }
}

/// Time to touch a byte of new memory, in ns.
pub(super) fn touch_ns(site: &Site) -> f64 {
    if is_guest(site) { TOUCH_GUEST_NS } else { TOUCH_NS }
}

/// The setting of [`most`].
pub(super) const MOST: Param = Param::setting(
    "most",
    "largest footprint of the walk and of a load thread's arrays; auto: 128 MiB, in thorough 1 \
     GiB",
    Domain::Either(&["auto"], 1 << 16, 1 << 38, Unit::B),
    ["auto"; 3],
);

/// Most bytes of a walk, by the parameter `most` or the preset.
pub(super) fn most(params: &Params) -> u64 {
    let given = params.chosen("most").and_then(|values| values.first());
    given.and_then(Value::int).unwrap_or(match params.preset {
        Preset::Rehearsal => MIB,
        Preset::Quick | Preset::Standard => USUAL_MOST,
        Preset::Thorough => 1024 * MIB,
    })
}

/// Whether the preset has time for footprints beyond all caches: quick has it only where the
/// parameter is given. Errors: it has not; `way` is what to set.
pub(super) fn beyond_quick(params: &Params, parameter: &str, way: &str) -> Result<(), Skip> {
    if params.preset == Preset::Quick && params.chosen(parameter).is_none() {
        return Err(Skip::because(
            "preparing memory beyond all caches takes longer than the quick preset allows",
        )
        .needs(format!("--preset standard, or --set {way}")));
    }
    Ok(())
}

/// So much of a cache at most is filled where it is to answer alone (METHOD §2a): above it, which
/// of its sets the pages fall on decides, and a second level takes 3.7 to 6.1 ns from round to
/// round.
pub(super) fn quiet_part(cache_bytes: u64) -> u64 {
    cache_bytes / 8 * 3
}

/// The footprint of a level, at most `most`: of a cache four times the one before, at most three
/// eighths of itself; of main memory four times the last cache. Errors: no such cache is described,
/// there is no room between two of them, or memory is too small.
pub(super) fn footprint(facts: Facts, level: Level, most: u64) -> Result<Sized, Skip> {
    let slot = line_bytes(facts.site).0.max(64);
    let (bytes, note) = match level.is_memory() {
        true => in_memory(facts.site, last_bytes(facts).0, most)?,
        false => (in_cache(facts, level)?.min(most), None),
    };
    Ok(Sized { bytes: bytes / slot * slot, slot, note })
}

fn in_cache(facts: Facts, level: Level) -> Result<u64, Skip> {
    let described = described_levels(facts.site);
    let bytes = |at: usize| Some(whole_bytes(facts, described.get(at)?.0)?.0);
    let at = described.iter().position(|(other, _)| *other == level);
    let both = at.and_then(|at| Some((bytes(at.checked_sub(1)?)?, bytes(at)?)));
    let Some((inner, bytes)) = both else {
        return Err(Skip::because(format!("the machine describes no {}", level.text())));
    };
    let footprint = (4 * inner).min(quiet_part(bytes));
    if footprint < 2 * inner {
        return Err(Skip::because(format!(
            "{} ({}) is less than four times the previous cache ({})",
            level.text(),
            render(bytes as f64, Unit::B),
            render(inner as f64, Unit::B)
        )));
    }
    Ok(footprint)
}

fn in_memory(site: &Site, last: u64, most: u64) -> Result<(u64, Option<String>), Skip> {
    let wanted = TIMES_LAST.saturating_mul(last).max(LEAST_MEMORY);
    let allowed = most.min(site.memory_bytes / 2);
    let bytes = wanted.min(allowed);
    let bytes = if bytes > GRAIN { bytes / GRAIN * GRAIN } else { bytes };
    if bytes < MIB {
        return Err(Skip::because(format!(
            "{} of memory may be used, too little to measure main memory",
            render(site.memory_bytes as f64, Unit::B)
        ))
        .needs("more free memory or a higher limit"));
    }
    let note = (bytes < last.saturating_mul(2)).then(|| {
        format!(
            "{} are less than twice the last cache ({}), which may answer a part of the loads",
            render(bytes as f64, Unit::B),
            render(last as f64, Unit::B)
        )
    });
    Ok((bytes, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::experiment::fixtures::{bare_site, recorded};
    use laws::memory::Level::{self, L2, L3, Memory};

    fn bytes(facts: Facts, level: Level) -> u64 {
        footprint(facts, level, u64::MAX).expect("a footprint").bytes
    }

    #[test]
    fn main_memory_is_four_times_the_last_cache_as_it_was_measured() {
        let mut site = recorded("alder-lake-hybrid");
        site.memory_bytes = 1 << 40;
        let last = *described_levels(&site).last().expect("caches");
        let whole = bytes(Facts::prior(&site), Memory);
        assert_eq!(whole, (4 * last.1).max(64 * MIB) / GRAIN * GRAIN);
        let mut known = Known::default();
        let id = CaseId::new().with("level", last.0.text());
        known.insert(Key::new("memory.latency", &id, "level_size"), 40.0 * MIB as f64);
        let facts = Facts { site: &site, known: Some(&known) };
        assert_eq!(bytes(facts, Memory), 160 * MIB);
        let cut = footprint(facts, Memory, 32 * MIB).expect("a part");
        assert!(cut.bytes == 32 * MIB && cut.note.is_some());
        let mut case = Case::new(CaseId::new());
        cut.write(&mut case);
        assert_eq!(Sized::from_case(&case), Some(cut));
    }

    #[test]
    fn what_was_measured_counts_before_what_was_given_and_that_before_what_is_described() {
        let mut site = recorded("alder-lake-hybrid");
        let described = *described_levels(&site).last().expect("caches");
        assert_eq!(described.0, L3);
        assert_eq!(last_bytes(Facts::prior(&site)), (described.1, "described"));
        let given = site.host.given.set("cache.l3", "12MiB");
        given.expect("a size");
        assert_eq!(last_bytes(Facts::prior(&site)), (12 * MIB, "given"));
        assert_eq!(bytes(Facts::prior(&site), Memory), 64 * MIB);
        let mut known = Known::default();
        let size = Key::new("memory.latency", &CaseId::new().with("level", "L3"), "level_size");
        known.insert(size.clone(), 20.0 * MIB as f64);
        assert_eq!(
            whole_bytes(Facts { site: &site, known: Some(&known) }, L3),
            Some((20 * MIB, "measured"))
        );
        assert_eq!(
            last_bytes(Facts { site: &site, known: Some(&known) }),
            (described.1, "described")
        );
        // What is smaller than any cache is no finding.
        known.insert(size, 12.0);
        assert_eq!(last_bytes(Facts { site: &site, known: Some(&known) }), (12 * MIB, "given"));
        assert_eq!(last_bytes(Facts::prior(&bare_site())), (UNKNOWN_LAST, "assumed"));
        assert_eq!(whole_bytes(Facts::prior(&bare_site()), L2), None);
    }

    #[test]
    fn little_memory_is_a_reason() {
        let mut site = bare_site();
        site.memory_bytes = 100_000;
        let skip = footprint(Facts::prior(&site), Memory, u64::MAX).expect_err("too little");
        assert!(skip.needed.is_some(), "{skip:?}");
        footprint(Facts::prior(&site), L2, u64::MAX).expect_err("no cache is described");
    }
}
