use super::theirs::parse;
use super::*;
use crate::Output;
use bench::experiment::fixtures::recorded;
use host::limits::{CpuQuota, Rlimit};
use record::event::Trace;

const OLD: &str = include_str!("../../testdata/cyclictest/2.4-idle.txt");
const NEW: &str = include_str!("../../testdata/cyclictest/2.6-idle.txt");
/// Asked for 85 µs at most, when 14 of 60 sleeps took longer.
const BEYOND: &str = include_str!("../../testdata/cyclictest/2.4-beyond.txt");
const TOO_OLD: &str = include_str!("../../testdata/cyclictest/1.5-help.txt");

fn said(answer: &str) -> Output {
    Output { answer: answer.to_owned(), ..Output::default() }
}

fn conditions(host: &str, cpus: &[usize], preset: Preset) -> Conditions {
    Conditions {
        cpus: cpus.to_vec(),
        ..crate::tests::conditions(&recorded(host), preset, cpus.len())
    }
}

#[test]
fn medians_lie_within_their_microsecond() {
    let close = |text, what, wanted: f64| {
        let found = parse(&said(text), what).expect("is read");
        assert!((found - wanted).abs() < 1e-6 * wanted, "{found} {wanted}");
    };
    // 28 of 60 below 71 µs, of which there are eight; 59 below 3929 µs.
    close(OLD, "median", 71_250.0);
    close(OLD, "p99", 3_929_400.0);
    close(NEW, "median", 74_000.0);
    close(NEW, "p99", 1_996_400.0);
    close(BEYOND, "median", 69_866.666_666);
}

#[test]
fn what_is_beyond_the_histogram_is_not_guessed() {
    let error = parse(&said(BEYOND), "p99").expect_err("is unknown");
    assert!(error.contains("46 of 60"), "{error}");
}

