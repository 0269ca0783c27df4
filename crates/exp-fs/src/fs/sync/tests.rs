use super::{CARD, EXPERIMENT, SYNCS_MAX, SYNCS_MIN};
use crate::fs::fixtures::{on_disk, place};
use bench::device::allowance;
use bench::experiment::fixtures::{case, set};
use bench::experiment::{AnyExperiment, Known, Preset, Site};
use record::event::Samples;
use record::key::Value;
use session::fixtures::{check, offered, refused, rehearse_in};
use session::plan::case_ns;

fn with_disk(spins: bool, allowance_bytes: u64) -> Site {
    on_disk("sda", spins, allowance_bytes)
}

#[test]
fn what_makes_no_sense_together_is_no_case() {
    let site = with_disk(false, 1 << 40);
    // Quick's call is fdatasync.
    let skip = refused(&EXPERIMENT, &site, Preset::Quick, &[("write", "create")]);
    assert!(skip.needed.is_none());
    offered(&EXPERIMENT, &site, Preset::Quick, &[("write", "create"), ("call", "fsync")]);
    let odd = [("call", "direct_dsync,dsync"), ("block", "1000B"), ("write", "append")];
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &odd);
    let left: Vec<_> = offer.series[0].cases.iter().map(|case| case.text("call")).collect();
    assert_eq!(left, [Some("dsync")]);
}

#[test]
fn rounds_stay_within_what_may_be_written() {
    for (preset, rounds) in [(Preset::Quick, 9), (Preset::Standard, 12), (Preset::Thorough, 20)] {
        for gib in [2, 6, 600, 6000] {
            let site = with_disk(false, gib << 30);
            let offer = offered(&EXPERIMENT, &site, preset, &[]);
            let larger = offer.skipped.iter().all(|(id, skip)| {
                id.int("block") == Some(65_536) && skip.reason.contains("may write")
            });
            assert!(larger && (gib > 6 || preset != Preset::Thorough || !offer.skipped.is_empty()));
            let series = &offer.series[0];
            let most = series.setting("most").expect("it is set");
            assert!((SYNCS_MIN..=SYNCS_MAX).contains(&most));
            let written: u64 = series
                .cases
                .iter()
                .filter(|case| case.text("write") != Some("none"))
                .map(|case| most * case.int("block").expect("it writes blocks"))
                .sum();
            assert!(rounds * written <= allowance(&site, CARD.id), "{gib} GiB");
        }
    }
    let skip = refused(&EXPERIMENT, &with_disk(false, 1 << 20), Preset::Quick, &[]);
    assert!(skip.needed.is_some_and(|needed| needed.contains("--dir")));
    let many = [("most", "1000000")];
    let skip = refused(&EXPERIMENT, &with_disk(false, 2 << 30), Preset::Quick, &many);
    assert!(skip.reason.contains("may write"), "{}", skip.reason);
}

#[test]
fn rounds_keep_their_allotment_and_disks_that_spin_cost_more() {
    for (preset, most_s) in
        [(Preset::Quick, 0.10), (Preset::Standard, 0.5), (Preset::Thorough, 5.0)]
    {
        let cost = |spins| {
            let site = Site { case_ns: case_ns(preset), ..with_disk(spins, 2 << 40) };
            let offer = check(&EXPERIMENT, &site, preset);
            EXPERIMENT.round_cost(&site, &offer.series[0]).as_secs_f64()
        };
        assert!(cost(false) <= 2.0 * most_s, "{}: {}", preset.name(), cost(false));
        assert!(cost(true) > 2.0 * cost(false), "{} {}", cost(false), cost(true));
    }
}

#[test]
fn a_medium_and_its_cache_are_known_to_the_round() {
    let fact = |site: &Site, name: &str| {
        let offer = check(&EXPERIMENT, site, Preset::Quick);
        let series = EXPERIMENT.resolve(site, &Known::default(), offer.series[0].clone());
        let series = series.expect("it has a device");
        series.cases[0].at.get(name).cloned()
    };
    let spins = with_disk(true, 2 << 30);
    let least = fact(&spins, "medium_least_ns").and_then(|value| value.int());
    assert!(least.is_some_and(|ns| (500_000..4_000_000).contains(&ns)), "{least:?}");
    assert_eq!(fact(&spins, "write_cache"), Some(Value::from("write back")));
    assert_eq!(fact(&spins, "disk_number"), Some(Value::from("8:0")));
    // A hypervisor's cache is unknown.
    let mut guest = with_disk(true, 2 << 30);
    guest.host.kernel.virtualisation.is_guest = Some(true);
    assert_eq!(fact(&guest, "medium_least_ns"), None);
    let mut memory = with_disk(false, 2 << 30);
    if let Some(dir) = &mut memory.dir {
        dir.file_system = "tmpfs".to_owned();
    }
    assert_eq!(fact(&memory, "promise"), Some("memory".into()), "tmpfs promises nothing");
    assert_eq!(fact(&spins, "medium"), Some("spinning".into()));
    assert_eq!(fact(&spins, "promise"), None);
}

#[test]
fn all_of_it_runs_on_files_of_its_own_and_leaves_none() {
    let set = set(
        "write=none,overwrite,append,reserved,create call=fsync,fdatasync,dsync block=4KiB,3000B \
         most=9",
    );
    let (dir, site) = place();
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &set);
    assert_eq!(rehearsed.failed, []);
    let samples = &rehearsed.samples;
    let of = |write: &str, call: &str, metric: &str| -> &Samples {
        let block = if write == "none" { "" } else { ",block=4096" };
        let id = case(&format!("write={write},call={call}{block}"));
        rehearsed.samples_of(&id, metric).unwrap_or_else(|| panic!("{id} {metric}"))
    };
    for (write, call) in [("none", "fsync"), ("append", "fdatasync"), ("create", "fsync")] {
        let whole = of(write, call, "latency").raw.samples();
        let alone = of(write, call, "sync").raw.samples();
        assert_eq!(whole.len(), alone.len());
        assert!((8..=9).contains(&whole.len()), "{write}: {}", whole.len());
        assert!(whole.iter().zip(&alone).all(|(whole, alone)| alone <= whole));
    }
    assert!(
        samples
            .iter()
            .all(|samples| samples.metric != "sync" || samples.case.text("call") != Some("dsync")),
        "there is no call after a write that waits"
    );
    // Whatever has a prediction has samples, but what kernels and devices may not count.
    for case in check(&EXPERIMENT, &site, Preset::Quick).series[0].cases.iter() {
        for metric in CARD.metrics.iter().filter(|metric| !EXPERIMENT.may_lack(metric)) {
            let told = EXPERIMENT.unscaled(&site, None, case, metric);
            let told = told.is_some_and(|prediction| prediction.range.is_some());
            let mut found = samples.iter();
            let some = found.any(|found| found.case == case.id && found.metric == metric.name);
            assert_eq!(some, told, "{} {}", case.id, metric.name);
        }
    }
    let left = std::fs::read_dir(dir.path()).expect("lists").count();
    assert_eq!(left, 0, "what was made is removed");
}
