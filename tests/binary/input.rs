//! Bad input: each a clear message that names what to type instead, the right exit code, and
//! nothing half-written.

use crate::plumb::prelude::*;

/// Each is refused with exit code 2 and all parts of its message, and leaves nothing behind.
fn refused(cases: &[(&[&str], &[&str])]) {
    for (args, parts) in cases {
        let here = Here::new();
        let answer = here.ends(2, args);
        assert_eq!(answer.out, "", "{args:?} prints no result");
        for part in *parts {
            assert!(answer.err.contains(part), "{args:?} lacks `{part}`: {}", answer.err);
        }
        assert!(here.entries(".").is_empty(), "{args:?} leaves {:?}", here.entries("."));
    }
}

#[test]
fn selectors() {
    refused(&[
        (&["run", "selftest.ecko"], &["`selftest.ecko`", "did you mean `selftest.echo`?"]),
        (&["plan", "selftest.ecko"], &["did you mean `selftest.echo`?"]),
        (&["explain", "selftest.ecko"], &["did you mean `selftest.echo`?", "plumb list"]),
        (&["run", "nonsense"], &["`nonsense`", "plumb list"]),
        (&["run", ""], &["plumb list"]),
        (&["run", "!*"], &["no experiment matches", "plumb list"]),
        (&["run", "selftest.echo:"], &["selftest.echo:far=VALUE"]),
        (&["run", "selftest.echo:messages="], &["it takes 1..10000"]),
        (
            &["run", "selftest.echo:message=5"],
            &["no case parameter `message`", "it has far, messages"],
        ),
        (&["run", "selftest.echo:messages=7"], &["no case", "plumb plan selftest.echo", "--set"]),
        (&["run", "selftest:messages=5"], &["name one", "selftest.echo:messages=5"]),
        (&["run", "selftest.fault:fault=flood"], &["`flood`", "none, error, panic"]),
        (&["run", "published/r4:2.4"], &["several machines", "published/r4-magny-cours"]),
        (&["plan", "published/r1:XXX"], &["no table XXX", "Table XIX"]),
        (&["plan", "published/r9"], &["no published machine", "published/r0-i7-3770k"]),
        (&["compare", "published/r1:XXX", "published/r1"], &["no table XXX", "Table XIX"]),
    ]);
}

#[test]
fn options() {
    let set = |what| ["run", "selftest", "--set", what];
    refused(&[
        (&["run", "--preset", "fast"], &["fast", "quick, standard, thorough"]),
        (&set("messages"), &["ID.PARAM=VALUE"]),
        (&set("messages=5"), &["ID.PARAM=VALUE"]),
        (&set("selftest.ecko.messages=5"), &["did you mean `selftest.echo`?"]),
        (&set("selftest.echo.mesages=5"), &["did you mean `messages`?", "it has far, messages"]),
        (&set("selftest.echo.messages=0"), &["out of range", "1..10000"]),
        (&set("selftest.echo.messages=many"), &["it takes 1..10000"]),
        (&set("selftest.echo.messages=9..3"), &["low..high"]),
        (&set("selftest.fault.fault=flood"), &["none, error, panic, exit, first"]),
        (&set("selftest.pulse.duration=99h"), &["out of range"]),
        (&set("os.timer.delay=1ms"), &["os.timer", "not selected", "plumb run os.timer"]),
        (&set("selftest.pulse.duration=soon"), &["20s"]),
        (&["run", "noise", "--set", "noise.activity.attribution=all"], &["tracepoints"]),
        (&["run", "noise", "--set", "noise.activity.cpu=fast"], &["quietest"]),
        (&["run", "noise", "--set", "noise.activity.duration=0"], &["duration"]),
        (&set("selftest.pulse.duration=1s,2s"), &["takes one"]),
        (&set("host.cpu.speed=4GHz"), &["host.cpu.speed", "host.cpu.max_hz"]),
        (&set("host.cpu.max_hz=fast"), &["4.2GHz"]),
        (&set("host.cpu.max_hz=4.2"), &["4.2 Hz; did you mean 4.2GHz?"]),
        (&["run", "cpu.sustained", "--set", "cpu.sustained.duration=1h"], &["--yes", "--budget"]),
        (&["run", "selftest.echo", "--out", "nowhere/a.jsonl"], &["--out", "nowhere"]),
        (&["run", "selftest.echo", "--report", "nowhere/a.html"], &["--report", "nowhere"]),
        (&["run", "selftest.echo", "--dir", "nowhere"], &["--dir", "nowhere"]),
        (&["run", "--budget", "soon"], &["--budget", "10m"]),
        (&["run", "--budget", "0s"], &["--budget", "10m"]),
        (&["run", "--budget", "18446744073709551615s"], &["--budget", "30days"]),
        (&["run", "--budget", "-5s"], &["--budget", "above 0s and up to 30days"]),
        (&["plan", "--precision", "-1"], &["--precision", "from 0.01 to 100"]),
        (&["run", "--seed", "-1"], &["--seed", "from 0 to 18446744073709551615"]),
        (&["trend", "--fail-on", "slow"], &["--fail-on `slow`", "slower"]),
        (&["run", "--precision", "0"], &["--precision", "for example 2"]),
        (&["run", "--precision", "NaN"], &["--precision", "for example 2"]),
        (&["run", "--seed", "dice"], &["--seed", "whole number"]),
        (&["run", "--resume", "last", "--seed", "1"], &["--resume", "--seed"]),
        (&["mesure"], &["mesure", "--help"]),
    ]);
}

