//! Laws of the sweep: what it offers where, and what it finds.

use super::derive::derive;
use super::sizes::{GROUP_BYTES, STEP_BYTES};
use super::{CARD, EXPERIMENT, Limit, Size, Swept};
use crate::fs::prelude::*;
use bench::experiment::fixtures::with_dir as in_dir;
use bench::experiment::fixtures::{bare_site, known, recorded};
use host::cgroup::GroupPlace;
use session::fixtures::{check, here_with, offered, refused, rehearse_in};

const GIB: u64 = 1 << 30;
const REFUSED: &str = "/x may not be written";

fn with_dir(site: Site, allowance_bytes: u64) -> Site {
    in_dir(site, "/", allowance_bytes)
}

/// A guest whose files may take so much.
fn guest(allowance_bytes: u64) -> Site {
    with_dir(recorded("vm-granite-rapids"), allowance_bytes)
}

fn with_group(mut site: Site) -> Site {
    site.host.limits.memory_place = Some(GroupPlace {
        version: 2,
        parent: "sys/fs/cgroup/user".to_owned(),
        home: "sys/fs/cgroup/user/shell".to_owned(),
    });
    site.host.limits.memory_place_refused = None;
    site
}

fn without_group(mut site: Site) -> Site {
    site.host.limits.memory_place = None;
    site.host.limits.memory_place_refused = Some(REFUSED.to_owned());
    site
}

fn sizes(series: &Series) -> Vec<String> {
    let text = |case: &Case| case.id.get("size").expect("a size").to_string();
    series.cases.iter().map(text).collect()
}

/// The figures of a size under a limit, put among others.
fn put(values: &mut Known, limit: Limit, size: Size, figures: &[(&str, f64)]) {
    let case = Swept { limit, size }.id();
    for (metric, value) in figures {
        values.insert(Key::new(CARD.id, &case, metric), *value);
    }
}

#[test]
fn a_size_is_predicted_alike_whether_its_bytes_are_resolved_or_not() {
    let site = with_group(guest(2 * GIB));
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let metric = CARD.metrics.iter().find(|metric| metric.name == "latency_per_block");
    let likely = |case: &Case| {
        let found = EXPERIMENT.unscaled(&site, None, case, metric.expect("the card has it"));
        found.and_then(|found| found.range).expect("a range").likely
    };
    let cases = offer.series[0].cases.iter().filter(|case| case.id.int("size").is_some());
    for case in cases.clone() {
        assert!(case.int("bytes").is_some(), "{}", case.id);
        assert_eq!(likely(case), likely(&Case::new(case.id.clone())), "{}", case.id);
    }
    let of = |size| likely(cases.clone().find(|case| case.int("size") == size).expect("offered"));
    assert!(of(Some(125)) > of(Some(25)));
}

#[test]
fn standard_is_in_a_group_where_one_can_be_made_and_has_the_largest_size_elsewhere() {
    let site = with_group(guest(2 * GIB));
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let [series] = offer.series.as_slice() else {
        panic!("{:?}", offer.series);
    };
    let expected =
        ["25", "50", "75", "90", "100", "110", "125", "bisect1", "bisect2", "bisect3", "bisect4"];
    assert_eq!(sizes(series), expected);
    assert_eq!(Limit::from_value(series.cases[0].id.get("limit")), Some(Limit::Group(GROUP_BYTES)));
    assert_eq!(series.cases[6].int("bytes"), Some(GROUP_BYTES / 4 * 5));
    let below = EXPERIMENT.group_below(&site, series);
    assert_eq!(below.as_deref(), Some(Path::new("/sys/fs/cgroup/user")));

    let site = without_group(guest(2 * GIB));
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    assert_eq!(sizes(&offer.series[0]), ["largest"]);
    let bytes = offer.series[0].cases[0].int("bytes").expect("a size");
    assert!(bytes > 64 << 20 && bytes <= 2 * GIB / 32 * 6 && bytes.is_multiple_of(STEP_BYTES));
    let (case, skip) = &offer.skipped[0];
    assert_eq!(case.int("size"), Some(50));
    assert!(skip.needed.as_ref().is_some_and(|way| way.contains("--dir")));
    assert_eq!(EXPERIMENT.group_below(&site, &offer.series[0]), None);
    // What it then finds is of that size, and no knee.
    let expected = Swept { limit: Limit::Memory, size: Size::Largest }.id();
    assert_eq!(EXPERIMENT.derivable(&site, &offer.series), std::slice::from_ref(&expected));
    let mut values = Known::default();
    let figures =
        [("file", 1e9), ("latency_per_block", 400.0), ("bandwidth", 1e10), ("missed", 0.0)];
    put(&mut values, Limit::Memory, Size::Largest, &figures);
    let found = derive(&site, &Known::default(), &values);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].case, found[0].metric), (&expected, "cached"));
}

