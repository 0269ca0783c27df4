//! What the walks say together: levels, line, prefetch, TLBs.

use super::ID;
use crate::memory::levels::quiet_part;
use bench::prelude::*;
use laws::cpu::{knows_clock, measured_core_hz};
use laws::memory::{self, Level, Load, On, Pattern, Point, described_levels, described_reaches};
use record::order::{Gather, InOrder};
use stats::ladder::{self, Excess, Plateau, Rung};
use stats::quantile::median;

/// A ladder with fewer rungs shows no levels.
const LEAST_RUNGS: usize = 8;
const LINE_STRIDE: u64 = 64;
const MEMORY: &str = Level::Memory.text();
const MIB: u64 = 1 << 20;
/// Footprints at which the gain of huge pages is reported: inside the reach of the second TLB with
/// base pages, near its end, and far beyond it; the same everywhere, so that keys agree.
const GAIN_FOOTPRINTS: [u64; 3] = [MIB, 16 * MIB, 256 * MIB];
/// Names of the translation levels.
pub(super) const TLBS: [&str; 2] = ["L1", "L2"];

pub(super) fn level_case(name: &str) -> CaseId {
    CaseId::new().with("level", name)
}

/// The case of a translation level.
pub(super) fn tlb_case(name: &str) -> CaseId {
    CaseId::new().with("tlb", name)
}

/// The case of the gain of huge pages at a footprint.
fn gain_case(footprint: u64) -> CaseId {
    CaseId::new().with("footprint", footprint)
}

/// The cases that these points may yield on this machine.
pub(super) fn cases(site: &Site, points: &[Point]) -> Vec<CaseId> {
    let described = described_levels(site);
    let rungs = |pages: On| {
        let ladder = |point: &&Point| on_ladder(point, pages);
        points.iter().filter(ladder).count()
    };
    let mut cases = Vec::new();
    if rungs(On::Huge).max(rungs(On::Base)) >= LEAST_RUNGS && !described.is_empty() {
        cases.extend(described.iter().map(|(level, _)| level_case(level.text())));
        cases.push(level_case(MEMORY));
    }
    if On::ALL.iter().all(|pages| rungs(*pages) >= LEAST_RUNGS) {
        cases.extend(TLBS.map(tlb_case));
    }
    let on = |pages: On, footprint: u64| {
        let mut points = points.iter();
        points.any(|point| on_ladder(point, pages) && point.footprint == footprint)
    };
    let both = |footprint: &u64| On::ALL.iter().all(|pages| on(*pages, *footprint));
    cases.extend(GAIN_FOOTPRINTS.into_iter().filter(both).map(gain_case));
    let walks = |pattern| points.iter().filter(move |point| point.pattern == pattern);
    if walks(Pattern::Forward).next().is_some() || walks(Pattern::PageRandom).nth(3).is_some() {
        cases.push(CaseId::new());
    }
    cases
}

/// All that the figures say together.
pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let points: Vec<(Point, f64)> = values
        .figures(ID, "latency")
        .filter_map(|(case, ns)| Some((Point::from_id(case)?, ns)))
        .collect();
    let mut found = levels(site, known, &points);
    found.extend(line_size(&points));
    found.extend(prefetch_gain(&points));
    found.extend(translation(site, &points));
    found.extend(huge_gains(&points));
    found
}

fn on_ladder(point: &Point, pages: On) -> bool {
    point.pattern == Pattern::Random && point.load == Load::Pointer && point.pages == pages
}

/// The random pointer ladder on one kind of pages, ascending.
fn random_ladder(points: &[(Point, f64)], pages: On) -> Vec<Rung> {
    let mut rungs: Vec<Rung> = points
        .iter()
        .filter(|(point, ns)| on_ladder(point, pages) && *ns > 0.0)
        .map(|(point, ns)| Rung { size: point.footprint as f64, value: *ns })
        .collect();
    rungs.order_by(|a, b| a.size.total_cmp(&b.size));
    rungs
}

