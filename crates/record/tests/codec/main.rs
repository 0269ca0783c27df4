//! The codec over arbitrary events and arbitrary bytes.

mod damage;
mod views;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::RngSeed;
use record::case::Order;
use record::codec::{ReadError, read, write};
use record::event::{
    Absence, Bound, Calibration, Derived, End, Ending, Event, FailedCase, Footer, Header,
    Histogram, Isolation, Learnt, Options, Outcome, PeerHeader, Plan, PlannedExperiment,
    PlannedSeries, Prediction, PredictionEvent, PredictionKind, Range, Raw, Repeat, Round,
    RoundStatus, Samples, Segment, Side, Synced, Trace, Unusable, Width,
};
use record::key::{CaseId, Value};
use record::key_figure::KeyFigure;
use record::metric::{Better, Kind, Metric, Over};
use record::note::Note;
use record::unit::Unit;
use std::collections::BTreeMap;
use views::view;

/// As many cases, the same ones every time.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE, (0_u32..1000).prop_map(f64::from),]
        .prop_filter("JSON has finite numbers only", |value| value.is_finite())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "\\PC{0,8}", Just("a\n\"\\\u{0}b".to_owned())]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![any::<u64>().prop_map(Value::Int), text().prop_map(Value::Text)]
}

fn case() -> impl Strategy<Value = CaseId> {
    prop::collection::vec((text(), value()), 0..3).prop_map(CaseId)
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), 0..4)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

fn by_name<T: Strategy>(of: T) -> impl Strategy<Value = BTreeMap<String, T::Value>> {
    prop::collection::btree_map(text(), of, 0..3)
}

fn calibration() -> impl Strategy<Value = Calibration> {
    let numbers = (number(), number(), numbers(), number(), number(), number());
    (numbers, text(), any::<bool>(), prop::option::of(number()), any::<u32>(), texts()).prop_map(
        |((a, b, windows_hz, c, d, e), text, flag, multiply_cycles, cpu, notes)| Calibration {
            source: text.clone(),
            counter_hz: a,
            counter_error: b,
            windows_hz,
            resolution_ns: c,
            pair_cost_ns: d,
            vdso_falls_back: flag,
            core_hz: e,
            core_source: text,
            width: multiply_cycles.map(|level| Width {
                level: Some(level).filter(|_| !flag),
                unusable: flag.then_some(Unusable::NeverAlone),
                additions_per_cycle: Some(a),
                readings: u64::from(cpu),
                at_level: 1,
                spread: b,
                alone: c,
            }),
            multiply_cycles,
            cpu: cpu as usize,
            notes,
        },
    )
}

fn peers() -> impl Strategy<Value = Vec<PeerHeader>> {
    let peer =
        (text(), by_name(text()), calibration()).prop_map(|(text, environment, calibration)| {
            PeerHeader {
                name: text.clone(),
                url: text.clone(),
                address: text.clone(),
                plumb: text.clone(),
                identity: text,
                cpus: vec![3, 2],
                host: serde_json::json!({"a": null}),
                environment,
                calibration,
            }
        });
    prop::collection::vec(peer, 0..3)
}

fn header() -> impl Strategy<Value = Event> {
    let options = (texts(), text(), number(), number(), prop::option::of(text())).prop_map(
        |(selectors, preset, budget_s, precision, word)| Options {
            set: selectors.clone(),
            peers: selectors.clone(),
            selectors,
            preset,
            budget_s,
            precision,
            cpus: word.clone(),
            key_file: word.clone(),
            dir: word,
        },
    );
    let host = prop_oneof![
        Just(serde_json::Value::Null),
        number().prop_map(|number| serde_json::json!({"b": [number, null], "a": {"c": 1}})),
    ];
    (text(), any::<u64>(), options, host, by_name(text()), peers(), calibration()).prop_map(
        |(text, seed, options, host, environment, peers, calibration)| {
            Event::Header(Box::new(Header {
                cpus: vec![1, 0],
                format: record::FORMAT,
                plumb: text.clone(),
                rustc: text.clone(),
                profile: text.clone(),
                target: text.clone(),
                target_features: text.clone(),
                build: text.clone(),
                run: text.clone(),
                started: text.clone(),
                seed,
                options,
                identity: text,
                host,
                environment,
                peers,
                // One without a source is absent.
                calibration: Some(calibration).filter(|of| !of.is_absent()).unwrap_or_default(),
            }))
        },
    )
}

