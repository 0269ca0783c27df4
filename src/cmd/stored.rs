//! Runs by what a user calls them: a path, a stored name or a unique prefix of one, `last`, or a
//! published or imported machine; and what the stored runs say together.

use crate::cmd::{Failure, output, usage};
use crate::{imported, published};
use analysis::compare::conditions::settings;
use analysis::figure::Figure;
use analysis::history::{Earlier, History, used_rounds};
use analysis::{crosscheck, figures};
use anyhow::Context as _;
use record::codec::Recording;
use record::event::{Ending, Header};
use record::lines::Lines;
use record::redact::Redaction;
use record::run::Run;
use record::seal::Damaged;
use session::store::summary::{About, Beside, Content, Facts, Reader, Row, State, Stored};
use session::store::{self, Store, file};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Damaged lines that are named one by one.
const DAMAGED_SHOWN: usize = 10;

/// The run of a published or imported machine, whose figures are in no record; `None` for another name.
/// Errors: the name means several, or the machine's sheet is refused.
fn of_machine(name: &str) -> Result<Option<Run>, Failure> {
    match published::run(name).map_err(Failure::Usage)? {
        Some(run) => Ok(Some(run)),
        None => imported::run(&Store::here(), name).map_err(usage),
    }
}

/// The run of a name.
/// Errors: there is none, there are several, or it cannot be read.
pub fn open(name: &str) -> Result<Run, Failure> {
    if let Some(run) = of_machine(name)? {
        return Ok(run);
    }
    let path = find(name)?;
    read(&path).map(|(run, _)| run)
}

/// The record of a name. Warns where a record outside of the store is newer than `last`.
/// Errors: as [`open`].
pub fn find(name: &str) -> Result<PathBuf, Failure> {
    let store = Store::here();
    let path = store.find(name).map_err(usage)?;
    if let Some(newer) = store.newer_elsewhere(&path).filter(|_| name == "last") {
        output::diagnose(&format!(
            "plumb: a newer record is not in the store: {}; `last` is {}",
            newer.display(),
            path.display()
        ));
    }
    Ok(path)
}

/// The run of a record, and the length of the record's whole lines in bytes. What was lost is
/// reported.
/// Errors: it cannot be read.
pub fn read(path: &Path) -> Result<(Run, u64), Failure> {
    let recording = recording(path)?;
    if recording.torn {
        output::diagnose(&format!(
            "plumb: the last line of {} is incomplete (its writer was killed); skipped",
            path.display()
        ));
    }
    report_damage(path, &recording.run.damaged);
    Ok((with_keys(recording.run), recording.whole_bytes))
}

/// What a record holds. Errors: usage, also where it is a sweep's.
fn recording(path: &Path) -> Result<Recording, Failure> {
    store::read(path).map_err(|error| match is_sweep(path) {
        true => Failure::Usage(format!(
            "{} is a node's file of a sweep; `plumb fleet report DIR` shows the directory",
            path.display()
        )),
        false => usage(error),
    })
}

/// Names lines of a record that are damaged.
pub fn report_damage(path: &Path, damaged: &[Damaged]) {
    for Damaged { line, lost } in damaged.iter().take(DAMAGED_SHOWN) {
        output::diagnose(&format!(
            "plumb: line {line} of {} is damaged; lost: {lost}",
            path.display()
        ));
    }
}

/// The run with key figures: a record of before there were any has those of the cards.
fn with_keys(mut run: Run) -> Run {
    let mut planned: Vec<_> = run.plan.iter_mut().flat_map(|plan| &mut plan.experiments).collect();
    if planned.iter().all(|planned| planned.keys.is_empty()) {
        for planned in &mut planned {
            let card = catalogue::find(&planned.id).map(|experiment| experiment.card());
            planned.keys = card.map_or_else(Vec::new, |card| card.keys.to_vec());
        }
    }
    run
}

