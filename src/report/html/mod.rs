//! A report as one page that opens from a file, offline: style, data and the plotting library are
//! in it. Without JavaScript, plots are missing and every table stays.

mod library;
mod manual;
mod packed;
mod picture;
mod table;
mod ticks;

use super::document::{Audience, Block, Document, Section};
use crate::analysis::findings::Severity;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use picture::Pictures;

const STYLE: &str = include_str!("style.css");
const PLOTS: &str = include_str!("plots.js");
const PAGE: &str = include_str!("page.js");

/// Nothing may be fetched: the page could not phone home if it wanted to.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'";

/// Notes above which a list of nothing but notes starts folded.
const MANY_NOTES: usize = 5;

/// The page.
pub(crate) fn render(document: &Document) -> String {
    let mut pictures = Pictures::default();
    let sections: Vec<Markup> = visible(document)
        .map(|section| of_section(section, &mut pictures))
        .collect();
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
                a.skip href="#report" { "Skip to the report" }
                nav aria-label="Contents" { (contents(document)) }
                main id="report" tabindex="-1" {
                    header {
                        h1 { (document.title) }
                        p.summary { (document.summary) }
                    }
                    @for section in &sections { (section) }
                }
                @if !pictures.is_empty() {
                    script id="pictures" type="text/plain" { (PreEscaped(packed::pack(&pictures.json()))) }
                    script id="plotly" type="text/plain" { (PreEscaped(packed::pack(&library::script()))) }
                    script { (PreEscaped(PLOTS)) (PreEscaped(PAGE)) }
                }
            }
        }
    };
    page.into_string()
}

fn contents(document: &Document) -> Markup {
    html! {
        p.brand { "plumb" }
        button id="scheme" type="button" hidden {}
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

fn of_section(section: &Section, pictures: &mut Pictures) -> Markup {
    // Headings of a manual go on from the last one above it.
    let mut level = manual::Level::Third;
    html! {
        section id=(section.id) {
            h2 {
                @match section.heading.split_once(": ") {
                    Some((id, title)) => { (title) " " code { (id) } }
                    None => (section.heading),
                }
            }
            @for (audience, block) in &section.blocks {
                @if let Block::Subheading(_) = block { @let () = level = manual::Level::Fourth; }
                @if *audience != Audience::Terminal { (of_block(block, level, pictures)) }
            }
        }
    }
}

fn of_block(block: &Block, level: manual::Level, pictures: &mut Pictures) -> Markup {
    html! {
        @match block {
            Block::Paragraph(text) => p { (text) },
            Block::Subheading(text) => h3 { (text) },
            Block::KeyValues(pairs) => dl {
                @for (name, text) in pairs { div { dt { (name) } dd { (text) } } }
            },
            Block::Table(table) => (table::render(table)),
            Block::Plot(plot) => (pictures.plot(plot)),
            Block::Grid(grid) => (pictures.grid(grid)),
            Block::Notes(notes) => (of_notes(notes)),
            Block::Manual(text) => details {
                summary { "Manual of this experiment" }
                div.manual { (manual::render(text, level)) }
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
            details.list { summary { (plain.len()) " notes" } (list(&plain)) }
        } @else {
            (list(&plain))
        }
    }
}
