use super::workloads::{self, KIB, MIB, one, ring};
use super::{EXPERIMENT, ID, is_written_through};
use crate::fs::job::{Below, Job};
use crate::fs::prelude::*;
use bench::experiment::fixtures::{known, recorded, sites, with_dir};
use laws::fs::io::{self as law, Files, Mode, Op, Request, Work};
use record::event::Range;
use session::fixtures::{here_with, is_plain, refused, rehearse_in};

/// A guest whose files may take so much.
fn guest(bytes: u64) -> Site {
    with_dir(recorded("vm-granite-rapids"), "/data", bytes)
}

fn offered(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Offer {
    session::fixtures::offered(&EXPERIMENT, site, preset, set)
}

fn works(offer: &Offer) -> Vec<Work> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| Work::from_id(&case.id).expect("an id of ours")).collect()
}

/// A figure of a case on a device.
fn predicted_range(site: &Site, known: Option<&Known>, work: &Work, metric: &str) -> Option<Range> {
    told_above(site, known, work, metric, "device")
}

/// The same where this lies below.
fn told_above(
    site: &Site,
    known: Option<&Known>,
    work: &Work,
    metric: &str,
    ground: &str,
) -> Option<Range> {
    let mut case = Case::new(work.id());
    case.at.insert("ground".to_owned(), ground.into());
    let law = law::predict(Facts { site, known }, Request::from_case(work, &case), metric);
    law.map(|law| law.range)
}

#[test]
fn what_a_write_in_memory_waits_for_is_no_device() {
    let site = guest(1 << 30);
    let [waits, plain] = [Mode::BufferedFdatasync, Mode::Buffered].map(|mode| {
        let work = one(Op::Write, Pattern::Sequential, mode, 4 * KIB);
        told_above(&site, None, &work, "latency", "memory").expect("predicted")
    });
    assert!(waits.low >= plain.low && waits.high < 2.0 * plain.high, "{waits:?}, {plain:?}");
    assert!(waits.high < 1e5, "no disk: {waits:?}");
}

#[test]
fn what_is_written_in_all_rounds_stays_within_what_may_be() {
    for (allowed, preset) in [
        (2 << 30, Preset::Quick),
        (2 << 30, Preset::Standard),
        (2 << 30, Preset::Thorough),
        (1 << 36, Preset::Thorough),
        (64 << 20, Preset::Standard),
    ] {
        let site = with_dir(recorded("epyc-7763-2s"), "/data", allowed);
        let offer = offered(&site, preset, &[]);
        let series = &offer.series[0];
        let works = works(&offer);
        let made: u64 = super::files_of(series).iter().map(|made| made.bytes).sum();
        let rounds = u64::from(*preset.looks().last().expect("some"));
        let each = series.setting("written").expect("so much");
        let written: u64 = works.iter().map(|work| workloads::most_written(*work, each)).sum();
        let may = device::allowance(&site, ID);
        assert!(made + rounds * written <= may, "{made} {written} {may}");
        // With the default directory standard has all of its cases.
        if preset == Preset::Standard && allowed == 2 << 30 {
            assert_eq!((works.len(), offer.skipped.len()), (24, 0));
        }
        assert!(allowed > 64 << 20 || !offer.skipped.is_empty());
    }
}

#[test]
fn thorough_has_r3s_grid_and_all_of_standard_where_there_is_room() {
    let works = works(&offered(&guest(1 << 33), Preset::Thorough, &[]));
    for standard in workloads::STANDARD {
        assert!(works.contains(&standard), "{standard:?}");
    }
    let grid: Vec<Work> = workloads::everything().into_iter().filter(workloads::is_of_r3).collect();
    // Blocks, threads, patterns, and two ways to read with one to write.
    assert_eq!(grid.len(), 3 * 2 * 2 * 3);
    assert!(grid.iter().all(|work| works.contains(work)));
}

