//! Limits on processes that are reached while processes are made: a clear failure, never a hang, and
//! nothing left behind.

use crate::plumb::{
    Answer, Here, answer, end, events, no_worker_stays, of, signal, wait_for_worker,
};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Users that nobody is: limits on processes count all processes of a user.
const NOBODY: u32 = 64_321;
/// One case of each way to make a child.
const CASES: &str = "os.process:call=fork,vfork,posix_spawn_static,resident=1MiB,pages=base";
const RUN: [&str; 4] = ["run", CASES, "--preset", "rehearsal"];

/// The reasons of cases that failed, and how many were measured.
fn failed(events: &[Value]) -> (Vec<String>, usize) {
    let outcomes = of(events, "outcome");
    let measured = outcomes
        .iter()
        .filter(|outcome| outcome["outcome"] == "measured");
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome["outcome"] == "failed");
    (failed.map(ToString::to_string).collect(), measured.count())
}

/// Whether this process may act as another user.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// The binary where every user may execute it, and the store where this one may write.
fn for_all(here: &Here) -> PathBuf {
    let copy = here.path("plumb");
    fs::copy(env!("CARGO_BIN_EXE_plumb"), &copy).unwrap();
    for path in [here.path(""), copy.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    copy
}

fn as_other_user(here: &Here, processes: u32) -> Answer {
    let user = NOBODY.to_string();
    let mut command = here.other("setpriv");
    command
        .args([
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "prlimit",
        ])
        .arg(format!("--nproc={processes}"))
        .arg(for_all(here))
        .args(RUN);
    answer(
        command
            .output()
            .expect("util-linux has setpriv and prlimit"),
    )
}

#[test]
fn the_limit_on_a_users_processes_is_a_reason_with_a_way_out() {
    if !is_root() {
        println!("skipped: only root can become another user, and root has no such limit");
        return;
    }
    // Session and worker are two; with room for the children everything is measured.
    let here = Here::new();
    let answer = as_other_user(&here, 3);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(failed(&events(&here.record())), (Vec::new(), 3));

    let here = Here::new();
    let answer = as_other_user(&here, 2);
    let events = events(&here.record());
    assert_eq!(end(&events), "complete", "{answer:?}");
    let text = format!("{events:?}");
    assert!(text.contains("no more processes may be made"), "{text}");
    assert!(text.contains("this user may have 2 processes"), "{text}");
    assert!(text.contains("`ulimit -u`"), "{text}");
    assert_eq!(failed(&events).1, 0, "{text}");
}

/// A control group that holds no more processes than `most`; removed on drop.
struct Group(PathBuf);

impl Group {
    /// `None` where this process may make none.
    fn new(name: &str, most: u32) -> Option<Group> {
        let name = format!("plumb-test-{name}-{}", std::process::id());
        // Version 1, else version 2.
        let mounted = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(PathBuf::from);
        let mount = mounted
            .into_iter()
            .find(|mount| mount.join("cgroup.procs").exists())?;
        let group = Group(mount.join(name));
        fs::create_dir(&group.0).ok()?;
        // Only the kernel makes this file, where the controller is there.
        let mut limit = fs::OpenOptions::new()
            .write(true)
            .open(group.0.join("pids.max"))
            .ok()?;
        limit.write_all(most.to_string().as_bytes()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group with processes in it stays; then the test has failed already.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_control_group_is_a_reason_with_a_way_out() {
    // The session and its worker.
    let Some(group) = Group::new("full", 2) else {
        println!("skipped: no control group for processes can be made here");
        return;
    };
    let here = Here::new();
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let procs = group.0.join("cgroup.procs");
    let line = format!(
        "echo $$ > {}; exec {plumb} {}",
        procs.display(),
        RUN.join(" ")
    );
    let answer = answer(here.other("sh").args(["-c", &line]).output().unwrap());
    let events = events(&here.record());
    assert_eq!(end(&events), "complete", "{answer:?}");
    let text = format!("{events:?}");
    assert!(text.contains("no more processes may be made"), "{text}");
    assert!(text.contains("pids.max"), "{text}");
    assert_eq!(failed(&events).1, 0, "{text}");
    // Everything has ended and is reaped.
    let left = fs::read_to_string(procs).unwrap();
    assert!(left.is_empty(), "{left}");
}

#[test]
fn no_child_outlives_a_killed_worker() {
    let Some(group) = Group::new("roomy", 1000) else {
        println!("skipped: no control group for processes can be made here");
        return;
    };
    let here = Here::new();
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let procs = group.0.join("cgroup.procs");
    let line = format!(
        "echo $$ > {}; exec {plumb} run os.process:call=fork,fork_calls,sh --preset thorough \
         --set os.process.resident=1MiB --set os.process.pages=base",
        procs.display()
    );
    let session = here.other("sh").args(["-c", &line]).spawn().unwrap();
    let pid = session.id();
    here.wait_for(|event| crate::plumb::is(event, "plan"));
    // A third loss in a row would end the series.
    for _ in 0..2 {
        signal("KILL", wait_for_worker(pid));
    }
    signal("INT", pid);
    let answer = crate::plumb::ended(session);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    no_worker_stays(pid);
    // A child that was under way when its parent was killed ends by itself.
    crate::plumb::wait_for("the last child's end", || {
        fs::read_to_string(&procs).unwrap().is_empty().then_some(())
    });
}
