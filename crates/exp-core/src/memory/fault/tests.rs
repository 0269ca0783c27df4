use super::{CARD, EXPERIMENT, Faulted, device};
use crate::memory::rehearsal;
use bench::experiment::fixtures::{bare_site, on_a_thread, recorded, sites};
use bench::experiment::{AnyExperiment, DirFacts};
use bench::prelude::*;
use host::{Host, Root};
use session::fixtures::{check, here_with, offered, refused};
use std::path::Path;

fn with_disk() -> Site {
    let tree = "== sys/block/sda/size\n100\n== sys/block/sda/dev\n8:0\n\
        == sys/block/sda/queue/read_ahead_kb\n128\n\
        == proc/self/mountinfo\n22 1 8:0 / / rw - ext4 /dev/sda rw\n";
    Site {
        host: Host::read(&Root::tree(tree)),
        dir: Some(DirFacts {
            path: "/x".into(),
            file_system: "ext4".to_owned(),
            allowance_bytes: 1 << 34,
            portions: Vec::new(),
        }),
        ..bare_site()
    }
}

#[test]
fn everything_is_offered_or_skipped_with_a_reason() {
    for preset in [Preset::Quick, Preset::Standard, Preset::Thorough] {
        for site in sites() {
            let offer = check(&EXPERIMENT, &site, preset);
            // Without a directory no device can be read.
            let all = offer.series.iter().flat_map(|series| &series.cases);
            assert!(all.clone().count() >= 4);
            for case in all {
                assert!(!Faulted::from_id(&case.id).expect("a fault").fault.is_major());
            }
            let major = offer.skipped.iter().find(|(id, _)| id.text("fault") == Some("page"));
            let (_, skip) = major.expect("skipped");
            assert!(skip.needed.is_some());
        }
    }
    let offer = check(&EXPERIMENT, &with_disk(), Preset::Standard);
    let names: Vec<_> =
        offer.series.iter().map(|series| (series.name.as_str(), series.cases.len())).collect();
    assert_eq!(names, [("", 8), ("major", 6)]);
    let series = EXPERIMENT
        .resolve(&with_disk(), &Known::default(), offer.series[1].clone())
        .expect("it has a device");
    assert!(series.cases.iter().all(|case| case.int("readahead_bytes") == Some(131_072)));
}

#[test]
fn turns_of_stress_ng_leave_their_file_to_no_public_directory() {
    let set = [("fault", "stress")];
    let without = Site { dir: None, ..with_disk() };
    let skip = refused(&EXPERIMENT, &without, Preset::Quick, &set);
    assert_eq!(skip.needed.as_deref(), Some("--dir DIR"));
    offered(&EXPERIMENT, &with_disk(), Preset::Quick, &set);
}

#[test]
fn memory_that_is_not_there_is_a_reason() {
    let mut site = recorded("vm-granite-rapids");
    site.memory_bytes = 1 << 20;
    refused(&EXPERIMENT, &site, Preset::Standard, &[]);
    site.memory_bytes = 1 << 30;
    site.host.memory.thp.enabled = Some("never".to_owned());
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
    assert!(offer.skipped.iter().any(|(id, _)| id.text("fault") == Some("huge")));
}

/// This machine with a directory, where that lies on a device.
fn here(dir: &Path) -> Option<Site> {
    let site = here_with(dir);
    device::below(&site).is_ok().then_some(site)
}

/// A rehearsal in a directory, of everything that a preset has: what was measured, and what failed.
/// If no device is below the directory, the site's device counts nothing.
fn rehearse(dir: &Path, minor: bool) -> (Vec<CaseId>, Vec<String>) {
    let mut sized = vec![("file", "4MiB"), ("window", "256KiB")];
    if minor {
        sized.push(("fault", "anonymous,zero,huge,file,file_around,shared,copy,protect,stress"));
    }
    let real = here(dir);
    let counts = real.is_some();
    let site = real.unwrap_or_else(with_disk);
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &sized);
    let series = offer.series[usize::from(!minor)].clone();
    let mut series = EXPERIMENT.resolve(&site, &Known::default(), series).expect("a device");
    if !counts {
        // The site's disk is none of this machine.
        for case in &mut series.cases {
            case.at.remove("device_number");
        }
    }
    if EXPERIMENT.is_prepared(&series) {
        EXPERIMENT.prepare(&series, dir, &mut || ()).expect("room for 4 MiB");
    }
    let order = RoundOrder { dir: Some(dir.to_owned()), ..rehearsal(series.clone()) };
    let mut bench = Bench::new(order).expect("the CPU is allowed");
    EXPERIMENT.measure(&series, &mut bench).expect("measures");
    let (samples, _, _, done) = bench.finish().expect("ends");
    (
        samples.into_iter().map(|samples| samples.case).collect(),
        done.failed.into_iter().map(|failed| failed.reason).collect(),
    )
}