#[test]
fn a_round_keeps_to_its_allotment_and_counts_a_slow_device_as_one() {
    let cost = |preset, disk: &str| {
        // The machine of a report, which is no guest.
        let mut site = with_dir(sites().swap_remove(1), "/data", 1 << 40);
        site.case_ns = session::plan::case_ns(preset);
        let mut series = offered(&site, preset, &[]).series.remove(0);
        for case in &mut series.cases {
            case.at.insert("device".to_owned(), disk.into());
        }
        let mut spinning = recorded("vm-granite-rapids").host.block.disks.swap_remove(0);
        (spinning.name, spinning.rotational) = ("sdz".to_owned(), Some(true));
        (spinning.driver, spinning.is_virtual) = (None, false);
        site.host.block.disks.push(spinning);
        EXPERIMENT.round_cost(&site, &series).as_secs_f64()
    };
    for (preset, most_s) in
        [(Preset::Quick, 1.2), (Preset::Standard, 3.6), (Preset::Thorough, 30.0)]
    {
        let (fast, slow) = (cost(preset, "none"), cost(preset, "sdz"));
        assert!(fast <= most_s, "{preset:?}: {fast}");
        // Eight seeks and turns take longer than a window, and a flush takes turns.
        assert!(slow > 1.1 * fast && slow < 30.0 * most_s, "{preset:?}: {slow}");
    }
}

#[test]
fn a_choice_takes_the_place_of_the_presets_values_and_leaves_what_exists() {
    let site = guest(1 << 40);
    let of = |preset, set: &[(&str, &str)]| works(&offered(&site, preset, set));
    // One case, named whole: what the agreement with fio asks for.
    for depth in [1, 16, 128] {
        let text = depth.to_string();
        let set = [("op", "write"), ("pattern", "random"), ("mode", "direct"), ("block", "4KiB")];
        let ring_of = [("engine", "io_uring"), ("depth", text.as_str()), ("threads", "1")];
        let found = of(Preset::Quick, &[&set[..], &ring_of].concat());
        assert_eq!(found, [ring(Op::Write, Pattern::Random, 4 * KIB, depth)]);
    }
    let writes = of(Preset::Standard, &[("op", "write")]);
    assert!(writes.len() >= 8 && writes.iter().all(|work| !work.is_read()));
    let deep = of(Preset::Quick, &[("depth", "7,32")]);
    assert!(deep.iter().all(Work::is_ring) && deep.len() == 2, "{deep:?}");
    let mut sandbox = site.clone();
    sandbox.host.kernel.has_rings = Some(false);
    let left = works(&offered(&sandbox, Preset::Standard, &[]));
    assert!(left.len() > 8 && !left.iter().any(Work::is_ring), "{left:?}");
    let two = of(Preset::Quick, &[("threads", "2")]);
    assert!(two.iter().all(|work| work.files == Some(Files::Own)), "{two:?}");
    let none = [("engine", "psync"), ("depth", "4")];
    let none = refused(&EXPERIMENT, &site, Preset::Quick, &none);
    assert!(none.needed.is_some_and(|way| way.contains("io_uring")));
}

#[test]
fn depth_is_predicted_by_little_until_the_device_is_saturated() {
    let mut site = recorded("vm-granite-rapids");
    site.host.given.set("disk.read_latency", "100us").expect("a fact");
    site.host.given.set("disk.read_iops", "200k").expect("a fact");
    let likely = |depth, metric| {
        let work = ring(Op::Read, Pattern::Random, 4 * KIB, depth);
        predicted_range(&site, None, &work, metric).expect("a prior").likely
    };
    assert!((likely(8, "iops") / likely(1, "iops") - 8.0).abs() < 0.8);
    // The rate given, or 0.8 GB/s.
    assert!((1.9e5..=2e5).contains(&likely(128, "iops")));
    let ratio = likely(128, "latency") / (128.0 / likely(128, "iops") * 1e9);
    assert!((0.9..1.2).contains(&ratio), "{ratio}");
    assert!(likely(1, "latency") < 1.4e5);
    assert!((likely(32, "bandwidth") / likely(32, "iops") - 4096.0).abs() < 1.0);
}

#[test]
fn latency_and_rate_of_a_deep_queue_are_never_at_odds() {
    for site in sites() {
        for work in workloads::everything().iter().filter(|work| work.depth >= 2) {
            let of = |metric| predicted_range(&site, None, work, metric).expect("a prior");
            // Little: what is in flight over the highest rate is the least that each can take.
            let least = work.depth as f64 / of("iops").high * 1e9;
            let low = of("latency").low;
            assert!(low >= 0.6 * least, "{work:?}: {low} {least}");
        }
    }
}

