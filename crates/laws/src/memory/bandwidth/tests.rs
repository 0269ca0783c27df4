use super::channels::channel;
use super::{
    FOUR_TIMES, MEMORY, OPS, STORES, Transfer, bandwidth, bytes_per_cycle, copy_over_read, cpus_of,
    efficiency, instructions_bound, memory_peak, stated_peak, stream_mean,
};
use bench::experiment::fixtures::bare_site;
use bench::experiment::fixtures::{recorded, sites};
use bench::experiment::{Known, Site};
use host::Core;
use host::dmi::Dimm;
use record::event::Range;
use record::key::{CaseId, Key, Value};

fn likely(site: &Site, op: &'static str, level: &str, threads: &Value) -> f64 {
    let transfer = Transfer::widest(op, STORES[0]);
    let told = bandwidth(site, None, transfer, level, threads);
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
fn every_kernel_is_ordered_at_every_site_and_level() {
    let one = Value::from(1);
    for site in sites() {
        for op in OPS {
            for stores in STORES {
                for level in ["L1", "L2", "L3", MEMORY, FOUR_TIMES] {
                    for threads in [&one, &Value::from("all")] {
                        let transfer = Transfer::widest(op, stores);
                        let told = bandwidth(&site, None, transfer, level, threads);
                        let Ok(estimate) = told else { continue };
                        let Range { low, likely, high } = estimate.range;
                        assert!(0.0 < low && low <= likely && likely <= high, "{op} {level}");
                        if let Ok(share) = efficiency(&site, transfer, level, threads) {
                            let Range { low, likely, high } = share.range;
                            assert!(low <= likely && likely <= high, "{op} {level}: {share:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn farther_levels_are_slower_and_more_threads_no_slower() {
    let (one, all) = (Value::from(1), Value::from("all"));
    for name in ["epyc-7763-2s", "vm-granite-rapids", "graviton3"] {
        let site = recorded(name);
        let rates = ["L1", "L2", "L3", MEMORY].map(|level| likely(&site, "read", level, &one));
        assert!(rates.is_sorted_by(|near, far| near > far), "{name}: {rates:?}");
        for level in ["L1", "L2", "L3", MEMORY] {
            assert!(likely(&site, "read", level, &all) > rates[3] * 1.2, "{name} {level}");
        }
    }
}

#[test]
fn a_stored_line_is_read_before_and_costs_what_the_rule_says() {
    for (op, stores, ratio) in [
        ("read", 0, 1.0),
        ("write", 0, 2.0),
        ("write", 1, 1.0),
        ("modify", 0, 1.0),
        ("copy", 0, 1.5),
        ("triad", 0, 4.0 / 3.0),
        ("triad", 1, 1.0),
    ] {
        assert_eq!(Transfer::widest(op, STORES[stores]).bus_ratio(), ratio, "{op}");
    }
    // All cores of a machine whose channels are told: copy 2/3 of a read, triad 3/4.
    let mut site = recorded("epyc-7763-2s");
    site.host.memory.dimms = modules(2);
    let all = Value::from("all");
    let read = likely(&site, "read", MEMORY, &all);
    let over = |op| likely(&site, op, MEMORY, &all) / read;
    assert!((0.6..0.7).contains(&over("copy")), "{}", over("copy"));
    assert!((0.68..0.78).contains(&over("triad")), "{}", over("triad"));
}

#[test]
fn the_first_cache_is_instructions_times_bytes_times_clock() {
    let site = client(Core::SkylakeClient);
    let per_cycle = |op, width| {
        let transfer = Transfer { width, ..Transfer::widest(op, STORES[0]) };
        bytes_per_cycle(&site, transfer, &[0]).expect("the design is known")
    };
    assert_eq!(per_cycle("read", "vector"), 64.0);
    assert_eq!(per_cycle("write", "vector"), 32.0);
    assert_eq!(per_cycle("copy", "avx2"), 64.0);
    assert_eq!(per_cycle("triad", "avx2"), 96.0);
    assert_eq!(per_cycle("read", "4"), 8.0);
    let transfer = Transfer::widest("read", STORES[0]);
    let bound = instructions_bound(&site, transfer, &Value::from(1)).expect("the design is known");
    assert_eq!((bound.constant, bound.warns_only), (64.0, false));
    assert_eq!(bound.inputs, [("cores_hz".to_owned(), 1)]);
    assert!(bytes_per_cycle(&client(Core::Unknown), transfer, &[0]).is_none());
    // Cores of two designs have no one number.
    let hybrid = recorded("alder-lake-hybrid");
    let cpus = hybrid.cpus.clone();
    assert!(bytes_per_cycle(&hybrid, transfer, &cpus).is_none());
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
    let (peak, from) = stated_peak(&site).expect("the table tells");
    assert_eq!(peak, 2.0 * 2666e6 * 8.0);
    assert!(from.contains("2 channels"), "{from}");
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
    let transfer = Transfer::widest("read", STORES[0]);
    let one = Value::from(1);
    let prior = bandwidth(&site, None, transfer, MEMORY, &one).unwrap().range;
    let mut known = Known::default();
    let clock = Key::new("clock.rate", &CaseId::new(), "core_frequency");
    known.insert(clock, 3.6e9);
    let level = CaseId::new().with("level", MEMORY);
    let at = |ns: f64| {
        let mut known = known.clone();
        known.insert(Key::new("memory.latency", &level, "level_latency"), ns);
        let told = bandwidth(&site, Some(&known), transfer, MEMORY, &one).unwrap();
        assert!(told.because().contains("measured by memory.latency"));
        told.range
    };
    let (near, far) = (at(80.0), at(160.0));
    assert!(near.likely > 1.5 * far.likely);
    assert!(near.high / near.low < prior.high / prior.low);
}

#[test]
fn threads_of_one_core_are_its_siblings() {
    let site = recorded("epyc-7763-2s");
    let cpus = cpus_of(&site, &Value::from("smt"));
    assert_eq!(cpus.len(), 2);
    let cpu = site.host.cpu.cpu(cpus[0]).expect("it is there");
    assert_eq!(cpu.smt_siblings, cpus);
    assert!(cpus_of(&recorded("graviton3"), &Value::from("smt")).is_empty());
    assert_eq!(cpus_of(&site, &Value::from(3)).len(), 3);
}

#[test]
fn the_mean_lies_between_its_kernels() {
    let site = recorded("epyc-7763-2s");
    let one = Value::from(1);
    let mean = stream_mean(&site, None, STORES[0], MEMORY, &one).unwrap();
    let rates = ["copy", "triad"].map(|op| likely(&site, op, MEMORY, &one));
    assert!(rates[0] < mean.range.likely && mean.range.likely < rates[1]);
    assert!(copy_over_read(MEMORY).range.high <= 2.0);
}