#[test]
fn answers_that_are_none_are_refused() {
    let refused = |text: &str, what: &str| parse(&said(text), what).expect_err("is refused");
    refused("", "median");
    refused(&OLD[..OLD.len() / 2], "median");
    assert!(refused(OLD, "mean").contains("reports no mean"));
    assert!(refused(&OLD.replace("\"70\"", "\"many\""), "median").contains("called many"));
    assert!(
        refused(&OLD.replace("\"cycles\": 60", "\"cycles\": 59"), "median")
            .contains("60 sleeps in 59")
    );
    assert!(refused(&OLD.replace("histogram", "diagram"), "median").contains("histogram"));
    assert!(refused(r#"{"thread": {}}"#, "median").contains("0 threads"));
    let none = r#"{"thread": {"0": {"histogram": {}, "cycles": 0}}}"#;
    assert!(refused(none, "median").contains("0 sleeps"));
}

#[test]
fn versions_are_told_by_its_help() {
    let told = |stdout: &str| {
        let said = Output { stdout: stdout.to_owned(), ..Output::default() };
        (RIVAL.version)(&said)
    };
    assert_eq!(told("cyclictest V 2.40\nUsage:\n").as_deref(), Some("2.40"));
    assert_eq!(told(TOO_OLD).as_deref(), Some("1.50"));
    assert_eq!(told("Usage:"), None);
}

#[test]
fn names_differ_and_standard_has_three() {
    let names = |preset| -> Vec<String> {
        let found = pairings(&conditions("vm-granite-rapids", &[1, 0], preset));
        found.into_iter().map(|pairing| pairing.name).collect()
    };
    assert_eq!(names(Preset::Quick), ["1ms-idle-monotonic-other-allowed"]);
    assert_eq!(
        names(Preset::Standard),
        [
            "1ms-idle-monotonic-other-allowed",
            "1ms-idle-monotonic-fifo-held-off",
            "1ms-same-monotonic-other-allowed"
        ]
    );
    let mut all = names(Preset::Thorough);
    assert_eq!(all.len(), 9);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 9);
}

#[test]
fn both_sleep_alike() {
    let all = pairings(&conditions("vm-granite-rapids", &[1, 0], Preset::Thorough));
    for pairing in &all {
        let args = pairing.theirs.args.join(" ");
        let set = |name: &str| pairing.ours.setting(name).expect("is set").to_owned();
        let has = |word: &str| args.contains(word);
        assert!(has(&format!("--interval={} ", set("spacing").trim_end_matches("us"))), "{args}");
        assert!(has(&format!("--policy={}", set("policy"))), "{args}");
        assert_eq!(has("--priority=80"), set("policy") == "fifo", "{args}");
        assert_eq!(has("--clock=1"), set("clock") == "realtime", "{args}");
        assert_eq!(has("--default-system"), set("idle_states") == "allowed", "{args}");
        assert_eq!(has("while :"), set("load") != "idle", "{args}");
        assert_eq!(has("for on in 1;"), set("load") == "same", "{args}");
        assert_eq!(has("for on in 0;"), set("load") == "others", "{args}");
        assert!(has("--affinity=1 --mainaffinity=0 "), "{args}");
        let sleeps: u64 = set("sleeps").parse().expect("a number");
        let loops = args.split("--loops=").nth(1).and_then(|rest| rest.split(' ').next());
        let loops: u64 = loops.expect("loops").parse().expect("a number");
        assert!((loops..loops + ROUNDS).contains(&(sleeps * ROUNDS)), "{args}");
        assert_eq!(pairing.theirs.cpus, [0, 1]);
        assert_eq!(pairing.skip, None, "{}", pairing.name);
    }
}

#[test]
fn other_machines_are_asked_for_what_they_have() {
    let one = pairings(&conditions("vm-granite-rapids", &[0], Preset::Thorough));
    for pairing in &one {
        assert_eq!(pairing.skip.is_some(), pairing.name.contains("others"), "{}", pairing.name);
        assert_eq!(pairing.theirs.cpus, [0]);
    }
    let many: Vec<usize> = (0..256).collect();
    let mut many = conditions("epyc-7763-2s", &many, Preset::Thorough);
    many.host.limits.cpu_quota = None;
    let all = pairings(&many);
    let others = all.iter().find(|pairing| pairing.name.contains("others")).expect("is there");
    assert_eq!((others.ours.cpus.len(), others.theirs.cpus.len()), (256, 256));
    let idle = &all[0];
    assert_eq!((&idle.ours.cpus[..], &idle.theirs.cpus[..]), (&[0][..], &[0, 1][..]));
}

/// Reasons of the pairings that are skipped, by name.
fn skipped(conditions: &Conditions) -> Vec<(String, Skip)> {
    let all = pairings(conditions).into_iter();
    all.filter_map(|pairing| Some((pairing.name, pairing.skip?))).collect()
}

#[test]
fn without_rights_it_is_skipped_with_the_way_out() {
    let mut user = conditions("vm-granite-rapids", &[1, 0], Preset::Standard);
    user.is_root = false;
    let limit = |soft| Some(Rlimit { soft, hard: None });
    user.host.limits.realtime_priority = limit(Some(0));
    let none = skipped(&user);
    assert_eq!(none.len(), 3);
    assert!(
        none.iter().all(|(_, skip)| skip.needed.as_ref().is_some_and(|way| way.contains("root")))
    );
    user.host.limits.realtime_priority = limit(Some(1));
    let (name, skip) = skipped(&user).remove(0);
    assert!(name.contains("fifo") && skip.needed.is_some_and(|way| way.contains("ulimit -r 80")));
    // The priority may be had, the device not.
    user.host.limits.realtime_priority = limit(None);
    let (name, skip) = skipped(&user).remove(0);
    assert!(name.contains("held-off") && skip.reason.contains("/dev/cpu_dma_latency"), "{name}");

    let mut never = conditions("vm-granite-rapids", &[1, 0], Preset::Standard);
    never.host.kernel.rt_runtime_us = Some(0);
    assert_eq!(skipped(&never).len(), 3);

    let mut polls = conditions("vm-granite-rapids", &[1, 0], Preset::Standard);
    polls.host.cpu.idle_states.clear();
    let (name, skip) = skipped(&polls).remove(0);
    assert!(name.contains("held-off") && skip.reason.contains("no idle states"), "{}", skip.reason);

    let mut half = conditions("vm-granite-rapids", &[1, 0], Preset::Standard);
    half.host.limits.cpu_quota = Some(CpuQuota { quota_us: 50_000, period_us: 100_000 });
    let (name, skip) = skipped(&half).remove(0);
    assert!(name.contains("same") && skip.reason.contains("quota of 0.50 CPUs"), "{}", skip.reason);
}

fn row(sleep: Sleep) -> Row {
    let conditions = conditions("vm-granite-rapids", &[1, 0], Preset::Standard);
    pairing(&conditions, sleep).rows.remove(0)
}

fn trace(round: u32, load: &'static str, rows: &[[f64; 2]]) -> Trace {
    let row = row(Sleep { load, ..PLAIN });
    Trace {
        series: "noise.wakeup/other-allowed".to_owned(),
        round,
        case: row.case,
        kind: "wakeups".to_owned(),
        columns: ["intended_ns", "actual_ns"].map(str::to_owned).into(),
        rows: rows.iter().map(|row| row.to_vec()).collect(),
        names: Default::default(),
        dropped: 0,
    }
}

#[test]
fn points_that_had_passed_are_left_out_of_plumbs_side() {
    let mut run = Run::new(analysis::sample::header());
    run.traces = vec![
        // The second came two spacings late: the third and the fourth had passed.
        trace(
            1,
            "idle",
            &[[100.0, 150.0], [200.0, 401.0], [300.0, 402.0], [400.0, 403.0], [500.0, 510.0]],
        ),
        trace(2, "idle", &[[100.0, 130.0]]),
        trace(1, "same", &[[100.0, 199.0]]),
    ];
    let row = row(PLAIN);
    // 10, 30, 50 and 201.
    assert_eq!(ranked(&run, &row, 0.0).expect("slept"), 10.0);
    assert_eq!(ranked(&run, &row, 0.5).expect("slept"), 50.0);
    assert_eq!(ranked(&run, &row, 0.99).expect("slept"), 201.0);
    run.traces[1].dropped = 1;
    assert!(ranked(&run, &row, 0.5).is_err(), "not all of them");
    run.traces.clear();
    assert!(ranked(&run, &row, 0.5).is_err(), "none");
}
