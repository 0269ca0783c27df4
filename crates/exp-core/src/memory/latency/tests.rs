use super::EXPERIMENT;
use super::walks::{Load, On, Pattern, Point, no_line, without_huge_pages};
use bench::experiment::fixtures::{bare_site, recorded};
use bench::experiment::{AnyExperiment, Fields, Offer, Preset, Site, Skip};
use laws::memory::Level;
use record::case::{Case, Order};
use record::key::CaseId;
use session::fixtures::params;
use std::collections::BTreeSet;

const GUEST: &str = "vm-granite-rapids";
const HOSTS: [&str; 4] = [GUEST, "alder-lake-hybrid", "epyc-7763-2s", "graviton3"];
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A recorded host, or one of which nothing is known (``), with 16 GiB of memory.
fn site(name: &str) -> Site {
    let site = if name.is_empty() { bare_site() } else { recorded(name) };
    Site { cpus: vec![0], memory_bytes: 16 * GIB, case_ns: 20_000_000, ..site }
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
    let cases = offer.series.iter().filter(|have| have.name == series).flat_map(|have| &have.cases);
    cases.filter_map(|case| Point::of(&case.id)).collect()
}

#[test]
fn main_memory_has_a_latency_and_no_size() {
    for name in HOSTS {
        let site = site(name);
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
fn quick_is_the_ladder_on_huge_pages_alone() {
    let offer = offer(&site(GUEST), Preset::Quick, &[]).expect("an offer");
    assert_eq!(offer.series.len(), 1);
    assert_eq!(offer.series[0].order, Order::Ladder);
    let ladder = points(&offer, "random-huge");
    assert_eq!(ladder.len(), 20);
    assert_eq!((ladder[0].footprint, ladder[19].footprint), (512, 256 * MIB));
    assert_eq!(
        offer.series[0].cases[0].id.to_string(),
        "pattern=random,load=pointer,pages=huge,footprint=512"
    );
    assert!(offer.skipped.is_empty());
}

#[test]
fn quick_ends_at_four_times_a_smaller_last_cache() {
    let offer = offer(&site(HOSTS[1]), Preset::Quick, &[]).expect("an offer");
    let top = points(&offer, "random-huge").last().map(|point| point.footprint);
    // 30 MiB in sysfs: the power of two at or below 120 MiB.
    assert_eq!(top, Some(64 * MIB));
}

#[test]
fn standard_has_what_the_catalogue_lists() {
    let site = site(GUEST);
    let offer = offer(&site, Preset::Standard, &[]).expect("an offer");
    let huge = points(&offer, "random-huge");
    let (index, ladder): (Vec<Point>, Vec<Point>) =
        huge.into_iter().partition(|point| point.load == Load::Index);
    assert_eq!((ladder.len(), index.len()), (85, 9));
    assert_eq!(ladder[84].footprint, GIB);
    assert_eq!(index[8].footprint, 64 * MIB);
    let base = points(&offer, "random-base");
    assert_eq!(base.len(), 39);
    assert_eq!(base[38].footprint, 256 * MIB);
    // Every rung on base pages has its partner on huge ones.
    assert!(
        base.iter().all(|point| { ladder.iter().any(|other| other.footprint == point.footprint) })
    );
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
    let labels: Vec<String> =
        EXPERIMENT.derivable(&site, &offer.series).iter().map(CaseId::to_string).collect();
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
    for pages in [On::Huge, On::Base] {
        let random = points(&offer, &format!("random-{}", pages.text()));
        let walks = points(&offer, &format!("walks-{}", pages.text()));
        for load in [Load::Pointer, Load::Index] {
            let loads = |point: &&Point| point.load == load && point.pages == pages;
            assert_eq!(random.iter().filter(loads).count(), 85);
            // Four slots and more up to 64 MiB, and the large ones; the more a curve differs from
            // what reports have, the fewer.
            let sizes = |stride: u64, unnamed: bool| {
                let rare = [load == Load::Index, pages == On::Base, unnamed]
                    .into_iter()
                    .filter(|rare| *rare)
                    .count();
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
    for name in HOSTS {
        let mut site = site(name);
        assert!(without_huge_pages(&site).is_none());
        let (keys, skipped) = answered(&site);
        assert_eq!((keys, skipped.len()), (common.clone(), 0), "{name}");
        // Less memory and other caches: the same keys, some with a reason.
        site.memory_bytes = 100 * MIB;
        for cache in &mut site.host.cache.levels {
            cache.size_bytes *= 4;
        }
        let (keys, skipped) = answered(&site);
        assert_eq!(keys, common, "{name}");
        let line = skipped.iter().filter(|(_, skip)| skip.needed.is_none()).count();
        assert_eq!(line, 6, "the look for the line size, of which no setting helps");
    }
}

#[test]
fn the_line_size_is_looked_for_between_the_first_two_caches() {
    use Level::{L1, L2, L3};
    let k = 1024;
    for (levels, possible) in [
        (vec![(L1, 32 * k), (L2, 256 * k), (L3, 8192 * k)], true),
        (vec![(L1, 64 * k), (L2, 1024 * k)], true),
        (vec![(L1, 65 * k), (L2, 1024 * k)], false),
        (vec![(L1, 128 * k), (L2, 16384 * k)], false),
        (vec![(L1, 32 * k), (L2, 128 * k)], false),
        (vec![(L1, 128 * k)], true),
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
    assert!(all.iter().any(|point| point.load == Load::Index));
    assert!(all.iter().any(|point| point.pages == On::Base));
    let mut patterns: Vec<Pattern> = all.iter().map(|point| point.pattern).collect();
    patterns.sort();
    patterns.dedup();
    assert_eq!(patterns.len(), 5);
}

#[test]
fn what_no_walk_can_be_is_not_offered() {
    let site = site(GUEST);
    for set in [
        &[("footprint", "1000")][..],
        &[("footprint", "1TiB")],
        &[("pattern", "forward"), ("stride", "4096"), ("footprint", "8192")],
        &[("pattern", "page-random"), ("stride", "24"), ("footprint", "8192")],
        &[("slot", "17")],
    ] {
        offer(&site, Preset::Quick, set).expect_err("no walk");
    }
}

#[test]
fn what_is_typed_is_what_is_offered() {
    let set = [("pattern", "forward,random"), ("load", "index"), ("footprint", "4KiB,65536")];
    let offer = offer(&site(GUEST), Preset::Quick, &set).expect("an offer");
    let walks = points(&offer, "walks-huge");
    assert_eq!(walks.len(), 2);
    assert!(walks.iter().all(|point| point.load == Load::Index && point.stride == Some(64)));
    assert_eq!(points(&offer, "random-huge").len(), 2);
}

mod derived;
mod limits;
