use super::beside::{contradicts, counterpart};
use super::{EXPERIMENT, ID, IMPOSSIBLE, METRICS, sizes};
use bench::experiment::{AnyExperiment, Fields, Known, Preset, Site, fixtures::recorded};
use laws::Facts;
use laws::memory::Level::{self, FourTimes, L1, L2, L3, Memory};
use laws::memory::bandwidth::Op::{Copy, Modify, Read, Scale, Triad, Write};
use laws::memory::bandwidth::{Access, Op, STREAM, Stores, Threads, Transfer, Width};
use record::case::{Case, Series};
use record::key::{CaseId, Key, Value};
use record::metric::Metric;
use session::fixtures::{check, params, smoke};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const ONE: Threads = Threads::Number(1);

fn with_memory(name: &str, memory_bytes: u64) -> Site {
    Site { memory_bytes, ..recorded(name) }
}

fn cases(site: &Site, preset: Preset) -> Vec<Case> {
    let offer = check(&EXPERIMENT, site, preset);
    let series = offer.series.into_iter();
    series.flat_map(|series| series.cases).collect()
}

fn of(op: Op, level: Level, threads: Threads) -> Transfer {
    Transfer::widest(op, Stores::Regular, level, threads)
}

fn metric(name: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.name == name).unwrap()
}

/// Figures that memory.latency and clock.rate may have found.
fn found(sizes: &[(&str, u64)]) -> Known {
    let mut known = Known::default();
    for (name, bytes) in sizes {
        let key = Key::new("memory.latency", &CaseId::new().with("level", *name), "level_size");
        known.insert(key, *bytes as f64);
    }
    let clock = Key::new("clock.rate", &CaseId::new(), "core_frequency");
    known.insert(clock, 3.6e9);
    known
}

#[test]
fn thorough_has_all_that_the_catalogue_lists() {
    let site = with_memory("epyc-7763-2s", 400 * GIB);
    let cases = cases(&site, Preset::Thorough);
    let values = |name: &str| -> BTreeSet<String> {
        let values = cases.iter().filter_map(|case| case.id.get(name));
        values.map(Value::to_string).collect()
    };
    let set = |list: &str| -> BTreeSet<String> { list.split(' ').map(str::to_owned).collect() };
    for (name, list) in [
        ("op", "read write modify copy scale add triad"),
        ("stores", "regular nontemporal"),
        ("access", "every first strided"),
        // Zen 3: 32 bytes are the widest, which `vector` stands for.
        ("width", "4 8 sse2 vector"),
        ("level", "L1 L2 L3 DRAM 4xLLC"),
        ("threads", "1 2 4 8 16 32 64 128 all smt"),
    ] {
        assert_eq!(values(name), set(list));
    }
    let has = |of: Transfer| cases.iter().any(|case| case.id == of.id());
    for (op, level) in
        Op::ALL.iter().flat_map(|op| [L1, L2, L3, Memory, FourTimes].map(|l| (*op, l)))
    {
        for threads in [ONE, Threads::Number(2), Threads::All, Threads::Smt] {
            assert!(has(of(op, level, threads)), "{op:?} {level:?} {threads:?}");
        }
    }
    let past = |of: Transfer| has(Transfer { stores: Stores::NonTemporal, ..of });
    assert!(past(of(Triad, FourTimes, Threads::All)) && !past(of(Triad, L2, ONE)));
}

#[test]
fn the_reports_cases_are_standard() {
    let standard = cases(&with_memory("vm-granite-rapids", 8 * GIB), Preset::Standard);
    for (op, access, width, level) in [
        (Read, Access::First, Width::Word(4), FourTimes),
        (Write, Access::First, Width::Word(4), FourTimes),
        (Read, Access::Strided, Width::Word(4), Memory),
        (Write, Access::Every, Width::Word(8), Memory),
        (Scale, Access::Every, Width::Vector, FourTimes),
    ] {
        let id = Transfer { access, width, ..of(op, level, ONE) }.id();
        assert!(standard.iter().any(|case| case.id == id), "{id}");
    }
}