fn levels(site: &Site, known: &Known, points: &[(Point, f64)]) -> Vec<DerivedValue> {
    let described: Vec<(&'static str, f64)> =
        described_levels(site).into_iter().map(|(of, bytes)| (of.text(), bytes as f64)).collect();
    let huge = random_ladder(points, On::Huge);
    let (rungs, pages) = if huge.len() >= LEAST_RUNGS {
        (huge, On::Huge)
    } else {
        (random_ladder(points, On::Base), On::Base)
    };
    if rungs.len() < LEAST_RUNGS || described.is_empty() {
        return Vec::new();
    }
    let plateaus = ladder::plateaus(&rungs);
    let (names, mut notes) = named(&plateaus, &described, &rungs);

    let mut found: Vec<DerivedValue> = Vec::new();
    for (plateau, name) in plateaus.iter().zip(names) {
        let Some(name) = name else { continue };
        let case = level_case(name);
        let bytes = described.iter().find(|(of, _)| *of == name);
        let last = quiet_end(&rungs, plateau, bytes.map(|(_, bytes)| *bytes));
        let walked = &rungs[plateau.first..=last];
        let latencies: Vec<f64> = walked.iter().map(|rung| rung.value).collect();
        let value = match last < plateau.last {
            true => median(&latencies).unwrap_or(plateau.value),
            false => plateau.value,
        };
        let mut latency = DerivedValue::new(case.clone(), "level_latency", value);
        let from = rungs[plateau.first].size as u64;
        let to = rungs[last].size as u64;
        latency.at = [
            ("from".to_owned(), Value::from(from)),
            ("to".to_owned(), Value::from(to)),
            ("pages".to_owned(), Value::from(pages.text())),
        ]
        .gather();
        latency.notes = notes.remove(name).unwrap_or_default();
        if pages == On::Base {
            latency.notes.push("on base pages: includes TLB misses".to_owned());
        }
        found.push(latency);
        if let Some(hz) = measured_core_hz(known) {
            let cycles = value * hz / 1e9;
            found.push(DerivedValue::new(case.clone(), "level_latency_cycles", cycles));
        }
        // An edge far beyond the cache is not the cache's.
        let is_edge = |edge: &f64| bytes.is_some_and(|(_, bytes)| *edge <= 2.0 * bytes);
        if let Some(edge) = plateau.edge.filter(is_edge) {
            let mut size = DerivedValue::new(case, "level_size", edge);
            size.cell = cell(edge, rungs.iter().map(|rung| rung.size));
            found.push(size);
        }
    }
    found
}

/// The last rung of a plateau on which page placement does not decide yet, where its cache's size
/// is known (as described, or the smaller part that was found) and it has such rungs; else its last
/// one.
fn quiet_end(rungs: &[Rung], plateau: &Plateau, cache_bytes: Option<f64>) -> usize {
    let Some(bytes) = cache_bytes else { return plateau.last };
    let bytes = plateau.edge.map_or(bytes, |edge| bytes.min(edge));
    let most = quiet_part(bytes as u64) as f64;
    let quiet = rungs[plateau.first..=plateau.last].iter();
    match quiet.take_while(|rung| rung.size <= most).count() {
        0 => plateau.last,
        count => plateau.first + count - 1,
    }
}

/// The neighbouring footprints that a position lies between.
fn cell(position: f64, sizes: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let below = sizes.clone().filter(|size| *size <= position).reduce(f64::max)?;
    let above = sizes.filter(|size| *size >= position).reduce(f64::min)?;
    Some((below, above))
}

type Named<'name> = (Vec<Option<&'name str>>, BTreeMap<&'name str, Vec<String>>);

/// Names for plateaus: the described size nearest to the edge ([`ladder::names`]); main memory
/// for a last plateau on a ladder that goes to twice the last cache; the last cache for one that
/// ends below its size, and one program may get only a part. On a ladder that goes less far, the
/// next larger cache. Both only if every plateau before has a name and the new one begins where a
/// cache that takes over must: a cache answers three loads of four at four times the size of the
/// one inside it, so a plateau that begins further out has something unseen before it. A plateau
/// without a name is reported with the nearest that has one.
fn named<'name>(
    plateaus: &[Plateau],
    described: &[(&'name str, f64)],
    rungs: &[Rung],
) -> Named<'name> {
    let edges: Vec<Option<f64>> = plateaus.iter().map(|plateau| plateau.edge).collect();
    let mut names = ladder::names(&edges, described);
    let mut notes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let top = rungs[rungs.len() - 1].size;
    let (last_name, last_size) = described[described.len() - 1];
    if let Some((at, edge)) = part_of_last(plateaus, &names, described, rungs) {
        names[at] = Some(last_name);
        notes.entry(last_name).or_default().push(format!(
            "the ladder finds {} of the {} of {last_name}: other CPUs share it, or a virtual \
             machine gets a part",
            render(edge, Unit::B),
            render(last_size, Unit::B)
        ));
    }
    if let Some((at, name)) = inside(plateaus, &names, described, rungs) {
        names[at] = Some(name);
        notes.entry(name).or_default().push(format!(
            "behind {name} the ladder rises without a plateau, so where {name} ends is not found: other programs \
             used the cache behind it"
        ));
    }
    let open = plateaus.len().checked_sub(1).filter(|&at| edges[at].is_none());
    if let Some(at) = open {
        if top >= 2.0 * last_size {
            names[at] = Some(MEMORY);
        } else if names[..at].iter().all(Option::is_some)
            && at < described.len()
            && takes_over(plateaus, described, rungs, at)
        {
            names[at] = Some(described[at].0);
            notes.entry(described[at].0).or_default().push(format!(
                "the ladder ends at {} inside this plateau, below twice the {} of {last_name}: it \
                 shows neither the plateau's end nor main memory",
                render(top, Unit::B),
                render(last_size, Unit::B)
            ));
        }
    }
    for (at, plateau) in plateaus.iter().enumerate() {
        if names[at].is_some() {
            continue;
        }
        let near = names[..at].iter().rev().chain(&names[at..]).find_map(|name| *name);
        let Some(near) = near else { continue };
        let where_to = plateau.edge.map_or_else(
            || format!("to the ladder's end at {}", render(top, Unit::B)),
            |edge| format!("to {}", render(edge, Unit::B)),
        );
        notes.entry(near).or_default().push(format!(
            "a plateau at {} {where_to} matches no cache in the machine's description; in a \
             virtual machine it is usually the guest's part of {last_name}, or main memory",
            render(plateau.value, Unit::Ns)
        ));
    }
    (names, notes)
}

/// The plateau that is a part of the last cache, and where it ends: the first behind all caches
/// before the last, if no other has the last one's name.
fn part_of_last(
    plateaus: &[Plateau],
    names: &[Option<&str>],
    described: &[(&str, f64)],
    rungs: &[Rung],
) -> Option<(usize, f64)> {
    let at = described.len() - 1;
    let inner = described[..at].iter().map(|(name, _)| Some(*name));
    let edge = plateaus.get(at)?.edge?;
    let is_part = inner.eq(names[..at].iter().copied())
        && names[at..].iter().all(Option::is_none)
        && edge < described[at].1
        && takes_over(plateaus, described, rungs, at);
    is_part.then_some((at, edge))
}

/// The first plateau without a name, behind those of all smaller caches, if all its footprints fit the next cache
/// and not the one before: its edge was lost on the slope behind it.
fn inside<'name>(
    plateaus: &[Plateau],
    names: &[Option<&str>],
    described: &[(&'name str, f64)],
    rungs: &[Rung],
) -> Option<(usize, &'name str)> {
    let at = names.iter().position(Option::is_none).filter(|at| *at > 0)?;
    let (name, bytes) = *described.get(at)?;
    let before = described[..at].iter();
    let is_next = before.map(|(name, _)| Some(*name)).eq(names[..at].iter().copied())
        && !names.contains(&Some(name));
    let plateau = &plateaus[at];
    let fits = rungs[plateau.first].size > described[at - 1].1 / 2.0
        && rungs[plateau.last].size <= bytes
        && plateau.edge.is_some_and(|edge| edge > bytes);
    (is_next && fits).then_some((at, name))
}

/// Whether a plateau begins within four times the size of the cache before it, as described or as
/// found, where each plateau before has a name.
fn takes_over(plateaus: &[Plateau], described: &[(&str, f64)], rungs: &[Rung], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| {
        let found = plateaus[before].edge?;
        Some(described.get(before).map_or(found, |(_, bytes)| found.max(*bytes)))
    });
    before.is_none_or(|bytes| rungs[plateaus[at].first].size <= 4.0 * bytes)
}

/// The distance of slots at which every load of a page walked at random meets a new line.
fn line_size(points: &[(Point, f64)]) -> Option<DerivedValue> {
    let mut sweeps: BTreeMap<(On, Load, u64), Vec<Rung>> = BTreeMap::new();
    for (point, ns) in points {
        if let (Pattern::PageRandom, Some(stride)) = (point.pattern, point.stride) {
            let sweep = (point.pages, point.load, point.footprint);
            sweeps.entry(sweep).or_default().push(Rung { size: stride as f64, value: *ns });
        }
    }
    let ((_, _, footprint), steps) =
        sweeps.iter_mut().max_by_key(|(kind, steps)| (steps.len(), std::cmp::Reverse(**kind)))?;
    steps.order_by(|a, b| a.size.total_cmp(&b.size));
    let line = ladder::saturation(steps)?;
    let mut found = DerivedValue::new(CaseId::new(), "line_size", line);
    found.at.put("footprint", *footprint);
    Some(found)
}

/// Random over forward by one line, at the largest footprint that has both.
fn prefetch_gain(points: &[(Point, f64)]) -> Option<DerivedValue> {
    let at = |pattern, stride, footprint| {
        let (load, pages) = (Load::Pointer, On::Huge);
        let wanted = Point { pattern, stride, load, pages, footprint };
        let found = points.iter().find(|(point, _)| *point == wanted);
        found.map(|(_, ns)| *ns).filter(|ns| *ns > 0.0)
    };
    let both = |(point, _): &(Point, f64)| {
        let forward = at(Pattern::Forward, Some(LINE_STRIDE), point.footprint)?;
        let random = at(Pattern::Random, None, point.footprint)?;
        Some((point.footprint, random / forward))
    };
    let (footprint, ratio) = points.iter().filter_map(both).max_by_key(|found| found.0)?;
    let mut gain = DerivedValue::new(CaseId::new(), "prefetch_gain", ratio);
    gain.at.put("footprint", footprint);
    Some(gain)
}

/// Reach and cost of the TLBs: what base pages cost more than huge ones, footprint by footprint,
/// away from the edges of caches, where the placement of base pages shows too.
fn translation(site: &Site, points: &[(Point, f64)]) -> Vec<DerivedValue> {
    let (huge, base) = (random_ladder(points, On::Huge), random_ladder(points, On::Base));
    if huge.len() < LEAST_RUNGS || base.len() < LEAST_RUNGS {
        return Vec::new();
    }
    let edges: Vec<f64> =
        ladder::plateaus(&huge).iter().skip(1).filter_map(|plateau| plateau.edge).collect();
    // Beyond, page tables (8 B for a page, in a guest twice) take a share of the second cache that
    // the data do not leave them.
    let most = 32.0 * edges.first().copied().unwrap_or(1024.0 * 1024.0);
    let excess: Vec<Excess> = base
        .iter()
        .filter(|rung| rung.size <= most)
        .filter(|rung| {
            let near = |edge: &f64| (0.5..2.0).contains(&(rung.size / edge));
            !edges.iter().any(near)
        })
        .filter_map(|rung| {
            let reference = huge.iter().find(|other| other.size == rung.size)?;
            Some(Excess {
                size: rung.size,
                value: rung.value - reference.value,
                sd: reference.value,
            })
        })
        .collect();
    let reaches = ladder::reaches(&excess);
    let described = described_reaches(site);
    let sizes: Vec<Option<f64>> = reaches.iter().map(|reach| Some(reach.size)).collect();
    let names = if described.is_empty() {
        by_size(&sizes, site.host.memory.page_bytes.unwrap_or(4096) as f64)
    } else {
        ladder::names(&sizes, &described)
    };
    let mut found = Vec::new();
    for (reach, name) in reaches.iter().zip(names) {
        let Some(name) = name else { continue };
        let mut size = DerivedValue::new(tlb_case(name), "tlb_reach", reach.size);
        size.cell = cell(reach.size, excess.iter().map(|excess| excess.size));
        found.push(size);
        found.push(DerivedValue::new(tlb_case(name), "tlb_miss", reach.cost));
    }
    found
}

/// Random on base pages over random on huge ones, at the footprints that have both.
fn huge_gains(points: &[(Point, f64)]) -> Vec<DerivedValue> {
    let (huge, base) = (random_ladder(points, On::Huge), random_ladder(points, On::Base));
    let at = |rungs: &[Rung], footprint: u64| {
        let rung = rungs.iter().find(|rung| rung.size == footprint as f64);
        rung.map(|rung| rung.value)
    };
    let gain = |footprint| {
        let ratio = at(&base, footprint)? / at(&huge, footprint)?;
        Some(DerivedValue::new(gain_case(footprint), "huge_gain", ratio))
    };
    GAIN_FOOTPRINTS.into_iter().filter_map(gain).collect()
}

/// Names if the machine describes no TLB: by the reach that first levels (up to 256 entries) and
/// second levels (up to 8192) have; the larger of two that could be the same.
fn by_size(sizes: &[Option<f64>], page_bytes: f64) -> Vec<Option<&'static str>> {
    let name = |size: f64| match size / page_bytes {
        16.0..256.0 => Some(TLBS[0]),
        256.0..8192.0 => Some(TLBS[1]),
        _ => None,
    };
    let mut names: Vec<Option<&str>> = sizes.iter().map(|size| size.and_then(name)).collect();
    if let [first, second] = &mut names[..]
        && first == second
    {
        *first = None;
    }
    names
}

