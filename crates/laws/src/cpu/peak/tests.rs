use super::units::{starts, units};
use super::{
    Arithmetic, CORES_HZ, Element, Op, Threads, Width, distinct_cores, measured_peak, peak_bound,
    peak_efficiency, peak_rate, sustained_rate, thread_cpus,
};
use crate::Facts;
use bench::experiment::Fields as _;
use bench::experiment::Known;
use bench::experiment::fixtures::sites;
use host::Core;
use record::event::Range;

#[test]
fn every_site_and_kernel_gets_an_ordered_interval() {
    for site in sites() {
        for arithmetic in Arithmetic::all().filter(|kernel| kernel.is_at(&site)) {
            for threads in [1, 2, 7, 512] {
                for estimate in [
                    peak_rate(Facts::prior(&site), arithmetic, threads),
                    peak_efficiency(&site, arithmetic, threads),
                    sustained_rate(
                        Facts::prior(&site),
                        arithmetic,
                        Threads::Number(threads as u64),
                    ),
                ] {
                    let Range { low, likely, high } = estimate.range;
                    assert!(0.0 < low && low <= likely && likely <= high, "{estimate:?}");
                }
            }
        }
    }
}

#[test]
fn units_that_a_kernel_needs_exist_in_every_row() {
    for core in Core::ALL {
        for arithmetic in Arithmetic::all() {
            let Some((range, _)) = starts(*core, arithmetic) else {
                continue;
            };
            assert!(range.low > 0.0 && range.likely <= 6.0, "{}", core.name());
        }
    }
    // The widths that a recorded machine has, its row has too.
    for site in sites() {
        if units(crate::cpu::core(&site)).is_none() {
            continue;
        }
        for arithmetic in Arithmetic::all().filter(|kernel| kernel.is_at(&site)) {
            let row = starts(crate::cpu::core(&site), arithmetic);
            assert!(row.is_some(), "{arithmetic:?}");
        }
    }
}

#[test]
fn threads_take_cores_before_siblings_and_more_than_all_gain_nothing() {
    let site = bench::experiment::fixtures::recorded("epyc-7763-2s");
    let cpus = thread_cpus(&site, 128);
    assert_eq!((cpus.len(), distinct_cores(&site, &cpus)), (128, 128));
    let all = thread_cpus(&site, 1000);
    assert_eq!((all.len(), distinct_cores(&site, &all)), (256, 128));
    let arithmetic = Arithmetic::chief(&site).unwrap();
    assert_eq!(arithmetic.width, Width::Avx2);
    let rate = |threads| peak_rate(Facts::prior(&site), arithmetic, threads).range;
    assert_eq!(rate(256), rate(512));
    assert_eq!(rate(128).likely, rate(256).likely);
    let gained = rate(64).likely / rate(32).likely;
    match site.host.limits.cpu_quota {
        Some(_) => assert!(gained <= 2.0),
        None => assert!((gained - 2.0).abs() < 1e-6, "{gained}"),
    }
    for (threads, count) in [(Threads::Twice, 512), (Threads::All, 256), (Threads::Number(3), 3)] {
        assert_eq!(threads.count(&site), count);
    }
}

#[test]
fn a_bound_is_units_by_lanes_by_operations_of_a_known_design() {
    let site = bench::experiment::fixtures::recorded("vm-granite-rapids");
    let of = |op, element, width| {
        let arithmetic = Arithmetic { op, element, width };
        let bound = peak_bound(&site, arithmetic, 1).expect("known units");
        assert_eq!(bound.inputs, [(CORES_HZ.to_owned(), 1)]);
        bound.constant
    };
    assert_eq!(of(Op::Fma, Element::F64, Width::Avx512), 32.0);
    assert_eq!(of(Op::Fma, Element::F32, Width::Avx2), 32.0);
    assert_eq!(of(Op::Add, Element::I32, Width::Sse2), 12.0);
    assert_eq!(of(Op::Add, Element::I64, Width::Scalar), 5.0);
    let bare = bench::experiment::fixtures::bare_site();
    let scalar = Arithmetic::widest(&bare, Op::Add, Element::F64).unwrap();
    assert_eq!(peak_bound(&bare, scalar, 1), None);
}

#[test]
fn the_measured_peak_replaces_the_law() {
    let site = bench::experiment::fixtures::recorded("vm-granite-rapids");
    let chief = Arithmetic::chief(&site).unwrap();
    let mut known = Known::default();
    let case = chief.by(Threads::All).id();
    known.insert(record::key::Key::new("cpu.peak", &case, "flop_rate"), 1e11);
    let facts = Facts { site: &site, known: Some(&known) };
    assert_eq!(measured_peak(facts, chief, Threads::All), Some(1e11));
    let derived = sustained_rate(facts, chief, Threads::All);
    assert!(derived.range.low < 1e11 && derived.range.high > 1e11);
    assert_eq!(derived.range.likely, 0.985e11);
}