#[test]
fn what_fs_read_measured_narrows_reads_past_the_cache() {
    let site = guest(1 << 40);
    let known = known(&[("fs.read", "pattern=random,mode=direct", "latency", 9e4)]);
    let mut narrowed = 0;
    for work in workloads::STANDARD {
        let derived = predicted_range(&site, Some(&known), &work, "latency");
        let has = work.is_read() && work.is_random() && work.is_direct();
        assert_eq!(derived.is_some(), has, "{work:?}");
        let Some(derived) = derived else { continue };
        let prior = predicted_range(&site, None, &work, "latency").expect("a prior");
        assert!(derived.high / derived.low < prior.high / prior.low, "{work:?}");
        // Whatever answered fs.read answers here too; before, anything may.
        let unknown = |known| told_above(&site, known, &work, "latency", "unknown");
        assert_eq!(unknown(Some(&known)), Some(derived), "{work:?}");
        assert!(unknown(None).expect("a prior").high >= prior.high, "{work:?}");
        narrowed += 1;
    }
    assert!(narrowed >= 8);
}

#[test]
fn figures_of_fs_read_tell_of_cpu_time_and_of_longer_blocks() {
    let site = guest(1 << 40);
    let known = known(&[
        ("fs.read", "pattern=random,mode=direct", "latency", 9e4),
        ("fs.read", "pattern=random,mode=direct", "cpu", 8e3),
        ("fs.read", "pattern=random,mode=cached", "latency", 700.0),
        ("fs.read", "pattern=sequential,mode=cold", "bandwidth", 8e8),
    ]);
    let read = |block, mode| one(Op::Read, Pattern::Random, mode, block);
    let of = |work: Work, metric| predicted_range(&site, Some(&known), &work, metric);
    let cpu = of(read(4 * KIB, Mode::Direct), "cpu").expect("known");
    assert!(cpu.low <= 8e3 && 8e3 <= cpu.high && cpu.high / cpu.low < 6.0);
    // The device's sequential rate describes longer blocks.
    let long = of(read(MIB, Mode::Direct), "bandwidth").expect("known");
    assert!(long.low > 2e7 && long.high < 4e9, "{long:?}");
    // One after another is the least that a queue gives.
    let deep = of(ring(Op::Read, Pattern::Random, 4 * KIB, 32), "iops").expect("known");
    assert!(deep.low >= 0.7e9 / 9e4, "{deep:?}");
    assert!(deep.low <= deep.likely && deep.likely <= deep.high);
    // Of a block from memory whose figure changes nothing, nothing is said.
    assert!(of(read(4 * KIB, Mode::Cached), "latency").is_some());
    assert!(of(read(64 * KIB, Mode::Cached), "latency").is_none());
}

/// A case's operations with small files and a short window.
fn job(dir: &Path, work: Work, written: u64, is_written_through: bool) -> Job<'static> {
    let sizes = workloads::Sizes { size: MIB, written };
    Job {
        work,
        regions: (0..work.threads).map(|at| workloads::region_of(dir, work, at, sizes)).collect(),
        pass: None,
        seed: 1,
        clock: Clock::Monotonic,
        window_ns: 20_000_000,
        is_rate: false,
        least: workloads::least(work),
        most: workloads::most(work, written, is_written_through),
        below: Below::Device(None),
        cpus: vec![0; work.threads as usize],
        is_free: false,
    }
}

