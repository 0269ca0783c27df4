//! Which walks are measured: the points of the parameter space, per preset and machine.

use super::ID;
use bench::experiment::{Params, Preset, Site, Skip};
use laws::memory::{Access, Walk, described_levels, line_bytes};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeMap;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// Footprints are whole lines of this size on every machine, so that keys agree between them.
pub(super) const GRAIN_BYTES: u64 = 64;
const LEAST_BYTES: f64 = 512.0;
/// A walk in order of addresses has at least so many slots, else it is no walk.
const LEAST_SLOTS: u64 = 4;
/// All strides of the catalogue.
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

/// The order of a walk, as a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    Random,
    PageRandom,
    Forward,
    Backward,
    FourQuarter,
}

pub(super) const PATTERNS: &[&str] =
    &["auto", "random", "page-random", "forward", "backward", "four-quarter"];

impl Pattern {
    const ALL: [Pattern; 5] = [
        Pattern::Random,
        Pattern::PageRandom,
        Pattern::Forward,
        Pattern::Backward,
        Pattern::FourQuarter,
    ];

    fn name(self) -> &'static str {
        PATTERNS[1 + self as usize]
    }

    fn of(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Whether the distance of slots is part of the case's identity.
    fn has_stride(self) -> bool {
        !matches!(self, Pattern::Random | Pattern::FourQuarter)
    }
}

/// One case: a walk over a footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) pattern: Pattern,
    /// Distance of slots in bytes, where the pattern has one.
    pub(super) stride: Option<u64>,
    /// Loads an index instead of a pointer.
    pub(super) index: bool,
    /// On base pages instead of huge ones.
    pub(super) base: bool,
    /// Bytes walked over.
    pub(super) footprint: u64,
}

impl Point {
    /// The case's identity.
    pub(super) fn id(self) -> CaseId {
        let id = CaseId::new().with("pattern", self.pattern.name());
        let id = match self.stride {
            Some(stride) => id.with("stride", stride),
            None => id,
        };
        id.with("load", if self.index { "index" } else { "pointer" })
            .with("pages", if self.base { "base" } else { "huge" })
            .with("footprint", self.footprint)
    }

    /// The point of an identity; `None` for a derived case.
    pub(super) fn of(id: &CaseId) -> Option<Point> {
        Some(Point {
            pattern: Pattern::of(id.text("pattern")?)?,
            stride: id.int("stride"),
            index: id.text("load")? == "index",
            base: id.text("pages")? == "base",
            footprint: id.int("footprint")?,
        })
    }

    /// The walk as the laws see it.
    pub(super) fn access(self) -> Access {
        let stride = self.stride.unwrap_or(GRAIN_BYTES) as f64;
        Access {
            walk: match self.pattern {
                Pattern::Random => Walk::Random,
                Pattern::PageRandom => Walk::PageRandom { stride },
                Pattern::Forward | Pattern::Backward => Walk::Strided { stride },
                Pattern::FourQuarter => Walk::FourQuarter,
            },
            index: self.index,
            base_pages: self.base,
            footprint: self.footprint as f64,
        }
    }

    /// What makes the walk impossible on any machine with pages of this size.
    pub(super) fn contradiction(self, page_bytes: u64) -> Option<String> {
        let footprint = self.footprint;
        if !footprint.is_multiple_of(GRAIN_BYTES) {
            let near = footprint.next_multiple_of(GRAIN_BYTES);
            return Some(format!("a footprint is whole lines of {GRAIN_BYTES} bytes: type {near}"));
        }
        if self.pattern == Pattern::FourQuarter && !footprint.is_multiple_of(4 * GRAIN_BYTES) {
            return Some(format!("{footprint} bytes are not four quarters of whole lines"));
        }
        let stride = self.stride?;
        if stride < 16 || !stride.is_multiple_of(8) {
            return Some(format!(
                "a slot holds a pointer and an index: {stride} bytes are not a multiple of 8 of at \
                 least 16"
            ));
        }
        if self.pattern == Pattern::PageRandom && !page_bytes.is_multiple_of(stride) {
            return Some(format!("slots of {stride} bytes do not fill a page of {page_bytes}"));
        }
        (footprint / stride < LEAST_SLOTS).then(|| {
            format!("{footprint} bytes hold less than {LEAST_SLOTS} slots, {stride} bytes apart")
        })
    }
}