#[test]
fn cpus() {
    let cpu = |list| ["run", "selftest", "--cpu", list];
    refused(&[
        (&cpu("9999"), &["CPU 9999 does not exist", "--cpu 0"]),
        (&cpu("0,9999"), &["CPU 9999 does not exist"]),
        (&cpu("first"), &["not a list of CPUs", "0,2-3"]),
        (&cpu(""), &["not a list of CPUs"]),
        (&cpu("0,3-2"), &["not a list of CPUs"]),
        (&cpu("0,"), &["not a list of CPUs"]),
        (&cpu("0-99999999999"), &["not a list of CPUs"]),
    ]);
}

#[test]
fn a_cpu_that_this_process_may_not_use() {
    let here = Here::new();
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let text = allowed.unwrap().trim();
    let ends: Vec<&str> = text.split([',', '-']).collect();
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    if first == last {
        // One CPU only: there is none that could be forbidden.
        return skips::test("one-cpu");
    }
    let tied = |cpu: &str| {
        let mut taskset = here.other("taskset");
        let args = ["run", "selftest.fault", "--preset", "rehearsal", "--cpu", cpu];
        answer(taskset.args(["-c", first, PLUMB]).args(args).output().unwrap())
    };
    let refused = tied(last);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains(&format!("CPU {last} ")), "{refused:?}");
    assert!(refused.err.contains(&format!("--cpu {first}\n")), "{refused:?}");
    assert_eq!(tied(first).code, Some(0));
}

