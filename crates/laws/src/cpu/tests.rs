use super::*;
use bench::experiment::fixtures::{bare_site, known, recorded};
use host::CoreKind;
use host::cpu::{CpuClass, Frequency};
use record::key::Key;

/// A site whose only CPU has this design and this scaling.
fn site(core: Core, frequency: Frequency) -> Site {
    let mut site = bare_site();
    site.host.kernel.virtualisation.is_guest = Some(false);
    site.host.cpu.classes =
        vec![CpuClass { kind: CoreKind::Uniform, core, cpus: vec![0], max_hz: None }];
    let any = recorded("graviton3").host.cpu.cpus.swap_remove(0);
    site.host.cpu.cpus =
        vec![LogicalCpu { id: 0, smt_siblings: vec![0], llc_group: None, frequency, ..any }];
    site
}

fn boosting(max_hz: u64) -> Frequency {
    Frequency { max_hz: Some(max_hz), ..Frequency::default() }
}

fn assert_ordered(estimate: &Law) {
    let Range { low, likely, high } = estimate.range;
    assert!(0.0 < low && low <= likely && likely <= high && high.is_finite(), "{estimate:?}");
    assert!(!estimate.because().is_empty());
}

#[test]
fn every_design_gets_an_ordered_interval_of_every_law() {
    for core in Core::ALL {
        let site = site(*core, boosting(4_000_000_000));
        for body in [LoopBody::Register, LoopBody::Memory, LoopBody::Unrolled(16)] {
            assert_ordered(&loop_iteration(&site, body));
        }
        for read in [
            CounterRead::Plain,
            CounterRead::Fenced,
            CounterRead::Ordered,
            CounterRead::Pair,
            CounterRead::Window,
            CounterRead::CpuidPair,
        ] {
            assert_ordered(&counter_read(&site, read));
        }
        for (instructions, stores, frame) in [(1.0, 1.0, false), (40.0, 16.0, true)] {
            let (jumps, of) = (1.0, CallWork::default());
            let work = CallWork { instructions, stores, loads: 1.0, frame, jumps, ..of };
            assert_ordered(&call(Facts::prior(&site), work));
        }
        assert_ordered(&vdso_read(Facts::prior(&site)));
    }
}

#[test]
fn the_clock_follows_what_is_stated() {
    let clock = core_clock(&site(Core::Zen3, boosting(4_000_000_000))).range;
    assert_eq!((clock.low, clock.high), (2.8e9, 4.2e9));

    let mut slow = boosting(4_000_000_000);
    slow.ceiling_hz = Some(2_000_000_000);
    assert_eq!(core_clock(&site(Core::Zen3, slow)).range.high, 2.1e9);

    let mut saving = boosting(4_000_000_000);
    saving.min_hz = Some(1_000_000_000);
    saving.governor = Some("powersave".to_owned());
    assert_eq!(core_clock(&site(Core::Zen3, saving.clone())).range.likely, 1e9);
    saving.driver = Some("intel_pstate".to_owned());
    assert_eq!(core_clock(&site(Core::Zen3, saving)).range.likely, 0.99 * 4e9);

    let mut fixed = site(Core::Zen3, boosting(4_000_000_000));
    fixed.host.cpu.cpus[0].frequency.base_hz = Some(3_000_000_000);
    fixed.host.cpu.turbo.enabled = Some(false);
    assert_eq!(core_clock(&fixed).range.likely, 3e9);

    fixed.host.given.set("cpu.max_hz", "5GHz").expect("a fact of the host");
    assert_eq!(core_clock(&fixed).range.high, 5.25e9);
}

#[test]
fn a_virtual_machine_goes_from_its_counter_up() {
    let mut guest = site(Core::GoldenCove, Frequency::default());
    guest.host.kernel.virtualisation.is_guest = Some(true);
    let unknown = core_clock(&guest).range;
    assert!(unknown.high / unknown.low > 3.0, "{unknown:?}");
    guest.host.cpu.cpuid_frequency.hypervisor_tsc_hz = Some(2_000_000_000);
    let clock = core_clock(&guest).range;
    assert_eq!((clock.low, clock.high), (2e9, 3.2e9));
    let ratio = core_ratio(&guest).expect("the counter is stated");
    assert_eq!((ratio.range.low, ratio.range.high), (1.0, 1.6));
    assert!(counter_read(&guest, CounterRead::CpuidPair).range.low > 1000.0);
}

