//! An author's own words: a title, the authors, an introduction, a text for each experiment, and
//! conclusions, from one file in Markdown.
//!
//! ```text
//! # Title of the report
//! Authors: A. Author, B. Author
//!
//! Introduction.
//!
//! ## os.syscall
//! What the author says of this experiment.
//!
//! ## Conclusions
//! The author's own.
//! ```

use crate::document::{Block, Document, Section};

/// The heading of notes about no experiment.
const CONCLUSIONS: &str = "Conclusions";
/// Begins the line that names the authors.
const AUTHORS: &str = "Authors:";

/// What an author says of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    title: Option<String>,
    authors: Option<String>,
    introduction: String,
    experiments: Vec<(String, String)>,
    conclusions: String,
}

impl Notes {
    /// Reads notes on a run that has these experiments. Errors: the line that names another one, and
    /// what the run has.
    pub fn parse(text: &str, experiments: &[&str]) -> Result<Notes, String> {
        let mut notes = Notes::default();
        let mut part: Option<String> = None;
        for (line, number) in text.lines().zip(1..) {
            if let Some(heading) = line.strip_prefix("## ").map(str::trim) {
                if heading != CONCLUSIONS && !experiments.contains(&heading) {
                    return Err(format!(
                        "line {number}: the run has no experiment `{heading}`; a heading is `{CONCLUSIONS}` or one of \
                         {}",
                        experiments.join(", ")
                    ));
                }
                part = Some(heading.to_owned());
                if heading != CONCLUSIONS {
                    notes.experiments.push((heading.to_owned(), String::new()));
                }
                continue;
            }
            let own = match part.as_deref() {
                Some(CONCLUSIONS) => &mut notes.conclusions,
                Some(_) => {
                    notes.experiments.last_mut().map(|(_, text)| text).expect("it was begun")
                }
                None if line.starts_with("# ") && notes.title.is_none() => {
                    notes.title = Some(line[2..].trim().to_owned());
                    continue;
                }
                None if line.starts_with(AUTHORS) && notes.authors.is_none() => {
                    notes.authors = Some(line[AUTHORS.len()..].trim().to_owned());
                    continue;
                }
                None => &mut notes.introduction,
            };
            own.push_str(line);
            own.push('\n');
        }
        Ok(notes)
    }

    /// Puts the notes into a report: the title, a first section, and a text in each experiment's
    /// section below its question.
    pub fn apply(self, document: Document) -> Document {
        let Document { title, summary, mut sections, .. } = document;
        for (id, text) in self.experiments {
            if let Some(section) = sections.iter_mut().find(|section| section.id == id) {
                let at = section.blocks.len().min(1);
                section.blocks.insert(at, Block::Words(text).for_all());
            }
        }
        let mut blocks = vec![Block::Words(self.introduction)];
        if !self.conclusions.trim().is_empty() {
            blocks.extend([
                Block::Subheading(CONCLUSIONS.to_owned()),
                Block::Words(self.conclusions),
            ]);
        }
        blocks.retain(|block| !matches!(block, Block::Words(text) if text.trim().is_empty()));
        let heading =
            self.authors.map_or_else(|| "The author".to_owned(), |authors| format!("By {authors}"));
        if !blocks.is_empty() || heading != "The author" {
            let blocks = match blocks.is_empty() {
                true => vec![Block::text(&title)],
                false => blocks,
            };
            let blocks = blocks.into_iter().map(Block::for_all).collect();
            sections.insert(0, Section::new("author", heading, blocks));
        }
        Document::new(self.title.unwrap_or(title), summary, sections)
    }
}

#[cfg(test)]
mod tests {
    use super::Notes;
    use crate::document::Block;
    use crate::terminal::Look;
    use crate::{html, markdown, terminal};
    use analysis::sample;

    const TEXT: &str = "# Calls on a small machine\nAuthors: A. Author, B. Author\n\nWe *measured* calls.\n\n\
                        ## os.syscall\n`getpid` is slow <here>.\n\n## Conclusions\n- Buy another one.\n";

    #[test]
    fn notes_stand_where_they_belong_in_every_format() {
        let notes = Notes::parse(TEXT, &["os.syscall", "cpu.call"]).expect("both are there");
        let document = notes.apply(crate::build::build(&sample::run()));
        assert_eq!(TEXT.lines().next(), Some(format!("# {}", document.title).as_str()));
        let own = document.sections.iter().find(|section| section.id == "os.syscall");
        let words = own.and_then(|own| {
            own.blocks.iter().position(|(_, block)| matches!(block, Block::Words(_)))
        });
        assert_eq!(words, Some(1), "below the question");
        let page = html::render(&document, html::Print::Full);
        assert!(page.contains("</code> is slow &lt;here&gt;."), "{page}");
        assert!(
            page.contains("By A. Author, B. Author") && page.contains("<li>Buy another one.</li>")
        );
        let text = markdown::render(&document);
        assert!(text.contains("slow \\<here>.") && text.contains("- Buy another one."), "{text}");
        let plain = terminal::render(&document, Look { width: 100, colours: false });
        assert!(plain.contains("We *measured* calls."), "{plain}");
    }

    #[test]
    fn an_unknown_experiment_is_named_with_those_that_there_are() {
        let error = Notes::parse("# T\n\n## os.sycall\nx\n", &["os.syscall", "cpu.call"]);
        let error = error.expect_err("a misspelt one");
        assert!(error.starts_with("line 3: ") && error.contains("`os.sycall`"), "{error}");
        assert!(error.ends_with("os.syscall, cpu.call") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn notes_without_words_change_nothing() {
        let document = crate::build::build(&sample::run());
        let notes = Notes::parse("", &[]).expect("nothing is wrong");
        assert_eq!(notes.apply(document.clone()), document);
    }
}
