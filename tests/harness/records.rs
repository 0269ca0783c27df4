//! Records of odd runs, each made from the lines of a real one.

use serde_json::{Value, json};

/// What a program that cares for nothing would take for elements, scripts, links, commands,
/// formulas and ends of whatever it stands in. What it plants has the class `planted`; what it runs
/// sets `planted`.
pub const HOSTILE: &str = concat!(
    "</script></style></title></textarea>--><img class=planted src=x onerror=\"window.planted=1\">",
    "<svg class=planted onload=\"window.planted=2\"></svg><b class=planted>bold</b>",
    "<a class=planted href=\"https://planted.invalid/\">link</a>",
    "<a class=planted href='javascript:window.planted=3'>script</a>",
    "'\"&lt;&#60;|`*_~[link](https://planted.invalid/)\\${planted}%{x}\u{2028}\u{1b}[31mred\u{7}\r\n# heading\n=1+1",
    "\u{1b}]0;planted\u{7}\u{1b}]8;;https://planted.invalid/\u{1b}\\\u{8}\u{9b}2J\u{85}\u{202e}\u{2066}",
);

/// Whether a terminal does as this sign says, or other text is read in another order for it: a
/// control character that is no line's end, or one that turns the direction of text around.
pub fn commands(sign: char) -> bool {
    let turns = matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (sign.is_control() && sign != '\n')
}

type Events = Vec<Value>;

fn of_kind<'run>(events: &'run mut [Value], kind: &str) -> impl Iterator<Item = &'run mut Value> {
    events.iter_mut().filter(move |event| event["event"] == kind)
}

pub fn experiments(events: &mut [Value]) -> &mut Vec<Value> {
    let plan = of_kind(events, "plan").next().expect("a run has a plan");
    plan["experiments"].as_array_mut().expect("experiments are a list")
}

pub fn ids(events: &[Value]) -> Vec<String> {
    let mut events = events.to_vec();
    let id = |planned: &Value| planned["id"].as_str().expect("an id is text").to_owned();
    experiments(&mut events).iter().map(id).collect()
}

/// The experiment that an event is about; none for those of the whole run.
fn about(event: &Value) -> Option<&str> {
    let series = event["series"].as_str().and_then(|label| label.split('/').next());
    event["experiment"].as_str().or(series)
}

pub fn only(mut events: Events, fits: impl Fn(&str) -> bool) -> Events {
    experiments(&mut events).retain(|planned| fits(planned["id"].as_str().unwrap_or_default()));
    events.retain(|event| about(event).is_none_or(&fits));
    events
}

/// Each round so many times over, with samples that differ by a few percent: figures with
/// intervals.
pub fn repeated(events: Events, times: u32) -> Events {
    let mut made = Vec::new();
    let mut pending: Events = Vec::new();
    for event in events {
        match event["event"].as_str() {
            Some("samples" | "trace" | "histogram") => pending.push(event),
            Some("round") => {
                pending.push(event);
                for n in 1..=times {
                    let factor = 1.0 + 0.01 * f64::from(n % 5);
                    let first_only = |event: &&Value| n == 1 || event["event"] != "trace";
                    made.extend(pending.iter().filter(first_only).map(|event| {
                        let mut event = event.clone();
                        let key = if event["event"] == "round" { "n" } else { "round" };
                        event[key] = json!(n);
                        for values in ["values", "n", "two_n"] {
                            // The number of a round has the name of a list of a quartet.
                            if event["event"] == "samples" && event[values].is_array() {
                                scale(&mut event[values], factor);
                            }
                        }
                        event
                    }));
                }
                pending.clear();
            }
            _ => made.push(event),
        }
    }
    made
}

fn scale(values: &mut Value, factor: f64) {
    for value in values.as_array_mut().into_iter().flatten() {
        *value = json!(value.as_f64().unwrap_or_default() * factor);
    }
}