fn planned() -> impl Strategy<Value = PlannedExperiment> {
    let metric = (text(), any::<bool>()).prop_map(|(name, derived)| Metric {
        doc: name.clone().into(),
        name: name.into(),
        unit: Unit::NsPerB,
        better: Better::None,
        kind: Kind::Io,
        over: if derived { Over::Greatest } else { Over::All },
        formerly: derived.then(|| "older".into()),
        derived,
    });
    let repeat = prop_oneof![
        Just(Repeat::Rounds),
        number().prop_map(|duration_s| Repeat::Once { duration_s }),
        Just(Repeat::Sweep),
    ];
    let series = (text(), prop::collection::vec(case(), 0..2), by_name(value()), number())
        .prop_map(|(name, cases, settings, round_cost_s)| PlannedSeries {
            name,
            cases,
            order: Order::Shuffled,
            settings,
            round_cost_s,
        });
    let absence =
        (text(), prop::option::of(text())).prop_map(|(reason, needed)| Absence { reason, needed });
    let views = prop::collection::vec(view(), 0..3);
    let shown = (view(), views, repeat, metric, series);
    (text(), texts(), shown, case(), prop::option::of(absence)).prop_map(
        |(id, after, (view, views, repeat, metric, series), case, skipped)| PlannedExperiment {
            title: id.clone(),
            manual: id.clone(),
            params: vec![(id.clone(), id.clone())],
            units: BTreeMap::from([(id.clone(), Unit::B)]),
            id,
            metrics: vec![metric],
            view,
            views,
            keys: vec![KeyFigure::new("line", "name", "metric", "case=1")],
            repeat,
            isolation: Isolation::Alone,
            after,
            series: vec![series],
            derived: vec![case],
            skipped,
        },
    )
}

fn plan() -> impl Strategy<Value = Event> {
    (prop::collection::vec(planned(), 0..2), texts(), any::<u32>(), number()).prop_map(
        |(experiments, stage, look, eta_s)| {
            Event::Plan(Box::new(Plan {
                experiments,
                stages: vec![stage, Vec::new()],
                looks: vec![look],
                eta_s,
            }))
        },
    )
}

fn prediction() -> impl Strategy<Value = Event> {
    let range =
        (number(), number(), number()).prop_map(|(low, likely, high)| Range { low, likely, high });
    let bound = (number(), text(), any::<i32>(), any::<bool>()).prop_map(
        |(constant, rule, exponent, warns_only)| Bound {
            side: Side::AtMost,
            constant,
            inputs: vec![(rule.clone(), exponent)],
            uncertainty: constant,
            rule,
            warns_only,
        },
    );
    (text(), case(), prop::option::of(range), prop::option::of(bound), by_name(value())).prop_map(
        |(word, case, range, bound, at)| {
            Event::Prediction(PredictionEvent {
                experiment: word.clone(),
                case,
                metric: word.clone(),
                of: PredictionKind::Derived,
                prediction: Prediction { bound, ..Prediction::new(range, word) },
                at,
            })
        },
    )
}

