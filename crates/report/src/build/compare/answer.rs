//! The answer of a comparison, first: verdict, how far to trust it, effects, what could not be seen,
//! what differs around.

use super::surroundings;
use super::tables::{percent, times};
use super::{Title, has_published};
use crate::document::{Block, Cell, Row, Section, Table, Tone};
use crate::values::{counted, ratio};
use analysis::compare::answer::{Doubt, Effect, Speed};
use analysis::compare::{Against, Comparison, Direction};
use analysis::figure::Figure;
use analysis::gather::distinct;
use analysis::names::{Names, words};

/// Effects that are shown at least, decided or not.
const LEAST_SHOWN: usize = 3;
/// Effects that are shown where room is short.
const EFFECTS_SHOWN: usize = 12;

pub(super) fn section(comparison: &Comparison, against: &Against, title: &Title) -> Section {
    if has_published(against) {
        let counts = Block::text(format!(
            "{} of the same measurement and {} of the nearest; nothing is tested, because printed \
             figures have no rounds.",
            counted(against.figures.len(), "figure"),
            against.nearest.len()
        ));
        let report = against.report().unwrap_or_default();
        let caption =
            format!("This machine against {report}: the median of how many times as fast");
        let speeds = Block::Table(families(caption, &against.speeds()));
        let around = Block::Table(surroundings::table(&against.conditions, title.letter));
        let is_shown =
            |block: &Block| !matches!(block, Block::Table(table) if table.rows.is_empty());
        let blocks = [speeds, counts, around].into_iter().filter(is_shown);
        return title.section("answer", "The answer", blocks.map(Block::for_all).collect());
    }
    let effects = against.effects();
    let confidence = against.confidence(comparison.base.run);
    let mut foot = vec![("CANNOT SEE".to_owned(), cannot_see(against))];
    foot.extend(in_cycles(against).map(|told| ("IN CYCLES".to_owned(), told)));
    let head = [
        ("VERDICT".to_owned(), verdict(against, &effects, title.letter)),
        ("CONFIDENCE".to_owned(), confidence.level.text().to_owned()),
    ];
    let caption = format!(
        "How many times as fast {} is: the median of a family's experiments; the interval includes \
         what these, and runs of an unchanged machine, differ by",
        title.letter
    );
    let tables = [
        doubts(&confidence.doubts, title.letter),
        families(caption, &against.families()),
        table(comparison, against, &effects),
    ];
    let mut blocks = vec![Block::KeyValues(head.into())];
    blocks.extend(tables.into_iter().filter(|table| !table.rows.is_empty()).map(Block::Table));
    blocks.push(Block::KeyValues(foot));
    blocks.push(Block::Table(surroundings::table(&against.conditions, title.letter)));
    title.section("answer", "The answer", blocks.into_iter().map(Block::for_all).collect())
}

/// What lowers the confidence, a row each.
fn doubts(doubts: &[Doubt], new: char) -> Table {
    let row = |doubt: &Doubt| {
        let of_runs = doubt.of_runs.iter().map(|text| Cell::optional(text.as_deref()));
        Row::always_shown(std::iter::once(Cell::plain(doubt.what)).chain(of_runs).collect())
    };
    let headings = ["lowered by", "#A", &format!("#{new}")];
    Table::new("", &headings, doubts.iter().map(row))
}

/// Families of experiments in a reader's words.
const FAMILIES: [(&str, &str); 6] = [
    ("cpu", "processor"),
    ("os", "kernel"),
    ("net", "network"),
    ("fs", "files"),
    ("clock", "clocks"),
    ("noise", "quiet"),
];

fn in_words(family: &str) -> &str {
    let named = FAMILIES.iter().find(|(name, _)| *name == family);
    named.map_or(family, |(_, word)| *word)
}

/// One ratio for each family, with its interval; beside a report there is none.
fn families(caption: String, speeds: &[Speed]) -> Table {
    let row = |speed: &Speed| {
        let ends = speed.interval.map(|(low, high)| format!("{} – {}", times(low), times(high)));
        let tone = match speed.interval {
            Some((low, _)) if low > 1.0 => Tone::Good,
            Some((_, high)) if high < 1.0 => Tone::Warn,
            _ => Tone::Plain,
        };
        Row::always_shown(vec![
            Cell::plain(in_words(&speed.family)),
            Cell::toned(format!("{}×", times(speed.factor)), tone),
            Cell::optional(ends),
            Cell::plain(speed.figures.to_string()),
        ])
    };
    let headings = ["family", "#times as fast", "#interval", "#figures"];
    Table::new(caption, &headings, speeds.iter().map(row))
}

