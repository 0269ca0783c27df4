//! Two sweeps over the same nodes for people and programs.

use super::left_out;
use crate::compare::{Changed, Compared, Comparison, Side};
use crate::names::{Titles, counted, listed, percent, size, times};
use crate::paired::NODES_LEAST;
use crate::read::Fleet;
use analysis::compare::Direction;
use record::order::InOrder;
use record::shown::shown;
use report::document::{Block, Cell, Document, Row, Section, Table, Tone};
use stats::quantile::median;

/// Changes, nodes and differences that are shown where room is short.
const SHOWN: usize = 20;
/// Rows of any table.
const ROWS: usize = 5_000;
/// Differences around the figures that the answer names.
const AROUND: usize = 6;

/// The document: the answer; the `whole` one has every figure too.
pub fn build(
    comparison: &Comparison,
    (base, new): (&Fleet, &Fleet),
    titles: &Titles,
    whole: bool,
) -> Document {
    let mut sections = vec![answer(comparison, titles)];
    if whole {
        sections.push(figures(comparison, titles));
        sections.extend(around(comparison));
    }
    let (base, new) = (base.header(), new.header());
    let summary = format!(
        "{} in both sweeps, {} in A alone, {} in B alone.",
        counted(comparison.nodes.len(), "node"),
        comparison.only.0.len(),
        comparison.only.1.len()
    );
    Document::new(format!("B = {} against A = {}", new.started, base.started), summary, sections)
}

fn answer(comparison: &Comparison, titles: &Titles) -> Section {
    let mut blocks = vec![Block::KeyValues(vec![pair("VERDICT", verdict(comparison))]).for_all()];
    let mut changed: Vec<&Compared> =
        comparison.figures.iter().filter(|one| one.finding.is_some()).collect();
    let log = |one: &Compared| one.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    changed.order_by(|a, b| log(b).total_cmp(&log(a)));
    let apart = apart(comparison);
    for (table, count) in
        [(changes(&changed, titles), changed.len()), (nodes(&apart, titles), apart.len())]
    {
        if count > 0 {
            blocks.push(Block::Table(table).for_all());
            blocks.extend(left_out(count, ROWS, ""));
        }
    }
    let mut foot =
        vec![pair("CANNOT SEE", cannot_see(comparison)), pair("AROUND", beside(comparison))];
    let missing: Vec<String> = comparison.missing.iter().map(|key| titles.key(key)).collect();
    let (only_a, only_b) = &comparison.only;
    let lists = [listed(&missing), listed(only_a), listed(only_b)];
    let named = ["MISSING IN B", "ONLY IN A", "ONLY IN B"].into_iter().zip(lists);
    foot.extend(named.filter(|(_, list)| !list.is_empty()).map(|(name, list)| pair(name, list)));
    blocks.push(Block::KeyValues(foot).for_all());
    Section::new("findings", "The answer", blocks)
}

fn pair(name: &str, text: String) -> (String, String) {
    (name.to_owned(), text)
}

/// `B is slower in 2 of 36 figures, faster in none; 1 node went another way`.
fn verdict(comparison: &Comparison) -> String {
    let tested = comparison.tested().count();
    if tested == 0 {
        return format!("none: no figure has {NODES_LEAST} nodes in both sweeps");
    }
    let count = |of: &[Direction]| {
        let found = comparison.figures.iter().filter_map(|one| one.finding);
        found.filter(|direction| of.contains(direction)).count()
    };
    let worse = count(&[Direction::Worse]);
    let better = count(&[Direction::Better]);
    let other = count(&[Direction::Up, Direction::Down]);
    let is = match (worse, better, other) {
        (0, 0, 0) => format!("B is as A: none of {tested} figures changed on all nodes"),
        (0, 0, _) => "B is neither slower nor faster".to_owned(),
        (0, ..) => format!("B is not slower; it is faster in {better} of {tested} figures"),
        (_, 0, _) => format!("B is slower in {worse} of {tested} figures"),
        _ => format!("B is slower in {worse} and faster in {better} of {tested} figures"),
    };
    let other = match other {
        0 => String::new(),
        other => format!("; {other} changed with no better direction"),
    };
    let mut names: Vec<&str> =
        apart(comparison).iter().map(|(_, node)| node.node.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let nodes = match names.len() {
        0 => String::new(),
        many => format!("; {} went another way than the others", counted(many, "node")),
    };
    format!("{is}{other}{nodes}")
}

/// The nodes that went another way, the furthest first.
fn apart<'one>(comparison: &'one Comparison) -> Vec<(&'one Compared, &'one Changed)> {
    let of = |one: &'one Compared| one.apart().into_iter().map(move |node| (one, node));
    let mut all: Vec<_> = comparison.figures.iter().flat_map(of).collect();
    all.order_by(|(_, a), (_, b)| b.distance().total_cmp(&a.distance()));
    all
}

