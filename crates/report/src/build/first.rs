//! What a page begins with: how far the run can be trusted, the key figures by group, and the
//! latency ladder.

use super::summary;
use crate::document::{Block, Cell, Keys, Place, Row, Section, Table, Tone};
use crate::values;
use analysis::figure::Figure;
use analysis::gather::ends;
use analysis::keys::{Line, lines};
use analysis::quality::quality;
use record::event::{Ending, Range};
use record::order::InOrder;
use record::quantity::render;
use record::run::Run;
use record::unit::Unit;

/// Least length of an axis, as a factor: what lies closer together is as good as one value.
const LEAST: f64 = 3.0;
/// Room at both ends of an axis, as a share of its length.
const MARGIN: f64 = 0.06;

const HEADINGS: [&str; 6] =
    ["figure", "#measured", "#interval", "#cycles", "#predicted", "verdict"];
/// The column that only groups of the core have.
const CYCLES: usize = 3;

/// The section; without key figures it has the run's quality and score alone.
pub fn section(run: &Run, figures: &[Figure]) -> Section {
    let lines = lines(run, figures);
    // Each figure has a row of its own.
    let single: Vec<Line> = lines.iter().flat_map(apart).collect();
    let mut blocks = vec![Block::KeyValues(as_a_whole(run, figures))];
    let groups = single.chunk_by(|one, next| one.group == next.group);
    let mut keys: Vec<Keys> = groups.map(|own| card(own[0].group, own)).collect();
    keys.extend(ladder(&single));
    if !keys.is_empty() {
        blocks.push(Block::Keys(keys));
    }
    let blocks = blocks.into_iter().map(Block::on_page).collect();
    Section::new("overview", "Key figures", blocks)
}

/// A line for each figure of a line.
fn apart<'run>(line: &Line<'run>) -> Vec<Line<'run>> {
    let alone = |figure: &(&'run str, &'run Figure)| Line {
        group: line.group,
        title: line.title.clone(),
        figures: vec![*figure],
    };
    line.figures.iter().map(alone).collect()
}

fn as_a_whole(run: &Run, figures: &[Figure]) -> Vec<(String, String)> {
    let mut pairs = vec![("run", summary::title(run)), ("started", run.header.started.clone())];
    let count = |ending: Ending| figures.iter().filter(|one| one.outcome == ending).count();
    let counted_as =
        [(Ending::Measured, "measured"), (Ending::Skipped, "skipped"), (Ending::Failed, "failed")]
            .map(|(ending, name)| format!("{} {name}", count(ending)));
    pairs.push(("figures", counted_as.join(", ")));
    pairs.extend(quality(run).map(|quality| ("quality", summary::quality_cell(&quality).text)));
    let scores = summary::scores(figures);
    pairs.extend((!scores.is_empty()).then(|| ("predicted", scores.join("; "))));
    pairs.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn range_of(line: &Line) -> Option<Range> {
    let (_, figure) = line.figures.first()?;
    figure.shown_range()
}

fn row(line: &Line) -> Row {
    let [heading, measured, interval, predicted, verdict] = summary::cells(line);
    let predicted = match summary::why_not(line).filter(|_| predicted.text.is_empty()) {
        Some(why) => Cell::toned(format!("not predictable from here, because: {why}"), Tone::Muted),
        None => predicted,
    };
    let figure = line.figures.first().map(|(_, figure)| *figure);
    let of_core = figure.filter(|figure| figure.core_cycles().is_some());
    let cycles = Cell::optional(of_core.and_then(values::of_cycles));
    Row::always_shown(vec![heading, measured, interval, cycles, predicted, verdict])
}

/// The key figures of a group, each along an axis of its own.
fn card(group: &str, lines: &[Line]) -> Keys {
    let places = lines.iter().map(|line| Axis::from_lines(std::slice::from_ref(line)).place(line));
    let mut headings = HEADINGS.to_vec();
    let mut rows: Vec<Row> = lines.iter().map(row).collect();
    if rows.iter().all(|row| row.cells[CYCLES] == Cell::absent()) {
        headings.remove(CYCLES);
        rows.iter_mut().for_each(|row| drop(row.cells.remove(CYCLES)));
    }
    Keys {
        title: group.to_owned(),
        table: Table::new(format!("Key figures: {group}"), &headings, rows),
        places: places.collect(),
        is_ladder: false,
        ticks: Vec::new(),
    }
}

/// The key figures that are times, from the shortest to the longest, along one axis.
fn ladder(lines: &[Line]) -> Option<Keys> {
    let value = |line: &Line| line.figures.first().and_then(|(_, figure)| figure.value);
    let is_time = |line: &&Line| {
        line.figures.iter().all(|(_, figure)| figure.unit().is_time())
            && value(line).is_some_and(|value| value > 0.0)
    };
    let mut times: Vec<Line> = lines.iter().filter(is_time).cloned().collect();
    times.order_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)));
    let axis = Axis::from_lines(&times);
    let rows = times.iter().map(|line| {
        let mut row = row(line);
        row.cells.truncate(2);
        row
    });
    let caption = "The key times from the shortest to the longest, on a logarithmic axis";
    (times.len() > 1).then(|| Keys {
        title: "Latency ladder".to_owned(),
        table: Table::new(caption, &HEADINGS[..2], rows),
        places: times.iter().map(|line| axis.place(line)).collect(),
        is_ladder: true,
        ticks: axis.decades(),
    })
}

