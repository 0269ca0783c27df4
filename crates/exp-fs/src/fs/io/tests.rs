use super::crew;
use super::places::Places;
use super::workloads::{self, KIB, MIB, Work};
use super::{CARD, EXPERIMENT, ID, is_written_through, request};
use crate::fs::file::order_seed;
use crate::fs::window;
use bench::experiment::fixtures::{recorded, sites};
use bench::experiment::{DirFacts, Experiment, Known, Offer, Preset, Site};
use bench::link::{CalibrateOrder, RoundOrder};
use bench::measure::{Bench, calibrate};
use laws::fs::io as law;
use record::case::{Case, Series};
use record::event::Samples;
use record::key::CaseId;
use session::fixtures::{check, here_with, is_plain, params};
use std::path::Path;

/// A site whose files may take `bytes`.
fn with_dir(site: Site, dir: &Path, bytes: u64) -> Site {
    Site {
        dir: Some(DirFacts {
            path: dir.to_owned(),
            file_system: "ext4".to_owned(),
            allowance_bytes: bytes,
        }),
        ..site
    }
}

fn offered(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Offer {
    EXPERIMENT
        .series(site, &params(&CARD, preset, set))
        .unwrap_or_else(|skip| panic!("{}", skip.reason))
}

fn works(offer: &Offer) -> Vec<Work> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| Work::of(&case.id).expect("an id of ours")).collect()
}

#[test]
fn every_site_with_a_directory_has_cases_and_predictions() {
    for site in sites() {
        let site = with_dir(site, Path::new("/data"), 1 << 40);
        for preset in [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough] {
            let offer = check(&EXPERIMENT, &site, preset);
            assert_eq!(offer.series.len(), 1);
        }
        assert_eq!(works(&check(&EXPERIMENT, &site, Preset::Quick)).len(), 4);
        assert_eq!(works(&check(&EXPERIMENT, &site, Preset::Standard)).len(), 24);
    }
    let bare = bench::experiment::fixtures::bare_site();
    let skip = EXPERIMENT.series(&bare, &params(&CARD, Preset::Quick, &[]));
    assert!(skip.is_err_and(|skip| skip.needed.is_some_and(|way| way.contains("--dir"))));
}

#[test]
fn thorough_has_all_that_the_catalogue_lists_and_says_what_cannot_be() {
    let site = with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 42);
    let offer = check(&EXPERIMENT, &site, Preset::Thorough);
    let all = works(&offer);
    for block in [KIB, 4 * KIB, 64 * KIB, MIB] {
        for threads in [1, 2, 4] {
            for mode in workloads::READS.iter().chain(&workloads::WRITES) {
                let is_it = |work: &&Work| {
                    (work.block, work.threads) == (block, threads)
                        && work.mode == *mode
                        && !work.is_ring
                };
                let is_absent = block == KIB && *mode == "direct";
                let found = all.iter().filter(is_it).count();
                assert!(found >= 2 || is_absent, "{block} {threads} {mode}: {found}");
            }
        }
    }
    let rings = all.iter().filter(|work| work.is_ring && work.block == 4 * KIB);
    assert_eq!(rings.count(), 2 * 2 * 8);
    let bytes = |(id, skip): &(CaseId, bench::experiment::Skip)| {
        assert!(skip.needed.is_some(), "{id}");
        (id.int("block"), id.text("mode") == Some("direct"))
    };
    let skipped: Vec<_> = offer.skipped.iter().map(bytes).collect();
    assert!(skipped.contains(&(Some(1), true)), "{skipped:?}");
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
        let site = with_dir(recorded("epyc-7763-2s"), Path::new("/data"), allowed);
        let offer = offered(&site, preset, &[]);
        let series = &offer.series[0];
        let size = series.setting("size").expect("a size");
        let works = works(&offer);
        let made = workloads::files(works.iter().copied(), size);
        let made: u64 = made.iter().map(|made| made.bytes).sum();
        let rounds = u64::from(*preset.looks().last().expect("some"));
        let each = series.setting("written").expect("so much");
        let written: u64 = works.iter().map(|work| work.most_written(each)).sum();
        let may = bench::device::allowance(&site, ID);
        assert!(made + rounds * written <= may, "{made} {written} {may}");
        // With the default directory standard has all of its cases.
        if preset == Preset::Standard && allowed == 2 << 30 {
            assert_eq!((works.len(), offer.skipped.len()), (24, 0));
        }
        if allowed == 64 << 20 {
            let told = offer.skipped.iter().all(|(_, skip)| skip.reason.contains("write"));
            assert!(told && !offer.skipped.is_empty());
        }
    }
}

