//! The bench from outside: whole rounds of synthetic bodies. Structure only, nothing here depends
//! on how fast or quiet the machine is.

use super::clock::CLOCK_GETTIME;
use super::{Bench, FarEnd, Turns, WrongResult};
use super::{Declared, Reading, Values};
use crate::experiment::fixtures::{on_a_thread, rehearsal};
use crate::experiment::{Claim, Hazards};
use crate::link::{Done, FromWorker, RoundOrder, ToWorker, frame};
use anyhow::Context;
use record::case::{Case, Order, Series};
use record::event::{Calibration, Histogram, Raw, Samples};
use record::key::CaseId;
use std::io;
use std::sync::{Arc, Mutex};

fn order() -> RoundOrder {
    let calibration = Calibration {
        source: CLOCK_GETTIME.to_owned(),
        counter_hz: 1e9,
        resolution_ns: 1.0,
        pair_cost_ns: 10.0,
        core_hz: 3e9,
        ..Calibration::default()
    };
    let series = Series::new("cpu.synthetic", Order::Fixed, vec![case()]);
    let series = Series { name: "one".to_owned(), ..series };
    let cpu = metal::place::allowed().expect("CPUs")[0];
    RoundOrder { round: 3, case_ns: 1_000_000, ..rehearsal(series, vec![cpu], calibration) }
}

fn case() -> Case {
    Case::new(CaseId::new().with("size", 4))
}

/// Runs `work` with a bench on a thread of its own, because the bench pins it.
fn with_bench<T: Send>(work: impl FnOnce(Bench) -> T + Send) -> T {
    on_a_thread(|| work(Bench::new(order()).expect("a bench")))
}

/// What a round recorded in which a bench did `work` with its case.
fn round_of(work: impl FnOnce(&mut Bench, &Case) + Send) -> (Vec<Samples>, Vec<Histogram>, Done) {
    with_bench(|mut bench| {
        work(&mut bench, &case());
        let (samples, histograms, _, done) = bench.finish().expect("finishes");
        (samples, histograms, done)
    })
}

#[test]
fn a_rotation_takes_about_a_cycle() {
    let (samples, ..) = round_of(|bench, case| {
        // Other work shares the machine: attempts, and limits that only a wrong factor passes.
        for _ in 0..20 {
            bench
                .time(case, "step", |n| {
                    std::hint::black_box(metal::kernel::chain_rotate(n));
                })
                .expect("times");
        }
    });
    assert_eq!(samples.len(), 20);
    let mut cycles = Vec::new();
    for samples in &samples {
        assert_eq!(samples.series, "cpu.synthetic/one");
        assert_eq!((samples.round, &samples.case), (3, &case().id));
        let values = samples.raw.samples();
        assert!(!values.is_empty());
        assert_eq!(samples.quantities.get("core_hz"), samples.core_hz.as_ref());
        match samples.core_hz {
            Some(hz) => cycles.extend(values.iter().map(|ns| ns * hz / 1e9)),
            None => assert!(!samples.notes.is_empty()),
        }
    }
    let plausible = cycles.iter().any(|cycles| (0.8..1.25).contains(cycles));
    assert!(plausible || cycles.is_empty(), "{cycles:?}");
}

#[test]
fn a_body_gets_n_and_n_operations_are_done() {
    let mut total = 0;
    let samples = with_bench(|mut bench| {
        bench
            .time(&case(), "step", |n| {
                // A ladder of n: each call does exactly what it was asked for.
                assert_eq!(metal::kernel::chain_add(n), n);
                total += n;
            })
            .expect("times")
            .clone()
    });
    let Raw::Quartets { k, n, two_n, voids } = samples.raw else {
        panic!("not quartets: {:?}", samples.raw)
    };
    assert_eq!(n.len(), two_n.len());
    let kept = n.len() as f64 + samples.quantities["warmup_quartets"];
    assert!(kept >= 2.0 || voids > 0);
    // All operations are the search's and six times k for each quartet, void or not.
    assert!(total as f64 >= 6.0 * k as f64 * kept);
}

