//! Sheets as text (docs/SHEETS.md): sections of machines with rows of their descriptions
//! ([`super::rows`]), and tables of figures, a line a case and a column a machine.

use super::rows::{Stated, parsed, put, rows, split};
use super::{Datum, Report, Sheet};
use host::{Host, Identity, Root};
use record::key::{CaseId, Value as Param};
use serde::Deserialize;
use serde_json::{Map, Value, json, to_value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Version of the format.
const FORMAT: u32 = 2;

/// What the first line says, before the version.
const TITLE: &str = "plumb sheet ";

/// The machine of which nothing is known: sheets state what differs.
static PLAIN: LazyLock<Value> = LazyLock::new(|| {
    let mut host = Host::read(&Root::tree(""));
    host.identity = Identity::default();
    host.limits.memory_place_refused = None;
    host.to_json().unwrap_or_default()
});

/// Why a sheet is not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    pub(super) line: usize,
    pub(super) why: String,
}

fn refused(line: usize) -> impl Fn(String) -> Refused {
    move |why| Refused { line, why }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Beside {
    /// A text by the name `text`, in which the others stand for their names in braces.
    source: BTreeMap<String, String>,
    cpus: Vec<usize>,
    report: Option<Report>,
}
const BESIDE: [&str; 3] = ["source", "cpus", "report"];

type Reader<T> = fn(&[u8]) -> serde_json::Result<T>;

impl Beside {
    fn from_json(json: &[u8]) -> serde_json::Result<Beside> {
        serde_json::from_slice(json)
    }

    fn source(&self) -> String {
        let text = self.source.get("text").cloned().unwrap_or_default();
        let parts = self.source.iter();
        parts.fold(text, |text, (name, part)| text.replace(&format!("{{{name}}}"), part))
    }
}

pub(super) struct Section<'text> {
    /// Empty where the text describes one machine only.
    pub(super) name: &'text str,
    line: usize,
    rows: BTreeMap<&'text str, (usize, &'text str)>,
    pub(super) figures: Vec<(usize, Datum)>,
}

/// A table's first line: what its figures have in common.
struct Head<'text> {
    params: Vec<&'text str>,
    members: Map<String, Value>,
}

/// The sections of a text, or of several texts one after another. One without figures is no machine,
/// but what others begin with. Errors: the line that cannot be read.
pub(super) fn sections(text: &str) -> Result<Vec<Section<'_>>, Refused> {
    let (mut sections, mut columns, mut head) = (Vec::new(), Vec::new(), None);
    for (nth, row) in text.lines().enumerate() {
        let refuse = refused(nth + 1);
        if nth == 0 || row.starts_with(TITLE) {
            version(row).map_err(refuse)?;
            (columns, head) = (Vec::new(), None);
        } else if let Some(names) = row.strip_prefix('[').and_then(|row| row.strip_suffix(']')) {
            (columns, head) = (named(names, nth + 1, &mut sections).map_err(refuse)?, None);
        } else if let Some(row) = row.strip_prefix("= ") {
            head = Some(headed(row).map_err(refuse)?);
        } else if !row.is_empty() && !row.starts_with('#') {
            if columns.is_empty() {
                columns = named("", nth + 1, &mut sections).map_err(&refuse)?;
            }
            let Some(head) = &head else {
                let (path, _) = parsed(row).map_err(refuse)?;
                for column in &columns {
                    sections[*column].rows.insert(path, (nth + 1, row));
                }
                continue;
            };
            for (column, figure) in figures(row, head, columns.len()).map_err(refuse)? {
                sections[columns[column]].figures.push((nth + 1, figure));
            }
        }
    }
    Ok(sections)
}

/// Errors: a text is of another version, or no sheet.
fn version(title: &str) -> Result<(), String> {
    let found = title.strip_prefix(TITLE).and_then(|version| version.trim().parse::<u32>().ok());
    match found {
        Some(FORMAT) => Ok(()),
        Some(newer) if newer > FORMAT => Err(format!(
            "a sheet of format {newer}; this plumb reads format {FORMAT}: use a newer plumb"
        )),
        None if !title.starts_with('{') => {
            Err(format!("no sheet: the first line of one is `{TITLE}{FORMAT}`"))
        }
        _ => Err(format!(
            "a sheet of an earlier format; this plumb reads format {FORMAT}: export the run again \
             with `plumb runs export RUN --sheet`, or import the machine again"
        )),
    }
}

