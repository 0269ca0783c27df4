//! A report as one page that opens from a file, offline: style, data and pictures are in it. Without
//! JavaScript, plots are missing and every table stays.

mod contents;
mod finder;
mod keys;
mod manual;
mod packed;
mod picture;
mod table;

use super::document::{Block, Document, Section, Table};
use super::svg;
use analysis::findings::Severity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use picture::Pictures;
use serde_json::json;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const PLOTS: &str = include_str!("plots.js");
const FINDER: &str = include_str!("find.js");
const PAGE: &str = include_str!("page.js");

/// Rows above which a table, which is folded, is filled in by the page's script: a few ladders are
/// half of all rows.
const PACKED_ROWS: usize = 60;

/// Where the same stands for those without scripts.
const IN_FULL: &str = "`plumb report RUN -f markdown` has it.";

/// Notes above which a list of nothing but notes starts folded.
const MANY_NOTES: usize = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Print {
    #[default]
    Full,
    /// What fits twenty sheets: results, the question and first plot of each experiment.
    Short,
}

impl Print {
    fn text(self) -> &'static str {
        match self {
            Print::Full => "full",
            Print::Short => "short",
        }
    }
}

pub fn render(document: &Document, print: Print) -> String {
    let shown = contents::in_order(document);
    let mut drawn = Drawn::default();
    let sections: Vec<Markup> =
        shown.iter().map(|section| of_section(section, &mut drawn)).collect();
    let script = format!("{PLOTS}{FINDER}{PAGE}");
    let digest = STANDARD.encode(Sha256::digest(&script));
    let has_script = !drawn.is_empty();
    let packed =
        |id: &str, text: &str| html! { script id=(id) type="text/plain" { (PreEscaped(text)) } };
    let page = html! {
        (DOCTYPE)
        html lang="en" data-print=(print.text()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy(has_script.then_some(&digest)));
                title { (document.title) }
                style { (PreEscaped(STYLE)) }
                style #plot-style { (PreEscaped(svg::STYLE)) }
            }
            body {
                a.skip href="#report" { "Skip to the report" }
                nav aria-label="Contents" { (contents::render(&shown)) }
                main id="report" tabindex="-1" {
                    header {
                        h1 { (document.title) }
                        // The first screen of a report says it at more length.
                        @if !contents::is_report(&shown) { p.summary { (document.summary) } }
                    }
                    @for section in &sections { (section) }
                }
                @if has_script {
                    @if let Some(figures) = &drawn.figures { (packed("rows", &packed::pack(figures))) }
                    @if !drawn.folded.is_empty() { (packed("folded", &packed::pack(&json!(drawn.folded).to_string()))) }
                    @if !drawn.pictures.is_empty() { (packed("pictures", &packed::pack(&drawn.pictures.json()))) }
                    script { (PreEscaped(&script)) }
                }
            }
        }
    };
    page.into_string()
}

/// What the page's script draws.
#[derive(Default)]
struct Drawn {
    pictures: Pictures,
    figures: Option<String>,
    /// Markup of what is folded and filled in when it is opened.
    folded: Vec<String>,
}

impl Drawn {
    fn is_empty(&self) -> bool {
        self.pictures.is_empty() && self.figures.is_none() && self.folded.is_empty()
    }

    /// An element that the script fills when it is opened; `instead` says where the same stands for
    /// those without scripts.
    fn fold(
        &mut self,
        class: Option<&str>,
        summary: &str,
        inside: Markup,
        instead: &str,
    ) -> Markup {
        self.folded.push(inside.into_string());
        html! {
            details class=[class] data-fold=(self.folded.len() - 1) {
                summary { (summary) }
                div { noscript { (instead) } }
            }
        }
    }
}