#[test]
fn directories() {
    let here = Here::new();
    fs::write(here.path("file"), "").unwrap();
    for (dir, part) in [("absent", "existing"), ("file", "another directory"), ("/proc", "/proc")] {
        let answer = here.ends(2, &["run", "selftest", "--dir", dir]);
        assert!(answer.err.contains("--dir"), "{dir}: {answer:?}");
        assert!(answer.err.contains(part), "{dir}: {answer:?}");
    }
    assert_eq!(here.entries("."), ["file"]);
    // Without the option it is the current directory, unless that cannot be written or is memory.
    let mut elsewhere = vec![Path::new("/proc")];
    elsewhere.extend(Some(Path::new("/dev/shm")).filter(|shm| shm.exists()));
    for dir in elsewhere {
        let mut plan = here.command(&["plan", "selftest.file"]);
        let plan = answer(plan.current_dir(dir).output().unwrap());
        assert!(plan.out.contains("it needs --dir"), "{plan:?}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_anything_is_measured() {
    let here = Here::new();
    fs::write(here.path("file"), "kept").unwrap();
    let dir = here.make_dir("dir");
    for (option, target, part) in [
        ("--out", "file", "name another file with --out"),
        ("--out", dir.as_str(), "type a file name in it"),
        ("--out", "file/record.jsonl", "name a writable file with --out"),
        ("--out", "/proc/record.jsonl", "name a writable file with --out"),
        ("--report", "file/page.html", "name another file"),
        ("--report", "absent/page.html", "name another file"),
        ("--report", "/proc/page.html", "name another file"),
        ("--report", dir.as_str(), "type a file name in it"),
    ] {
        let answer = here.ends(2, &["run", "selftest", option, target]);
        let named = target.split('/').find(|part| !part.is_empty()).unwrap();
        assert!(answer.err.contains(named), "{option} {target}: {answer:?}");
        assert!(answer.err.contains(part), "{option} {target}: {answer:?}");
    }
    let mut left = here.entries(".");
    left.sort();
    assert_eq!(left, ["dir", "file"]);
    assert_eq!(fs::read_to_string(here.path("file")).unwrap(), "kept");
    assert!(here.entries("dir").is_empty());
}

#[test]
fn a_report_does_not_replace_the_record_or_a_device() {
    let here = Here::new();
    let record = here.path("run.jsonl");
    let fault = ["run", "selftest.fault", "--preset", "rehearsal"];
    let onto_itself = ["--out", "run.jsonl", "--report", "./run.jsonl"];
    here.ends(2, &[&fault[..], &onto_itself].concat());
    assert!(!record.exists(), "a run that never began leaves nothing");
    // A symbolic link to a device: the device is written, neither it nor the link is replaced.
    std::os::unix::fs::symlink("/dev/null", here.path("sink")).unwrap();
    here.ends(0, &[&fault[..], &["--report", "sink"]].concat());
    assert!(here.path("sink").symlink_metadata().unwrap().is_symlink());
    let mode = fs::metadata("/dev/null").unwrap();
    assert!(!mode.is_file() && mode.permissions().mode() & 0o222 != 0);
}

#[test]
fn names_of_runs() {
    let here = Here::new();
    let resume = |run| here.plumb(&["run", "--resume", run]);
    for (run, part) in [
        ("last", "`plumb run` makes one"),
        ("2031", "plumb runs"),
        ("", "plumb runs"),
        ("./absent.jsonl", "there is no file ./absent.jsonl"),
    ] {
        let answer = resume(run);
        assert_eq!(answer.code, Some(2), "{run}: {answer:?}");
        assert!(answer.err.contains(part), "{run}: {answer:?}");
    }
    fs::create_dir(here.path("store")).unwrap();
    for name in ["2031-01", "2031-02", "2031-02-2"] {
        fs::write(here.path(&format!("store/{name}.jsonl")), "").unwrap();
    }
    let many = resume("2031");
    assert!(many.err.contains("`2031`"), "{many:?}");
    // A whole name is meant although another begins with it.
    for (run, part) in [("2031-02", "2031-02.jsonl"), ("last", "2031-02-2.jsonl")] {
        let one = resume(run);
        assert_eq!(one.code, Some(2), "{one:?}");
        assert!(one.err.contains(part) && one.err.contains("empty"), "{one:?}");
    }
}

#[test]
fn an_experiment_has_no_more_cases_than_a_range_has_values() {
    let here = Here::new();
    let set = ["block=512B..1GiB", "depth=1..1024", "threads=1..64"];
    let set = set.map(|set| format!("fs.io.{set}"));
    let plan = |set: &[String]| {
        let mut args = vec!["plan", "fs.io"];
        set.iter().for_each(|set| args.extend(["--set", set]));
        answer(here.command(&args[..]).output().unwrap())
    };
    let refused = plan(&set);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in ["fs.io would have", "where 4096 are the most", "depth has 1024 values"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn what_is_no_record_is_named_and_kept() {
    let here = Here::new();
    let newer = "{\"event\":\"header\",\"format\":99}\n";
    for (contents, part) in [
        (&b"\x7fELF\x02\x01\x01\x00\xff\xfe\n\x00"[..], "not a plumb record"),
        (b"", "it is empty"),
        (b"\n", "not a plumb record"),
        (b"{\"figures\":[]}\n", "not a plumb record"),
        (b"hello\n", "not a plumb record"),
        (b"\x1f\x8b\x08\x00", "packed by gzip"),
        (b"\x1f\x8b\n\x00", "packed by gzip"),
        (newer.as_bytes(), "newer plumb"),
        (b"{\"event\":\"header\",\"format\":5,\"run\":7}\n", "line 1 is damaged"),
        (b"{\"event\":\"header\",\"format\":1,\"run\":7}\n", "of a development version"),
    ] {
        fs::write(here.path("it.jsonl"), contents).unwrap();
        let answer = here.ends(2, &["run", "--resume", "it.jsonl"]);
        assert!(answer.err.contains("it.jsonl"), "{answer:?}");
        assert!(answer.err.contains(part), "lacks `{part}`: {answer:?}");
        assert_eq!(fs::read(here.path("it.jsonl")).unwrap(), contents, "nothing is lost");
    }
    here.ends(2, &["run", "--resume", "/"]);
}

#[test]
fn a_worker_is_not_for_hands() {
    let here = Here::new();
    let answer = here.ends(3, &["worker", "1"]);
    assert!(answer.err.contains("session"), "{answer:?}");
    let recorded = here.ends(2, &["run", "--host-tree", "/"]);
    assert!(recorded.err.contains("plumb plan"), "{recorded:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for args in [&["list", "--all"][..], &["explain", "selftest.echo"], &["--help"], &["man"]] {
        let here = Here::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command: Command = here.command(args);
        let answer = answer(command.stdout(Stdio::from(writer)).output().unwrap());
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
        assert_eq!(answer.err, "", "{args:?}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let here = Here::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    ends(3, here.command(&["list"]).stdout(full));
    here.ends(0, &["run", "clock.read", "--preset", "rehearsal"]);
    let published = "published/r0-i7-3770k";
    let shown: [&[&str]; 3] = [
        &["report", published, "-o"],
        &["compare", published, published, "-o"],
        &["runs", "export", "last", "--to"],
    ];
    for shown in shown {
        here.ends(3, &[shown, &["/dev/full"]].concat());
        here.ends(2, &[shown, &["nowhere/file"]].concat());
    }
}

/// A table of a published report selects its cases, by the rules of the preset `reports`.
#[test]
fn a_table_of_a_report_selects_its_cases() {
    let here = Here::new();
    let text = here.ends(0, &["plan", "published/r1:III", "--json"]).out;
    let plan: Value = serde_json::from_str(&text).unwrap();
    let experiments = plan["plan"]["experiments"].as_array().unwrap();
    let planned: Vec<&str> = experiments.iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(planned, ["os.syscall"]);
    let compared = here.ends(0, &["compare", "published/r1:III", "published/r1"]).out;
    assert!(compared.contains("os.syscall") && !compared.contains("net.rtt"), "{compared}");
}

#[test]
fn a_preset_may_set_what_the_selectors_leave_out() {
    let here = Here::new();
    here.ends(0, &["plan", "--preset", "reports", "!cpu.sustained"]);
}

#[test]
fn a_decimal_size_is_said_to_be_one() {
    let here = Here::new();
    let told = here.ends(0, &["plan", "memory.latency", "--set", "memory.latency.footprint=32KB"]);
    assert!(told.err.contains("32000 bytes") && told.err.contains("32KiB"), "{told:?}");
    let binary =
        here.ends(0, &["plan", "memory.latency", "--set", "memory.latency.footprint=32KiB"]);
    assert_eq!(binary.err, "");
}

#[test]
fn lists_and_plans_take_families_and_json() {
    let here = Here::new();
    let parsed = |args: &[&str]| -> Value { here.ends(0, args).json() };
    let listed = parsed(&["list", "clock", "os.ipc", "--json"]);
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"clock.read") && ids.contains(&"os.ipc"), "{ids:?}");
    assert!(ids.iter().all(|id| id.starts_with("clock.") || *id == "os.ipc"), "{ids:?}");
    let plan = parsed(&["plan", "clock", "--json"]);
    let planned = plan["plan"]["experiments"].as_array().unwrap();
    assert!(planned.iter().all(|one| one["id"].as_str().unwrap().starts_with("clock.")));
    for effect in ["load", "writes", "evicts"] {
        assert!(!plan["effects"][effect].as_str().unwrap().is_empty(), "{effect}");
    }
    // The defaults are those of the preset.
    for (preset, windows) in [("quick", "100ms"), ("thorough", "250ms")] {
        let plan = parsed(&["plan", "clock.rate", "--preset", preset, "--json"]);
        assert_eq!(plan["defaults"]["clock.rate"]["window"], windows);
        let text = here.ends(0, &["plan", "clock.rate", "--preset", preset]).out;
        assert!(text.contains(&format!("window={windows}")), "{text}");
    }
}

#[test]
fn an_old_kernel_is_named() {
    let here = Here::new();
    for dir in ["tree/proc/sys/kernel", "tree/sys/devices/system/cpu"] {
        fs::create_dir_all(here.path(dir)).unwrap();
    }
    fs::write(here.path("tree/sys/devices/system/cpu/online"), "0\n").unwrap();
    let plan = |release: &str| {
        fs::write(here.path("tree/proc/sys/kernel/osrelease"), release).unwrap();
        here.plumb(&["plan", "selftest.echo", "--host-tree", "tree"])
    };
    let old = plan("3.10.0-1160.el7.x86_64\n");
    assert!(
        old.code == Some(2) && old.err.contains("3.10.0") && old.err.contains("4.18"),
        "{old:?}"
    );
    assert_eq!(plan("4.18.0-553.el8.x86_64\n").code, Some(0));
}
