//! Records with accidental changes.

use record::codec::{self, read};
use record::event::Raw;
use record::run::Run;
use record::seal::{Damaged, Seal, check, resealed};
use serde_json::{Value, json};

/// A record of two series with a round each.
fn lines() -> Vec<String> {
    let samples = |series: &str, metric: &str, value: f64| {
        json!({"event": "samples", "series": series, "round": 1, "case": {"n": 2}, "metric": metric,
            "of": "batch", "k": 4, "values": [value], "core_hz": 2.5e9})
    };
    let round = |series: &str| {
        json!({"event": "round", "series": series, "n": 1, "segment": 0, "at_s": 1.5,
            "window_ns": 1e6, "status": "ok", "cpus": [1], "environment": {"steal_ns": 10.0},
            "disturbed": []})
    };
    let header = json!({"event": "header", "format": record::FORMAT, "plumb": "0.1.0", "rustc": "",
        "profile": "release", "target": "", "target_features": "", "run": "r1", "started": "",
        "seed": 1, "cpus": [1], "identity": "i", "host": null, "environment": {},
        "options": {"selectors": [], "preset": "quick", "budget_s": 60.0, "precision": 0.02,
            "set": [], "cpus": null, "dir": null}});
    let calibration = json!({"event": "calibration", "source": "tsc", "counter_hz": 1e9,
        "counter_error": 0.0, "windows_hz": [], "resolution_ns": 1.0, "pair_cost_ns": 1.0,
        "vdso_falls_back": false, "core_hz": 1e9, "core_source": "chains", "multiply_cycles": null,
        "cpu": 0, "notes": []});
    let outcome = json!({"event": "outcome", "experiment": "a.b", "case": {"n": 2},
        "outcome": "measured", "reason": null});
    let footer = json!({"event": "footer", "finished": "", "elapsed_s": 61.5, "end": "complete",
        "counter_drift": 1e-9, "eta_after_first_pass_s": null, "session_cpu_s": 0.5,
        "session_peak_bytes": 4096});
    let all = [
        header,
        calibration,
        samples("a.b", "cost", 12.25),
        samples("a.b", "rate", 81.5),
        round("a.b"),
        samples("c.d/e", "cost", 7.5),
        round("c.d/e"),
        outcome,
        footer,
    ];
    all.iter().map(line).collect()
}

/// An event as it is written.
fn line(value: &Value) -> String {
    let event = codec::event(value.to_string().as_bytes()).expect("an event");
    let mut line = Vec::new();
    codec::write(&mut line, &event).expect("written");
    assert_eq!(check(&line), Seal::Intact);
    String::from_utf8(line).expect("JSON is text")
}

/// What a run holds, by name.
fn held(run: &Run) -> [Vec<String>; 3] {
    let value = |raw: &Raw| match raw {
        Raw::Batch { values, .. } => values[0],
        _ => f64::NAN,
    };
    let samples = run.samples.iter();
    let samples = samples.map(|of| format!("{} {} {}", of.series, of.metric, value(&of.raw)));
    let rounds = run.rounds.iter().map(|of| of.series.clone());
    let ends = run.outcomes.iter().map(|of| of.experiment.clone());
    let ends = ends.chain(run.footer.as_ref().map(|footer| footer.elapsed_s.to_string()));
    [samples.collect(), rounds.collect(), ends.collect()]
}