#[test]
fn the_counter_takes_the_best_statement_there_is() {
    let mut host = site(Core::IvyBridge, Frequency::default());
    assert!(counter_clock(&host).is_err() && core_ratio(&host).is_err());
    host.host.cpu.model_name = Some("Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz".to_owned());
    assert_eq!(counter_clock(&host).expect("by name").range.likely, 3.5e9);
    host.host.cpu.cpuid_frequency.tsc_hz = Some(3_499_000_000);
    assert_eq!(counter_clock(&host).expect("by leaf").range.likely, 3.499e9);
    host.host.cpu.arch = Arch::Aarch64;
    assert!(counter_clock(&host).is_err() && core_ratio(&host).is_err());
    host.host.cpu.counter_hz = Some(25_000_000);
    let told = counter_clock(&host).expect("by the register");
    assert_eq!(told.range.likely, 25e6);
    // A crystal's rate says nothing of a guest's core.
    host.host.kernel.virtualisation.is_guest = Some(true);
    assert!(core_clock(&host).range.low > 1e9);
}

#[test]
fn boost_goes_beyond_the_fastest_state_that_acpi_cpufreq_names() {
    let epyc = recorded("epyc-7763-2s");
    let clock = core_clock(&epyc).range;
    assert!((3.4e9..3.6e9).contains(&clock.likely), "{clock:?}");
    let likely = |change: fn(&mut Site)| {
        let mut epyc = recorded("epyc-7763-2s");
        change(&mut epyc);
        core_clock(&epyc).range.likely
    };
    let off = likely(|site| site.host.cpu.turbo.enabled = Some(false));
    assert_eq!(off, 2.45e9);
    let lowered = likely(|site| site.host.cpu.cpus[0].frequency.ceiling_hz = Some(2_000_000_000));
    assert_eq!(lowered, 0.99 * 2e9);
    // A kernel without CPPC knows nothing beyond the table.
    let table = likely(|site| {
        let frequency = &mut site.host.cpu.cpus[0].frequency;
        (frequency.base_hz, frequency.max_hz) = (None, Some(2_450_000_000));
    });
    assert!(table > 2.6e9, "{table}");
    // A firmware without a nominal clock; the kernel's maximum has the boost: no state is 3529052 kHz.
    let computed = likely(|site| {
        let frequency = &mut site.host.cpu.cpus[0].frequency;
        (frequency.base_hz, frequency.max_hz) = (None, Some(3_529_052_000));
        frequency.ceiling_hz = frequency.max_hz;
    });
    assert_eq!(computed, 0.99 * 3.529052e9);
    // A maximum that is not believed leaves the base clock, and what the boost may add.
    let base = likely(|site| {
        let frequency = &mut site.host.cpu.cpus[0].frequency;
        (frequency.max_hz, frequency.ceiling_hz) = (None, None);
        site.host.cpu.classes[0].max_hz = None;
        site.host.cpu.microarchitecture.platform = None;
    });
    assert_eq!(base, 1.35 * 2.45e9);
}

/// A description may have no driver: a table of few states ends at the base clock, which a slowest
/// state above half of it tells; other drivers state the boost.
#[test]
fn a_table_of_states_is_told_by_its_slowest() {
    let likely = |min_hz| {
        let frequency = Frequency { min_hz: Some(min_hz), ..boosting(2_400_000_000) };
        let mut site = site(Core::Zen, frequency);
        site.host.cpu.turbo.enabled = Some(true);
        core_clock(&site).range.likely
    };
    assert_eq!((likely(1_400_000_000), likely(600_000_000)), (1.35 * 2.4e9, 0.99 * 2.4e9));
}

#[test]
fn a_description_of_a_base_clock_has_what_is_published_of_the_family() {
    let mut epyc = site(Core::Zen4, Frequency::default());
    epyc.host.cpu.cpus[0].frequency.base_hz = Some(3_200_000_000);
    epyc.host.cpu.microarchitecture.platform = Some("Genoa".to_owned());
    let clock = core_clock(&epyc).range;
    assert_eq!((clock.low, clock.high), (3.2e9, 4.4e9));
}

#[test]
fn a_line_that_placement_decides_has_no_predicted_fit() {
    let site = site(Core::Haswell, boosting(4_000_000_000));
    let work =
        |instructions, stores| CallWork { instructions, stores, loads: 1.0, ..CallWork::default() };
    let hidden: Vec<CallWork> = (0..8).map(|_| work(2.0, 1.0)).collect();
    let (_, fit) = call_line(Facts::prior(&site), &hidden);
    assert!(fit.is_err());
    let shown: Vec<CallWork> = (0..8).map(|n| work(2.0, 1.0 + 3.0 * f64::from(n))).collect();
    let (_, fit) = call_line(Facts::prior(&site), &shown);
    assert!(fit.expect("stores add up").range.low > 0.0);
}

