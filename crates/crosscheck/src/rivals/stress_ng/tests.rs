use super::{RIVAL, mean_cpu_time};
use crate::read::line as parse;
use crate::tests::{conditions, reads, refuses, said, text, versions};
use crate::{Conditions, Goal, Output, Pairing};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;
use record::event::{Raw, Samples};
use record::key::CaseId;

const FORK: &str = "stress-ng: {..} fork {n} {n} {n} {n} {1e9/x} {n} {..}";
const VFORK: &str = "stress-ng: {..} vfork {n} {n} {n} {n} {1e9/x} {n} {..}";
const PTHREAD: &str = "stress-ng: {..} pthread {n} {n} {n} {n} {n} {1e9/x} {..}";
const FAULT: &str = "stress-ng: {..} fault {x} nanosecs per page fault {..}";
const CONTEXT: &str = "stress-ng: {..} context {1e9/x} swapcontext calls per sec {..}";

#[test]
fn rates_of_three_versions_are_read() {
    let told = [
        ("0.12.06-fork.txt", FORK, 1e9 / 2094.91),
        ("0.15.06-fork.txt", FORK, 1e9 / 4594.69),
        ("0.19.02-fork.txt", FORK, 1e9 / 1056.89),
        ("0.12.06-vfork.txt", VFORK, 1e9 / 1154.97),
        ("0.15.06-vfork.txt", VFORK, 1e9 / 57887.45),
        ("0.19.02-vfork.txt", VFORK, 1e9 / 1160.86),
        ("0.12.06-pthread.txt", PTHREAD, 1e9 / 14908.06),
        ("0.15.06-pthread.txt", PTHREAD, 1e9 / 7686.09),
        ("0.19.02-pthread.txt", PTHREAD, 1e9 / 15940.80),
        ("0.15.06-fault.txt", FAULT, 2231.65),
        ("0.19.02-fault.txt", FAULT, 2875.65),
        ("0.15.06-context.txt", CONTEXT, 1e9 / 4702312.90),
        ("0.19.02-context.txt", CONTEXT, 1e9 / 1428549.87),
    ];
    reads(&RIVAL, &told);
}

#[test]
fn what_it_says_on_either_stream_counts() {
    let text = text(&RIVAL, "0.15.06-fork.txt");
    let on_error = Output { stderr: text.clone(), ..Output::default() };
    assert_eq!(parse(&said(&text), FORK), parse(&on_error, FORK));
}

#[test]
fn what_is_broken_is_an_error() {
    for (file, what) in [
        ("0.15.06-fork.txt", FORK),
        ("0.19.02-pthread.txt", PTHREAD),
        ("0.15.06-fault.txt", FAULT),
        ("0.19.02-context.txt", CONTEXT),
    ] {
        let whole = text(&RIVAL, file);
        refuses(&RIVAL, what, &["", &whole[..whole.len() / 4], &whole.replace('.', "x")]);
    }
    // What this version does not tell; another stressor's line, one whose name only begins alike.
    refuses(&RIVAL, FAULT, &[&text(&RIVAL, "0.12.06-fault.txt")]);
    refuses(&RIVAL, CONTEXT, &[&text(&RIVAL, "0.12.06-context.txt")]);
    refuses(&RIVAL, &FORK.replace("fork", "for"), &[&text(&RIVAL, "0.15.06-fork.txt")]);
    let none = "stress-ng: metrc: [1] fork 0 1.00 0.00 0.00 0.00 0.00 0.00 2584\n";
    refuses(&RIVAL, FORK, &[&text(&RIVAL, "0.15.06-vfork.txt"), none]);
}

#[test]
fn versions_are_told() {
    let files = ["0.12.06", "0.15.06", "0.19.02"];
    for version in files {
        versions(&RIVAL, &[(&format!("{version}-version.txt"), version)], &[]);
    }
    versions(&RIVAL, &[], &[("stress 1.0.5", None)]);
}