#[test]
fn what_is_asked_for_is_measured_or_skipped() {
    let site = with_memory("vm-granite-rapids", 8 * GIB);
    let offer = |set: &[(&str, &str)]| {
        EXPERIMENT.series(&site, &params(EXPERIMENT.card(), Preset::Quick, set))
    };
    let words = [("op", "read,write"), ("access", "first"), ("width", "4"), ("threads", "1")];
    let found = offer(&[&words[..], &[("level", "4xLLC")]].concat()).expect("two cases");
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
        offer(nothing).expect_err("nothing is left");
    }
}

#[test]
fn arrays_follow_the_measured_levels() {
    let site = with_memory("vm-granite-rapids", 8 * GIB);
    let size = |known: Option<&Known>, of: &Transfer| {
        sizes::of(Facts { site: &site, known }, of, 2 * GIB).expect("it fits")
    };
    let known = found(&[("L1", 48 << 10), ("L2", 2 * MIB), ("L3", 24 * MIB)]);
    let l1 = size(Some(&known), &of(Triad, L1, ONE));
    assert_eq!((l1.footprint, l1.from), (18 << 10, "measured"));
    let l3 = size(Some(&known), &of(Read, L3, ONE)).footprint;
    assert!((8 * MIB..=9 * MIB).contains(&l3), "{l3}");
    // Both CPUs of the guest share the last cache.
    let both = size(Some(&known), &of(Read, L3, Threads::All)).footprint;
    assert!((4 * MIB..=5 * MIB).contains(&both), "{both}");
    let memory = size(Some(&known), &of(Read, Memory, ONE));
    assert!(memory.footprint.abs_diff(96 * MIB) < 4096, "{memory:?}");
    let all = size(Some(&known), &of(Read, Memory, Threads::All));
    assert!(all.total_bytes().abs_diff(96 * MIB) < 4096, "{all:?}");
    assert!(size(Some(&known), &of(Copy, FourTimes, ONE)).times_last.unwrap() > 3.99);
    // Nothing measured: a guest of two CPUs has a part of the 480 MiB that are described, and
    // arrays in memory must not lie in any of it.
    let prior = size(None, &of(Read, Memory, ONE));
    assert_eq!((prior.from, prior.level_bytes), ("described", 480 * MIB));
    assert!(prior.times_last.unwrap() > 3.99);
    // What is four times an unknown part is not guessed, but planned for.
    let reports = of(Read, FourTimes, ONE);
    size(None, &reports);
    let clock = found(&[]);
    let skip = sizes::of(Facts { site: &site, known: Some(&clock) }, &reports, 2 * GIB);
    assert!(skip.expect_err("an unknown part").needed.is_some());
    let mut told = with_memory("vm-granite-rapids", 8 * GIB);
    told.host.given.set("cache.l3", "16MiB").unwrap();
    let reports = sizes::of(Facts { site: &told, known: Some(&clock) }, &reports, 2 * GIB);
    let reports = reports.expect("the part was given");
    assert!(reports.from == "given" && reports.footprint.abs_diff(64 * MIB) < 4096);
    // A level whose share is no more than the one before holds no arrays of its own.
    let flat = found(&[("L2", 2 * MIB), ("L3", 2 * MIB + 4096)]);
    let flat = Facts { site: &site, known: Some(&flat) };
    sizes::of(flat, &of(Read, L3, ONE), GIB).expect_err("no room");
}

#[test]
fn caches_of_a_large_machine_are_counted_by_instance() {
    let site = with_memory("epyc-7763-2s", 400 * GIB);
    let size = |of| sizes::of(Facts::prior(&site), &of, 2 * GIB).expect("it fits");
    // Sixteen caches of 32 MiB, as far as one core finds them.
    let all = size(of(Read, Memory, Threads::All));
    assert!(all.total_bytes() > all.level_bytes * 16 * 39 / 10, "{all:?}");
    assert!(all.footprint > 2 * MIB, "more than a thread's second cache");
    // Two threads of a core share its first cache.
    let [one, two] = [ONE, Threads::Smt].map(|threads| size(of(Read, L1, threads)).footprint);
    assert!(two.abs_diff(one / 2) <= 1536, "{one} {two}");
}

