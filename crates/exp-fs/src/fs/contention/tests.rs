use super::files::Files;
use super::plan::{self, cpus};
use super::{CARD, EXPERIMENT};
use crate::fs::file::{Kind, ground};
use bench::experiment::fixtures::bare_site;
use bench::experiment::fixtures::{recorded, sites};
use bench::experiment::{DirFacts, Experiment, Known, Preset, Site};
use bench::link::{CalibrateOrder, RoundOrder};
use bench::measure::{Bench, calibrate};
use host::{Host, Outside, Root};
use record::case::Case;
use record::event::Samples;
use record::key::{CaseId, Key, Value};
use session::fixtures::{check, params};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// What an experiment may write of a default directory with much room (2 GiB for all).
const USUAL_BYTES: u64 = 2 << 30;
const NAMED_BYTES: u64 = 1 << 36;

fn with_dir(site: Site, allowance_bytes: u64) -> Site {
    Site {
        dir: Some(DirFacts { path: "/".into(), file_system: "ext4".to_owned(), allowance_bytes }),
        ..site
    }
}

fn spinning() -> Site {
    let tree = "== sys/block/sda/size\n2000000000\n== sys/block/sda/dev\n8:0\n== sys/block/sda/device/model\nX\n\
        == sys/block/sda/queue/rotational\n1\n\
        == proc/self/mountinfo\n22 1 8:0 / / rw - ext4 /dev/sda rw\n";
    let mut site = with_dir(bare_site(), NAMED_BYTES);
    site.host = Host::read(&Root::tree(tree));
    site.host.kernel.virtualisation.is_guest = Some(false);
    site
}

#[test]
fn every_case_of_the_catalogue_is_there_and_keeps_its_time() {
    for site in sites() {
        let site = with_dir(site, NAMED_BYTES);
        for (preset, cases, most_ms) in
            [(Preset::Quick, 2, 120), (Preset::Standard, 10, 900), (Preset::Thorough, 104, 12_000)]
        {
            let offer = check(&EXPERIMENT, &site, preset);
            assert_eq!((offer.series.len(), offer.skipped.len()), (1, 0));
            let series = &offer.series[0];
            assert_eq!(series.cases.len(), cases, "{preset:?}");
            let cost = EXPERIMENT.round_cost(&site, series);
            assert!(cost <= Duration::from_millis(most_ms), "{preset:?}: {cost:?}");
        }
    }
}

#[test]
fn without_a_named_directory_at_most_four_competitors_have_large_files() {
    let site = with_dir(recorded("vm-granite-rapids"), USUAL_BYTES);
    let offer = check(&EXPERIMENT, &site, Preset::Thorough);
    let large = |id: &CaseId| id.int("size") == Some(64 << 20);
    let kept = offer.series[0].cases.iter().filter(|case| large(&case.id));
    assert_eq!(kept.map(|case| case.int("competitors")).max(), Some(Some(4)));
    assert!(!offer.skipped.is_empty());
    for (id, skip) in &offer.skipped {
        assert!(large(id) && id.int("competitors") > Some(4), "{id}");
        let needed = skip.needed.as_deref().unwrap_or_default();
        assert!(needed.contains("--dir"), "{needed}");
    }
    let files = plan::files(&offer.series[0].cases);
    assert_eq!(files.into_iter().collect::<Vec<_>>(), [(64 << 10, 16), (64 << 20, 5)]);
}

#[test]
fn nothing_may_be_written_and_memory_are_reasons() {
    let quick = params(&CARD, Preset::Quick, &[]);
    let none = with_dir(bare_site(), 0);
    let skip = EXPERIMENT.series(&none, &quick).expect_err("no room");
    assert!(skip.reason.contains("a reader's own"), "{}", skip.reason);
    let mut memory = with_dir(bare_site(), NAMED_BYTES);
    if let Some(dir) = &mut memory.dir {
        dir.file_system = "tmpfs".to_owned();
    }
    let skip = EXPERIMENT.series(&memory, &quick).expect_err("memory");
    assert!(skip.reason.contains("tmpfs"), "{}", skip.reason);
}

#[test]
fn a_disk_that_spins_is_stated_to_take_longer() {
    let cost = |site: &Site| {
        let offer = check(&EXPERIMENT, site, Preset::Standard);
        EXPERIMENT.round_cost(site, &offer.series[0])
    };
    let quick = cost(&with_dir(recorded("epyc-7763-2s"), NAMED_BYTES));
    let slow = cost(&spinning());
    // Alone a reader in order has the disk's own readahead; ten take each other's place from the head.
    assert!(slow > 2 * quick, "{slow:?} against {quick:?}");
    assert!(slow < Duration::from_secs(20), "windows have a cap: {slow:?}");
    let offer = check(&EXPERIMENT, &spinning(), Preset::Standard);
    let prepared = EXPERIMENT.prepare_cost(&spinning(), &offer.series[0]);
    assert!(prepared > Duration::from_secs(10), "1 GiB: {prepared:?}");
}