/// What is to be measured, before the machine says what it allows.
pub(super) struct Choice {
    preset: Preset,
    patterns: Vec<Pattern>,
    indexes: Vec<bool>,
    bases: Vec<bool>,
    strides: Option<Vec<u64>>,
    footprints: Option<Vec<u64>>,
    /// Bytes of the last cache; none where nothing describes it.
    last_cache: Option<u64>,
    /// Why the line size cannot be looked for here, if it cannot.
    no_line: Option<Skip>,
}

impl Choice {
    /// From the parameters. `with_huge`: whether the machine has huge pages; without them the base
    /// pages are the reference, and stand in where none were asked for by name.
    pub(super) fn new(site: &Site, params: &Params, with_huge: bool) -> Choice {
        let preset = params.preset;
        let wide = preset == Preset::Rehearsal;
        let named = |name: &str| {
            let chosen = params.chosen(name)?;
            Some(chosen.iter().filter_map(Value::text).collect::<Vec<_>>())
        };
        let patterns = match named("pattern") {
            Some(names) => names.into_iter().filter_map(Pattern::of).collect(),
            None if wide => Pattern::ALL.to_vec(),
            None => vec![Pattern::Random],
        };
        let indexes = match named("load") {
            Some(names) => names.into_iter().map(|name| name == "index").collect(),
            None if wide => vec![false, true],
            None => vec![false],
        };
        let bases = match named("pages") {
            Some(names) => names.into_iter().map(|name| name == "base").collect(),
            None if wide => vec![false, true],
            None => vec![false],
        };
        let bases = if with_huge {
            bases
        } else if params.chosen("pages").is_none() {
            vec![true]
        } else {
            bases.into_iter().filter(|base| *base).collect()
        };
        let ints = |name: &str| params.chosen(name).map(|_| params.ints(name));
        let levels = described_levels(site);
        Choice {
            preset,
            patterns,
            indexes,
            bases,
            strides: ints("stride"),
            footprints: ints("footprint"),
            last_cache: levels.last().map(|level| level.1),
            no_line: no_line(&levels),
        }
    }

    /// The points, each once. Outside `thorough` and without footprints given, a walk departs from
    /// the first of patterns, loads and pages in at most one of them.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for &base in &self.bases {
            for &pattern in &self.patterns {
                for &index in &self.indexes {
                    points.extend(self.curve(pattern, index, base));
                }
            }
        }
        if self.no_line.is_none() {
            points.extend(self.line_sweep());
        }
        points.sort_by_key(|point| {
            (point.base, point.footprint, point.index, point.pattern, point.stride)
        });
        points.dedup();
        points
    }

    fn curve(&self, pattern: Pattern, index: bool, base: bool) -> Vec<Point> {
        let departs = [
            self.patterns.first() != Some(&pattern),
            self.indexes.first() != Some(&index),
            self.bases.first() != Some(&base),
        ];
        let departures = departs.iter().filter(|departs| **departs).count();
        let given = self.footprints.as_deref();
        if given.is_none() && departures > 1 && self.preset != Preset::Thorough {
            return Vec::new();
        }
        let footprints = |stride: Option<u64>| match given {
            Some(footprints) => footprints.to_vec(),
            None => {
                let unnamed = stride.is_some_and(|stride| !NAMED_STRIDES.contains(&stride));
                let rare = [departs[1], departs[2], unnamed];
                let rare = rare.iter().filter(|rare| **rare).count();
                self.footprints(pattern, departs[1], departures, rare)
            }
        };
        let strides = self.strides(pattern);
        let point = |footprint, stride| Point { pattern, stride, index, base, footprint };
        let chosen_by_user = given.is_some() || self.strides.is_some();
        strides
            .into_iter()
            .flat_map(|stride| {
                let sizes = footprints(stride).into_iter();
                sizes.map(move |footprint| point(footprint, stride))
            })
            .filter(|point| chosen_by_user || point.contradiction(4 * KIB).is_none())
            .collect()
    }

    /// Of a curve that departs from the first of patterns, loads and pages in so many. `rare`: in how
    /// many of load, pages and stride it is not what reports have.
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
        if !pattern.has_stride() {
            return vec![None];
        }
        let strides: &[u64] = match (&self.strides, pattern, self.preset) {
            (Some(strides), _, _) => strides,
            (None, Pattern::PageRandom, _) | (None, _, Preset::Rehearsal | Preset::Quick) => {
                &[GRAIN_BYTES]
            }
            (None, _, Preset::Standard) => &NAMED_STRIDES,
            (None, _, Preset::Thorough) => &STRIDES,
        };
        strides.iter().copied().map(Some).collect()
    }

    /// Cases of the look for the line size that this machine does not allow, with the reason.
    pub(super) fn skipped(&self) -> Vec<(CaseId, Skip)> {
        let Some(skip) = &self.no_line else {
            return Vec::new();
        };
        let points = self.points();
        let gone = self.line_sweep().into_iter();
        gone.filter(|point| !points.contains(point))
            .map(|point| (point.id(), skip.clone()))
            .collect()
    }

    /// Slots at growing distances in one footprint between the first and the second cache.
    fn line_sweep(&self) -> Vec<Point> {
        let wanted = matches!(self.preset, Preset::Standard | Preset::Thorough)
            && self.patterns.contains(&Pattern::PageRandom)
            && self.strides.is_none()
            && self.footprints.is_none();
        let (Some(&index), Some(&base), true) = (self.indexes.first(), self.bases.first(), wanted)
        else {
            return Vec::new();
        };
        let point = |stride| Point {
            pattern: Pattern::PageRandom,
            stride: Some(stride),
            index,
            base,
            footprint: LINE_FOOTPRINT,
        };
        LINE_STRIDES.into_iter().map(point).collect()
    }
}