/// Every sample of a metric is this value: so is its figure.
pub fn set_samples(
    events: &mut [Value],
    experiment: &str,
    metric: &str,
    value: &dyn Fn(&Value) -> f64,
) {
    for event in of_kind(events, "samples") {
        if about(event) != Some(experiment) || event["metric"] != metric {
            continue;
        }
        let value = value(&event["case"]);
        let fill = |list: &mut Value, value: f64| {
            list.as_array_mut().into_iter().flatten().for_each(|old| *old = json!(value));
        };
        if event["of"] == "quartets" {
            let k = event["k"].as_f64().unwrap_or_default();
            fill(&mut event["n"], 2.0 * k * value);
            fill(&mut event["two_n"], 4.0 * k * value);
        } else {
            fill(&mut event["values"], value);
        }
    }
}

/// Samples that a metric should not have, in the order of its events: nothing, less than nothing,
/// nearly nothing, and more than there is.
pub fn strange_samples(events: &mut [Value], experiment: &str, metric: &str) {
    let strange = [0.0, -5.0, 1e-12, 1e15];
    let next = std::cell::Cell::new(0);
    set_samples(events, experiment, metric, &|_| {
        next.set(next.get() + 1);
        strange[(next.get() - 1) % strange.len()]
    });
}

/// One transfer between the CPUs of each pair, `time_ns(from, to)` each, in place of what
/// `cpu.core_to_core` measured.
pub fn with_matrix(
    events: Events,
    pairs: &[(usize, usize)],
    time_ns: impl Fn(usize, usize) -> f64,
) -> Events {
    let mut events = only(events, |id| id == "cpu.core_to_core" || id.starts_with("clock."));
    let case = |(from, to): &(usize, usize)| json!({"from": from, "to": to});
    let label = "cpu.core_to_core/classes";
    let ours = experiments(&mut events)
        .iter_mut()
        .find(|planned| planned["id"] == "cpu.core_to_core")
        .expect("it was measured");
    let series = ours["series"].as_array_mut().expect("a list");
    series.retain(|series| series["name"] == "classes");
    series[0]["cases"] = pairs.iter().map(case).collect();
    let at = events
        .iter()
        .position(|event| event["event"] == "round" && event["series"] == label)
        .expect("it was measured");
    let round = events[at].clone();
    let footer = events.pop();
    events.retain(|event| about(event) != Some("cpu.core_to_core"));
    events.extend(pairs.iter().map(|pair| {
        json!({"event": "samples", "series": label, "round": 1, "case": case(pair),
            "metric": "transfer", "of": "event", "values": [time_ns(pair.0, pair.1)], "core_hz": null})
    }));
    events.push(round);
    events.extend(pairs.iter().map(|pair| {
        json!({"event": "outcome", "experiment": "cpu.core_to_core", "case": case(pair),
            "outcome": "measured", "reason": null})
    }));
    events.extend(footer);
    events
}

/// Whether free text stands here, which may be anything; other text is joined on or one of a few
/// words.
fn is_free(path: &[&str]) -> bool {
    let within = |names: &[&str]| path.iter().any(|step| names.contains(step));
    match path {
        [
            "header",
            "run" | "rustc" | "plumb" | "profile" | "target" | "target_features" | "build",
            ..,
        ] => true,
        ["header", "options", "selectors" | "set" | "cpus" | "dir", ..] => true,
        ["header" | "segment", "host" | "environment", ..] => true,
        ["header", "peers", ..] => !within(&["calibration"]),
        ["plan", "experiments", ..] => within(&["title", "manual", "doc", "reason", "needed"]),
        ["prediction", "because"] | ["prediction", "bound", "rule"] => true,
        ["outcome", "reason"] => true,
        ["round", "disturbed", ..] | ["round", "failed", _, "reason"] | ["round", "reason"] => true,
        ["samples" | "derived", "notes", ..] => true,
        ["trace", "names", ..] => true,
        _ => within(&["case", "cases", "at"]),
    }
}