#[test]
fn buffered_writes_are_bounded_where_they_may_go_on_at_once() {
    let case = |ground: &str, options: &str| {
        let mut case = Case::new(CaseId::new());
        case.at.insert("ground".to_owned(), ground.into());
        case.at.insert("mount_options".to_owned(), options.into());
        is_written_through(&case)
    };
    assert!(!case("device", "rw,noatime,lazytime"));
    assert!(!case("memory", "rw,async"));
    assert!(case("device", "rw,sync") && case("device", "rw,dirsync"));
    assert!(case("fuse", "rw") && case("network", "rw") && case("stacked", "rw"));
    // And then it is the bound of the other ways to write.
    let dir = tempfile::tempdir().expect("a directory");
    let set = [("mode", "buffered"), ("op", "write"), ("size", "1MiB"), ("threads", "1")];
    let offer = offered(&guest(1 << 30), Preset::Standard, &set);
    EXPERIMENT.prepare(&offer.series[0], dir.path(), &mut || ()).expect("room");
    let work = one(Op::Write, Pattern::Sequential, Mode::Buffered, 4 * KIB);
    let bytes = |is_written_through| {
        let job = job(dir.path(), work, 64 * KIB, is_written_through);
        job.alone().expect("writes").bytes()
    };
    assert_eq!(bytes(true), 64 * KIB);
    assert!(bytes(false) > 64 * KIB);
}

fn has_rings() -> bool {
    let file = tempfile::tempfile().expect("a file");
    let buffers = metal::io::Buffers::new(1, 4096, 1).expect("a page");
    metal::io::Uring::new(file, buffers, metal::io::UringSetup::REGISTERED).is_ok()
}

#[test]
fn a_rehearsal_measures_every_case_and_its_figures_agree_with_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    // Depth, threads, own and shared files, all ways.
    for (preset, set) in [
        (Preset::Rehearsal, &[][..]),
        (Preset::Standard, &[("size", "1MiB"), ("block", "4KiB,1")][..]),
    ] {
        let place = dir.path().join(preset.name());
        std::fs::create_dir(&place).expect("a directory");
        let site = here_with(&place);
        let series = offered(&site, preset, set).series.remove(0);
        let rehearsed = rehearse_in(&EXPERIMENT, &site, preset, set);
        for case in &series.cases {
            if let Some((_, reason)) = rehearsed.failed.iter().find(|(id, _)| *id == case.id) {
                // File systems in memory or of their own kind, and sandboxes without io_uring.
                let is_cache = reason.contains("cache:") && !is_plain(dir.path());
                assert!(is_cache || (reason.contains("io_uring") && !has_rings()), "{reason}");
                match is_cache {
                    true => skips::part("file-system", reason),
                    false => skips::part("io-uring", reason),
                }
                continue;
            }
            let samples = |metric| {
                rehearsed
                    .samples_of(&case.id, metric)
                    .unwrap_or_else(|| panic!("{} {metric}", case.id))
            };
            let of = |metric| samples(metric).raw.samples()[0];
            let work = Work::from_id(&case.id).expect("ours");
            assert!(of("latency") > 0.0 && of("cpu") > 0.0, "{}", case.id);
            let ratio = of("bandwidth") / (of("iops") * work.block as f64);
            assert!((ratio - 1.0).abs() < 1e-5, "{}: {ratio}", case.id);
            let quantities = &samples("iops").quantities;
            let (most, operations) = (quantities["in_flight_most"], quantities["operations"]);
            assert_eq!(most, (work.depth * work.threads) as f64, "{}", case.id);
            assert!(operations >= 8.0, "{}: {operations}", case.id);
            if !work.is_read() && work.mode != Mode::Buffered {
                let bytes = operations as u64 * work.block.max(4096);
                let each = series.setting("written").expect("so much");
                assert!(bytes <= workloads::most_written(work, each), "{}: {bytes}", case.id);
            }
        }
    }
}

#[test]
fn data_that_is_not_what_was_prepared_fails_the_case() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("read"), vec![7; 1 << 20]).expect("room");
    let read = one(Op::Read, Pattern::Sequential, Mode::Cached, 4 * KIB);
    let job = |threads| job(dir.path(), Work { threads, ..read }, MIB, false);
    let error = job(1).alone().err().expect("other data");
    assert!(error.is::<WrongResult>(), "{error:#}");
    // Nor are figures had of a file that is not there, by one thread or two.
    std::fs::remove_file(dir.path().join("read")).expect("it is there");
    assert!(job(1).alone().is_err());
    let error = job(2).together().err().expect("no file");
    assert!(format!("{error:#}").contains("read"), "{error:#}");
}
