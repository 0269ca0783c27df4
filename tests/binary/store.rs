//! The store among other users, places and clocks, and the files that plumb makes for a user.

use crate::plumb::prelude::*;
use record::seal::resealed;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

const REHEARSAL: [&str; 4] = ["run", "selftest.fault", "--preset", "rehearsal"];

/// shared/lab/abuse/root_nohome.sh: what another user laid in the place of root's store.
#[test]
fn root_uses_no_store_of_another_user() {
    if Stranger::new().is_none() {
        return skips::test("root");
    }
    let here = Here::new();
    here.make_dir("public");
    mode(here.path("public"), 0o1777);
    here.make_dir("private");
    here.make_dir("private/plumb-secret");
    fs::write(here.path("private/plumb-secret/file"), "data").unwrap();
    fs::write(here.path("private/precious"), "precious").unwrap();
    let store = here.path("public/plumb-runs");
    fs::create_dir_all(store.join("journal")).unwrap();
    symlink(here.path("private/precious"), store.join("run.figures.json")).unwrap();
    fs::write(store.join("run.jsonl"), "").unwrap();
    let secret = here.path("private/plumb-secret");
    let facts = secret.metadata().unwrap();
    let forged = serde_json::json!({
        "place": host::place::Place::here(), "undos": [{"remove_dir": secret}], "holder": null,
        "hung": false,
    });
    let forged = format!("{forged}\n[{},{}]\n", facts.dev(), facts.ino());
    fs::write(store.join("journal/plumb-x.json"), forged).unwrap();
    for path in ["", "journal", "run.figures.json", "run.jsonl", "journal/plumb-x.json"] {
        std::os::unix::fs::lchown(store.join(path), Some(65_534), Some(65_534)).unwrap();
    }
    let plumb = |args: &[&str]| {
        let mut command = here.command(args);
        command.env("PLUMB_STORE", "plumb-runs").current_dir(here.path("public"));
        answer(command.output().unwrap())
    };
    let ran = plumb(&REHEARSAL);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("uid 65534") && ran.err.contains("PLUMB_STORE"), "{ran:?}");
    assert_eq!(plumb(&["runs"]).code, Some(0));
    assert_eq!(plumb(&["crosscheck", "stream", "--preset", "rehearsal"]).code, Some(3));
    assert_eq!(fs::read_to_string(here.path("private/precious")).unwrap(), "precious");
    assert!(secret.join("file").exists());
    assert_eq!(here.entries("public/plumb-runs"), ["journal", "run.figures.json", "run.jsonl"]);
}

/// shared/lab/abuse/symlink_part.sh: a link at the name that a temporary file once had.
#[test]
fn a_page_is_not_written_through_links_of_others() {
    let here = Here::new();
    let public = here.make_dir("public");
    mode(&public, 0o777);
    fs::write(here.path("precious"), "precious").unwrap();
    let line = format!(
        "ln -s ../precious .page.html.$$.part; exec {} report published/r0-i7-3770k -f html -o page.html",
        PLUMB
    );
    let mut shell = here.other("sh");
    ends(0, shell.args(["-c", &line]).current_dir(&public));
    assert_eq!(fs::read_to_string(here.path("precious")).unwrap(), "precious");
    assert!(fs::read_to_string(here.path("public/page.html")).unwrap().starts_with("<!DOCTYPE"));
}