/// This text after every text of the record that may be anything: the machine, the environment,
/// titles, manuals, reasons, notes, names in traces, and the symbols of cases.
pub fn appended(mut events: Events, text: &str) -> Events {
    for event in &mut events {
        let kind = event["event"].as_str().unwrap_or_default().to_owned();
        append(event, &mut vec![kind], text);
    }
    events
}

fn append(value: &mut Value, path: &mut Vec<String>, text: &str) {
    match value {
        Value::String(own) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            if is_free(&path) {
                own.push_str(text);
            }
        }
        Value::Array(items) => {
            for item in items {
                path.push("*".to_owned());
                append(item, path, text);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields.iter_mut() {
                path.push(name.clone());
                append(item, path, text);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The record with a name changed wherever it stands, as an id, in labels and in keys.
pub fn renamed(events: &[Value], name: &str, new: &str) -> Events {
    let new = json!(new).to_string();
    let new = &new[1..new.len() - 1];
    events
        .iter()
        .map(|event| {
            let line = event.to_string();
            let line = line.replace(&format!("\"{name}\""), &format!("\"{new}\""));
            let line = line.replace(&format!("\"{name}/"), &format!("\"{new}/"));
            serde_json::from_str(&line).expect("only text was changed")
        })
        .collect()
}

/// The events of a made-up crosscheck: two goals that are met, one that is missed, a figure that is
/// explained, a pairing that failed, and a tool that is not here.
pub fn crosscheck() -> Events {
    let row = |goal: &str| {
        json!({"name": "", "experiment": "os.syscall", "case": {"call": "getppid"}, "metric": "latency",
               "statistic": "value", "unit": "ns", "goal": goal, "difference": "it counts interrupts"})
    };
    let rival = |name: &str, absent: Value| {
        json!({"event": "rival", "name": name, "about": "what people use", "package": "a-package",
               "version": "1.2", "absent": absent})
    };
    let mut events = vec![rival("perf", Value::Null)];
    for (name, goal, ratio, turns) in [
        ("basic", "agree", 1.01, 9),
        ("pipe", "at_most", 1.3, 9),
        ("copy", "at_least", 1.2, 9),
        ("other", "explained", 3.0, 9),
        ("died", "agree", 0.9, 2),
    ] {
        let ours: &[&str] = &["plumb", "run", "os.syscall"];
        events.push(json!({"event": "pairing", "rival": "perf", "name": name, "ours": ours,
                           "theirs": ["perf", "bench", "it's"], "rows": [row(goal)]}));
        for n in 1..=turns {
            let ours = 80.0 * ratio * (1.0 + 0.003 * f64::from(n % 3));
            events.push(json!({"event": "pair", "rival": "perf", "pairing": name, "n": n,
                               "ours_first": n % 2 == 1, "ours": [ours], "theirs": [80.0]}));
        }
        let (outcome, reason) = match turns {
            9 => ("measured", Value::Null),
            _ => ("failed", json!("perf: signal: 9 (SIGKILL): it said nothing")),
        };
        events.push(
            json!({"event": "pairing_end", "rival": "perf", "pairing": name, "outcome": outcome,
                           "reason": reason, "needed": null}),
        );
    }
    let absent = json!({"reason": "no iozone in PATH", "needed": "put it into PATH"});
    events.push(rival("iozone", absent));
    events
}

/// A record that holds a crosscheck alone, on the machine of another record.
pub fn crosscheck_alone(run: &[Value], name: &str, started: &str) -> Events {
    let mut header = run[0].clone();
    header["run"] = name.into();
    header["started"] = started.into();
    header["options"]["preset"] = "crosscheck".into();
    let mut events = vec![header];
    events.extend(crosscheck());
    let footer = run.iter().find(|event| event["event"] == "footer");
    events.extend(footer.cloned());
    events
}