#[test]
fn the_measured_reader_has_its_cpu_where_there_are_two() {
    assert_eq!(cpus(&[3, 0, 1], 1), [3]);
    assert_eq!(cpus(&[3, 0, 1], 5), [3, 0, 1, 0, 1]);
    assert_eq!(cpus(&[2], 3), [2, 2, 2]);
    let site = with_dir(recorded("epyc-7763-2s"), NAMED_BYTES);
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let series =
        EXPERIMENT.resolve(&site, &Known::default(), offer.series[0].clone()).expect("a place");
    for case in &series.cases {
        let competitors = case.int("competitors").expect("a number");
        assert!(case.at.contains_key("reader_cpu") && case.at.contains_key("ground"));
        assert_eq!(case.at.contains_key("competitor_cpus"), competitors > 0);
    }
}

#[test]
fn figures_of_the_same_run_narrow_what_is_said() {
    let site = with_dir(recorded("vm-granite-rapids"), NAMED_BYTES);
    let case = Case::new(
        CaseId::new()
            .with("readers", "processes")
            .with("size", 64_u64 << 10)
            .with("pattern", "sequential")
            .with("competitors", 9_u64),
    );
    let metric = |name: &str| {
        let mut metrics = CARD.metrics.iter();
        metrics.find(|metric| metric.name == name).expect("listed")
    };
    let mut known = Known::default();
    assert!(EXPERIMENT.predict(&site, Some(&known), &case, metric("latency")).is_none());
    let alone = CaseId::new()
        .with("pattern", "sequential")
        .with("size", 1_u64 << 20)
        .with("mode", "direct");
    known.insert(Key::new("fs.read", &alone, "latency"), 8e4);
    let deep = CaseId::new()
        .with("pattern", "random")
        .with("op", "read")
        .with("block", 4096_u64)
        .with("mode", "direct")
        .with("depth", 64_u64);
    known.insert(Key::new("fs.io", &deep, "iops"), 1e5);
    let told = |name: &str| {
        let prediction = EXPERIMENT.predict(&site, Some(&known), &case, metric(name));
        let prediction = prediction.expect("known");
        (prediction.range.expect("an interval"), prediction.because)
    };
    // Ten readers at 10 µs each, above 80 µs alone.
    let (latency, because) = told("latency");
    assert!(latency.low < 1e5 && 1e5 < latency.high && latency.high < 4e5, "{latency:?}");
    assert!(because.contains("fs.read measured 80.0 µs"), "{because}");
    assert!(because.contains("fs.io measured 100000"), "{because}");
    let (bandwidth, _) = told("bandwidth");
    assert!(bandwidth.low < 4.1e8 && 4.1e8 < bandwidth.high, "{bandwidth:?}");
    assert!(EXPERIMENT.predict(&site, Some(&known), &case, metric("fairness")).is_none());
    let curve = Case::new(CaseId(case.id.0[..3].to_vec()));
    let knee = EXPERIMENT.predict(&site, Some(&known), &curve, metric("saturation"));
    let knee = knee.and_then(|knee| knee.range).expect("known");
    assert!(knee.low < 8.0 && 8.0 < knee.high, "{knee:?}");
}

/// A rehearsal in a directory: samples, and why cases failed.
fn rehearse(dir: &Path, set: &[(&str, &str)]) -> (Vec<Case>, Vec<Samples>, Vec<String>) {
    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    let site = Site {
        host: Host::read(&Root::live(Outside::live())),
        dir: Some(DirFacts {
            path: dir.canonicalize().expect("it is there"),
            file_system: String::new(),
            allowance_bytes: NAMED_BYTES,
        }),
        cpus: cpus.clone(),
        ..bare_site()
    };
    let calibration = calibrate(&CalibrateOrder { cpu: cpus[0], windows: 10, window_ns: 200_000 })
        .expect("the clocks run");
    let offer = EXPERIMENT.series(&site, &params(&CARD, Preset::Rehearsal, set));
    let series = offer.expect("all").series.remove(0);
    let series = EXPERIMENT.resolve(&site, &Known::default(), series).expect("a place");
    EXPERIMENT.prepare(&series, dir, &mut || ()).expect("room for 1 MiB");
    let order = RoundOrder {
        series: series.clone(),
        round: 1,
        seed: 7,
        cpus,
        calibration,
        dir: Some(dir.to_owned()),
        far: None,
        far_address: None,
        case_ns: 200_000,
        rehearsal: true,
    };
    let mut bench = Bench::new(order).expect("the CPU is allowed");
    EXPERIMENT.measure(&series, &mut bench).expect("measures");
    let (samples, _, _, done) = bench.finish().expect("ends");
    let failed = done.failed.into_iter().map(|failed| failed.reason);
    (series.cases, samples, failed.collect())
}