/// Why [`LINE_FOOTPRINT`] does not lie between the first and the second cache, where both are
/// described: too large by half for the one, and small enough for the other.
pub(super) fn no_line(levels: &[(&'static str, u64)]) -> Option<Skip> {
    let [(first, first_bytes), (second, second_bytes), ..] = *levels else {
        return None;
    };
    let between = 2 * first_bytes <= LINE_FOOTPRINT && LINE_FOOTPRINT < second_bytes;
    (!between).then(|| {
        let bytes = |bytes: u64| render(bytes as f64, Unit::B);
        Skip::because(format!(
            "the line size is looked for at {}, which is not between twice {first} ({}) and \
             {second} ({})",
            bytes(LINE_FOOTPRINT),
            bytes(first_bytes),
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
    let mut settings = BTreeMap::from([
        ("slot".to_owned(), Value::from(slot)),
        ("warm".to_owned(), Value::from(warm)),
    ]);
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
pub(super) fn not_here(site: &Site, point: Point) -> Option<Skip> {
    let memory = &site.host.memory;
    let page = memory.page_bytes.unwrap_or(4096);
    if let Some(contradiction) = point.contradiction(page) {
        return Some(Skip::because(contradiction));
    }
    let page = if point.base { page } else { memory.thp.page_bytes.unwrap_or(2 * MIB) };
    let needed = point.footprint.checked_next_multiple_of(page).unwrap_or(u64::MAX);
    (needed > site.memory_bytes).then(|| {
        let bytes = |bytes: u64| render(bytes as f64, Unit::B);
        let group = match site.host.limits.memory_bytes {
            Some(limit) => format!("under the control group's limit of {}", bytes(limit)),
            None => "with no limit by a control group".to_owned(),
        };
        Skip::because(format!(
            "needs {} of memory; {} may be touched (of what is available, {group})",
            bytes(needed),
            bytes(site.memory_bytes)
        ))
        .needs("more free memory, a higher limit, or a smaller footprint")
    })
}

/// One series per kind of pages for the random ring, and one for the other walks.
pub(super) fn series_of(points: &[Point], settings: &BTreeMap<String, Value>) -> Vec<Series> {
    let kinds = [(false, true), (true, true), (false, false), (true, false)];
    let series = kinds.into_iter().map(|(base, random)| {
        let cases = points
            .iter()
            .filter(|point| point.base == base && (point.pattern == Pattern::Random) == random)
            .map(|point| Case::new(point.id()));
        let group = if random { "random" } else { "walks" };
        Series {
            experiment: ID.to_owned(),
            name: format!("{group}-{}", if base { "base" } else { "huge" }),
            order: if random { Order::Ladder } else { Order::Shuffled },
            cases: cases.collect(),
            settings: settings.clone(),
        }
    });
    series.filter(|series| !series.cases.is_empty()).collect()
}
