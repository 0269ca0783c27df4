//! What is derived from ladders: levels, their sizes and latencies, translation.

use super::{GUEST, HOSTS, MIB, points, site, with_caches};
use crate::memory::latency::{EXPERIMENT, ID};
use bench::experiment::AnyExperiment;
use bench::prelude::*;
use laws::memory::{Load, On, Pattern, Point};
use session::fixtures::offered;

/// Figures of a hierarchy on the cases of the standard preset.
fn figures(site: &Site, random: impl Fn(f64) -> f64, base_adds: impl Fn(f64) -> f64) -> Known {
    let offer = offered(&EXPERIMENT, site, Preset::Standard, &[]);
    let mut known = Known::default();
    for case in offer.series.iter().flat_map(|series| &series.cases) {
        let point = Point::from_id(&case.id).expect("a walk");
        let size = point.footprint as f64;
        let mut ns = match (point.pattern, point.stride) {
            (Pattern::Random, _) => random(size),
            (Pattern::PageRandom, Some(stride)) => {
                1.4 + (random(size) - 1.4) * (stride as f64 / 64.0).min(1.0)
            }
            _ => 1.4 + 0.05 * (random(size) - 1.4),
        };
        if point.pages == On::Base {
            ns += base_adds(size);
        }
        known.insert(Key::new(ID, &case.id, "latency"), ns);
    }
    known
}

fn derived(
    site: &Site,
    random: impl Fn(f64) -> f64,
    base_adds: impl Fn(f64) -> f64,
) -> Vec<DerivedValue> {
    EXPERIMENT.derive(site, &Known::default(), &figures(site, random, base_adds))
}

fn hierarchy(levels: &'static [(f64, f64)], memory: f64) -> impl Fn(f64) -> f64 {
    move |size| {
        let (mut covered, mut total) = (0.0, 0.0);
        for (capacity, ns) in levels {
            let share = (capacity / size).min(1.0).powi(3).max(covered);
            total += (share - covered) * ns;
            covered = share;
        }
        total + (1.0 - covered) * memory
    }
}

const K: f64 = 1024.0;
const M: f64 = 1024.0 * 1024.0;

fn value<'found>(
    found: &'found [DerivedValue],
    case: &str,
    metric: &str,
) -> Option<&'found DerivedValue> {
    let wanted = |value: &&DerivedValue| value.case.to_string() == case && value.metric == metric;
    found.iter().find(wanted)
}

fn near(found: &[DerivedValue], case: &str, metric: &str, expected: f64, factor: f64) {
    let got = value(found, case, metric).unwrap_or_else(|| panic!("no {case} {metric}")).value;
    let ratio = got / expected;
    assert!(1.0 / factor < ratio && ratio < factor, "{case} {metric}: {got}, not {expected}");
}

#[test]
fn a_plain_hierarchy_is_found_whole() {
    let levels = &[(48.0 * K, 1.4), (1280.0 * K, 4.4), (30.0 * M, 22.0)];
    let site = site(HOSTS[1]);
    let tlbs = |size: f64| {
        2.2 * (1.0 - 384.0 * K / size).max(0.0) + 12.0 * (1.0 - 8.0 * M / size).max(0.0)
    };
    let values = figures(&site, hierarchy(levels, 90.0), tlbs);
    let mut known = Known::default();
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.57e9);
    let found = EXPERIMENT.derive(&site, &known, &values);
    for (name, size, ns) in [("L1", 48.0 * K, 1.4), ("L2", 1280.0 * K, 4.4), ("L3", 30.0 * M, 22.0)]
    {
        near(&found, &format!("level={name}"), "level_latency", ns, 1.05);
        near(&found, &format!("level={name}"), "level_size", size, 1.3);
    }
    near(&found, "level=DRAM", "level_latency", 90.0, 1.1);
    near(&found, "level=L1", "level_latency_cycles", 5.0, 1.02);
    assert!(value(&found, "level=DRAM", "level_size").is_none());
    near(&found, "", "line_size", 64.0, 1.001);
    near(&found, "", "prefetch_gain", 14.0, 1.4);
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
    let offered = EXPERIMENT.derivable(&site, &offer.series);
    assert!(found.iter().all(|value| offered.contains(&value.case)));
    assert!(found.iter().all(|value| value.notes.is_empty()), "{found:?}");
}

