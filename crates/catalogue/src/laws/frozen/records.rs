//! What stored records say stays what it was: the flat result and its table of values, laws and
//! derived values from the figures of a real run, and findings. `UPDATE_FROZEN=1` writes them anew;
//! `findings` alone is in a file of its own.

use super::{Lines, Listing, Views, by_about, file, find, frozen, hold, text, updates};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{DirFacts, Peer, Preset, Site};
use flate2::read::GzDecoder;
use host::Host;
use record::case::Case;
use record::codec::read;
use record::run::Run;
use serde_json::Value;
use session::derive::{Measured, known};
use stats::rounds::values;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::rc::Rc;

/// The records in `tests/records`: what each is for is in its README.
const RECORDS: [&str; 6] = ["standard", "two-ended", "nfs", "noise", "resumed", "crosscheck"];

/// Parts of the flat result that are sentences, or are copied from the header.
const NOT_FROZEN: [&str; 10] = [
    "because",
    "notes",
    "reason",
    "needed",
    "findings",
    "host",
    "environment",
    "peers",
    "plumb",
    "rows",
];

/// A text of more words is a sentence.
const WORDS: usize = 3;

fn stored(name: &str) -> Run {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/records");
    let packed = File::open(records.join(format!("{name}.jsonl.gz"))).unwrap();
    let recording = read(BufReader::new(GzDecoder::new(packed))).unwrap();
    assert!(!recording.torn, "{name}");
    recording.run
}

/// Every number and symbol below a value, by its path.
fn leaves(listing: &mut Listing, path: &str, value: &Value) {
    match value {
        Value::Number(number) => listing.line(path, &[number.as_f64().unwrap()]),
        Value::String(text) if text.split_whitespace().count() <= WORDS => {
            listing.line(&format!("{path}\t{text}"), &[]);
        }
        Value::Bool(is) => listing.line(&format!("{path}\t{is}"), &[]),
        Value::Array(all) => {
            for (at, one) in all.iter().enumerate() {
                let key = ["experiment", "case", "metric"].map(|key| &one[key]);
                let name = match key.iter().all(|part| part.is_null()) {
                    true => at.to_string(),
                    false => key.map(ToString::to_string).join(" "),
                };
                leaves(listing, &format!("{path}/{name}"), one);
            }
        }
        Value::Object(all) => {
            let kept = all.iter().filter(|(key, _)| !NOT_FROZEN.contains(&key.as_str()));
            for (key, one) in kept {
                leaves(listing, &format!("{path}/{key}"), one);
            }
        }
        Value::String(_) | Value::Null => {}
    }
}

/// Cells of the table of values, by the row's key and the column.
fn cells(listing: &mut Listing, table: &str) {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let columns = reader.headers().unwrap().clone();
    for row in reader.records().map(Result::unwrap) {
        let key: Vec<&str> = row.iter().take(4).collect();
        for (column, cell) in columns.iter().zip(&row) {
            let about = format!("csv {}/{column}", key.join(" "));
            match cell.parse() {
                Ok(number) => listing.line(&about, &[number]),
                Err(_) if cell.split_whitespace().count() > WORDS => {}
                Err(_) => listing.line(&format!("{about}\t{cell}"), &[]),
            }
        }
    }
}

/// The site of a stored run.
fn site(run: &Run) -> Site {
    let host = |of: &Value| serde_json::from_value::<Host>(of.clone()).unwrap();
    let header = &run.header;
    let peers = header.peers.iter().map(|peer| Peer {
        name: peer.name.clone(),
        address: peer.address.parse().unwrap(),
        host: host(&peer.host),
        cpus: peer.cpus.clone(),
        interface: None,
    });
    let dir = DirFacts {
        path: "/".into(),
        file_system: "ext4".into(),
        allowance_bytes: 2 << 30,
        portions: Vec::new(),
    };
    let peers = peers.collect();
    Site {
        host: host(&header.host),
        peers,
        dir: Some(dir),
        cpus: header.cpus.clone(),
        ..bare_site()
    }
}

/// What the laws of today say of the figures of then.
fn laws(listing: &mut Listing, run: &Run) {
    let (site, plan) = (site(run), run.plan.as_ref().unwrap());
    let measured: Vec<Measured> = plan
        .experiments
        .iter()
        .flat_map(|planned| planned.series.iter().map(|series| (&planned.id, &series.name)))
        .map(|(id, name)| {
            let label = if name.is_empty() { id.clone() } else { format!("{id}/{name}") };
            (find(id).unwrap(), Rc::new(values(run, id, &label)))
        })
        .collect();
    let known = known(run, &site, &measured);
    let mut before = Views::new(&site, None);
    let mut after = Views::new(&site, Some(&known));
    for event in &run.predictions {
        let experiment = find(&event.experiment).unwrap();
        let metric = experiment.card().metrics.iter().find(|metric| metric.name == event.metric);
        // A metric that went is shown as it was recorded, and predicted no more.
        let Some(metric) = metric else { continue };
        let case = Case { id: event.case.clone(), at: event.at.clone() };
        let about = format!("{}\t{}\t{}", event.experiment, event.case, event.metric);
        for (kind, views) in [("prior", &mut before), ("from figures", &mut after)] {
            let prediction = views.predict(experiment, &case, metric);
            listing.prediction(kind, &about, prediction.as_ref());
        }
    }
    for planned in &plan.experiments {
        for value in find(&planned.id).unwrap().derive(&site, &known, &known) {
            let about = format!("derived\t{}\t{}\t{}", planned.id, value.case, value.metric);
            listing.line(&about, &[value.value]);
        }
    }
}

#[test]
fn what_stored_records_say_is_frozen() {
    for name in RECORDS {
        let run = stored(name);
        let mut listing = Listing { preset: Preset::Standard, lines: Lines::new() };
        let flat: Value = serde_json::from_str(&report::json::render(&run)).unwrap();
        leaves(&mut listing, "", &flat);
        cells(&mut listing, &report::csv::render(&run));
        if run.plan.is_some() {
            laws(&mut listing, &run);
        }
        let (path, mut is) = (file(&format!("record-{name}")), text(&listing.lines));
        // Formats grow: what is new is held from the next update on.
        if !updates() {
            let was = by_about(&frozen(&path));
            assert!(was.len() > 50, "{name}");
            let about = |line: &str| line.split_once("\t|").unwrap().0.to_owned();
            let lines = is.split_inclusive('\n');
            is = lines.filter(|line| was.contains_key(&about(line))).collect();
        }
        hold(&path, &is);
    }
}

/// How much each matters, what it is about, and the figures in it.
#[test]
fn findings_of_stored_records_are_frozen() {
    let mut listing = Listing { preset: Preset::Standard, lines: Lines::new() };
    for name in RECORDS {
        let run = stored(name);
        for (at, found) in
            analysis::findings::findings(&run, &analysis::figures(&run)).iter().enumerate()
        {
            let words = found.text.split(|of: char| !of.is_ascii_digit() && of != '.');
            let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
            let kind = found.severity.text();
            listing.line(&format!("{name}\t{at:02}\t{kind}\t{}", found.about), &numbers);
        }
    }
    hold(&file("findings").with_extension(""), &text(&listing.lines));
}