#[test]
fn every_minor_fault_is_measured_here_or_says_why_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (measured, failed) = on_a_thread(|| rehearse(dir.path(), true));
    // Only huge pages may be short.
    assert!(failed.iter().all(|reason| reason.contains("huge")), "{failed:?}");
    let has = |fault: &str| measured.contains(&CaseId::new().with("fault", fault));
    for fault in ["anonymous", "zero", "file", "file_around", "shared", "copy", "protect", "stress"]
    {
        assert!(has(fault), "{fault}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("reads").count(), 0, "files without names");
}

#[test]
fn a_cold_file_is_read_from_its_device_or_is_told_to_be_cached() {
    let dir = tempfile::tempdir().expect("a directory");
    let (measured, failed) = on_a_thread(|| rehearse(dir.path(), false));
    let of_device = here(dir.path()).and_then(|site| {
        let below = device::below(&site).ok()?;
        Some(["ext4", "xfs"].contains(&below.mount.fs.as_str()))
    });
    // These give up a file's pages when they are told to; others may keep them, and say so.
    match of_device == Some(true) {
        true => assert!(failed.is_empty(), "{failed:?}"),
        false => skips::part("file-system", failed.join("; ")),
    }
    let all_cached = failed.iter().all(|reason| reason.contains("cache:"));
    assert!(all_cached, "{failed:?}");
    // Six cases with two figures and more each.
    assert!(!failed.is_empty() || measured.len() >= 12, "{measured:?}");
}

#[test]
fn files_in_memory_are_never_a_device() {
    // /dev/shm is a tmpfs wherever it is.
    let shm = Path::new("/dev/shm");
    let Ok(dir) = tempfile::tempdir_in(shm) else { return skips::test("memory-directory") };
    let (measured, failed) = on_a_thread(|| rehearse(dir.path(), false));
    assert!(measured.is_empty() && failed.len() == 6, "{measured:?}");
    assert!(failed.iter().all(|reason| reason.contains("eviction")), "{failed:?}");
}

#[test]
fn clearing_is_the_slope_between_the_pages() {
    let site = recorded("vm-granite-rapids");
    let mut values = Known::default();
    let mut put = |fault: &str, ns: f64| {
        values.insert(Key::new(CARD.id, &CaseId::new().with("fault", fault), "latency"), ns);
    };
    // 500 ns and 0.05 ns for each byte.
    put("anonymous", 500.0 + 0.05 * 4096.0);
    put("huge", 500.0 + 0.05 * 2_097_152.0);
    let derived = EXPERIMENT.derive(&site, &Known::default(), &values);
    let of = |name| derived.iter().find(|value| value.metric == name).expect("derived").value;
    assert!((of("zeroing") - 0.05).abs() < 1e-12);
    assert!((of("base_part") - 500.0).abs() < 1e-6);
    assert!(EXPERIMENT.derive(&site, &Known::default(), &Known::default()).is_empty());
}

#[test]
fn pages_that_were_there_before_their_touch_void_everything_and_fail_with_both_numbers() {
    let error = on_a_thread(|| {
        let series = offered(&EXPERIMENT, &bare_site(), Preset::Quick, &[]).series.remove(0);
        let bench = Bench::new(rehearsal(series)).expect("the CPU is allowed");
        super::minor::present_pages(&bench).expect_err("nothing faults")
    });
    let text = error.to_string();
    assert!(text.contains("made 0 page faults"), "{text}");
}

#[test]
fn turns_alone_are_made_steadily_and_that_costs_its_time() {
    let mut site = recorded("vm-granite-rapids");
    site.dir = Some(DirFacts {
        path: "/tmp/files".into(),
        file_system: "tmpfs".to_owned(),
        allowance_bytes: 1 << 30,
        portions: Vec::new(),
    });
    let of = |set: &[(&str, &str)]| {
        let set = [&[("fault", "stress,anonymous")], set].concat();
        let series = offered(&EXPERIMENT, &site, Preset::Quick, &set).series.remove(0);
        let ids: Vec<CaseId> = series.cases.iter().map(|case| case.id.clone()).collect();
        let steady = |fault: &str| {
            let mut cases = series.cases.iter();
            let case = cases.find(|case| case.text("fault") == Some(fault));
            case.expect("both are offered").int("steady")
        };
        let steady = [steady("stress"), steady("anonymous")];
        (ids, steady, EXPERIMENT.round_cost(&site, &series))
    };
    let (ids, none, cost) = of(&[]);
    let (steady_ids, steady, steady_cost) = of(&[("steady", "250ms")]);
    assert_eq!(ids, steady_ids);
    assert_eq!((none, steady), ([None; 2], [Some(250_000_000), None]));
    let more = (steady_cost - cost).as_millis();
    assert!((450..=500).contains(&more), "{more}");
}
