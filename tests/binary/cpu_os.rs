//! The families cpu and os where a machine allows little: one CPU, few processes, a worker that is
//! killed while it makes threads and processes.

use crate::plumb::{
    Answer, Here, answer, end, ended, events, is, no_worker_stays, of, signal, wait_for, workers,
};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// A user that nobody is: the limit on processes counts those of all that are it.
const USER: u32 = 64_123;
/// A round that is ended, not waited for: minutes of threads in sequence.
const ENDLESS: &str = "os.thread.count=5000000";

fn outcomes(events: &[Value]) -> Vec<&Value> {
    let outcomes = of(events, "outcome");
    assert!(!outcomes.is_empty());
    outcomes
}

fn text<'event>(event: &'event Value, field: &str) -> &'event str {
    event[field].as_str().unwrap_or_default()
}

/// Processes of a group that are not zombies.
fn of_group(group: u32) -> Vec<u32> {
    living(|pid| {
        // Fields after the name, which may hold anything: state, parent, group.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        Some(fields[0] != "Z" && fields[2].parse() == Ok(group))
    })
}

/// Processes of a user.
fn of_user(user: u32) -> Vec<u32> {
    living(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("Uid:"))?;
        Some(line.split_whitespace().nth(1)?.parse() == Ok(user))
    })
}

fn living(fits: impl Fn(u32) -> Option<bool>) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| fits(*pid) == Some(true))
        .collect()
}

fn wait_until(what: &str, ready: impl Fn() -> bool) {
    wait_for(what, || ready().then_some(()));
}

#[test]
fn on_one_cpu_everything_runs_and_other_pairs_are_skipped_with_a_reason() {
    let here = Here::new();
    let answer = std::thread::scope(|scope| {
        // What a thread may run on is what its children may.
        let pinned = scope.spawn(|| {
            let cpu = metal::place::allowed().unwrap()[0];
            metal::place::pin(cpu).unwrap();
            let set = "os.thread.pair=same,smt,llc,socket,remote,other";
            here.plumb(&["run", "cpu", "os", "--preset", "rehearsal", "--set", set])
        });
        pinned.join().unwrap()
    });
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = events(&here.record());
    assert_eq!(end(&events), "complete");
    let mut others = 0;
    for outcome in outcomes(&events) {
        assert_ne!(outcome["outcome"], "failed", "{outcome}");
        if outcome["outcome"] == "skipped" {
            assert!(!text(outcome, "reason").is_empty(), "{outcome}");
        }
        if outcome["case"]["pair"]
            .as_str()
            .is_some_and(|pair| pair != "same")
        {
            assert_eq!(outcome["outcome"], "skipped", "{outcome}");
            others += 1;
        }
    }
    assert!(others >= 5, "every other class of os.thread is told about");
    for family in ["cpu.", "os."] {
        let measured = outcomes(&events).into_iter().any(|outcome| {
            outcome["outcome"] == "measured" && text(outcome, "experiment").starts_with(family)
        });
        assert!(measured, "{family}");
    }
}

#[test]
fn threads_of_every_kind_are_measured_on_every_pair() {
    let here = Here::new();
    let sets = [
        "os.thread.pair=auto",
        "os.thread.stack=cached,fresh,bare",
        "os.thread.count=1,100",
        "os.thread.alive=1,50",
        "os.thread.work=none,stress",
    ];
    let sets = sets.into_iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["os.thread", "--preset", "rehearsal"]
        .into_iter()
        .chain(sets)
        .collect();
    let events = here.measure(&args);
    let mut companies = 0;
    for outcome in outcomes(&events) {
        assert_eq!(outcome["outcome"], "measured", "{outcome}");
        let case = &outcome["case"];
        companies += usize::from(!case["count"].is_null() || !case["alive"].is_null());
    }
    assert_eq!(companies, 2 + 3);
    for samples in of(&events, "samples") {
        if samples["case"]["pair"] != "same" {
            let bound = &samples["quantities"]["clock_offset_bound_ns"];
            assert!(bound.as_f64().is_some(), "{samples}");
        }
    }
}

/// A rehearsal by another user who may have so many processes.
fn limited(here: &Here, plumb: &Path, processes: u32) -> Answer {
    let line = format!(
        "ulimit -u {processes}; exec {} run cpu os --preset rehearsal",
        plumb.display()
    );
    let mut command = here.other("bash");
    // The other groups go with root: the standard library drops them.
    command.args(["-c", &line]).uid(USER).gid(USER);
    answer(command.output().unwrap())
}

#[test]
fn a_limit_on_processes_is_a_failure_that_names_it_and_leaves_none() {
    if metal::process::geteuid() != 0 {
        // Only root can be another user, and root alone is exempt from the limit.
        return;
    }
    let here = Here::new();
    let anyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(here.path(""), anyone).unwrap();
    // The binary's own directory may be closed to others.
    let plumb = here.path("plumb");
    std::fs::copy(env!("CARGO_BIN_EXE_plumb"), &plumb).unwrap();

    // The session alone: not even a worker.
    let none = limited(&here, &plumb, 1);
    assert_eq!(none.code, Some(3), "{none:?}");
    for word in ["cannot start a worker", "ulimit -u"] {
        assert!(none.err.contains(word), "{none:?}");
    }

    // Session and worker: what needs no further process or thread is measured, the rest fails.
    let few = limited(&here, &plumb, 2);
    assert!(few.code.is_some(), "{few:?}");
    let events = events(&here.record());
    assert_eq!(end(&events), "complete");
    let of_threads: Vec<&Value> = outcomes(&events)
        .into_iter()
        .filter(|outcome| outcome["experiment"] == "os.thread")
        .collect();
    assert!(!of_threads.is_empty());
    for outcome in of_threads {
        assert_eq!(outcome["outcome"], "failed", "{outcome}");
        assert!(text(outcome, "reason").contains("ulimit -u"), "{outcome}");
    }
    let null = outcomes(&events).into_iter().find(|outcome| {
        outcome["experiment"] == "os.syscall" && outcome["case"]["call"] == "getpid"
    });
    assert_eq!(null.unwrap()["outcome"], "measured");
    wait_until("the end of the user's processes", || {
        of_user(USER).is_empty()
    });
}

#[test]
fn a_worker_killed_among_its_threads_costs_its_rounds_and_leaves_nobody() {
    let here = Here::new();
    let args = [
        "run",
        "os.thread:count=5000000",
        "--preset",
        "rehearsal",
        "--budget",
        "1h",
        "--set",
        ENDLESS,
    ];
    let session = here.command(&args).spawn().unwrap();
    let pid = session.id();
    here.wait_for(|event| is(event, "plan"));
    // A series ends after three voids in a row.
    let mut killed: Vec<u32> = Vec::new();
    for _ in 0..3 {
        let worker = wait_for("a worker among its threads", || {
            workers(pid).into_iter().find(|worker| {
                let tasks = std::fs::read_dir(format!("/proc/{worker}/task"));
                !killed.contains(worker) && tasks.is_ok_and(|tasks| tasks.count() > 1)
            })
        });
        signal("KILL", worker);
        killed.push(worker);
    }
    let answer = ended(session);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    no_worker_stays(pid);
    for worker in killed {
        wait_until("the end of the worker's group", || {
            of_group(worker).is_empty()
        });
    }
    let events = events(&here.record());
    assert_eq!(end(&events), "complete");
    let rounds = of(&events, "round");
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert_eq!(round["status"], "void", "{round}");
        assert!(text(round, "reason").contains("signal: 9"), "{round}");
    }
    assert_eq!(outcomes(&events)[0]["outcome"], "failed");
}
