//! Small records of which a report could become large, and files that are no records but would be
//! read for ever: what a report shows is bounded, and says what it leaves out.

use crate::plumb::prelude::*;
use std::os::unix::fs::symlink;

/// Address space of a report, in KiB.
const ROOM_KIB: u32 = 768 << 10;

/// Every kind of rendering.
const FORMATS: [&str; 6] = ["terminal", "html", "markdown", "csv", "json", "openmetrics"];

/// One experiment of a real run with other cases, views and an own metric, one sample each.
struct Blown {
    header: Value,
    plan: Value,
    round: Value,
}

impl Blown {
    fn new() -> Blown {
        let text = recorded("clock.read --preset rehearsal");
        let events: Vec<Value> = text.lines().map(event).collect();
        let first = |kind: &str| events_of_kind(&events, kind)[0].clone();
        let (header, mut plan, mut round) = (first("header"), first("plan"), first("round"));
        let experiment = &mut plan["experiments"][0];
        let mut metric = experiment["metrics"][0].clone();
        metric["name"] = json!("m");
        experiment["id"] = json!("a.b");
        experiment["metrics"] = json!([metric]);
        experiment["params"] = json!([["p", "p"], ["q", "q"]]);
        experiment["keys"] = json!([]);
        experiment["units"] = json!({});
        experiment["series"].as_array_mut().unwrap().truncate(1);
        experiment["series"][0]["name"] = json!("");
        plan["stages"] = json!([["a.b"]]);
        round["series"] = json!("a.b");
        Blown { header, plan, round }
    }

    fn experiment(&mut self) -> &mut Value {
        &mut self.plan["experiments"][0]
    }

    /// The record of these cases; a sample of each if `is_measured`.
    fn record(&mut self, cases: &[Value], is_measured: bool) -> Vec<Value> {
        self.experiment()["series"][0]["cases"] = json!(cases);
        let sample = |case: &Value| {
            json!({"event": "samples", "series": "a.b", "round": 1, "case": case, "metric": "m",
                "of": "batch", "k": 1, "values": [1.0], "core_hz": null, "quantities": {}, "at": {},
                "notes": []})
        };
        let samples = cases.iter().filter(|_| is_measured).map(sample);
        let mut events = vec![self.header.clone(), self.plan.clone()];
        events.extend(samples);
        events.push(self.round.clone());
        events
    }
}

fn cases(number: usize) -> Vec<Value> {
    (0..number).map(|at| json!({"p": at, "q": at / 2})).collect()
}

/// The report in little memory.
fn report(here: &Here, events: &[Value], format: &str) -> Answer {
    fs::write(here.path("blown.jsonl"), lines(events)).unwrap();
    here.shell(&format!(
        "ulimit -v {ROOM_KIB}; exec $PLUMB report blown.jsonl --full --format {format}"
    ))
}

#[test]
fn what_a_report_leaves_out_of_a_large_one_it_says() {
    let here = Here::new();
    let mut blown = Blown::new();
    let line = json!({"kind": "line", "over": "p", "metric": "m", "log_x": false, "log_y": false});
    let bars = json!({"kind": "bars", "metric": "m", "cases": {"only": {}, "each": ["q"]}});
    let matrix = json!({"kind": "matrix", "rows": "p", "columns": "q", "metric": "m"});
    let table = json!({"kind": "table"});
    // Views, cases, and what a page and Markdown say instead of the rest.
    let odd = [
        (vec![matrix], 1500, "The matrix of m is left out"),
        (vec![line; 1000], 50, "Further views are left out"),
        (vec![bars], 1000, "Further views are left out"),
        (vec![table], 5_050, "50 more rows are left out"),
    ];
    for (views, number, sentence) in odd {
        blown.experiment()["view"] = views[0].clone();
        blown.experiment()["views"] = json!(views[1..]);
        let events = blown.record(&cases(number), true);
        for format in FORMATS {
            // Those that are a row for each figure are alike, whatever the views.
            let is_document = ["terminal", "html", "markdown"].contains(&format);
            if (number != 1500 && !is_document)
                || (number > 1500 && !["html", "markdown"].contains(&format))
            {
                continue;
            }
            let answer = report(&here, &events, format);
            assert_eq!(answer.code, Some(0), "{sentence}: {format}: {}", answer.err);
            if ["html", "markdown"].contains(&format) {
                assert!(answer.out.contains(sentence), "{sentence}: {format}");
            }
        }
    }
}

