//! What of a report goes into the room that there is.

/// A block as text.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// What goes in first.
    pub(super) weight: Weight,
    /// Whether it stands for others, or others for it.
    pub(super) shown: Shown,
    /// The title (HTML) under which it is folded; neighbours with the same one are folded together.
    pub(super) fold: Option<String>,
    /// What it is called where it is left out.
    pub(super) what: &'static str,
    /// Markdown, ending in a newline.
    pub(super) text: String,
}

/// What a part weighs, heaviest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// What to look at.
    Findings,
    /// Sentences: questions, discussion.
    Words,
    /// The machine, the score, how it was measured.
    Facts,
    /// An experiment's figures.
    Tables,
    /// Remarks on single figures, and why some are absent.
    Remarks,
    /// What the page draws.
    Plots,
    /// What the predictions rest on.
    Reasons,
    /// The environment, and all figures a second time.
    Aside,
    /// How an experiment works: the same in every run.
    Manual,
}

/// Which of the tables of a section are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// In the short and in the full form.
    Always,
    /// Only in short.
    InShort,
    /// Only in full.
    InFull,
}

/// Heading and parts of a section, with which of them go in.
struct Chosen {
    heading: String,
    parts: Vec<(Part, bool)>,
}

/// Bytes that a line about what was left out may take.
const LEFT_OUT_BYTES: usize = 64;

/// What the text's head says of all sections: it stands where there is room, and is the same in
/// every run or of single figures.
const OF_ALL: &[&str] = &["the manual", "reasons", "remarks"];

/// The text with all parts that fit into `room_bytes`: by weight, within a weight the small ones
/// first, so that most sections have theirs. Title, summary and headings always stand.
pub(super) fn write(head: String, sections: Vec<(String, Vec<Part>)>, room_bytes: usize) -> String {
    let mut sections: Vec<Chosen> = sections
        .into_iter()
        .map(|(heading, parts)| Chosen {
            heading,
            parts: parts.into_iter().map(|part| (part, false)).collect(),
        })
        .collect();
    let headings: usize =
        sections.iter().map(|section| section.heading.len() + LEFT_OUT_BYTES).sum();
    let used = head.len() + ABOUT_THE_REST.len() + headings;
    let mut room = Room(room_bytes.saturating_sub(used));
    room.choose(&mut sections, |part| part.shown != Shown::InFull);
    room.grow(&mut sections);
    let mut text = head;
    let is_short = sections.iter().any(|section| !missed(section).is_empty());
    if is_short {
        text.push_str(ABOUT_THE_REST);
    }
    for section in &sections {
        put_section(&mut text, section);
    }
    text
}

const ABOUT_THE_REST: &str = "\nTo fit a comment, this report omits manuals, methods, reasons and \
    remarks, and what its sections list at their ends. The HTML and JSON reports are complete.\n";

/// Bytes that are left.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.0;
        if fits {
            self.0 -= bytes;
        }
        fits
    }

    /// Takes in what fits.
    fn choose(&mut self, sections: &mut [Chosen], may: impl Fn(&Part) -> bool) {
        let mut order: Vec<(Weight, usize, usize, usize)> = Vec::new();
        for (n, section) in sections.iter().enumerate() {
            for (k, (part, _)) in section.parts.iter().enumerate() {
                if may(part) {
                    order.push((part.weight, cost(part), n, k));
                }
            }
        }
        order.sort_unstable();
        for (_, bytes, n, k) in order {
            sections[n].parts[k].1 = self.take(bytes);
        }
    }

    /// Puts tables in full where short ones stand, as far as there is room: all of a section, or
    /// none.
    fn grow(&mut self, sections: &mut [Chosen]) {
        let mut order: Vec<(usize, usize)> = sections
            .iter()
            .enumerate()
            .map(|(n, section)| (bytes_of(section, Shown::InFull), n))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        order.sort_unstable();
        for (bytes, n) in order {
            let section = &mut sections[n];
            let given_up: usize = section
                .parts
                .iter()
                .filter(|(part, is_in)| *is_in && part.shown == Shown::InShort)
                .map(|(part, _)| cost(part))
                .sum();
            if bytes <= self.0 + given_up {
                self.0 = self.0 + given_up - bytes;
                for (part, is_in) in &mut section.parts {
                    match part.shown {
                        Shown::Always => {}
                        Shown::InShort => *is_in = false,
                        Shown::InFull => *is_in = true,
                    }
                }
            }
        }
    }
}

