use super::{BLOCK_BYTES, CARD, EXPERIMENT, GroundKind, Look, Read, below, path_of};
use crate::fs::file::Mode;
use crate::fs::fixtures::{on_disk, place, rehearsed};
use crate::fs::prelude::*;
use bench::experiment::fixtures::{bare_site, known};
use laws::fs::READS;
use session::fixtures::{check, here_with, offered, refused, rehearse_in};
use std::fs::OpenOptions;

fn case(pattern: Pattern, mode: Mode, size: u64) -> CaseId {
    Look { pattern, mode, size }.id()
}

#[test]
fn files_that_have_no_room_are_skipped_with_the_way_out_those_of_standard_last() {
    // Six of thirty-two shares of 2 GiB are 384 MiB: of a usual directory all sizes fit.
    let usual = on_disk("sda", false, 2 << 30);
    for preset in [Preset::Standard, Preset::Thorough] {
        assert!(check(&EXPERIMENT, &usual, preset).skipped.is_empty());
    }
    let site = on_disk("sda", false, 3 << 29);
    let thorough = check(&EXPERIMENT, &site, Preset::Thorough);
    let skipped = thorough.skipped.iter();
    let mut sizes: Vec<u64> = skipped.filter_map(|(id, _)| id.int("size")).collect();
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(
        sizes,
        [16 << 20, 32 << 20],
        "288 MiB: standard's sizes take 257, the smaller ones 18"
    );
    let (_, skip) = &thorough.skipped[0];
    assert!(skip.needed.as_ref().is_some_and(|way| way.contains("--dir")));
    let nothing = on_disk("sda", false, 1 << 20);
    let skip = refused(&EXPERIMENT, &nothing, Preset::Quick, &[]);
    assert!(skip.reason.contains("64 MiB"), "{}", skip.reason);
}

#[test]
fn large_sizes_lie_in_one_file_and_small_ones_have_their_own() {
    let site = on_disk("sda", true, 1 << 40);
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let cost = EXPERIMENT.prepare_cost(&site, &offer.series[0]);
    // 257 MiB at 80 MB/s.
    assert!((cost.as_secs_f64() - 3.37).abs() < 0.02, "{cost:?}");
    let series = offer.series.into_iter().next().expect("one");
    let series = EXPERIMENT.resolve(&site, &Known::default(), series).expect("a place");
    for case in &series.cases {
        let expected = match case.int("size") {
            Some(bytes) if bytes <= 32 << 20 => bytes,
            _ => 256 << 20,
        };
        assert_eq!(super::file_bytes_of(case), Some(expected), "{}", case.id);
    }
    let sizes = [1 << 20, 32 << 20, 33 << 20, 48 << 20].into();
    let files: Vec<u64> = super::files(&sizes).into_iter().collect();
    assert_eq!(files, [1 << 20, 32 << 20, 48 << 20]);
}

#[test]
fn the_beginning_of_a_larger_file_is_measured_as_a_file() {
    let (_dir, rehearsed) = rehearsed(&EXPERIMENT, &[("mode", "cached"), ("size", "33MiB,34MiB")]);
    assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
    for size in [33 << 20, 34 << 20] {
        let id = case(Pattern::Random, Mode::Cached, size);
        let samples = rehearsed.samples_of(&id, "latency_per_block").expect("measured");
        assert_eq!(samples.quantities["span_bytes"], f64::from(32 << 20));
    }
}

#[test]
fn what_was_read_ahead_in_vain_makes_up_for_nothing() {
    let (_dir, site) = place();
    if !is_plain(&site) {
        return skips::test("file-system");
    }
    let set = [("mode", "cold"), ("size", "32MiB"), ("pattern", "sequential")];
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &set);
    let id = case(Pattern::Sequential, Mode::Cold, 32 << 20);
    let samples = rehearsed.samples_of(&id, "latency_per_block").expect("measured");
    let of = |name: &str| samples.quantities[name];
    // Few blocks are asked for in a rehearsal, and a window comes: it is not taken for others'
    // blocks.
    let more = of("own_bytes") - of("asked_bytes");
    assert!((0.0..65536.0).contains(&more), "{more} of {}", of("own_bytes"));
    assert!(of("ahead_bytes") > 0.0 && of("cache_share") == 0.0);
}

#[test]
fn in_memory_only_what_is_cached_is_offered() {
    let mut site = on_disk("sda", false, 1 << 40);
    site.dir.as_mut().expect("it has one").path = "/tmp".into();
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let cases = &offer.series[0].cases;
    assert!(cases.iter().all(|case| case.text("mode") == Some("cached")));
    assert_eq!((cases.len(), offer.skipped.len()), (6, 18));
}

const SMALL: [(&str, &str); 2] =
    [("mode", "direct,direct_sync,cold,cold_no_readahead,cached"), ("size", "128KiB,1MiB")];

/// Whether the file system of a directory follows requests, and has a device that counts.
fn is_plain(site: &Site) -> bool {
    let ground = below(site).expect("a directory");
    let fs = ground.mount.map(|mount| mount.fs.as_str());
    ground.kind == GroundKind::Device && fs.is_some_and(|fs| fs == "ext4" || fs == "xfs")
}

