//! A JSON value as rows of text, each of which stands alone in a diff: what differs from a plain
//! value. `cpu/family = 25` states a member as JSON, `cpus: 0-191` the items of an array,
//! `cpu/cpus[]/core: 0-95*2` a member of each item of an array of objects, and
//! `cpu/cpus[]/online = true` one that is the same of all items.
//!
//! Blanks stand between items, in brackets commas. An item is JSON, a word, an array in brackets or
//! a run of numbers (`0-95`); with `*2` it is there twice. After two items `..` goes on in their
//! step up to the item that follows: `[0,96] [1,97] .. [95,191]`.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::iter::repeat_n;

/// Numbers and words that the items of a row may have: no machine has as many CPUs.
const ITEMS_MAX: usize = 1 << 16;
/// How deep arrays may lie in each other.
const DEPTH_MAX: usize = 4;
/// Items that a step describes at least.
const STEPS_MIN: usize = 4;

pub(super) enum Stated {
    /// A member, or a member that all items of an array have.
    Same(Value),
    /// The items of an array, or a member of each.
    Items(Vec<Value>),
}

pub(super) fn rows(value: &Value, plain: &Value) -> Vec<String> {
    let mut rows = Vec::new();
    write("", value, plain, &mut rows);
    rows
}

fn write(path: &str, value: &Value, plain: &Value, rows: &mut Vec<String>) {
    match value {
        _ if value == plain => {}
        Value::Object(members)
            if !members.is_empty() && !members.keys().any(|name| name.contains('/')) =>
        {
            for (name, member) in members {
                write(&below(path, name), member, &plain[name], rows);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => columns(path, items, rows),
        Value::Array(items) if !items.is_empty() => {
            rows.push(format!("{path}: {}", joined(items, " ")));
        }
        _ => rows.push(format!("{path} = {value}")),
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// A row for each member that the items of an array have. One at least says how many they are.
fn columns(path: &str, items: &[Value], rows: &mut Vec<String>) {
    let mut columns = BTreeMap::new();
    for (nth, item) in items.iter().enumerate() {
        leaves("", item, &mut |name, value| {
            let column = columns.entry(name).or_insert_with(|| vec![Value::Null; items.len()]);
            column[nth] = value.clone();
        });
    }
    let varies =
        |column: &[Value]| column.iter().any(|value| *value != column[0]) || column[0].is_array();
    let counting = columns.values().position(|column| varies(column)).unwrap_or_default();
    for (nth, (name, column)) in columns.iter().enumerate() {
        rows.push(match nth == counting || varies(column) {
            true => format!("{path}[]/{name}: {}", joined(column, " ")),
            false => format!("{path}[]/{name} = {}", column[0]),
        });
    }
}

/// The members of an item that have a value, those of its objects by their paths.
fn leaves(path: &str, value: &Value, each: &mut impl FnMut(String, &Value)) {
    match value {
        Value::Null => {}
        Value::Object(members) if members.values().any(|member| !member.is_null()) => {
            for (name, member) in members {
                leaves(&below(path, name), member, each);
            }
        }
        Value::Object(_) => each(path.to_owned(), &Value::Object(Map::new())),
        _ => each(path.to_owned(), value),
    }
}

fn joined(items: &[Value], between: &str) -> String {
    let mut runs: Vec<(&Value, usize)> = Vec::new();
    for item in items {
        match runs.last_mut() {
            Some((last, times)) if *last == item => *times += 1,
            _ => runs.push((item, 1)),
        }
    }
    let mut parts = Vec::new();
    let mut rest = &runs[..];
    while let [(first, times), ..] = rest {
        let count = in_step(rest);
        let (last, times) = (token(rest[count - 1].0), format!("*{times}"));
        let times = if times == "*1" { "" } else { &times };
        let is_next = count > 1 && first.is_u64() && step(first, rest[1].0) == Some(1);
        let (first, taken) = (token(first), if is_next || count >= STEPS_MIN { count } else { 1 });
        parts.push(match (taken, is_next) {
            (1, _) => format!("{first}{times}"),
            (_, true) => format!("{first}-{last}{times}"),
            (_, false) => {
                let second = token(rest[1].0);
                format!("{first}{times}{between}{second}{times}{between}..{between}{last}{times}")
            }
        });
        rest = &rest[taken..];
    }
    parts.join(between)
}

/// How many items follow one another in the same step and equally often.
fn in_step(runs: &[(&Value, usize)]) -> usize {
    let steps =
        runs.windows(2).map(|pair| step(pair[0].0, pair[1].0).filter(|_| pair[0].1 == pair[1].1));
    let Some(by) = steps.clone().next().flatten() else { return 1 };
    1 + steps.take_while(|step| *step == Some(by)).count()
}

/// By how much the numbers of an item are larger than those of another, if all by the same.
fn step(from: &Value, to: &Value) -> Option<i64> {
    match (from, to) {
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            let mut steps = from.iter().zip(to).map(|(from, to)| step(from, to));
            let first = steps.next()??;
            steps.all(|step| step == Some(first)).then_some(first)
        }
        _ => to.as_i64()?.checked_sub(from.as_i64()?),
    }
}

/// An item whose numbers are larger by a step. Those between two items overflow nowhere.
fn moved(item: &Value, by: i64) -> Value {
    match item {
        Value::Array(items) => items.iter().map(|item| moved(item, by)).collect(),
        _ => item.as_i64().map_or(Value::Null, |number| (number + by).into()),
    }
}

fn token(item: &Value) -> String {
    match item {
        Value::Array(items) => format!("[{}]", joined(items, ",")),
        Value::String(word) if is_word(word) => word.clone(),
        _ => item.to_string(),
    }
}

/// Whether a text needs no quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !["true", "false", "null"].contains(&text)
}

/// The path of a row and what it states. Errors: why it is no row.
pub(super) fn parsed(row: &str) -> Result<(&str, Stated), String> {
    let cut = |mark: &str| row.split_once(mark).map(|(path, rest)| (path.len(), path, rest));
    match (cut(" = "), cut(": ")) {
        (Some((at, path, json)), other) if other.is_none_or(|(other, ..)| at < other) => {
            let value =
                serde_json::from_slice(json.as_bytes()).map_err(|why| format!("{path}: {why}"))?;
            Ok((path, Stated::Same(value)))
        }
        (_, Some((_, path, text))) => {
            let all = items(text, ' ', 0).map_err(|why| format!("{path}: {why}"))?;
            Ok((path, Stated::Items(all)))
        }
        _ => Err(format!("`{row}` is no row: `PATH = JSON` and `PATH: ITEMS` are")),
    }
}

/// Puts what a row states into a value. Errors: it has no place there.
pub(super) fn put(value: &mut Value, path: &str, stated: Stated) -> Result<(), String> {
    let no_place = || format!("{path} lies in what has no members");
    let Some((array, member)) = path.split_once("[]/") else {
        *place(value, path).ok_or_else(no_place)? = match stated {
            Stated::Same(value) => value,
            Stated::Items(items) => items.into(),
        };
        return Ok(());
    };
    let array = place(value, array).ok_or_else(no_place)?;
    if array.is_null() {
        *array = Value::Array(Vec::new());
    }
    let items = array.as_array_mut().ok_or_else(no_place)?;
    let members = match stated {
        Stated::Same(value) => vec![value; items.len()],
        Stated::Items(members) => members,
    };
    if items.is_empty() {
        items.resize(members.len(), Value::Object(Map::new()));
    }
    if items.len() != members.len() {
        return Err(format!("{path} has {} items, others have {}", members.len(), items.len()));
    }
    let known = items.iter_mut().zip(members).filter(|(_, member)| !member.is_null());
    for (item, stated) in known {
        *place(item, member).ok_or_else(no_place)? = stated;
    }
    Ok(())
}

/// Where a member is, or will be; none in what has no members.
fn place<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('/').try_fold(value, |value, name| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        Some(value.as_object_mut()?.entry(name).or_insert(Value::Null))
    })
}