/// `memory.bandwidth: DRAM read, all, as near end`.
fn name(one: &Compared, titles: &Titles) -> String {
    let end = match one.side {
        Side::Alone => "",
        Side::Near => ", as near end",
        Side::Far => ", as far end",
    };
    format!("{}{end}", titles.key(&one.key))
}

/// `1.34× faster`, `1.10× more`.
fn word(one: &Compared, ratio: f64) -> String {
    let word = analysis::compare::word(one.unit, one.better, ratio > 1.0);
    times(ratio.max(1.0 / ratio), word)
}

fn tone(direction: Direction) -> Tone {
    match direction {
        Direction::Worse => Tone::Bad,
        Direction::Better => Tone::Good,
        Direction::Up | Direction::Down => Tone::Warn,
    }
}

/// A value in the figure's unit.
fn value(one: &Compared, value: f64) -> Cell {
    Cell::plain(shown(value, None, one.unit).value)
}

/// A change, and its interval as factors of the same direction.
fn change(one: &Compared, ratio: f64, ends: Option<(f64, f64)>) -> [Cell; 2] {
    let direction = Direction::from_growth(one.better, ratio > 1.0);
    [Cell::toned(word(one, ratio), tone(direction)), Cell::optional(ends.map(interval))]
}

fn interval(ends: (f64, f64)) -> String {
    let (low, high) = if ends.0.max(ends.1) <= 1.0 || ends.0 * ends.1 < 1.0 {
        (1.0 / ends.1, 1.0 / ends.0)
    } else {
        ends
    };
    match low < 1.0 {
        true => format!("{low:.3}–{}", size(high)),
        false => format!("{}–{}", size(low), size(high)),
    }
}

fn changes(changed: &[&Compared], titles: &Titles) -> Table {
    let row = |(at, one): (usize, &&Compared)| {
        let middle = |of: fn(&Changed) -> f64| {
            let values: Vec<f64> = one.nodes.iter().map(of).collect();
            median(&values).map_or_else(Cell::absent, |middle| value(one, middle))
        };
        let mut cells = vec![Cell::plain(name(one, titles)), Cell::plain(&one.stratum)];
        cells.extend(change(one, one.ratio.unwrap_or(1.0), one.ci));
        cells.extend([middle(|node| node.base), middle(|node| node.new)]);
        cells.push(Cell::plain(one.nodes.len().to_string()));
        Row { cells, is_spare: at >= SHOWN }
    };
    let headings = ["figure", "stratum", "#B is", "#95 % interval", "#A", "#B", "#nodes"];
    let caption = "What changed on all nodes, each paired with itself";
    Table::new(caption, &headings, changed.iter().take(ROWS).enumerate().map(row))
}

fn nodes(apart: &[(&Compared, &Changed)], titles: &Titles) -> Table {
    let row = |(at, (one, node)): (usize, &(&Compared, &Changed))| {
        let mut cells = vec![Cell::plain(&node.node), Cell::plain(name(one, titles))];
        cells.extend(change(one, node.of_others.unwrap_or(1.0), node.of_others_ci));
        cells.extend([value(one, node.base), value(one, node.new), others(one)]);
        Row { cells, is_spare: at >= SHOWN }
    };
    let headings =
        ["node", "figure", "#B beside the others", "#95 % interval", "#A", "#B", "#the others"];
    let caption = "Nodes that went another way than the others of their stratum";
    Table::new(caption, &headings, apart.iter().take(ROWS).enumerate().map(row))
}

