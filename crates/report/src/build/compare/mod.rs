//! From a comparison to its document: the answer first; then what changed, what came closest, and
//! what could not be compared; at the end every figure side by side.

mod answer;
mod surroundings;
mod tables;

use super::bounds::bounded;
use super::plots::{self, Shown};
use crate::document::{Audience, Block, Cell, Document, Row, Section, Table};
use crate::values::counted;
use analysis::compare::conditions::{About, about};
use analysis::compare::{Against, Compared, Comparison, Incomparable, Source, Untested, table};
use analysis::figure::Figure;
use analysis::gather::{distinct, gathered};
use record::order::Gather;
use record::run::Run;
use std::collections::BTreeMap;

/// Figures that came closest to a finding, of those that gave none.
const CLOSEST: usize = 20;

/// Of these, shown where room is short.
const CLOSEST_SHOWN: usize = 3;

/// The document: the answer, and where it is `whole` what stands behind it. Beside a published
/// machine every figure of its report is shown in any case.
pub fn build(comparison: &Comparison, whole: bool) -> Document {
    let base = about(comparison.base.run);
    let abouts: Vec<About> =
        comparison.against.iter().map(|against| about(against.new.run)).collect();
    let titled = || {
        let is_single = abouts.len() == 1;
        comparison.against.iter().zip('B'..).map(move |(against, letter)| match is_single {
            true => (against, Title { letter, suffix: String::new(), about: String::new() }),
            false => (
                against,
                Title { letter, suffix: format!("-{letter}"), about: format!(", {letter}") },
            ),
        })
    };
    let answers = titled().map(|(against, title)| answer::section(comparison, against, &title));
    let mut sections: Vec<Section> = answers.collect();
    if whole {
        sections.push(runs(&base, &abouts));
        for (against, title) in titled() {
            sections.extend(changes(against, &title));
            sections.extend(differences(against, &title));
            sections.extend(closest(against, &title));
        }
    }
    if whole || comparison.against.iter().any(has_published) {
        sections.extend(side_by_side_sections(comparison, &abouts));
        for (against, title) in titled() {
            sections.extend(nearest(against, &title));
            sections.extend(not_compared(against, &title));
        }
    }
    bounded(Document::new(title(&base, &abouts), summary(comparison), sections))
}

/// The distinguishing part of the sections of several comparisons.
struct Title {
    letter: char,
    suffix: String,
    about: String,
}

impl Title {
    fn section(&self, id: &str, heading: &str, blocks: Vec<(Audience, Block)>) -> Section {
        Section::new(format!("{id}{}", self.suffix), format!("{heading}{}", self.about), blocks)
    }
}

/// `B = 2026-11-23T08-35 against A = 2026-11-23T08-29`.
fn title(base: &About, new: &[About]) -> String {
    let names = new.iter().zip('B'..).map(|(new, letter)| format!("{letter} = {}", new.run));
    format!("{} against A = {}", names.collect::<Vec<_>>().join(", "), base.run)
}

/// What was compared: the same machine or another, by which presets.
fn summary<'a>(comparison: &Comparison<'a>) -> String {
    let preset = |run: &'a Run| run.header.options.preset.as_str();
    let new = comparison.against.iter().map(|against| preset(against.new.run));
    let presets = presets(preset(comparison.base.run), new);
    let apart = comparison.against.iter().find_map(|against| against.apart.as_ref());
    let machine = match apart.filter(|_| !comparison.against.iter().any(has_published)) {
        Some(apart) => format!("different machines ({apart})"),
        None if apart.is_some() => "different machines".to_owned(),
        None => "same machine".to_owned(),
    };
    format!("{machine}, {presets}")
}

/// The presets in the order of the title, where the new runs come first.
fn presets<'a>(base: &'a str, new: impl Iterator<Item = &'a str>) -> String {
    let new = distinct(new).join(", ");
    match new == base {
        true => new,
        false => format!("{new} against {base}"),
    }
}

fn has_published(against: &Against) -> bool {
    let has_table = || against.incomparable.iter().any(|one| table(one.figure).is_some());
    !against.nearest.is_empty() || !against.untested(Untested::Published).is_empty() || has_table()
}