/// What a derived figure should be; nothing for a metric that the case does not have.
pub(super) fn predict(facts: Facts, case: &CaseId, metric: &str) -> Option<Prediction> {
    let site = facts.site;
    // Sizes and ratios come from the description alone: a measured clock adds nothing to them.
    let timed =
        ["level_latency", "level_latency_cycles", "tlb_miss", "huge_gain"].contains(&metric);
    if !knows_clock(facts) || (facts.known.is_some() && !timed) {
        return None;
    }
    let of = (Level::from_value(case.get("level")), case.text("tlb"), case.int("footprint"));
    let law = match (metric, of) {
        // What is behind the last cache has no edge to find.
        ("level_size", (Some(Level::Memory), ..)) => return None,
        ("level_latency", (Some(level), ..)) => memory::level_latency(facts, level),
        ("level_latency_cycles", (Some(level), ..)) => memory::level_cycles(facts, level),
        ("level_size", (Some(level), ..)) => memory::level_size(site, level),
        ("tlb_reach", (_, Some(tlb), _)) => Ok(memory::tlb_reach(site, tlb)),
        ("tlb_miss", (_, Some(tlb), _)) => Ok(memory::tlb_miss(facts, tlb)),
        ("huge_gain", (None, None, Some(bytes))) => Ok(memory::huge_gain(facts, bytes as f64)),
        ("line_size", (None, None, None)) => Ok(memory::line_size(site)),
        ("prefetch_gain", (None, None, None)) => Ok(memory::prefetch_gain(site, 64.0 * MIB as f64)),
        _ => return None,
    };
    Some(law.map_or_else(unknown, laws::Law::prediction))
}