#[test]
fn thorough_fills_the_memory_only_where_directory_and_time_allow_it() {
    let small = check(&EXPERIMENT, &with_group(guest(2 * GIB)), Preset::Thorough);
    assert_eq!(small.series.len(), 2);
    assert_eq!(sizes(&small.series[1]), ["largest"]);
    let site = with_group(guest(1 << 40));
    let large = check(&EXPERIMENT, &site, Preset::Thorough);
    let memory = &large.series[1];
    assert!(sizes(memory).starts_with(&["50", "75", "90", "100", "125"].map(str::to_owned)));
    let available = site.host.memory_ceiling_bytes().expect("it is recorded");
    let most = memory.cases.iter().filter_map(|case| case.int("bytes")).max();
    assert_eq!(most, Some(available / 4 * 5 / STEP_BYTES * STEP_BYTES));
    // A terabyte takes longer than that.
    let mut huge = site;
    huge.host.memory.available_bytes = Some(1 << 40);
    huge.host.limits.memory_left_bytes = None;
    huge.dir = with_dir(bare_site(), 1 << 50).dir;
    let offer = check(&EXPERIMENT, &huge, Preset::Thorough);
    assert_eq!(sizes(&offer.series[1]), ["largest"]);
    let (_, skip) = &offer.skipped[0];
    assert!(skip.needed.as_ref().is_some_and(|way| way.contains("cache_size.time")));
}

#[test]
fn nobody_is_swapped_out_unasked() {
    let mut site = guest(1 << 40);
    site.host.memory.swap_total_bytes = Some(4 * GIB);
    site.host.memory.available_bytes = Some(8 * GIB);
    site.host.limits.memory_left_bytes = None;
    let sizes_of = |site: &Site, set: &[(&str, &str)]| {
        let offer = offered(&EXPERIMENT, site, Preset::Thorough, set);
        let series = offer.series.iter();
        let memory = series.filter(|series| series.name == "memory");
        let cases = memory.flat_map(|series| &series.cases);
        let most = cases.filter_map(|case| case.int("bytes")).max();
        (most.expect("a size"), offer.skipped)
    };
    let (most, skipped) = sizes_of(&site, &[]);
    assert!(most <= 4 * GIB, "{most}");
    let skip = &skipped.first().expect("the larger ones").1;
    assert!(skip.needed.as_ref().is_some_and(|way| way.contains("limit=memory")));
    // It runs if the user asks for it, or if there is no swap.
    let all = 10 * GIB;
    assert_eq!(sizes_of(&site, &[("limit", "memory")]).0, all);
    let (most, skipped) = sizes_of(&site, &[("limit", "1GiB,memory")]);
    assert!(most <= 4 * GIB, "{most}");
    let cases: BTreeSet<_> = skipped.iter().map(|(case, _)| case).collect();
    assert_eq!(cases.len(), skipped.len(), "each once: {skipped:?}");
    site.host.memory.swap_total_bytes = Some(0);
    assert_eq!(sizes_of(&site, &[]).0, all);
}