fn runs(base: &About, others: &[About]) -> Section {
    let row = |role: &str, about: &About| {
        let started = about.started.replace('T', " ");
        Row::always_shown(vec![
            Cell::plain(role),
            Cell::plain(&about.run),
            Cell::plain(started.trim_end_matches('Z')),
            Cell::plain(&about.preset),
            Cell::plain(&about.machine),
        ])
    };
    let mut rows = vec![row("A, base", base)];
    rows.extend(
        others.iter().zip('B'..).map(|(about, letter)| row(&format!("{letter}, new"), about)),
    );
    let headings = ["", "run", "started (UTC)", "preset", "machine"];
    let table = Table::new("Each further run is compared with the base", &headings, rows);
    Section::new("runs", "The runs", vec![Block::Table(table).for_all()])
}

/// What changed: a table for each family, the greatest change first; how that is found.
fn changes(against: &Against, title: &Title) -> Option<Section> {
    let findings = against.findings();
    let mut blocks = Vec::new();
    for (family, of_family) in gathered(findings.iter().map(|one| (one.base.family(), *one))) {
        let caption = format!("{family}: {}", counted(of_family.len(), "figure"));
        blocks.extend(tables::findings(&of_family, &caption));
    }
    if against.tested() > 0 {
        blocks.push(Block::Paragraph(rule(against)).for_all());
    }
    (!blocks.is_empty()).then(|| title.section("changes", "What changed", blocks))
}

/// How a finding is found, with the bands that were used.
fn rule(against: &Against) -> String {
    let mut bands: BTreeMap<Source, (usize, f64, f64)> = BTreeMap::new();
    let is_tested = |one: &&Compared| one.p.is_some();
    for one in against.figures.iter().filter(is_tested) {
        let group = match one.band.source {
            Source::Stored(_) => Source::Stored(0),
            other => other,
        };
        let share = one.band.share;
        let entry = bands.entry(group).or_insert((0, share, share));
        *entry = (entry.0 + 1, entry.1.min(share), entry.2.max(share));
    }
    let told: Vec<String> = bands
        .iter()
        .map(|(source, (count, low, high))| {
            let source = match source {
                Source::Stored(_) => "learnt from stored runs of this machine".to_owned(),
                Source::Default(_) => format!("assumed, the {}", source.text()),
                Source::Resolution => source.text(),
            };
            let range = match tables::percent(*low) == tables::percent(*high) {
                true => format!("{} %", tables::percent(*low)),
                false => format!("{} to {} %", tables::percent(*low), tables::percent(*high)),
            };
            format!("± {range} {source} ({count})")
        })
        .collect();
    format!(
        "A finding passes two tests: a significance test corrected for all of these figures (false \
         discovery rate 5 %), and a change larger than the band within which 95 of 100 pairs of \
         runs of an unchanged machine differ: {}.",
        told.join(", ")
    )
}

fn differences(against: &Against, title: &Title) -> Option<Section> {
    let untested = against.untested(Untested::NotPositive);
    let apart: Vec<&Compared> = untested
        .into_iter()
        .filter(|one| one.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0))
        .collect();
    let block = Block::Table(tables::differences(&apart)?).for_all();
    Some(title.section("differences", "Differences without a test", vec![block]))
}

/// What came closest to a finding.
fn closest(against: &Against, title: &Title) -> Option<Section> {
    let mut closest = against.closest();
    closest.truncate(CLOSEST);
    if closest.is_empty() {
        return None;
    }
    let block = Block::Table(tables::closest(&closest, CLOSEST_SHOWN)).for_all();
    Some(title.section("closest", "Closest to a change", vec![block]))
}

