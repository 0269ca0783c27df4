//! Limits of the noise family: a quota, one CPU, no permission, more gaps than anybody wants.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use metal::process::Child;

const RUN: [&str; 4] = ["run", "noise.activity", "--preset", "rehearsal"];
/// Metrics that every round has, whatever there is to find.
const ALWAYS: [&str; 5] = ["read_to_read", "threshold", "gap_rate", "lost", "lost_timer"];

/// What a run of the experiment left: it was measured, and no share of time is none.
struct Run(Vec<Value>);

impl Run {
    #[track_caller]
    fn of(here: &Here, answer: &Answer) -> Run {
        Run::with(here, answer, &ALWAYS)
    }

    /// Of noise.all.
    #[track_caller]
    fn of_all(here: &Here, answer: &Answer) -> Run {
        Run::with(here, answer, &["lost", "gap_rate"])
    }

    #[track_caller]
    fn with(here: &Here, answer: &Answer, always: &[&str]) -> Run {
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let run = Run(events(&here.record()));
        assert_eq!(end(&run.0), "complete", "{answer:?}");
        for metric in always {
            assert!(!run.values(metric).is_empty(), "{metric}: {answer:?}");
        }
        for samples in of(&run.0, "samples") {
            if samples["metric"].as_str().unwrap().starts_with("lost") {
                let share = samples["values"][0].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&share), "{samples}");
            }
        }
        run
    }

    fn samples(&self, metric: &str) -> Vec<&Value> {
        samples_of(&self.0, metric)
    }

    fn values(&self, metric: &str) -> Vec<f64> {
        let values = self.samples(metric).into_iter();
        values.flat_map(|one| one["values"].as_array().unwrap()).filter_map(Value::as_f64).collect()
    }

    fn notes(&self, metric: &str) -> String {
        let samples = self.samples(metric).into_iter();
        samples.map(|one| one["notes"].to_string()).collect()
    }

    /// Traces of a kind.
    fn traces(&self, kind: &str) -> Vec<&Value> {
        let traces = of(&self.0, "trace").into_iter();
        traces.filter(|trace| trace["kind"] == kind).collect()
    }
}

/// The last CPU of this process, as text.
fn last_cpu() -> String {
    let allowed = metal::place::allowed().unwrap();
    allowed.last().expect("one is allowed").to_string()
}

#[test]
fn a_quota_that_throttles_is_named_as_the_cause() {
    // Periods of 10 ms, so that a rehearsal meets some.
    let Some(group) = Group::percent(20, 10_000) else { return skips::test("control-group") };
    let throttled_run = || {
        let here = Here::new();
        let answer = answer(here.in_group(&group.0, &RUN.join(" ")).output().unwrap());
        Run::of(&here, &answer)
    };
    // Four fifths of the time, less what the quota had saved up; but where others leave the group
    // less than its quota, nothing throttles it.
    let run = (0..5)
        .map(|_| throttled_run())
        .find(|run| run.values("lost_throttled").iter().any(|share| *share > 0.1))
        .expect("in one of five runs the quota is used up");
    assert!(run.notes("lost").contains("throttled"), "{}", run.notes("lost"));
    let foretold = of(&run.0, "prediction").into_iter().find(|prediction| {
        prediction["metric"] == "lost_throttled"
            && prediction["because"].to_string().contains("quota")
    });
    assert!(foretold.is_some(), "the quota is in the prediction");
}

#[test]
fn all_cpus_are_two_at_least_and_a_quota_is_named() {
    let here = Here::new();
    let all = ["run", "noise.all", "--preset", "rehearsal"].join(" ");
    let line = format!("exec taskset -c {} {} {all}", last_cpu(), PLUMB);
    // One CPU alone is noise.activity's: it is left out with the reason.
    let alone = here.shell(&line);
    assert_eq!(alone.code, Some(2), "{alone:?}");
    let Some(group) = Group::percent(20, 10_000) else { return skips::test("control-group") };
    let is_told = (0..5).any(|_| {
        let here = Here::new();
        let run = Run::of_all(&here, &answer(here.in_group(&group.0, &all).output().unwrap()));
        run.notes("lost").contains("throttled the threads")
    });
    assert!(is_told, "in one of five runs the quota is used up, and named");
}

#[test]
fn one_cpu_is_enough() {
    let here = Here::new();
    let line = format!("exec taskset -c {} {} {}", last_cpu(), PLUMB, RUN.join(" "));
    let answer = here.shell(&line);
    let run = Run::of(&here, &answer);
    let cpu = &run.samples("lost")[0]["at"]["cpu"];
    assert_eq!(cpu.to_string(), last_cpu(), "{cpu}");
}

#[test]
fn without_any_permission_the_level_is_said_and_why_it_is_no_higher() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let here = Here::new();
    let answer = user.plumb(&here, 200, &RUN);
    let run = Run::of(&here, &answer);
    let notes = run.notes("lost");
    let low = notes.contains("level 0") || notes.contains("level 1");
    assert!(low && notes.contains("not further"), "{notes}");
    user.has_gone();
}

