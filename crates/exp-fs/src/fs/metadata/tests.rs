use super::{Call, EXPERIMENT, history};
use crate::fs::file::JOURNAL_AT;
use crate::fs::fixtures::rehearsed;
use bench::experiment::fixtures::{bare_site, case, known, predicted, with_dir};
use bench::experiment::{Known, Preset, Site};
use record::case::Case;
use record::event::Range;
use record::note::NoteKind;
use session::fixtures::{check, offered, refused};

fn site(allowance_bytes: u64) -> Site {
    with_dir(bare_site(), "/x", allowance_bytes)
}

#[test]
fn directories_that_would_write_too_much_are_skipped_with_a_way_out() {
    // What a run takes that names no directory.
    let offer = check(&EXPERIMENT, &site(2 << 30), Preset::Standard);
    assert!(offer.skipped.is_empty());
    let set = [("entries", "1000,100000,10000")];
    let offer = offered(&EXPERIMENT, &site(2 << 30), Preset::Standard, &set);
    let kept = offer.series[0].cases.iter();
    assert!(kept.clone().count() >= 8);
    assert!(kept.clone().all(|case| case.int("entries") < Some(100_000)));
    let (_, skip) = offer.skipped.last().expect("the largest");
    assert!(skip.needed.as_ref().is_some_and(|needed| needed.contains("entries")));
    refused(&EXPERIMENT, &site(1 << 20), Preset::Standard, &set);
}

#[test]
fn a_figure_of_a_system_call_narrows_what_is_like_it_and_moves_the_rest() {
    let site = site(1 << 40);
    let of = |call: &str, known: Option<&Known>| {
        let id = case(&format!("call={call},entries=1000"));
        predicted(&EXPERIMENT, &site, known, &Case::new(id), "latency")
    };
    assert!(of("stat", Some(&Known::default())).is_none());
    let measured = |getpid| {
        known(&[
            ("os.syscall", "call=getpid", "latency", getpid),
            ("os.syscall", "call=stat", "latency", 500.0),
        ])
    };
    let range = |call, known| of(call, known).and_then(|of| of.range).expect("an interval");
    let width = |range: Range| range.high / range.low;
    let fast = measured(80.0);
    assert!(width(range("stat", Some(&fast))) < width(range("stat", None)));
    let slow = measured(240.0);
    assert!(range("create", Some(&slow)).likely > range("create", Some(&fast)).likely);
}

#[test]
fn without_a_journal_a_new_inode_depends_on_what_was_deleted() {
    let mut case = Case::new(case("call=create,entries=10"));
    assert!(history(Call::Create, &case).is_none());
    case.at.insert(JOURNAL_AT.to_owned(), "none".into());
    for (call, depends) in [(Call::Create, true), (Call::Mkdir, true), (Call::Stat, false)] {
        let kind = history(call, &case).map(|note| note.kind);
        assert_eq!(kind, depends.then_some(NoteKind::History), "{call:?}");
    }
}

#[test]
fn all_calls_run_in_small_directories_and_leave_them_whole() {
    let calls = "create,open,stat,rename,unlink,mkdir,rmdir,readdir";
    let (dir, rehearsed) = rehearsed(&EXPERIMENT, &[("call", calls), ("entries", "1,10,300")]);
    assert_eq!(rehearsed.failed, []);
    assert_eq!(rehearsed.samples.len(), 24);
    for entries in [1, 10, 300] {
        let path = dir.path().join(format!("fs-metadata-{entries}"));
        assert_eq!(std::fs::read_dir(path).expect("lists").count(), entries);
    }
}