/// Figures of a report beside the nearest ones of ours, by how their methods differ.
fn nearest(against: &Against, title: &Title) -> Option<Section> {
    let groups = gathered(against.nearest.iter().map(|one| ((one.differs(), one.moves()), one)));
    let tables = groups.iter().map(|((differs, moves), figures)| {
        let caption = format!("The printed figure {differs}: that moves it {moves}");
        Block::Table(tables::nearest(figures, &caption)).for_all()
    });
    let text = "These figures are not the same measurement: each is shown next to the nearest one, \
        without a verdict.";
    let blocks: Vec<_> = [Block::text(text).for_all()].into_iter().chain(tables).collect();
    (!groups.is_empty()).then(|| title.section("nearest", "Not the same measurement", blocks))
}

/// What was not compared, counted by reason and named by experiment.
fn not_compared(against: &Against, title: &Title) -> Option<Section> {
    let mut groups: Vec<(String, Vec<&Figure>)> = Vec::new();
    let mut reasons: BTreeMap<_, Vec<&Figure>> = BTreeMap::new();
    // Of a report's figures alone, where there is one: a run measures more than a report prints.
    let is_beside = has_published(against);
    let is_shown = |one: &&Incomparable| !is_beside || table(one.figure).is_some();
    for one in against.incomparable.iter().filter(is_shown) {
        reasons.entry(&one.why).or_default().push(one.figure);
    }
    groups.extend(reasons.into_iter().map(|(why, figures)| (why.text(), figures)));
    for why in Untested::ALL {
        let figures: Vec<&Figure> = against.untested(why).iter().map(|one| one.base).collect();
        if !figures.is_empty() && why != Untested::Published {
            groups.push((format!("not tested: {}", why.text()), figures));
        }
    }
    if groups.is_empty() {
        return None;
    }
    let block = Block::Table(tables::not_compared(&groups)).for_all();
    Some(title.section("not-compared", "Not compared", vec![block]))
}

/// Experiment by experiment: the plots of all runs in one, and every figure.
fn side_by_side_sections(comparison: &Comparison, abouts: &[About]) -> Vec<Section> {
    let base = comparison.base;
    let mut sections = Vec::new();
    for planned in base.run.plan.iter().flat_map(|plan| &plan.experiments) {
        let table = tables::side_by_side(comparison, &planned.id, abouts);
        let Some(table) = table else {
            continue;
        };
        let mut blocks = Vec::new();
        let runs = std::iter::once(base).chain(comparison.against.iter().map(|one| one.new));
        let names = names(&about(base.run), abouts);
        let of_runs: Vec<_> = runs
            .zip(&names)
            .filter_map(|(measured, name)| {
                let planned = measured.run.experiment(&planned.id)?;
                let of = |figure: &&Figure| figure.experiment == planned.id;
                let figures: Vec<&Figure> = measured.figures.iter().filter(of).collect();
                Some((name, measured.run, planned, figures))
            })
            .collect();
        let shown: Vec<Shown> = of_runs
            .iter()
            .map(|(name, run, planned, figures)| Shown {
                name: name.as_str(),
                run,
                planned,
                figures: figures.as_slice(),
            })
            .collect();
        let plots = plots::of_experiment(&shown).into_iter();
        blocks.extend(plots.map(Block::on_page));
        blocks.push(Block::Table(table).for_all());
        let heading = format!("{}: {}", planned.id, planned.title);
        sections.push(Section::new(&planned.id, heading, blocks));
    }
    sections
}

fn names(base: &About, others: &[About]) -> Vec<String> {
    let all: Vec<&About> = std::iter::once(base).chain(others).collect();
    let unique: std::collections::BTreeSet<&str> = all.iter().map(|one| one.run.as_str()).gather();
    if unique.len() == all.len() {
        return all.iter().map(|one| one.run.clone()).collect();
    }
    let role = |at: usize| match at {
        0 => "base".to_owned(),
        1 => "new".to_owned(),
        _ => format!("new {at}"),
    };
    (0..all.len()).map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::presets;

    #[test]
    fn presets_stand_in_the_order_of_the_title() {
        for (base, new, expected) in [
            ("quick", &["quick"][..], "quick"),
            ("quick", &["standard"], "standard against quick"),
            ("quick", &["quick", "quick"], "quick"),
            ("quick", &["standard", "quick"], "standard, quick against quick"),
        ] {
            assert_eq!(presets(base, new.iter().copied()), expected);
        }
    }
}
