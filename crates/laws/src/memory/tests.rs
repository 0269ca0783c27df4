use super::bandwidth::bandwidth;
use super::transfer::{Op, Stores, Threads, Transfer};
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

/// AMD's dies read 32 bytes and write 16 a cycle of the fabric.
#[test]
fn the_links_of_the_dies_hold_main_memory_back() {
    let mut site = recorded("epyc-7763-2s");
    let likely = |site: &_, op| {
        let of = Transfer::widest(op, Stores::Regular, Level::Memory, Threads::All);
        bandwidth(Facts::prior(site), &of).expect("the design is known").range.likely
    };
    // One die of eight cores.
    let all = site.host.cpu.cpus.iter();
    let die: Vec<usize> = all.filter(|cpu| cpu.llc_group == Some(0)).map(|cpu| cpu.id).collect();
    let whole = likely(&site, Op::Read);
    site.cpus = die;
    let (read, write) = (likely(&site, Op::Read), likely(&site, Op::Write));
    assert!((20e9..42e9).contains(&read) && read < whole, "{read} {whole}");
    assert!((10e9..21e9).contains(&write), "{write}");
}
