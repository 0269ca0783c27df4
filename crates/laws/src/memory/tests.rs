use super::{Level, Load, On, Point, level_latency, level_size, load_latency};
use crate::Facts;
use crate::cpu::through_memory;
use bench::experiment::fixtures::{bare_site, recorded};

#[test]
fn levels_that_nobody_describes_are_unknown() {
    let site = bare_site();
    assert!(level_size(&site, Level::L2).is_err());
    assert!(level_size(&site, Level::Memory).is_err());
    assert!(level_latency(Facts::prior(&site), Level::L4).is_err());
}

#[test]
fn an_index_that_waits_in_memory_takes_a_store_and_its_load_more() {
    let site = recorded("epyc-7763-2s");
    let likely = |load| {
        let point = Point { load, ..Point::random(On::Huge, 16_384.0) };
        load_latency(Facts::prior(&site), &point).range.likely
    };
    let through = through_memory(Facts::prior(&site)).range.likely;
    assert!(through > 0.0);
    assert!((likely(Load::Stored) - likely(Load::Index) - through).abs() < 1e-9);
    assert!(likely(Load::Index) > likely(Load::Pointer));
}
