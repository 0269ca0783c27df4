//! Limits on processes that are reached while processes are made: a clear failure, never a hang,
//! and nothing left behind.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::collections::BTreeSet;

/// One case of each way to make a child.
const CASES: &str = "os.process:call=fork,vfork,posix_spawn_static,resident=1MiB,pages=base";
const RUN: [&str; 4] = ["run", CASES, "--preset", "rehearsal"];
/// What needs a process or a thread beside the session and its worker.
const MAKERS: [&str; 9] = [
    "cpu.core_to_core",
    "cpu.linpack",
    "cpu.peak",
    "os.ipc",
    "os.process",
    "os.schedule",
    "os.switch",
    "os.syscall",
    "os.thread",
];

/// The outcomes of cases that failed, and how many were measured.
fn failed(events: &[Value]) -> (Vec<&Value>, usize) {
    let mut outcomes = events_of_kind(events, "outcome");
    assert!(!outcomes.is_empty());
    let measured = outcomes.iter().filter(|outcome| outcome["outcome"] == "measured").count();
    outcomes.retain(|outcome| outcome["outcome"] == "failed");
    (outcomes, measured)
}

/// shared/lab/abuse/more/disk.sh: the limit on the size of files.
#[test]
fn every_command_names_the_limit_on_files_and_leaves_no_part() {
    let here = Here::new();
    here.store(&recorded("selftest.echo --preset quick"));
    let limited = |args: &str| {
        let line = format!("ulimit -f 1; exec {PLUMB} {args}");
        answer(here.other("bash").args(["-c", &line]).output().unwrap())
    };
    for args in [
        "report last -f html -o page.html",
        "runs export last --to copy.jsonl",
        "run selftest.pulse --preset rehearsal --out run.jsonl",
    ] {
        let refused = limited(args);
        assert_eq!(refused.code, Some(3), "{args}: {refused:?}");
        assert!(refused.err.contains("`ulimit -f`"), "{args}: {refused:?}");
    }
    // Figures that cannot be kept are made again.
    assert_eq!(limited("runs").code, Some(0));
    let left = here.entries("").into_iter().chain(here.entries("store"));
    let left: Vec<String> = left.filter(|name| name.ends_with(".part")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn room_for_the_children_is_enough() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    // Session and worker are two, and there is one child at a time.
    let here = Here::new();
    let answer = user.plumb(&here, 3, &RUN);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(failed(&events(&here.record())), (Vec::new(), 3));
    user.has_gone();
}

#[test]
fn without_room_for_a_worker_there_is_no_run() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let answer = user.plumb(&Here::new(), 1, &RUN);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    for words in ["cannot start a worker", "this user may have 1 processes"] {
        assert!(answer.err.contains(words), "{answer:?}");
    }
    user.has_gone();
}

/// Everything of cpu and os by a user who may have so many processes: what failed did so for the
/// limit, and says so; nothing hangs, and nothing stays. Returns the experiments with failures.
fn all_name_the_limit(user: &Stranger, processes: u32) -> BTreeSet<String> {
    let here = Here::new();
    let threads = "cpu.linpack.threads=all,2";
    let args = ["run", "cpu", "os", "--preset", "rehearsal", "--set", threads];
    let answer = user.plumb(&here, processes, &args);
    // Some cases failed, or all of an experiment.
    assert!(matches!(answer.code, Some(0 | 3)), "{answer:?}");
    let events = here.complete();
    let (failures, measured) = failed(&events);
    assert!(measured > 0, "what makes nothing is measured");
    let this_user = format!("this user may have {processes} processes");
    let mut experiments = BTreeSet::new();
    for outcome in failures {
        let reason = outcome["reason"].as_str().unwrap();
        for words in ["may be made", &this_user, "`ulimit -u`"] {
            assert!(reason.contains(words), "{words}: {outcome}");
        }
        experiments.insert(outcome["experiment"].as_str().unwrap().to_owned());
    }
    user.has_gone();
    experiments
}

#[test]
fn every_maker_names_the_limit_that_leaves_room_for_none() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let experiments = all_name_the_limit(&user, 2);
    for maker in MAKERS {
        // On one CPU there are no teams: these experiments make nothing, or have no case.
        let teams = ["cpu.core_to_core", "cpu.linpack", "cpu.peak"].contains(&maker);
        if !teams || metal::place::allowed().unwrap().len() > 1 {
            assert!(experiments.contains(maker), "{maker}: {experiments:?}");
        }
    }
}

#[test]
fn every_maker_names_the_limit_that_leaves_room_for_one_or_two() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    // A ring of processes has eight parties.
    for processes in [3, 4] {
        assert!(all_name_the_limit(&user, processes).contains("os.switch"), "{processes}");
    }
}

#[test]
fn a_full_control_group_is_a_reason_with_a_way_out() {
    // The session and its worker.
    let Some(group) = Group::processes(2) else { return skips::test("control-group") };
    let here = Here::new();
    answer(here.in_group(&group.0, &RUN.join(" ")).output().unwrap());
    let events = here.complete();
    let text = format!("{events:?}");
    assert!(text.contains("pids.max"), "{text}");
    assert_eq!(failed(&events).1, 0, "{text}");
    // Everything has ended and is reaped.
    let left = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
    assert!(left.is_empty(), "{left}");
}

#[test]
fn no_child_outlives_a_killed_worker() {
    // A group holds whatever the run makes; where there can be none, the workers' sessions, which
    // are looked at in any case, hold what a child does not leave by itself.
    let group = Group::processes(1000);
    let here = Here::new();
    let args = "run os.process:call=fork,fork_calls,sh --preset thorough \
                --set os.process.resident=1MiB --set os.process.pages=base";
    let mut command = match &group {
        Some(group) => here.in_group(&group.0, args),
        None => here.command(&args.split_whitespace().collect::<Vec<_>>()),
    };
    let session = command.spawn().unwrap();
    let pid = session.id();
    here.wait_for(|event| is(event, "plan"));
    // A third loss in a row would end the series.
    let mut seen: Vec<u32> = Vec::new();
    for killed in [true, true, false] {
        let worker = wait_for("another worker", || {
            workers(pid).into_iter().find(|worker| !seen.contains(worker))
        });
        seen.push(worker);
        if killed {
            signal("KILL", worker);
        }
    }
    signal("INT", pid);
    ended_with(4, session);
    no_worker_stays(pid);
    // A child that was under way when its parent was killed ends by itself.
    seen.into_iter().for_each(session_is_empty);
    if let Some(group) = group {
        let procs = group.0.join("cgroup.procs");
        wait_for("the last child's end", || {
            fs::read_to_string(&procs).unwrap().is_empty().then_some(())
        });
    }
}

#[test]
fn plan_and_doctor_say_that_proc_is_missing() {
    let here = Here::new();
    let without = |dir: &str, command: &str| {
        let line = format!("mount -t tmpfs none {dir} && exec {PLUMB} {command}");
        here.other("unshare").args(["--mount", "sh", "-c", &line]).output().unwrap()
    };
    if !without("/mnt", "list").status.success() {
        return skips::test("mount");
    }
    for dir in ["/proc", "/sys"] {
        for command in ["plan selftest.echo --preset quick", "doctor --watch 1ms"] {
            let answer = answer(without(dir, command));
            assert!(matches!(answer.code, Some(0 | 1)), "{dir} {command}: {answer:?}");
            assert!(answer.out.contains(&format!("not mounted: {dir}")), "{command}: {answer:?}");
        }
    }
}
