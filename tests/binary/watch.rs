//! The watch of a machine: in turn, within its share, over restarts, until a signal.

use crate::plumb::prelude::*;
use crate::runs::store_named;

/// A tick that has measured takes a little; one that waits for its CPU time is repeated.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two experiments that measure next to nothing, with all CPU time that they want.
const FAST: &str = "watch selftest.echo selftest.fault --preset rehearsal --share 100% --every 1s";

fn state(here: &Here) -> Option<Value> {
    let text = fs::read_to_string(here.path("store/watch/watch.json")).ok()?;
    serde_json::from_str(&text).ok()
}

fn rotations(here: &Here) -> u64 {
    state(here).and_then(|state| state["rotations"].as_u64()).unwrap_or(0)
}

/// Single ticks until so many rotations are complete; all that they printed.
fn ticks(here: &Here, line: &str, until: u64) -> String {
    let mut printed = String::new();
    wait_within(PATIENCE, "rotations of a watch", || {
        printed.push_str(&here.ends(0, &format!("{line} --once")).out);
        (rotations(here) >= until).then_some(())
    });
    printed
}

/// The value of the first sample of a family.
fn sample(file: &Path, name: &str) -> f64 {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn single_ticks_measure_in_turn_and_never_more_than_the_share() {
    let here = Here::new();
    let file = here.path("plumb.prom");
    let line = format!("{FAST} --textfile {} --keep 8", file.display());
    let first = here.ends(0, &format!("{line} --once"));
    assert!(first.err.contains("2 experiments in turn"), "{first:?}");
    assert!(first.err.contains("nothing measured"), "nothing is saved yet: {first:?}");
    assert!(here.entries("store/watch").iter().all(|name| !name.ends_with(".jsonl")));
    assert_eq!(sample(&file, "plumb_watch_rotations{"), 0.0);
    ticks(&here, &line, 2);
    let state = state(&here).unwrap();
    let number = |name: &str| state[name].as_f64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let watched = now.as_secs_f64() - number("began_s");
    assert!(number("used_s") <= watched, "{state}");
    for experiment in ["selftest.echo", "selftest.fault"] {
        let part = &state["parts"][experiment];
        assert!(part["cpu_s"].as_f64().unwrap() > 0.0 && part["failures"] == 0, "{state}");
        let record = format!("{}.jsonl", part["record"].as_str().unwrap());
        assert!(record.ends_with(&format!("-{experiment}.jsonl")), "{record}");
        assert!(here.entries("store/watch").contains(&record), "{record}");
    }
    assert!(sample(&file, "plumb_watch_share_used_ratio{") <= 1.0);
    assert!(sample(&file, "plumb_watch_age_seconds{") < 60.0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("plumb_selftest_fault_"), "{text}");
    // Its records are not in the user's own store.
    assert!(here.entries("store").iter().all(|name| !name.ends_with(".jsonl")));
}

#[test]
fn a_signal_ends_it_and_a_second_one_on_the_machine_is_refused() {
    let here = Here::new();
    let mut program = here.start(&mut here.command(FAST));
    wait_for("the first measurement", || {
        program.said().contains("selftest.echo: measured").then_some(())
    });
    let second = here.ends(2, &format!("{FAST} --once"));
    assert!(second.err.contains("another plumb watch runs on this machine"), "{second:?}");
    // It measures only in its runs: others are not disturbed by it.
    let run = here
        .ends(0, &["run", "selftest.echo", "--preset", "quick", "--precision", "100", "--wait"]);
    assert!(!run.err.contains("plumb watch"), "{run:?}");
    program.signal("TERM");
    let ended = program.ended_within(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(state(&here).unwrap()["used_s"].as_f64().unwrap() > 0.0);
    here.ends(0, &format!("{FAST} --once"));
    program = here.start(&mut here.command(FAST));
    program.kill();
}

/// Where a part needs more than one interval saves, the whole need is saved.
#[test]
fn a_part_that_needs_several_ticks_gets_its_turn() {
    let here = Here::new();
    let program = here.start(&mut here.command(&FAST.replace("100%", "40%")));
    wait_within(PATIENCE, "a part that takes longer to save", || {
        program.said().contains("selftest.fault: measured").then_some(())
    });
    program.signal("TERM");
    assert_eq!(program.ended_within(PATIENCE).code, Some(0));
    let state = state(&here).unwrap();
    let used = state["used_s"].as_f64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let watched = now.as_secs_f64() - state["began_s"].as_f64().unwrap();
    assert!(used <= 0.4 * watched + 0.2, "{used} in {watched}");
}

/// A watch whose part is believed to be cheap, and is not.
#[test]
fn what_costs_more_than_was_saved_is_stopped_and_leaves_nothing() {
    let here = Here::new();
    let line = "watch selftest.pulse --preset quick --set selftest.pulse.duration=60s --share 5% --every 1s";
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let cheap = json!({"cpu_s": 0.01, "measured_s": null, "record": null, "failures": 0});
    let kept = json!({
        "format": 1, "began_s": now.as_secs_f64(), "used_s": 0.0, "saved_s": 0.0,
        "at_s": now.as_secs_f64(), "next": null, "rotations": 0,
        "parts": {"selftest.pulse": cheap}, "searched": 0, "seen": {"candidates": [], "changes": []},
    });
    fs::create_dir_all(here.path("store/watch")).unwrap();
    fs::write(here.path("store/watch/watch.json"), kept.to_string()).unwrap();
    let program = here.start(&mut here.command(line));
    wait_within(PATIENCE, "a part to be stopped", || {
        program.said().contains("selftest.pulse: stopped after").then_some(())
    });
    program.signal("TERM");
    assert_eq!(program.ended_within(PATIENCE).code, Some(0));
    let part = state(&here).unwrap()["parts"]["selftest.pulse"].clone();
    assert!(part["cpu_s"].as_f64().unwrap() > 0.01 && part["failures"] == 1, "{part}");
    let records = here.entries("store/watch").into_iter().filter(|name| name.ends_with(".jsonl"));
    assert_eq!(records.count(), 0);
}

#[test]
fn a_change_against_the_own_history_is_reported_once() {
    let name = |run: usize| format!("2026-11-{:02}T10-00-00-lab-selftest.fault", run + 1);
    let values: Vec<f64> = (0..16).map(|run| if run < 8 { 40.0 } else { 60.0 }).collect();
    let values: Vec<f64> =
        values.iter().enumerate().map(|(at, value)| value + 0.01 * at as f64).collect();
    let names: Vec<String> = (0..values.len()).map(name).collect();
    let here = store_named(&names, &values);
    fs::create_dir(here.path("store/watch")).unwrap();
    for name in &names {
        let file = format!("{name}.jsonl");
        fs::rename(here.path("store").join(&file), here.path("store/watch").join(&file)).unwrap();
    }
    let file = here.path("plumb.prom");
    let line = format!(
        "watch selftest.fault --preset rehearsal --share 100% --every 1s --textfile {}",
        file.display()
    );
    assert_eq!(ticks(&here, &line, 1), "", "one search alone reports nothing");
    let printed = ticks(&here, &line, 2);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 1, "{printed}");
    assert!(lines[0].starts_with("selftest.fault"), "{printed}");
    assert!(lines[0].contains("since 2026-11-09T10:00:00Z"), "{printed}");
    assert!((sample(&file, "plumb_watch_change_ratio{") - 1.5).abs() < 0.01);
    assert_eq!(ticks(&here, &line, 3), "", "it was reported");
    // Pruning keeps the newest.
    ticks(&here, &format!("{line} --keep 8"), 4);
    let left = here.entries("store/watch").into_iter().filter(|name| name.ends_with(".jsonl"));
    let left: Vec<String> = left.collect();
    assert_eq!(left.len(), 8, "{left:?}");
    assert!(left.iter().all(|name| name.as_str() > "2026-11-12"), "{left:?}");
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_way_out() {
    let here = Here::new();
    for (more, says) in [
        (&["--share", "0"][..], "0.01% to 100%"),
        (&["--every", "1ms"], "1s to 1day"),
        (&["--textfile", "figures.txt"], ".prom"),
        (&["--textfile", "missing/plumb.prom"], "missing"),
        (&["--keep", "3"], "8..=10000"),
        (&["nothing"], "unknown experiment or family `nothing`"),
        (&["--preset", "reports"], "--preset quick"),
        (
            &["selftest.pulse", "--set", "selftest.pulse.duration=60s", "--share", "0.01%"],
            "selftest.pulse does not fit",
        ),
    ] {
        let answer = here.ends(2, &[&["watch", "--once"], more].concat());
        assert!(answer.err.contains(says), "{more:?}: {answer:?}");
    }
    fs::create_dir_all(here.path("store/watch")).unwrap();
    let kept = here.path("store/watch/watch.json");
    fs::write(&kept, "{\"format\": 99}").unwrap();
    let newer = here.ends(2, &format!("{FAST} --once"));
    assert!(newer.err.contains("watch.json"), "{newer:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "{\"format\": 99}", "it stays as it is");
    fs::write(&kept, "{\"format\": 1, ").unwrap();
    let damaged = here.ends(0, &format!("{FAST} --once"));
    assert!(damaged.err.contains("watch.json"), "{damaged:?}");
    assert_eq!((rotations(&here), &state(&here).unwrap()["format"]), (0, &1.into()));
}