#[test]
fn a_body_that_takes_no_time_ends_with_a_note() {
    let samples =
        with_bench(|mut bench| bench.time(&case(), "nothing", |_| ()).expect("times").clone());
    let values = samples.raw.samples();
    assert!(values.iter().all(|ns| ns.abs() < 1.0), "{values:?}");
    assert!(samples.notes.texts().iter().any(|note| note.contains("limit")));
}

#[test]
fn the_first_error_of_a_body_is_told_and_nothing_is_written() {
    let (error, samples) = with_bench(|mut bench| {
        let mut calls = 0;
        let error = bench
            .time(&case(), "open", |_| {
                calls += 1;
                anyhow::bail!("no more files")
            })
            .expect_err("fails");
        assert_eq!(calls, 1);
        (error, bench.finish().expect("finishes").0)
    });
    let chain = format!("{error:#}");
    for part in ["open", "cpu.synthetic", "no more files"] {
        assert!(chain.contains(part), "{chain}");
    }
    assert!(samples.is_empty());
}

#[test]
fn events_too_many_to_hold_are_counted_beside_the_first_of_them() {
    let (samples, histograms, _) = round_of(|bench, case| {
        let mut all = stats::histogram::Histogram::default();
        (0..50_000).for_each(|value| all.record(f64::from(value)));
        let first = (0..40_000).map(f64::from).collect();
        bench.record(case, "gap", Values::counted(first, &all)).expect("records");
        let mut few = stats::histogram::Histogram::default();
        few.record(7.0);
        bench.record(case, "gap", Values::counted(vec![7.0], &few)).expect("records");
    });
    assert_eq!(samples[0].raw.samples().len(), 20_000);
    let note = "50000 events: one in 2 of the first 40000 is listed, all are in the histogram";
    assert!(samples[0].notes.iter().any(|found| found.text == note));
    let counted: u64 = histograms[0].buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 50_000);
    assert_eq!(samples[1].raw.samples(), [7.0]);
    assert_eq!(histograms.len(), 1, "all are listed");
}

#[test]
fn events_that_never_ended_are_in_the_distribution_above_all_others() {
    let (samples, histograms, _) = round_of(|bench, case| {
        bench.record(case, "all", Values::censored(vec![5.0, 7.0], 0, 1e6)).expect("records");
        let many = (0..30_000).map(f64::from).collect();
        bench.record(case, "most", Values::censored(many, 3, 1e6)).expect("records");
        // One that took as long as what is given up is one of them.
        let late = bench.record(case, "late", Values::censored(vec![1e6], 1, 1e6));
        assert!(late.is_err());
    });
    assert_eq!((samples.len(), histograms.len()), (2, 1));
    assert!(!samples[0].quantities.contains_key("censored"));
    let of = |name: &str| samples[1].quantities[name];
    assert_eq!((of("censored"), of("censored_at")), (3.0, 1e6));
    assert!(samples[1].raw.samples().len() <= 20_000);
    let counted: u64 = histograms[0].buckets.iter().map(|(_, count)| count).sum();
    assert_eq!((counted, histograms[0].above), (30_000, 3));
}

#[test]
fn events_keep_their_clock_and_many_are_thinned_beside_their_histogram() {
    let (samples, histograms, _) = round_of(|bench, case| {
        bench.record(case, "gap", vec![1.0 / 3.0, 1e9 + 1.0]).expect("records");
        let many: Vec<f64> = (0..50_000).map(f64::from).collect();
        bench.record(case, "gap", many).expect("records");
        bench.record(case, "rate", Values::batches(7, vec![2.5])).expect("records");
        bench.record(case, "gap", vec![f64::NAN]).expect_err("no number");
    });
    let few = &samples[0];
    assert_eq!(few.raw, Raw::Event { values: vec![0.333_333_333_3, 1e9 + 1.0] });
    assert_eq!(few.quantities["resolution_ns"], 1.0);
    assert_eq!(few.quantities["pair_ns"], 10.0);
    let thinned = samples[1].raw.samples();
    assert_eq!(thinned.len(), 50_000_usize.div_ceil(3));
    assert_eq!(thinned[..3], [0.0, 3.0, 6.0]);
    // Either record may have notes of what the machine did meanwhile.
    let thinning = "50000 events: one in 3 is listed, all are in the histogram";
    let thins = [0, 1].map(|at| samples[at].notes.iter().any(|note| note.starts_with(thinning)));
    assert_eq!(thins, [false, true]);
    assert_eq!(histograms.len(), 1);
    let counted: u64 = histograms[0].buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(counted + histograms[0].above, 50_000);
    let (last, _) = histograms[0].buckets.last().expect("buckets");
    let greatest = *last as f64 * histograms[0].scale;
    assert!((greatest / 49_999.0 - 1.0).abs() < 0.001, "{greatest}");
    assert_eq!(samples[2].raw.label(), "batch(7)");
    assert_eq!(samples.len(), 3);
}

