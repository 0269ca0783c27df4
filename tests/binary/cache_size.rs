//! The page cache in a control group of its own, and what is left of that when a run is killed.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;

const MIB: u64 = 1 << 20;

/// A directory for files, unless it lies in memory: then nothing of it can be evicted.
fn directory(here: &Here) -> Option<String> {
    let dir = here.make_dir("files");
    let opened = File::open(&dir).unwrap();
    let is_in_memory = metal::storage::file_system(&opened).unwrap().is_in_memory();
    (!is_in_memory).then_some(dir)
}

/// Where the run's own group is, by its journal, once that is written.
fn own_group(here: &Here) -> Option<PathBuf> {
    let entries = fs::read_dir(here.path("store/journal")).ok()?;
    let entry = entries
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "json"))?;
    let text = fs::read_to_string(entry).ok()?;
    let changes: Value = serde_json::from_str(text.lines().next()?).unwrap();
    let undos = changes["undos"].as_array().unwrap();
    let group = undos.iter().find_map(|undo| undo["remove_group"].as_str());
    Some(PathBuf::from(group.expect("a group is in the journal")))
}

fn first(events: &[Value], size: u64, metric: &str) -> Option<f64> {
    events_of_kind(events, "samples")
        .into_iter()
        .find(|samples| samples["case"]["size"] == size && samples["metric"] == metric)
        .map(|samples| samples["values"][0].as_f64().unwrap())
}

fn found<'run>(events: &'run [Value], metric: &str) -> Option<&'run Value> {
    let mut derived = events_of_kind(events, "derived").into_iter();
    derived.find(|derived| derived["metric"] == metric)
}

/// That what fits was found in memory, but for what others took of it, and what does not was not.
fn half_fits_and_more_does_not(events: &[Value]) {
    let of = |size: u64, metric: &str| first(events, size, metric);
    assert!(of(50, "residency").unwrap() > 0.9);
    assert!(of(125, "residency").unwrap() < 0.9);
    // Some file systems and kernels count no reads.
    if let Some((above, below)) = of(125, "missed").zip(of(50, "missed")) {
        assert!(above > 0.2 && above > 2.0 * below, "{above}, {below}");
    }
}

const SIZES: &str = "--set fs.cache_size.size=50,125 --set fs.cache_size.time=500ms";

#[test]
fn a_file_larger_than_the_group_does_not_stay_and_nothing_else_does() {
    if Group::memory(64 * MIB).is_none() {
        return skips::test("control-group");
    }
    let here = Here::new();
    let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
    let limit = "--set fs.cache_size.limit=32MiB";
    let line = format!("fs.cache_size --preset quick --dir {dir} {limit} {SIZES}");
    let events = here.measure(&line);
    assert_eq!(end(&events), "complete");
    half_fits_and_more_does_not(&events);
    // Nobody else is in the group.
    assert_eq!(first(&events, 50, "residency"), Some(1.0));
    let cached = found(&events, "cached").expect("half of the limit fits")["value"].as_f64();
    assert_eq!(cached, Some(16.0 * MIB as f64));
    here.is_clean("files");
}

#[test]
fn a_killed_run_s_group_is_removed_by_the_next_and_an_interrupted_one_s_at_once() {
    if Group::memory(64 * MIB).is_none() {
        return skips::test("control-group");
    }
    for name in ["KILL", "INT"] {
        let here = Here::new();
        let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
        let mut args = vec!["run", "fs.cache_size", "--preset", "standard", "--dir", &dir];
        args.extend(["--set", "fs.cache_size.time=20s"]);
        let session = here.command(&args).spawn().unwrap();
        let group = wait_for("the group with the worker in it", || {
            let group = own_group(&here)?;
            let inside = fs::read_to_string(group.join("cgroup.procs")).ok()?;
            (!inside.is_empty()).then_some(group)
        });
        let pid = session.id();
        signal(name, pid);
        let answer = ended(session);
        no_worker_stays(pid);
        if name == "KILL" {
            assert!(group.exists(), "nobody could remove it");
            let next = here.ends(0, &["run", "selftest.pulse", "--preset", "rehearsal"]);
            let told = format!("and the control group {}", group.display());
            assert!(next.err.contains(&told), "{next:?}");
        } else {
            assert_eq!(answer.code, Some(4), "{answer:?}");
        }
        assert!(!group.exists());
        here.is_clean("files");
    }
}

