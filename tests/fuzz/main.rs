//! Whatever plumb reads, mutated: records, frames of workers, outputs of other tools, the files of a
//! machine; and what becomes of a record: figures, documents, every format, comparisons. None may
//! panic, hang, or take much memory. `scripts/test` runs each for some seconds, scripts/fuzz each for
//! a number of inputs with the edges counted that they reach. (What others say to an agent: the
//! targets of crates/session and crates/exp-net.)
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod corpus;
mod mutate;

use analysis::compare::{Measured, compare};
use analysis::figures;
use analysis::history::History;
use bench::experiment::Preset;
use bench::link::frame::{receive, send};
use bench::link::{FromWorker, ToWorker};
use crosscheck::{Conditions, Output, RIVALS};
use host::counters::Snapshot;
use host::environment::tags;
use host::{Host, Root};
use record::codec;
use record::run::Run;
use report::build::build;
use report::build::summary;
use report::terminal::Look;
use report::{compare_csv, compare_json, csv, html, json, markdown, openmetrics, terminal};
use session::fixtures::check_machine;
use session::fixtures::fuzz::{bytes, fuzz};
use std::path::PathBuf;

const LOOK: Look = Look { width: 100, colours: true };

fn read(input: &[u8]) -> Option<Run> {
    codec::read(input).ok().map(|recording| recording.run)
}

#[test]
fn records_are_read_or_refused() {
    fuzz(2000, corpus::records(), mutate::lines, |input, _| match codec::read(input) {
        Ok(recording) => {
            assert!(recording.whole_bytes <= input.len() as u64);
            assert!(recording.torn || recording.whole_bytes == input.len() as u64);
            (recording.run.rounds.len(), recording.run.samples.len(), String::new())
        }
        Err(error) => {
            let kind: String =
                error.to_string().chars().filter(char::is_ascii_alphabetic).collect();
            (0, 0, kind.chars().take(60).collect())
        }
    });
}

#[test]
fn frames_of_workers_are_messages_or_errors() {
    fuzz(3000, corpus::frames(), bytes, |input, _| {
        let mut way = Vec::new();
        let (mut to, mut from) = (input, input);
        // What is read is sent as it was read.
        while let Ok(Some(message)) = receive::<ToWorker>(&mut to) {
            send(&mut std::io::sink(), &message).unwrap();
            way.push(std::mem::discriminant(&message));
        }
        let mut answers = Vec::new();
        while let Ok(Some(message)) = receive::<FromWorker>(&mut from) {
            let mut wire = Vec::new();
            send(&mut wire, &message).unwrap();
            answers.push(std::mem::discriminant(&message));
        }
        (way, answers)
    });
}

/// The first byte says which rival the text is of.
#[test]
fn outputs_of_other_tools_have_a_value_or_a_reason() {
    let host = Host::read(&Root::tree(&corpus::trees()[0]));
    let conditions = Conditions {
        host,
        cpus: vec![0, 1],
        memory_bytes: 8 << 30,
        scratch: PathBuf::from("/tmp/scratch"),
        files: Some(PathBuf::from("/tmp/files")),
        in_memory: Some(PathBuf::from("/dev/shm/memory")),
        version: "99.99".to_owned(),
        preset: Preset::Standard,
        seconds: 1.0,
        ports: [5301, 5302, 5303, 5304],
        is_root: true,
    };
    let wanted: Vec<Vec<String>> = RIVALS
        .iter()
        .map(|rival| {
            let rows = (rival.pairings)(&conditions).into_iter().flat_map(|pairing| pairing.rows);
            let mut wanted: Vec<String> = rows.map(|row| row.what).collect();
            wanted.sort();
            wanted.dedup();
            wanted
        })
        .collect();
    fuzz(2000, corpus::outputs(), mutate::text, |input, rng| {
        let Some((of, text)) = input.split_first() else { return (0, Vec::new()) };
        let (rival, wanted) =
            (RIVALS[usize::from(*of) % RIVALS.len()], &wanted[usize::from(*of) % RIVALS.len()]);
        let text = String::from_utf8_lossy(text).into_owned();
        let output = Output { stdout: text.clone(), stderr: text.clone(), answer: text };
        let _ = (rival.version)(&output);
        // Some have hundreds of rows: a few of them, and the neighbours of the last.
        let from = rng.usize(..wanted.len().max(1));
        let read = wanted.iter().cycle().skip(from).take(4.min(wanted.len()));
        let way = read.map(|what| match rival.read(&output, what) {
            Ok(value) => {
                assert!(value.is_finite() && value >= 0.0, "{}: {what}: {value}", rival.name);
                String::new()
            }
            Err(why) => {
                assert!(!why.is_empty() && !why.contains('\n'), "{}: {why}", rival.name);
                why.chars().filter(char::is_ascii_alphabetic).take(24).collect()
            }
        });
        (*of, way.collect())
    });
}

#[test]
fn a_machine_of_damaged_files_is_planned_for_or_refused() {
    let trees = corpus::trees().into_iter().map(String::into_bytes).collect();
    fuzz(120, trees, mutate::tree, |input, rng| {
        // A standard plan takes as long as four quick ones, whose laws are the same.
        let preset = if rng.u8(..4) == 0 { Preset::Standard } else { Preset::Quick };
        let root = Root::tree(&String::from_utf8_lossy(input));
        let host = Host::read(&root);
        let (tags, cpus) = (tags(&host), host.cpu.usable());
        let snapshot = Snapshot::read(&root, &cpus);
        assert!(serde_json::to_vec(&host).is_ok());
        let (_, _) = (host::choose_cpu(&host, &snapshot), snapshot.delta(&snapshot));
        let cases = match check_machine(catalogue::FAMILIES, &root, preset) {
            Ok(cases) => cases / 16,
            Err(why) => usize::from(why.0.is_empty()),
        };
        (tags.len(), cpus.len().min(64), host.memory_ceiling_bytes().is_some(), cases)
    });
}

#[test]
fn a_record_that_is_read_is_shown_in_every_format() {
    fuzz(60, corpus::records(), mutate::lines, |input, rng| {
        let Some(run) = read(input) else { return (9, 0) };
        let format = rng.u8(..7);
        let text = match format {
            0 => terminal::render(&build(&run), LOOK),
            1 => html::render(&build(&run), html::Print::Full),
            2 => markdown::render(&build(&run)),
            3 => csv::render(&run),
            4 => {
                let text = json::render(&run);
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
                text
            }
            5 => openmetrics::render(&run),
            _ => terminal::screen(&summary::screen(&run), &["plumb"], LOOK),
        };
        assert!(!text.is_empty());
        (format, text.len() / 4096)
    });
}

#[test]
fn records_that_are_read_are_compared_in_every_format() {
    let base = corpus::records();
    let base: Vec<Run> = base.iter().filter_map(|record| read(record)).collect();
    fuzz(60, corpus::records(), mutate::lines, |input, rng| {
        let Some(run) = read(input) else { return (9, 0) };
        let other = &base[rng.usize(..base.len())];
        let pair = if rng.bool() { [&run, other] } else { [other, &run] };
        let measured = pair.map(|run| Measured { run, figures: figures(run) });
        let Some(comparison) = compare(&measured, &History::default()) else { return (8, 0) };
        let document = || report::build::compare::build(&comparison, true);
        let format = rng.u8(..5);
        let text = match format {
            0 => terminal::render(&document(), LOOK),
            1 => html::render(&document(), html::Print::Full),
            2 => markdown::render(&document()),
            3 => compare_csv::render(&comparison),
            _ => compare_json::render(&comparison),
        };
        (format, text.len() / 4096)
    });
}