#[test]
fn the_measured_clock_narrows() {
    let site = site(Core::Haswell, boosting(4_000_000_000));
    let mut known = Known::default();
    let unmeasured = Facts { site: &site, known: Some(&known) };
    assert_eq!(best_core_clock(unmeasured), core_clock(&site));
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.0e9);
    let work = CallWork { instructions: 2.0, stores: 1.0, loads: 1.0, ..CallWork::default() };
    let facts = Facts { site: &site, known: Some(&known) };
    let (prior, derived) = (call(facts.as_prior(), work), call(facts, work));
    assert!(derived.range.high / derived.range.low < prior.range.high / prior.range.low);
    assert_eq!(best_core_clock(facts).range.likely, 3.0e9);
}

#[test]
fn more_work_takes_longer_and_a_frame_waits_for_memory() {
    let site = site(Core::SkylakeClient, boosting(4_000_000_000));
    let likely = |instructions, stores, frame| {
        let of = CallWork::default();
        let work = CallWork { instructions, stores, loads: 1.0, frame, ..of };
        call(Facts::prior(&site), work).range.likely
    };
    assert!(likely(20.0, 1.0, false) > likely(2.0, 1.0, false));
    assert!(likely(20.0, 12.0, false) > likely(20.0, 1.0, false));
    assert!(likely(2.0, 2.0, true) > likely(2.0, 2.0, false));
}

#[test]
fn a_line_needs_three_points() {
    let straight = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).expect("three points");
    assert!((straight.slope - 2.0).abs() < 1e-12, "{straight:?}");
    assert_eq!(line(&[(0.0, 1.0), (1.0, 2.0)]), None);
    assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
}

#[test]
fn hardware_laws_of_known_designs_keep_their_width() {
    let widest = |core| {
        let site = site(core, boosting(4_000_000_000));
        [
            loop_iteration(&site, LoopBody::Register),
            counter_read(&site, CounterRead::Plain),
            counter_read(&site, CounterRead::Pair),
        ]
        .map(|estimate| estimate.range.high / estimate.range.low)
        .into_iter()
        .fold(0.0, f64::max)
    };
    for core in [Core::IvyBridge, Core::Haswell, Core::SkylakeServer, Core::Zen, Core::Zen4] {
        // Sources were found for what a turn of a loop takes on four designs: 0.5 to 1.05 cycles.
        assert!(widest(core) <= 3.2, "{}: {}", core.name(), widest(core));
    }
}

/// Chains of dependent instructions need no width; independent ones share it.
#[test]
fn a_core_that_others_used_is_seen_by_the_empty_loop() {
    use instruction::{Measure, Operation, instruction};
    let site = site(Core::Zen3, boosting(3_000_000_000));
    let turn_ns = core_costs(&site).turn.cycles.likely / 3.0;
    let told = |times: f64, measure| {
        let known = known(&[
            ("clock.rate", "", "core_frequency", 3e9),
            ("clock.loop", "loop=empty", "iteration", times * turn_ns),
        ]);
        let facts = Facts { site: &site, known: Some(&known) };
        (instruction(facts, Operation::AddI64, measure).unwrap().range, plain_call(facts))
    };
    let (alone, shared) = (told(1.02, Measure::Throughput), told(1.9, Measure::Throughput));
    for (alone, shared) in [(alone.0, shared.0), (alone.1, shared.1)] {
        assert_eq!(alone.low, shared.low);
        assert!((shared.high / alone.high - 1.9).abs() < 1e-9 && shared.likely > alone.likely);
    }
    assert_eq!(told(1.02, Measure::Latency).0, told(1.9, Measure::Latency).0);
}

fn plain_call(facts: Facts) -> Range {
    call(facts, CallWork { instructions: 4.0, stores: 1.0, loads: 1.0, ..CallWork::default() })
        .range
}

#[test]
fn tenants_of_the_core_slow_what_its_width_limits() {
    let alone = site(Core::Zen3, boosting(4_000_000_000));
    let mut shared = alone.clone();
    shared.host.given.set("cpu.tenants", "2").expect("a fact of the host");
    let high = |site: &Site, body| loop_iteration(site, body).range.high;
    assert_eq!(high(&shared, LoopBody::Register), 2.0 * high(&alone, LoopBody::Register));
    assert_eq!(high(&shared, LoopBody::Memory), high(&alone, LoopBody::Memory));
    // A measurement replaces the given number of tenants.
    let known = Known::default();
    let measured = |site| call(Facts { site, known: Some(&known) }, CallWork::default()).range;
    assert_eq!(measured(&shared), measured(&alone));
}
