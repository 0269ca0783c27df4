//! What a reader of a run should look at, worst first.

mod beside;
mod held;

use super::causes;
use super::figure::Figure;
use super::gather::gathered;
use super::health::{health, seen};
use super::misses::{self, Miss};
use super::names::Names;
use super::verdict::Verdict;
use record::event::{End, Ending, PredictionKind, RoundStatus, Unusable};
use record::note::NoteKind;
use record::quantity::digits;
use record::run::Run;
use record::shown::{range, shown};
use serde::Serialize;
use std::collections::BTreeMap;

/// Drift of the counter that marks a run, as a ratio.
const DRIFT: f64 = 50e-6;

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
    /// The spelling in files and reports.
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
    /// Experiment id, series label or `run`.
    pub about: String,
    /// The finding.
    pub text: String,
}

/// All findings of a run, errors first, otherwise in the order of the report; none of a published
/// machine, of which nobody can look at anything again.
pub fn findings(run: &Run, figures: &[Figure]) -> Vec<Finding> {
    if run.header.is_published() {
        return Vec::new();
    }
    let mut all = Vec::new();
    all.extend(of_run(run));
    all.extend(of_rounds(run));
    for group in by_experiment(figures) {
        all.extend(of_group(run, &Group::of(run, group)));
    }
    all.extend(over_experiments(figures));
    all.extend(beside::findings(run));
    all.sort_by_key(|finding| finding.severity);
    all
}

fn finding(severity: Severity, about: &str, text: impl Into<String>) -> Finding {
    Finding { severity, about: about.to_owned(), text: text.into() }
}

/// A warning about the run.
fn warning(text: impl Into<String>) -> Finding {
    finding(Severity::Warning, "run", text)
}

/// Why a core has no usable width probe, in words.
pub fn no_probe(why: Unusable) -> &'static str {
    match why {
        Unusable::ClockTooCoarse => "the clock's steps are too long for it",
        Unusable::NeverAlone => "the core was never alone while the probe was calibrated",
        Unusable::NotWhole => {
            "operations per cycle are not a whole number: the core is emulated or unknown"
        }
    }
}

fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Share of the samples above the level from which on it does not hold any more.
const LEVEL_LOST: f64 = 0.01;

/// Findings from the width probe: the core has no usable one, its level drifted, or another tenant
/// used the core.
fn probe(run: &Run) -> Vec<Finding> {
    let seen = seen(run);
    let unusable = run.width(0).and_then(|width| width.unusable).map(|why| {
        warning(format!(
            "no usable width probe: {}; every figure is as found, whoever else used the core",
            no_probe(why)
        ))
    });
    let fast = seen.share(|seen| seen.fast).filter(|fast| *fast > LEVEL_LOST).map(|fast| {
        warning(format!(
            "the width probe's level drifted: {} of the samples read above it, so which of them were \
             alone is not certain",
            percent(fast)
        ))
    });
    let shared = seen.share(|seen| seen.shared).filter(|shared| *shared > SHARED_NOTED);
    let shared = shared.map(|shared| {
        let text = format!(
            "another tenant used the core beside {} of the samples (width probe); figures that could be \
             are those of the core alone",
            percent(shared)
        );
        finding(Severity::Note, "run", text)
    });
    [unusable, fast, shared].into_iter().flatten().collect()
}

/// Share of shared samples above which a neighbour is a finding.
const SHARED_NOTED: f64 = 0.05;

fn of_run(run: &Run) -> Vec<Finding> {
    let (clocks, is_crosscheck) = (&run.header.calibration, run.header.is_crosscheck());
    let plan = (run.plan.is_none() && !is_crosscheck)
        .then(|| finding(Severity::Error, "run", "it ended before its plan was written"));
    let end = match run.footer.as_ref().map(|footer| footer.end) {
        None => Some(warning(
            "it has no last line: it was killed, or still runs; figures rest on what was written",
        )),
        Some(End::Complete) => None,
        Some(End::Budget) => Some(finding(
            Severity::Note,
            "run",
            "the time budget ended rounds that the precision goal still wanted",
        )),
        Some(End::Interrupted) if is_crosscheck => {
            Some(warning("it was interrupted: what had not had its turns is missing"))
        }
        Some(End::Interrupted) => Some(warning("it was interrupted; it can be resumed")),
    };
    let drift = run.footer.as_ref().and_then(|footer| footer.counter_drift);
    let drift = drift.filter(|drift| drift.abs() > DRIFT).map(|drift| {
        let ppm = digits(drift * 1e6);
        warning(format!(
            "the counter's frequency drifted by {ppm} ppm during the run (more than 50)"
        ))
    });
    let unconfirmed = clocks.core_source == "chains" && clocks.multiply_cycles.is_none();
    let conditions = [
        (
            clocks.vdso_falls_back,
            "reading the clock makes a system call here: event times contain it",
        ),
        (
            unconfirmed,
            "the core clock could not be confirmed (multiply over rotate is no integer): figures in \
             cycles are doubtful",
        ),
        (
            run.header.profile == "debug",
            "it was made by a debug build: loops around the timed kernels are not optimised",
        ),
    ];
    let held = conditions.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| warning(text));
    let resumed = (!run.segments.is_empty()).then(|| {
        finding(Severity::Note, "run", format!("it was resumed {} times", run.segments.len()))
    });
    let first = [plan, end, drift].into_iter().flatten();
    first.chain(probe(run)).chain(held).chain(resumed).collect()
}