/// A logarithmic axis; its ends are 0 and 1.
struct Axis {
    low: f64,
    length: f64,
}

impl Axis {
    /// From the least to the greatest of what is measured and predicted.
    fn from_lines(lines: &[Line]) -> Axis {
        let of_line = |line: &Line| {
            let figures = line.figures.iter();
            let measured = figures.flat_map(|(_, figure)| {
                let ends = figure.ci.map(|(low, high)| [low, high]);
                figure.value.into_iter().chain(ends.into_iter().flatten())
            });
            let range = range_of(line).map(|range| [range.low, range.high]);
            measured.chain(range.into_iter().flatten()).collect::<Vec<f64>>()
        };
        let all = lines.iter().flat_map(of_line).filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = ends(all.map(f64::ln));
        if low > high {
            return Axis { low: 0.0, length: 1.0 };
        }
        let lacking = (LEAST.ln() - (high - low)).max(0.0) / 2.0;
        let margin = MARGIN * (high - low).max(LEAST.ln());
        Axis { low: low - lacking - margin, length: high - low + 2.0 * (lacking + margin) }
    }

    fn position(&self, value: f64) -> f64 {
        match value > 0.0 {
            true => ((value.ln() - self.low) / self.length).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// The powers of ten of times, by their place.
    fn decades(&self) -> Vec<(f64, String)> {
        let powers = (-1..=11).map(|power| 10_f64.powi(power));
        let within = |at: &f64| (self.low..=self.low + self.length).contains(&at.ln());
        powers.filter(within).map(|at| (self.position(at), render(at, Unit::Ns))).collect()
    }

    fn place(&self, line: &Line) -> Place {
        let both = |(low, high): (f64, f64)| (self.position(low), self.position(high));
        let figure = line.figures.first().map(|(_, figure)| *figure);
        Place {
            value: self.position(figure.and_then(|figure| figure.value).unwrap_or(0.0)),
            interval: figure.and_then(|figure| figure.ci).map(both),
            predicted: range_of(line).map(|range| both((range.low, range.high))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::document::{Block, Keys};
    use analysis::{figures, sample};

    fn keys() -> Vec<Keys> {
        let run = sample::run();
        let section = section(&run, &figures(&run));
        let keys = section.blocks.into_iter().find_map(|(_, block)| match block {
            Block::Keys(keys) => Some(keys),
            _ => None,
        });
        keys.expect("the sample has key figures")
    }

    #[test]
    fn every_key_figure_has_a_row_and_a_place_in_its_group() {
        let keys = keys();
        let titles: Vec<&str> = keys.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(titles, ["CPU", "MEM", "OS", "Latency ladder"]);
        for one in &keys {
            assert_eq!(one.table.rows.len(), one.places.len());
            for place in &one.places {
                let ends = [place.interval, place.predicted].into_iter().flatten();
                for (low, high) in ends {
                    assert!((0.0..=high).contains(&low) && high <= 1.0, "{place:?}");
                }
            }
        }
        // The value lies in its interval.
        let place = keys[1].places[0];
        let (low, high) = place.interval.expect("was measured in rounds");
        assert!((low..=high).contains(&place.value), "{place:?}");
    }

    #[test]
    fn the_ladder_rises() {
        let keys = keys();
        let ladder = keys.last().expect("there is one");
        assert!(ladder.places.len() >= 3);
        assert!(ladder.places.windows(2).all(|pair| pair[0].value <= pair[1].value));
        let labels: Vec<&str> = ladder.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert!(labels.starts_with(&["1 ns", "10 ns", "100 ns"]), "{labels:?}");
        assert!(ladder.ticks.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
