//! What is derived from ladders: levels, their sizes and latencies, translation.

use super::{GUEST, HOSTS, MIB, offer, site, with_caches};
use crate::memory::latency::walks::{Load, On, Pattern, Point};
use crate::memory::latency::{EXPERIMENT, ID};
use bench::experiment::{DerivedValue, Experiment, Fields, Known, Preset, Site};
use record::key::{CaseId, Key};

/// Figures of a hierarchy on the cases of the standard preset.
fn figures(site: &Site, random: impl Fn(f64) -> f64, base_adds: impl Fn(f64) -> f64) -> Known {
    let offer = offer(site, Preset::Standard, &[]).expect("an offer");
    let mut known = Known::default();
    for case in offer.series.iter().flat_map(|series| &series.cases) {
        let point = Point::of(&case.id).expect("a walk");
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
    let offered = offer(&site, Preset::Standard, &[]).expect("an offer");
    let offered = EXPERIMENT.derivable(&site, &offered.series);
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
    let found =
        EXPERIMENT.derive(&site, &Known::default(), &figures(&site, hierarchy(levels, 90.0), tlbs));
    near(&found, "tlb=L2", "tlb_reach", 8.0 * M, 1.5);
    near(&found, "tlb=L2", "tlb_miss", 12.0, 1.3);
    let gain = (90.0 + tlbs(256.0 * M)) / 90.0;
    near(&found, "footprint=268435456", "huge_gain", gain, 1.01);
    near(&found, "footprint=1048576", "huge_gain", (4.4 + 2.2 * 0.625) / 4.4, 1.01);
    let same = figures(&site, hierarchy(levels, 90.0), |_| 0.0);
    let found = EXPERIMENT.derive(&site, &Known::default(), &same);
    assert!(found.iter().all(|value| value.case.get("tlb").is_none()), "{found:?}");
}

#[test]
fn the_part_of_the_last_cache_that_a_guest_gets_is_the_last_cache() {
    // 480 MiB described, 8 MiB given: as recorded there.
    let levels = &[(48.0 * K, 1.4), (2.0 * M, 4.45), (9.0 * M, 38.0)];
    let site = site(GUEST);
    let values = figures(&site, hierarchy(levels, 170.0), |_| 0.0);
    let found = EXPERIMENT.derive(&site, &Known::default(), &values);
    near(&found, "level=L2", "level_latency", 4.45, 1.05);
    near(&found, "level=L3", "level_latency", 38.0, 1.1);
    near(&found, "level=L3", "level_size", 9.0 * M, 1.3);
    near(&found, "level=DRAM", "level_latency", 170.0, 1.1);
    let notes = &value(&found, "level=L3", "level_latency").expect("an L3").notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
}

/// The random ladder on huge pages of a Zen 3 guest (32 KiB, 512 KiB, part of 32 MiB): bytes, and ns of
/// the lower decile of quartets, which is what its core gives alone.
const ZEN3_GUEST: &[(u64, f64)] = &[
    (512, 1.23),
    (640, 1.23),
    (704, 1.23),
    (832, 1.23),
    (1024, 1.23),
    (1216, 1.23),
    (1472, 1.23),
    (1728, 1.23),
    (2048, 1.23),
    (2432, 1.23),
    (2880, 1.23),
    (3456, 1.23),
    (4096, 1.23),
    (4864, 1.23),
    (5824, 1.23),
    (6912, 1.23),
    (8192, 1.23),
    (9728, 1.23),
    (11584, 1.23),
    (13760, 1.23),
    (16384, 1.23),
    (19456, 1.23),
    (23168, 1.23),
    (27584, 1.23),
    (32768, 1.28),
    (38976, 3.58),
    (46336, 3.67),
    (55104, 3.69),
    (65536, 3.66),
    (77952, 3.71),
    (92672, 3.71),
    (110208, 3.71),
    (131072, 3.71),
    (155840, 3.71),
    (185344, 3.71),
    (220416, 3.71),
    (262144, 3.70),
    (311744, 4.11),
    (370752, 4.55),
    (440896, 5.43),
    (524288, 7.27),
    (623488, 8.82),
    (741440, 11.04),
    (881728, 12.64),
    (1048576, 13.68),
    (1246976, 14.01),
    (1482880, 14.37),
    (1763456, 14.96),
    (2097152, 15.24),
    (2493952, 16.26),
    (2965824, 16.77),
    (3526976, 17.82),
    (4194304, 19.49),
    (4987904, 76.42),
    (5931648, 88.27),
    (7053952, 106.02),
    (8388608, 101.39),
    (9975808, 110.93),
    (11863296, 113.28),
    (14107904, 117.67),
    (16777216, 117.81),
    (19951616, 123.91),
    (23726592, 125.23),
    (28215808, 124.56),
    (33554432, 127.24),
    (39903168, 127.80),
    (47453120, 129.33),
    (56431616, 127.81),
    (67108864, 130.79),
    (79806336, 134.73),
    (94906240, 134.43),
    (112863232, 135.39),
    (134217728, 131.47),
    (159612672, 134.16),
    (189812544, 140.05),
    (225726400, 132.58),
    (268435456, 136.44),
    (319225344, 137.26),
    (379625088, 141.06),
    (451452800, 144.21),
    (536870912, 149.04),
    (638450688, 144.18),
    (759250112, 143.63),
    (902905664, 154.46),
    (1073741824, 186.38),
];

#[test]
fn the_levels_of_a_zen_3_guest_are_found_from_its_figures() {
    let site = with_caches([32 * 1024, 512 * 1024, 32 * MIB]);
    let mut known = Known::default();
    for (footprint, ns) in ZEN3_GUEST {
        let point = Point {
            pattern: Pattern::Random,
            stride: None,
            load: Load::Pointer,
            pages: On::Huge,
            footprint: *footprint,
        };
        known.insert(Key::new(ID, &point.id(), "latency"), *ns);
    }
    let found = EXPERIMENT.derive(&site, &Known::default(), &known);
    for (name, size, ns) in
        [("L1", 32.0 * K, 1.233), ("L2", 400.0 * K, 3.708), ("L3", 4.0 * M, 14.5)]
    {
        near(&found, &format!("level={name}"), "level_size", size, 1.25);
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
    let found = EXPERIMENT.derive(
        &site,
        &Known::default(),
        &figures(&site, hierarchy(levels, 25.0), |_| 0.0),
    );
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
    let found = EXPERIMENT.derive(
        &site,
        &Known::default(),
        &figures(&site, hierarchy(levels, 90.0), |_| 0.0),
    );
    assert!(value(&found, "level=L2", "level_latency").is_none());
    near(&found, "level=L3", "level_latency", 22.0, 1.05);
    near(&found, "level=DRAM", "level_latency", 90.0, 1.1);
}

#[test]
fn too_few_rungs_show_nothing() {
    let site = site(GUEST);
    assert_eq!(EXPERIMENT.derive(&site, &Known::default(), &Known::default()), []);
    let few = offer(&site, Preset::Quick, &[("footprint", "512,1024")]).expect("an offer");
    assert!(EXPERIMENT.derivable(&site, &few.series).is_empty());
}