#[test]
fn quartets_of_an_experiment_are_recorded_as_both_sums() {
    let (samples, ..) = round_of(|bench, case| {
        let turns = |kept: &[(f64, f64)]| Turns {
            kept: kept.to_vec(),
            readings: vec![
                Reading { width: 3.999_96, cycle_ns: 0.5 },
                Reading { width: 0.0, cycle_ns: 0.0 },
            ],
            refused: 3,
            wanted: 2,
        };
        let taken = turns(&[(300.04, 500.06), (310.0, 530.0)]);
        bench.record(case, "open", Values::quartets(10, taken)).expect("records");
        for (k, kept) in [
            (10, &[][..]),
            (0, &[(1.0, 2.0)]),
            (10, &[(1.0, f64::NAN)]),
            (10, &[(f64::INFINITY, 1.0)]),
        ] {
            let refused = bench.record(case, "open", Values::quartets(k, turns(kept)));
            assert!(refused.is_err(), "{refused:?}");
        }
    });
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].width, [4.0, 0.0]);
    assert_eq!(samples[0].core_mhz, [2000, 0]);
    assert_eq!(
        samples[0].raw,
        Raw::Quartets { k: 10, n: vec![300.0, 310.0], two_n: vec![500.1, 530.0], voids: 3 }
    );
}

#[test]
fn a_trace_is_cut_at_its_limit_and_its_rows_are_checked() {
    with_bench(|mut bench| {
        let rows = vec![vec![1.0, 2.0]; 100_005];
        let columns = ["at_ns", "gap_ns"];
        let trace = bench.trace(&case(), "gaps", &columns, rows).expect("traces");
        assert_eq!((trace.rows.len(), trace.dropped), (100_000, 5));
        bench.trace(&case(), "gaps", &columns, vec![vec![1.0]]).expect_err("a short row");
    });
}

#[test]
fn a_round_tells_what_happened_around_it() {
    let (.., done) = round_of(|bench, _| {
        bench.declare(Declared::Switches(5));
        bench.declare(Declared::Switches(2));
        bench.declare(Declared::Others { switches: 3, time_ns: 1e6 });
        bench.declare(Declared::Others { switches: 1, time_ns: 5e5 });
    });
    let environment = &done.environment;
    assert_eq!(environment["planned_switches"], 7.0);
    assert_eq!(environment["foreign_switches"], 4.0);
    assert_eq!(environment["foreign_ns"], 1.5e6);
    assert_eq!(environment["window_ns"], done.window_ns);
    assert!(done.window_ns > 0.0);
    assert_eq!(done.cpus, order().cpus);
    for name in ["involuntary_switches", "voluntary_switches", "major_faults", "minor_faults"] {
        assert!(environment[name] >= 0.0, "{name}");
    }
    for name in ["core_hz_before", "core_hz_after"] {
        if let Some(hz) = environment.get(name) {
            assert!((1e8..2e10).contains(hz), "{name} {hz}");
        }
    }
}

/// A pipe end that others can look into.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<u8>>>);

impl Wire {
    /// The messages that were sent so far.
    fn said(&self) -> Vec<FromWorker> {
        let bytes = self.0.lock().expect("not poisoned").clone();
        let mut reader = bytes.as_slice();
        let next = || frame::receive(&mut reader).expect("a frame");
        std::iter::from_fn(next).collect()
    }
}