/// A text between separators that stand neither in quotes nor in brackets.
pub(super) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    let is_between = move |c: char| {
        let was_escaped = is_escaped;
        is_escaped = is_quoted && !was_escaped && c == '\\';
        match c {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == separator && depth == 0 && !is_quoted
    };
    text.split(is_between).filter(|part| !part.is_empty())
}

/// The items of a text. Errors: a part that is none, or too many.
fn items(text: &str, separator: char, depth: usize) -> Result<Vec<Value>, String> {
    let mut runs: Vec<(Value, usize)> = Vec::new();
    let mut parts = split(text, separator);
    while let Some(part) = parts.next() {
        match part {
            ".." => {
                let further = further(&runs, parts.next().unwrap_or_default(), depth);
                runs.extend(
                    further.ok_or("`..` stands between two items and a third in their step")?,
                );
            }
            _ => runs.extend(run(part, depth).ok_or_else(|| format!("`{part}` is no item"))?),
        }
    }
    let sizes = runs.iter().map(|(item, times)| times.saturating_mul(size(item)));
    match sizes.fold(0, usize::saturating_add) > ITEMS_MAX {
        true => Err(format!("more than {ITEMS_MAX} items")),
        false => Ok(runs.into_iter().flat_map(|(item, times)| repeat_n(item, times)).collect()),
    }
}

fn size(item: &Value) -> usize {
    item.as_array().map_or(1, |items| items.iter().map(size).sum::<usize>().max(1))
}

fn run(part: &str, depth: usize) -> Option<Vec<(Value, usize)>> {
    let repeated =
        part.rsplit_once('*').and_then(|(item, times)| Some((item, times.parse().ok()?)));
    let (item, times) = repeated.unwrap_or((part, 1));
    if let Some(inner) = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let inner = if depth < DEPTH_MAX { items(inner, ',', depth + 1).ok() } else { None };
        return inner.map(|inner| vec![(inner.into(), times)]);
    }
    let ends =
        item.split_once('-').map(|(first, last)| (first.parse::<u64>(), last.parse::<u64>()));
    if let Some((Ok(first), Ok(last))) = ends {
        let is_run = first < last && last - first < ITEMS_MAX as u64;
        return is_run.then(|| (first..=last).map(|number| (number.into(), times)).collect());
    }
    let value =
        if is_word(item) { item.into() } else { serde_json::from_slice(item.as_bytes()).ok()? };
    Some(vec![(value, times)])
}