fn of_rounds(run: &Run) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut void: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for round in &run.rounds {
        if let RoundStatus::Void(reason) = &round.status {
            void.entry(&round.series).or_default().push(reason);
        }
    }
    for (series, mut reasons) in void {
        let uncounted = match reasons.len() {
            1 => "one round does not count".to_owned(),
            count => format!("{count} rounds do not count"),
        };
        reasons.dedup();
        let text = format!("{uncounted}: {}", listed(&reasons));
        all.push(finding(Severity::Warning, series, text));
    }
    let health = health(run);
    if health.disturbed > 0 {
        let reasons: Vec<String> =
            health.reasons.iter().map(|(reason, count)| format!("{reason} in {count}")).collect();
        let (disturbed, rounds) = (health.disturbed, health.rounds);
        let text =
            format!("{disturbed} of {rounds} rounds were disturbed ({})", reasons.join(", "));
        all.push(finding(Severity::Note, "run", text));
    }
    all
}

fn by_experiment(figures: &[Figure]) -> Vec<Vec<&Figure>> {
    figures
        .chunk_by(|a, b| a.experiment == b.experiment)
        .map(|chunk| chunk.iter().collect())
        .collect()
}

/// The figures of an experiment with their names.
struct Group<'run> {
    /// The experiment's id.
    about: &'run str,
    figures: Vec<&'run Figure>,
    names: Option<Names<'run>>,
}

impl<'run> Group<'run> {
    fn of(run: &'run Run, figures: Vec<&'run Figure>) -> Self {
        let about = figures.first().map_or("", |figure| &figure.experiment);
        let mut planned = run.plan.iter().flat_map(|plan| &plan.experiments);
        let planned = planned.find(|planned| planned.id == about);
        let names = planned.map(|planned| Names::of(planned, &figures));
        Group { about, figures, names }
    }

    /// Metric and case with the value, as the discussion names them: what a reader needs to find
    /// it.
    fn name(&self, figure: &Figure) -> String {
        let name = self.names.as_ref().map(|names| names.figure(figure));
        let name = name.filter(|name| name != self.about).unwrap_or_else(|| "it".to_owned());
        let metric = figure.metric.as_ref();
        let value = metric
            .zip(figure.value)
            .map(|(metric, value)| shown(value, figure.ci, metric.unit).value);
        match value {
            Some(value) => format!("{name} {value}"),
            None => name,
        }
    }
}

fn of_group(run: &Run, group: &Group) -> Vec<Finding> {
    let mut all = Vec::new();
    let failed = group.figures.iter();
    for figure in failed.filter(|figure| figure.outcome == Ending::Failed) {
        let reason = figure.reason.as_deref().unwrap_or("no reason was given");
        let text = format!("{} failed: {reason}", group.name(figure));
        all.push(finding(Severity::Error, group.about, text));
    }
    for figure in &group.figures {
        all.extend(figure.notes.of(NoteKind::Suspicious).map(|note| {
            let text = format!("{} is {note}", group.name(figure));
            finding(Severity::Warning, group.about, text)
        }));
    }
    all.extend(censored(group));
    all.extend(held::findings(run, group));
    all.extend(noted(group));
    all.extend(missed(run, group, PredictionKind::Prior));
    all.extend(missed(run, group, PredictionKind::Derived));
    all
}

/// One finding for all figures with events that have no value, the largest share first.
fn censored(group: &Group) -> Option<Finding> {
    let mut figures: Vec<(f64, String)> = group
        .figures
        .iter()
        .filter_map(|figure| {
            let stats = figure.stats.as_ref().filter(|stats| stats.censored > 0)?;
            let (censored, samples) = (stats.censored, stats.samples);
            let text = format!("{} ({censored} of {samples})", group.name(figure));
            Some((censored as f64 / samples as f64, text))
        })
        .collect();
    figures.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<String> = figures.into_iter().map(|(_, name)| name).collect();
    let subject = match names.len() {
        0 => return None,
        1 => "one figure has".to_owned(),
        count => format!("{count} figures have"),
    };
    let text = format!(
        "{subject} events that never ended (lost, timed out, or never begun) and count as longer than \
         all that did: {}",
        listed(&names)
    );
    Some(finding(Severity::Warning, group.about, text))
}