/// The sections that a line names: a new one, `NEW: OTHERS` for one that begins with others' rows, or
/// several that are there.
fn named<'text>(
    names: &'text str,
    line: usize,
    sections: &mut Vec<Section<'text>>,
) -> Result<Vec<usize>, String> {
    let find = |sections: &[Section], name: &str| {
        let found = sections.iter().position(|one| one.name == name);
        found.ok_or_else(|| format!("no machine before this line is called `{name}`"))
    };
    if names.contains(' ') && !names.contains(": ") {
        return names.split(' ').map(|name| find(sections, name)).collect();
    }
    let (name, others) = names.split_once(": ").unwrap_or((names, ""));
    if find(sections, name).is_ok() {
        return Err(format!("a machine before this line is called `{name}`"));
    }
    let mut rows = BTreeMap::new();
    for other in others.split_whitespace() {
        rows.extend(sections[find(sections, other)?].rows.clone());
    }
    sections.push(Section { name, line, rows, figures: Vec::new() });
    Ok(vec![sections.len() - 1])
}

/// `EXPERIMENT METRIC UNIT PARAMETER …`, and other members of the figures as JSON.
fn headed(row: &str) -> Result<Head<'_>, String> {
    let mut words: Vec<&str> = split(row, ' ').collect();
    let mut members = members(&mut words)?;
    let [experiment, metric, unit, ref params @ ..] = words[..] else {
        return Err("a table begins with `= EXPERIMENT METRIC UNIT PARAMETER …`".to_owned());
    };
    for (name, word) in [("experiment", experiment), ("metric", metric), ("unit", unit)] {
        members.insert(name.to_owned(), word.into());
    }
    members.insert("case".to_owned(), json!({}));
    Ok(Head { params: params.to_vec(), members })
}

/// The object at a line's end, which is taken away.
fn members(words: &mut Vec<&str>) -> Result<Map<String, Value>, String> {
    let json = words.pop_if(|last| last.starts_with('{')).unwrap_or("{}");
    serde_json::from_slice(json.as_bytes()).map_err(|why| why.to_string())
}

/// Members of two objects; their objects have the members of both.
fn merged(mut all: Map<String, Value>, others: Map<String, Value>) -> Map<String, Value> {
    for (name, other) in others {
        let other = match (all.remove(&name), other) {
            (Some(Value::Object(some)), Value::Object(others)) => merged(some, others).into(),
            (_, other) => other,
        };
        all.insert(name, other);
    }
    all
}

/// The figures of a table's line, each with its column: the case's values, a value for each machine
/// (`-` for none), and other members as JSON. A fact that differs between machines is an array.
fn figures(row: &str, head: &Head, columns: usize) -> Result<Vec<(usize, Datum)>, String> {
    let mut words: Vec<&str> = split(row, ' ').collect();
    let members = merged(head.members.clone(), members(&mut words)?);
    let (params, found) = (head.params.len(), words.len());
    if found != params + columns {
        return Err(format!("{found} words in place of {params} parameters and {columns} values"));
    }
    let param = |word: &str| word.parse().map_or_else(|_| word.into(), Param::Int);
    let case = head.params.iter().zip(&words);
    let case = CaseId(case.map(|(name, word)| ((*name).to_owned(), param(word))).collect());
    let measured = words[params..].iter().enumerate().filter(|(_, value)| **value != "-");
    let figure = |(column, value): (usize, &&str)| {
        let mut members = members.clone();
        let value: Value = serde_json::from_slice(value.as_bytes())
            .map_err(|_| format!("`{value}` is no value"))?;
        members.insert("value".to_owned(), value);
        if let Some(Value::Object(facts)) = members.get_mut("at") {
            facts.retain(|_, fact| {
                if let Value::Array(each) = fact {
                    *fact = each.get(column).cloned().unwrap_or_default();
                }
                !fact.is_null()
            });
        }
        let figure: Datum = serde_json::from_slice(Value::from(members).to_string().as_bytes())
            .map_err(|why| why.to_string())?;
        Ok((column, Datum { case: case.clone(), ..figure }))
    };
    measured.map(figure).collect()
}