#[test]
fn files_that_are_memory_are_not_grown_until_it_is_full() {
    let root = host::Root::tree("== proc/self/mountinfo\n25 1 0:41 / / rw - tmpfs tmpfs rw\n");
    let mut site = with_dir(bare_site(), 1 << 40);
    site.host = host::Host::read(&root);
    let skip = refused(&EXPERIMENT, &site, Preset::Thorough, &[]);
    assert!(skip.needed.is_some_and(|way| way.contains("--dir")));
}

#[test]
fn without_a_place_a_named_group_is_refused_with_the_reason() {
    let site = without_group(with_dir(bare_site(), GIB));
    let asked = [("limit", "32MiB")];
    let skip = refused(&EXPERIMENT, &site, Preset::Standard, &asked);
    assert!(skip.reason.contains(REFUSED), "{}", skip.reason);
    assert!(skip.needed.is_some_and(|way| way.contains("systemd-run")));
    // One that would not fit in plumb's own neither.
    let mut site = with_group(site);
    site.host.limits.memory_left_bytes = Some(36 << 20);
    let skip = refused(&EXPERIMENT, &site, Preset::Standard, &asked);
    assert!(skip.reason.contains("36 MiB"), "{}", skip.reason);
}

/// Figures of a sweep: size in MiB, ns of a block, share missed, share in memory.
fn known_points(limit: Limit, points: &[(u64, f64, Option<f64>, Option<f64>)]) -> Known {
    let mut values = Known::default();
    for &(mib, ns, missed, residency) in points {
        let (bytes, rate) = ((mib << 20) as f64, 4096.0 / ns * 1e9);
        let of = [("file", bytes), ("latency_per_block", ns), ("bandwidth", rate)].into_iter();
        let of = of.chain(missed.map(|share| ("missed", share)));
        let of: Vec<_> = of.chain(residency.map(|share| ("residency", share))).collect();
        put(&mut values, limit, Size::Percent(mib), &of);
    }
    values
}

/// The same without what was in memory.
fn figures(limit: Limit, points: &[(u64, f64, f64)]) -> Known {
    let points: Vec<_> =
        points.iter().map(|&(mib, ns, missed)| (mib, ns, Some(missed), None)).collect();
    known_points(limit, &points)
}

fn derived_value(values: &[DerivedValue], metric: &str) -> Option<f64> {
    let found = values.iter().find(|value| value.metric == metric);
    found.map(|value| value.value)
}

#[test]
fn the_knee_lies_between_what_stays_and_what_does_not() {
    let limit = Limit::Group(64 << 20);
    let points = [
        (32, 400.0, 0.0),
        (60, 500.0, 0.0),
        (62, 520.0, 0.0),
        (64, 4000.0, 1.0),
        (80, 4096.0, 1.0),
    ];
    let known = known(&[("fs.read", "pattern=sequential,mode=cold,size=1", "bandwidth", 2e9)]);
    let found = derive(&bare_site(), &known, &figures(limit, &points));
    let mib = |metric: &str| derived_value(&found, metric).map(|bytes| bytes / f64::from(1 << 20));
    assert_eq!((mib("knee"), mib("cached")), (Some(63.0), Some(62.0)));
    let knee = found.iter().find(|value| value.metric == "knee").expect("found");
    assert_eq!(knee.cell, Some(((62 << 20) as f64, (64 << 20) as f64)));
    assert_eq!(derived_value(&found, "knee_over_limit"), Some(63.0 / 64.0));
    let cached = found.iter().find(|value| value.metric == "cached");
    let cell = cached.and_then(|value| value.cell);
    assert_eq!(cell, knee.cell, "what would just fit lies there");
    assert_eq!(
        derived_value(&found, "machine_estimate"),
        None,
        "how much memory there is is unknown"
    );
    let rate = derived_value(&found, "rate_above").expect("what the device gave");
    assert!((1.0e9..1.03e9).contains(&rate), "{rate}");
    assert_eq!(derived_value(&found, "rate_over_read"), Some(rate / 2e9));
}