/// One finding for the whole run per kind of note that says little of a single figure, with the
/// experiments that have most of them first.
fn over_experiments(figures: &[Figure]) -> Vec<Finding> {
    let of_kind = |(kind, one, many): (NoteKind, &str, &str)| {
        let noted = figures.iter().filter(|figure| figure.notes.has(kind));
        let noted = noted.map(|figure| (figure.experiment.as_str(), figure));
        let mut groups = gathered(noted);
        groups.sort_by_key(|(_, noted)| std::cmp::Reverse(noted.len()));
        let what = match groups.iter().map(|(_, noted)| noted.len()).sum() {
            0 => return None,
            1 => format!("1 figure {one}"),
            total => format!("{total} figures {many}"),
        };
        let parts = groups.iter().map(|(id, noted)| format!("{id} {}", noted.len()));
        let text = format!("{what} ({})", parts.collect::<Vec<_>>().join(", "));
        Some(finding(Severity::Note, "run", text))
    };
    let kinds = [
        (NoteKind::TwoModes, "has two modes", "have two modes"),
        (NoteKind::Uncertain, "is uncertain", "are uncertain"),
    ];
    kinds.into_iter().filter_map(of_kind).collect()
}

/// One finding per kind of note that several figures may carry.
fn noted(group: &Group) -> Vec<Finding> {
    let of_kind = |(kind, one, many, what): (NoteKind, &str, &str, &str)| {
        let noted = group.figures.iter().filter(|figure| figure.notes.has(kind));
        let names: Vec<String> = noted.map(|figure| group.name(figure)).collect();
        let subject = match names.len() {
            0 => return None,
            1 => format!("one figure {one}"),
            count => format!("{count} figures {many}"),
        };
        let text = format!("{subject} {what}: {}", listed(&names));
        Some(finding(Severity::Warning, group.about, text))
    };
    let from_cache = "in part or whole from a cache and not from the device";
    let kinds = [
        (NoteKind::Disturbed, "rests", "rest", "on disturbed rounds"),
        (NoteKind::Cache, "comes", "come", from_cache),
    ];
    kinds.into_iter().filter_map(of_kind).collect()
}

/// One finding per kind of prediction and direction in which the experiment's were missed, with
/// candidate causes of those that certainly were.
fn missed(run: &Run, group: &Group, kind: PredictionKind) -> Vec<Finding> {
    let mut missed: BTreeMap<Verdict, Vec<Miss>> = BTreeMap::new();
    for figure in &group.figures {
        // A figure beyond its bound is failed, and told as such.
        let miss = misses::of(figure, kind);
        if let Some(miss) = miss.filter(|miss| miss.verdict != Verdict::Impossible) {
            missed.entry(miss.verdict).or_default().push(miss);
        }
    }
    let judged =
        group.figures.iter().filter(|figure| misses::judged(figure, kind).is_some()).count();
    let from = match kind {
        PredictionKind::Prior => "",
        PredictionKind::Derived => " from earlier figures",
    };
    missed
        .into_iter()
        .filter_map(|(verdict, mut missed)| {
            misses::sort(&mut missed);
            let worst = missed.first()?;
            let unit = worst.figure.metric.as_ref()?.unit;
            let factor = worst
                .factor
                .map_or_else(String::new, |factor| format!(", by a factor of {}", digits(factor)));
            let text = format!(
                "{} of {judged} figures {}{from} (most: {} against {}{factor}); {}",
                missed.len(),
                phrase(verdict, missed.len()),
                group.name(worst.figure),
                range(&worst.range, unit),
                explained(run, &missed)
            );
            Some(finding(Severity::Note, group.about, text))
        })
        .collect()
}

/// Which of some misses, the certain ones first, are none for sure, and candidate causes of the
/// others.
fn explained(run: &Run, missed: &[Miss]) -> String {
    let certain = missed.iter().filter(|miss| miss.is_certain).count();
    let uncertain = match (certain, missed.len()) {
        (0, 1) => return "but its interval reaches into what was predicted".to_owned(),
        (0, _) => return "but their intervals reach into what was predicted".to_owned(),
        (certain, all) if certain < all => {
            format!("the intervals of {} reach into what was predicted; ", all - certain)
        }
        _ => String::new(),
    };
    let causes = causes::of(run, missed);
    match causes.is_empty() {
        true => format!("{uncertain}nothing in the recorded environment explains it"),
        false => format!("{uncertain}candidate causes: {}", causes.join("; ")),
    }
}

fn phrase(verdict: Verdict, count: usize) -> String {
    let verb = match (verdict, count) {
        (Verdict::Above | Verdict::Below, 1) => "lies",
        (Verdict::Above | Verdict::Below, _) => "lie",
        (_, 1) => "is",
        _ => "are",
    };
    format!("{verb} {}", verdict.text())
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
