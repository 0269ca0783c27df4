//! Mutations that know what they change: events of a record, lines of a text, files of a machine.

use fastrand::Rng;
use record::seal::resealed;
use serde_json::{Map, Value, json};
use session::fixtures::fuzz::bytes;

const RECORD_BYTES_MAX: usize = 256 << 10;

fn one<'all, T>(all: &'all [T], rng: &mut Rng) -> &'all T {
    &all[rng.usize(..all.len())]
}

/// A record with some events changed, left out, doubled, moved, or of another record.
pub fn lines(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let input = one(corpus, rng);
    if rng.u8(..) < 20 {
        return bytes(std::slice::from_ref(input), rng);
    }
    let mut lines: Vec<Vec<u8>> =
        input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 << rng.usize(0..3) {
        if lines.is_empty() {
            break;
        }
        let (at, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
        match rng.u8(..20) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(other, lines[at].clone()),
            2 => lines.swap(at, other),
            3 => {
                let foreign: Vec<&[u8]> =
                    one(corpus, rng).split_inclusive(|byte| *byte == b'\n').collect();
                if !foreign.is_empty() {
                    lines.insert(at, one(&foreign, rng).to_vec());
                }
            }
            // Most of what a record says of its plan is in one line.
            _ => {
                let at = if rng.u8(..4) == 0 { at.min(1) } else { at };
                if let Ok(mut event) = serde_json::from_slice::<Value>(&lines[at]) {
                    for member in ["line", "crc"] {
                        event.as_object_mut().map(|members| members.remove(member));
                    }
                    change(&mut event, &lines[other], rng);
                    lines[at] = format!("{event}\n").into_bytes();
                }
            }
        }
    }
    let mut record = lines.concat();
    record.truncate(RECORD_BYTES_MAX);
    // Most of them as a writer would have written them: in the others lines are missing or foreign.
    match rng.u8(..4) {
        0 => record,
        _ => resealed(&String::from_utf8_lossy(&record)).into_bytes(),
    }
}

fn change(value: &mut Value, other: &[u8], rng: &mut Rng) {
    let is_deeper = rng.u8(..8) > 0;
    match value {
        Value::Object(own) if is_deeper && !own.is_empty() => {
            let name = one(&own.keys().cloned().collect::<Vec<_>>(), rng).clone();
            if rng.u8(..24) == 0 {
                own.remove(&name);
            } else if let Some(inner) = own.get_mut(&name) {
                change(inner, other, rng);
            }
        }
        Value::Array(own) if is_deeper && !own.is_empty() => {
            let at = rng.usize(..own.len());
            match rng.u8(..12) {
                0 => drop(own.remove(at)),
                1 => own.push(own[at].clone()),
                2 => own.reverse(),
                3 if own.len() < 1000 => {
                    *own = std::iter::repeat_n(own.clone(), 1 + rng.usize(..20)).flatten().collect()
                }
                _ => change(&mut own[at], other, rng),
            }
        }
        _ => *value = odd(value, other, rng),
    }
}

const TEXTS: [&str; 12] = [
    "",
    "ns",
    "cycle",
    "B/s",
    "count",
    "ratio",
    "lower",
    "none",
    "a.b",
    "a\u{1b}]0;x\u{7}<script>|\n\u{202e}",
    "NaN",
    "ok",
];

fn odd(old: &Value, other: &[u8], rng: &mut Rng) -> Value {
    if rng.u8(..16) == 0 {
        return one(
            &[
                Value::Null,
                json!([]),
                json!({}),
                json!(""),
                json!(true),
                json!([[]]),
                json!({"a": 1}),
            ],
            rng,
        )
        .clone();
    }
    match old {
        Value::Bool(is) => json!(!is),
        Value::String(text) => match rng.u8(..4) {
            0 => json!(format!("{text}x")),
            // A text of another event.
            1 => serde_json::from_slice(other)
                .ok()
                .and_then(|event| any_text(&event, rng))
                .unwrap_or(Value::Null),
            2 => json!(text.repeat(1 + rng.usize(..40))),
            _ => json!(one(&TEXTS, rng)),
        },
        Value::Number(number) if number.is_u64() || number.is_i64() => {
            let own = number.as_u64().unwrap_or_default();
            let near = [own.wrapping_add(1), own.wrapping_sub(1), own.wrapping_mul(1000), own / 2];
            let edges = [0, 1, 2, 255, 1 << 16, 1 << 31, 1 << 32, (1 << 53) + 1, 1 << 63, u64::MAX];
            json!(*one(if rng.bool() { &near[..] } else { &edges[..] }, rng))
        }
        Value::Number(number) => {
            let own = number.as_f64().unwrap_or_default();
            let edges = [
                0.0,
                -0.0,
                1e308,
                -1e308,
                5e-324,
                1e-300,
                1e17,
                own * 1e9,
                own * 1e-9,
                -own,
                own + 1e-12,
                0.999_999,
            ];
            json!(*one(&edges, rng))
        }
        Value::Null => {
            one(&[json!(0), json!(1.5), json!("x"), json!([]), Value::Object(Map::new())], rng)
                .clone()
        }
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
    }
}

