//! `plumb explain`: an experiment's manual with the works that it cites, a word of the screen, or the manual of a row's
//! figure.

use crate::cmd::{Failure, output};
use crate::packed::packed;
use bench::experiment::{AnyExperiment, Preset, Role, Site};
use catalogue::{FAMILIES, find};
use report::document::{Block, Document, Section};
use report::terminal;
use session::defaults::defaults;
use session::select::{domain_text, near};
use session::setup::site_here;
use std::io::IsTerminal;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

/// The one bibliography: an entry is a line `- [KEY] WORK`.
static BIBLIOGRAPHY: LazyLock<String> = LazyLock::new(|| packed!("REFERENCES.md"));

/// The words of the screen: an item is `- **WORD**, WORD …: MEANING`.
static WORDS: LazyLock<String> = LazyLock::new(|| packed!("words.md"));

/// Prints the manual of an experiment, or those of a family: question, method, prediction, pitfalls,
/// sources, parameters with their defaults in each preset, metrics, and the works that are cited. Explains words and rows
/// of the screen, too.
#[derive(clap::Args)]
pub struct Args {
    /// Experiment, family, or word or row of the screen: memory.latency, alone, 'system call, null'
    #[arg(value_name = "ID")]
    id: String,
}

pub fn run(args: Args) -> Result<(), Failure> {
    if let Some(text) = explained(&args.id) {
        return Ok(output::page(&text)?);
    }
    let family = FAMILIES.iter().find(|family| family.name == args.id);
    let page = |experiment: &'static dyn AnyExperiment| -> Result<String, Failure> {
        Ok(page(experiment, &here()?) + &references(experiment))
    };
    let pages: Vec<String> = match (find(&args.id), family) {
        (Some(experiment), _) => vec![page(experiment)?],
        (None, Some(family)) => {
            let experiments = family.experiments.iter();
            experiments.map(|one| page(*one)).collect::<Result<_, _>>()?
        }
        (None, None) => {
            return Err(Failure::Usage(format!(
                "no experiment, family, word or row of the screen is `{}`{} `plumb list` shows all experiments",
                args.id,
                near(&args.id, FAMILIES)
            )));
        }
    };
    let pages = match std::io::stdout().is_terminal() {
        true => {
            pages.iter().map(|page| terminal::render(&laid_out(page), output::look())).collect()
        }
        false => pages,
    };
    Ok(output::page(&pages.join("\n"))?)
}

/// What a word means, and where figures of the rows are explained whose titles have all words of a text.
fn explained(text: &str) -> Option<String> {
    if find(text).is_some() || FAMILIES.iter().any(|family| family.name == text) {
        return None;
    }
    let meant = meaning(text).map(|meaning| format!("{meaning}\n"));
    let found = rows().filter(|(title, _)| has_words(title, text));
    let rows =
        found.map(|(title, id)| format!("`{title}` is a figure of {id}: plumb explain {id}\n"));
    let lines: Vec<String> = meant.into_iter().chain(rows).collect();
    (!lines.is_empty()).then(|| lines.concat())
}

/// The item of a word, in any case of its letters.
fn meaning(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let items = WORDS.lines().filter_map(|line| line.strip_prefix("- "));
    let item = items.map(|item| item.replace("**", "")).find(|item| {
        let (words, _) = item.split_once(": ").unwrap_or((item, ""));
        words.split(", ").any(|one| one.to_lowercase() == word)
    })?;
    Some(item)
}

/// Title of each row of the screen, with the experiment whose figure it is.
fn rows() -> impl Iterator<Item = (String, &'static str)> {
    let shown = FAMILIES.iter().filter(|family| !family.hidden);
    let cards = shown.flat_map(|family| family.experiments).map(|one| one.card());
    cards.flat_map(|card| card.keys.iter().map(|key| (key.title(), card.id)))
}

/// Whether a row's title has all words of a text, or the text those of the title: on the screen a far
/// end stands before it.
fn has_words(title: &str, text: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|letter: char| letter.is_whitespace() || ",:".contains(letter));
        parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let (title, text) = (words(title), words(text));
    let has = |all: &[String], some: &[String]| some.iter().all(|word| all.contains(word));
    !text.is_empty() && (has(&title, &text) || has(&text, &title))
}

/// A manual's Markdown as a document: headings, paragraphs and items, without their marks.
fn laid_out(markdown: &str) -> Document {
    let mut document = Document::new("", "", Vec::new());
    let mut is_open = false;
    for line in markdown.lines() {
        let line = line.trim().replace('`', "");
        if let Some(heading) = line.strip_prefix("# ") {
            heading.clone_into(&mut document.title);
        } else if let Some(heading) = line.strip_prefix("## ") {
            document.sections.push(Section::new(heading, heading, Vec::new()));
        } else if let Some(section) = document.sections.last_mut() {
            let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
            match (section.blocks.last_mut(), item) {
                (_, Some(item)) => {
                    section.blocks.push(Block::text(format!("• {item}")).for_all());
                }
                (Some((_, Block::Paragraph(text))), None) if is_open && !line.is_empty() => {
                    text.push(' ');
                    text.push_str(&line);
                }
                (_, None) if !line.is_empty() => section.blocks.push(Block::text(&line).for_all()),
                _ => {}
            }
        } else if !line.is_empty() {
            document.summary = format!("{} {line}", document.summary).trim().to_owned();
        }
        is_open = !line.is_empty() && !line.starts_with('#');
    }
    document
}

