use super::{RIVAL, mean_cpu_time, parse};
use crate::tests::{close, conditions, said};
use crate::{Conditions, Goal, Output, Pairing};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;
use record::event::{Raw, Samples};
use record::key::CaseId;

/// A recorded output by version and stressor.
macro_rules! output {
    ($version:literal, $stressor:literal) => {
        said(include_str!(concat!("../../testdata/stress-ng/", $version, "-", $stressor, ".txt")))
    };
}

#[test]
fn rates_of_three_versions_are_read() {
    close(parse(&output!("0.12.06", "fork"), "fork real"), 1e9 / 2094.91);
    close(parse(&output!("0.15.06", "fork"), "fork real"), 1e9 / 4594.69);
    close(parse(&output!("0.19.02", "fork"), "fork real"), 1e9 / 1056.89);
    close(parse(&output!("0.12.06", "vfork"), "vfork real"), 1e9 / 1154.97);
    close(parse(&output!("0.15.06", "vfork"), "vfork real"), 1e9 / 57887.45);
    close(parse(&output!("0.19.02", "vfork"), "vfork real"), 1e9 / 1160.86);
    close(parse(&output!("0.12.06", "pthread"), "pthread cpu"), 1e9 / 14908.06);
    close(parse(&output!("0.15.06", "pthread"), "pthread cpu"), 1e9 / 7686.09);
    close(parse(&output!("0.19.02", "pthread"), "pthread cpu"), 1e9 / 15940.80);
}

#[test]
fn times_of_their_own_are_read_or_missed() {
    close(parse(&output!("0.15.06", "fault"), "fault ns"), 2231.65);
    close(parse(&output!("0.19.02", "fault"), "fault ns"), 2875.65);
    close(parse(&output!("0.15.06", "context"), "context each"), 1e9 / 4702312.90);
    close(parse(&output!("0.19.02", "context"), "context each"), 1e9 / 1428549.87);
    assert!(parse(&output!("0.12.06", "fault"), "fault ns").is_err());
    assert!(parse(&output!("0.12.06", "context"), "context each").is_err());
}

#[test]
fn what_it_says_on_standard_error_counts_too() {
    let output = output!("0.15.06", "fork");
    let other = Output { stderr: output.stdout, ..Output::default() };
    close(parse(&other, "fork real"), 1e9 / 4594.69);
}

#[test]
fn what_is_broken_is_an_error() {
    let whole = [
        (output!("0.15.06", "fork"), "fork real"),
        (output!("0.19.02", "pthread"), "pthread cpu"),
        (output!("0.15.06", "fault"), "fault ns"),
        (output!("0.19.02", "context"), "context each"),
    ];
    for (output, what) in whole {
        assert!(parse(&output, what).is_ok());
        assert!(parse(&Output::default(), what).is_err(), "{what}");
        let half = said(&output.stdout[..output.stdout.len() / 4]);
        assert!(parse(&half, what).is_err(), "{what}");
        let garbled = said(&output.stdout.replace('.', "x"));
        assert!(parse(&garbled, what).is_err(), "{what}");
    }
    // Another stressor's line is not its own, nor one whose name only begins alike.
    assert!(parse(&output!("0.15.06", "vfork"), "fork real").is_err());
    assert!(parse(&output!("0.15.06", "fork"), "for real").is_err());
    let none = "stress-ng: metrc: [1] fork 0 1.00 0.00 0.00 0.00 0.00 0.00 2584\n";
    assert!(parse(&said(none), "fork real").is_err());
}

#[test]
fn versions_are_told() {
    let of = |output: Output| (RIVAL.version)(&output);
    assert_eq!(of(output!("0.12.06", "version")).as_deref(), Some("0.12.06"));
    assert_eq!(of(output!("0.15.06", "version")).as_deref(), Some("0.15.06"));
    assert_eq!(of(output!("0.19.02", "version")).as_deref(), Some("0.19.02"));
    assert_eq!(of(said("stress 1.0.5")), None);
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
        let steady = all.iter().flat_map(|one| &one.ours.set).filter(|(name, _)| *name == "steady");
        assert_eq!(steady.count() == 0, preset == Preset::Rehearsal);
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
