//! Records with accidental changes.

use record::codec::{self, read};
use record::event::Raw;
use record::run::Run;
use record::seal::{Damaged, Sealer, resealed};
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
    written("r1", &all)
}

/// Events as they are written, in a run of a name.
fn written(run: &str, values: &[Value]) -> Vec<String> {
    let mut sealer = Sealer::new(record::FORMAT);
    let lines = values.iter().map(|value| {
        let text = value.to_string().replace("\"run\":\"r1\"", &format!("\"run\":\"{run}\""));
        let event = codec::event(text.as_bytes()).expect("an event");
        let mut line = Vec::new();
        codec::write(&mut line, &mut sealer, &event).expect("written");
        String::from_utf8(line).expect("JSON is text")
    });
    lines.collect()
}

/// The events of lines.
fn values(lines: &[String]) -> Vec<Value> {
    let value = |line: &String| {
        let mut value: Value = serde_json::from_str(line).expect("JSON");
        for member in ["line", "crc"] {
            value.as_object_mut().expect("an object").remove(member).expect("is there");
        }
        value
    };
    lines.iter().map(value).collect()
}

/// What a reader names of lines.
fn named(lines: &[String]) -> Vec<(usize, String)> {
    let run = read(lines.concat().as_bytes()).expect("the rest is read").run;
    run.damaged.into_iter().map(|Damaged { line, lost }| (line, lost)).collect()
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
        assert_eq!(run.damaged.first().map(|damaged| damaged.line), Some(before + 1), "{at}");
        // A changed newline joins two lines: one that is damaged, and one that is missing, with the
        // plan that this record never had.
        let joins = whole[at] == b'\n' && before + 2 < lines.len();
        assert_eq!(run.damaged.len(), if joins { 3 } else { 1 }, "{at}");
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
    let whole = resealed(&lines.concat());
    assert!(read(whole.as_bytes()).expect("reads").run.damaged.is_empty());
}

#[test]
fn a_record_of_nothing_but_damage_is_refused() {
    let whole = lines();
    let many = |count: usize| [whole.concat(), "x\n".repeat(count)].concat();
    assert_eq!(read(many(1000).as_bytes()).expect("a record").run.damaged.len(), 1000);
    let more = read(many(1001).as_bytes()).expect("a record").run.damaged;
    let lost = "1001 lines that are damaged or of another record".to_owned();
    assert_eq!(more, [Damaged { line: whole.len() + 1, lost }]);
    let mut values = values(&whole);
    values.extend(std::iter::repeat_n(values[7].clone(), 1001));
    let alternating = written("r1", &values).join("x\n");
    assert!(read(alternating.as_bytes()).is_err(), "a thousand places");
}

#[test]
fn lines_that_are_missing_are_counted_with_what_they_cost() {
    let lines = lines();
    let mut values = values(&lines);
    // A second round of each, of which the last lines are taken.
    let again = [2, 3, 4, 5, 6].map(|at| {
        let mut value = values[at].clone();
        for name in ["n", "round"] {
            value.get_mut(name).into_iter().for_each(|n| *n = json!(2));
        }
        value
    });
    let third = values[4..7].iter().cloned().map(|mut value| {
        for name in ["n", "round"] {
            value.get_mut(name).into_iter().for_each(|n| *n = json!(3));
        }
        value
    });
    let further: Vec<Value> = again.into_iter().chain(third).collect();
    values.splice(7..7, further);
    let whole = written("r1", &values);
    assert_eq!(named(&whole), []);
    let without = |gone: std::ops::Range<usize>| {
        let mut lines = whole.clone();
        lines.drain(gone);
        named(&lines)
    };
    let no_plan =
        "with the lines that are missing: the plan, and with it what is known of each figure";
    // One samples line: of its round the other line counts.
    assert_eq!(without(3..4), [(4, "1 line before it".to_owned()), (4, no_plan.to_owned())]);
    let rounds = format!("{no_plan}; round 2 of a.b; round 2 of c.d/e");
    assert_eq!(without(7..12), [(8, "5 lines before it".to_owned()), (8, rounds)]);
    let mut cut = whole.clone();
    cut.drain(2..3);
    let run = read(cut.concat().as_bytes()).expect("reads").run;
    assert_eq!(held(&run)[0][0], "a.b rate 81.5", "the rest of the round counts");
    let mut damaged = whole.clone();
    damaged[3] = "x\n".to_owned();
    damaged.drain(4..5);
    let lost: Vec<(usize, String)> = named(&damaged);
    assert_eq!(lost[..2], [(4, "an unknown event".to_owned()), (5, "1 line before it".to_owned())]);
}