fn any_text(value: &Value, rng: &mut Rng) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Array(all) if !all.is_empty() => any_text(one(all, rng), rng),
        Value::Object(all) if !all.is_empty() => {
            let at = rng.usize(..all.len());
            any_text(all.values().nth(at)?, rng)
        }
        _ => None,
    }
}

/// What stands in a text where a number was.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "nan",
    "inf",
    "1e999",
    "18446744073709551615",
    "18446744073709551616",
    "0-4294967295",
    "9999999999999",
    "",
    "0x",
    "-0",
    "1.5e-320",
    "<unknown>",
    "7326562",
];

/// A text whose numbers and lines are changed; its first byte stays.
pub fn text(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let input = one(corpus, rng);
    let Some((first, rest)) = input.split_first() else { return Vec::new() };
    let mut changed = vec![*first];
    if rng.u8(..4) == 0 {
        changed.extend(bytes(&[rest.to_vec()], rng));
        return changed;
    }
    let mut lines: Vec<Vec<u8>> =
        rest.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 << rng.usize(0..4) {
        edit(&mut lines, rng);
    }
    changed.extend(lines.concat());
    changed.truncate(RECORD_BYTES_MAX);
    changed
}

/// Changes a number or the place of a line.
fn edit(lines: &mut Vec<Vec<u8>>, rng: &mut Rng) {
    if lines.is_empty() {
        return;
    }
    let (at, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
    match rng.u8(..8) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(other, lines[at].clone()),
        2 => lines.swap(at, other),
        3 => lines[at].truncate(rng.usize(..64)),
        _ => {
            let line = String::from_utf8_lossy(&lines[at]).into_owned();
            let starts: Vec<usize> = line
                .match_indices(|letter: char| letter.is_ascii_digit())
                .map(|(at, _)| at)
                .collect();
            if !starts.is_empty() {
                let from = *one(&starts, rng);
                let digits = line[from..].find(|letter: char| !letter.is_ascii_digit());
                let to = digits.map_or(line.len(), |length| from + length);
                lines[at] =
                    format!("{}{}{}", &line[..from], one(&NUMBERS, rng), &line[to..]).into_bytes();
            }
        }
    }
}

/// A file of a machine: its header, empty for what comes before the first, and its lines.
type TreeFile = (Vec<u8>, Vec<Vec<u8>>);

fn files(tree: &[u8]) -> Vec<TreeFile> {
    let is_head =
        |line: &[u8]| [&b"== "[..], b"=* ", b"=x "].iter().any(|start| line.starts_with(start));
    let mut files: Vec<TreeFile> = vec![(Vec::new(), Vec::new())];
    for line in tree.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec) {
        match files.last_mut() {
            Some((_, lines)) if !is_head(&line) => lines.push(line),
            _ => files.push((line, Vec::new())),
        }
    }
    files
}

/// The last part of a file's path.
fn name((head, _): &TreeFile) -> &[u8] {
    head.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A machine that lacks some files, has some of another machine, has their contents in its own, or
/// has other numbers and lines there.
pub fn tree(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut own = files(one::<Vec<u8>>(corpus, rng));
    for _ in 0..1 << rng.usize(0..6) {
        let at = rng.usize(..own.len());
        let mut other = files(one::<Vec<u8>>(corpus, rng));
        match rng.u8(..10) {
            0 if own.len() > 1 => drop(own.remove(at)),
            1 => own.push(other.swap_remove(rng.usize(..other.len()))),
            2 | 3 => {
                other.retain(|file| name(file) == name(&own[at]));
                if !other.is_empty() {
                    own[at].1 = one(&other, rng).1.clone();
                }
            }
            _ => edit(&mut own[at].1, rng),
        }
    }
    own.into_iter().flat_map(|(head, lines)| [head, lines.concat()]).collect::<Vec<_>>().concat()
}
