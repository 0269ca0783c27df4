use super::{
    Access, Level, Walk, described_levels, described_reaches, huge_gain, least_load, level_cycles,
    level_latency, level_size, line_size, load_latency, tlb_reach,
};
use crate::Facts;
use bench::experiment::Known;
use bench::experiment::fixtures::{bare_site, recorded, sites};
use record::key::{CaseId, Key};

#[test]
fn random_ladders_never_fall() {
    for site in sites() {
        let mut last = 0.0;
        for step in 0..88 {
            let footprint = 512.0 * 2.0_f64.powf(f64::from(step) / 4.0);
            let access = Access { walk: Walk::Random, index: false, base_pages: true, footprint };
            let likely = load_latency(Facts::prior(&site), access).range.likely;
            assert!(likely >= last * 0.999, "{footprint}: {likely} after {last}");
            last = likely;
        }
    }
}

#[test]
fn a_measured_clock_narrows_what_hangs_on_cycles() {
    let mut known = Known::default();
    let key = Key::new("clock.rate", &CaseId::new(), "core_frequency");
    known.insert(key, 3.0e9);
    let site = recorded("vm-granite-rapids");
    let derived =
        level_latency(Facts { site: &site, known: Some(&known) }, Level::L1).expect("an L1").range;
    let prior = level_latency(Facts::prior(&site), Level::L1).expect("an L1").range;
    assert!(derived.high / derived.low < 1.15 && prior.high / prior.low > 1.3);
    assert!((derived.likely - 5.0 / 3.0).abs() < 0.02, "{derived:?}");
}

#[test]
fn a_guest_on_a_big_cache_is_told_that_it_may_have_little_of_it() {
    let site = recorded("vm-granite-rapids");
    let levels = described_levels(&site);
    assert_eq!(levels.iter().map(|level| level.0).collect::<Vec<_>>(), Level::CACHES[..3]);
    let size = level_size(&site, Level::L3).expect("an L3").range;
    assert!(size.low <= 8.4e6 && size.high >= levels[2].1 as f64, "{size:?}");
}

#[test]
fn second_level_tlbs_that_hold_base_pages_add_up_and_first_level_ones_do_not() {
    // Alder Lake: two second-level structures of 1024, 4K with 2M/4M and 4K with 1G; at the first
    // level 96 entries for loads and 16 for stores.
    let alder_lake = recorded("alder-lake-hybrid");
    let reaches = described_reaches(&alder_lake);
    assert_eq!(reaches, [("L1", 96.0 * 4096.0), ("L2", 2048.0 * 4096.0)], "{reaches:?}");
    assert_eq!(tlb_reach(&alder_lake, "L2").range.likely, 2048.0 * 4096.0);
}

#[test]
fn the_line_can_miss_by_a_step_of_the_sweep() {
    let told = line_size(&recorded("epyc-7763-2s")).range;
    assert_eq!((told.low, told.likely, told.high), (32.0, 64.0, 128.0));
    assert_eq!(line_size(&bare_site()).range.high, 256.0);
}

#[test]
fn levels_that_nobody_describes_are_unknown() {
    let site = bare_site();
    assert!(level_size(&site, Level::L2).is_err());
    assert!(level_size(&site, Level::Memory).is_err());
    assert!(level_latency(Facts::prior(&site), Level::L4).is_err());
}

#[test]
fn the_bound_is_below_every_first_level() {
    for site in sites() {
        let bound = least_load(&site);
        let least = level_cycles(Facts::prior(&site), Level::L1).expect("an L1").range.low;
        assert!(bound.constant / 1e9 / (1.0 + bound.uncertainty) < least);
    }
}

#[test]
fn huge_pages_gain_where_base_pages_leave_the_reach_of_the_tlbs() {
    const MIB: f64 = 1024.0 * 1024.0;
    for site in sites() {
        let reach = tlb_reach(&site, "L1").range.low;
        let inside = huge_gain(Facts::prior(&site), 0.9 * reach).range;
        assert!(inside.low < 1.0 && inside.high < 1.3, "{inside:?}");
        assert_eq!(inside.likely, 1.0);
        let beyond = huge_gain(Facts::prior(&site), 256.0 * MIB);
        assert!(beyond.range.likely > 1.05, "{:?}", beyond.range);
    }
    // As recorded in a guest of 2026, whose hypervisor backs it by base pages in part.
    let guest = recorded("vm-granite-rapids");
    for (mib, measured) in [(1.0, 1.002), (16.0, 1.115), (256.0, 1.314)] {
        let range = huge_gain(Facts::prior(&guest), mib * MIB).range;
        assert!((range.low..range.high).contains(&measured), "{range:?}");
    }
}
