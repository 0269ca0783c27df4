use super::channels::channel;
use super::{
    Op, Stores, Threads, Transfer, Width, bandwidth, bytes_per_cycle, copy_over_read, cpus_of,
    instructions_bound, memory_peak, stated_peak, stream_mean,
};
use crate::Facts;
use crate::memory::Level;
use bench::experiment::fixtures::{bare_site, recorded};
use bench::experiment::{Known, Site};
use host::Core;
use host::dmi::Dimm;
use record::event::Range;
use record::key::{CaseId, Key};

const ONE: Threads = Threads::Number(1);
const LEVELS: [Level; 5] = [Level::L1, Level::L2, Level::L3, Level::Memory, Level::FourTimes];

fn regular(op: Op, level: Level, threads: Threads) -> Transfer {
    Transfer::widest(op, Stores::Regular, level, threads)
}

fn likely(site: &Site, op: Op, level: Level, threads: Threads) -> f64 {
    let told = bandwidth(Facts::prior(site), &regular(op, level, threads));
    told.expect("the level is there").range.likely
}

fn client(core: Core) -> Site {
    let mut site = bare_site();
    site.host.kernel.virtualisation.is_guest = Some(false);
    site.host.cpu.microarchitecture.core = core;
    site.host.cpu.flags = vec!["avx2".to_owned(), "fma".to_owned()];
    site
}

fn modules(count: usize) -> Vec<Dimm> {
    let module = |at: usize| Dimm {
        locator: Some(format!("DIMM_{}{}", ["A", "B"][at % 2], 1 + at / 2)),
        bank: None,
        size_bytes: 8 << 30,
        kind: Some("DDR4".to_owned()),
        rated_mts: Some(3200),
        configured_mts: Some(2666),
        data_bits: Some(64),
        ranks: None,
    };
    (0..count).map(module).collect()
}

#[test]
fn farther_levels_are_slower_and_more_threads_no_slower() {
    for name in ["epyc-7763-2s", "vm-granite-rapids", "graviton3"] {
        let site = recorded(name);
        let rates = LEVELS.map(|level| likely(&site, Op::Read, level, ONE));
        assert!(rates[..4].is_sorted_by(|near, far| near > far), "{name}: {rates:?}");
        for level in LEVELS {
            assert!(
                likely(&site, Op::Read, level, Threads::All) > rates[3] * 1.2,
                "{name} {level:?}"
            );
        }
    }
}

#[test]
fn a_stored_line_is_read_before_and_costs_what_the_rule_says() {
    for (op, stores, ratio) in [
        (Op::Read, Stores::Regular, 1.0),
        (Op::Write, Stores::Regular, 2.0),
        (Op::Write, Stores::NonTemporal, 1.0),
        (Op::Modify, Stores::Regular, 1.0),
        (Op::Copy, Stores::Regular, 1.5),
        (Op::Triad, Stores::Regular, 4.0 / 3.0),
        (Op::Triad, Stores::NonTemporal, 1.0),
    ] {
        assert_eq!(Transfer::widest(op, stores, Level::Memory, ONE).bus_ratio(), ratio, "{op:?}");
    }
    // All cores of a machine whose channels are told: copy 2/3 of a read, triad 3/4.
    let mut site = recorded("epyc-7763-2s");
    site.host.memory.dimms = modules(2);
    let of = |op| likely(&site, op, Level::Memory, Threads::All);
    let over = |op| of(op) / of(Op::Read);
    assert!((0.6..0.7).contains(&over(Op::Copy)), "{}", over(Op::Copy));
    assert!((0.68..0.78).contains(&over(Op::Triad)), "{}", over(Op::Triad));
}

#[test]
fn the_first_cache_is_instructions_times_bytes_times_clock() {
    let site = client(Core::SkylakeClient);
    for (op, width, bytes) in [
        (Op::Read, Width::Vector, 64.0),
        (Op::Write, Width::Vector, 32.0),
        (Op::Copy, Width::Avx2, 64.0),
        (Op::Triad, Width::Avx2, 96.0),
        (Op::Read, Width::Word(4), 8.0),
    ] {
        let of = Transfer { width, ..regular(op, Level::L1, ONE) };
        assert_eq!(bytes_per_cycle(&site, &of, &[0]), Some(bytes));
    }
    let of = regular(Op::Read, Level::L1, ONE);
    let bound = instructions_bound(&site, &of).expect("the design is known");
    assert_eq!((bound.constant, bound.warns_only), (64.0, false));
    assert_eq!(bound.inputs, [("cores_hz".to_owned(), 1)]);
    assert!(bytes_per_cycle(&client(Core::Unknown), &of, &[0]).is_none());
    // Cores of two designs have no one number.
    let hybrid = recorded("alder-lake-hybrid");
    assert!(bytes_per_cycle(&hybrid, &of, &hybrid.cpus).is_none());
}