/// What the others of a stratum have in common.
fn others(one: &Compared) -> Cell {
    match (one.ratio, one.ci) {
        (Some(_), Some((low, high))) if low <= 1.0 && high >= 1.0 => {
            Cell::toned("no change", Tone::Muted)
        }
        (ratio, _) => Cell::optional(ratio.map(|ratio| word(one, ratio))),
    }
}

fn cannot_see(comparison: &Comparison) -> String {
    let least = comparison.least_seen().into_iter();
    let said: Vec<String> =
        least.map(|(kind, least)| format!("{} ({})", percent(least), kind.text())).collect();
    let untested = match comparison.figures.len() - comparison.tested().count() {
        0 => String::new(),
        many => format!(
            ". Not tested: {} (fewer than {NODES_LEAST} nodes, or the same change on every node)",
            counted(many, "figure")
        ),
    };
    match said.is_empty() {
        true => format!("any change: no figure was tested{untested}"),
        false => format!("changes on all nodes under {}{untested}", said.join(", ")),
    }
}

fn difference((name, base, new, nodes): &(String, String, String, usize)) -> String {
    format!("{name} {base} → {new} on {}", counted(*nodes, "node"))
}

fn beside(comparison: &Comparison) -> String {
    if comparison.around.is_empty() {
        return "the same hardware, kernel, plumb and options".to_owned();
    }
    let mut said: Vec<String> = comparison.around.iter().take(AROUND).map(difference).collect();
    if comparison.around.len() > AROUND {
        said.push(format!("{} more (--all)", comparison.around.len() - AROUND));
    }
    said.join("; ")
}

fn around(comparison: &Comparison) -> Option<Section> {
    let row = |(name, base, new, nodes): &(String, String, String, usize)| {
        let cells = [name.clone(), base.clone(), new.clone(), nodes.to_string()];
        Row::always_shown(cells.into_iter().map(Cell::plain).collect())
    };
    let rows = comparison.around.iter().take(ROWS).map(row);
    let table = Table::new("", &["what", "A", "B", "#nodes"], rows);
    let blocks = vec![Block::Table(table).for_all()];
    (!comparison.around.is_empty())
        .then(|| Section::new("surroundings", "What differs around them", blocks))
}

/// Every figure, what came of each.
fn figures(comparison: &Comparison, titles: &Titles) -> Section {
    let row = |one: &Compared| {
        let change = match (one.finding, one.ratio) {
            (Some(direction), Some(ratio)) => Cell::toned(word(one, ratio), tone(direction)),
            (None, Some(_)) => Cell::toned("no change", Tone::Muted),
            (_, None) => Cell::toned("not tested", Tone::Muted),
        };
        Row::always_shown(vec![
            Cell::plain(name(one, titles)),
            Cell::plain(&one.stratum),
            Cell::plain(one.nodes.len().to_string()),
            Cell::optional(one.ratio.map(|ratio| format!("{ratio:.4}"))),
            Cell::optional(one.ci.map(|(low, high)| format!("{low:.4}–{high:.4}"))),
            Cell::optional(one.p.map(|p| format!("{p:.2e}"))),
            Cell::optional(one.least_seen.map(percent)),
            change,
        ])
    };
    let headings =
        ["figure", "stratum", "#nodes", "#B / A", "#95 % interval", "#p", "#least seen", "verdict"];
    let rows = comparison.figures.iter().take(ROWS).map(row);
    let table = Table::new("All figures that both sweeps have", &headings, rows);
    let mut blocks = vec![Block::text(RULE).for_all(), Block::Table(table).for_all()];
    blocks.extend(left_out(comparison.figures.len(), ROWS, ""));
    Section::new("all-figures", "All figures", blocks)
}

const RULE: &str = "B / A is the mean of the nodes' own changes on the log scale, without the fifth of the nodes at either end; its interval and p are Student's. A finding passes the correction for the number of figures (false discovery rate 5 %) and is larger than 1.5 % (hardware) or 4 % (os, io), by which two runs of an unchanged machine differ. A node went another way if its change is apart from the others' (false discovery rate 1 %) by more than that.";