#[test]
fn a_footprint_that_is_too_large_is_cut_and_told_or_skipped() {
    let site = with_memory("vm-granite-rapids", 8 * GIB);
    let known = found(&[("L2", 2 * MIB), ("L3", 100 * MIB)]);
    let facts = Facts { site: &site, known: Some(&known) };
    let cut = sizes::of(facts, &of(Read, Memory, ONE), 256 * MIB).unwrap();
    assert!(cut.footprint <= 256 * MIB && cut.times_last.unwrap() < 2.6);
    let skip = sizes::of(facts, &of(Read, FourTimes, ONE), 256 * MIB).expect_err("400 MiB");
    assert!(skip.needed.expect("a way out").contains("limit=4"));
    // As a series: the reports' is skipped, the other is cut.
    let set = [("level", "DRAM,4xLLC"), ("threads", "1")];
    let params = params(EXPERIMENT.card(), Preset::Standard, &set);
    let offer = EXPERIMENT.series(&site, &params).expect("both");
    let resolve = |series: &Series| EXPERIMENT.resolve(&site, &known, series.clone());
    let levels = resolve(&offer.series[0]).expect("cut");
    for case in &levels.cases {
        assert_eq!(case.text("level"), Some("DRAM"));
        assert_eq!(case.at.get("cut"), Some(&Value::from("yes")));
        assert!(!case.at.contains_key(IMPOSSIBLE));
        assert!(case.int("footprint").unwrap() <= 256 * MIB);
    }
    resolve(&offer.series[1]).expect_err("four times 100 MiB");
    // Less memory than four times the last cache.
    let poor = with_memory("vm-granite-rapids", 20 * MIB);
    let offer = EXPERIMENT.series(&poor, &params).expect("what can be cut");
    assert_eq!(offer.series.len(), 1);
    assert!(offer.skipped.iter().all(|(id, _)| id.text("level") == Some("4xLLC")));
    let kept = sizes::of(Facts::prior(&poor), &of(Read, Memory, ONE), 256 * MIB).unwrap();
    assert!(kept.footprint <= 20 * MIB);
}

#[test]
fn earlier_figures_sharpen_predictions_and_bounds_follow_the_level() {
    let site = with_memory("vm-granite-rapids", 8 * GIB);
    let case = |op, level| Case::new(of(op, level, ONE).id());
    let told = |known: Option<&Known>, case: &Case, name| {
        EXPERIMENT.predict(&site, known, case, metric(name))
    };
    let first = case(Read, L1);
    let prior = told(None, &first, "bandwidth").unwrap();
    assert!(told(Some(&Known::default()), &first, "bandwidth").is_none());
    let known = found(&[]);
    let derived = told(Some(&known), &first, "bandwidth").unwrap();
    let width = |prediction: &record::event::Prediction| {
        let range = prediction.range.unwrap();
        range.high / range.low
    };
    assert!(width(&derived) < width(&prior));
    assert!(derived.bound.expect("instructions").inputs[0].0 == "cores_hz");
    // The first cache has no bus behind it, and a read's bus moves what it names; the memory's peak
    // is not told here.
    for (op, level) in [(Copy, L1), (Read, Memory), (Modify, L2)] {
        let bus = told(None, &case(op, level), "bus_bandwidth").unwrap();
        assert!(bus.range.is_none(), "{op:?} {level:?}");
    }
    let memory = case(Copy, Memory);
    assert!(told(None, &memory, "efficiency").unwrap().range.is_none());
    let program = told(None, &memory, "bandwidth").unwrap().range.unwrap();
    let bus = told(None, &memory, "bus_bandwidth").unwrap();
    assert!((bus.range.unwrap().likely / program.likely - 1.5).abs() < 1e-9);
    let mut stated = with_memory("vm-granite-rapids", 8 * GIB);
    stated.host.given.set("memory.bandwidth", "200GB/s").unwrap();
    let bus = EXPERIMENT.predict(&stated, None, &memory, metric("bus_bandwidth"));
    let bound = bus.unwrap().bound.expect("the channels' rate");
    assert!(bound.warns_only && bound.constant == 200e9);
    let share = EXPERIMENT.predict(&stated, None, &memory, metric("efficiency"));
    assert!(share.unwrap().range.is_some());
}