/// shared/lab/abuse/more/hostile.sh: links in the middle of a path, and one that is the store.
#[test]
fn no_path_leads_through_links_of_others() {
    let here = Here::new();
    let public = here.path("public");
    here.make_dir("public");
    mode(&public, 0o1777);
    here.make_dir("own");
    here.make_dir("own/real");
    symlink("../own", public.join("dir")).unwrap();
    symlink("../own/real", public.join("store")).unwrap();
    let page = ["report", "published/r0-i7-3770k", "-f", "html", "-o"];
    let plumb = |args: &[&str], store: &str| {
        let mut command = here.command(args);
        command.env("PLUMB_STORE", here.path(store));
        answer(command.output().unwrap())
    };
    let out = [&REHEARSAL[..], &["--out", "public/dir/run.jsonl"]].concat();
    let calls = [
        ([&page[..], &["public/dir/page.html"]].concat(), "store"),
        (out, "store"),
        (REHEARSAL.to_vec(), "public/store"),
        (REHEARSAL.to_vec(), "public/dir/more/store"),
    ];
    if std::os::unix::fs::lchown(public.join("dir"), Some(65_534), None).is_ok() {
        std::os::unix::fs::lchown(public.join("store"), Some(65_534), None).unwrap();
        for (args, store) in &calls {
            let refused = plumb(args, store);
            assert!(matches!(refused.code, Some(2 | 3)), "{args:?}: {refused:?}");
            assert!(refused.err.contains("(uid 65534)"), "{refused:?}");
        }
        assert_eq!(here.entries("own"), ["real"]);
        assert!(here.entries("own/real").is_empty());
        for link in ["dir", "store"] {
            std::os::unix::fs::lchown(public.join(link), Some(0), None).unwrap();
        }
    }
    // One's own lead on.
    for (args, store) in &calls {
        let made = plumb(args, store);
        assert_eq!(made.code, Some(0), "{args:?}: {made:?}");
    }
    assert_eq!(here.entries("own"), ["more", "page.html", "real", "run.jsonl"]);
}

/// shared/lab/abuse/shared_store.sh: one store of two hosts; the other one is this one under another
/// name, without the first one's disk.
#[test]
fn a_run_of_another_host_leaves_what_is_not_its_own() {
    let unshared = Command::new("unshare").args(["--uts", "true"]).status();
    if !unshared.is_ok_and(|status| status.success()) {
        return skips::test("network-namespace");
    }
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = ["run", "selftest.file", "--preset", "quick", "--dir", &dir];
    let mut killed = here.command(&args).spawn().unwrap();
    wait_for("the run's directory", || here.entries("files").pop());
    wait_for("it to be written down", || {
        let entry = here.path("store/journal").join(here.entries("store/journal").pop()?);
        (fs::read_to_string(entry).ok()?.lines().count() == 2).then_some(())
    });
    signal("KILL", killed.id());
    killed.wait().unwrap();
    fs::rename(&dir, here.path("files-of-one")).unwrap();
    here.make_dir("files");
    let other = |args: &str| {
        let line = format!("hostname another && exec {PLUMB} {args}");
        let mut shell = here.other("unshare");
        answer(shell.args(["--uts", "sh", "-c", &line]).output().unwrap())
    };
    let ran = other("run selftest.fault --preset rehearsal --dir files");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(here.entries("store/journal").len(), 1);
    let listed = other("runs");
    assert!(listed.out.contains("on another machine: "), "{listed:?}");
    let listed: Vec<Value> = serde_json::from_str(&other("runs --json").out).unwrap();
    assert_eq!(listed.iter().filter(|run| run["state"] == "left elsewhere").count(), 1);
    fs::remove_dir(&dir).unwrap();
    fs::rename(here.path("files-of-one"), &dir).unwrap();
    here.ends(0, &REHEARSAL);
    here.is_clean("files");
}

/// shared/lab/abuse/end_strays_ns.sh: the number of an owner counts among its own processes alone.
#[test]
fn a_crosscheck_ends_no_tool_of_a_container() {
    let here = Here::new();
    let (own, mut container) = (host::place::Place::here(), host::place::Place::here());
    container.processes = "1".to_owned();
    // No process has this number.
    let owner = 1 << 30;
    let mut tools = [(&own, true), (&container, false)].map(|(place, is_ended)| {
        let mut tool = here.other("sleep");
        let mark = format!("{}:{place}.{owner}", here.path("scratch/fio/call").display());
        (tool.arg("1000").env("PLUMB_CROSSCHECK", mark).spawn().unwrap(), is_ended)
    });
    here.plumb(&["crosscheck", "stream", "--preset", "rehearsal"]);
    for (tool, is_ended) in &mut tools {
        assert_eq!(tool.try_wait().unwrap().is_some(), *is_ended);
        let _ = tool.kill();
        tool.wait().unwrap();
    }
}