#[test]
fn translation_is_found_where_base_pages_cost_more() {
    let levels = &[(48.0 * K, 1.4), (2.0 * M, 4.4)];
    let site = site(GUEST);
    let tlbs = |size: f64| {
        2.2 * (1.0 - 384.0 * K / size).max(0.0) + 12.0 * (1.0 - 8.0 * M / size).max(0.0)
    };
    let found = derived(&site, hierarchy(levels, 90.0), tlbs);
    near(&found, "tlb=L2", "tlb_reach", 8.0 * M, 1.5);
    near(&found, "tlb=L2", "tlb_miss", 12.0, 1.3);
    let gain = (90.0 + tlbs(256.0 * M)) / 90.0;
    near(&found, "footprint=268435456", "huge_gain", gain, 1.01);
    near(&found, "footprint=1048576", "huge_gain", (4.4 + 2.2 * 0.625) / 4.4, 1.01);
    let found = derived(&site, hierarchy(levels, 90.0), |_| 0.0);
    assert!(found.iter().all(|value| value.case.get("tlb").is_none()), "{found:?}");
}

#[test]
fn the_part_of_the_last_cache_that_a_guest_gets_is_the_last_cache() {
    // 480 MiB described, 8 MiB given: as recorded there.
    let levels = &[(48.0 * K, 1.4), (2.0 * M, 4.45), (9.0 * M, 38.0)];
    let site = site(GUEST);
    let found = derived(&site, hierarchy(levels, 170.0), |_| 0.0);
    near(&found, "level=L2", "level_latency", 4.45, 1.05);
    near(&found, "level=L3", "level_latency", 38.0, 1.1);
    near(&found, "level=L3", "level_size", 9.0 * M, 1.3);
    near(&found, "level=DRAM", "level_latency", 170.0, 1.1);
    let notes = &value(&found, "level=L3", "level_latency").expect("an L3").notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
}

/// The random ladder of standard on huge pages of a Zen 3 guest (32 KiB, 512 KiB, part of 32 MiB):
/// ns of the lower decile of quartets, which is what its core gives alone.
#[rustfmt::skip]
const ZEN3_GUEST: [f64; 85] = [
    1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23,
    1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.23, 1.28, 3.58, 3.67, 3.69, 3.66, 3.71,
    3.71, 3.71, 3.71, 3.71, 3.71, 3.71, 3.70, 4.11, 4.55, 5.43, 7.27, 8.82, 11.04, 12.64, 13.68,
    14.01, 14.37, 14.96, 15.24, 16.26, 16.77, 17.82, 19.49, 76.42, 88.27, 106.02, 101.39,
    110.93, 113.28, 117.67, 117.81, 123.91, 125.23, 124.56, 127.24, 127.80, 129.33, 127.81,
    130.79, 134.73, 134.43, 135.39, 131.47, 134.16, 140.05, 132.58, 136.44, 137.26, 141.06,
    144.21, 149.04, 144.18, 143.63, 154.46, 186.38,
];

/// The same of a Zen 4 guest (32 KiB, 1 MiB, part of 32 MiB). Other tenants used its cores' other
/// threads.
#[rustfmt::skip]
const ZEN4_GUEST: [f64; 85] = [
    1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08,
    1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08, 1.22, 3.82, 3.80, 3.80, 3.74, 3.80,
    3.80, 3.80, 3.80, 3.80, 3.80, 3.80, 3.80, 3.93, 4.26, 4.53, 4.77, 5.13, 6.00, 6.90, 8.21,
    9.79, 11.22, 12.28, 13.03, 13.65, 14.14, 14.83, 15.35, 16.51, 18.12, 40.14, 52.56, 109.76,
    109.57, 122.44, 135.31, 142.24, 142.63, 139.88, 145.95, 146.76, 149.66, 150.06, 151.60,
    153.54, 155.72, 155.62, 154.96, 156.32, 160.41, 162.43, 161.42, 166.01, 172.14, 170.77,
    185.21, 193.12, 213.21, 210.79, 226.86,
];

#[test]
fn the_levels_of_guests_are_found_from_their_figures() {
    levels_of_guest([32, 512, 32 << 10], &ZEN3_GUEST, [(32.0, 1.233), (400.0, 3.708), (4e3, 14.5)]);
    levels_of_guest([32, 1024, 32 << 10], &ZEN4_GUEST, [(33.0, 1.083), (508.0, 3.80), (7e3, 13.5)]);
}

