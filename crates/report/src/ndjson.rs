//! Figures as JSON Lines for databases: one object a line, every member on every line, the same for
//! runs and for sweeps of a fleet (docs/TEAM.md). Values are in base units.

use analysis::figure::{Figure, Judged};
use analysis::figures;
use record::event::{Ending, Range};
use record::key::CaseId;
use record::metric::{Better, Kind};
use record::plain::steers;
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of these lines.
const FORMAT: u32 = 1;

/// A figure of a run or of a sweep's node, or a case without one and why.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: a figure as a line of JSON"))]
pub struct Line {
    /// Version of this shape.
    pub format: u32,
    /// Where the figure is from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Experiment, for example memory.latency.
    pub experiment: String,
    /// Parameters of the case, as name=value joined by commas.
    pub params: String,
    /// The same as an object.
    pub case: CaseId,
    /// Name of the metric; null where a whole case or experiment is absent.
    pub metric: Option<String>,
    /// Unit of all quantities of the figure.
    pub unit: Option<Unit>,
    /// Direction of improvement.
    pub better: Option<Better>,
    /// Class of the metric.
    pub kind: Option<Kind>,
    /// How the figure ended: use the values of measured ones.
    pub outcome: Ending,
    /// Why it was skipped or failed.
    pub reason: Option<String>,
    /// The estimate: the median of round values.
    pub value: Option<f64>,
    /// Lower end of its interval.
    pub ci_low: Option<f64>,
    /// Upper end of its interval.
    pub ci_high: Option<f64>,
    /// The value in core cycles.
    pub cycles: Option<f64>,
    /// Predicted before it was measured: lower end.
    pub predicted_low: Option<f64>,
    /// The same: best guess.
    pub predicted_likely: Option<f64>,
    /// The same: upper end.
    pub predicted_high: Option<f64>,
    /// What was to be expected beside a neighbour that used the core: lower end; null if none did.
    pub beside_low: Option<f64>,
    /// The same: best guess.
    pub beside_likely: Option<f64>,
    /// The same: upper end.
    pub beside_high: Option<f64>,
    /// The value against this prediction, or against what was to be expected beside a neighbour.
    pub verdict: Option<String>,
    /// Rounds that the value uses.
    pub rounds: Option<u64>,
    /// Samples in them.
    pub samples: Option<u64>,
    /// Mean of the samples.
    pub mean: Option<f64>,
    /// Standard deviation of the samples.
    pub stddev: Option<f64>,
    /// Smallest sample.
    pub min: Option<f64>,
    /// Median of the samples.
    pub p50: Option<f64>,
    /// 99th percentile of the samples.
    pub p99: Option<f64>,
    /// Largest sample.
    pub max: Option<f64>,
    /// Caveats.
    pub notes: Vec<String>,
}

impl Line {
    /// A case that ended in some way, without a figure yet.
    pub fn new(origin: Origin, experiment: &str, case: CaseId, outcome: Ending) -> Self {
        Line {
            format: FORMAT,
            origin,
            experiment: experiment.to_owned(),
            params: case.to_string(),
            case,
            outcome,
            metric: None,
            unit: None,
            better: None,
            kind: None,
            reason: None,
            value: None,
            ci_low: None,
            ci_high: None,
            cycles: None,
            predicted_low: None,
            predicted_likely: None,
            predicted_high: None,
            beside_low: None,
            beside_likely: None,
            beside_high: None,
            verdict: None,
            rounds: None,
            samples: None,
            mean: None,
            stddev: None,
            min: None,
            p50: None,
            p99: None,
            max: None,
            notes: Vec::new(),
        }
    }
}

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

/// The figures of a run, one a line.
pub fn render(run: &Run) -> String {
    let origin = origin(run);
    figures(run).into_iter().map(|figure| text(&line(&origin, figure))).collect()
}

/// A line with its end. A space stands for each character that steers what shows it: PostgreSQL's
/// `jsonb` cannot hold all of them.
pub fn text(line: &Line) -> String {
    let json = serde_json::to_string(line).expect("its keys are strings");
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

/// The JSON Schema of a line, which a test makes from its type (UPDATE_GOLDENS=1).
pub const SCHEMA: &str = include_str!("line.schema.json");

/// The same from the type itself.
#[cfg(test)]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

/// Length of the time that begins a run's name.
const TIME: usize = "2026-11-22T15-36-07".len();

fn origin(run: &Run) -> Origin {
    let header = &run.header;
    let host = |pointer: &str| {
        let value = header.host.pointer(pointer).and_then(serde_json::Value::as_str);
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

fn line(origin: &Origin, figure: Figure) -> Line {
    let range: Option<Range> = figure.prior.as_ref().and_then(|judged| judged.prediction.range);
    let verdict = |judged: &Judged| judged.verdict.map(|verdict| verdict.text().to_owned());
    let beside = figure.prior.as_ref().and_then(|judged| judged.beside);
    let (metric, stats) = (figure.metric, figure.stats);
    let (ci_low, ci_high) = figure.ci.unzip();
    Line {
        unit: metric.as_ref().map(|metric| metric.unit),
        better: metric.as_ref().map(|metric| metric.better),
        kind: metric.as_ref().map(|metric| metric.kind),
        metric: metric.map(|metric| metric.name.into_owned()),
        reason: figure.reason,
        value: figure.value,
        ci_low,
        ci_high,
        cycles: figure.cycles,
        predicted_low: range.map(|range| range.low),
        predicted_likely: range.map(|range| range.likely),
        predicted_high: range.map(|range| range.high),
        beside_low: beside.map(|range| range.low),
        beside_likely: beside.map(|range| range.likely),
        beside_high: beside.map(|range| range.high),
        verdict: figure.prior.as_ref().and_then(verdict),
        rounds: stats.as_ref().map(|stats| stats.used as u64),
        samples: stats.as_ref().map(|stats| stats.samples),
        mean: stats.as_ref().map(|stats| stats.mean),
        stddev: stats.as_ref().and_then(|stats| stats.stddev),
        min: stats.as_ref().map(|stats| stats.min),
        p50: stats.as_ref().map(|stats| stats.p50),
        p99: stats.as_ref().map(|stats| stats.p99),
        max: stats.as_ref().map(|stats| stats.max),
        notes: figure.notes.texts(),
        ..Line::new(origin.clone(), &figure.experiment, figure.case, figure.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Origin, render, schema, text};
    use analysis::sample;
    use record::event::Ending;
    use record::key::CaseId;
    use serde_json::Value;

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
        let line = Line::new(origin, "", CaseId::new(), Ending::Skipped);
        let read: Value = serde_json::from_str(&text(&line)).unwrap();
        assert_eq!(read["node"], "a\"\\   \\u0041b");
        assert_eq!(text(&line).lines().count(), 1);
    }
}
