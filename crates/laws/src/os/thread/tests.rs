use super::{Company, Moment, Stack, Thread, has_inputs, time};
use crate::{Facts, Law};
use bench::experiment::Known;
use bench::experiment::fixtures::sites;
use bench::pair::Class;
use record::event::Range;
use record::key::{CaseId, Key};

const MOMENTS: [Moment; 3] = [Moment::Return, Moment::First, Moment::Joined];

fn alone(pair: Class, stack: Stack) -> Thread {
    Thread { pair, stack, company: Company::Alone }
}

/// What os.syscall would have measured, with everything `factor` times as slow, at 3.6 GHz.
fn measured(factor: f64) -> Known {
    let mut known = Known::default();
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.6e9);
    for (name, ns) in [("getpid", 60.0), ("futex_wake", 80.0), ("mmap_munmap", 900.0)] {
        let id = CaseId::new().with("call", name);
        known.insert(Key::new("os.syscall", &id, "latency"), factor * ns);
    }
    known
}

fn with_switch(mut known: Known, pair: Class, ns: f64) -> Known {
    let id = CaseId::new().with("via", "pipe").with("parties", "threads").with("pair", pair.text());
    let metric = if pair == Class::Same { "switch" } else { "handover" };
    known.insert(Key::new("os.switch", &id, metric), ns);
    known
}

fn width(estimate: &Law) -> f64 {
    let Range { low, likely, high } = estimate.range;
    assert!(0.0 < low && low <= likely && likely <= high && high.is_finite(), "{estimate:?}");
    high / low
}

fn likely(facts: Facts, thread: Thread, moment: Moment) -> f64 {
    time(facts, thread, moment).range.likely
}

#[test]
fn moments_follow_each_other_everywhere() {
    let known = measured(1.0);
    for site in &sites() {
        for known in [None, Some(&known)] {
            let facts = Facts { site, known };
            for &stack in Stack::ALL {
                for pair in [Class::Same, Class::Llc, Class::Remote] {
                    let thread = alone(pair, stack);
                    for moment in MOMENTS {
                        width(&time(facts, thread, moment));
                    }
                    let [returned, first, joined] =
                        MOMENTS.map(|moment| likely(facts, thread, moment));
                    assert!(returned < first && first < joined);
                }
            }
        }
    }
}

#[test]
fn a_library_a_stack_and_company_cost() {
    let site = &sites()[0];
    let of = |thread: Thread| likely(Facts::prior(site), thread, Moment::Joined);
    let bare = of(alone(Class::Same, Stack::Bare));
    let cached = of(alone(Class::Same, Stack::Cached));
    let fresh = of(alone(Class::Same, Stack::Fresh));
    assert!(bare < cached && cached < fresh);
    let company = |company| of(Thread { company, ..alone(Class::Same, Stack::Cached) });
    assert!(cached < company(Company::Sequence));
    assert!(company(Company::Crowd(1)) < company(Company::Crowd(1024)));
    assert!(fresh < company(Company::Crowd(1024)));
    assert!(company(Company::Crowd(1024)) < company(Company::Stress(1024)));
}

#[test]
fn measured_calls_and_switches_move_and_narrow_it() {
    let site = &sites()[0];
    let thread = alone(Class::Same, Stack::Fresh);
    let prior = time(Facts::prior(site), thread, Moment::Joined);
    let known = measured(1.0);
    let derived = time(Facts { site, known: Some(&known) }, thread, Moment::Joined);
    assert!(width(&derived) < width(&prior));
    let slow = measured(10.0);
    let slowly = likely(Facts { site, known: Some(&slow) }, thread, Moment::Joined);
    assert!(slowly > derived.range.likely + 9.0 * 900.0);

    let far = alone(Class::Llc, Stack::Cached);
    let blind = time(Facts { site, known: Some(&known) }, far, Moment::First);
    let known = with_switch(known, Class::Llc, 20_000.0);
    let told = time(Facts { site, known: Some(&known) }, far, Moment::First);
    assert!(width(&told) < width(&blind));
    assert!(told.range.likely > 20_000.0, "{told:?}");
}

#[test]
fn nothing_is_derived_from_nothing() {
    assert!(!has_inputs(&Known::default()));
    assert!(!has_inputs(&with_switch(Known::default(), Class::Same, 1000.0)));
    assert!(has_inputs(&measured(1.0)));
}