impl io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_far_end_publishes_waits_and_reports() {
    let (reader, mut session) = io::pipe().expect("a pipe");
    frame::send(&mut session, &ToWorker::Drain).expect("sends");
    drop(session);
    let wire = Wire::default();
    let writer = wire.clone();
    let (token, done) = on_a_thread(move || {
        let mut far = FarEnd::new(order(), reader, writer).expect("a far end");
        let token = far.publish(vec!["127.0.0.1:9".to_owned()]).expect("publishes");
        far.drained().expect("drains");
        // The session is gone: no second drain.
        far.drained().expect_err("end of stream");
        (token, far.finish())
    });
    let said = wire.said();
    let [FromWorker::Listening(endpoint), ..] = &said[..] else {
        panic!("not listening: {said:?}")
    };
    assert_eq!(endpoint.addrs, ["127.0.0.1:9"]);
    assert_eq!(endpoint.token, token);
    assert_eq!(token.len(), 32);
    assert!(done.window_ns > 0.0 && !done.environment.is_empty());
}

#[test]
fn a_sign_of_life_is_sent_but_not_for_every_block() {
    let wire = Wire::default();
    let writer = wire.clone();
    with_bench(move |bench| {
        let mut bench = bench.speaking_to(writer);
        for _ in 0..100 {
            bench.declare(Declared::Alive);
        }
        bench.finish().expect("finishes");
    });
    let signs = wire.said();
    // Seconds since the round began.
    let is_sign =
        |sign: &FromWorker| matches!(sign, FromWorker::Alive(s) if (0.0..60.0).contains(s));
    assert!(signs.iter().all(is_sign), "{signs:?}");
    assert!((1..100).contains(&signs.len()), "{signs:?}");
}

#[test]
fn what_may_hang_and_who_takes_memory_is_said_before_each_visit() {
    let said = |hazards: Hazards| {
        let wire = Wire::default();
        let writer = wire.clone();
        with_bench(move |bench| {
            let mut bench = bench.speaking_to(writer);
            bench.begin(hazards);
            bench.each(&order().series, |_, _| Ok(()));
            bench.finish().expect("finishes");
        });
        wire.said()
    };
    let takes = FromWorker::TakesMemory(vec![case().id]);
    assert_eq!(said(Hazards::NONE), []);
    assert_eq!(said(Hazards::FILES), [FromWorker::MayHangIn(case().id)]);
    for memory in [Claim::OfCase, Claim::OfRound] {
        assert_eq!(said(Hazards { memory, ..Hazards::NONE }), std::slice::from_ref(&takes));
    }
}

#[test]
fn an_order_without_a_cpu_is_refused() {
    let nowhere = RoundOrder { cpus: Vec::new(), ..order() };
    assert!(Bench::new(nowhere).is_err());
}

#[test]
fn a_case_that_fails_is_measured_once_more_unless_its_result_was_wrong() {
    let series = order().series;
    let case = series.cases[0].clone();
    let run = |mut outcome: Box<dyn FnMut(u32) -> anyhow::Result<()>>| {
        let mut bench = Bench::new(order()).expect("the CPU is allowed");
        let mut attempts = 0;
        bench.each(&series, |_, one| {
            if one.id != case.id {
                return Ok(());
            }
            attempts += 1;
            outcome(attempts)
        });
        let (.., done) = bench.finish().expect("nothing is sent");
        (attempts, done.failed.len())
    };
    assert_eq!(run(Box::new(|_| Ok(()))), (1, 0));
    let second_time = |attempt| match attempt {
        1 => anyhow::bail!("something came in between"),
        _ => Ok(()),
    };
    assert_eq!(run(Box::new(second_time)), (2, 0));
    assert_eq!(run(Box::new(|_| anyhow::bail!("always"))), (2, 1));
    // Also inside what it was being done for.
    let wrong_at_first = |attempt| match attempt {
        1 => Err(WrongResult("2 + 2 = 5".to_owned())).context("adding"),
        _ => Ok(()),
    };
    assert_eq!(run(Box::new(wrong_at_first)), (1, 1));
}
