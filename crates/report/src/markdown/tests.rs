//! What a parser of CommonMark with GitHub's tables makes of the text.

use super::{Document, escaped, html, paragraph, render};
use crate::build::build;
use crate::document::{Audience, Block, Cell, Column, Remark, Row, Section, Table};
use analysis::findings::Severity;
use analysis::sample;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Texts that want to be more than text.
const HOSTILE: &[&str] = &[
    "</details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a | b || c",
    "*bold* _it_ ~~gone~~ `code` [link](http://x.example) ![i](x)",
    "&lt;b&gt; &amp; \\* $x$",
    "# heading",
    "- list",
    "1. first",
    "2) second",
    "> quote",
    "=====",
    "line\n\n| a | b |\n|---|---|\n",
    "    indented",
    "Ünïcode ☃ 名前",
    "#1 SMP @everyone",
    "https://x.example/a WWW.x.example www.x.example, mailto:me@x.example :skull: :+1:",
    "",
];

fn parsed(text: &str) -> Vec<Event<'_>> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).collect()
}

/// The text that a reader sees, without the comments that keep GitHub from reading names into it.
fn seen(events: &[Event]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Text(text) => Some(text.to_string()),
            Event::SoftBreak => Some(" ".to_owned()),
            _ => None,
        })
        .collect()
}

/// What GitHub makes links and pictures of, wherever it stands.
#[test]
fn github_reads_no_more_into_it() {
    let text = HOSTILE.iter().find(|text| text.starts_with("https"));
    let text = text.expect("addresses are among them");
    for markdown in [paragraph(text), html(text)] {
        let lower = markdown.to_lowercase();
        for wrong in ["://", "www.x", "mailto:me", "@x", ":skull:", ":+1:"] {
            assert!(!lower.contains(wrong), "{wrong}: {markdown}");
        }
    }
    let bus = "nvme at 0000:c1:00.0, cpu.call:n=1: 4 ns (12:30:45)";
    assert_eq!(html(bus), bus);
}

fn plain(text: &str) -> String {
    let letters = text.trim().chars();
    letters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[test]
fn hostile_text_stays_text() {
    for text in HOSTILE {
        let markdown = format!("{}\n", paragraph(text));
        let events = parsed(&markdown);
        assert_eq!(seen(&events), plain(text), "{markdown}");
        for event in &events {
            let is_text = match event {
                Event::Text(_) | Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {
                    true
                }
                Event::InlineHtml(html) => html.as_ref() == "<!-- -->",
                _ => false,
            };
            assert!(is_text, "{markdown}: {event:?}");
        }
        let cell = format!("| a | b |\n| --- | --- |\n| {} | end |\n", escaped(text));
        let events = parsed(&cell);
        let cells = events.iter().filter(|event| matches!(event, Event::Start(Tag::TableCell)));
        assert_eq!(cells.count(), 4, "{cell}");
        assert_eq!(seen(&events), format!("ab{}end", plain(text)));
    }
}

/// Checks a whole text: folds open and close in turn, no other element, every table with as many
/// cells in each row as columns. Returns the number of tables and folds.
pub(crate) fn check(text: &str) -> (usize, usize) {
    let (mut depth, mut folds, mut tables) = (0_i32, 0, 0);
    let (mut columns, mut cells) = (0, 0);
    for event in parsed(text) {
        match event {
            Event::Html(html) => {
                for line in html.lines().filter(|line| !line.is_empty()) {
                    let opens = line.starts_with("<details><summary>");
                    let inner = line
                        .trim_start_matches("<details><summary>")
                        .trim_end_matches("</summary>")
                        .replace("<!-- -->", "");
                    assert!(
                        line == "</details>" || (opens && !inner.contains(['<', '>'])),
                        "{line}"
                    );
                    depth += if opens { 1 } else { -1 };
                    folds += usize::from(opens);
                    assert!((0..=1).contains(&depth), "{line}");
                }
            }
            Event::InlineHtml(html) => assert_eq!(html.as_ref(), "<!-- -->"),
            Event::Start(Tag::Table(alignments)) => {
                tables += 1;
                columns = alignments.len();
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => cells = 0,
            Event::Start(Tag::TableCell) => cells += 1,
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => assert_eq!(cells, columns),
            Event::Start(Tag::Heading { .. }) => cells = 0,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    (tables, folds)
}

fn tables_of(document: &Document) -> usize {
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let read = blocks.filter(|(audience, _)| *audience != Audience::Verbose);
    let tables = read.map(|(_, block)| match block {
        Block::Table(_) | Block::Notes(_) => 1,
        Block::Keys(keys) => keys.len(),
        _ => 0,
    });
    tables.sum()
}

#[test]
fn a_run_is_read_as_it_is_meant() {
    let document = build(&sample::run());
    let text = render(&document);
    let (tables, folds) = check(&text);
    assert_eq!(tables, tables_of(&document));
    assert!(folds > document.sections.len() / 2, "{folds}");
}

/// A report of `experiments`, each with a long table, a manual and hostile texts.
fn large(experiments: usize) -> Document {
    let text = |n: usize| HOSTILE[n % HOSTILE.len()].to_owned();
    let sections = (0..experiments).map(|n| {
        let table = Table {
            caption: text(n),
            columns: vec![Column::text(&text(n + 1)), Column::number("measured")],
            rows: (0..n + 30)
                .map(|k| Row::always_shown(vec![Cell::plain(text(k)), Cell::plain("1.25 ns")]))
                .collect(),
        };
        let blocks = vec![
            Block::Paragraph(format!("question {n} {}", text(n))),
            Block::Table(table),
            Block::Notes(vec![Remark::new(Severity::Note, text(n), text(n))]),
            Block::Manual("# Method\n\nIt <b>counts</b>, as `a<b>` says.\n".repeat(20)),
        ];
        Section {
            id: format!("family.x{n}"),
            heading: format!("family.x{n}: {}", text(n)),
            blocks: blocks.into_iter().map(|block| (Audience::Everyone, block)).collect(),
        }
    });
    Document::new(text(1), text(0), sections.collect())
}

#[test]
fn every_table_is_there_however_many() {
    for experiments in [0, 1, 5, 120] {
        let (tables, _) = check(&render(&large(experiments)));
        assert_eq!(tables, 2 * experiments);
    }
}