#[test]
fn the_four_kernels_and_a_copy_beside_a_read_are_derived() {
    let mut values = Known::default();
    let mut put = |op, name, rate| {
        values.insert(Key::new(ID, &of(op, Memory, ONE).id(), name), rate);
    };
    for (op, rate) in STREAM.into_iter().zip([10e9, 11e9, 12e9, 13e9]) {
        put(op, "bandwidth", rate);
    }
    put(Copy, "bus_bandwidth", 15e9);
    put(Read, "bandwidth", 12e9);
    let site = recorded("vm-granite-rapids");
    let found = EXPERIMENT.derive(&site, &Known::default(), &values);
    let value = |name| found.iter().find(|one| one.metric == name).expect(name).value;
    assert_eq!((value("stream_mean"), value("copy_over_read")), (11.5e9, 1.25));
    // What is found was announced, and each announced case is predicted.
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let announced = EXPERIMENT.derivable(&site, &offer.series);
    assert!(found.iter().all(|one| announced.contains(&one.case)));
    let quick = check(&EXPERIMENT, &site, Preset::Quick);
    let few = EXPERIMENT.derivable(&site, &quick.series);
    assert_eq!(few.len(), 1, "quick has no scale: {few:?}");
}

#[test]
fn a_copy_is_checked_against_the_read_of_its_kind() {
    let site = with_memory("vm-granite-rapids", 8 * GIB);
    let offer = check(&EXPERIMENT, &site, Preset::Quick);
    let series = &offer.series[0];
    let all = Threads::All;
    for (op, threads, wanted) in [
        (Read, ONE, Some(Copy)),
        (Copy, ONE, Some(Read)),
        (Triad, all, None),
        // No copy by all.
        (Read, all, None),
    ] {
        let other = counterpart(series, &of(op, Memory, threads));
        let other = other.map(|case| Transfer::of(&case.id).expect("a kernel").op);
        assert_eq!(other, wanted, "{op:?} {threads:?}");
    }
}

#[test]
fn a_copy_that_loads_what_no_read_does_is_a_contradiction() {
    for level in [L2, L3, Memory, FourTimes] {
        // Program bytes; as measured here a copy moves 1.65 times a read's on the bus.
        for (copy, read, is_one) in [(17.1, 15.5, false), (6.0, 15.5, false), (25.0, 15.5, true)] {
            assert_eq!(contradicts(level, copy, read), is_one, "{level:?} {copy} {read}");
        }
    }
    // In the first cache loads and stores have ports of their own: two loads' worth is all there
    // is.
    assert!(!contradicts(L1, 390.0, 200.0));
    assert!(contradicts(L1, 450.0, 200.0));
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    for one in samples.iter().filter(|one| one.metric == "bandwidth") {
        let rate = one.raw.samples()[0];
        // No machine that this runs on moves less, or as much, by a few threads.
        assert!((1e7..1e13).contains(&rate), "{}: {rate}", one.case);
        assert!(one.quantities["cores_hz"] > 1e8);
        assert!(one.quantities["overlap"] > 0.0);
        assert!(one.at.contains_key("huge_share") && one.at.contains_key("nodes"));
    }
    let ratio = |op: &str| {
        let of = |name: &str| {
            let one = samples
                .iter()
                .find(|one| one.metric == name && one.case.text("op") == Some(op))
                .expect("it was measured");
            one.raw.samples()[0]
        };
        of("bus_bandwidth") / of("bandwidth")
    };
    assert!((ratio("write") - 2.0).abs() < 1e-6);
    let modified = samples.iter().filter(|one| one.case.text("op") == Some("modify"));
    let named: BTreeSet<&str> = modified.map(|one| one.metric.as_ref()).collect();
    assert!(!named.contains("bus_bandwidth"), "its bus moves what it names");
    let by_words = |one: &&record::event::Samples| {
        one.case.text("access") == Some("first") && one.metric == "bandwidth"
    };
    let words = samples.iter().find(by_words).expect("a write of words");
    let share = words.quantities["word_rate"] / words.raw.samples()[0];
    assert!((share * 16.0 - 1.0).abs() < 1e-6, "4 bytes of 64: {share}");
}