fn measured() -> impl Strategy<Value = Event> {
    let counts = prop::collection::vec(any::<i32>(), 0..20);
    let raw = prop_oneof![
        numbers().prop_map(|values| (Raw::Event { values }, None)),
        (counts, 0.01..100.0).prop_map(|(counts, step)| {
            let values = counts.into_iter().map(|count| f64::from(count) * step).collect();
            (Raw::Event { values }, Some(step))
        }),
        (any::<u64>(), numbers(), numbers(), any::<u32>())
            .prop_map(|(k, n, two_n, voids)| (Raw::Quartets { k, n, two_n, voids }, None)),
        (any::<u64>(), numbers()).prop_map(|(k, values)| (Raw::Batch { k, values }, None)),
    ];
    let samples =
        (text(), any::<u32>(), case(), raw, prop::option::of(number()), by_name(number()))
            .prop_map(|(word, round, case, (raw, step), core_hz, quantities)| {
                Event::Samples(Samples {
                    visit: round % 3,
                    step,
                    width: core_hz.into_iter().collect(),
                    core_hz,
                    quantities,
                    at: BTreeMap::from([(word.clone(), Value::Int(u64::MAX))]),
                    notes: vec![Note::cache(word.as_str()), word.as_str().into()].into(),
                    ..Samples::new(&word, round, case, &word, raw)
                })
            });
    let buckets = prop::collection::vec((any::<u64>(), any::<u64>()), 0..3);
    let histogram = (text(), case(), number(), buckets, any::<u64>()).prop_map(
        |(word, case, scale, buckets, above)| {
            Event::Histogram(Histogram {
                series: word.clone(),
                round: 1,
                case,
                metric: word,
                scale,
                buckets,
                above,
            })
        },
    );
    let rows = prop::collection::vec(numbers(), 0..3);
    let names = prop::collection::btree_map(text(), texts(), 0..2);
    let trace = (text(), case(), texts(), rows, names, any::<u64>()).prop_map(
        |(word, case, columns, mut rows, names, dropped)| {
            // Each row has a value for each column.
            rows.iter_mut().for_each(|row| row.resize(columns.len(), 0.5));
            Event::Trace(Trace {
                series: word.clone(),
                round: u32::MAX,
                case,
                kind: word,
                columns,
                rows,
                names,
                dropped,
            })
        },
    );
    prop_oneof![samples.boxed(), histogram.boxed(), trace.boxed()]
}

fn round() -> impl Strategy<Value = Event> {
    let status = prop_oneof![Just(RoundStatus::Ok), text().prop_map(RoundStatus::Void)];
    (text(), any::<u32>(), number(), status, by_name(number()), texts()).prop_map(
        |(series, n, seconds, status, environment, disturbed)| {
            Event::Round(Round {
                series,
                n,
                segment: n,
                at_s: seconds,
                window_ns: seconds,
                status,
                cpus: vec![0, 7],
                environment,
                others: disturbed.clone(),
                failed: disturbed
                    .iter()
                    .map(|reason| FailedCase {
                        case: CaseId::new().with("n", u64::from(n)),
                        reason: reason.clone(),
                    })
                    .collect(),
                disturbed,
            })
        },
    )
}

fn concluding() -> impl Strategy<Value = Event> {
    let ci = prop::option::of((number(), number()));
    let derived = (text(), case(), number(), ci, by_name(value()), texts()).prop_map(
        |(word, case, value, ci, at, notes)| {
            Event::Derived(Derived {
                confidence: Some(0.91),
                experiment: word.clone(),
                case,
                metric: word,
                value,
                ci,
                presence: value,
                at,
                notes,
            })
        },
    );
    let ending = prop_oneof![Just(Ending::Measured), Just(Ending::Skipped), Just(Ending::Failed)];
    let outcome = (text(), prop::option::of(case()), ending, prop::option::of(text())).prop_map(
        |(experiment, case, outcome, reason)| {
            Event::Outcome(Outcome { experiment, case, outcome, reason })
        },
    );
    let segment = (any::<u32>(), text(), by_name(text()), peers(), calibration()).prop_map(
        |(n, started, environment, peers, calibration)| {
            Event::Segment(Segment { n, started, environment, calibration, peers })
        },
    );
    let learnt = (any::<u32>(), calibration()).prop_filter_map("a width", |(segment, of)| {
        let width = of.width?;
        Some(Event::Width(Learnt { segment, width }))
    });
    let end = prop_oneof![Just(End::Complete), Just(End::Budget), Just(End::Interrupted)];
    let maybe = prop::option::of(number());
    let footer = (text(), number(), end, maybe, any::<u64>()).prop_map(
        |(finished, elapsed_s, end, maybe, session_peak_bytes)| {
            Event::Footer(Footer {
                finished,
                elapsed_s,
                end,
                counter_drift: maybe,
                eta_after_first_pass_s: maybe,
                session_cpu_s: elapsed_s,
                session_peak_bytes,
                synced: Synced { times: 3, seconds: elapsed_s },
            })
        },
    );
    prop_oneof![derived.boxed(), outcome.boxed(), segment.boxed(), learnt.boxed(), footer.boxed()]
}

