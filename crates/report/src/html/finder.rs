//! The summary of all figures, which the page's script draws: what is searched and sorted, and each
//! figure's distribution as places along an axis.

use crate::document::{Spread, Table};
use analysis::gather::ends;
use maud::{Markup, html};
use record::order::InOrder;
use record::quantity::{digits, render};
use serde_json::{Map, Value, json};

/// Places along the axis of a distribution.
const PLACES: f64 = 200.0;
/// Greatest height of a step of a density: one digit is enough.
const HEIGHTS: f64 = 9.0;

pub fn element(table: &Table) -> Markup {
    html! {
        div #finder {
            noscript {
                p { "The summary of " (table.rows.len()) " figures needs JavaScript. Each figure is in the \
                     tables of its experiment." }
            }
        }
    }
}

/// What the script draws, as JSON: by column, so that it packs well.
pub fn json(table: &Table, spreads: &[Option<Spread>]) -> String {
    let column = |at: usize| -> Vec<&str> {
        table.rows.iter().map(|row| row.cells.get(at).map_or("", |cell| &cell.text)).collect()
    };
    let last = table.columns.len().saturating_sub(1);
    let tones = table.rows.iter().map(|row| row.cells.get(last)?.tone.class());
    json!({
        "caption": table.caption,
        "heads": table.columns.iter().map(|one| json!([one.heading, one.is_number])).collect::<Vec<_>>(),
        "columns": (0..table.columns.len()).map(column).collect::<Vec<_>>(),
        "ranks": (0..table.columns.len()).map(|at| ranks(table, at)).collect::<Vec<_>>(),
        "tones": tones.map(Option::unwrap_or_default).collect::<Vec<_>>(),
        "spreads": by_field(spreads),
    })
    .to_string()
}

/// The place of each row's number in a column by size, equal ones alike; null without one.
fn ranks(table: &Table, at: usize) -> Vec<Option<usize>> {
    let numbers: Vec<Option<f64>> =
        table.rows.iter().map(|row| row.cells.get(at)?.number).collect();
    let mut ordered: Vec<f64> = numbers.iter().copied().flatten().collect();
    ordered.order_by(f64::total_cmp);
    let rank = |number: f64| ordered.partition_point(|other| other.total_cmp(&number).is_lt());
    numbers.into_iter().map(|number| number.map(rank)).collect()
}

/// Each field of all spreads, in the order of the rows; null where a row's has none.
fn by_field(spreads: &[Option<Spread>]) -> Map<String, Value> {
    let mut fields: Map<String, Value> = Map::new();
    for (at, spread) in spreads.iter().enumerate() {
        for (name, value) in spread.iter().flat_map(places) {
            let all = fields.entry(name).or_insert_with(|| json!(vec![Value::Null; spreads.len()]));
            all[at] = value;
        }
    }
    fields
}

/// An axis from the least to the greatest of what was measured, and on to what was predicted where
/// that is not further than once its length.
struct Along {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Along {
    fn from_spread(spread: &Spread) -> Along {
        let is_log = spread.density.is_log;
        let scaled = |value: f64| if is_log { value.ln() } else { value };
        let rounds = spread.rounds.iter().map(|(value, _)| *value);
        let of_density = [spread.density.low, spread.density.high];
        let measured = rounds.chain(of_density).chain([spread.value]);
        let measured = measured.filter(|value| !is_log || *value > 0.0).map(scaled);
        let (low, high) = ends(measured);
        let span = match high > low {
            true => high - low,
            false => (0.01 * high.abs()).max(f64::MIN_POSITIVE),
        };
        let predicted = spread.predicted.filter(|(low, _)| !is_log || *low > 0.0);
        let (from, to) = predicted.map_or((low, high), |(low, high)| (scaled(low), scaled(high)));
        let margin = 0.04 * span;
        Along {
            low: low.min(from).max(low - span) - margin,
            high: high.max(to).min(high + span) + margin,
            is_log,
        }
    }

    fn position(&self, value: f64) -> i64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (value - self.low) / (self.high - self.low);
        (share.clamp(0.0, 1.0) * PLACES).round() as i64
    }

    fn ends(&self, (low, high): (f64, f64)) -> [i64; 2] {
        [self.position(low), self.position(high)]
    }
}

