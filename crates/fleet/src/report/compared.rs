//! Two sweeps over the same nodes for people.

use super::{ROWS, SHOWN, left_out, pair};
use crate::compare::{Changed, Compared, Comparison};
use crate::names::{Titles, counted, listed, percent, sizes, times};
use crate::paired::{NODES_LEAST, Shift};
use crate::read::Fleet;
use analysis::compare::{Direction, word};
use record::order::InOrder;
use record::shown::shown;
use report::document::{Block, Cell, Document, Row, Section, Table, Tone};
use stats::quantile::median;
use std::collections::BTreeSet;

/// The document: the answer; the `whole` one has every figure too.
pub fn build(
    comparison: &Comparison,
    (base, new): (&Fleet, &Fleet),
    titles: &Titles,
    whole: bool,
) -> Document {
    let mut blocks = vec![Block::KeyValues(vec![pair("VERDICT", verdict(comparison))]).for_all()];
    let log = |shift: Option<Shift>| shift.map_or(0.0, |shift| shift.log.abs());
    let shown = comparison.figures.iter().filter(|one| whole || one.finding.is_some());
    let mut figures: Vec<&Compared> = shown.collect();
    figures.order_by(|a, b| {
        b.finding.is_some().cmp(&a.finding.is_some()).then(log(b.common).total_cmp(&log(a.common)))
    });
    let mut apart: Vec<(&Compared, &Changed)> = comparison.apart().collect();
    apart.order_by(|(_, a), (_, b)| log(b.of_others).total_cmp(&log(a.of_others)));
    for (table, count) in
        [(changes(&figures, titles, whole), figures.len()), (nodes(&apart, titles), apart.len())]
    {
        if count > 0 {
            blocks.push(Block::Table(table).for_all());
            blocks.extend(left_out(count, ROWS, ""));
        }
    }
    blocks.push(Block::KeyValues(foot(comparison, titles)).for_all());
    if whole {
        blocks.push(Block::text(RULE).for_all());
    }
    let (base, new) = (base.header(), new.header());
    let summary = format!(
        "{} in both sweeps, {} in A alone, {} in B alone.",
        counted(comparison.nodes.len(), "node"),
        comparison.only.0.len(),
        comparison.only.1.len()
    );
    let title = format!("B = {} against A = {}", new.started, base.started);
    Document::new(title, summary, vec![Section::new("findings", "The answer", blocks)])
}

/// `B is slower in 2 of 36 figures; 1 node went another way than the others`.
fn verdict(comparison: &Comparison) -> String {
    let tested = comparison.tested();
    if tested == 0 {
        return format!("none: no figure has {NODES_LEAST} nodes in both sweeps");
    }
    let count = |wanted: Direction| {
        comparison.figures.iter().filter(|one| one.finding == Some(wanted)).count()
    };
    let is = match (count(Direction::Worse), count(Direction::Better)) {
        (0, 0) => format!("B is as A: none of {tested} figures changed on all nodes"),
        (0, better) => format!("B is not slower; it is faster in {better} of {tested} figures"),
        (worse, 0) => format!("B is slower in {worse} of {tested} figures"),
        (worse, better) => {
            format!("B is slower in {worse} and faster in {better} of {tested} figures")
        }
    };
    let names: BTreeSet<&str> = comparison.apart().map(|(_, node)| node.node.as_str()).collect();
    match names.len() {
        0 => is,
        many => format!("{is}; {} went another way than the others", counted(many, "node")),
    }
}

/// A change in a word, and its interval as factors of the same direction.
fn change(one: &Compared, shift: Option<Shift>) -> [Cell; 2] {
    let Some(shift) = shift else {
        return [Cell::toned("not tested", Tone::Muted), Cell::absent()];
    };
    let (ratio, (low, high)) = (shift.ratio(), shift.factors());
    let tone = match Direction::from_growth(one.better, ratio > 1.0) {
        Direction::Worse => Tone::Bad,
        Direction::Better => Tone::Good,
        Direction::Up | Direction::Down => Tone::Warn,
    };
    let ends = if ratio > 1.0 { (low, high) } else { (1.0 / high, 1.0 / low) };
    let text = times(ratio.max(1.0 / ratio), word(one.unit, one.better, ratio > 1.0));
    [Cell::toned(text, tone), Cell::plain(sizes(ends))]
}