#[test]
fn a_round_keeps_to_its_allotment_and_counts_a_slow_device_as_one() {
    let cost = |preset, disk: &str| {
        // The machine of a report, which is no guest.
        let mut site = with_dir(sites().swap_remove(1), Path::new("/data"), 1 << 40);
        site.case_ns = session::plan::case_ns(preset);
        let offer = offered(&site, preset, &[]);
        let mut series = offer.series[0].clone();
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
fn a_choice_leaves_what_has_it_or_takes_the_place_of_others() {
    let site = with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 40);
    let of = |preset, set: &[(&str, &str)]| works(&offered(&site, preset, set));
    // One case, named whole: what the agreement with fio asks for.
    for depth in ["1", "16", "128"] {
        let found = of(
            Preset::Quick,
            &[
                ("op", "write"),
                ("pattern", "random"),
                ("mode", "direct"),
                ("block", "4KiB"),
                ("engine", "io_uring"),
                ("depth", depth),
                ("threads", "1"),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].depth.to_string(), depth);
        assert!(found[0].is_ring && found[0].is_random && !found[0].is_read);
    }
    let writes = of(Preset::Standard, &[("op", "write")]);
    assert!(writes.len() == 8 && writes.iter().all(|work| !work.is_read));
    let deep = of(Preset::Quick, &[("depth", "7,32")]);
    assert!(deep.iter().all(|work| work.is_ring) && deep.len() == 2, "{deep:?}");
    let none = EXPERIMENT
        .series(&site, &params(&CARD, Preset::Quick, &[("engine", "psync"), ("depth", "4")]));
    assert!(none.is_err_and(|skip| skip.reason.contains("depth 1")));
}

#[test]
fn depth_is_predicted_by_little_until_the_device_is_saturated() {
    let mut site = recorded("vm-granite-rapids");
    site.host.given.set("disk.read_latency", "100us").expect("a fact");
    site.host.given.set("disk.read_iops", "200k").expect("a fact");
    let id = |depth: u64| {
        let mut work = works(&offered(
            &with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 40),
            Preset::Quick,
            &[("engine", "io_uring"), ("op", "read")],
        ))[0];
        work.depth = depth;
        Case::new(work.id())
    };
    let of = |depth, metric| {
        let case = id(depth);
        let work = Work::of(&case.id).expect("ours");
        let prediction = law::predict(&site, None, &request(&case, work), metric);
        prediction.expect("a prior").range.expect("a range")
    };
    let likely = |depth, metric| of(depth, metric).likely;
    assert!((likely(8, "iops") / likely(1, "iops") - 8.0).abs() < 0.8);
    // The rate given, or 0.8 GB/s.
    assert!((1.9e5..=2e5).contains(&likely(128, "iops")));
    let ratio = likely(128, "latency") / (128.0 / likely(128, "iops") * 1e9);
    assert!((0.9..1.2).contains(&ratio), "{ratio}");
    assert!(likely(1, "latency") < 1.4e5);
    assert!((likely(32, "bandwidth") / likely(32, "iops") - 4096.0).abs() < 1.0);
}

#[test]
fn what_fs_read_measured_narrows_reads_past_the_cache() {
    let site = with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 40);
    let offer = offered(&site, Preset::Standard, &[]);
    let read =
        CaseId::new().with("pattern", "random").with("mode", "direct").with("size", 256 * MIB);
    let mut known = Known::default();
    known.insert(record::key::Key::new("fs.read", &read, "latency"), 9e4);
    let mut narrowed = 0;
    for case in &offer.series[0].cases {
        let work = Work::of(&case.id).expect("ours");
        let about = request(case, work);
        let prior = law::predict(&site, None, &about, "latency").expect("a prior");
        let derived = law::predict(&site, Some(&known), &about, "latency");
        let has = work.is_read && work.is_random && work.mode == "direct";
        assert_eq!(derived.is_some(), has, "{}", case.id);
        let Some(derived) = derived else { continue };
        let (prior, range) = (prior.range.expect("one"), derived.range.expect("one"));
        assert!(range.high / range.low < prior.high / prior.low, "{}", case.id);
        assert!(derived.because.contains("fs.read"));
        narrowed += 1;
    }
    assert!(narrowed >= 8);
}

fn has_rings() -> bool {
    let file = tempfile::tempfile().expect("a file");
    let buffers = metal::io::Buffers::new(1, 4096, 1).expect("a page");
    metal::io::Uring::new(file, buffers, metal::io::UringSetup::REGISTERED).is_ok()
}

