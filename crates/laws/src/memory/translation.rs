//! Address translation: what base pages cost by the entries of the TLBs.

use super::Level;
use super::{Hierarchy, On, Pattern, Point};
use crate::cpu::{clocked, is_guest};
use crate::{Facts, Law, inverse, product, range, scaled};
use bench::experiment::Site;
use host::tlb::{Tlb, TlbKind};
use record::event::{Condition, Range};
use record::quantity::render;
use record::unit::Unit;

/// What the chance placement of base pages in a cache that is indexed physically makes of a
/// latency, either way.
const PLACEMENT: f64 = 0.1;

/// What address translation adds to a load, in ns.
pub(super) fn added(site: &Site, hierarchy: &Hierarchy, of: &Point) -> Range {
    let guest = is_guest(site);
    if of.pages == On::Huge && !guest {
        return range(0.0, 0.0, 0.0);
    }
    let page = page_bytes(site);
    let new_pages = match of.pattern {
        Pattern::Random => 1.0,
        _ => (of.stride_bytes() / page).min(1.0),
    };
    let footprint = of.footprint as f64;
    let mut total = range(0.0, 0.0, 0.0);
    for name in ["L1", "L2"] {
        let reach = reach(site, name).0;
        let cost = product(miss_cycles(site, name), inverse(1e9, hierarchy.clock.range));
        let misses = |bytes: f64| (1.0 - bytes / footprint).max(0.0) * new_pages;
        total.low += cost.low * misses(reach.high);
        total.likely += cost.likely * misses(reach.likely);
        total.high += cost.high * misses(reach.low);
    }
    // Page tables take 8 B for a page, in a guest twice; beyond 32 times the second-level cache the
    // data leaves too little of that cache to page tables.
    let share = (1.0 - 32.0 * hierarchy.private_bytes() / footprint).max(0.0) * new_pages;
    let behind = hierarchy.level(if guest { Level::Memory } else { Level::L3 });
    let behind = behind.map_or(range(0.0, 0.0, 0.0), |costs| costs.ns);
    total.likely += 0.4 * share * behind.likely;
    total.high += share * behind.high;
    if of.pages == On::Base {
        return total;
    }
    // A hypervisor that backs a guest by base pages makes huge ones of the guest no better.
    range(0.0, 0.5 * total.likely, total.high)
}

fn page_bytes(site: &Site) -> f64 {
    site.host.memory.page_bytes.unwrap_or(4096) as f64
}

/// What a load costs more that misses a TLB, in core cycles: the second level's answer, or a walk
/// of up to four tables, in a guest of up to twenty-four.
fn miss_cycles(site: &Site, tlb: &str) -> Range {
    match tlb {
        "L1" => range(4.0, 7.0, 12.0),
        _ if is_guest(site) => range(10.0, 40.0, 180.0),
        _ => range(10.0, 25.0, 75.0),
    }
}

/// Bytes that a TLB covers with base pages; if CPUID does not report it, any of the common sizes.
fn reach(site: &Site, tlb: &str) -> (Range, String) {
    let page = page_bytes(site);
    let pages = render(page, Unit::B);
    match told_tlb(site, tlb) {
        Some((entries, source)) => {
            let bytes = entries * page;
            let because = format!("{entries} entries (CPUID leaf {source}) x {pages} pages");
            (range(0.6 * bytes, bytes, 1.35 * bytes), because)
        }
        None => {
            let entries = match tlb {
                "L1" => range(32.0, 64.0, 128.0),
                _ => range(512.0, 1536.0, 4096.0),
            };
            (scaled(entries, page), format!("unknown number of entries; {pages} pages"))
        }
    }
}

/// Reaches in bytes of the data TLBs that CPUID describes, by level name.
pub fn described_reaches(site: &Site) -> Vec<(&'static str, f64)> {
    let told = |name| told_tlb(site, name).map(|(entries, _)| (name, entries * page_bytes(site)));
    ["L1", "L2"].into_iter().filter_map(told).collect()
}

/// Entries of a level that translate loads of base pages, and the CPUID leaf. The second level may
/// be several structures of different page sizes, which share the base pages between them; a first
/// level's are told apart by what they serve, so the largest that serves loads counts.
fn told_tlb<'site>(site: &'site Site, name: &str) -> Option<(f64, &'site str)> {
    let page = page_bytes(site);
    let level = if name == "L1" { 1 } else { 2 };
    let is_it = |have: &&Tlb| have.level == level && have.page_bytes as f64 == page;
    let tlbs: Vec<&Tlb> = site.host.cache.tlbs.iter().filter(is_it).collect();
    let loads = |tlb: &&&Tlb| matches!(tlb.kind, TlbKind::Data | TlbKind::Load | TlbKind::Unified);
    let largest = tlbs.iter().filter(loads).max_by_key(|tlb| tlb.entries)?;
    let together = |tlb: &&&Tlb| matches!(tlb.kind, TlbKind::Data | TlbKind::Unified);
    let sum: u32 = tlbs.iter().filter(together).map(|tlb| tlb.entries).sum();
    let entries = if level == 1 { largest.entries } else { sum.max(largest.entries) };
    Some((f64::from(entries), &largest.source))
}

/// Bytes that the data TLB of a level (`L1`, `L2`) covers with base pages.
pub fn tlb_reach(site: &Site, tlb: &str) -> Law {
    let (range, because) = reach(site, tlb);
    Law::hardware(range, because)
}

/// What a load costs more that misses the TLB of a level (`L1`, `L2`), in ns.
pub fn tlb_miss(facts: Facts, tlb: &str) -> Law {
    let is_nested = tlb != "L1" && is_guest(facts.site);
    let what = match (tlb, is_nested) {
        ("L1", _) => "a hit in the second-level TLB",
        (_, true) => "a nested page walk of up to 24 loads",
        (_, false) => "a page walk of up to four loads, the upper levels cached",
    };
    let law = clocked(facts, Law::hardware(miss_cycles(facts.site, tlb), what));
    law.counting_if(is_nested, Condition::NestedPaging)
}

/// Random loads over a footprint on base pages over those on huge ones: none within the reach of
/// the TLBs, beyond it the misses that huge pages spare.
pub fn huge_gain(facts: Facts, footprint: f64) -> Law {
    let site = facts.site;
    let hierarchy = Hierarchy::for_machine(facts);
    let on_huge = hierarchy.random(footprint);
    let misses = |pages| added(site, &hierarchy, &Point::random(pages, footprint));
    let (base, huge) = (misses(On::Base), misses(On::Huge));
    // In a guest whose hypervisor backs it by base pages the misses are on both sides.
    let least = if is_guest(site) { 0.0 } else { base.low };
    let likely = 1.0 + (base.likely - huge.likely) / (on_huge.likely + huge.likely);
    // Tables and data are in the same caches and memory: where these are slow, both are.
    let low = 1.0 + least / on_huge.likely;
    let high = 1.0 + base.high / on_huge.likely;
    let ends =
        range(low.min(likely) * (1.0 - PLACEMENT), likely, high.max(likely) * (1.0 + PLACEMENT));
    let [first, second] = ["L1", "L2"].map(|name| render(reach(site, name).0.likely, Unit::B));
    let huge = render(on_huge.likely, Unit::Ns);
    Law::hardware(ends, format!("on base pages the TLBs cover {first} and {second}"))
        .and(format!("a miss adds to {huge} per load on huge pages"))
        .counting_if(is_guest(site), Condition::NestedPaging)
}
