use super::EXPERIMENT;
use super::walks::{no_line, without_huge_pages};
use bench::experiment::fixtures::{bare_site, recorded};
use bench::prelude::*;
use laws::memory::{Level, Load, On, Pattern, Point};
use session::fixtures::{ids, offered, refused, skipped};
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

fn points(offer: &Offer, series: &str) -> Vec<Point> {
    let cases = offer.series.iter().filter(|have| have.name == series).flat_map(|have| &have.cases);
    cases.filter_map(|case| Point::from_id(&case.id)).collect()
}

/// Every key that a site measures or says why not.
fn answered(site: &Site) -> (BTreeSet<String>, Vec<(CaseId, Skip)>) {
    let offer = offered(&EXPERIMENT, site, Preset::Standard, &[]);
    (ids(&offer).into_iter().chain(skipped(&offer)).collect(), offer.skipped)
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
    let offer = offered(&EXPERIMENT, &site(GUEST), Preset::Rehearsal, &[]);
    let all: Vec<Point> = offer
        .series
        .iter()
        .flat_map(|series| series.cases.iter().filter_map(|case| Point::from_id(&case.id)))
        .collect();
    assert!(all.len() <= 10 && all.iter().all(|point| point.footprint <= 64 * 1024));
    for load in Load::ALL {
        assert!(all.iter().any(|point| point.load == *load), "{load:?}");
    }
    assert!(all.iter().any(|point| point.pages == On::Base));
    let mut patterns: Vec<Pattern> = all.iter().map(|point| point.pattern).collect();
    patterns.sort();
    patterns.dedup();
    assert_eq!(patterns.len(), 5);
}

#[test]
fn indices_wait_in_memory_at_random_and_in_four_quarters_of_the_thorough_preset() {
    let patterns = |preset| {
        let offer = offered(&EXPERIMENT, &site(GUEST), preset, &[]);
        let cases = offer.series.iter().flat_map(|series| &series.cases);
        let points = cases.filter_map(|case| Point::from_id(&case.id));
        let stored = points.filter(|point| point.load == Load::Stored);
        stored.map(|point| point.pattern).collect::<BTreeSet<Pattern>>()
    };
    assert_eq!(patterns(Preset::Standard), BTreeSet::new());
    let both = BTreeSet::from([Pattern::Random, Pattern::FourQuarter]);
    assert_eq!(patterns(Preset::Thorough), both);
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
        refused(&EXPERIMENT, &site, Preset::Quick, set);
    }
}

#[test]
fn what_is_typed_is_what_is_offered() {
    let set = [("pattern", "forward,random"), ("load", "index"), ("footprint", "4KiB,65536")];
    let offer = offered(&EXPERIMENT, &site(GUEST), Preset::Quick, &set);
    let walks = points(&offer, "walks-huge");
    assert_eq!(walks.len(), 2);
    assert!(walks.iter().all(|point| point.load == Load::Index && point.stride == Some(64)));
    assert_eq!(points(&offer, "random-huge").len(), 2);
}

mod derived;
mod limits;
