use super::cases::{Pattern, Point, no_line};
use super::{EXPERIMENT, ID, without_huge_pages};
use crate::experiment::{DerivedValue, Experiment, Known, Offer, Preset, Site, Skip};
use crate::experiments::tests::{check, params, sites, smoke};
use crate::host::{Host, Root};
use record::case::{Case, Order};
use record::event::Samples;
use record::key::{CaseId, Key, Value};
use std::collections::BTreeSet;

const GUEST: &str = include_str!("../../../../tests/hosts/vm-granite-rapids/tree.txt");
const HOSTS: [&str; 4] = [
    GUEST,
    include_str!("../../../../tests/hosts/alder-lake-hybrid/tree.txt"),
    include_str!("../../../../tests/hosts/epyc-7763-2s/tree.txt"),
    include_str!("../../../../tests/hosts/graviton3/tree.txt"),
];
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn site(tree: &str) -> Site {
    Site {
        host: Host::read(&Root::tree(tree)),
        peer: None,
        peers: Vec::new(),
        dir: None,
        cpus: vec![0],
        memory_bytes: 16 * GIB,
        case_ns: 20_000_000,
    }
}

/// A guest whose caches have these sizes.
fn with_caches(sizes: [u64; 3]) -> Site {
    let mut site = site(GUEST);
    for cache in &mut site.host.cache.levels {
        cache.size_bytes = sizes[cache.level as usize - 1];
    }
    site
}