#[test]
fn paths_that_are_no_text_are_paths() {
    let here = Here::new();
    let odd = |name: &[u8]| here.path("").join(OsStr::from_bytes(name));
    fs::create_dir(odd(b"files-\xff")).unwrap();
    let mut command = here.command(&["run", "selftest.file", "--preset", "rehearsal"]);
    command.env("PLUMB_STORE", odd(b"store-\xff")).arg("--dir").arg(odd(b"files-\xff"));
    command.arg("--out").arg(odd(b"run-\xff.jsonl"));
    command.arg("--report").arg(odd(b"page-\xff.html"));
    ends(0, command);
    assert_eq!(fs::read_dir(odd(b"files-\xff")).unwrap().count(), 0);
    assert!(odd(b"page-\xff.html").is_file());
    let mut command = here.command(&["report", "published/r0-i7-3770k", "-o"]);
    ends(0, command.arg(odd(b"text-\xff")));
    let mut command = here.command(&REHEARSAL);
    command.env("PLUMB_STORE", odd(b"store-\xff"));
    assert_eq!(answer(command.output().unwrap()).code, Some(0));
    let mut command = here.command(&["runs"]);
    command.env("PLUMB_STORE", odd(b"store-\xff"));
    let listed = answer(command.output().unwrap());
    assert!(listed.code == Some(0) && listed.err.is_empty(), "{listed:?}");
    let entries = fs::read_dir(odd(b"store-\xff")).unwrap();
    let names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.as_bytes().ends_with(b".figures.json")), "{names:?}");
}

#[test]
fn a_directory_in_which_every_user_may_replace_files_is_refused() {
    let here = Here::new();
    let dir = here.make_dir("files");
    mode(&dir, 0o777);
    let args = [&REHEARSAL[..], &["--dir", &dir]].concat();
    let refused = here.ends(2, &args);
    assert!(refused.err.contains("chmod +t"), "{refused:?}");
    mode(&dir, 0o1777);
    here.ends(0, &args);
    here.is_clean("files");
}

/// Whatever the mask, others can neither write what plumb makes nor read a key.
#[test]
fn files_have_modes_of_their_own() {
    let here = Here::new();
    let line = format!(
        "umask 0; {PLUMB} {} --report page.html -q && {PLUMB} runs && \
         {PLUMB} report last -f csv -o cells.csv && {PLUMB} agent --new-key key",
        REHEARSAL.join(" ")
    );
    let made = here.shell(&line);
    assert_eq!(made.code, Some(0), "{made:?}");
    let record = here.record();
    let record = record.strip_prefix(here.path("")).unwrap().to_str().unwrap();
    for (path, mode) in [
        ("store", 0o755),
        ("store/journal", 0o755),
        (&record.replace(".jsonl", ".figures.json"), 0o644),
        (record, 0o600),
        ("page.html", 0o644),
        ("cells.csv", 0o644),
        ("key", 0o600),
    ] {
        let facts = here.path(path).metadata().unwrap();
        assert_eq!(facts.mode() & 0o7777, mode, "{path}");
    }
}

#[test]
fn empty_records_are_pruned_and_a_wrong_clock_displaces_none() {
    let here = Here::new();
    let text = recorded("selftest.fault --preset rehearsal");
    let record = here.store(&text);
    let name = record.file_stem().unwrap().to_str().unwrap().to_owned();
    fs::write(here.stored("2026-01-01-empty"), "").unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut header = event(first);
    header["started"] = "2999-01-01T00:00:00Z".into();
    header["run"] = "2999".into();
    fs::write(here.stored("2999"), resealed(&format!("{header}\n{rest}"))).unwrap();
    let last = here.ends(0, &["report", "last", "-f", "json"]).json();
    assert_eq!(last["run"], *name);
    let pruned = here.ends(0, &["runs", "prune", "--keep", "5"]);
    assert!(pruned.out.starts_with("removed 2026-01-01-empty"), "{pruned:?}");
    assert_eq!(here.records().len(), 2);
    here.ends(0, &["runs", "prune", "--keep", "1"]);
    assert_eq!(here.records(), [record]);
}