#[test]
fn a_changed_digit_costs_its_line_and_is_named() {
    let lines = lines();
    let [a_cost, a_rate, c_cost] = ["a.b cost 12.25", "a.b rate 81.5", "c.d/e cost 7.5"];
    let all = (vec![a_cost, a_rate, c_cost], vec!["a.b", "c.d/e"], vec!["a.b", "61.5"]);
    let whole = read(lines.concat().as_bytes()).expect("a record").run;
    let of = |run: &Run, (samples, rounds, ends): &(Vec<&str>, Vec<&str>, Vec<&str>)| {
        assert_eq!(held(run), [samples, rounds, ends].map(|of| of.to_vec()));
    };
    of(&whole, &all);
    assert!(whole.damaged.is_empty() && whole.header.calibration.source == "tsc");
    let (samples, rounds, ends) = all.clone();
    // The line, what begins the digit that is changed, what the rest holds, and what is named.
    for (number, digit, rest, lost) in [
        (1, "budget_s\":", all.clone(), "header"),
        (2, "counter_hz\":", all.clone(), "calibration"),
        (
            3,
            "values\":[",
            (vec![a_rate, c_cost], rounds.clone(), ends.clone()),
            r#"samples (series a.b, case {"n":2}, metric cost, round 1)"#,
        ),
        (5, "at_s\":", (vec![c_cost], vec!["c.d/e"], ends.clone()), "round (series a.b, n 1)"),
        (
            7,
            "status\":\"",
            (vec![a_cost, a_rate], vec!["a.b"], ends.clone()),
            "round (series c.d/e, n 1)",
        ),
        (
            8,
            "\"n\":",
            (samples.clone(), rounds.clone(), vec!["61.5"]),
            r#"outcome (experiment a.b, case {"n":3})"#,
        ),
        (9, "elapsed_s\":", (samples, rounds, vec!["a.b"]), "footer"),
    ] {
        let mut changed = lines.clone();
        let text = &mut changed[number - 1];
        let at = text.find(digit).expect("the digit's name") + digit.len();
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        *text = String::from_utf8(bytes).expect("ASCII");
        let recording = read(changed.concat().as_bytes()).expect("the rest is read");
        let damaged = Damaged { line: number, lost: lost.to_owned() };
        assert_eq!(recording.run.damaged, [damaged]);
        of(&recording.run, &rest);
        assert!(!recording.torn && recording.whole_bytes == changed.concat().len() as u64);
    }
}

#[test]
fn every_changed_byte_of_a_later_line_is_found() {
    let lines = lines();
    let first = lines[0].len();
    let whole = lines.concat().into_bytes();
    for at in first..whole.len() - 1 {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let run = read(changed.as_slice()).expect("the rest is read").run;
        let before = whole[..at].iter().filter(|byte| **byte == b'\n').count();
        // A changed newline joins two lines.
        assert_eq!(run.damaged.first().map(|damaged| damaged.line), Some(before + 1), "{at}");
        assert_eq!(run.damaged.len(), 1, "{at}");
    }
}

#[test]
fn a_line_without_its_checksum_is_damaged_since_there_are_checksums() {
    let bare = |line: &str| {
        let mut value: Value = serde_json::from_str(line).expect("JSON");
        value.as_object_mut().expect("an object").remove("crc").expect("a checksum");
        value.to_string() + "\n"
    };
    let mut lines = lines();
    lines[3] = bare(&lines[3]);
    let run = read(lines.concat().as_bytes()).expect("the rest is read").run;
    assert_eq!(run.damaged.iter().map(|damaged| damaged.line).collect::<Vec<_>>(), [4]);
    lines[3] = resealed(&lines[3]);
    assert!(read(lines.concat().as_bytes()).expect("reads").run.damaged.is_empty());
}

#[test]
fn a_record_of_nothing_but_damage_is_refused() {
    let mut text = lines().concat();
    text.push_str(&"x\n".repeat(1000));
    assert_eq!(read(text.as_bytes()).expect("a record").run.damaged.len(), 1000);
    text.push_str("x\n");
    assert!(read(text.as_bytes()).is_err());
}

#[test]
fn clocks_are_those_of_the_first_part_that_had_any() {
    let lines = lines();
    let mut segment: Value = serde_json::from_str(&lines[1]).expect("JSON");
    segment["source"] = json!("cntvct");
    let segment = json!({"event": "segment", "n": 1, "started": "", "environment": {},
        "calibration": segment});
    let source = |lines: &[String]| {
        let run = read(lines.concat().as_bytes()).expect("a record").run;
        run.header.calibration.source
    };
    assert_eq!(source(&lines[..1]), "");
    assert_eq!(source(&[lines[0].clone(), line(&segment)]), "cntvct");
    assert_eq!(source(&[lines[0].clone(), lines[1].clone(), line(&segment)]), "tsc");
}

#[test]
fn what_is_no_record_is_told_apart() {
    let newer = format!("{{\"event\":\"header\",\"format\":{}}}\n", record::FORMAT + 1);
    for (bytes, told) in [
        ("", "empty"),
        ("{\"event\":\"hea", "empty"),
        ("{\"event\":\"plan\"}\n", "not a plumb record"),
        ("{\"a\":1}", "not a plumb record"),
        ("\u{0}\u{1}\u{2}\n", "not a plumb record"),
        ("[]\n", "not a plumb record"),
        (newer.as_str(), "newer plumb"),
        ("{\"event\":\"header\",\"format\":4}\n", "of a development version"),
        ("{\"event\":\"header\",\"format\":5}\n", "line 1 is corrupt"),
    ] {
        let error = read(bytes.as_bytes()).expect_err("it is no record");
        assert!(error.to_string().contains(told), "{bytes:?}: {error}");
    }
}
