//! Which walks are measured: the points of the parameter space, per preset and machine.

use super::ID;
use crate::too_much;
use bench::prelude::*;
use laws::memory::{Level, Load, On, Pattern, Point, described_levels, line_bytes};
use record::order::Gather;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// Footprints are whole lines of this size on every machine, so that keys agree between them.
pub(super) const GRAIN_BYTES: u64 = 64;
const LEAST_BYTES: f64 = 512.0;
/// A walk in order of addresses has at least so many slots, else it is no walk.
const LEAST_SLOTS: u64 = 4;
const STRIDES: [u64; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Strides that the published reports name.
const NAMED_STRIDES: [u64; 3] = [64, 256, 512];
/// Distances of slots over which the line size is looked for.
const LINE_STRIDES: [u64; 6] = [16, 32, 64, 128, 256, 512];
/// Footprint of that look: the same on every machine, so that keys agree. Nearly every first cache
/// is less than half of it and nearly every second one larger.
const LINE_FOOTPRINT: u64 = 128 * KIB;

/// What a series calls the bytes of the last cache that a core has for itself.
pub(super) const PRIVATE: &str = "private";

/// Whether the distance of slots is part of a walk's identity.
pub(super) fn has_stride(pattern: Pattern) -> bool {
    !matches!(pattern, Pattern::Random | Pattern::FourQuarter)
}

/// What makes the walk impossible on any machine with pages of this size.
pub(super) fn contradiction(point: &Point, page_bytes: u64) -> Option<String> {
    let footprint = point.footprint;
    if !footprint.is_multiple_of(GRAIN_BYTES) {
        let near = footprint.next_multiple_of(GRAIN_BYTES);
        return Some(format!("a footprint is whole lines of {GRAIN_BYTES} bytes: type {near}"));
    }
    if point.pattern == Pattern::FourQuarter && !footprint.is_multiple_of(4 * GRAIN_BYTES) {
        return Some(format!("{footprint} bytes are not four quarters of whole lines"));
    }
    let stride = point.stride?;
    if stride < 16 || !stride.is_multiple_of(8) {
        return Some(format!(
            "a slot holds a pointer and an index: {stride} bytes are less than 16 or not a \
             multiple of 8"
        ));
    }
    if point.pattern == Pattern::PageRandom && !page_bytes.is_multiple_of(stride) {
        return Some(format!("slots of {stride} bytes do not fill a page of {page_bytes}"));
    }
    (footprint / stride < LEAST_SLOTS).then(|| {
        format!("{footprint} bytes hold less than {LEAST_SLOTS} slots, {stride} bytes apart")
    })
}

/// The walks of a preset. Without huge pages base pages are the reference; where a preset has both,
/// huge ones are asked for all the same, and answered for.
pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Point> {
    let has_huge = without_huge_pages(site).is_none();
    let both = Choice::new(site, preset, &On::ALL[..1 + usize::from(preset != Preset::Quick)]);
    if has_huge {
        return both.points();
    }
    let mut points = match preset {
        Preset::Standard | Preset::Thorough => both.points(),
        Preset::Rehearsal | Preset::Quick => Vec::new(),
    };
    points.retain(|point| point.pages == On::Huge);
    points.extend(Choice::new(site, preset, &[On::Base]).points());
    points
}

/// Cases of the look for the line size that this machine does not allow, with the reason.
pub(super) fn without_line(site: &Site, preset: Preset, cases: &[Point]) -> Vec<(CaseId, Skip)> {
    let Some(skip) = no_line(&described_levels(site)) else { return Vec::new() };
    let pages = if without_huge_pages(site).is_none() { On::Huge } else { On::Base };
    let gone = Choice::new(site, preset, &[pages]).line_sweep().into_iter();
    gone.filter(|point| !cases.contains(point)).map(|point| (point.id(), skip.clone())).collect()
}

/// What a preset has on a machine.
struct Choice {
    preset: Preset,
    patterns: &'static [Pattern],
    loads: &'static [Load],
    pages: Vec<On>,
    /// Bytes of the last cache; none where nothing describes it.
    last_cache: Option<u64>,
    /// Whether the line size can be looked for here.
    has_line: bool,
}

impl Choice {
    fn new(site: &Site, preset: Preset, pages: &[On]) -> Choice {
        let (patterns, loads) = match preset {
            Preset::Quick => (&Pattern::ALL[..1], &Load::ALL[..1]),
            // Counterparts of R0's figures are left to `thorough`.
            Preset::Standard => (Pattern::ALL, &Load::ALL[..2]),
            Preset::Rehearsal | Preset::Thorough => (Pattern::ALL, Load::ALL),
        };
        let levels = described_levels(site);
        Choice {
            preset,
            patterns,
            loads,
            pages: pages.to_vec(),
            last_cache: levels.last().map(|level| level.1),
            has_line: no_line(&levels).is_none(),
        }
    }

    /// The walks. Outside `thorough` one departs from the first of patterns, loads and pages in at
    /// most one of them.
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &pages in &self.pages {
            for &pattern in self.patterns {
                for &load in self.loads {
                    points.extend(self.curve(pattern, load, pages));
                }
            }
        }
        points.extend(self.line_sweep().into_iter().filter(|_| self.has_line));
        points
    }

    fn curve(&self, pattern: Pattern, load: Load, pages: On) -> Vec<Point> {
        let departs = [self.patterns[0] != pattern, self.loads[0] != load, self.pages[0] != pages];
        let departures = departs.iter().filter(|departs| **departs).count();
        if departures > 1 && self.preset != Preset::Thorough {
            return Vec::new();
        }
        // As R0 walked, and the order that hides nothing.
        if load == Load::Stored && !matches!(pattern, Pattern::Random | Pattern::FourQuarter) {
            return Vec::new();
        }
        let mut points = Vec::new();
        for stride in self.strides(pattern) {
            let unnamed = stride.is_some_and(|stride| !NAMED_STRIDES.contains(&stride));
            let rare = [departs[1], departs[2], unnamed].iter().filter(|rare| **rare).count();
            let footprints = self.footprints(pattern, departs[1], departures, rare).into_iter();
            let point = |footprint| Point { pattern, stride, load, pages, footprint };
            points.extend(footprints.map(point));
        }
        points.retain(|point| contradiction(point, 4 * KIB).is_none());
        points
    }

    /// Of a curve that departs from the first of patterns, loads and pages in so many. `rare`: in
    /// how many of load, pages and stride it is not what reports have.
    fn footprints(
        &self,
        pattern: Pattern,
        load_departs: bool,
        departures: usize,
        rare: usize,
    ) -> Vec<u64> {
        let random = pattern == Pattern::Random;
        match (self.preset, departures) {
            (Preset::Rehearsal, 0) => vec![4 * KIB, 64 * KIB],
            (Preset::Rehearsal, _) => vec![64 * KIB],
            (Preset::Quick, _) => {
                let top = self.last_cache.map_or(u64::MAX, |last| last.saturating_mul(4));
                let exact = top.min(256 * MIB);
                rungs(2, 1 << exact.ilog2())
            }
            (Preset::Standard, 0) if random => rungs(8, GIB),
            (Preset::Standard, _) if random && !load_departs => rungs(4, 256 * MIB),
            (Preset::Standard, _) => rungs(1, 64 * MIB),
            (Preset::Thorough, _) if random => rungs(8, GIB),
            // Eighty curves that are flat beyond the caches: a minute a round is for the random
            // ladders and for what has counterparts in reports.
            (Preset::Thorough, _) => {
                let mut sizes = rungs([4, 2, 1][rare.min(2)], 64 * MIB);
                sizes.extend((rare == 0).then_some(256 * MIB));
                sizes.push(GIB);
                sizes
            }
        }
    }

    fn strides(&self, pattern: Pattern) -> Vec<Option<u64>> {
        if !has_stride(pattern) {
            return vec![None];
        }
        let strides: &[u64] = match (pattern, self.preset) {
            (Pattern::PageRandom, _) | (_, Preset::Rehearsal | Preset::Quick) => &[GRAIN_BYTES],
            (_, Preset::Standard) => &NAMED_STRIDES,
            (_, Preset::Thorough) => &STRIDES,
        };
        strides.iter().copied().map(Some).collect()
    }

    /// Slots at growing distances in one footprint between the first and the second cache.
    fn line_sweep(&self) -> Vec<Point> {
        if !matches!(self.preset, Preset::Standard | Preset::Thorough) {
            return Vec::new();
        }
        let point = |stride| Point {
            pattern: Pattern::PageRandom,
            stride: Some(stride),
            load: Load::Pointer,
            pages: self.pages[0],
            footprint: LINE_FOOTPRINT,
        };
        LINE_STRIDES.map(point).to_vec()
    }
}

