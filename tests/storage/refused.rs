//! Places where nothing is written: others' directories, devices, the kernel's own file systems.

use crate::disk::entries;
use crate::plumb::prelude::*;
use crate::runs::outcomes;
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, symlink};

/// A plan with its files there is refused, and says so.
#[track_caller]
fn is_refused(answer: &Answer, dir: &str, words: &[&str]) {
    assert_eq!(answer.code, Some(2), "{dir}: {answer:?}");
    for words in ["--dir", "name another directory"].iter().chain(words) {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
}

fn block_device() -> Option<PathBuf> {
    let is_block =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    entries(Path::new("/dev")).into_iter().find(is_block)
}

#[test]
fn devices_and_the_kernels_own_are_no_place_for_files() {
    let here = Here::new();
    // Others than root may not write there, whatever it holds.
    let is_root = metal::process::geteuid() == 0;
    let mut refused: Vec<(String, &str)> = vec![
        ("/dev".to_owned(), if is_root { "contains devices" } else { "Permission denied" }),
        ("/dev/pts".to_owned(), ""),
        ("/proc".to_owned(), ""),
        ("/sys/kernel".to_owned(), ""),
        ("/dev/null".to_owned(), "is a device"),
    ];
    if let Some(device) = block_device() {
        let link = here.path("link");
        symlink(&device, &link).unwrap();
        refused.push((device.to_str().unwrap().to_owned(), "is a block device"));
        refused.push((link.to_str().unwrap().to_owned(), "is a block device"));
    }
    for (dir, words) in refused {
        for command in ["plan", "run"] {
            let answer = here.plumb(&[command, "selftest.file", "--dir", &dir]);
            is_refused(&answer, &dir, &[words]);
        }
    }
    assert!(here.records().is_empty());
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let here = Here::new();
    let dir = here.make_dir("theirs");
    mode(&dir, 0o755);
    let answer = user.plumb(&here, 64, &["run", "selftest.file", "--dir", &dir]);
    is_refused(&answer, &dir, &["Permission denied"]);
    assert!(here.entries("theirs").is_empty());
    // One that cannot even be seen.
    mode(&dir, 0o700);
    let inner = here.make_dir("theirs/inner");
    let answer = user.plumb(&here, 64, &["plan", "selftest.file", "--dir", &inner]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("Permission denied"), "{answer:?}");
    user.has_gone();
}

/// What a trace says was opened for writing: the path of every such descriptor.
fn opened_for_writing(trace: &str) -> BTreeSet<PathBuf> {
    let mut opened = BTreeSet::new();
    for line in trace.lines() {
        let writes = ["O_WRONLY", "O_RDWR", "creat("];
        if !writes.iter().any(|flag| line.contains(flag)) {
            continue;
        }
        // … = 3</path> or 3</path<block 7:0>>; one that failed has none.
        let Some((_, answer)) = line.rsplit_once(" = ") else { continue };
        if let Some((_, path)) = answer.split_once('<') {
            let path = path.split(['<', '>']).next().unwrap_or_default();
            opened.insert(PathBuf::from(path));
        }
    }
    opened
}

#[test]
fn a_whole_rehearsal_opens_no_block_device_for_writing() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let mut strace = here.other("strace");
    strace
        .args(["-f", "--seccomp-bpf", "-qq", "-yy", "-o", "trace"])
        .args(["-e", "trace=open,openat,openat2,creat", "-e", "signal=none"])
        .arg(PLUMB)
        .args(["run", "--preset", "rehearsal", "--dir", &dir]);
    let output = strace.output().expect("scripts/test installs strace");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let trace = fs::read(here.path("trace")).unwrap_or_default();
    let trace = String::from_utf8_lossy(&trace);
    if trace.is_empty() {
        return skips::part("trace", said);
    }
    let answer = answer(output);
    assert!(matches!(answer.code, Some(0 | 3)), "{answer:?}");
    let opened = opened_for_writing(&trace);
    // Its own record, at least; what the trace says is understood.
    let record = here.record();
    assert!(opened.contains(&record), "{opened:?}");
    let devices: Vec<&PathBuf> = opened.iter().filter(|path| path.starts_with("/dev")).collect();
    for path in &devices {
        let harmless = ["/dev/null", "/dev/shm", "/dev/tty", "/dev/cpu_dma_latency"];
        assert!(harmless.iter().any(|it| path.starts_with(it)), "{devices:?}");
    }
    for path in &opened {
        let is_block = fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        assert!(!is_block, "{}", path.display());
    }
    // Files of experiments lie in the run's directory, nowhere else.
    assert!(here.entries("files").is_empty());
    // What needs nothing but a machine is measured.
    let events = here.complete();
    for id in ["clock.read", "clock.rate", "clock.loop", "cpu.call", "os.syscall", "memory.latency"]
    {
        let found = outcomes(&events, id);
        assert!(found.iter().any(|(how, _)| *how == "measured"), "{id}: {found:?}");
        assert!(found.iter().all(|(how, _)| *how != "failed"), "{id}: {found:?}");
    }
}