/// Nothing may be fetched: the page could not phone home if it wanted to. Nothing may run but what
/// has the digest of the page's own script: not what a run's texts would bring in, if they ever came
/// to be taken for markup.
fn policy(digest: Option<&String>) -> String {
    let script = digest.map_or_else(|| "'none'".to_owned(), |digest| format!("'sha256-{digest}'"));
    format!(
        "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data: blob:; \
         font-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// What a page's script draws of plots, as JSON.
#[cfg(test)]
pub fn pictures(page: &str) -> String {
    packed_in(page, "pictures")
}

/// What a page's script draws under an id, as JSON.
#[cfg(test)]
pub fn packed_in(page: &str, id: &str) -> String {
    let (_, after) = page.split_once(&format!("id=\"{id}\"")).expect("packed in the page");
    let packed = after.split_once('>').and_then(|(_, after)| after.split_once('<'));
    packed::unpack(packed.expect("an element").0)
}

fn of_section(section: &Section, drawn: &mut Drawn) -> Markup {
    // Headings of a manual go on from the last one above it.
    let mut level = manual::Level::Third;
    html! {
        section id=(section.id) data-figures[contents::is_experiment(section)] {
            h2 {
                @match section.heading.split_once(": ") {
                    Some((id, title)) => { (title) " " code { (id) } }
                    None => (section.heading),
                }
            }
            @for blocks in section.blocks.chunk_by(|(_, one), (_, next)| is_picture(one) && is_picture(next)) {
                @if let [(_, first), ..] = blocks && is_picture(first) {
                    div.plots { @for (_, block) in blocks { (of_block(block, level, drawn)) } }
                } @else {
                    @for (_, block) in blocks {
                        @if let Block::Subheading(_) = block { @let () = level = manual::Level::Fourth; }
                        (of_block(block, level, drawn))
                    }
                }
            }
        }
    }
}

/// Whether it stands beside others of its kind.
fn is_picture(block: &Block) -> bool {
    matches!(block, Block::Plot(_) | Block::Grid(_))
}

fn of_block(block: &Block, level: manual::Level, drawn: &mut Drawn) -> Markup {
    html! {
        @match block {
            Block::Paragraph(text) => p { (text) },
            Block::Subheading(text) => h3 { (text) },
            Block::KeyValues(pairs) => dl {
                @for (name, text) in pairs { div { dt { (name) } dd { (text) } } }
            },
            Block::Table(table) if table.rows.len() > PACKED_ROWS => {
                (drawn.fold(Some("list"), &table::summary(table), table::grid(table), IN_FULL))
            },
            Block::Table(table) => (table::render(table)),
            Block::Keys(all) => (keys::render(all)),
            Block::Figures(table, spreads) => {
                @let () = drawn.figures = Some(finder::json(table, spreads));
                (finder::element(table))
            },
            Block::Plot(plot) => (drawn.pictures.plot(plot)),
            Block::Grid(grid) => (drawn.pictures.grid(grid)),
            Block::Notes(remarks) => {
                @let rows = html! { div.remarks { (table::grid(&Table::of_remarks(remarks))) } };
                @if remarks.len() > MANY_NOTES && remarks.iter().all(|one| one.severity == Severity::Note) {
                    (drawn.fold(Some("list"), &format!("{} notes", remarks.len()), rows, IN_FULL))
                } @else {
                    (rows)
                }
            },
            Block::Folded { summary, blocks } => {
                @let inside = html! { @for block in blocks { (of_block(block, level, drawn)) } };
                (drawn.fold(None, summary, inside, IN_FULL))
            },
            Block::Words(text) => div.words { (manual::render(text, level)) },
            Block::Manual(text) => {
                @let inside = html! { div.manual { (manual::render(text, level)) } };
                (drawn.fold(None, "Manual of this experiment", inside, "`plumb explain ID` prints it."))
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STYLE, policy};
    use std::collections::BTreeMap;

    fn colours() -> BTreeMap<&'static str, [[f64; 3]; 2]> {
        let declared = STYLE.split("--").filter_map(|text| {
            let (name, after) = text.split_once(": light-dark(")?;
            let (both, _) = after.split_once(')')?;
            let (light, dark) = both.split_once(", ")?;
            let parts = |hex: &str| {
                [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()))
            };
            Some((name, [parts(light), parts(dark)]))
        });
        declared.collect()
    }

    /// Relative luminance, WCAG 2.2.
    fn luminance(colour: [f64; 3]) -> f64 {
        let linear = colour.map(|part| match part / 255.0 {
            low if low <= 0.040_45 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        f64::max(one, other) / f64::min(one, other)
    }

    #[test]
    fn only_the_pages_own_script_may_run() {
        assert!(policy(Some(&"abc".to_owned())).contains("script-src 'sha256-abc';"));
        assert!(policy(None).contains("script-src 'none';"));
    }

    #[test]
    fn text_and_lines_stand_out_in_both_schemes() {
        assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
        let colours = colours();
        let texts = ["text", "muted", "accent", "good", "warn", "bad", "marker"].map(String::from);
        let lines = (1..=8).map(|at| format!("series-{at}"));
        // WCAG 2.2: 1.4.3 for text, 1.4.11 for what carries meaning in a picture.
        let least = texts.into_iter().map(|name| (name, 4.5));
        for (name, least) in least.chain(lines.map(|name| (name, 3.0))) {
            for ground in ["page", "raised", "soft"] {
                for (scheme, at) in [("light", 0), ("dark", 1)] {
                    let found = contrast(colours[name.as_str()][at], colours[ground][at]);
                    assert!(found >= least, "{scheme} {name} on {ground}: {found:.2}");
                }
            }
        }
    }
}