fn bytes_of(section: &Chosen, shown: Shown) -> usize {
    let parts = section.parts.iter().filter(|(part, _)| part.shown == shown);
    parts.map(|(part, _)| cost(part)).sum()
}

/// Bytes of a part where it stands alone.
fn cost(part: &Part) -> usize {
    let fold = part.fold.as_ref();
    let fold = fold.map_or(0, |title| opening(title).len() + CLOSING.len());
    part.text.len() + fold + 1
}

fn opening(title: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n")
}

const CLOSING: &str = "\n</details>\n";

/// What a section says that it lacks.
fn left_out(section: &Chosen) -> Vec<&'static str> {
    let mut found = missed(section);
    found.retain(|what| !OF_ALL.contains(what));
    found
}

/// What a section lacks. Short tables are missed only where no full one stands, and full ones where
/// even the short ones are not there.
fn missed(section: &Chosen) -> Vec<&'static str> {
    let mut found = Vec::new();
    let is_full = section.parts.iter().any(|(part, is_in)| *is_in && part.shown == Shown::InFull);
    for (part, is_in) in &section.parts {
        let is_stood_for = is_full && part.shown == Shown::InShort;
        let is_missed = !(*is_in || is_stood_for);
        let what = match part.shown {
            Shown::InFull => "tables in full",
            _ => part.what,
        };
        if is_missed && !found.contains(&what) {
            found.push(what);
        }
    }
    found
}

fn put_section(text: &mut String, section: &Chosen) {
    text.push_str(&section.heading);
    let mut open: Option<&str> = None;
    for (part, _) in section.parts.iter().filter(|(_, is_in)| *is_in) {
        let fold = part.fold.as_deref();
        if fold != open {
            if open.is_some() {
                text.push_str(CLOSING);
            }
            if let Some(title) = fold {
                text.push_str(&opening(title));
            }
            open = fold;
        }
        text.push('\n');
        text.push_str(&part.text);
    }
    if open.is_some() {
        text.push_str(CLOSING);
    }
    let left_out = left_out(section);
    if !left_out.is_empty() {
        text.push_str(&format!("\n*Left out: {}.*\n", left_out.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(weight: Weight, shown: Shown, bytes: usize) -> Part {
        Part {
            weight,
            shown,
            fold: None,
            what: "tables",
            text: format!("{}\n", "x".repeat(bytes - 1)),
        }
    }

    fn section(name: &str, parts: Vec<Part>) -> (String, Vec<Part>) {
        (format!("\n## {name}\n"), parts)
    }

    #[test]
    fn the_heavy_and_small_go_first() {
        let sections = vec![
            section(
                "a",
                vec![
                    part(Weight::Manual, Shown::Always, 10),
                    part(Weight::Words, Shown::Always, 300),
                    part(Weight::Tables, Shown::Always, 700),
                ],
            ),
            section("b", vec![part(Weight::Tables, Shown::Always, 200)]),
        ];
        let text = write("# t\n".to_owned(), sections, 1100);
        let found: Vec<usize> =
            text.lines().filter(|line| line.starts_with('x')).map(|line| line.len() + 1).collect();
        assert_eq!(found, [10, 300, 200]);
        assert!(text.contains("*Left out: tables.*") && text.contains("omits"));
        assert!(text.len() <= 1100);
    }

    #[test]
    fn full_tables_replace_short_ones_where_there_is_room() {
        let both = || {
            vec![
                part(Weight::Tables, Shown::InFull, 500),
                part(Weight::Tables, Shown::InShort, 100),
            ]
        };
        let with = |room: usize| {
            let sections = vec![section("a", both()), section("b", both())];
            write("# t\n".to_owned(), sections, room)
        };
        let count = |text: &str, bytes: usize| {
            let lines = text.lines();
            lines.filter(|line| line.len() + 1 == bytes && line.starts_with('x')).count()
        };
        let all = with(usize::MAX);
        assert_eq!((count(&all, 500), count(&all, 100)), (2, 0));
        assert!(!all.contains("Left out"));
        let some = with(1100);
        assert_eq!((count(&some, 500), count(&some, 100)), (1, 1));
        assert!(some.contains("*Left out: tables in full.*"));
        let none = with(300);
        assert_eq!((count(&none, 500), count(&none, 100)), (0, 0));
    }
}