fn offer(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Result<Offer, Skip> {
    EXPERIMENT.series(site, &params(EXPERIMENT.card(), preset, set))
}

fn points(offer: &Offer, series: &str) -> Vec<Point> {
    let cases = offer
        .series
        .iter()
        .filter(|have| have.name == series)
        .flat_map(|have| &have.cases);
    cases.filter_map(|case| Point::of(&case.id)).collect()
}

#[test]
fn what_every_experiment_keeps_it_keeps_everywhere() {
    for site in sites() {
        for preset in [
            Preset::Rehearsal,
            Preset::Quick,
            Preset::Standard,
            Preset::Thorough,
        ] {
            check(&EXPERIMENT, &site, preset);
        }
    }
}

#[test]
fn main_memory_has_a_latency_and_no_size() {
    for tree in HOSTS {
        let site = site(tree);
        let case = Case::new(super::derive::level_case("DRAM"));
        let told = |name: &str| {
            let metrics = &EXPERIMENT.card().metrics;
            let metric = metrics.iter().find(|metric| metric.name == name);
            EXPERIMENT.predict(&site, None, &case, metric.expect("in the card"))
        };
        assert!(told("level_size").is_none());
        assert!(told("level_latency").is_some_and(|prior| prior.range.is_some()));
    }
}

#[test]
fn a_rehearsal_measures_every_case() {
    let samples = smoke(&EXPERIMENT);
    assert!(samples.iter().all(|samples| {
        ["huge_share", "node"]
            .iter()
            .all(|fact| samples.at.contains_key(*fact))
    }));
    let slots = |samples: &Samples| samples.at.get("slots").and_then(Value::int);
    assert!(samples.iter().all(|samples| slots(samples) >= Some(64)));
}

#[test]
fn quick_is_the_ladder_on_huge_pages_alone() {
    let offer = offer(&site(GUEST), Preset::Quick, &[]).expect("an offer");
    assert_eq!(offer.series.len(), 1);
    assert_eq!(offer.series[0].order, Order::Ladder);
    let ladder = points(&offer, "random-huge");
    assert_eq!(ladder.len(), 20);
    assert_eq!(
        (ladder[0].footprint, ladder[19].footprint),
        (512, 256 * MIB)
    );
    assert_eq!(
        offer.series[0].cases[0].id.to_string(),
        "pattern=random,load=pointer,pages=huge,footprint=512"
    );
    assert!(offer.skipped.is_empty());
}

#[test]
fn quick_ends_at_four_times_a_smaller_last_cache() {
    let offer = offer(&site(HOSTS[1]), Preset::Quick, &[]).expect("an offer");
    let top = points(&offer, "random-huge")
        .last()
        .map(|point| point.footprint);
    // 30 MiB in sysfs: the power of two at or below 120 MiB.
    assert_eq!(top, Some(64 * MIB));
}

#[test]
fn standard_has_what_the_catalogue_lists() {
    let site = site(GUEST);
    let offer = offer(&site, Preset::Standard, &[]).expect("an offer");
    let huge = points(&offer, "random-huge");
    let (index, ladder): (Vec<Point>, Vec<Point>) =
        huge.iter().copied().partition(|point| point.index);
    assert_eq!((ladder.len(), index.len()), (85, 9));
    assert_eq!(ladder[84].footprint, GIB);
    assert_eq!(index[8].footprint, 64 * MIB);
    let base = points(&offer, "random-base");
    assert_eq!(base.len(), 39);
    assert_eq!(base[38].footprint, 256 * MIB);
    // Every rung on base pages has its partner on huge ones.
    assert!(base.iter().all(|point| {
        ladder
            .iter()
            .any(|other| other.footprint == point.footprint)
    }));
    let walks = points(&offer, "walks-huge");
    let of = |pattern| walks.iter().filter(move |point| point.pattern == pattern);
    assert_eq!(of(Pattern::FourQuarter).count(), 9);
    // 1 KiB has no room for four steps of 512 bytes.
    assert_eq!(of(Pattern::Forward).count(), 26);
    assert_eq!(of(Pattern::Backward).count(), 26);
    // The look for the line size, at 128 KiB, shares no case with the curve.
    assert_eq!(of(Pattern::PageRandom).count(), 9 + 6);
    let total: usize = offer.series.iter().map(|series| series.cases.len()).sum();
    assert_eq!(total, 85 + 9 + 39 + 9 + 52 + 15);
    let labels: Vec<String> = EXPERIMENT
        .derivable(&site, &offer.series)
        .iter()
        .map(CaseId::to_string)
        .collect();
    assert_eq!(
        labels,
        [
            "level=L1",
            "level=L2",
            "level=L3",
            "level=DRAM",
            "tlb=L1",
            "tlb=L2",
            "footprint=1048576",
            "footprint=16777216",
            "footprint=268435456",
            ""
        ]
    );
}

#[test]
fn thorough_has_every_combination_up_to_a_gibibyte() {
    let offer = offer(&site(GUEST), Preset::Thorough, &[]).expect("an offer");
    for (pages, base) in [("huge", false), ("base", true)] {
        let random = points(&offer, &format!("random-{pages}"));
        let walks = points(&offer, &format!("walks-{pages}"));
        for index in [false, true] {
            let loads = |point: &&Point| point.index == index && point.base == base;
            assert_eq!(random.iter().filter(loads).count(), 85);
            // Four slots and more up to 64 MiB, and the large ones; the more a curve differs from
            // what reports have, the fewer.
            let sizes = |stride: u64, unnamed: bool| {
                let rare = [index, base, unnamed].iter().filter(|rare| **rare).count();
                let octaves = ((64 << 20) / (4 * stride).max(512)).ilog2() as usize;
                match rare {
                    0 => 2 * octaves + 1 + 2,
                    1 => octaves + 1 + 1,
                    _ => octaves / 2 + 1 + 1,
                }
            };
            let of = |pattern, stride| {
                let of = walks.iter().filter(loads).filter(move |point: &&Point| {
                    point.pattern == pattern && point.stride == stride
                });
                (of.clone().count(), of.map(|point| point.footprint).max())
            };
            let (count, most) = of(Pattern::FourQuarter, None);
            assert_eq!(most, Some(GIB));
            // Sizes between powers of two that four quarters do not divide are out.
            assert!(count > 8, "{count}");
            for pattern in [Pattern::Forward, Pattern::Backward] {
                for shift in 4..=12 {
                    let stride = 1_u64 << shift;
                    let footprints = sizes(stride, ![64, 256, 512].contains(&stride));
                    assert_eq!(of(pattern, Some(stride)), (footprints, Some(GIB)));
                }
            }
            // The look for the line size, at 128 KiB, is on the curve.
            let footprints = sizes(64, false);
            assert_eq!(of(Pattern::PageRandom, Some(64)), (footprints, Some(GIB)));
        }
    }
}

/// Every key that a site measures or says why not.
fn answered(site: &Site) -> (BTreeSet<String>, Vec<(CaseId, Skip)>) {
    let offer = offer(site, Preset::Standard, &[]).expect("an offer");
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    let offered = cases.map(|case| case.id.to_string());
    let skipped = offer.skipped.iter().map(|(id, _)| id.to_string());
    (offered.chain(skipped).collect(), offer.skipped)
}

#[test]
fn keys_are_the_same_on_all_hosts() {
    let (common, skipped) = answered(&site(GUEST));
    assert!(skipped.is_empty());
    for (at, tree) in HOSTS.into_iter().enumerate() {
        let mut site = site(tree);
        assert!(without_huge_pages(&site).is_none());
        let (keys, skipped) = answered(&site);
        assert_eq!((keys, skipped.len()), (common.clone(), 0), "host {at}");
        // Less memory and other caches: the same keys, some with a reason.
        site.memory_bytes = 100 * MIB;
        for cache in &mut site.host.cache.levels {
            cache.size_bytes *= 4;
        }
        let (keys, skipped) = answered(&site);
        assert_eq!(keys, common, "host {at}");
        let about = |text: &str| {
            let about = skipped
                .iter()
                .filter(|(_, skip)| skip.reason.contains(text));
            about.count()
        };
        assert_eq!(about("the line size is looked for at 128 KiB"), 6);
        assert_eq!(about("100 MiB may be touched") + 6, skipped.len());
    }
}

#[test]
fn the_line_size_is_looked_for_between_the_first_two_caches() {
    let k = 1024;
    for (levels, possible) in [
        (
            vec![("L1", 32 * k), ("L2", 256 * k), ("L3", 8192 * k)],
            true,
        ),
        (vec![("L1", 64 * k), ("L2", 1024 * k)], true),
        (vec![("L1", 65 * k), ("L2", 1024 * k)], false),
        (vec![("L1", 128 * k), ("L2", 16384 * k)], false),
        (vec![("L1", 32 * k), ("L2", 128 * k)], false),
        (vec![("L1", 128 * k)], true),
        (vec![], true),
    ] {
        assert_eq!(no_line(&levels).is_none(), possible, "{levels:?}");
    }
}

#[test]
fn a_rehearsal_is_tiny_and_tries_every_way() {
    let offer = offer(&site(GUEST), Preset::Rehearsal, &[]).expect("an offer");
    let all: Vec<Point> = offer
        .series
        .iter()
        .flat_map(|series| series.cases.iter().filter_map(|case| Point::of(&case.id)))
        .collect();
    assert!(all.len() <= 10 && all.iter().all(|point| point.footprint <= 64 * 1024));
    assert!(all.iter().any(|point| point.index) && all.iter().any(|point| point.base));
    let mut patterns: Vec<Pattern> = all.iter().map(|point| point.pattern).collect();
    patterns.sort();
    patterns.dedup();
    assert_eq!(patterns.len(), 5);
}

#[test]
fn what_is_typed_wrongly_is_answered_with_what_to_type() {
    let site = site(GUEST);
    let reason = |set: &[(&str, &str)]| match offer(&site, Preset::Quick, set) {
        Err(skip) => skip.reason,
        Ok(offer) => panic!("{set:?} is offered: {:?}", offer.series),
    };
    assert!(reason(&[("footprint", "1000")]).contains("type 1024"));
    assert!(reason(&[("footprint", "1TiB")]).contains("16 GiB may be touched"));
    let far = [
        ("pattern", "forward"),
        ("stride", "4096"),
        ("footprint", "8192"),
    ];
    assert!(reason(&far).contains("less than 4 slots"));
    let odd = [
        ("pattern", "page-random"),
        ("stride", "24"),
        ("footprint", "8192"),
    ];
    assert!(reason(&odd).contains("do not fill a page"));
    assert!(reason(&[("slot", "17")]).contains("slot=64"));
}

#[test]
fn what_is_typed_is_what_is_offered() {
    let set = [
        ("pattern", "forward,random"),
        ("load", "index"),
        ("footprint", "4KiB,65536"),
    ];
    let offer = offer(&site(GUEST), Preset::Quick, &set).expect("an offer");
    let walks = points(&offer, "walks-huge");
    assert_eq!(walks.len(), 2);
    assert!(
        walks
            .iter()
            .all(|point| point.index && point.stride == Some(64))
    );
    assert_eq!(points(&offer, "random-huge").len(), 2);
}

#[test]
fn everything_offered_is_predicted_on_every_host() {
    let metric = |name: &str| {
        let metrics = EXPERIMENT.card().metrics.iter();
        metrics
            .clone()
            .find(|metric| metric.name == name)
            .expect("a metric of the card")
    };
    for tree in HOSTS {
        let site = site(tree);
        let offer = offer(&site, Preset::Standard, &[]).expect("an offer");
        for case in offer.series.iter().flat_map(|series| &series.cases) {
            let prediction = EXPERIMENT
                .predict(&site, None, case, metric("latency"))
                .expect("a prior");
            let range = prediction.range.expect("an interval");
            assert!(0.0 < range.low && range.low <= range.likely && range.likely <= range.high);
            assert!(range.high.is_finite() && !prediction.because.is_empty());
            let bound = prediction.bound.expect("a bound");
            assert_eq!(bound.inputs, [("core_hz".to_owned(), -1)]);
        }
        let derivable = EXPERIMENT.derivable(&site, &offer.series);
        for (case, name) in derivable.iter().flat_map(|case| {
            let metrics = EXPERIMENT
                .card()
                .metrics
                .iter()
                .filter(|metric| metric.derived);
            metrics.map(move |metric| (case, metric.name.as_ref()))
        }) {
            let prior = EXPERIMENT.predict(&site, None, &Case::new(case.clone()), metric(name));
            let belongs = match name {
                "level_size" => case.text("level").is_some_and(|level| level != "DRAM"),
                "level_latency" | "level_latency_cycles" => case.get("level").is_some(),
                "tlb_reach" | "tlb_miss" => case.get("tlb").is_some(),
                "huge_gain" => case.get("footprint").is_some(),
                _ => case.0.is_empty(),
            };
            let told = prior.is_some_and(|prior| prior.range.is_some());
            assert_eq!(told, belongs, "{case} {name}");
        }
        // Nothing earlier is known that would narrow anything.
        let case = &offer.series[0].cases[0];
        let derived = EXPERIMENT.predict(&site, Some(&Known::default()), case, metric("latency"));
        assert_eq!(derived, None);
    }
}

#[test]
fn a_standard_round_states_less_than_its_share_of_a_minute() {
    let site = site(GUEST);
    let offer = offer(&site, Preset::Standard, &[]).expect("an offer");
    let cost = offer
        .series
        .iter()
        .map(|series| EXPERIMENT.round_cost(&site, series));
    let seconds: f64 = cost.map(|cost| cost.as_secs_f64()).sum();
    assert!((4.0..10.0).contains(&seconds), "{seconds}");
}

#[test]
fn a_thorough_round_states_no_more_than_its_share_of_an_hour() {
    for tree in HOSTS {
        let site = site(tree);
        let offer = offer(&site, Preset::Thorough, &[]).expect("an offer");
        let cost = offer.series.iter();
        let cost = cost.map(|series| EXPERIMENT.round_cost(&site, series));
        let seconds: f64 = cost.map(|cost| cost.as_secs_f64()).sum();
        assert!((20.0..70.0).contains(&seconds), "{seconds}");
    }
}

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
        if point.base {
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
    let got = value(found, case, metric)
        .unwrap_or_else(|| panic!("no {case} {metric}"))
        .value;
    let ratio = got / expected;
    assert!(
        1.0 / factor < ratio && ratio < factor,
        "{case} {metric}: {got}, not {expected}"
    );
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
    known.insert(
        Key::new("clock.rate", &CaseId::new(), "core_frequency"),
        3.57e9,
    );
    let found = EXPERIMENT.derive(&site, &known, &values);
    for (name, size, ns) in [
        ("L1", 48.0 * K, 1.4),
        ("L2", 1280.0 * K, 4.4),
        ("L3", 30.0 * M, 22.0),
    ] {
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
    assert!(
        found.iter().all(|value| value.notes.is_empty()),
        "{found:?}"
    );
}

#[test]
fn translation_is_found_where_base_pages_cost_more() {
    let levels = &[(48.0 * K, 1.4), (2.0 * M, 4.4)];
    let site = site(GUEST);
    let tlbs = |size: f64| {
        2.2 * (1.0 - 384.0 * K / size).max(0.0) + 12.0 * (1.0 - 8.0 * M / size).max(0.0)
    };
    let found = EXPERIMENT.derive(
        &site,
        &Known::default(),
        &figures(&site, hierarchy(levels, 90.0), tlbs),
    );
    near(&found, "tlb=L2", "tlb_reach", 8.0 * M, 1.5);
    near(&found, "tlb=L2", "tlb_miss", 12.0, 1.3);
    let gain = (90.0 + tlbs(256.0 * M)) / 90.0;
    near(&found, "footprint=268435456", "huge_gain", gain, 1.01);
    near(
        &found,
        "footprint=1048576",
        "huge_gain",
        (4.4 + 2.2 * 0.625) / 4.4,
        1.01,
    );
    let same = figures(&site, hierarchy(levels, 90.0), |_| 0.0);
    let found = EXPERIMENT.derive(&site, &Known::default(), &same);
    assert!(
        found.iter().all(|value| value.case.get("tlb").is_none()),
        "{found:?}"
    );
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
    let notes = &value(&found, "level=L3", "level_latency")
        .expect("an L3")
        .notes;
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
            index: false,
            base: false,
            footprint: *footprint,
        };
        known.insert(Key::new(ID, &point.id(), "latency"), *ns);
    }
    let found = EXPERIMENT.derive(&site, &Known::default(), &known);
    for (name, size, ns) in [
        ("L1", 32.0 * K, 1.233),
        ("L2", 400.0 * K, 3.708),
        ("L3", 4.0 * M, 14.5),
    ] {
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
    let site = Site {
        memory_bytes: 300 * MIB,
        ..site(GUEST)
    };
    let found = EXPERIMENT.derive(
        &site,
        &Known::default(),
        &figures(&site, hierarchy(levels, 25.0), |_| 0.0),
    );
    let last = value(&found, "level=L3", "level_latency").expect("the last plateau");
    assert!(
        last.notes[0].contains("below twice the 480 MiB of L3"),
        "{:?}",
        last.notes
    );
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
    assert_eq!(
        EXPERIMENT.derive(&site, &Known::default(), &Known::default()),
        []
    );
    let few = offer(&site, Preset::Quick, &[("footprint", "512,1024")]).expect("an offer");
    assert!(EXPERIMENT.derivable(&site, &few.series).is_empty());
}

mod limits;