fn places(spread: &Spread) -> Map<String, Value> {
    let along = Along::from_spread(spread);
    let rounds = |is_disturbed: bool| -> Vec<i64> {
        let own = spread.rounds.iter().filter(|(_, disturbed)| *disturbed == is_disturbed);
        own.map(|(value, _)| along.position(*value)).collect()
    };
    let label = |at: f64| {
        let value = if along.is_log { at.exp() } else { at };
        spread.unit.map_or_else(|| digits(value), |unit| render(value, unit))
    };
    let mut of = Map::new();
    let mut put = |name: &str, value: Value| of.insert(name.to_owned(), value);
    put("ends", json!([label(along.low), label(along.high)]));
    put("value", json!(along.position(spread.value)));
    put("rounds", json!(rounds(false)));
    put("disturbed", json!(rounds(true)));
    if !spread.density.counts.is_empty() {
        put("density", json!(along.ends((spread.density.low, spread.density.high))));
        put("heights", json!(heights(&spread.density.counts)));
    }
    if let Some(ends) = spread.interval {
        put("interval", json!(along.ends(ends)));
    }
    if let Some(ends) = spread.predicted {
        put("predicted", json!(along.ends(ends)));
    }
    if !spread.modes.is_empty() {
        let modes =
            spread.modes.iter().map(|(centre, text)| json!([along.position(*centre), text]));
        put("modes", modes.collect());
    }
    put("text", json!(spread.text));
    of
}

/// A digit for each step: its height. The greatest step has the full height, and a step with any
/// sample is seen.
fn heights(counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let height = |count: &u64| (*count as f64 / most * HEIGHTS).ceil() as u32;
    counts.iter().filter_map(|count| char::from_digit(height(count), 10)).collect()
}

#[cfg(test)]
mod tests {
    use super::{heights, places, ranks};
    use crate::document::{Cell, Row, Spread, Table};
    use analysis::distribution::Density;
    use record::unit::Unit;
    use serde_json::json;

    fn spread(predicted: (f64, f64)) -> Spread {
        let density = Density { low: 100.0, high: 200.0, is_log: false, counts: vec![4, 0, 1] };
        Spread {
            rounds: vec![(120.0, false), (180.0, true)],
            density,
            modes: vec![(110.0, "110 ns, 80 %".to_owned())],
            predicted: Some(predicted),
            value: 120.0,
            interval: Some((110.0, 130.0)),
            unit: Some(Unit::Ns),
            text: "Mean 140 ns.".to_owned(),
        }
    }

    #[test]
    fn everything_is_a_place_along_the_axis() {
        let found = places(&spread((150.0, 160.0)));
        assert_eq!(found["density"], json!([7, 193]));
        assert_eq!((&found["rounds"], &found["disturbed"]), (&json!([44]), &json!([156])));
        assert_eq!((&found["heights"], &found["value"]), (&json!("903"), &json!(44)));
        assert_eq!(found["predicted"], json!([100, 119]));
        assert_eq!(found["modes"], json!([[26, "110 ns, 80 %"]]));
    }

    #[test]
    fn a_far_prediction_leaves_room_for_what_was_measured() {
        let far = places(&spread((100.0, 1e9)));
        let [from, to] = [0, 1].map(|at| far["density"][at].as_i64().expect("a place"));
        assert!(to - from > 80, "{far:?}");
        assert_eq!(far["predicted"][1], json!(200));
        // All the same, and nothing predicted.
        let same = Spread {
            value: 5.0,
            density: Density { low: 5.0, high: 5.0, ..Density::default() },
            ..Spread::default()
        };
        assert_eq!(places(&same)["value"], json!(100));
    }

    #[test]
    fn rows_are_sorted_by_numbers_and_not_by_texts() {
        let rows = [Some(9e3), None, Some(1e2), Some(9e3), Some(-1.0)].map(|number| {
            let cell = Cell { number, ..Cell::plain("9 µs") };
            Row::always_shown(vec![cell])
        });
        let found = ranks(&Table::new("", &["#measured"], rows), 0);
        assert_eq!(found, [Some(2), None, Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn what_has_a_sample_has_a_height() {
        assert_eq!(heights(&[0, 1, 1_000_000]), "019");
        assert_eq!(heights(&[]), "");
    }
}