#[test]
fn the_machines_cache_is_estimated_from_a_groups_knee_and_never_from_its_own() {
    let mut site = bare_site();
    site.host.memory.available_bytes = Some(16 * GIB);
    let points = |limit| figures(limit, &[(60, 500.0, 0.0), (62, 520.0, 0.0), (64, 4000.0, 1.0)]);
    let found = |limit| derive(&site, &Known::default(), &points(limit));
    let of_group = found(Limit::Group(64 << 20));
    let estimate = of_group.iter().find(|value| value.metric == "machine_estimate");
    let estimate = estimate.expect("estimated");
    let of_all = |mib: f64| mib / 64.0 * (16 * GIB) as f64;
    assert_eq!(estimate.value, of_all(63.0));
    let (low, high) = estimate.cell.expect("an interval");
    assert!(low < 0.9 * of_all(62.0) && high > 1.05 * of_all(64.0), "wider than the group's knee");
    assert_eq!(estimate.at["available_bytes"].int(), Some(16 * GIB));
    assert_eq!(derived_value(&found(Limit::Memory), "machine_estimate"), None);
}

#[test]
fn without_a_step_the_knee_lies_above_and_a_step_without_device_is_none() {
    let flat = figures(Limit::Memory, &[(128, 400.0, 0.0), (256, 420.0, 0.0)]);
    let found = derive(&bare_site(), &Known::default(), &flat);
    assert_eq!(found.len(), 1);
    assert_eq!(derived_value(&found, "cached"), Some((256 << 20) as f64));
    assert!(found[0].notes[0].contains("256 MiB"), "{:?}", found[0].notes);
    // The last level of the processor's cache ends between two sizes.
    let cache = figures(Limit::Memory, &[(16, 300.0, 0.0), (32, 310.0, 0.0), (64, 700.0, 0.0)]);
    let found = derive(&bare_site(), &Known::default(), &cache);
    assert_eq!((found.len(), found[0].notes.len()), (1, 1));
    // Nothing was ever in memory: then there is nothing to report.
    let none = figures(Limit::Memory, &[(16, 4000.0, 1.0)]);
    assert!(derive(&bare_site(), &Known::default(), &none).is_empty());
}

#[test]
fn where_no_device_counts_the_residency_tells_and_is_never_contradicted() {
    // On sshfs, with a limit of 32 MiB.
    let limit = Limit::Group(32 << 20);
    let seen = |points: &[(u64, f64, f64)], counted: Option<f64>| {
        let points: Vec<_> =
            points.iter().map(|&(mib, ns, share)| (mib, ns, counted, Some(share))).collect();
        derive(&bare_site(), &Known::default(), &known_points(limit, &points))
    };
    let points = [(16, 900.0, 1.0), (40, 14_400.0, 0.79)];
    let found = seen(&points, None);
    assert_eq!(derived_value(&found, "knee"), Some(f64::from(28 << 20)));
    assert_eq!(derived_value(&found, "cached"), Some(f64::from(16 << 20)));
    assert_eq!(derived_value(&found, "rate_above"), None, "nobody counted it");
    // A count of nothing does not put into memory what was not there.
    let found = seen(&points, Some(0.0));
    assert_eq!(derived_value(&found, "cached"), Some(f64::from(16 << 20)));
}

#[test]
fn a_small_file_is_read_again_from_memory() {
    // Beside the sources: the temporary directory may be memory.
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::create_dir_all(&below).expect("the build's directory");
    let dir = tempfile::tempdir_in(below).expect("a directory");
    let site = Site { host: bare_site().host, ..here_with(dir.path()) };
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &[]);
    assert_eq!(rehearsed.failed, []);
    let value = |metric: &str| {
        let of = rehearsed.samples.iter().find(|samples| samples.metric == metric);
        of.map(|samples| samples.raw.samples()[0])
    };
    assert_eq!((value("file"), value("residency")), (Some(1048576.0), Some(1.0)));
    assert!(value("missed").is_none_or(|share| share == 0.0));
    assert!(value("latency_per_block").is_some_and(|ns| ns > 0.0));
    let left = std::fs::read_dir(dir.path()).expect("is there").count();
    assert_eq!(left, 0, "the file is removed");
}