/// What `..` stands for, with the item after it.
fn further(runs: &[(Value, usize)], end: &str, depth: usize) -> Option<Vec<(Value, usize)>> {
    let [.., (before, _), (last, times)] = runs else { return None };
    let by = step(before, last).filter(|by| *by != 0)?;
    let end = run(end, depth)?;
    let far = step(last, &end.first()?.0)?;
    let count = far
        .checked_div(by)
        .filter(|count| far % by == 0 && (1..=ITEMS_MAX as i64).contains(count))?;
    Some((1..=count).map(|nth| (moved(last, by * nth), *times)).collect())
}

#[cfg(test)]
mod tests {
    use super::{Stated, parsed, put, rows};
    use serde_json::{Value, json};

    /// What rows state, those first that say how many items there are.
    fn read(rows: &[impl AsRef<str>], mut value: Value) -> Result<Value, String> {
        for is_of_items in [true, false] {
            for row in rows {
                let (path, stated) = parsed(row.as_ref())?;
                if matches!(stated, Stated::Items(_)) == is_of_items {
                    put(&mut value, path, stated)?;
                }
            }
        }
        Ok(value)
    }

    #[test]
    fn what_is_written_is_read() {
        let cpu = |id: u64, core: u64, clock: Value| {
            json!({"id": id, "core": core, "is_on": true, "siblings": [core, core + 4],
                   "clock": {"max_hz": clock}, "kind": "Zen 4"})
        };
        let cpus: Vec<Value> = (0..8).map(|id| cpu(id, id % 4, 3_000_000_000_u64.into())).collect();
        let value = json!({
            "cpus": cpus,
            "mixed": [cpu(0, 0, Value::Null), cpu(1, 1, 5.into())],
            "one": [{"a": "x"}],
            "nodes": [{"cpus": [[0, 4], [1, 5], [2, 6], [3, 7], [4, 8]], "far": []}],
            "flags": ["abm", "3dnow", "a b", "true", "a\"*2"],
            "numbers": [0, 0, 2, 2, 4, 4, 6, 6, 9, 1, 2, 3, -4, 7.0, null],
            "empty": {}, "odd": {"I/O": 1}, "text": "x: y = z", "plain": 1, "deep": {"a": {"b": 2, "plain": 1}},
        });
        let plain = json!({"plain": 1, "deep": {"a": {"plain": 1}}});
        let written = rows(&value, &plain);
        let expected = [
            "cpus[]/clock/max_hz = 3000000000",
            "cpus[]/core: 0-3 0-3",
            "cpus[]/id: 0-7",
            "cpus[]/is_on = true",
            "cpus[]/kind = \"Zen 4\"",
            "cpus[]/siblings: [0,4] [1,5] .. [3,7] [0,4] [1,5] .. [3,7]",
            "deep/a/b = 2",
            "empty = {}",
            "flags: abm \"3dnow\" \"a b\" \"true\" \"a\\\"*2\"",
            "mixed[]/clock: {} null",
            "mixed[]/clock/max_hz: null 5",
            "mixed[]/core: 0-1",
            "mixed[]/id: 0-1",
            "mixed[]/is_on = true",
            "mixed[]/kind = \"Zen 4\"",
            "mixed[]/siblings: [0,4] [1,5]",
            "nodes[]/cpus: [[0,4],[1,5],..,[4,8]]",
            "nodes[]/far: []",
            "numbers: 0*2 2*2 .. 6*2 9 1-3 -4 7.0 null",
            "odd = {\"I/O\":1}",
            "one[]/a: x",
            "text = \"x: y = z\"",
        ];
        assert_eq!(written, expected);
        let mut value = value;
        // What has no value is left out.
        value["mixed"][0]["clock"] = json!({});
        assert_eq!(read(&written, plain), Ok(value));
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for row in [
            "",
            "cpus",
            "cpus = [",
            "cpus: 3-1",
            "cpus: 0-99999999999",
            "cpus: 0-9*9999999",
            "cpus: [0-60000]*60000",
            "cpus: [[[[[[0]]]]]]",
            "cpus: 0 .. 5",
            "cpus: 0 2 .. 5",
            "cpus: 0 2 ..",
            "cpus: 0 0 .. 5",
            "cpus: 4 2 .. 6",
            "cpus: a b .. c",
            "cpus: 0 1 .. 9223372036854775807",
            "cpus: -9223372036854775808 9223372036854775807 .. 1",
            "cpus: [0",
            "cpus: ?",
        ] {
            assert!(parsed(row).is_err(), "{row}");
        }
        for rows in [
            &["a = 1", "a/b = 2"][..],
            &["a[]/b: 1 2", "a[]/c: 1-3"],
            &["a: 1 2", "a[]/c: 1-2"],
            &["a[]/b: 1 2", "a[]/b/c = 3"],
        ] {
            assert!(read(rows, Value::Null).is_err(), "{rows:?}");
        }
    }
}
