use super::{RIVAL, cpu_of, pairings, parse, rate_of, rounds};
use crate::tests::said;
use crate::{Conditions, Goal, Pairing, Row};
use bench::experiment::Preset;
use bench::experiment::fixtures::sites;
use record::event::{Raw, Samples};
use record::key::CaseId;
use std::collections::BTreeMap;

const READ_3_25: &str = include_str!("../../testdata/fio/3.25-psync-read.txt");
const READ_3_33: &str = include_str!("../../testdata/fio/3.33-psync-read.txt");
const WRITE_3_33: &str = include_str!("../../testdata/fio/3.33-io_uring-write.txt");
const WRITE_3_39: &str = include_str!("../../testdata/fio/3.39-io_uring-write.txt");
const READ_3_42: &str = include_str!("../../testdata/fio/3.42-psync-read.txt");
const FORBIDDEN: &str = include_str!("../../testdata/fio/3.33-forbidden.txt");

fn value(text: &str, what: &str) -> f64 {
    parse(&said(text), what).expect("a recorded answer")
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
}

#[test]
fn the_rate_is_that_of_all_jobs_over_their_shorter_times() {
    near(value(READ_3_25, "iops"), (2569.0 + 2144.0) / 0.470);
    near(value(READ_3_33, "iops"), (2217.0 + 1714.0) / 0.451);
    near(value(READ_3_42, "iops"), (696.0 + 1472.0) / 0.450);
    near(value(WRITE_3_33, "iops"), (3559.0 + 3497.0) / 0.471);
    near(value(WRITE_3_39, "iops"), (256.0 + 3400.0) / 0.450);
    // Counts whose sum no word holds.
    let most = READ_3_33.replace("1714", "18446744073709551615");
    near(value(&most, "iops"), 18446744073709551615.0 / 0.451);
}

#[test]
fn the_milliseconds_of_cpu_are_those_that_were_there_and_half_of_one() {
    // 44 ms and 39 ms of system time, none of user time.
    near(value(READ_3_33, "cpu"), (44.5e6 + 39.5e6) / 3931.0);
    // 15 ms of system time; then 7 ms of each.
    near(value(WRITE_3_33, "cpu"), (15.5e6 + 7.5e6 + 7.5e6) / 7056.0);
    // 3 and 53; 42.
    near(value(READ_3_25, "cpu"), (3.5e6 + 53.5e6 + 42.5e6) / 4713.0);
}

#[test]
fn warnings_before_the_answer_are_none_of_it() {
    let warned = format!("fio: this platform does not support process shared mutexes\n{READ_3_33}");
    near(value(&warned, "iops"), value(READ_3_33, "iops"));
}

