//! Key figures, in which a dot and its interval lie over the predicted band. Without scripts they are
//! there too.

use crate::document::{Keys, Place};
use maud::{Markup, html};

/// Height of a picture, in its own units.
const HEIGHT: f64 = 12.0;
/// Length of a picture of one figure, and of the ladder's, in the same units.
const ALONE: f64 = 120.0;
const LADDER: f64 = 480.0;
/// Least length of an interval or band that is seen.
const LEAST: f64 = 1.5;

pub fn render(all: &[Keys]) -> Markup {
    html! {
        div.cards {
            @for one in all {
                div.card.scroll.ladder[one.is_ladder].lab[!one.is_ladder] {
                    h3 { (one.title) }
                    (table(one))
                    @if !one.is_ladder { p.aside { (one.table.caption) "." } }
                }
            }
        }
        p.aside { "Dot: measured, line: its interval, band: predicted; each on a logarithmic axis." }
    }
}

fn table(keys: &Keys) -> Markup {
    let (first, length) = if keys.is_ladder { (0, LADDER) } else { (1, ALONE) };
    let columns = &keys.table.columns[first..];
    html! {
        table {
            caption.unseen { (keys.title) }
            thead { tr;
                @for (at, column) in columns.iter().enumerate() {
                    th scope="col"; (column.heading)
                    @if at == 0 { th scope="col"; span.unseen { "picture" } }
                }
            }
            tbody {
                @for (row, place) in keys.table.rows.iter().zip(&keys.places) {
                    @let (group, cells) = row.cells.split_at(first);
                    @for group in group.iter().filter(|group| !group.text.is_empty()) {
                        tr.group; th scope="rowgroup" colspan=(columns.len() + 1); (group.text)
                    }
                    tr;
                    @for (at, cell) in cells.iter().enumerate() {
                        @if at == 0 { th; (cell.text) td; (picture(place, &keys.ticks, length)) }
                        @else { td class=[cell.tone.class()]; (cell.text) }
                    }
                }
                @if !keys.ticks.is_empty() { (axis(keys)) }
            }
        }
    }
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
    use super::render;
    use crate::document::{Cell, Keys, Place, Row, Table, Tone};

    #[test]
    fn a_dot_lies_over_its_interval_and_the_predicted_band() {
        let cells = [("OS", Tone::Plain), ("null <call>", Tone::Plain), ("within", Tone::Good)];
        let row = Row::always_shown(cells.map(|(text, tone)| Cell::toned(text, tone)).into());
        let place = Place { value: 0.5, interval: Some((0.4, 0.6)), predicted: Some((0.25, 0.75)) };
        let table = Table::new("Keys", &["", "operation", "verdict"], [row]);
        let keys = Keys {
            title: "Keys".to_owned(),
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
        assert!(page.contains("colspan=\"3\">OS<tr>"), "{page}");
        assert!(page.contains("<td class=\"good\">within"), "{page}");
    }
}