#[test]
fn channels_are_counted_by_the_names_of_the_slots() {
    for (bank, locator, name) in [
        (Some("P0 CHANNEL A"), Some("DIMM 0"), Some("P0 A")),
        (Some("P1 CHANNEL A"), Some("DIMM 0"), Some("P1 A")),
        (None, Some("ChannelA-DIMM1"), Some(" A")),
        (Some("BANK 2"), Some("Channel-B-DIMM0"), Some(" B")),
        (None, Some("CPU1_DIMM_C2"), Some("CPU1_DIMM_C")),
        (None, Some("DIMM 0"), None),
        (None, None, None),
    ] {
        assert_eq!(channel(bank, locator).as_deref(), name, "{bank:?} {locator:?}");
    }
    let mut site = client(Core::SkylakeClient);
    assert!(stated_peak(&site).is_none());
    site.host.memory.dimms = modules(4);
    assert_eq!(stated_peak(&site).expect("the table tells").0, 2.0 * 2666e6 * 8.0);
    // Told modules narrow what the generation leaves open.
    let width = |range: Range| range.high / range.low;
    let told = memory_peak(&site, &[0]).range;
    site.host.memory.dimms.clear();
    assert!(width(told) < width(memory_peak(&site, &[0]).range));
    site.host.given.set("memory.mts", "3200").expect("a fact");
    assert!(stated_peak(&site).is_none(), "a rate without channels");
    site.host.given.set("memory.channels", "2").expect("a fact");
    assert_eq!(stated_peak(&site).expect("both").0, 51.2e9);
}

#[test]
fn a_socket_of_many_cores_has_at_least_half_its_channels() {
    let mut site = recorded("epyc-7763-2s");
    let width = |site: &Site| {
        let range = memory_peak(site, &[0]).range;
        range.high / range.low
    };
    // 60 to 95 % of that, and no wider.
    assert!(width(&site) < 3.5, "{}", width(&site));
    // A guest of such a machine has any part of it.
    site.host.kernel.virtualisation.is_guest = Some(true);
    assert!(width(&site) > 6.0);
}

#[test]
fn measured_latency_moves_one_thread_s_prediction_and_narrows_it() {
    let site = recorded("vm-granite-rapids");
    let of = regular(Op::Read, Level::Memory, ONE);
    let prior = bandwidth(Facts::prior(&site), &of).unwrap().range;
    let at = |ns: f64| {
        let mut known = Known::default();
        known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.6e9);
        let level = CaseId::new().with("level", "DRAM");
        known.insert(Key::new("memory.latency", &level, "level_latency"), ns);
        bandwidth(Facts { site: &site, known: Some(&known) }, &of).unwrap().range
    };
    let (near, far) = (at(80.0), at(160.0));
    assert!(near.likely > 1.5 * far.likely);
    assert!(near.high / near.low < prior.high / prior.low);
}

#[test]
fn threads_of_one_core_are_its_siblings() {
    let site = recorded("epyc-7763-2s");
    let cpus = cpus_of(&site, Threads::Smt);
    assert_eq!(cpus.len(), 2);
    let cpu = site.host.cpu.cpu(cpus[0]).expect("it is there");
    assert_eq!(cpu.smt_siblings, cpus);
    assert!(cpus_of(&recorded("graviton3"), Threads::Smt).is_empty());
    assert_eq!(cpus_of(&site, Threads::Number(3)).len(), 3);
}

#[test]
fn the_mean_lies_between_its_kernels() {
    let site = recorded("epyc-7763-2s");
    let mean = stream_mean(Facts::prior(&site), &regular(Op::Copy, Level::Memory, ONE)).unwrap();
    let rates = [Op::Copy, Op::Triad].map(|op| likely(&site, op, Level::Memory, ONE));
    assert!(rates[0] < mean.range.likely && mean.range.likely < rates[1]);
    assert!(copy_over_read(Level::Memory).range.high <= 2.0);
}
