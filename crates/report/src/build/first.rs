//! What a report begins with: how far the run can be trusted, the lab summary, and the latency
//! ladder.

use super::{lab_table, summary};
use crate::document::{Block, Cell, Keys, Place, Row, Section, Table};
use crate::values::{self, percent};
use analysis::figure::Figure;
use analysis::gather::ends;
use analysis::keys::{KeyFigure, keys};
use analysis::quality::{Grade, Quality, quality};
use record::event::{End, Ending};
use record::order::InOrder;
use record::quantity::render;
use record::run::Run;
use record::unit::Unit;

/// Least length of an axis, as a factor: what lies closer together is as good as one value.
const LEAST: f64 = 3.0;
const MARGIN: f64 = 0.06;

pub fn section(run: &Run, figures: &[Figure]) -> Section {
    let keys = keys(run, figures);
    let mut blocks = vec![Block::KeyValues(as_a_whole(run, figures)).on_page()];
    if !keys.is_empty() {
        let tables = std::iter::once(lab_summary(&keys)).chain(ladder(&keys));
        blocks.push(Block::Keys(tables.collect()).for_all());
    }
    blocks.extend(Block::notes(summary::lacking(&keys)).map(Block::for_all));
    Section::new("overview", "Key figures", blocks)
}

fn as_a_whole(run: &Run, figures: &[Figure]) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("run", run.header.run.clone()),
        ("options", summary::options(run)),
        ("started", run.header.started.clone()),
    ];
    let count = |ending: Ending| figures.iter().filter(|one| one.outcome == ending).count();
    let counted_as =
        [(Ending::Measured, "measured"), (Ending::Skipped, "skipped"), (Ending::Failed, "failed")]
            .map(|(ending, name)| format!("{} {name}", count(ending)));
    pairs.push(("figures", counted_as.join(", ")));
    if let Some(Quality { grade, end, aspects }) = quality(run) {
        pairs.push(("quality", grade.text().to_owned()));
        let graded = |share, grade: Grade| format!("{} ({})", percent(share), grade.text());
        let rows = aspects.into_iter();
        pairs.extend(rows.map(|(one, share, grade)| (summary::word(one), graded(share, grade))));
        let ended = end.map_or("not yet, or killed", |end| match end {
            End::Complete => "complete",
            End::Budget => "by the time budget, before the precision goal was reached",
            End::Interrupted => "interrupted",
        });
        pairs.push(("ended", ended.to_owned()));
    }
    pairs.extend(summary::score_line(figures).map(|score| ("predicted", score)));
    pairs.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn lab_summary(keys: &[KeyFigure]) -> Keys {
    let places = keys.iter().map(|key| Axis::new(std::slice::from_ref(key)).place(key.figure));
    Keys {
        title: "Lab summary".to_owned(),
        table: lab_table::of_keys(keys),
        places: places.collect(),
        is_ladder: false,
        ticks: Vec::new(),
    }
}

/// The key figures that are times, from the shortest to the longest, along one axis.
fn ladder(keys: &[KeyFigure]) -> Option<Keys> {
    let value = |key: &KeyFigure| key.figure.value.unwrap_or(0.0);
    let is_time = |key: &&KeyFigure| key.figure.unit().is_time() && value(key) > 0.0;
    let mut times: Vec<KeyFigure> = keys.iter().filter(is_time).copied().collect();
    times.order_by(|a, b| value(a).total_cmp(&value(b)));
    let axis = Axis::new(&times);
    let rows = times.iter().map(|key| {
        let value = Cell::optional(values::value(key.figure));
        Row::always_shown(vec![Cell::plain(key.title), value])
    });
    let caption = "The key times from the shortest to the longest, on a logarithmic axis";
    (times.len() > 1).then(|| Keys {
        title: "Latency ladder".to_owned(),
        table: Table::new(caption, &["operation", "#measured"], rows),
        places: times.iter().map(|key| axis.place(key.figure)).collect(),
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
    fn new(keys: &[KeyFigure]) -> Axis {
        let of_figure = |KeyFigure { figure, .. }: &KeyFigure| {
            let ends = figure.ci.map(|(low, high)| [low, high]);
            let range = figure.shown_range().map(|range| [range.low, range.high]);
            let ends = ends.into_iter().chain(range).flatten();
            figure.value.into_iter().chain(ends).collect::<Vec<f64>>()
        };
        let all = keys.iter().flat_map(of_figure).filter(|value| *value > 0.0 && value.is_finite());
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

    fn place(&self, figure: &Figure) -> Place {
        let both = |(low, high): (f64, f64)| (self.position(low), self.position(high));
        Place {
            value: self.position(figure.value.unwrap_or(0.0)),
            interval: figure.ci.map(both),
            predicted: figure.shown_range().map(|range| both((range.low, range.high))),
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
    fn every_key_figure_has_a_row_and_a_place() {
        let keys = keys();
        let titles: Vec<&str> = keys.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(titles, ["Lab summary", "Latency ladder"]);
        let groups = keys[0].table.rows.iter().map(|row| row.cells[0].text.as_str());
        assert_eq!(groups.collect::<Vec<_>>(), ["CPU", "MEM", "", "OS", ""]);
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
        let place = keys[0].places[1];
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