#[test]
fn lines_that_are_there_twice_or_of_another_record_change_nothing() {
    let whole = lines();
    let expected = held(&read(whole.concat().as_bytes()).expect("a record").run);
    let foreign = written("r2", &values(&whole));
    let check = |lines: Vec<String>, line: usize, lost: &str| {
        assert_eq!(named(&lines), [(line, format!("nothing: {lost}"))]);
        let run = read(lines.concat().as_bytes()).expect("the rest is read").run;
        assert_eq!(held(&run), expected);
    };
    let put = |at: usize, more: &[String]| {
        let mut lines = whole.clone();
        lines.splice(at..at, more.to_vec());
        lines
    };
    check(put(4, &whole[3..4]), 5, "1 line with the numbers of earlier ones");
    check(put(8, &whole[2..8]), 9, "6 lines with the numbers of earlier ones");
    check(put(3, &foreign[2..7]), 4, "5 lines of another record");
    // In place of the end it cannot be known whether they are damaged.
    let mut other = put(8, &foreign[2..]);
    other.pop();
    assert_eq!(named(&other).len(), 7);
    // A whole record behind this one is no damage of lines.
    let both = [whole.concat(), foreign.concat()].concat();
    let refused = read(both.as_bytes()).expect_err("two records").to_string();
    assert!(refused.contains("line 10") && refused.contains("another record"), "{refused}");
}

#[test]
fn a_second_name_of_an_event_is_an_error() {
    let named = |more: &str| {
        let line = format!(
            r#"{{"event":"round",{more}"series":"a","n":1,"segment":0,"at_s":1.0,
            "window_ns":1.0,"status":"ok","cpus":[],"environment":{{}},"disturbed":[]}}"#
        );
        codec::event(line.as_bytes())
    };
    assert!(named("").is_ok());
    assert!(named(r#""more":{"event":1},"of":"event","#).is_ok());
    for second in [r#""event":"round","#, r#""event" : "plan","#] {
        let error = named(second).expect_err("is an error").to_string();
        assert!(error.contains("duplicate field `event`"), "{error}");
    }
}

#[test]
fn a_record_of_the_format_before_has_no_numbers() {
    let mut values = values(&lines());
    values[0]["format"] = json!(record::FORMAT - 1);
    let text = resealed(&values.iter().map(|value| format!("{value}\n")).collect::<String>());
    assert!(!text.contains("\"line\":"));
    let recording = read(text.as_bytes()).expect("a record");
    assert_eq!(recording.run.damaged, []);
    let mut more = text.clone().into_bytes();
    let last = codec::event(values[8].to_string().as_bytes()).expect("an event");
    codec::write(&mut more, &mut { recording.sealer }, &last).expect("written");
    assert!(!String::from_utf8_lossy(&more).contains("\"line\":"), "as in the lines before");
    assert_eq!(read(more.as_slice()).expect("a record").run.damaged, []);
    let changed = text.replacen("81.5", "81.25", 1);
    let damaged = read(changed.as_bytes()).expect("a record").run.damaged;
    assert_eq!(damaged.iter().map(|damaged| damaged.line).collect::<Vec<_>>(), [4]);
}

#[test]
fn what_is_appended_to_a_record_goes_on_with_its_numbers() {
    let whole = lines();
    let mut recording = read(whole[..7].concat().as_bytes()).expect("a record");
    let mut text = whole[..7].concat().into_bytes();
    for value in &values(&whole)[7..] {
        let event = codec::event(value.to_string().as_bytes()).expect("an event");
        codec::write(&mut text, &mut recording.sealer, &event).expect("written");
    }
    assert_eq!(text, whole.concat().into_bytes());
}

#[test]
fn clocks_are_those_of_the_first_part_that_had_any() {
    let lines = lines();
    let mut segment: Value = serde_json::from_str(&lines[1]).expect("JSON");
    segment["source"] = json!("cntvct");
    let segment = json!({"event": "segment", "n": 1, "started": "", "environment": {},
        "calibration": segment});
    let source = |values: &[Value]| {
        let run = read(written("r1", values).concat().as_bytes()).expect("a record").run;
        run.header.calibration.source
    };
    let [header, clocks] = [0, 1].map(|at| values(&lines)[at].clone());
    assert_eq!(source(std::slice::from_ref(&header)), "");
    assert_eq!(source(&[header.clone(), segment.clone()]), "cntvct");
    assert_eq!(source(&[header, clocks, segment]), "tsc");
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
        ("{\"event\":\"header\",\"format\":5}\n", "line 1 is damaged"),
        ("{\"event\":\"header\",\"format\":5,!}\n", "line 1 is damaged"),
        ("{\"evint\":\"header\",\"line\":1,\"crc\":\"00000000\"}\n", "line 1 is damaged"),
    ] {
        let error = read(bytes.as_bytes()).expect_err("it is no record");
        assert!(error.to_string().contains(told), "{bytes:?}: {error}");
    }
}
