//! The codec over arbitrary events and arbitrary bytes.

mod damage;
mod templates;

use proptest::prelude::{
    BoxedStrategy, Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq,
    prop_oneof, proptest,
};
use proptest::strategy::Union;
use proptest::test_runner::RngSeed;
use record::codec::{ReadError, read, write};
use record::event::{Event, Trace};
use record::key::CaseId;
use record::seal::Sealer;
use serde_json::Value;
use std::collections::BTreeMap;

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

/// A template with values in its places ([`templates`]).
fn filled(template: &Value) -> BoxedStrategy<Value> {
    match template {
        Value::String(word) => match word.as_str() {
            "$text" => text().prop_map(Value::from).boxed(),
            "$number" => number().prop_map(Value::from).boxed(),
            "$step" => (0.01..100.0).prop_map(Value::from).boxed(),
            "$i32" => any::<i32>().prop_map(Value::from).boxed(),
            "$u32" => any::<u32>().prop_map(Value::from).boxed(),
            "$u64" => any::<u64>().prop_map(Value::from).boxed(),
            "$bool" => any::<bool>().prop_map(Value::from).boxed(),
            _ => Just(template.clone()).boxed(),
        },
        Value::Array(all) => match all.split_first() {
            Some((Value::String(word), all)) if word == "$or" => {
                Union::new(all.iter().map(filled)).boxed()
            }
            Some((Value::String(word), all)) if word == "$each" => {
                prop::collection::vec(filled(&all[0]), 0..4).prop_map(Value::from).boxed()
            }
            _ => all.iter().map(filled).collect::<Vec<_>>().prop_map(Value::from).boxed(),
        },
        Value::Object(all) => match all.get("$name") {
            Some(of) => prop::collection::btree_map(text(), filled(of), 0..3)
                .prop_map(|all| Value::Object(all.into_iter().collect()))
                .boxed(),
            None => {
                let names: Vec<String> = all.keys().cloned().collect();
                let values: Vec<_> = all.values().map(filled).collect();
                let named = move |values: Vec<Value>| names.iter().cloned().zip(values).collect();
                values.prop_map(move |values| Value::Object(named(values))).boxed()
            }
        },
        _ => Just(template.clone()).boxed(),
    }
}

/// Any event of these templates, and the JSON that it was read from.
fn any_of(templates: Vec<Value>) -> impl Strategy<Value = (Value, Event)> {
    Union::new(templates.iter().map(filled)).prop_map(|json| {
        let event = record::codec::event(json.to_string().as_bytes()).expect("an event");
        (json, event)
    })
}

fn header() -> impl Strategy<Value = Event> {
    any_of(vec![templates::header()]).prop_map(|(_, event)| event)
}

fn later() -> impl Strategy<Value = Event> {
    any_of(templates::later()).prop_map(|(_, event)| event)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_empty),
        value => ["null", "false", "0", "[]", "\"\""].contains(&&*value.to_string()),
    }
}

/// Whether an event has every member that it was read from; what is empty may be left out.
fn is_kept(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => {
            read.iter().all(|(name, read)| match written.get(name) {
                Some(written) => is_kept(read, written),
                None => is_empty(read),
            })
        }
        (Value::Array(read), Value::Array(written)) => {
            read.len() == written.len()
                && read.iter().zip(written).all(|(read, written)| is_kept(read, written))
        }
        _ => true,
    }
}

fn written(events: &[Event]) -> Vec<u8> {
    let (mut bytes, mut sealer) = (Vec::new(), Sealer::new(record::FORMAT));
    for event in events {
        write(&mut bytes, &mut sealer, event).expect("a finite event is written");
    }
    bytes
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn any_event_comes_back(
        (json, event) in any_of([vec![templates::header()], templates::later()].concat()),
    ) {
        let again = serde_json::to_value(&event).expect("JSON");
        prop_assert!(is_kept(&json, &again), "{} {}", json, again);
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
            Ok(_)
            | Err(
                ReadError::NotARecord
                | ReadError::Newer { .. }
                | ReadError::Unreleased { .. }
                | ReadError::Empty,
            ) => {}
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
            // A line that lacks its newline alone is whole.
            let whole = if bytes.get(cut) == Some(&b'\n') { cut } else { whole };
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
        let (mut bytes, mut sealer) = (Vec::new(), Sealer::new(record::FORMAT));
        let error = write(&mut bytes, &mut sealer, &trace).expect_err("it would not come back");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert!(bytes.is_empty(), "nothing is written");
        assert_eq!(sealer, Sealer::new(record::FORMAT), "nor counted");
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