/// Why [`LINE_FOOTPRINT`] does not lie between the first and the second cache, where both are
/// described: too large by half for the one, and small enough for the other.
pub(super) fn no_line(levels: &[(Level, u64)]) -> Option<Skip> {
    let [(first, first_bytes), (second, second_bytes), ..] = *levels else { return None };
    let between = 2 * first_bytes <= LINE_FOOTPRINT && LINE_FOOTPRINT < second_bytes;
    (!between).then(|| {
        let bytes = |bytes: u64| render(bytes as f64, Unit::B);
        Skip::because(format!(
            "the line size is looked for at {}, which is not between twice {} ({}) and {} ({})",
            bytes(LINE_FOOTPRINT),
            first.text(),
            bytes(first_bytes),
            second.text(),
            bytes(second_bytes)
        ))
    })
}

/// Footprints from `top` down to 512 B, so many to two octaves, ascending, in whole lines.
fn rungs(per_two_octaves: u32, top: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..)
        .map(|step| top as f64 * 2.0_f64.powf(-2.0 * f64::from(step) / f64::from(per_two_octaves)))
        .take_while(|size| *size > LEAST_BYTES * 0.99)
        .map(|size| (size / GRAIN_BYTES as f64).round() as u64 * GRAIN_BYTES)
        .collect();
    sizes.reverse();
    sizes
}