/// The run of a name without what names its machine or user.
/// Errors: as [`open`].
pub fn redacted(name: &str) -> Result<Run, Failure> {
    if let Some(run) = of_machine(name)? {
        return Ok(run);
    }
    let path = find(name)?;
    recording(&path)?;
    let file = file::reader(&path).with_context(|| path.display().to_string()).map_err(usage)?;
    let mut redaction = None;
    let redacted = record::codec::read_changed(file, &mut |line| {
        let line = String::from_utf8_lossy(line);
        let redaction = redaction.get_or_insert_with(|| Redaction::from_header(&line));
        Cow::Owned(redaction.line(&line).into_bytes())
    });
    let recording = redacted.with_context(|| path.display().to_string());
    Ok(recording.map_err(usage)?.run)
}

/// The last stored run and, before it, the one before it on the same machine (and by the same
/// profile of plumb).
/// Errors: there are no two, or the store cannot be listed.
pub fn last_two() -> Result<[String; 2], Failure> {
    let stored = list(&Store::here(), |_| false)?;
    let runs: Vec<(&str, &Facts)> =
        readable(&stored).filter(|(_, facts)| !facts.is_crosscheck()).collect();
    let needed = "two runs of one machine are needed";
    let Some(((last, facts), before)) = runs.split_last().filter(|(_, before)| !before.is_empty())
    else {
        return Err(Failure::Usage(format!("{needed}; `plumb runs` lists the stored ones")));
    };
    find("last")?;
    if let Some((before, _)) = before.iter().rfind(|(_, other)| facts.is_alike(other)) {
        return Ok([*before, *last].map(str::to_owned));
    }
    let others = before.iter().rev().map(|(name, other)| (name, facts.difference(other)));
    let others = others.filter_map(|(name, why)| Some(format!("{name} differs ({})", why?)));
    Err(Failure::Usage(format!(
        "{needed}; from {last}, {}",
        others.take(1).collect::<Vec<_>>().join(", ")
    )))
}

/// The round values of the stored runs of the first compared run's machine, by the same profile of
/// plumb (`release` or `debug`), the oldest first, each with the number of the condition it was
/// measured under: the environment without facts that change by themselves, plumb and its options,
/// the directory. The compared runs themselves are left out, also where they were read from copies,
/// and those that were killed or are under way.
pub fn history(compared: &[&Run]) -> History {
    let Some(base) = compared.first().map(|run| &run.header) else {
        return History::default();
    };
    let is_compared = |facts: &Facts| {
        let named = |run: &&Run| (&run.header.run, run.header.seed) == (&facts.run, facts.seed);
        compared.iter().any(named)
    };
    let machine = base.machine();
    let is_wanted = |facts: &Facts| {
        let is_alike = facts.profile == base.profile && facts.machine.is_same(&machine);
        is_alike && !is_compared(facts) && facts.end.is_some() && !facts.is_crosscheck()
    };
    let stored = list(&Store::here(), is_wanted).unwrap_or_else(|error| {
        output::diagnose(&format!("plumb: earlier runs are not used: {error:#}"));
        Vec::new()
    });
    let runs = stored.into_iter().filter_map(content).filter(|run| is_wanted(&run.facts));
    let (facts, figures): (Vec<Facts>, Vec<Vec<Row>>) =
        runs.map(|run| (run.facts, run.figures)).unzip();
    let mut history = History::default();
    let mut conditions = Vec::new();
    for (facts, figures) in facts.iter().zip(figures) {
        let settings = settings(&facts.environment);
        let known = conditions.iter().position(|known| *known == settings);
        let condition = known.unwrap_or(conditions.len());
        if known.is_none() {
            conditions.push(settings);
        }
        for row in figures.into_iter().filter(|row| !row.rounds.is_empty()) {
            let earlier = Earlier { condition, rounds: row.rounds };
            history.0.entry(row.key).or_default().push(earlier);
        }
    }
    history
}

/// The runs of a store, oldest first, with the figures of those whose facts ask for them.
/// Errors: the store cannot be listed.
pub fn list(store: &Store, wants_figures: impl Fn(&Facts) -> bool) -> anyhow::Result<Vec<Stored>> {
    Reader { store, analysis: env!("PLUMB_ANALYSIS"), read: &analysed }.list(wants_figures)
}