#[test]
fn every_mode_is_measured_here_or_says_why_not() {
    let (_dir, site) = place();
    if super::absent(&site, Mode::Direct).is_some() {
        return skips::test("memory-directory");
    }
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &SMALL);
    let plain = is_plain(&site);
    assert!(rehearsed.failed.is_empty() || !plain, "{:?}", rehearsed.failed);
    assert!(rehearsed.failed.iter().all(|(_, reason)| reason.contains("cache:")));
    for pattern in Pattern::ALL.iter().copied() {
        for mode in READS {
            for size in [128 << 10, 1 << 20] {
                let id = case(pattern, mode, size);
                if rehearsed.failed.iter().any(|(failed, _)| *failed == id) {
                    continue;
                }
                let all = ["latency_per_block", "latency", "iops", "bandwidth", "cpu"];
                let [ns, latency, iops, bandwidth, cpu] = all.map(|metric| {
                    rehearsed.samples_of(&id, metric).expect("measured").raw.samples()
                });
                assert!(!ns.is_empty() && !latency.is_empty() && !cpu.is_empty(), "{id}");
                assert_eq!((iops.len(), bandwidth.len()), (ns.len(), ns.len()), "{id}");
                for ((ns, iops), bandwidth) in ns.iter().zip(&iops).zip(&bandwidth) {
                    // The record has rounded values.
                    assert!((ns * iops / 1e9 - 1.0).abs() < 1e-3);
                    assert!((bandwidth / iops / BLOCK_BYTES as f64 - 1.0).abs() < 1e-3);
                }
                let first = rehearsed.samples_of(&id, "latency_per_block").expect("measured");
                assert!(first.quantities["passes"] >= 1.0);
                if mode != Mode::Cached && plain {
                    assert_eq!(first.quantities["cache_share"], 0.0, "{id}");
                }
            }
        }
    }
}

#[test]
fn files_in_memory_are_never_a_device() {
    let Ok(dir) = tempfile::tempdir_in(Path::new("/dev/shm")) else {
        return skips::test("memory-directory");
    };
    let mut site = here_with(dir.path());
    // A site that was told wrong: nothing of it may come out as a device all the same.
    site.host.block.mounts.clear();
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &SMALL);
    assert_eq!(rehearsed.failed.len(), 16, "{:?}", rehearsed.failed);
    for (id, reason) in &rehearsed.failed {
        assert!(reason.starts_with("cache:"), "{id}: {reason}");
    }
    let measured = rehearsed.samples.iter();
    assert!(measured.map(|samples| &samples.case).all(|id| id.text("mode") == Some("cached")));
}

#[test]
fn blocks_that_are_not_what_was_written_are_no_figure() {
    let (dir, site) = place();
    let set = [("mode", "cached"), ("size", "64KiB"), ("pattern", "sequential")];
    let series = offered(&EXPERIMENT, &site, Preset::Rehearsal, &set).series.remove(0);
    let series = EXPERIMENT.resolve(&site, &Known::default(), series).expect("a place");
    EXPERIMENT.prepare(&series, dir.path(), &mut || ()).expect("room");
    let path = path_of(dir.path(), 64 << 10);
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(&[0; 16 * BLOCK_BYTES], 0).expect("writes");
    file.sync_all().expect("syncs");
    let found = rehearse_in(&Prepared, &site, Preset::Rehearsal, &set);
    assert!(found.samples.is_empty());
    assert_eq!(found.failed.len(), 1);
}

/// The experiment with files that are there already.
struct Prepared;

impl Experiment for Prepared {
    type Case = Look;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = "";

    fn cases(site: &Site, preset: Preset) -> Vec<Look> {
        <Read as Experiment>::cases(site, preset)
    }

    fn law(_: Facts, _: &Look, _: &Case, _: &Metric) -> Option<Prediction> {
        None
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        <Read as Experiment>::measure(series, bench)
    }
}

#[test]
fn the_gain_of_readahead_is_the_ratio_of_a_pair() {
    let values = known(&[
        ("fs.read", "pattern=sequential,mode=cold,size=1048576", "latency_per_block", 4e3),
        (
            "fs.read",
            "pattern=sequential,mode=cold_no_readahead,size=1048576",
            "latency_per_block",
            1e5,
        ),
        ("fs.read", "pattern=sequential,mode=direct,size=1048576", "latency_per_block", 9e4),
    ]);
    let derived = EXPERIMENT.derive(&bare_site(), &Known::default(), &values);
    assert_eq!(derived.len(), 1);
    assert_eq!((derived[0].metric, derived[0].value), ("readahead_gain", 25.0));
    let site = on_disk("nvme0n1", false, 1 << 40);
    let standard = check(&EXPERIMENT, &site, Preset::Standard);
    let ids = EXPERIMENT.derivable(&site, &standard.series);
    assert_eq!(ids.len(), 6);
    assert!(ids.contains(&derived[0].case));
}
