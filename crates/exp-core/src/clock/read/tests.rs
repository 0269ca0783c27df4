use super::{EXPERIMENT, Way, cost, exists, resolution, smallest_steps};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{recorded, sites};
use bench::prelude::*;
use host::{Arch, Core};
use metal::kernel::ClockRead;
use session::fixtures::offered;

#[test]
fn names_match_the_reads_that_this_machine_has() {
    let here = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    for way in Way::ALL {
        let is_there = ClockRead::available().contains(way.row());
        assert_eq!(exists(*way.row(), here), is_there, "{way:?}");
    }
}

#[test]
fn a_clock_of_the_other_architecture_is_a_skip_only_when_asked_for() {
    for mut site in sites() {
        site.host.cpu.arch = Arch::X86_64;
        site.host.cpu.flags.clear();
        let everything = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
        assert!(everything.skipped.is_empty());
        assert_eq!(everything.series[0].cases.len(), 9);
        let asked = [("clock", "cntvct,rdtsc")];
        let offer = offered(&EXPERIMENT, &site, Preset::Standard, &asked);
        assert_eq!((offer.series[0].cases.len(), offer.skipped.len()), (1, 1));
    }
}

#[test]
fn reads_of_the_kernel_and_of_hypervisors_vary_as_services_do() {
    for metric in EXPERIMENT.card().metrics {
        assert_eq!(metric.kind, Kind::Os, "{}", metric.name);
    }
}

#[test]
fn what_needs_rdtscp_is_skipped_on_a_processor_that_is_known_to_lack_it() {
    let mut site = recorded("epyc-7763-2s");
    site.host.cpu.flags.retain(|flag| flag != "rdtscp");
    site.host.cpu.cpuid_features.clear();
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
    let skipped: Vec<_> = offer.skipped.iter().map(|(id, _)| id.text("clock")).collect();
    let expected = ["rdtscp", "fenced_pair", "cpuid_pair"].map(Some);
    assert_eq!(skipped, expected);
    assert!(offer.skipped[0].1.reason.contains("rdtscp"));
    assert_eq!(offer.series[0].cases.len(), 6);
}

#[test]
fn a_step_of_arms_counter_is_whole_ticks() {
    let mut site = recorded("graviton3");
    let of = |site: &Site, read| {
        let prediction = resolution(site, read, cost(site, read));
        prediction.range.expect("told")
    };
    let step = |site: &Site| of(site, ClockRead::CntvctIsb);
    let fine = step(&site);
    let tick = 1e9 / 1.05e9;
    let ticks = fine.likely / tick;
    assert!((ticks - ticks.round()).abs() < 1e-9 && ticks >= 1.0, "{fine:?}");
    // Slower than any read: one tick.
    site.host.cpu.counter_hz = Some(2_000_000);
    let coarse = step(&site);
    assert!(coarse.likely == 500.0 && coarse.high / coarse.low < 1.05);
    // 18.5 ns a tick, told in whole ns by the kernel.
    site.host.cpu.counter_hz = Some(54_000_000);
    let kernel = of(&site, ClockRead::ClockGettimeVdso);
    assert_eq!((kernel.low, kernel.likely), (18.0, 18.0));
    assert!(kernel.high >= 19.0);
    site.host.cpu.counter_hz = None;
    assert!(step(&site).high > 2.0 * step(&site).likely);
}

#[test]
fn a_step_of_zens_counter_is_whole_updates_or_on_newer_designs_a_tick() {
    let site = recorded("epyc-7763-2s");
    let of = |site: &Site, read| resolution(site, read, cost(site, read)).range.expect("told");
    for read in [ClockRead::Rdtsc, ClockRead::LfenceRdtsc, ClockRead::ClockGettimeSyscall] {
        let updates = of(&site, read).likely / super::ZEN_STEP_NS;
        assert!(updates >= 1.0 && (updates - updates.round()).abs() < 1e-9, "{read:?} {updates}");
    }
    let mut newer = site;
    newer.host.cpu.microarchitecture.core = Core::Zen4;
    newer.host.cpu.classes.clear();
    assert!(of(&newer, ClockRead::Rdtsc).likely < 1.0);
    assert!(of(&newer, ClockRead::LfenceRdtsc).likely >= super::ZEN_STEP_NS);
}

#[test]
fn the_smallest_step_is_found_and_a_clock_that_stands_still_ends_the_search() {
    let mut turn = 0u64;
    let steps = smallest_steps(10, || {
        turn += 1;
        [0, 7, 3, u64::MAX][(turn % 4) as usize]
    });
    assert_eq!(steps, Some(vec![3; super::STEP_EVENTS]));
    assert_eq!(smallest_steps(10, || 0), None);
}