#[test]
fn each_case_of_a_round_has_an_order_of_its_own() {
    let site = with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 40);
    let offer = offered(&site, Preset::Standard, &[]);
    let mut orders: Vec<Vec<u64>> = Vec::new();
    for case in &offer.series[0].cases {
        let work = Work::of(&case.id).expect("ours");
        if !(work.is_read && work.is_random && work.is_direct() && work.block == 4 * KIB) {
            continue;
        }
        let first = |seed| {
            let mut places = Places::new(work, 0, 64 * MIB, seed).expect("room");
            let places = std::iter::from_fn(|| places.next());
            places.take(50).collect::<Vec<_>>()
        };
        let order = first(order_seed(7, &case.id));
        assert_eq!(order, first(order_seed(7, &case.id)));
        assert_ne!(order, first(order_seed(8, &case.id)), "another in each round");
        assert!(!orders.contains(&order), "{}", case.id);
        orders.push(order);
    }
    assert!(orders.len() >= 6, "{}", orders.len());
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
    let site = with_dir(recorded("vm-granite-rapids"), dir.path(), 1 << 30);
    let set = [("mode", "buffered"), ("op", "write"), ("size", "1MiB")];
    let offer = offered(&site, Preset::Standard, &set);
    let series = &offer.series[0];
    EXPERIMENT.prepare(series, dir.path(), &mut || ()).expect("room");
    let mut task = task(dir.path(), works(&offer)[0]);
    (task.is_written_through, task.sizes.written) = (true, 64 * KIB);
    task.window_ns = 2e7;
    let (did, _) = task.alone().expect("writes");
    assert_eq!(did[0].ran.bytes, 64 * KIB);
    task.is_written_through = false;
    let (did, _) = task.alone().expect("writes");
    assert!(did[0].ran.bytes > 64 * KIB);
}

#[test]
fn latency_and_rate_of_a_deep_queue_are_never_at_odds() {
    for site in sites() {
        let site = with_dir(site, Path::new("/data"), 1 << 40);
        let offer = offered(&site, Preset::Thorough, &[]);
        for case in &offer.series[0].cases {
            let work = Work::of(&case.id).expect("ours");
            if work.depth < 2 {
                continue;
            }
            let of = |metric| {
                let told = law::predict(&site, None, &request(case, work), metric);
                told.expect("a prior").range.expect("a range")
            };
            // Little: what is in flight over the highest rate is the least that each can take.
            let least = work.depth as f64 / of("iops").high * 1e9;
            let low = of("latency").low;
            assert!(low >= 0.6 * least, "{}: {low} {least}", case.id);
        }
    }
}

#[test]
fn figures_of_fs_read_tell_of_cpu_time_and_of_longer_blocks() {
    let site = with_dir(recorded("vm-granite-rapids"), Path::new("/data"), 1 << 40);
    let case = |block: u64, mode: &str, engine: &str, depth: u64| {
        let id = CaseId::new()
            .with("op", "read")
            .with("pattern", "random")
            .with("mode", mode)
            .with("block", block)
            .with("engine", engine)
            .with("depth", depth)
            .with("threads", 1);
        let mut case = Case::new(id);
        case.at.insert("ground".to_owned(), "device".into());
        case
    };
    let mut known = Known::default();
    let mut put = |pattern: &str, mode: &str, metric: &str, value: f64| {
        let read = CaseId::new().with("pattern", pattern).with("mode", mode).with("size", 64 * MIB);
        known.insert(record::key::Key::new("fs.read", &read, metric), value);
    };
    put("random", "direct", "latency", 9e4);
    put("random", "direct", "cpu", 8e3);
    put("random", "cached", "latency", 700.0);
    put("sequential", "cold", "bandwidth", 8e8);
    let of = |case: &Case, metric: &str| {
        let work = Work::of(&case.id).expect("ours");
        law::predict(&site, Some(&known), &request(case, work), metric)
    };
    let range = |case: &Case, metric: &str| {
        let told = of(case, metric).unwrap_or_else(|| panic!("{} {metric}", case.id));
        assert!(told.because.contains("fs.read"), "{}", told.because);
        told.range.expect("a range")
    };
    let cpu = range(&case(4 * KIB, "direct", "psync", 1), "cpu");
    assert!(cpu.low <= 8e3 && 8e3 <= cpu.high && cpu.high / cpu.low < 6.0);
    // The stream of the device tells of blocks that are longer.
    let long = range(&case(MIB, "direct", "psync", 1), "bandwidth");
    assert!(long.low > 2e7 && long.high < 4e9, "{long:?}");
    // One after another is the least that a queue gives.
    let deep = range(&case(4 * KIB, "direct", "io_uring", 32), "iops");
    assert!(deep.low >= 0.7e9 / 9e4, "{deep:?}");
    assert!(deep.low <= deep.likely && deep.likely <= deep.high);
    // Of a block from memory whose figure changes nothing, nothing is said.
    assert!(of(&case(4 * KIB, "cached", "psync", 1), "latency").is_some());
    assert!(of(&case(64 * KIB, "cached", "psync", 1), "latency").is_none());
}