fn common(one: &Compared) -> [Cell; 2] {
    let [is, ends] = change(one, one.common);
    match one.common.is_some() && one.finding.is_none() {
        true => [Cell::toned("no change", Tone::Muted), ends],
        false => [is, ends],
    }
}

/// A value in the figure's unit.
fn value(one: &Compared, value: f64) -> Cell {
    Cell::plain(shown(value, None, one.unit).value)
}

fn changes(figures: &[&Compared], titles: &Titles, whole: bool) -> Table {
    let row = |(at, one): (usize, &&Compared)| {
        let middle = |side: fn(&Changed) -> f64| {
            let values: Vec<f64> = one.nodes.iter().map(side).collect();
            median(&values).map_or_else(Cell::absent, |middle| value(one, middle))
        };
        let [is, ends] = common(one);
        let cells = vec![
            Cell::plain(titles.role(&one.key, one.role)),
            Cell::plain(&one.stratum),
            is,
            ends,
            middle(|node| node.base),
            middle(|node| node.new),
            Cell::plain(one.nodes.len().to_string()),
            Cell::optional(one.least_seen.map(percent)),
        ];
        Row { cells, is_spare: !whole && at >= SHOWN }
    };
    let headings =
        ["figure", "stratum", "#B is", "#95 % interval", "#A", "#B", "#nodes", "#seen from"];
    let caption = "What changed on all nodes, each paired with itself";
    Table::new(caption, &headings, figures.iter().take(ROWS).enumerate().map(row))
}

fn nodes(apart: &[(&Compared, &Changed)], titles: &Titles) -> Table {
    let row = |(at, (one, node)): (usize, &(&Compared, &Changed))| {
        let mut cells = vec![Cell::plain(&node.node), Cell::plain(titles.role(&one.key, one.role))];
        cells.extend(change(one, node.of_others));
        let [others, _] = common(one);
        cells.extend([value(one, node.base), value(one, node.new), others]);
        Row { cells, is_spare: at >= SHOWN }
    };
    let headings =
        ["node", "figure", "#B beside the others", "#95 % interval", "#A", "#B", "#the others"];
    let caption = "Nodes that went another way than the others of their stratum";
    Table::new(caption, &headings, apart.iter().take(ROWS).enumerate().map(row))
}

fn foot(comparison: &Comparison, titles: &Titles) -> Vec<(String, String)> {
    let around = comparison.around.iter().map(|(name, base, new, nodes)| {
        format!("{name} {base} → {new} on {}", counted(*nodes, "node"))
    });
    let around = match listed(&around.collect::<Vec<String>>()) {
        none if none.is_empty() => "the same hardware, kernel, plumb and options".to_owned(),
        around => around,
    };
    let missing: Vec<String> = comparison.missing.iter().map(|key| titles.key(key)).collect();
    let mut foot = vec![pair("CANNOT SEE", cannot_see(comparison)), pair("AROUND", around)];
    for (name, list) in [
        ("MISSING IN B", listed(&missing)),
        ("ONLY IN A", listed(&comparison.only.0)),
        ("ONLY IN B", listed(&comparison.only.1)),
    ] {
        foot.extend((!list.is_empty()).then(|| pair(name, list)));
    }
    foot
}

fn cannot_see(comparison: &Comparison) -> String {
    let least = comparison.least_seen().into_iter();
    let said: Vec<String> =
        least.map(|(kind, least)| format!("{} ({})", percent(least), kind.text())).collect();
    let untested = match comparison.figures.len() - comparison.tested() {
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

const RULE: &str = "B is to A as the mean of the nodes' own changes on the log scale, without the fifth of the nodes at either end; its interval and p are Student's. A finding passes the correction for the number of figures (false discovery rate 5 %) and is larger than 1.5 % (hardware) or 4 % (os, io), by which two runs of an unchanged machine differ. A node went another way if its change is apart from the others' (false discovery rate 1 %) by more than that.";