/// What is known of a stored run; `None` where it cannot be read or is under way.
fn content(stored: Stored) -> Option<Content> {
    match stored.state {
        State::Readable(content) => Some(*content),
        State::UnderWay | State::Unreadable(_) => None,
    }
}

/// The stored runs that can be read, with their names.
pub fn readable(stored: &[Stored]) -> impl Iterator<Item = (&str, &Facts)> {
    stored.iter().filter_map(|stored| match &stored.state {
        State::Readable(content) => Some((stored.name.as_str(), &content.facts)),
        State::UnderWay | State::Unreadable(_) => None,
    })
}

/// Longest first line that is looked at.
const HEADER_BYTES: u64 = 16 << 20;

/// Whether a file begins as the record of a sweep does.
pub fn is_sweep(path: &Path) -> bool {
    let first = |file| {
        let mut lines = Lines::new(file, HEADER_BYTES);
        let (_, line) = lines.whole().ok()??;
        serde_json::from_slice::<serde_json::Value>(line).ok()
    };
    let header = file::reader(path).ok().and_then(first);
    header.is_some_and(|header| header["node"].get("starter").is_some())
}

fn analysed(path: &Path) -> Result<Content, String> {
    let recording = store::read(path).map_err(|error| format!("{error:#}"))?;
    let run = recording.run;
    let figures = figures(&run);
    let count = |ending: Ending| figures.iter().filter(|of| of.outcome == ending).count();
    let facts = Facts {
        run: run.header.run.clone(),
        started: run.header.started.clone(),
        seed: run.header.seed,
        preset: run.header.options.preset.clone(),
        machine: run.header.machine(),
        profile: run.header.profile.clone(),
        end: run.footer.as_ref().map(|footer| footer.end),
        rounds: run.rounds.len(),
        figures: [Ending::Measured, Ending::Skipped, Ending::Failed].map(count),
        beside: beside(&run),
        environment: environment(&run.header),
    };
    Ok(Content { facts, figures: figures.iter().filter_map(row).collect() })
}

fn beside(run: &Run) -> Option<Beside> {
    let rivals = crosscheck::rivals(run);
    let rows = crosscheck::rows(run);
    let compared = rows.iter().filter(|row| row.ratio.is_some()).count();
    (!rivals.is_empty()).then(|| Beside {
        tools: rivals.iter().filter(|one| !one.bouts.is_empty()).count(),
        compared,
        missed: crosscheck::count(&rows, crosscheck::Verdict::Missed),
    })
}

fn environment(header: &Header) -> BTreeMap<String, String> {
    let mut all = header.environment.clone();
    let measured = [
        ("plumb", header.plumb.clone()),
        ("build", header.build.clone()),
        ("rustc", header.rustc.clone()),
        ("preset", header.options.preset.clone()),
        ("set", header.options.set.join(" ")),
        ("cpus", format!("{:?}", header.cpus)),
        ("dir", header.options.dir.clone().unwrap_or_default()),
    ];
    all.extend(measured.map(|(name, text)| (name.to_owned(), text)));
    all
}

/// A figure that has a value and is not known to be wrong.
fn row(figure: &Figure) -> Option<Row> {
    let metric = figure.metric.as_ref()?;
    let value = figure.value.filter(|value| value.is_finite())?;
    (figure.outcome == Ending::Measured).then_some(())?;
    Some(Row {
        key: figure.key()?,
        about: About { unit: metric.unit, better: metric.better, kind: metric.kind },
        value,
        ci: figure.ci,
        cycles: figure.core_cycles(),
        rounds: used_rounds(figure),
    })
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::cmd::Failure;

    #[test]
    fn the_record_of_a_sweep_is_called_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sweep.jsonl");
        std::fs::write(&path, "{\"node\":{\"format\":2,\"starter\":\"mpi\"}}\n").expect("writes");
        let Err(Failure::Usage(told)) = read(&path) else { panic!("it is no run") };
        assert!(told.contains("plumb fleet report"), "{told}");
    }
}