#[test]
fn counters_alone_are_asked_for_and_used() {
    let here = Here::new();
    let set = ["--set", "noise.activity.attribution=counters"];
    let answer = here.plumb(&[&RUN[..], &set].concat());
    let run = Run::of(&here, &answer);
    assert!(run.notes("lost").contains("level 0 (counters)"));
    // What counters cannot see is unknown, not 0.
    for metric in ["lost_softirq", "lost_plumb"] {
        assert!(run.values(metric).is_empty(), "{metric}");
    }
    // Causes are matched by number, and say so.
    for kind in ["gaps", "periods"] {
        for name in run.traces(kind)[0]["names"]["cause"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert!(name == "unattributed" || name.ends_with("(by count)"), "{name}");
        }
    }
    assert!(!run.traces("counters")[0]["rows"].as_array().unwrap().is_empty());
    // No window was traced by events, and no cost of that is told.
    assert!(run.traces("gaps_traced").is_empty());
    assert!(run.samples("lost_timer")[0]["quantities"]["tick_gap_traced_ns"].is_null());
}

/// Where tracepoints are reached, picture and table are of the window that they were recorded in.
#[test]
fn causes_by_time_are_shown_where_they_are_known() {
    let here = Here::new();
    let set = ["--set", "noise.activity.attribution=auto"];
    let answer = here.plumb(&[&RUN[..], &set].concat());
    let run = Run::of(&here, &answer);
    let notes = run.notes("lost");
    if !notes.contains("level 2 (tracepoints)") {
        assert!(notes.contains("not further"), "{notes}");
        return skips::test("perf");
    }
    assert!(notes.contains("second window"), "{notes}");
    for metric in ["lost_softirq", "lost_plumb"] {
        assert!(!run.values(metric).is_empty(), "{metric}");
    }
    // The periods' ends are gaps of that window's list.
    let starts: Vec<f64> = run.traces("gaps_traced")[0]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[0].as_f64().unwrap())
        .collect();
    let timeline = run.traces("timeline")[0];
    let states = timeline["names"]["state"].as_array().unwrap();
    for row in timeline["rows"].as_array().unwrap() {
        let state = &states[row[2].as_f64().unwrap() as usize];
        let start = row[0].as_f64().unwrap();
        assert!(state == "running" || starts.contains(&start), "{state} at {start}");
    }
}

#[test]
fn thousands_of_gaps_a_second_are_all_counted() {
    let cpu: usize = last_cpu().parse().unwrap();
    let disturber = Child::fork(move || {
        if metal::place::pin(cpu).is_err() || metal::place::fifo(1).is_err() {
            return 1;
        }
        loop {
            std::thread::sleep(Duration::from_micros(100));
        }
    })
    .unwrap();
    let here = Here::new();
    let set = format!("noise.activity.cpu={cpu}");
    let answer = here.plumb(&[&RUN[..], &["--set", &set]].concat());
    drop(disturber);
    let run = Run::of(&here, &answer);
    let rate = run.values("gap_rate")[0];
    if metal::process::geteuid() == 0 {
        assert!(rate > 1000.0, "{rate}");
    }
    for kind in ["gaps", "timeline", "periods", "causes"] {
        assert_eq!(run.traces(kind).len(), 1, "{kind}: {answer:?}");
    }
    let gaps = run.traces("gaps")[0];
    let rows = gaps["rows"].as_array().unwrap();
    let causes = gaps["names"]["cause"].as_array().unwrap().len() as f64;
    assert!(rows.iter().all(|row| row[2].as_f64().unwrap() < causes));
    // Times to 0.1 ns, so that many rows stay small.
    for value in rows.iter().flat_map(|row| row.as_array().unwrap().iter().take(2)) {
        let tenths = value.as_f64().unwrap() * 10.0;
        assert!((tenths - tenths.round()).abs() < 1e-3, "{value}");
    }
    // By cause they are as many as in the list of the window that was told apart.
    let told = run.traces("gaps_traced").pop().unwrap_or(gaps);
    let by_cause: f64 = run.traces("causes")[0]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row[2].as_f64())
        .sum();
    let counted = told["rows"].as_array().unwrap().len();
    assert_eq!(by_cause, counted as f64);
}

/// On another CPU than the round's the core clock is that one's, or none with the reason.
#[test]
fn the_core_clock_is_that_of_the_traced_cpu() {
    let allowed = metal::place::allowed().unwrap();
    let [first, .., last] = allowed.as_slice() else { return skips::test("one-cpu") };
    let here = Here::new();
    let (cpus, set) = (format!("{first},{last}"), format!("noise.activity.cpu={last}"));
    let answer = here.plumb(&[&RUN[..], &["--cpu", &cpus, "--set", &set]].concat());
    let run = Run::of(&here, &answer);
    let lost = run.samples("lost")[0];
    assert_eq!(lost["at"]["cpu"].to_string(), last.to_string());
    let notes = run.notes("lost");
    assert!(!notes.contains("other CPUs"), "{notes}");
    let has_clock = lost["core_hz"].as_f64().is_some();
    assert!(has_clock != notes.contains(&format!("CPU {last}")), "{lost}");
    let columns = run.traces("periods")[0]["columns"].to_string();
    assert_eq!(columns.contains("active_cycle"), has_clock, "{columns}");
}