/// This machine, as a run in the current directory would find it.
fn here() -> Result<Site, Failure> {
    Ok(site_here(None, None, Preset::Quick, &AtomicBool::new(false))?)
}

/// The values of the three presets.
fn stated(defaults: &[Option<String>; 3]) -> String {
    let [quick, standard, thorough] =
        defaults.each_ref().map(|text| text.as_deref().unwrap_or("none here"));
    match (quick == standard, standard == thorough) {
        (true, true) => format!("default {quick}"),
        (false, true) => format!("default {quick} in quick, {standard} in standard and thorough"),
        (true, false) => format!("default {quick} in quick and standard, {thorough} in thorough"),
        (false, false) => {
            format!("default {quick} in quick, {standard} in standard, {thorough} in thorough")
        }
    }
}

/// Key and line of each work.
fn works() -> impl Iterator<Item = (&'static str, &'static str)> {
    let work = |line: &'static str| Some((line.strip_prefix("- [")?.split_once(']')?.0, line));
    BIBLIOGRAPHY.lines().filter_map(work)
}

/// The works that an experiment's manual cites, in the bibliography's order.
fn references(experiment: &dyn AnyExperiment) -> String {
    let manual = experiment.manual();
    let cited = works().filter(|(key, _)| manual.contains(&format!("[{key}]")));
    let lines: String = cited.map(|(_, line)| format!("{line}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n## References\n\n{lines}") }
}