fn offered(version: &str, preset: Preset) -> Vec<Pairing> {
    let mut conditions = conditions(&recorded("vm-granite-rapids"), preset, 1);
    conditions.version = version.to_owned();
    (RIVAL.pairings)(&conditions)
}

#[test]
fn presets_choose_and_a_rehearsal_is_short() {
    for (preset, number) in
        [(Preset::Rehearsal, 2), (Preset::Quick, 2), (Preset::Standard, 5), (Preset::Thorough, 5)]
    {
        let all = offered("0.15.06", preset);
        assert_eq!(all.len(), number, "{}", preset.name());
        let is_steady = all.iter().any(|one| one.ours.setting("steady").is_some());
        assert_eq!(!is_steady, preset == Preset::Rehearsal);
    }
}

#[test]
fn a_version_is_held_to_what_plumb_imitates() {
    let goal = |version: &str, name: &str| {
        let all = offered(version, Preset::Standard);
        let one = all.into_iter().find(|one| one.name == name);
        one.expect("standard has all").rows[0].goal
    };
    assert_eq!(goal("0.15.06", "fork"), Goal::Agree);
    assert_eq!(goal("0.12.06", "fork"), Goal::Explained);
    assert_eq!(goal("0.19.02", "fork"), Goal::Explained);
    assert_eq!(goal("0.12.06", "pthread"), Goal::Explained);
    assert_eq!(goal("0.15.06", "pthread"), Goal::Agree);
    for version in ["0.12.06", "0.15.06", "0.19.02"] {
        assert_eq!(goal(version, "vfork"), Goal::Agree);
        assert_eq!(goal(version, "context"), Goal::Explained);
        let skipped: Vec<String> = offered(version, Preset::Standard)
            .into_iter()
            .filter(|one| one.skip.is_some())
            .map(|one| one.name)
            .collect();
        let expected: &[&str] = if version == "0.12.06" { &["fault", "context"] } else { &[] };
        assert_eq!(skipped, expected);
    }
}

#[test]
fn without_a_directory_faults_are_skipped() {
    let mut conditions = conditions(&recorded("vm-granite-rapids"), Preset::Standard, 1);
    conditions.in_memory = None;
    let fault = |conditions: &Conditions| {
        let all = (RIVAL.pairings)(conditions);
        all.into_iter().find(|one| one.name == "fault").expect("it is offered")
    };
    let on_disk = fault(&conditions);
    assert_eq!(on_disk.ours.dir, conditions.files);
    assert_eq!(on_disk.theirs.args.last().map(String::as_str), Some("/tmp/files"));
    conditions.files = None;
    assert!(fault(&conditions).skip.is_some());
}

#[test]
fn cpu_time_is_the_mean_of_the_rows_rounds() {
    let all = offered("0.15.06", Preset::Standard);
    let pthread = all.iter().find(|one| one.name == "pthread");
    let row = &pthread.expect("standard has it").rows[0];
    let samples = |case: CaseId, metric: &str, cpu_time: Option<f64>| {
        let raw = Raw::Event { values: vec![1.0] };
        let cpu_time = cpu_time.map(|ns| ("cpu_time_per_thread_ns".to_owned(), ns));
        Samples {
            quantities: cpu_time.into_iter().collect(),
            ..Samples::new("os.thread/crowd", 1, case, metric, raw)
        }
    };
    let other = CaseId::new().with("pair", "same").with("stack", "bare");
    let mut rounds = vec![
        samples(row.case.clone(), "create_join", Some(100.0)),
        samples(row.case.clone(), "create_join", Some(130.0)),
        samples(row.case.clone(), "return", Some(7.0)),
        samples(other, "create_join", Some(9.0)),
    ];
    assert_eq!(mean_cpu_time(&rounds, row).expect("two rounds"), 115.0);
    assert!(mean_cpu_time(&rounds[2..], row).is_err());
    rounds.push(samples(row.case.clone(), "create_join", None));
    assert!(mean_cpu_time(&rounds, row).is_err());
}