/// A case's operations with small files and a short window.
fn task(dir: &Path, work: Work) -> crew::Task<'_> {
    crew::Task {
        dir,
        work,
        sizes: workloads::Sizes { size: MIB, written: MIB },
        seed: 1,
        clock: bench::measure::Clock::Monotonic,
        window_ns: 1e5,
        is_rate: false,
        number: None,
        is_written_through: false,
        is_free: false,
    }
}

/// One round of everything that is offered, in a directory.
fn rehearse(
    dir: &Path,
    preset: Preset,
    set: &[(&str, &str)],
) -> (Series, Vec<Samples>, Vec<String>) {
    let site = here_with(dir);
    let offer = offered(&site, preset, set);
    let series = offer.series[0].clone();
    EXPERIMENT.prepare(&series, dir, &mut || ()).expect("room for some MiB");
    let measured = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let calibration =
                calibrate(&CalibrateOrder { cpu: site.cpus[0], windows: 10, window_ns: 200_000 });
            let order = RoundOrder {
                series: series.clone(),
                round: 1,
                seed: 1,
                cpus: site.cpus.clone(),
                calibration: calibration.expect("the clocks run"),
                dir: Some(dir.to_owned()),
                far: None,
                far_address: None,
                case_ns: 200_000,
                rehearsal: true,
            };
            let mut bench = Bench::new(order).expect("the CPU is allowed");
            EXPERIMENT.measure(&series, &mut bench).expect("measures");
            bench.finish().expect("nothing is sent")
        });
        work.join().expect("does not panic")
    });
    let failed = measured.3.failed.iter();
    let failed = failed.map(|case| format!("{}: {}", case.case, case.reason));
    (series, measured.0, failed.collect())
}

fn value(samples: &[Samples], case: &CaseId, metric: &str) -> Option<f64> {
    let mut of = samples.iter().filter(|samples| samples.case == *case && samples.metric == metric);
    of.next()?.raw.samples().first().copied()
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
        let (series, samples, failed) = rehearse(&place, preset, set);
        for case in &series.cases {
            if let Some(reason) = failed.iter().find(|text| text.starts_with(&case.id.to_string()))
            {
                // File systems in memory or of their own kind, and sandboxes without io_uring.
                let may = (reason.contains("cache:") && !is_plain(dir.path()))
                    || (reason.contains("io_uring") && !has_rings());
                assert!(may, "{reason}");
                match reason.contains("cache:") {
                    true => skips::part("file-system", reason),
                    false => skips::part("io-uring", reason),
                }
                continue;
            }
            let of = |metric| {
                value(&samples, &case.id, metric).unwrap_or_else(|| panic!("{} {metric}", case.id))
            };
            let work = Work::of(&case.id).expect("ours");
            assert!(of("latency") > 0.0 && of("cpu") > 0.0, "{}", case.id);
            let latency = samples.iter().find(|of| of.case == case.id && of.metric == "latency");
            let notes = &latency.expect("checked").notes;
            let told = notes.iter().any(|note| note.starts_with("the files are on"));
            // Files in memory have no device; a note says so.
            assert!(told || !case.at.contains_key("device_kind"), "{notes:?}");
            let [per_second, bytes] = window::names(case);
            let ratio = of(bytes) / (of(per_second) * work.block as f64);
            assert!((ratio - 1.0).abs() < 1e-5, "{}: {ratio}", case.id);
            let iops = samples.iter().find(|of| of.case == case.id && of.metric == per_second);
            let most = iops.expect("checked").quantities["in_flight_most"];
            assert_eq!(most, (work.depth * work.threads) as f64, "{}", case.id);
            let operations = iops.expect("checked").quantities["operations"];
            assert!(operations >= 8.0, "{}: {operations}", case.id);
            if !work.is_read && work.mode != "buffered" {
                let bytes = operations as u64 * work.block.max(4096);
                let each = series.setting("written").expect("so much");
                assert!(bytes <= work.most_written(each), "{}: {bytes}", case.id);
            }
        }
    }
}

#[test]
fn data_that_is_not_what_was_prepared_fails_the_case() {
    let dir = tempfile::tempdir().expect("a directory");
    let site = with_dir(recorded("vm-granite-rapids"), dir.path(), 1 << 30);
    let set = [("mode", "cached"), ("op", "read"), ("size", "1MiB")];
    let offer = offered(&site, Preset::Quick, &set);
    assert!(!offer.series[0].cases.is_empty());
    std::fs::write(dir.path().join("read"), vec![7; 1 << 20]).expect("room");
    let task = task(dir.path(), works(&offer)[0]);
    let error = task.alone().err().expect("other data");
    assert!(error.is::<bench::measure::WrongResult>(), "{error:#}");
    // Nor are figures had of a file that is not there, by one thread or two.
    std::fs::remove_file(dir.path().join("read")).expect("it is there");
    assert!(task.alone().is_err());
    let error = task.together(&[0, 0]).err().expect("no file");
    assert!(format!("{error:#}").contains("read"), "{error:#}");
}