/// The manual of an experiment with what its card says, and the defaults at a site.
fn page(experiment: &dyn AnyExperiment, site: &Site) -> String {
    let card = experiment.card();
    let mut text =
        format!("# {}: {}\n\n{}\n## Values\n\n", card.id, card.title, experiment.manual());
    if card.params.is_empty() {
        text.push_str("It takes no parameters.\n");
    }
    for (param, defaults) in defaults(experiment, site) {
        let role = match param.role {
            Role::Setting => "a setting",
            Role::Case => "names cases",
        };
        text.push_str(&format!(
            "- `{}` ({role}): {}. It takes {}; {}.\n",
            param.name,
            param.doc.trim_end_matches('.'),
            domain_text(&param.domain),
            stated(&defaults),
        ));
    }
    text.push_str("\n## Metrics\n\n");
    for metric in card.metrics {
        let derived = if metric.derived { ", derived" } else { "" };
        let lacking = match experiment.may_lack(metric) {
            true => ", if there is one",
            false => "",
        };
        text.push_str(&format!(
            "- `{}` ({}{derived}{lacking}): {}.\n",
            metric.name,
            metric.unit,
            metric.doc.trim_end_matches('.')
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{explained, laid_out, meaning, page, references, rows, works};
    use analysis::compare::{Measured, compare};
    use analysis::history::History;
    use analysis::paired::paired;
    use analysis::{figures, sample};
    use bench::experiment::Preset;
    use catalogue::FAMILIES;
    use report::build;
    use report::document::{Block, Document, Section};
    use report::terminal::{Look, screen};
    use session::fixtures::recorded_sites;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn a_manual_is_laid_out_without_its_marks() {
        let found = laid_out(
            "# a.b: Title\n\nWhat?\n\n## Question\n\nHow `long`\nis it?\n\n- one\n  more\n- two\n",
        );
        assert_eq!((found.title.as_str(), found.summary.as_str()), ("a.b: Title", "What?"));
        let section = &found.sections[0];
        assert_eq!(section.heading, "Question");
        // Lines of a paragraph and of an item are one.
        let texts =
            ["How long is it?", "• one more", "• two"].map(|text| Block::text(text).for_all());
        assert_eq!(section.blocks, texts);
    }

    #[test]
    fn each_row_and_each_word_of_the_screen_is_explained() {
        for (title, id) in rows() {
            let found = explained(&title).unwrap_or_default();
            assert!(found.contains(&format!("plumb explain {id}")), "{title}: {found}");
        }
        let trip = explained("loopback: TCP round trip").unwrap_or_default();
        assert!(trip.contains("plumb explain net.rtt"), "{trip}");
        let null = explained("null call").unwrap_or_default();
        assert!(null.contains("plumb explain os.syscall"), "{null}");
        assert_eq!(explained("selftest.ecko"), None);
    }

    /// Headings of tables and names of values; verdicts, which are the last cells of rows.
    fn words(document: &Document) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        for (_, block) in document.sections.iter().flat_map(|section| &section.blocks) {
            match block {
                Block::KeyValues(pairs) => words.extend(pairs.iter().map(|(name, _)| name.clone())),
                Block::Table(table) => {
                    words.extend(table.columns.iter().map(|column| column.heading.clone()));
                    let is_verdict =
                        table.columns.last().is_some_and(|column| column.heading == "verdict");
                    let last = table.rows.iter().filter_map(|row| row.cells.last());
                    let verdicts = last.filter(|_| is_verdict).map(|cell| cell.text.clone());
                    words.extend(verdicts);
                }
                _ => {}
            }
        }
        words
    }

    #[test]
    fn each_word_of_what_is_printed_is_explained() {
        let run = sample::run();
        let summary = build::summary::screen(&run);
        let screen = screen(&summary, &[], Look { width: 100, colours: false });
        let keys = Block::Table(summary.keys).for_all();
        let mut all = words(&Document::new("", "", vec![Section::new("", "", vec![keys])]));
        // Labels stand in capitals at the beginning of lines.
        all.extend(screen.lines().map(|line| {
            let is_label =
                |word: &&str| word.len() > 1 && word.bytes().all(|one| one.is_ascii_uppercase());
            line.split(' ').take_while(is_label).collect::<Vec<_>>().join(" ")
        }));
        let runs = [(); 2].map(|()| Measured { run: &run, figures: figures(&run) });
        let comparison = compare(&runs, &History::default()).expect("two runs");
        all.extend(words(&build::compare::build(&comparison, false)));
        let figures = paired(&run, &run);
        let pairs =
            build::paired::Comparison { commands: ["a", "b"], runs: ["a", "b"], figures: &figures };
        all.extend(words(&build::paired::build(&pairs)));
        assert!(["LOOK AT", "CPU", "AROUND", "B / A"].iter().all(|word| all.contains(*word)));
        // In captions, notes and lines of the screen.
        let others =
            ["§", "alone", "as found", "no interval", "two modes", "disturbed", "steal", "%"];
        all.extend(others.map(str::to_owned));
        for word in all.iter().filter(|word| !word.is_empty()) {
            // `1.4× slower`, `no change seen (±3 %)`
            let word = word.split_once("× ").map_or(word.as_str(), |(_, word)| word);
            let word = word.split(" seen").next().unwrap_or(word);
            assert!(meaning(word).is_some(), "{word} is not in docs/guide/words.md");
        }
    }

    /// The keys in brackets of a manual's sources.
    fn cited(manual: &str) -> BTreeSet<&str> {
        let (_, sources) = manual.split_once("## Sources").expect("a law of the catalogue");
        let parts = sources.split('[').skip(1);
        parts.filter_map(|part| Some(part.split_once(']')?.0)).collect()
    }

    #[test]
    fn every_manual_cites_the_bibliography_and_every_work_in_it_is_cited() {
        let keys: Vec<&str> = works().map(|(key, _)| key).collect();
        let all: BTreeSet<&str> = keys.iter().copied().collect();
        assert_eq!(all.len(), keys.len(), "a key stands twice");
        let shown = FAMILIES.iter().filter(|family| !family.hidden);
        let mut used = BTreeSet::new();
        for experiment in shown.flat_map(|family| family.experiments) {
            let (id, manual) = (experiment.card().id, experiment.manual());
            let cited = cited(&manual);
            assert!(!cited.is_empty(), "{id} cites nothing");
            let unknown: Vec<_> = cited.iter().filter(|key| !all.contains(*key)).collect();
            assert!(unknown.is_empty(), "{id}: {unknown:?}");
            assert_eq!(references(*experiment).matches("\n- [").count(), cited.len(), "{id}");
            used.extend(cited.into_iter().map(str::to_owned));
        }
        let unused: Vec<_> = all.iter().filter(|key| !used.contains(**key)).collect();
        assert!(unused.is_empty(), "nobody cites {unused:?}");
    }

    /// docs/EXPERIMENTS.md is the manuals of all experiments; `UPDATE_DOCS=1` rewrites it.
    #[test]
    fn manual_page_is_current() {
        let mut text =
            "<!-- Made from the sources: UPDATE_DOCS=1 cargo test --lib manual_page -->\n\n\
             Defaults that the machine decides are those of the recorded host vm-granite-rapids.\n\n\
             `--set ID.PARAM=VALUE` takes one value, several (`1,2,4`) or a range. Numbers of a range go \
             up by one (`0..7`), sizes in bytes double (`4KiB..1MiB`), and `LOW..HIGH/STEP` goes up by a \
             step (`1000..8000/1000`).\n\n\
             Works in brackets are in [REFERENCES.md](REFERENCES.md).\n\n"
                .to_owned();
        let sites = recorded_sites(Preset::Standard);
        let site = sites.iter().find(|(name, _)| name == "vm-granite-rapids");
        let (_, site) = site.expect("a recorded host");
        for family in FAMILIES.iter().filter(|family| !family.hidden) {
            for experiment in family.experiments {
                text.push_str(&page(*experiment, site));
                text.push('\n');
            }
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EXPERIMENTS.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == text,
            "docs/EXPERIMENTS.md is stale: UPDATE_DOCS=1 cargo test --lib manual_page"
        );
    }
}