/// Caches as described, in KiB; sizes in KiB and latencies in ns as they are found.
fn levels_of_guest(described: [u64; 3], ladder_ns: &[f64], expected: [(f64, f64); 3]) {
    let site = with_caches(described.map(|kib| kib * 1024));
    let mut known = Known::default();
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
    let mut ladder = points(&offer, "random-huge");
    ladder.retain(|point| point.load == Load::Pointer);
    for (point, ns) in ladder.iter().zip(ladder_ns) {
        known.insert(Key::new(ID, &point.id(), "latency"), *ns);
    }
    let found = EXPERIMENT.derive(&site, &Known::default(), &known);
    for (name, (kib, ns)) in ["L1", "L2", "L3"].into_iter().zip(expected) {
        near(&found, &format!("level={name}"), "level_size", kib * K, 1.25);
        near(&found, &format!("level={name}"), "level_latency", ns, 1.1);
        let case = format!("level={name}");
        let level = value(&found, &case, "level_latency").expect("a level");
        let to = level.at["to"].int().expect("bytes") as f64;
        let edge = value(&found, &case, "level_size").expect("a size").value;
        assert!(to <= 0.375 * edge, "{name} up to {to} of {edge}");
    }
    assert!(value(&found, "level=DRAM", "level_latency").is_some());
}

#[test]
fn a_ladder_that_ends_inside_the_last_cache_says_so() {
    let levels = &[(48.0 * K, 1.4), (2.0 * M, 4.45)];
    let site = Site { memory_bytes: 300 * MIB, ..site(GUEST) };
    let found = derived(&site, hierarchy(levels, 25.0), |_| 0.0);
    let last = value(&found, "level=L3", "level_latency").expect("the last plateau");
    assert_eq!(last.notes.len(), 1);
    assert!(value(&found, "level=L3", "level_size").is_none());
    assert!(value(&found, "level=DRAM", "level_latency").is_none());
}

#[test]
fn a_level_that_is_missing_is_not_shifted() {
    // The second cache does not show: its neighbours keep their names.
    let levels = &[(48.0 * K, 1.4), (30.0 * M, 22.0)];
    let site = site(HOSTS[1]);
    let found = derived(&site, hierarchy(levels, 90.0), |_| 0.0);
    assert!(value(&found, "level=L2", "level_latency").is_none());
    near(&found, "level=L3", "level_latency", 22.0, 1.05);
    near(&found, "level=DRAM", "level_latency", 90.0, 1.1);
}

#[test]
fn a_cache_before_one_that_others_use_keeps_its_name() {
    // A quick run of a Zen 5 guest whose last cache other tenants filled: no plateau behind the second cache.
    let site = with_caches([48 << 10, 1 << 20, 32 << 20]);
    let ladder = [
        0.96, 0.96, 0.96, 0.96, 0.96, 0.97, 0.97, 3.36, 3.39, 3.39, 3.79, 5.62, 12.18, 19.58,
        128.0, 138.0, 147.0, 151.0, 155.0,
    ];
    let mut known = Known::default();
    for (at, ns) in ladder.into_iter().enumerate() {
        let (pattern, stride, load, pages) = (Pattern::Random, None, Load::Pointer, On::Huge);
        let point = Point { pattern, stride, load, pages, footprint: 512 << at };
        known.insert(Key::new(ID, &point.id(), "latency"), ns);
    }
    let found = EXPERIMENT.derive(&site, &Known::default(), &known);
    near(&found, "level=L2", "level_latency", 3.39, 1.02);
    assert!(value(&found, "level=L2", "level_size").is_none());
    assert!(value(&found, "level=L3", "level_latency").is_none());
    near(&found, "level=DRAM", "level_latency", 147.0, 1.1);
    let notes = &value(&found, "level=L2", "level_latency").expect("a level").notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn too_few_rungs_show_nothing() {
    let site = site(GUEST);
    assert_eq!(EXPERIMENT.derive(&site, &Known::default(), &Known::default()), []);
    let few = offered(&EXPERIMENT, &site, Preset::Quick, &[("footprint", "512,1024")]);
    assert!(EXPERIMENT.derivable(&site, &few.series).is_empty());
}