/// Whether a directory's file system does what it is told, so that nothing may fail there.
fn is_plain(dir: &Path) -> bool {
    let site = Site { host: Host::read(&Root::live(Outside::live())), ..bare_site() };
    let ground = ground(&site, &dir.canonicalize().expect("it is there"));
    let fs = ground.mount.map(|mount| mount.fs.as_str());
    ground.kind == Kind::Device && fs.is_some_and(|fs| fs == "ext4" || fs == "xfs")
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // A thread of its own, because the bench pins it.
    std::thread::scope(|scope| scope.spawn(work).join().expect("does not panic"))
}

#[test]
fn readers_of_a_real_directory_have_every_figure_or_say_why_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let set = [
        ("readers", "processes,threads"),
        ("size", "64KiB"),
        ("pattern", "sequential,random"),
        ("competitors", "0,3"),
    ];
    let (cases, samples, failed) = on_a_thread(|| rehearse(dir.path(), &set));
    assert_eq!(cases.len(), 8);
    if !failed.is_empty() {
        // Where O_DIRECT is missing or faked.
        assert!(
            !is_plain(dir.path()) && failed.iter().all(|reason| reason.contains("cache:")),
            "{failed:?}"
        );
        return skips::part("file-system", failed.join("; "));
    }
    for case in &cases {
        let told: BTreeSet<&str> = samples
            .iter()
            .filter(|samples| samples.case == case.id && !samples.raw.samples().is_empty())
            .map(|samples| samples.metric.as_str())
            .collect();
        let mut expected = BTreeSet::from(["latency", "latency_all", "bandwidth", "cpu"]);
        if case.int("competitors") == Some(3) {
            expected.insert("fairness");
        }
        assert_eq!(told, expected, "{}", case.id);
        let latency = samples
            .iter()
            .find(|samples| samples.case == case.id && samples.metric == "latency")
            .expect("has it");
        let quantity = |name: &str| latency.quantities.get(name).copied().unwrap_or(f64::NAN);
        assert!(quantity("reads_least") > 0.0);
        // What all asked for is more than the measured reader's part.
        let own = latency.raw.samples().len() as f64 * 4096.0;
        let readers = case.int("competitors").expect("a number") as f64 + 1.0;
        assert!(quantity("asked_bytes") >= own.max(readers * 2.0 * 4096.0));
        // Each read is counted once, whoever made it.
        if case.at.get("ground").and_then(Value::text) == Some("device") {
            let counted = quantity("own_bytes") / quantity("asked_bytes");
            assert!((1.0..1.5).contains(&counted), "{}: {counted}", case.id);
        }
    }
    let left = std::fs::read_dir(dir.path()).expect("reads").count();
    assert_eq!(left, 4, "the prepared files and nothing else");
}

#[test]
fn a_file_that_is_gone_is_named_and_others_are_to_be_had() {
    let dir = tempfile::tempdir().expect("a directory");
    let site = with_dir(bare_site(), NAMED_BYTES);
    let set = [("competitors", "0,1")];
    let offer = EXPERIMENT.series(&site, &params(&CARD, Preset::Rehearsal, &set));
    let series = offer.expect("cases").series.remove(0);
    let paths = EXPERIMENT.prepare(&series, dir.path(), &mut || ()).expect("room");
    std::fs::remove_file(&paths[1]).expect("was there");
    let mut files = Files::default();
    if let Err(error) = files.cold(dir.path(), 64 << 10, 1) {
        // Where O_DIRECT is missing or faked.
        let told = format!("{error:#}");
        assert!(!is_plain(dir.path()) && told.contains("cache:"), "{told}");
        return skips::part("file-system", told);
    }
    let error = files.cold(dir.path(), 64 << 10, 2).err().expect("one is gone");
    assert!(format!("{error:#}").contains("contention-65536-1"), "{error:#}");
    files.cold(dir.path(), 64 << 10, 1).expect("the first is there");
}

#[test]
fn a_curve_has_its_figures_only_with_enough_points() {
    let site = with_dir(recorded("graviton3"), NAMED_BYTES);
    let offer = check(&EXPERIMENT, &site, Preset::Quick);
    assert!(EXPERIMENT.derivable(&site, &offer.series).is_empty());
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let curves = EXPERIMENT.derivable(&site, &offer.series);
    assert_eq!(curves.len(), 2);
    let text = curves[0].to_string();
    assert_eq!(text, "readers=processes,size=65536,pattern=sequential");
    assert!(curves[0].0.iter().all(|(_, value)| *value != Value::from("auto")));
}