impl Section<'_> {
    pub(super) fn is_machine(&self) -> bool {
        !self.figures.is_empty() || self.name.is_empty()
    }

    /// A machine, and what its rows state. Errors: a row that has no place.
    fn stated(&self, mut value: Value) -> Result<Value, Refused> {
        // The items of an array are there before what is the same of all of them.
        for is_of_items in [true, false] {
            for (line, row) in self.rows.values() {
                let (path, stated) = parsed(row).map_err(refused(*line))?;
                let is_left_out = matches!(stated, Stated::Same(Value::Null));
                if !is_left_out && matches!(stated, Stated::Items(_)) == is_of_items {
                    put(&mut value, path, stated).map_err(refused(*line))?;
                }
            }
        }
        Ok(value)
    }

    /// A part of what is stated. Errors: what is missing or of another kind.
    fn part<T>(&self, value: &Value, read: Reader<T>) -> Result<T, Refused> {
        let json = format!("{value:#}");
        read(json.as_bytes()).map_err(|why| {
            let (path, why) = (path_in(&json, why.line()), why.to_string());
            let why = why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why);
            let begin = path.trim_end_matches("[]");
            let is_meant = |row: &str| row.starts_with(begin) || begin.starts_with(row);
            let mut rows = self.rows.iter().filter(|(row, _)| is_meant(row));
            let line = rows.next().filter(|_| !path.is_empty()).map_or(self.line, |(_, row)| row.0);
            refused(line)(format!("{path}: {why}"))
        })
    }

    /// Where the figures come from. Errors: it is no text.
    pub(super) fn source(&self) -> Result<String, Refused> {
        Ok(self.part(&self.stated(json!({}))?, Beside::from_json)?.source())
    }

    /// The machine with its figures. Errors: what is missing or impossible, with its line.
    pub(super) fn sheet(self) -> Result<Sheet, Refused> {
        let value = self.stated(PLAIN.clone())?;
        let beside = self.part(&value, Beside::from_json)?;
        let host = self.part(&value, Host::from_json)?;
        self.check_known(&host)?;
        let source = beside.source();
        let cpus_line = self.rows.get("cpus").map_or(self.line, |(line, _)| *line);
        let (lines, figures): (Vec<usize>, Vec<Datum>) = self.figures.into_iter().unzip();
        let sheet = Sheet { source, cpus: beside.cpus, host, figures, report: beside.report };
        sheet.checked().map_err(|(nth, why)| refused(nth.map_or(cpus_line, |nth| lines[nth]))(why))
    }

    /// Errors: a row states a member that no machine has.
    fn check_known(&self, host: &Host) -> Result<(), Refused> {
        let written = rows(&host.to_json().unwrap_or_default(), &PLAIN);
        let known = |path: &str| {
            let mut rows = written.iter().filter_map(|row| row.strip_prefix(path));
            rows.any(|rest| rest.starts_with([':', ' ', '/']))
        };
        for (path, (line, row)) in &self.rows {
            let is_beside = BESIDE.contains(&path.split('/').next().unwrap_or_default());
            let is_plain = PLAIN.pointer(&format!("/{path}")).is_some() || row.ends_with("null");
            if !is_beside && !is_plain && !known(path) {
                let why = format!(
                    "no machine has a member {path}, or the row states no value for the path"
                );
                return Err(refused(*line)(why));
            }
        }
        Ok(())
    }
}

fn path_in(json: &str, line: usize) -> String {
    let (mut path, mut depth) = (String::new(), usize::MAX);
    let rows: Vec<&str> = json.lines().take(line).collect();
    for row in rows.into_iter().rev() {
        let member = row.trim_start();
        let indent = row.len() - member.len();
        if member.starts_with(['}', ']']) && depth == usize::MAX {
            // What is missing in an object is found at its end.
            depth = indent + 1;
        } else if (1..depth).contains(&indent) {
            depth = indent;
            let named = member.strip_prefix('"').and_then(|rest| rest.split_once("\": "));
            path = match named {
                Some((name, _)) if path.is_empty() || path.starts_with('[') => {
                    name.to_owned() + &path
                }
                Some((name, _)) => format!("{name}/{path}"),
                None if path.is_empty() => "[]".to_owned(),
                None => format!("[]/{path}"),
            };
        }
    }
    path
}

/// The text of a machine's sheet. Errors: it has what JSON has not.
pub(super) fn text(sheet: &Sheet) -> serde_json::Result<String> {
    let Sheet { source, cpus, host, figures, report } = sheet;
    let source = json!({ "source": { "text": source } });
    let beside = json!({ "cpus": to_value(cpus)?, "report": to_value(report)? });
    let mut lines = vec![format!("{TITLE}{FORMAT}")];
    lines.extend([source, beside].iter().flat_map(|member| rows(member, &Value::Null)));
    lines.extend(rows(&host.to_json()?, &PLAIN));
    let mut last = String::new();
    for figure in figures {
        let Datum { experiment, case, metric, unit, value, .. } = figure;
        let params: String = case.0.iter().map(|(name, _)| format!(" {name}")).collect();
        let head = format!("= {experiment} {metric} {unit}{params}");
        if head != last {
            lines.push(head.clone());
            last = head;
        }
        let mut members = to_value(figure)?;
        if let Value::Object(members) = &mut members {
            members.retain(|name, _| {
                !["experiment", "case", "metric", "unit", "value"].contains(&&**name)
            });
        }
        let params: String = case.0.iter().map(|(_, param)| format!("{param} ")).collect();
        let members = Some(format!(" {members}")).filter(|members| members != " {}");
        lines.push(format!("{params}{value}{}", members.unwrap_or_default()));
    }
    Ok(lines.join("\n") + "\n")
}
