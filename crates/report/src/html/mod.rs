//! A report as one page that opens from a file, offline: style, data and the plotting library are
//! in it. Without JavaScript, plots are missing and every table stays.

#[cfg(test)]
mod library;
mod manual;
mod packed;
mod picture;
mod table;
mod ticks;

use super::document::{Audience, Block, Document, Section};
use super::plain;
use analysis::findings::Severity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use picture::Pictures;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const PLOTS: &str = include_str!("plots.js");
const PAGE: &str = include_str!("page.js");

/// The plotting library, reduced and packed, and the digest of its script, both by `build.rs`.
const LIBRARY: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.packed"));
const LIBRARY_DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.sha256"));

/// Sections that the summary at the top is about.
const SUMMED_UP: [&str; 4] = ["crosscheck", "figures", "score", "findings"];

/// Notes above which a list of nothing but notes starts folded.
const MANY_NOTES: usize = 5;

/// The page.
pub fn render(document: &Document) -> String {
    let document = &plain::document(document);
    let mut pictures = Pictures::default();
    let sections: Vec<Markup> =
        visible(document).map(|section| of_section(section, &mut pictures)).collect();
    let script = format!("{PLOTS}{PAGE}");
    let digest = STANDARD.encode(Sha256::digest(&script));
    let digests: &[&str] = match pictures.is_empty() {
        true => &[],
        false => &[&digest, LIBRARY_DIGEST],
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy(digests));
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
                        (jumps(document))
                    }
                    @for section in &sections { (section) }
                }
                @if !pictures.is_empty() {
                    script id="pictures" type="text/plain" { (PreEscaped(packed::pack(&pictures.json()))) }
                    script id="plotly" type="text/plain" { (PreEscaped(LIBRARY)) }
                    script { (PreEscaped(&script)) }
                }
            }
        }
    };
    page.into_string()
}

/// Nothing may be fetched: the page could not phone home if it wanted to. Nothing may run but what
/// has the digest of one of the page's own scripts: not what a run's texts would bring in, if they
/// ever came to be taken for markup.
fn policy(digests: &[&str]) -> String {
    let digests: String = digests.iter().map(|digest| format!(" 'sha256-{digest}'")).collect();
    let scripts = match digests.is_empty() {
        true => " 'none'",
        false => digests.as_str(),
    };
    format!(
        "default-src 'none'; script-src{scripts}; style-src 'unsafe-inline'; img-src data: blob:; \
         font-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// What a page's script draws, as JSON.
#[cfg(test)]
pub fn pictures(page: &str) -> String {
    let (_, after) = page.split_once("id=\"pictures\"").expect("pictures in the page");
    let packed = after.split_once('>').and_then(|(_, after)| after.split_once('<'));
    packed::unpack(packed.expect("an element").0)
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

/// Ways from the summary to what it counts.
fn jumps(document: &Document) -> Markup {
    let of_summary = |section: &&Section| SUMMED_UP.contains(&section.id.as_str());
    let sections: Vec<&Section> = visible(document).filter(of_summary).collect();
    html! {
        @if !sections.is_empty() {
            p.jumps {
                @for (at, section) in sections.iter().enumerate() {
                    @if at > 0 { " · " }
                    a href={ "#" (section.id) } { (section.heading) }
                }
            }
        }
    }
}

fn visible(document: &Document) -> impl Iterator<Item = &Section> {
    document.sections.iter().filter(|section| {
        section.blocks.iter().any(|(audience, _)| *audience != Audience::Terminal)
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
            Block::Folded { summary, blocks } => details {
                summary { (summary) }
                @for block in blocks { (of_block(block, level, pictures)) }
            },
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
    let (plain, urgent): (Vec<_>, Vec<_>) =
        notes.iter().partition(|(severity, _)| *severity == Severity::Note);
    html! {
        (list(&urgent))
        @if plain.len() > MANY_NOTES {
            details.list { summary { (plain.len()) " notes" } (list(&plain)) }
        } @else {
            (list(&plain))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, Engine, LIBRARY, LIBRARY_DIGEST, STANDARD, STYLE, Sha256, packed, policy};
    use std::collections::BTreeMap;

    /// Names of colours with their light and dark red, green and blue.
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
    fn only_the_pages_own_scripts_may_run() {
        let two = "script-src 'sha256-abc' 'sha256-def';";
        assert!(policy(&["abc", "def"]).contains(two));
        assert!(policy(&[]).contains("script-src 'none';"));
        let library = packed::unpack(LIBRARY);
        assert_eq!(LIBRARY_DIGEST, STANDARD.encode(Sha256::digest(library)));
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