#[test]
fn what_is_missing_or_failed_is_told() {
    let why = |text: &str| parse(&said(text), "iops").expect_err("it is broken");
    assert_eq!(why(""), "no JSON");
    assert!(why(FORBIDDEN).ends_with("error 1"));
    assert!(why(r#"{"jobs": []}"#).contains("no job"));
    let cut = why(&READ_3_33[..READ_3_33.len() / 2]);
    assert!(cut.contains("EOF"), "{cut}");
    for name in ["job_runtime", "usr_cpu", "sys_cpu", "total_ios", "error"] {
        let without = READ_3_33.replace(&format!("\"{name}\""), "\"other\"");
        let why = why(&without);
        assert!(why.contains("missing field") && why.contains(name), "{why}");
    }
    assert_eq!(why(&READ_3_33.replace("1714", "0")), "it reported 0");
    assert!(parse(&said(READ_3_33), "latency").is_err());
}

#[test]
fn versions_are_told_with_and_without_a_commit() {
    let version = |text| (RIVAL.version)(&said(text));
    assert_eq!(version("fio-3.33\n"), Some("3.33".to_owned()));
    let newest = "fio-3.42-135-gf5344\n";
    assert_eq!(version(newest), Some("3.42-135-gf5344".to_owned()));
    assert_eq!(version("flexible\n"), None);
}

#[test]
fn names_say_what_is_done() {
    let names: Vec<String> = thorough().into_iter().map(|pairing| pairing.name).collect();
    for name in [
        "psync-random-read-4k",
        "io-uring-16-batched-random-write-4k",
        "psync-sequential-read-1m",
        "libaio-32-random-read-4k",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
}

fn thorough() -> Vec<Pairing> {
    let all = conditions().into_iter();
    let mut all = all.filter(|conditions| conditions.preset == Preset::Thorough);
    pairings(&all.next().expect("one machine"))
}

fn row(name: &str) -> Row {
    let found = thorough().into_iter().find(|pairing| pairing.name == name);
    found.expect("thorough has it").rows[0].clone()
}

fn conditions() -> Vec<Conditions> {
    let of = |site: bench::experiment::Site| {
        let presets = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];
        presets.map(|preset| crate::tests::conditions(&site, preset, usize::MAX))
    };
    sites().into_iter().flat_map(of).collect()
}

#[test]
fn both_sides_have_the_same_depth_block_length_and_bytes() {
    for conditions in conditions() {
        let pairings = pairings(&conditions);
        assert!(pairings.len() <= 8 || conditions.preset == Preset::Thorough);
        for pairing in pairings {
            let args = &pairing.theirs.args;
            let told = |name: &str| {
                let mut all = args.iter().filter_map(|arg| arg.strip_prefix(name));
                all.next().unwrap_or_default().to_owned()
            };
            let words = pairing.ours.set.split(' ');
            let set: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
            assert_eq!(told("--iodepth="), set["depth"]);
            assert_eq!(told("--bs="), set["block"]);
            assert_eq!(told("--runtime="), set["window"]);
            assert!(told("--rw=").ends_with(set["op"]), "{args:?}");
            assert_eq!(told("--rw=").starts_with("rand"), set["pattern"] == "random");
            if set["op"] == "write" {
                assert_eq!(told("--io_size="), set["written"]);
            } else {
                assert_eq!(told("--size="), set["size"]);
            }
            assert!(
                args.contains(&"--direct=1".to_owned()) && args.contains(&"--thread".to_owned())
            );
            assert_eq!(pairing.ours.cpus, pairing.theirs.cpus);
            let jobs = args.iter().filter(|arg| arg.starts_with("--name=")).count();
            let looks = pairing.ours.preset.looks();
            assert_eq!(jobs, looks[0] as usize, "as many rounds as plumb's");
            let file = told("--filename=");
            assert!(file.starts_with("/tmp/files/"), "{file}");
            let laid = &pairing.theirs.prepare[0];
            assert!(laid.contains(&format!("--filename={file}")), "{laid:?}");
            assert!(laid.contains(&format!("--size={}", told("--size="))), "{laid:?}");
            let is_libaio = told("--ioengine=") == "libaio";
            let explained = pairing.rows.iter().all(|row| row.goal == Goal::Explained);
            assert_eq!(explained, is_libaio);
        }
    }
}

#[test]
fn without_a_directory_nothing_is_run() {
    for conditions in conditions() {
        let conditions = Conditions { files: None, ..conditions };
        let skips = pairings(&conditions).into_iter().map(|pairing| pairing.skip);
        assert!(skips.flatten().all(|skip| skip.needed == Some("--dir DIR".to_owned())));
        assert!(pairings(&conditions).iter().all(|pairing| pairing.skip.is_some()));
    }
}

fn samples(case: &CaseId, round: u32, metric: &str, value: f64, quantity: (&str, f64)) -> Samples {
    let raw = Raw::Batch { k: 1, values: vec![value] };
    Samples {
        quantities: BTreeMap::from([(quantity.0.to_owned(), quantity.1)]),
        ..Samples::new("fs.io", round, case.clone(), metric, raw)
    }
}

#[test]
fn plumb_s_figures_are_of_all_rounds_with_the_ring_s_filling_and_without_workers() {
    let row = row("io-uring-16-random-read-4k");
    let case = row.case.clone();
    let other = self::row("psync-random-read-4k").case;
    let all = [
        samples(&case, 1, "iops", 1000.0, ("operations", 184.0)),
        samples(&case, 1, "cpu", 50.0, ("workers_ns", 200.0)),
        samples(&case, 2, "iops", 4000.0, ("operations", 784.0)),
        samples(&case, 2, "cpu", 100.0, ("workers_ns", 0.0)),
        samples(&other, 2, "iops", 1.0, ("operations", 1.0)),
    ];
    let rounds = rounds(&all, &row).expect("two rounds");
    // 200 operations' time at 1000 per second, and 800's at 4000.
    near(rate_of(&rounds, &row).expect("a depth"), 968.0 / 0.4);
    near(cpu_of(&rounds), (184.0 * 50.0 - 200.0 + 784.0 * 100.0) / 968.0);
    let alone = super::rounds(&all[..1], &row).expect_err("no CPU time");
    assert!(alone.to_string().contains("CPU time"));
    assert!(super::rounds(&[], &row).is_err());
}
