use crate::signal;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use super::*;
use crate::memory::{Mapping, Pages, base_page_bytes};

fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

#[test]
fn faults_are_counted_one_for_each_touched_page() {
    let mut mapping = Mapping::new(100 * base_page_bytes(), Pages::Base).unwrap();
    let before = rusage_thread();
    mapping.touch();
    let after = rusage_thread();
    // The tables of the touched pages may be faulted in besides.
    assert!((100..110).contains(&(after.minflt - before.minflt)));
    assert!(rusage_self().minflt >= after.minflt);
    assert!(rusage_self().maxrss >= mapping.bytes() as u64);
}

#[test]
fn the_peak_is_that_of_this_address_space() {
    let status = "VmPeak:\t  900 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 7 kB\n";
    assert_eq!(peak_of(status), Some(1234 * 1024));
    assert_eq!(peak_of("VmHWM:\t x kB\n"), None);
    assert_eq!(peak_of("VmRSS:\t 7 kB\n"), None);
    let mut mapping = Mapping::new(64 << 20, Pages::Base).unwrap();
    mapping.touch();
    assert!(peak_resident_bytes().unwrap() >= 64 << 20);
    // A child that this process starts takes the peak over into its rusage, but not here.
    let child = Command::new("grep").args(["VmHWM", "/proc/self/status"]).output().unwrap();
    let told = peak_of(&String::from_utf8(child.stdout).unwrap()).unwrap();
    assert!((1..64 << 20).contains(&told), "{told}");
}

#[test]
fn times_are_cpu_times() {
    let before = rusage_thread();
    let start = clock::monotonic_ns();
    while rusage_thread().utime_ns + rusage_thread().stime_ns == before.utime_ns + before.stime_ns {
        assert!(clock::monotonic_ns() - start < 5_000_000_000, "no CPU time");
    }
}

#[test]
fn a_child_that_is_killed_ends_by_that_signal() {
    let mut child = cat().spawn().unwrap();
    kill(child.id(), 0).unwrap();
    kill(child.id(), libc::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert!(kill(child.id(), 0).is_err());
}

#[test]
fn a_session_of_its_own_is_a_group_that_is_killed_whole() {
    let mut leader = Command::new("sh");
    leader.args(["-c", "sleep 1000 & echo; wait"]);
    let mut leader = in_new_session(leader.stdout(Stdio::piped())).spawn().unwrap();
    let mut output = leader.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    // The member holds the pipe open until it has ended too.
    kill_group(leader.id()).unwrap();
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
    assert_eq!(leader.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn numbers_that_mean_more_than_one_process_are_refused() {
    for pid in [0, 1, u32::MAX, i32::MAX as u32 + 1] {
        assert_eq!(kill(pid, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(kill_group(pid).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_child_with_another_parent_is_told_so() {
    let parent = std::process::id();
    let run = |claimed: u32| {
        let mut command = Command::new("true");
        // SAFETY: prctl and getppid are plain system calls; an error value is
        // allocated only where the child is about to end.
        unsafe {
            command.pre_exec(move || {
                die_with_parent(claimed).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))
            })
        };
        command.status()
    };
    assert!(run(parent).unwrap().success());
    let error = run(parent + 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn a_child_ends_with_its_parent() {
    // The thread that makes the child counts as its parent: when it ends, the
    // kernel kills the child.
    let parent = std::process::id();
    let mut child = std::thread::spawn(move || {
        let mut command = cat();
        // SAFETY: as above.
        unsafe { command.pre_exec(move || die_with_parent(parent)) };
        command.spawn().unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn the_first_call_of_a_child_takes_time_and_leaves_no_child() {
    for _ in 0..3 {
        let ticks = first_syscall_in_vfork_child().unwrap();
        // A second at any counter's rate.
        assert!(ticks < 10_000_000_000, "{ticks}");
        #[cfg(target_arch = "x86_64")]
        assert!(ticks > 10, "{ticks}");
    }
}

#[test]
#[expect(clippy::zombie_processes, reason = "succeed reaps them")]
fn an_unsuccessful_child_is_an_error() {
    for (program, succeeds) in [("true", true), ("false", false)] {
        let child = Command::new(program).spawn().unwrap();
        let pid = child.id() as libc::pid_t;
        assert_eq!(child::succeed(pid).is_ok(), succeeds, "{program}");
    }
    let child = cat().spawn().unwrap();
    kill(child.id(), libc::SIGKILL).unwrap();
    assert!(child::succeed(child.id() as libc::pid_t).is_err());
}

#[test]
fn the_mask_is_emptied() {
    std::thread::spawn(|| {
        signal::block(&[libc::SIGUSR1]).unwrap();
        signal::unblock_all().unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find(|line| line.starts_with("SigBlk:"));
        assert_eq!(blocked, Some("SigBlk:\t0000000000000000"));
    })
    .join()
    .unwrap();
}

#[test]
fn the_effective_user_is_the_kernels() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    let effective = line.split_whitespace().nth(2).unwrap();
    assert_eq!(effective, geteuid().to_string());
}

#[test]
fn a_program_ends_with_the_process_that_started_it() {
    let (reader, writer) = io::pipe().unwrap();
    let parent = Child::fork(|| {
        let mut command = Command::new("sleep");
        command.arg("100").stdout(writer.try_clone().unwrap());
        i32::from(dying_with_parent(&mut command).spawn().is_err())
    })
    .unwrap();
    drop(writer);
    parent.succeed().unwrap();
    // Its end of the pipe was the last.
    let patience = std::time::Duration::from_secs(10);
    assert!(crate::wait::readable(std::os::fd::AsFd::as_fd(&reader), patience).unwrap());
}