fn later() -> impl Strategy<Value = Event> {
    // Boxed: a value tree of all kinds at once is larger than a debug build's stack.
    prop_oneof![
        plan().boxed(),
        prediction().boxed(),
        measured().boxed(),
        round().boxed(),
        concluding().boxed()
    ]
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        write(&mut bytes, event).expect("a finite event is written");
    }
    bytes
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn any_event_comes_back(event in prop_oneof![header().boxed(), later().boxed()]) {
        let line = written(std::slice::from_ref(&event));
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let back = record::codec::event(&line).expect("it parses");
        prop_assert_eq!(back, event);
    }

    #[test]
    fn arbitrary_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // Random bytes are no record: the one thing that may happen is an error.
        prop_assert!(read(bytes.as_slice()).is_err());
    }

    #[test]
    fn a_damaged_record_is_read_or_refused_with_its_line(
        header in header(),
        event in later(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = written(&[header, event]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        match read(bytes.as_slice()) {
            Ok(_) | Err(ReadError::NotARecord | ReadError::Newer { .. } | ReadError::Empty) => {}
            Err(ReadError::Corrupt { line, .. }) => prop_assert!((1..=3).contains(&line)),
            Err(ReadError::Io(error)) => prop_assert!(false, "{}", error),
        }
    }
}

proptest! {
    // Each case reads the record as often as it has bytes.
    #![proptest_config(cases(12))]

    #[test]
    fn a_torn_record_is_readable_up_to_its_last_whole_line(
        header in header(),
        events in prop::collection::vec(later(), 0..3),
    ) {
        let mut all = vec![header];
        all.extend(events);
        let bytes = written(&all);
        for cut in 0..=bytes.len() {
            let whole = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            match read(&bytes[..cut]) {
                Ok(recording) => {
                    prop_assert_eq!(recording.whole_bytes, whole as u64);
                    prop_assert_eq!(recording.torn, cut > whole);
                }
                Err(ReadError::Empty) => prop_assert_eq!(whole, 0),
                Err(error) => prop_assert!(false, "cut at {}: {}", cut, error),
            }
        }
    }
}

#[test]
fn an_event_that_json_cannot_hold_is_not_written() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let trace = Event::Trace(Trace {
            series: "s".to_owned(),
            round: 1,
            case: CaseId::new(),
            kind: "null".to_owned(),
            columns: vec!["at_s".to_owned()],
            rows: vec![vec![1.0, value]],
            names: BTreeMap::new(),
            dropped: 0,
        });
        let mut bytes = Vec::new();
        let error = write(&mut bytes, &trace).expect_err("it would not come back");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert!(bytes.is_empty(), "nothing is written");
    }
}

/// A mutated record of 2026-11-27 had a row without values, and its picture a state.
#[test]
fn a_trace_whose_row_lacks_a_value_is_refused() {
    let line = |row: &str| {
        format!(
            r#"{{"event":"trace","series":"s","round":1,"case":{{}},"kind":"spans","columns":["start_ns","length_ns"],"rows":[[1.0,2.0],{row}],"dropped":0}}"#
        )
    };
    assert!(record::codec::event(line("[3.0,4.0]").as_bytes()).is_ok());
    for row in ["[]", "[3.0]", "[3.0,4.0,5.0]"] {
        assert!(record::codec::event(line(row).as_bytes()).is_err(), "{row}");
    }
}