#[test]
fn a_killed_worker_costs_its_round_and_the_next_begins_anew() {
    if Group::memory(64 * MIB).is_none() {
        return skips::test("control-group");
    }
    let here = Here::new();
    let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
    let line = format!(
        "run fs.cache_size --preset quick --dir {dir} --set fs.cache_size.limit=32MiB \
         --set fs.cache_size.size=50,125 --set fs.cache_size.time=4s"
    );
    let session = here.command(&line).spawn().unwrap();
    let worker = wait_for("the worker in its group", || {
        let procs = own_group(&here)?.join("cgroup.procs");
        fs::read_to_string(procs).ok()?.trim().parse().ok()
    });
    signal("KILL", worker);
    let answer = ended_with(0, session);
    let events = events(&here.record());
    assert_eq!(rounds(&events, "fs.cache_size/32MiB"), (1, 1), "{answer:?}");
    half_fits_and_more_does_not(&events);
    here.is_clean("files");
}

/// Free space and available memory are others by then: what is planned with them is no setting.
#[test]
fn files_and_the_page_cache_are_continued_on_a_machine_that_goes_on() {
    let here = Here::new();
    let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
    let args = ["run", "fs.cache_size", "fs.io", "fs.sync", "--preset", "rehearsal", "--dir", &dir];
    let set = ["--set", "fs.cache_size.limit=memory"];
    let answer = here.ends(0, &[&args[..], &set, &["--out", "run.jsonl"]].concat());
    let record = here.path("run.jsonl");
    let whole = events(&record);
    let labels = ["fs.cache_size/memory", "fs.io", "fs.sync"];
    let planned = |events: &[Value]| labels.map(|label| rounds(events, label));
    assert_eq!(planned(&whole), [(1, 0); 3], "{answer:?}");
    let last = whole.iter().rposition(|event| is(event, "round")).unwrap();
    // As if it was killed in its last round.
    let text = fs::read_to_string(&record).unwrap();
    let kept: String = text.split_inclusive('\n').take(last).collect();
    fs::write(&record, kept).unwrap();
    // What is written meanwhile, and kept in memory.
    fs::write(here.path("others"), vec![1; 3 << 20]).unwrap();
    here.ends(0, &["run", "--resume", "run.jsonl"]);
    let events = events(&record);
    assert_eq!(end(&events), "complete");
    assert_eq!(planned(&events), [(1, 0); 3]);
}

#[test]
fn without_root_the_largest_size_is_measured_and_the_knee_lies_above() {
    let Some(user) = Stranger::new() else { return skips::test("root") };
    let here = Here::new();
    let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
    mode(&dir, 0o1777);
    // Little time, so that little is written.
    let args = ["run", "fs.cache_size", "--preset", "standard", "--dir", &dir];
    let time = ["--set", "fs.cache_size.time=100ms"];
    let answer = user.plumb(&here, 8, &[&args[..], &time].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = events(&here.record());
    let cached = found(&events, "cached").expect("it fits");
    assert_eq!(cached["case"]["size"], "largest");
    assert!(cached["notes"][0].is_string(), "{cached}");
    assert!(found(&events, "knee").is_none());
    // A named one is refused, with the way out.
    let limit = ["--set", "fs.cache_size.limit=32MiB"];
    let refused = user.plumb(&here, 8, &[&args[..], &limit].concat());
    let text = format!("{refused:?}");
    for words in ["cannot create a control group with a memory limit", "systemd-run"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    user.has_gone();
}

#[test]
fn the_limit_of_plumb_s_own_group_is_found_without_root() {
    let Some(group) = Group::memory(128 * MIB) else {
        return skips::test("control-group");
    };
    let here = Here::new();
    let Some(dir) = directory(&here) else { return skips::test("memory-directory") };
    let copy = here.path("plumb");
    fs::copy(PLUMB, &copy).unwrap();
    [here.path(""), dir.clone().into()].iter().for_each(|path| mode(path, 0o1777));
    let line = format!(
        "echo $$ > {}; exec setpriv --reuid 65534 --regid 65534 --clear-groups {} run fs.cache_size \
         --preset quick --set fs.cache_size.limit=memory {SIZES} --dir {dir}",
        group.0.join("cgroup.procs").display(),
        copy.display()
    );
    let answer = here.shell(&line);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    half_fits_and_more_does_not(&events(&here.record()));
    assert_eq!(group.killed(), 0, "the cache gives way, and nobody is killed");
}
