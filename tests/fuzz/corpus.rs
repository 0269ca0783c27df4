//! What is genuine, and mutated.

use bench::link::frame::send;
use bench::link::{CalibrateOrder, Done, Endpoint, FromWorker, ToWorker};
use crosscheck::RIVALS;
use record::codec;
use record::event::Event;
use record::seal::{Sealer, resealed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest line of a record and longest manual: what is left out is text, and would be all that is
/// mutated.
const LINE_BYTES: usize = 24 << 10;
const MANUAL_LETTERS: usize = 300;
/// Events of a kind of one experiment.
const EVENTS: usize = 3;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root(dir)).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Records of every kind, each with few experiments and few events.
pub fn records() -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for file in files("tests/records") {
        let mut text = String::new();
        let open = fs::File::open(&file).unwrap();
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => flate2::read::GzDecoder::new(open).read_to_string(&mut text).unwrap(),
            Some("jsonl") => { open }.read_to_string(&mut text).unwrap(),
            _ => continue,
        };
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let plan = events.iter().find(|event| event["event"] == "plan");
        let ids = plan.and_then(|plan| plan["experiments"].as_array()).into_iter().flatten();
        let ids: Vec<&str> = ids.filter_map(|planned| planned["id"].as_str()).collect();
        let few = ids.chunks(2).take(6).enumerate().map(|(at, of)| few(&events, of, at == 0));
        match few.collect::<Vec<_>>() {
            few if few.is_empty() => records.push(text.into_bytes()),
            few => records.extend(few),
        }
    }
    let (mut sample, mut sealer) = (Vec::new(), Sealer::new(record::FORMAT));
    let all = std::iter::once(Event::Header(Box::new(analysis::sample::header())));
    for event in all.chain(analysis::sample::events()) {
        codec::write(&mut sample, &mut sealer, &event).unwrap();
    }
    records.push(sample);
    records
}

/// The record of some of its experiments, with the description of its machine or without.
fn few(events: &[Value], ids: &[&str], has_host: bool) -> Vec<u8> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = String::new();
    for event in events {
        let mut event = event.clone();
        let series = event["series"].as_str().and_then(|label| label.split('/').next());
        let of = event["experiment"].as_str().or(series).map(str::to_owned);
        if of.as_deref().is_some_and(|of| !ids.contains(&of)) {
            continue;
        }
        for member in ["line", "crc"] {
            event.as_object_mut().unwrap().remove(member);
        }
        if event["event"] == "header" {
            event["format"] = json!(record::FORMAT);
        }
        if event["event"] == "header" && !has_host {
            event["host"] = json!({});
            event["peers"]
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(|peer| peer["host"] = json!({}));
        }
        if event["event"] == "plan" {
            let planned = event["experiments"].as_array_mut().unwrap();
            planned.retain(|planned| ids.contains(&planned["id"].as_str().unwrap()));
            for planned in planned {
                let manual = planned["manual"].as_str().unwrap_or_default();
                planned["manual"] = json!(manual.chars().take(MANUAL_LETTERS).collect::<String>());
                for series in planned["series"].as_array_mut().into_iter().flatten() {
                    series["cases"].as_array_mut().unwrap().truncate(6);
                }
            }
        }
        let kind = format!("{} {of:?} {}", event["event"], event["metric"]);
        let seen = count.entry(kind).or_default();
        *seen += 1;
        let line = event.to_string();
        if (of.is_none() || *seen <= EVENTS) && line.len() <= LINE_BYTES {
            lines.push_str(&(line + "\n"));
        }
    }
    resealed(&lines).into_bytes()
}

/// One of each message between a session and its workers.
pub fn frames() -> Vec<Vec<u8>> {
    fn frame(message: &impl serde::Serialize) -> Vec<u8> {
        let mut wire = Vec::new();
        send(&mut wire, message).unwrap();
        wire
    }
    let order = CalibrateOrder { cpu: 1, windows: 3, window_ns: 1_000_000 };
    let mut samples = Vec::new();
    for event in analysis::sample::events() {
        match event {
            Event::Samples(_) if samples.len() < 3 => {
                samples.push(FromWorker::Measured(codec::EventText::new(&event).unwrap()));
            }
            _ => {}
        }
    }
    let endpoint = Endpoint { addrs: vec!["127.0.0.1:9".to_owned()], token: "0".repeat(32) };
    let mut all = vec![
        frame(&ToWorker::Calibrate(order)),
        frame(&ToWorker::Drain),
        frame(&FromWorker::Listening(endpoint)),
        frame(&FromWorker::Alive(1.5)),
        frame(&FromWorker::TakesMemory(vec![analysis::sample::rung(4096)])),
        frame(&FromWorker::MayHangIn(analysis::sample::rung(4096))),
        frame(&FromWorker::Done(Done::default())),
        frame(&FromWorker::Failed(vec!["a".to_owned(), "b".to_owned()])),
        frame(&FromWorker::Calibrated(analysis::sample::header().calibration)),
    ];
    all.extend(samples.iter().map(frame));
    all.push(all.concat());
    all
}

/// Recorded outputs, each after the number of its tool.
pub fn outputs() -> Vec<Vec<u8>> {
    let mut outputs = Vec::new();
    for (of, rival) in RIVALS.iter().enumerate() {
        for file in files(&format!("crates/crosscheck/src/testdata/{}", rival.name)) {
            let mut output = vec![u8::try_from(of).unwrap()];
            output.extend(fs::read(file).unwrap());
            outputs.push(output);
        }
    }
    outputs
}

/// The files of recorded machines.
pub fn trees() -> Vec<String> {
    let dirs = files("tests/hosts").into_iter();
    dirs.filter_map(|dir| fs::read_to_string(dir.join("tree.txt")).ok()).collect()
}
