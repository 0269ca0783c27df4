//! Tables, in compact markup: HTML lets the ends of rows and cells go without saying, and what
//! holds for a whole column is said once.

use crate::document::{Cell, Row, Table, Tone};
use maud::{Markup, html};

/// Rows above which a table starts folded: its plot and summary say the same in less room.
const MANY_ROWS: usize = 24;
/// Columns up to which the style sheet has a class that sets one flush right.
const ALIGNED: usize = 16;
/// Letters up to which a text stays on one line: a goal, a verdict.
const SHORT: usize = 14;
/// Rows from which what first cells have in common, up to a colon, stands once above them.
const GROUPED_FROM: usize = 24;

pub fn render(table: &Table) -> Markup {
    html! {
        @if table.rows.len() > MANY_ROWS {
            details.list {
                summary { (summary(table)) }
                (grid(table))
            }
        } @else {
            (grid(table))
        }
    }
}

pub fn summary(table: &Table) -> String {
    format!("{} ({} rows)", table.caption, table.rows.len())
}

pub fn grid(table: &Table) -> Markup {
    let many = table.rows.len() > MANY_ROWS;
    html! {
        div.scroll {
            table class=[alignment(table)] {
                @if !table.caption.is_empty() { caption class=[many.then_some("unseen")] { (table.caption) } }
                thead { tr;
                    @for column in &table.columns { th scope="col"; (column.heading) }
                }
                tbody { (rows(table)) }
            }
        }
    }
}

/// Classes of the columns of numbers, as far as there are classes.
fn alignment(table: &Table) -> Option<String> {
    let columns = table.columns.iter().zip(1..=ALIGNED);
    let columns = columns.filter(|(column, _)| column.is_number);
    let classes: Vec<String> = columns.map(|(_, at)| format!("n{at}")).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

fn rows(table: &Table) -> Markup {
    let prefixes: Vec<Option<&str>> = table.rows.iter().map(prefix).collect();
    let is_grouped = table.rows.len() >= GROUPED_FROM && prefixes.iter().all(Option::is_some);
    html! {
        @for (at, row) in table.rows.iter().enumerate() {
            @let prefix = prefixes[at].filter(|_| is_grouped);
            @if let Some(prefix) = prefix.filter(|_| at == 0 || prefixes[at - 1] != prefixes[at]) {
                tr.group; th scope="rowgroup" colspan=(table.columns.len()); (prefix)
            }
            tr;
            @for (column, cell) in row.cells.iter().take(table.columns.len()).enumerate() {
                @match (column, prefix) {
                    (0, Some(prefix)) => { th; (cell.text[prefix.len() + 1..].trim_start()) }
                    (0, None) => { th; (cell.text) }
                    _ => (of_cell(cell, table.columns[column].is_number)),
                }
            }
        }
    }
}

/// What stands before the colon of a row's first cell: the experiment of a figure's label.
fn prefix(row: &Row) -> Option<&str> {
    let (prefix, rest) = row.cells.first()?.text.split_once(':')?;
    (!prefix.contains(' ') && !rest.is_empty()).then_some(prefix)
}

fn of_cell(cell: &Cell, is_number: bool) -> Markup {
    // Nothing is nothing, in whatever colour.
    let class = cell.tone.class().filter(|_| cell.tone != Tone::Muted || cell.text != "-");
    // The style sheet keeps numbers on one line.
    match !is_number && cell.text.chars().count() <= SHORT {
        true => html! { td class=[class]; (cell.text.replace(' ', "\u{a0}")) },
        false => html! { td class=[class]; (cell.text) },
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUPED_FROM, render};
    use crate::document::{Cell, Column, Row, Table, Tone};

    fn table(rows: Vec<Row>) -> Table {
        Table { caption: "Costs".to_owned(), columns: Column::list(&["case", "#cost"]), rows }
    }

    #[test]
    fn columns_say_once_what_holds_for_their_cells() {
        let row = Row::always_shown(vec![Cell::plain("a<b"), Cell::toned("9 ns", Tone::Warn)]);
        assert_eq!(
            render(&table(vec![row])).into_string(),
            "<div class=\"scroll\"><table class=\"n2\"><caption>Costs</caption><thead><tr>\
             <th scope=\"col\">case<th scope=\"col\">cost</thead><tbody><tr><th>a&lt;b\
             <td class=\"warn\">9 ns</tbody></table></div>"
        );
    }

    #[test]
    fn a_short_text_stays_on_one_line() {
        let columns = Column::list(&["name", "goal", "verdict"]);
        let cells = ["a b", "≥ 1.00", "not judged: 3 turns"].map(Cell::plain);
        let page = render(&Table { columns, ..table(vec![Row::always_shown(cells.into())]) });
        let page = page.into_string();
        assert!(page.contains("<td>≥\u{a0}1.00<td>not"), "{page}");
    }

    #[test]
    fn a_long_table_is_folded_and_says_its_experiments_once() {
        let row = |at: usize| {
            let experiment = if at < GROUPED_FROM / 2 { "cpu.call" } else { "os.ipc" };
            Row::always_shown(vec![
                Cell::plain(format!("{experiment}:size={at} cost")),
                Cell::plain(at.to_string()),
            ])
        };
        let page = render(&table((0..=GROUPED_FROM).map(row).collect())).into_string();
        assert!(page.starts_with("<details class=\"list\"><summary>Costs (25"));
        for group in ["cpu.call", "os.ipc"] {
            assert_eq!(page.matches(group).count(), 1, "{page}");
        }
        assert!(page.contains("<tr><th>size=24 cost<td>24"), "{page}");
        let page = render(&table((0..3).map(row).collect())).into_string();
        assert!(page.contains("<th>cpu.call:size=0 cost"), "{page}");
    }
}
