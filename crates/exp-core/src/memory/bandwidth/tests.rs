use super::{EXPERIMENT, IMPOSSIBLE, METRICS, sizes};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{known, recorded};
use bench::prelude::*;
use laws::memory::Level::{self, FourTimes, L3, Memory};
use laws::memory::transfer::Op::{Copy, Read};
use laws::memory::transfer::{Op, Stores, Threads, Transfer};
use session::fixtures::{offered, refused, smoke};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn guest(memory_bytes: u64) -> Site {
    Site { memory_bytes, ..recorded("vm-granite-rapids") }
}

fn widest(op: Op, level: Level) -> Transfer {
    Transfer::widest(op, Stores::Regular, level, Threads::Number(1))
}

/// Sizes that memory.latency may have found.
fn found(second: u64, third: u64) -> Known {
    let of = |case, bytes: u64| ("memory.latency", case, "level_size", bytes as f64);
    known(&[of("level=L2", second), of("level=L3", third)])
}

#[test]
fn what_is_asked_for_is_measured_or_skipped() {
    let site = guest(8 * GIB);
    let [op, access, width] = [("op", "read,write"), ("access", "first"), ("width", "4")];
    let two = [op, access, width, ("threads", "1"), ("level", "4xLLC")];
    let found = offered(&EXPERIMENT, &site, Preset::Quick, &two);
    assert_eq!(found.series.len(), 1);
    assert_eq!((found.series[0].name.as_str(), found.series[0].cases.len()), ("4xLLC", 2));
    for nothing in [
        &[("stores", "nontemporal"), ("op", "copy"), ("level", "L2")][..],
        &[("stores", "nontemporal"), ("op", "read")],
        &[("width", "neon")],
        &[("width", "6")],
        &[("threads", "3")],
        &[("threads", "smt")],
        &[("level", "L4")],
        &[("access", "first")],
        &[("access", "first"), ("width", "4"), ("op", "read"), ("level", "L1")],
    ] {
        refused(&EXPERIMENT, &site, Preset::Quick, nothing);
    }
}

#[test]
fn a_level_whose_share_is_no_more_than_the_one_before_holds_no_arrays_of_its_own() {
    let (site, flat) = (guest(8 * GIB), found(2 * MIB, 2 * MIB + 4096));
    let flat = Facts { site: &site, known: Some(&flat) };
    sizes::size_of_case(flat, &widest(Read, L3), GIB).expect_err("no room");
}

#[test]
fn a_footprint_that_is_too_large_is_cut_and_told_or_skipped() {
    let site = guest(8 * GIB);
    let known = found(2 * MIB, 100 * MIB);
    let facts = Facts { site: &site, known: Some(&known) };
    let skip =
        sizes::size_of_case(facts, &widest(Read, FourTimes), 256 * MIB).expect_err("400 MiB");
    assert!(skip.needed.expect("a way out").contains("limit=4"));
    // As a series: the reports' is skipped, the other is cut.
    let set = [("level", "DRAM,4xLLC"), ("threads", "1")];
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &set);
    let levels = EXPERIMENT.resolve(&site, &known, offer.series[0].clone()).expect("cut");
    for case in &levels.cases {
        assert_eq!(case.text("level"), Some("DRAM"));
        assert_eq!(case.at.get("cut"), Some(&Value::from("yes")));
        assert!(!case.at.contains_key(IMPOSSIBLE));
        assert!(case.int("footprint").unwrap() <= 256 * MIB);
    }
    EXPERIMENT.resolve(&site, &known, offer.series[1].clone()).expect_err("four times 100 MiB");
    // Less memory than four times the last cache.
    let poor = guest(20 * MIB);
    let offer = offered(&EXPERIMENT, &poor, Preset::Standard, &set);
    assert_eq!(offer.series.len(), 1);
    assert!(offer.skipped.iter().all(|(id, _)| id.text("level") == Some("4xLLC")));
}

#[test]
fn a_stated_peak_bounds_the_bus_and_gives_an_efficiency() {
    let mut site = guest(8 * GIB);
    let case = Case::new(widest(Copy, Memory).id());
    let told = |site: &Site, name: &str| -> Prediction {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        EXPERIMENT.unscaled(site, None, &case, metric).unwrap()
    };
    assert!(told(&site, "efficiency").range.is_none());
    let ratio = told(&site, "bus_bandwidth").range.unwrap().likely
        / told(&site, "bandwidth").range.unwrap().likely;
    assert!((ratio - 1.5).abs() < 1e-9);
    site.host.given.set("memory.bandwidth", "200GB/s").unwrap();
    let bound = told(&site, "bus_bandwidth").bound.expect("the channels' rate");
    assert!(bound.warns_only && bound.constant == 200e9);
    assert!(told(&site, "efficiency").range.is_some());
}

#[test]
fn what_moves_on_the_bus_and_in_words_stands_beside_what_the_program_names() {
    let samples = smoke(&EXPERIMENT);
    let rate = |metric: &str, of: (&str, &str)| {
        let mut all = samples.iter();
        let one = all.find(|one| one.metric == metric && one.case.text(of.0) == Some(of.1));
        one.map(|one| (one.raw.samples()[0], one.quantities.get("word_rate").copied()))
    };
    let bytes = |metric, of| rate(metric, of).expect("it was measured").0;
    let write = ("op", "write");
    assert!((bytes("bus_bandwidth", write) / bytes("bandwidth", write) - 2.0).abs() < 1e-6);
    assert!(rate("bus_bandwidth", ("op", "modify")).is_none(), "its bus moves what it names");
    let (lines, words) = rate("bandwidth", ("access", "first")).expect("a write of words");
    assert!((words.expect("4 bytes of 64") / lines * 16.0 - 1.0).abs() < 1e-6);
}
