//! Key figures: a card for each group, in which a dot and its interval lie over the predicted band.
//! Without scripts they are there too.

use crate::document::{Cell, Keys, Place};
use maud::{Markup, html};

/// Height of a picture, in its own units.
const HEIGHT: f64 = 12.0;
/// Length of a picture of one figure, and of the ladder's, in the same units.
const ALONE: f64 = 120.0;
const LADDER: f64 = 480.0;
/// Least length of an interval or band that is seen.
const LEAST: f64 = 1.5;

/// A cell with a text of more characters stands in a row of its own, below the others: a column would
/// break it into a dozen lines.
const LONG: usize = 40;

/// The cards.
pub fn render(all: &[Keys]) -> Markup {
    html! {
        div.cards {
            @for one in all {
                div.card.scroll.ladder[one.is_ladder] {
                    h3 { (one.title) }
                    table {
                        caption.unseen { (one.table.caption) }
                        thead { tr;
                            @for (at, column) in one.table.columns.iter().enumerate() {
                                th scope="col"; (column.heading)
                                @if at == 0 { th scope="col"; span.unseen { "picture" } }
                            }
                        }
                        tbody {
                            @for (row, place) in one.table.rows.iter().zip(&one.places) {
                                tr;
                                @for (at, cell) in row.cells.iter().enumerate() {
                                    @if at == 0 { th; (cell.text) td; (picture(place, &one.ticks, if one.is_ladder { LADDER } else { ALONE })) }
                                    @else if is_long(cell) { td; }
                                    @else { (of_cell(cell)) }
                                }
                                @for cell in row.cells.iter().filter(|cell| is_long(cell)) {
                                    tr; td.reason colspan=(row.cells.len() + 1) { (cell.text) }
                                }
                            }
                            @if !one.ticks.is_empty() { (axis(one)) }
                        }
                    }
                }
            }
        }
        p.aside { "Dot: measured, line: its interval, band: predicted; each on a logarithmic axis." }
    }
}

fn is_long(cell: &Cell) -> bool {
    cell.text.chars().count() > LONG
}

fn of_cell(cell: &Cell) -> Markup {
    html! { td class=[cell.tone.class()]; (cell.text) }
}

/// A last row with the ticks of the axis that all pictures share.
fn axis(keys: &Keys) -> Markup {
    html! {
        tr.axis; th; span.unseen { "axis" } td;
        svg viewBox={ "0 0 " (LADDER) " " (HEIGHT) } aria-hidden="true" {
            @for (at, label) in &keys.ticks {
                text x=(format!("{:.1}", at * LADDER)) y="8" text-anchor="middle" { (label) }
            }
        }
        @for _ in 1..keys.table.columns.len() { td; }
    }
}

fn picture(place: &Place, ticks: &[(f64, String)], length: f64) -> Markup {
    let (height, middle) = (HEIGHT, HEIGHT / 2.0);
    let along = |share: f64| format!("{:.1}", share * length);
    let stretch = |(low, high): (f64, f64)| (high - low).max(LEAST / length);
    html! {
        svg viewBox={ "0 0 " (length) " " (height) } aria-hidden="true" {
            @for (at, _) in ticks { path.tick d={ "M" (along(*at)) " -3v" (height + 6.0) } {} }
            @if let Some(ends) = place.predicted {
                path.band d={ "M" (along(ends.0)) " 0h" (along(stretch(ends))) "v" (height) "h-" (along(stretch(ends))) "z" } {}
            }
            @if let Some(ends) = place.interval {
                path.line d={ "M" (along(ends.0)) " " (middle) "h" (along(stretch(ends))) } {}
            }
            circle cx=(along(place.value)) cy=(middle) r="2.6" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, render};
    use crate::document::{Cell, Keys, Place, Row, Table, Tone};

    #[test]
    fn a_dot_lies_over_its_interval_and_the_predicted_band() {
        let row =
            Row::always_shown(vec![Cell::plain("null <call>"), Cell::toned("within", Tone::Good)]);
        let place = Place { value: 0.5, interval: Some((0.4, 0.6)), predicted: Some((0.25, 0.75)) };
        let table = Table::new("Keys", &["figure", "verdict"], [row]);
        let keys = Keys {
            title: "OS".to_owned(),
            table,
            places: vec![place],
            is_ladder: false,
            ticks: Vec::new(),
        };
        let page = render(&[keys]).into_string();
        for part in ["M30.0 0h60.0v12h-60.0z", "M48.0 6h24.0", "cx=\"60.0\"", "null &lt;call&gt;"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<th scope=\"col\">").count(), 3, "{page}");
        assert!(page.contains("<td class=\"good\">within"), "{page}");
    }

    #[test]
    fn a_long_text_stands_below_its_row() {
        let long = "x".repeat(LONG + 1);
        let row = Row::always_shown(vec![Cell::plain("ping"), Cell::toned(&long, Tone::Muted)]);
        let place = Place { value: 0.5, interval: None, predicted: None };
        let table = Table::new("Keys", &["figure", "predicted"], [row]);
        let keys = Keys {
            title: "NET".to_owned(),
            table,
            places: vec![place],
            is_ladder: false,
            ticks: Vec::new(),
        };
        let page = render(&[keys]).into_string();
        let below = page.split("<tr>").last().expect("a row");
        assert!(below.starts_with(&format!("<td class=\"reason\" colspan=\"3\">{long}")), "{page}");
    }
}
