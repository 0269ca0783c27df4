use super::round::{cpus, sizes};
use super::{As, Competing, EXPERIMENT};
use crate::fs::fixtures::{is_without_direct, on_disk, rehearsed};
use crate::fs::prelude::*;
use bench::experiment::fixtures::{bare_site, known, predicted, recorded, set, with_dir};
use session::fixtures::{check, is_plain, refused};

/// What a run may write in a directory that the user named.
const NAMED_BYTES: u64 = 1 << 36;

fn with(site: Site, bytes: u64) -> Site {
    with_dir(site, "/", bytes)
}

fn spinning() -> Site {
    let mut site = on_disk("sda", true, NAMED_BYTES);
    site.host.kernel.virtualisation.is_guest = Some(false);
    site
}

#[test]
fn without_a_named_directory_at_most_four_competitors_have_large_files() {
    // What a run takes that names no directory.
    let site = with(recorded("vm-granite-rapids"), 2 << 30);
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
    let files = sizes(&offer.series[0].cases);
    assert_eq!(files.into_iter().collect::<Vec<_>>(), [(64 << 10, 16), (64 << 20, 5)]);
    // Of small files all that R1 had, as processes too.
    for readers in As::ALL {
        let of_kind = |case: &&Case| case.id.text("readers") == Some(readers.text());
        let cases = offer.series[0].cases.iter().filter(of_kind).filter(|case| !large(&case.id));
        let counts: BTreeSet<u64> = cases.filter_map(|case| case.int("competitors")).collect();
        assert!(counts.into_iter().eq(0..=15), "{}", readers.text());
    }
}

#[test]
fn nothing_may_be_written_and_memory_are_reasons() {
    let skip = refused(&EXPERIMENT, &with(bare_site(), 0), Preset::Quick, &[]);
    assert!(skip.needed.is_some_and(|needed| needed.contains("competitors")));
    let mut memory = with(bare_site(), NAMED_BYTES);
    if let Some(dir) = &mut memory.dir {
        dir.file_system = "tmpfs".to_owned();
    }
    let skip = refused(&EXPERIMENT, &memory, Preset::Quick, &[]);
    assert!(skip.reason.contains("tmpfs"), "{}", skip.reason);
}

#[test]
fn a_disk_that_spins_is_stated_to_take_longer() {
    let cost = |site: &Site| {
        let offer = check(&EXPERIMENT, site, Preset::Standard);
        EXPERIMENT.round_cost(site, &offer.series[0])
    };
    let quick = cost(&with(recorded("epyc-7763-2s"), NAMED_BYTES));
    let slow = cost(&spinning());
    // Alone a reader in order has the disk's own readahead; ten take each other's place from the
    // head.
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
    let site = with(recorded("epyc-7763-2s"), NAMED_BYTES);
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
    let site = with(recorded("vm-granite-rapids"), NAMED_BYTES);
    let pattern = Pattern::Sequential;
    let competing = Competing { readers: As::Processes, size: 64 << 10, pattern, competitors: 9 };
    let predict = |id: CaseId, known: &Known, name: &str| {
        let found = predicted(&EXPERIMENT, &site, Some(known), &Case::new(id), name);
        found.map(|found| found.range.expect("an interval"))
    };
    assert!(predict(competing.id(), &Known::default(), "latency").is_none());
    let known = known(&[
        ("fs.read", "pattern=sequential,size=1048576,mode=direct", "latency", 8e4),
        ("fs.io", "pattern=random,op=read,block=4096,mode=direct,depth=64", "iops", 1e5),
    ]);
    let of = |name| predict(competing.id(), &known, name);
    // Ten readers at 10 µs each, above 80 µs alone, and sooner than ten of these in turn.
    let latency = of("latency").expect("known");
    assert!(latency.low < 1e5 && 1e5 < latency.high && latency.high < 8e5, "{latency:?}");
    let bandwidth = of("bandwidth").expect("known");
    assert!(bandwidth.low < 4.1e8 && 4.1e8 < bandwidth.high, "{bandwidth:?}");
    assert!(of("fairness").is_none());
    let knee = predict(CaseId(competing.id().0[..3].to_vec().into()), &known, "saturation")
        .expect("known");
    assert!(knee.low < 8.0 && 8.0 < knee.high, "{knee:?}");
}

#[test]
fn readers_of_a_real_directory_have_every_figure_or_say_why_not() {
    let set = set("readers=processes,threads size=64KiB pattern=sequential,random competitors=0,3");
    let (dir, rehearsed) = rehearsed(&EXPERIMENT, &set);
    if is_without_direct(&dir, &rehearsed) {
        return;
    }
    let samples = rehearsed.samples.iter().filter(|samples| !samples.raw.samples().is_empty());
    let cases: BTreeSet<&CaseId> = samples.clone().map(|samples| &samples.case).collect();
    assert_eq!(cases.len(), 8);
    for id in cases {
        let case = Competing::from_id(id).expect("ours");
        let of_case = samples.clone().filter(|samples| samples.case == *id);
        let told: BTreeSet<&str> = of_case.map(|samples| samples.metric.as_str()).collect();
        let mut expected = BTreeSet::from(["latency", "latency_all", "bandwidth", "cpu"]);
        if case.competitors == 3 {
            expected.insert("fairness");
        }
        assert_eq!(told, expected, "{id}");
        let latency = rehearsed.samples_of(id, "latency").expect("has it");
        let quantity = |name: &str| latency.quantities.get(name).copied().unwrap_or(f64::NAN);
        assert!(quantity("reads_least") > 0.0);
        // What all asked for is more than the measured reader's part.
        let own = latency.raw.samples().len() as f64 * 4096.0;
        let readers = case.competitors as f64 + 1.0;
        assert!(quantity("asked_bytes") >= own.max(readers * 2.0 * 4096.0));
        // Each read is counted once, whoever made it.
        if is_plain(dir.path()) {
            let counted = quantity("own_bytes") / quantity("asked_bytes");
            assert!((1.0..1.5).contains(&counted), "{id}: {counted}");
        }
    }
    let left = std::fs::read_dir(dir.path()).expect("reads").count();
    assert_eq!(left, 4, "the prepared files and nothing else");
}

#[test]
fn a_curve_has_its_figures_only_with_enough_points() {
    let site = with(recorded("graviton3"), NAMED_BYTES);
    let offer = check(&EXPERIMENT, &site, Preset::Quick);
    assert!(EXPERIMENT.derivable(&site, &offer.series).is_empty());
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let curves = EXPERIMENT.derivable(&site, &offer.series);
    assert_eq!(curves.len(), 2);
    let text = curves[0].to_string();
    assert_eq!(text, "readers=processes,size=65536,pattern=sequential");
    assert!(curves[0].0.iter().all(|(_, value)| *value != Value::from("auto")));
}