/// `B is not slower. 3 effects faster, 0 slower (20 of 1323 figures)`.
fn verdict(against: &Against, effects: &[Effect], new: char) -> String {
    let tested = against.tested();
    if tested == 0 {
        return "none: no figure could be tested".to_owned();
    }
    let count =
        |of: &[Direction]| effects.iter().filter(|effect| of.contains(&effect.direction)).count();
    let slower = count(&[Direction::Worse]);
    let faster = count(&[Direction::Better]);
    let other = count(&[Direction::Up, Direction::Down]);
    if effects.is_empty() {
        let all = against.figures.len();
        return match against.is_undecided() {
            true => format!("undecided: {tested} of {all} figures could be tested, none changed"),
            false => format!("{new} is not slower: none of {tested} figures changed"),
        };
    }
    let is = match (slower, faster) {
        (0, _) => "is not slower",
        (_, 0) => "is slower",
        _ => "is slower in part, faster in part",
    };
    let other = match other {
        0 => String::new(),
        other => format!(", {other} changed with no better direction"),
    };
    format!(
        "{new} {is}. {} faster, {slower} slower{other} ({} of {} figures)",
        counted(faster, "effect"),
        against.findings().len(),
        tested
    )
}

/// The effects; where there are fewer than three, also what came closest to one.
fn table(comparison: &Comparison, against: &Against, effects: &[Effect]) -> Table {
    let closest = against.closest().into_iter().filter(|one| one.size() > 0.0);
    let closest: Vec<Effect> = closest
        .take(LEAST_SHOWN.saturating_sub(effects.len()))
        .map(|one| Effect { direction: Direction::Up, figures: vec![one] })
        .collect();
    let decided = effects.iter().map(|effect| (effect, true));
    let all = decided.chain(closest.iter().map(|effect| (effect, false)));
    let row = |(at, (effect, is_decided)): (usize, (&Effect, bool))| {
        let interval =
            effect.interval().map(|(low, high)| format!("{} – {}", ratio(low), ratio(high)));
        let tone = match is_decided {
            true => super::tables::tone(effect.greatest()),
            false => Tone::Muted,
        };
        let verdict = if is_decided { "changed" } else { "undecided" };
        Row {
            cells: vec![
                Cell::plain(&effect.greatest().base.experiment),
                Cell::plain(what(comparison, effect)),
                Cell::toned(change(effect), tone),
                Cell::optional(interval),
                Cell::plain(effect.figures.len().to_string()),
                Cell::toned(verdict, tone),
            ],
            is_spare: at >= EFFECTS_SHOWN,
        }
    };
    let headings = ["experiment", "figures", "#change", "#new / base", "#of", "verdict"];
    Table::new("The largest effects", &headings, all.enumerate().map(row))
}

/// What an effect is of: its figure, or its metrics and the cases that they have.
fn what(comparison: &Comparison, effect: &Effect) -> String {
    let greatest = effect.greatest().base;
    let Some(planned) = comparison.base.run.experiment(&greatest.experiment) else {
        return greatest.label();
    };
    let all = comparison.base.figures.iter();
    let own: Vec<&Figure> = all.filter(|figure| figure.experiment == greatest.experiment).collect();
    let names = Names::from_plan(planned, &own);
    let bases = effect.figures.iter().map(|one| one.base);
    let metrics = distinct(bases.clone().map(|figure| words(figure.metric_name())));
    let cases = distinct(bases.map(|figure| &figure.case)).len();
    match (metrics.len(), cases) {
        (_, 1) if names.case(greatest).is_empty() => metrics.join(", "),
        (_, 1) => format!("{} ({})", metrics.join(", "), names.case(greatest)),
        _ => format!("{}: most {}", metrics.join(", "), names.figure(greatest)),
    }
}

/// `1.34× faster`, `1.7–3.2× less`.
fn change(effect: &Effect) -> String {
    let (least, greatest) = effect.factors();
    let [low, high] = [least, greatest].map(times);
    let range = if low == high { high } else { format!("{low}–{high}") };
    format!("{range}× {}", effect.greatest().word())
}

fn in_cycles(against: &Against) -> Option<String> {
    let count = against.figures.iter().filter(|one| one.in_cycles).count();
    let told = || format!("{} of the core, whose clocks differ", counted(count, "figure"));
    (count > 0).then(told)
}

fn cannot_see(against: &Against) -> String {
    let told: Vec<String> = against
        .least_seen()
        .into_iter()
        .map(|(kind, least)| format!("{} % ({})", percent(least), kind.text()))
        .collect();
    let untested = against.figures.len() - against.tested();
    let untested = match untested {
        0 => String::new(),
        untested => format!("; {} not tested", counted(untested, "figure")),
    };
    match told.is_empty() {
        true => "any change: no figure was tested".to_owned(),
        false => format!("changes under {}{untested}", told.join(", ")),
    }
}