/// The settings that all series share.
pub(super) fn settings(site: &Site, params: &Params) -> Result<BTreeMap<String, Value>, Skip> {
    let given = |name: &str| params.chosen(name).and_then(|values| values.first()?.int());
    let last = described_levels(site).last().map(|level| level.1);
    let warm = given("warm").unwrap_or(last.map_or(64 * MIB, |last| 2 * last));
    let slot = given("slot").unwrap_or(line_bytes(site).0);
    if !slot.is_multiple_of(8) {
        return Err(Skip::because(format!(
            "a slot of {slot} bytes is not a multiple of 8: type --set {ID}.slot=64"
        )));
    }
    let mut settings: BTreeMap<_, _> =
        [("slot".to_owned(), Value::from(slot)), ("warm".to_owned(), Value::from(warm))].gather();
    let private = described_levels(site).into_iter().take(2).next_back();
    settings.extend(private.map(|(_, bytes)| (PRIVATE.to_owned(), Value::from(bytes))));
    Ok(settings)
}

/// Why the machine has no huge pages, if it has none.
pub(super) fn without_huge_pages(site: &Site) -> Option<Skip> {
    let thp = &site.host.memory.thp;
    if thp.for_process == Some(false) {
        return Some(
            Skip::because("transparent huge pages are switched off for this process")
                .needs("a parent that does not call prctl(PR_SET_THP_DISABLE)"),
        );
    }
    match thp.enabled.as_deref() {
        Some("never") => Some(
            Skip::because("transparent huge pages are switched off")
                .needs("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)"),
        ),
        Some(_) => None,
        None => Some(
            Skip::because("the kernel shows no transparent huge pages")
                .needs("a kernel with CONFIG_TRANSPARENT_HUGEPAGE"),
        ),
    }
}

/// Why a point cannot be measured on this machine, if it cannot.
pub(super) fn not_here(site: &Site, point: &Point) -> Option<Skip> {
    let memory = &site.host.memory;
    let page = memory.page_bytes.unwrap_or(4096);
    if let Some(reason) = contradiction(point, page) {
        return Some(Skip::because(reason));
    }
    let huge = without_huge_pages(site);
    let page = match point.pages {
        On::Base => page,
        On::Huge if huge.is_some() => return huge,
        On::Huge => memory.thp.page_bytes.unwrap_or(2 * MIB),
    };
    let needed = point.footprint.checked_next_multiple_of(page).unwrap_or(u64::MAX);
    too_much(site, needed, "a smaller footprint")
}