#[test]
fn what_would_be_many_times_its_size_is_refused() {
    let here = Here::new();
    let many = cases(5000);
    let refused = |change: &dyn Fn(&mut Blown) -> Vec<Value>, words: &str| {
        let events = change(&mut Blown::new());
        let answer = report(&here, &events, "json");
        assert_eq!(answer.code, Some(2), "{words}: {answer:?}");
        assert!(answer.err.contains(words), "{words}: {}", answer.err);
    };
    let long = "a".repeat(100_000);
    let named = |blown: &mut Blown, pointer: &str| {
        *blown.experiment().pointer_mut(pointer).unwrap() = json!(long);
        blown.record(&many, false)
    };
    for pointer in ["/id", "/metrics/0/name", "/series/0/name", "/params/0/0"] {
        refused(&|blown| named(blown, pointer), "a name of 100000 bytes");
    }
    refused(&|blown| blown.record(&cases(60_000), false), "60000 cases");
    refused(&|blown| blown.record(&[many[0].clone(), many[0].clone()], false), "twice");
    for list in ["metrics", "series"] {
        let twice = |blown: &mut Blown| {
            let own = blown.experiment()[list][0].clone();
            blown.experiment()[list].as_array_mut().unwrap().push(own);
            blown.record(&many[..1], false)
        };
        refused(&twice, "twice");
    }
    let experiments = |blown: &mut Blown, times: usize| {
        let own = blown.experiment().clone();
        blown.plan["experiments"] = json!(vec![own; times]);
        blown.record(&many[..1], false)
    };
    refused(&|blown| experiments(blown, 2), "`a.b` twice");
    refused(&|blown| experiments(blown, 300), "300 experiments");
}

#[test]
fn a_reason_of_all_cases_is_short() {
    let here = Here::new();
    let mut events = Blown::new().record(&cases(2000), false);
    events.push(json!({"event": "outcome", "experiment": "a.b", "case": null, "outcome": "failed",
        "reason": "a".repeat(1 << 20)}));
    for format in FORMATS {
        let answer = report(&here, &events, format);
        assert_eq!(answer.code, Some(0), "{format}: {}", answer.err);
    }
}

#[test]
fn what_is_no_file_is_not_opened_and_what_has_no_line_not_read_whole() {
    let here = Here::new();
    let header = recorded("selftest.fault --preset rehearsal");
    here.store(&header);
    // Much later than any other, in the store and beside it.
    for pipe in [here.path("store/9999.jsonl"), here.path("pipe.jsonl")] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    symlink("/dev/zero", here.path("store/9998.jsonl")).unwrap();
    File::create(here.path("sparse.jsonl")).unwrap().set_len(1 << 40).unwrap();
    fs::write(here.path("second.jsonl"), header.lines().next().unwrap().to_owned() + "\n").unwrap();
    File::options().append(true).open(here.path("second.jsonl")).unwrap().set_len(1 << 40).unwrap();
    let mut odd = vec![];
    for file in [
        "/dev/zero",
        "/dev/tty",
        "./pipe.jsonl",
        "9999",
        "9998",
        "./sparse.jsonl",
        "./second.jsonl",
    ] {
        odd.push((vec!["report", file], 2));
        odd.push((vec!["report", file, "--redact"], 2));
        odd.push((vec!["compare", file, "last"], 2));
        odd.push((vec!["run", "--resume", file], 2));
        odd.push((vec!["crosscheck", "--into", file], 2));
    }
    odd.extend([
        (vec!["report", "last"], 0),
        (vec!["runs"], 0),
        (vec!["trend", "selftest.fault"], 0),
    ]);
    for (args, code) in odd {
        let mut command = here.other("sh");
        let line = format!("ulimit -v {ROOM_KIB}; exec \"$0\" \"$@\"");
        command.args(["-c", &line, PLUMB]).args(&args);
        let ended = here.start(&mut command).ended_within(Duration::from_secs(60));
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    }
}
