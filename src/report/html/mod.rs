//! A report as one page that opens from a file, offline: style, data and the plotting library are
//! in it. Without JavaScript, plots are missing and every table stays.

mod manual;
mod plot;

use super::document::{Audience, Block, Cell, Column, Document, Row, Section, Table, Tone};
use crate::analysis::findings::Severity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::io::Write;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("plots.js");

/// Nothing may be fetched: the page could not phone home if it wanted to.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'";

/// Notes above which a list of nothing but notes starts folded.
const MANY_NOTES: usize = 5;

/// Rows above which a table starts folded: its plot and summary say the same in less room.
const MANY_ROWS: usize = 24;

/// The page.
pub(crate) fn render(document: &Document) -> String {
    let has_plots = document
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .any(|(_, block)| matches!(block, Block::Plot(_)));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (document.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                nav { (contents(document)) }
                main {
                    header {
                        h1 { (document.title) }
                        p.summary { (document.summary) }
                    }
                    @for section in &document.sections { (of_section(section)) }
                }
                @if has_plots {
                    script id="plotly" type="text/plain" { (PreEscaped(library())) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    };
    page.into_string()
}

/// The plotting library alone, without the formula renderer that its crate ships beside it;
/// gzip, base64.
fn library() -> String {
    let sources = plotly::Plot::offline_js_sources();
    let script = sources
        .find("<script")
        .and_then(|start| sources[start..].find('>').map(|end| start + end + 1))
        .and_then(|start| {
            let end = sources[start..].find("</script>")?;
            Some(&sources[start..start + end])
        })
        .unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = "writing to memory does not fail";
    encoder.write_all(script.as_bytes()).expect(written);
    STANDARD.encode(encoder.finish().expect(written))
}

fn contents(document: &Document) -> Markup {
    html! {
        p.brand { "plumb" }
        ol {
            @for section in visible(document) {
                li {
                    a href={ "#" (section.id) } {
                        @match section.heading.split_once(": ") {
                            Some((id, _)) => code { (id) },
                            None => (section.heading),
                        }
                    }
                }
            }
        }
    }
}

fn visible(document: &Document) -> impl Iterator<Item = &Section> {
    document.sections.iter().filter(|section| {
        section
            .blocks
            .iter()
            .any(|(audience, _)| *audience != Audience::Terminal)
    })
}

fn of_section(section: &Section) -> Markup {
    html! {
        section id=(section.id) {
            h2 {
                @match section.heading.split_once(": ") {
                    Some((id, title)) => { (title) " " code { (id) } }
                    None => (section.heading),
                }
            }
            @for (audience, block) in &section.blocks {
                @if *audience != Audience::Terminal { (of_block(block)) }
            }
        }
    }
}

fn of_block(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Paragraph(text) => p { (text) },
            Block::Subheading(text) => h3 { (text) },
            Block::KeyValues(pairs) => dl {
                @for (name, text) in pairs { div { dt { (name) } dd { (text) } } }
            },
            Block::Table(table) => (of_table(table)),
            Block::Plot(plot) => (plot::figure(plot)),
            Block::Grid(grid) => (plot::grid(grid)),
            Block::Notes(notes) => (of_notes(notes)),
            Block::Folded { summary, blocks } => details {
                summary { (summary) }
                @for block in blocks { (of_block(block)) }
            },
            Block::Manual(text) => details {
                summary { "Manual of this experiment" }
                div.manual { (manual::render(text)) }
            },
        }
    }
}

/// Remarks: what is more than a note stands open, many notes start folded.
fn of_notes(notes: &[(Severity, String)]) -> Markup {
    let list = |notes: &[&(Severity, String)]| {
        html! {
            @if !notes.is_empty() {
                ul.notes {
                    @for (severity, text) in notes {
                        li class=(severity.text()) { span.severity { (severity.text()) } (text) }
                    }
                }
            }
        }
    };
    let (plain, urgent): (Vec<_>, Vec<_>) = notes
        .iter()
        .partition(|(severity, _)| *severity == Severity::Note);
    html! {
        (list(&urgent))
        @if plain.len() > MANY_NOTES {
            details { summary { (plain.len()) " notes" } (list(&plain)) }
        } @else {
            (list(&plain))
        }
    }
}

fn of_table(table: &Table) -> Markup {
    let grid = html! {
        div.scroll {
            table {
                thead { tr {
                    @for column in &table.columns {
                        th .number[column.is_number] scope="col" { (column.heading) }
                    }
                } }
                tbody { @for row in &table.rows { (of_row(table, row)) } }
            }
        }
    };
    html! {
        @if table.rows.len() > MANY_ROWS {
            details.table {
                summary { (table.caption) " (" (table.rows.len()) " rows)" }
                (grid)
            }
        } @else {
            @if !table.caption.is_empty() { p.caption { (table.caption) } }
            (grid)
        }
    }
}

fn of_row(table: &Table, row: &Row) -> Markup {
    html! {
        tr {
            @for (column, cell) in table.columns.iter().zip(&row.cells) {
                td class=[class(column, cell)] { (cell.text) }
            }
        }
    }
}

fn class(column: &Column, cell: &Cell) -> Option<String> {
    let number = column.is_number.then_some("number");
    let tone = match cell.tone {
        Tone::Plain => None,
        Tone::Good => Some("good"),
        Tone::Warn => Some("warn"),
        Tone::Bad => Some("bad"),
        Tone::Muted => Some("muted"),
    };
    let classes: Vec<&str> = number.into_iter().chain(tone).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}
