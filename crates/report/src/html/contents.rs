//! The navigation: sections by family, each with a dot that says how its verdicts came out.

use crate::document::{Block, Document, Section, Table, Tone};
use maud::{Markup, html};
use record::order::InOrder;

const FAMILIES: &[(&str, &str)] = &[
    ("clock", "Clock"),
    ("cpu", "Processor"),
    ("memory", "Memory"),
    ("os", "Operating system"),
    ("fs", "Files"),
    ("net", "Network"),
    ("noise", "Noise"),
];

/// The section that a run's report begins with, and no other document.
const OVERVIEW: &str = "overview";

/// Sections of a run's report before the experiments, in reading order; what has no place here and
/// is no experiment stands after them.
const FIRST: [&str; 8] =
    ["author", OVERVIEW, "estimates", "crosscheck", "findings", "figures", "conclusions", "score"];

/// Share of the judged figures within their prediction from which on a section is as predicted:
/// predicted intervals should hold nine figures in ten.
const AS_PREDICTED: f64 = 0.9;

pub fn is_report(sections: &[&Section]) -> bool {
    sections.iter().any(|section| section.id == OVERVIEW)
}

/// The sections that have something for the page, those of a run's report in the page's order.
pub fn in_order(document: &Document) -> Vec<&Section> {
    let place = |section: &&Section| match FIRST.iter().position(|id| *id == section.id) {
        Some(at) => at,
        None if is_experiment(section) => FIRST.len(),
        None => FIRST.len() + 1,
    };
    let mut sections: Vec<&Section> =
        document.sections.iter().filter(|section| !section.blocks.is_empty()).collect();
    if is_report(&sections) {
        sections.order_by_key(place);
    }
    sections
}

pub fn is_experiment(section: &Section) -> bool {
    section.id.contains('.')
}

fn family<'section>(
    section: &'section Section,
    before: Option<&&Section>,
) -> Option<&'section str> {
    let of = |section: &'section Section| section.id.split_once('.').map(|(family, _)| family);
    let own = of(section)?;
    let last = before.and_then(|before| before.id.split_once('.')).map(|(family, _)| family);
    (last != Some(own)).then(|| name(own))
}

fn name(family: &str) -> &str {
    FAMILIES.iter().find(|(id, _)| *id == family).map_or(family, |(_, name)| name)
}

pub fn render(sections: &[&Section]) -> Markup {
    html! {
        p.brand { "plumb" }
        button #scheme type="button" hidden {}
        button #menu type="button" popovertarget="contents" { "Contents" }
        div #contents popover {
            ol {
                @for (at, section) in sections.iter().enumerate() {
                    @let before = at.checked_sub(1).and_then(|before| sections.get(before));
                    @if let Some(family) = family(section, before) {
                        li.family { (family) }
                    } @else if !is_experiment(section) && before.is_some_and(|one| is_experiment(one)) {
                        li.family { "The run" }
                    }
                    li { (link(section, is_report(sections))) }
                }
            }
        }
    }
}

fn link(section: &Section, is_judged: bool) -> Markup {
    let verdicts = Verdicts::in_section(section);
    html! {
        a href={ "#" (section.id) } {
            @if is_experiment(section) && !is_judged {
                code { (section.heading.split_once(": ").map_or(section.id.as_str(), |(id, _)| id)) }
            } @else if is_experiment(section) {
                span.dot.(verdicts.class()) aria-hidden="true" {}
                code { (section.id) }
                @if verdicts.judged > 0 {
                    " " span.held { (verdicts.within) "/" (verdicts.judged) span.unseen { " as predicted" } }
                }
            } @else {
                (section.heading)
            }
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct Verdicts {
    within: usize,
    judged: usize,
    is_wrong: bool,
}

impl Verdicts {
    fn in_section(section: &Section) -> Verdicts {
        let mut found = Verdicts::default();
        for (_, block) in &section.blocks {
            if let Block::Table(table) = block {
                found.count(table);
            }
        }
        found
    }

    fn count(&mut self, table: &Table) {
        let cells = table.rows.iter().flat_map(|row| &row.cells);
        for tone in cells.map(|cell| cell.tone) {
            self.within += usize::from(tone == Tone::Good);
            self.judged += usize::from(matches!(tone, Tone::Good | Tone::Warn | Tone::Bad));
            self.is_wrong |= tone == Tone::Bad;
        }
    }

    fn class(&self) -> &'static str {
        match self.judged {
            0 => "none",
            _ if self.is_wrong => "bad",
            judged if self.within as f64 >= AS_PREDICTED * judged as f64 => "good",
            _ => "warn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdicts, in_order, render};
    use crate::document::{Block, Cell, Document, Row, Section, Table, Tone};

    fn section(id: &str, tones: &[Tone]) -> Section {
        let rows =
            tones.iter().map(|tone| Row::always_shown(vec![Cell::toned("a verdict", *tone)]));
        let table = Table::new("", &["verdict"], rows);
        Section::new(id, id, vec![Block::Table(table).for_all()])
    }

    #[test]
    fn a_dot_says_how_the_verdicts_came_out() {
        let class = |tones: &[Tone]| Verdicts::in_section(&section("os.pipe", tones)).class();
        assert_eq!(class(&[Tone::Muted, Tone::Plain]), "none");
        assert_eq!(class(&[Tone::Good; 9]), "good");
        assert_eq!(class(&[[Tone::Good; 9].as_slice(), &[Tone::Warn]].concat()), "good");
        assert_eq!(class(&[Tone::Good, Tone::Warn]), "warn");
        assert_eq!(class(&[[Tone::Good; 9].as_slice(), &[Tone::Bad]].concat()), "bad");
    }

    #[test]
    fn experiments_stand_by_family_between_the_results_and_the_run() {
        let ids = ["machine", "cpu.call", "os.pipe", "os.syscall", "figures", "overview"];
        let sections = ids.map(|id| section(id, &[Tone::Good])).to_vec();
        let document = Document::new("", "", sections);
        let sections = in_order(&document);
        let order: Vec<&str> = sections.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(order, ["overview", "figures", "cpu.call", "os.pipe", "os.syscall", "machine"]);
        let page = render(&sections).into_string();
        assert_eq!(page.matches("class=\"family\"").count(), 3, "two families and the run: {page}");
        assert_eq!(page.matches("class=\"dot good\"").count(), 3, "{page}");
        // A comparison is no report: its order is its own, and its tones are no verdicts.
        let ids = ["runs", "os.pipe", "findings"];
        let sections = ids.map(|id| section(id, &[Tone::Good])).to_vec();
        let document = Document::new("", "", sections);
        let sections = in_order(&document);
        let order: Vec<&str> = sections.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(order, ids);
        assert!(!render(&sections).into_string().contains("class=\"dot"));
    }
}
