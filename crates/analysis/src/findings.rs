//! What a reader of a run should look at, worst first: one finding for each cause.

mod beside;
mod doubtful;
mod held;
mod missed;
mod run;
mod shared;
mod slips;

use super::causes::MOVED_CPUS;
use super::figure::Figure;
use super::gather::{distinct, gathered};
use super::names::Names;
use record::event::Unusable;
use record::order::{Gather, InOrder};
use record::run::Run;
use record::shown::shown;
use serde::Serialize;
use std::collections::BTreeMap;

/// Labels that one finding lists before it only counts.
const LISTED: usize = 3;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A figure or the run is wrong or missing.
    Error,
    /// A figure may mislead.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    pub fn text(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The cause, as an identifier: `shared_core`, `disturbed`, `failed`; `unexplained` if
    /// predictions were missed and no recorded condition explains it. (docs/FORMAT.md lists them.)
    pub cause: &'static str,
    /// The subject: an experiment, or `run` for more than one.
    pub about: String,
    /// The finding.
    pub text: String,
    /// The advice, as a clause.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub advice: &'static str,
    /// The factor by which the figures miss, if they have a common one: above one, slower or
    /// faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub factor: Option<f64>,
}

impl Finding {
    fn new(severity: Severity, cause: &'static str, text: impl Into<String>) -> Finding {
        let about = "run".to_owned();
        Finding { severity, cause, about, text: text.into(), advice: "", factor: None }
    }

    fn about(self, about: &str) -> Finding {
        Finding { about: about.to_owned(), ..self }
    }

    fn so(self, advice: &'static str) -> Finding {
        Finding { advice, ..self }
    }

    pub fn is_of_run(&self) -> bool {
        self.about == "run"
    }

    pub fn sentence(&self) -> String {
        let text = self.text_with_advice();
        if self.is_of_run() { text } else { format!("{}: {text}", self.about) }
    }

    /// The sentence and its advice, without its subject.
    pub fn text_with_advice(&self) -> String {
        let text = if self.is_of_run() { capitalised(&self.text) } else { self.text.clone() };
        match self.advice {
            "" => format!("{text}."),
            advice => format!("{text}. {}.", capitalised(advice)),
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// All findings of a run, errors first, otherwise in the order of the report; of a published machine
/// what is wrong with its figures.
pub fn findings(run: &Run, figures: &[Figure]) -> Vec<Finding> {
    let named = Named::from_figures(run, figures);
    if run.header.is_published() {
        return slips::findings(figures, &named);
    }
    let mut all = run::findings(run);
    all.extend(doubtful::findings(run, figures, &named));
    all.extend(held::findings(run, figures, &named));
    all.extend(missed::findings(run, figures, &named));
    all.extend(beside::findings(run));
    // Of equals first what makes one run two: all else mixes both.
    all.order_by_key(|finding| (finding.severity, finding.cause != MOVED_CPUS));
    all
}

/// Why a core has no usable width probe, in words.
pub fn no_probe(why: Unusable) -> &'static str {
    match why {
        Unusable::ClockTooCoarse => "the clock's resolution is too coarse",
        Unusable::NeverAlone => "the core was never exclusive while the probe was calibrated",
        Unusable::NotWhole => {
            "operations per cycle are not a whole number: the core is emulated or unknown"
        }
        Unusable::OtherThanDesign => {
            "operations per cycle are not those of the processor's design: its name or plumb's \
             table is wrong"
        }
    }
}

/// What figures are called, by experiment.
struct Named<'run>(BTreeMap<&'run str, Names<'run>>);

impl<'run> Named<'run> {
    fn from_figures(run: &'run Run, figures: &'run [Figure]) -> Self {
        let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
        let of_one = |id: &str| {
            let own = figures.iter().filter(|figure| figure.experiment == id);
            own.collect::<Vec<&Figure>>()
        };
        let each = planned.map(|planned| (planned.id.as_str(), planned));
        Named(each.map(|(id, planned)| (id, Names::from_plan(planned, &of_one(id)))).gather())
    }

    /// Metric and case with the value, as the discussion names them, behind its experiment where
    /// the finding is about several.
    fn name(&self, figure: &Figure, about: &str) -> String {
        let id = figure.experiment.as_str();
        let name = self.0.get(id).map(|names| names.figure(figure));
        let name = name.filter(|name| name != id);
        let value = figure.metric.as_ref().zip(figure.value);
        let value = value.map(|(metric, value)| shown(value, figure.ci, metric.shown_unit()).value);
        let parts = [(about != id).then(|| id.to_owned()), name, value];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if text.is_empty() { "it".to_owned() } else { text }
    }

    fn listed(&self, figures: &[&Figure]) -> String {
        let about = about(figures);
        let names: Vec<String> =
            figures.iter().take(LISTED).map(|figure| self.name(figure, about)).collect();
        with_more(&names, figures.len())
    }
}

fn with_more(first: &[String], all: usize) -> String {
    match all - first.len() {
        0 => first.join("; "),
        more => format!("{}; and {more} more", first.join("; ")),
    }
}

/// The experiment of some figures; `run` where there are several.
fn about<'run>(figures: &[&'run Figure]) -> &'run str {
    match distinct(figures.iter().map(|figure| figure.experiment.as_str())).as_slice() {
        [one] => one,
        _ => "run",
    }
}

/// How many figures each experiment has of some, those with most first.
fn spread(figures: &[&Figure]) -> String {
    let mut groups = gathered(figures.iter().map(|figure| (figure.experiment.as_str(), ())));
    groups.order_by_key(|(_, own)| std::cmp::Reverse(own.len()));
    let first = groups.iter().take(LISTED + 1);
    let mut parts: Vec<String> = first.map(|(id, own)| format!("{id} {}", own.len())).collect();
    if groups.len() > parts.len() {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

/// `1 figure is` or `7 figures are`.
fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 figure {one}"),
        count => format!("{count} figures {many}"),
    }
}
