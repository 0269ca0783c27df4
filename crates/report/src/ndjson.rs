//! Figures as JSON Lines for databases: one object a line, every member on every line, the same for
//! runs and for sweeps of a fleet (docs/TEAM.md). Values are in base units.

#[cfg(test)]
use crate::columns::Kind;
use crate::columns::{COLUMNS, Column};
use analysis::figure::Figure;
use analysis::figures;
use record::order::Gather;
use record::plain::steers;
use record::run::Run;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const FORMAT: u32 = 1;

/// The run or sweep, and the machine in it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Origin {
    /// A run of one machine, or a sweep over a fleet.
    pub source: Source,
    /// The run or sweep: the same text for every copy of its record, different for any other.
    pub id: String,
    /// Its name; two machines may have runs of the same name.
    pub name: String,
    /// When it began, in UTC.
    pub started: String,
    /// Preset: quick, standard, thorough or rehearsal.
    pub preset: String,
    /// Version of plumb that measured.
    pub plumb: String,
    /// Release, or debug, whose figures mean little; null for a sweep.
    pub profile: Option<String>,
    /// Host name.
    pub node: String,
    /// Identity of the machine, which stays over reboots; null for a sweep.
    pub machine: Option<String>,
    /// Model of the processor; null for a sweep.
    pub processor: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Instance type: of a node its label, of a run the product in its firmware table.
    pub instance_type: Option<String>,
    /// Number of the node in its sweep; of a pair the near end, which sends.
    pub rank: Option<u32>,
    /// Nodes of a sweep with the same text have the same hardware.
    pub stratum: Option<String>,
    /// The node's label rack.
    pub rack: Option<String>,
    /// All labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Host name of a pair's far end.
    pub far_node: Option<String>,
    /// Its label rack.
    pub far_rack: Option<String>,
    /// Phase of the sweep: alone, suspects, pairs, pairs isolated, bisection, incast or outcast.
    pub phase: Option<String>,
    /// Number of a pair's step, or of a suspect's repetition.
    pub step: u32,
}

/// What a figure is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A run of one machine.
    #[default]
    Run,
    /// A sweep over a fleet.
    Sweep,
}

pub fn render(run: &Run) -> String {
    let origin = origin(run);
    let line = |figure: Figure| {
        let mut value = json!(figure);
        value["params"] = figure.case.to_string().into();
        text(&origin, &value)
    };
    figures(run).into_iter().map(line).collect()
}

#[derive(Serialize)]
struct Line<'figure> {
    format: u32,
    #[serde(flatten)]
    origin: &'figure Origin,
    #[serde(flatten)]
    columns: BTreeMap<String, Value>,
}

/// A line with its end, of a figure as it is serialised, with `params`: its case as text. A space
/// stands for each character that steers what shows it: PostgreSQL's `jsonb` cannot hold all of them.
pub fn text(origin: &Origin, figure: &Value) -> String {
    let fields = columns().flat_map(|column| column.fields());
    let value = |place: &str| figure.pointer(place).cloned().unwrap_or_default();
    let columns = fields.map(|(name, place, _)| (name, value(&place))).gather();
    let line = Line { format: FORMAT, origin, columns };
    let json = serde_json::to_string(&line).expect("its keys are strings");
    let mut text = String::with_capacity(json.len() + 1);
    let mut letters = json.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                // Only control characters are written so.
                Some('u') => text.push(letters.nth(3).map_or(' ', |_| ' ')),
                Some('n' | 't' | 'r' | 'b' | 'f') => text.push(' '),
                other => text.extend([Some(letter), other].into_iter().flatten()),
            },
            letter if steers(letter) => text.push(' '),
            letter => text.push(letter),
        }
    }
    text.push('\n');
    text
}

fn columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| column.about.is_some())
}

/// The JSON Schema of a line, which a test makes from the columns (UPDATE_GOLDENS=1).
pub const SCHEMA: &str = include_str!("line.schema.json");

/// The same from the columns and the origin's type.
#[cfg(test)]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Origin).to_value();
    schema["title"] = "plumb: a figure as a line of JSON".into();
    schema["description"] =
        "A figure of a run or of a sweep's node, or a case without one and why.".into();
    let own = ("format".to_owned(), json!("integer"), "Version of this shape.".to_owned());
    let of_column = |column: &'static Column| {
        let kind = match column.kind {
            Kind::Text => json!(["string", "null"]),
            Kind::Number | Kind::Ends | Kind::Range => json!(["number", "null"]),
            Kind::Count => json!(["integer", "null"]),
            Kind::Flag => json!(["boolean", "null"]),
            Kind::Texts => json!("array"),
            Kind::Case => json!("object"),
        };
        let about = column.about.unwrap_or_default();
        let fields = column.fields().into_iter();
        fields.map(move |(name, _, end)| (name, kind.clone(), format!("{about}{end}.")))
    };
    for (name, kind, about) in std::iter::once(own).chain(columns().flat_map(of_column)) {
        schema["properties"][&name] = json!({ "type": kind, "description": about });
        let required = schema["required"].as_array_mut().expect("the origin has members");
        required.push(name.into());
    }
    schema
}

/// Length of the time that begins a run's name.
const TIME: usize = "2026-11-22T15-36-07".len();

fn origin(run: &Run) -> Origin {
    let header = &run.header;
    let host = |pointer: &str| {
        let value = header.host.pointer(pointer).and_then(Value::as_str);
        value.map(str::to_owned)
    };
    // As the record has it, so that an earlier plumb's run keeps its id.
    let identity = host("/identity/hash").unwrap_or_else(|| header.identity.clone());
    Origin {
        source: Source::Run,
        id: format!("{} {identity} {}", header.run, header.seed),
        name: header.run.clone(),
        started: header.started.clone(),
        preset: header.options.preset.clone(),
        plumb: header.plumb.clone(),
        profile: Some(header.profile.clone()),
        node: header.run.get(TIME + 1..).unwrap_or_default().to_owned(),
        machine: Some(header.identity.clone()),
        processor: host("/cpu/model_name"),
        kernel: host("/kernel/release"),
        instance_type: host("/kernel/virtualisation/product"),
        ..Origin::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, render, schema, text};
    use analysis::sample;
    use serde_json::{Value, json};

    #[test]
    fn each_line_has_every_member_and_meets_the_schema() {
        let schema = schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let members = schema["properties"].as_object().unwrap().len();
        let run = sample::run();
        let lines = render(&run);
        assert_eq!(lines.lines().count(), analysis::figures(&run).len());
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line.as_object().unwrap().len(), members);
            assert!(validator.is_valid(&line), "{line:#}");
        }
    }

    /// The page has a row for every member, with the description that the schema has.
    #[test]
    fn the_page_describes_every_member() {
        let page = include_str!("../../../docs/TEAM.md");
        for (name, member) in schema()["properties"].as_object().unwrap() {
            let about = member["description"].as_str().unwrap().replace('\n', " ");
            let row = format!("| `{name}` | {about} |");
            assert!(page.contains(&row), "docs/TEAM.md lacks {row}");
        }
    }

    #[test]
    fn texts_are_one_line_that_any_database_reads() {
        let node = "a\"\\\n\u{0}\u{202e}\\u0041b".to_owned();
        let origin = Origin { node, ..Origin::default() };
        let line = text(&origin, &json!({}));
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["node"], "a\"\\   \\u0041b");
        assert_eq!(line.lines().count(), 1);
    }
}
