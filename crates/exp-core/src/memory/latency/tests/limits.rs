//! What is done where there is less memory, or less of it in huge pages, than was asked for.

use super::super::memory_of;
use super::{EXPERIMENT, GUEST, MIB, answered, points, site};
use crate::memory::latency::walks::without_huge_pages;
use crate::memory::rehearsal;
use bench::experiment::fixtures::on_a_thread;
use bench::measure::placed::{Placed, TooFewHuge, place};
use bench::prelude::*;
use laws::memory::{Load, On, Pattern, Point};
use metal::memory::Pages;
use record::event::FailedCase;
use session::fixtures::{offered, refused};
use std::io;

#[test]
fn what_memory_does_not_allow_is_skipped_with_the_limit() {
    let small = Site { memory_bytes: 100 * MIB, ..site(GUEST) };
    let offer = offered(&EXPERIMENT, &small, Preset::Standard, &[]);
    assert!(!offer.skipped.is_empty());
    assert!(offer.skipped.iter().all(|(case, _)| case.int("footprint") > Some(64 * MIB)));
    let nothing = Site { memory_bytes: MIB, ..site(GUEST) };
    refused(&EXPERIMENT, &nothing, Preset::Quick, &[]);
}

#[test]
fn without_huge_pages_base_pages_are_the_reference() {
    let none = site("");
    assert!(without_huge_pages(&none).is_some());
    let quick = offered(&EXPERIMENT, &none, Preset::Quick, &[]);
    assert!(quick.skipped.is_empty());
    assert_eq!(points(&quick, "random-base").len(), 20);
    let standard = offered(&EXPERIMENT, &none, Preset::Standard, &[]);
    assert_eq!(points(&standard, "random-base").len(), 85 + 9);
    assert!(standard.skipped.iter().all(|(case, _)| case.text("pages") == Some("huge")));
    assert!(!standard.skipped.is_empty());
}

#[test]
fn huge_pages_that_are_switched_off_are_skipped_with_the_way_to_switch_them_on() {
    let [mut off, mut forbidden] = [site(GUEST), site(GUEST)];
    off.host.memory.thp.enabled = Some("never".to_owned());
    forbidden.host.memory.thp.for_process = Some(false);
    let (common, _) = answered(&site(GUEST));
    for (site, way) in [(off, "transparent_hugepage/enabled"), (forbidden, "PR_SET_THP_DISABLE")] {
        let (keys, skipped) = answered(&site);
        // No key of a machine with huge pages is left without an answer.
        assert!(keys.is_superset(&common));
        assert!(!skipped.is_empty());
        for (case, skip) in &skipped {
            assert_eq!(case.text("pages"), Some("huge"));
            let needed = skip.needed.as_deref().expect("a way");
            assert!(needed.contains(way), "{needed}");
        }
        // Base pages take the part of the huge ones, under their own name.
        let quick = offered(&EXPERIMENT, &site, Preset::Quick, &[]);
        assert_eq!(points(&quick, "random-base").len(), 20);
        assert_eq!(quick.series.len(), 1);
    }
}

/// What [`memory_of`] keeps and gives up of walks over 1, 2, 4 and 8 MiB on huge pages, and the
/// sizes in MiB that were asked for.
struct Kept {
    footprints: Vec<u64>,
    failed: Vec<FailedCase>,
    asked: Vec<u64>,
}

fn kept(mut place: impl FnMut(u64) -> Result<Placed> + Send) -> Result<Kept> {
    let cases: Vec<Case> = [4, 1, 8, 2].map(case_of).to_vec();
    let order = rehearsal(Series::new("memory.latency", Order::Ladder, cases.clone()));
    let mut asked = Vec::new();
    on_a_thread(|| {
        let mut bench = Bench::new(order).expect("the CPU is allowed");
        let walks = cases.iter().map(|case| (case, Point::from_id(&case.id).expect("a walk")));
        let memory = memory_of(walks.collect(), &mut bench, |bytes| {
            asked.push(bytes / MIB);
            place(bytes)
        })?;
        let walks = memory.map_or(Vec::new(), |(_, walks)| walks);
        let (.., done) = bench.finish().expect("nothing is sent");
        Ok(Kept {
            footprints: walks.iter().map(|walk| walk.1.footprint / MIB).collect(),
            failed: done.failed,
            asked,
        })
    })
}

fn case_of(mib: u64) -> Case {
    let point = Point {
        pattern: Pattern::Random,
        stride: None,
        load: Load::Pointer,
        pages: On::Huge,
        footprint: mib * MIB,
    };
    Case::new(point.id())
}

fn too_few(huge_mib: u64) -> anyhow::Error {
    TooFewHuge::new(0.5, 2 * huge_mib * MIB, "in a test".to_owned()).into()
}

fn base_page() -> Result<Placed> {
    place(4096, Pages::Base)
}

#[test]
fn walks_beyond_the_huge_pages_that_there_are_fail_and_the_others_go_on() {
    let kept = kept(|bytes| match bytes / MIB {
        8 => Err(too_few(3)),
        _ => base_page(),
    })
    .expect("some fit");
    assert_eq!((kept.asked, kept.footprints), (vec![8, 2], vec![1, 2]));
    assert_eq!(kept.failed.len(), 2);
    for (failed, mib) in kept.failed.iter().zip([4, 8]) {
        assert_eq!(failed.case, case_of(mib).id);
    }
}

#[test]
fn without_any_huge_page_every_walk_fails_and_none_is_made_on_others() {
    let kept = kept(|_| Err(too_few(0))).expect("reasons, not an error");
    assert_eq!((kept.asked, kept.footprints), (vec![8], vec![]));
    assert_eq!(kept.failed.len(), 4);
}

#[test]
fn memory_that_is_refused_fails_the_largest_walk_alone() {
    const ENOMEM: i32 = 12;
    let refused = |bytes| match bytes / MIB {
        4 | 8 => Err(io::Error::from_raw_os_error(ENOMEM).into()),
        _ => base_page(),
    };
    let kept = kept(refused).expect("some fit");
    assert_eq!((kept.asked, kept.footprints), (vec![8, 4, 2], vec![1, 2]));
    assert_eq!(kept.failed.len(), 2);
    // Another error is the round's.
    assert!(self::kept(|_| anyhow::bail!("another")).is_err());
}
