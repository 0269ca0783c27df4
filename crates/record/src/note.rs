//! What a reader of a figure must know, with its kind where something is decided by it.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// What kind of thing a note says. Decisions are made by it, never by the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Nothing is decided by it.
    #[default]
    Plain,
    /// Bytes that should have come from a device or a server came from a cache.
    Cache,
    /// A sync that may not outlive a loss of power.
    Power,
    /// The round has no core clock.
    NoClock,
    /// The figure rests on disturbed rounds.
    Disturbed,
    /// It passes a bound, but not for certain.
    Suspicious,
    /// Its samples have two modes.
    TwoModes,
    /// A derived value that many resamples do not give.
    Uncertain,
    /// The value depends on what happened on the machine in the minutes before.
    History,
    /// A condition of a newer plumb.
    #[serde(other)]
    Other,
}

/// A sentence about a figure. Written as plain text where its kind is plain.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub kind: NoteKind,
    pub text: String,
    /// The sentence with `{}` for each of its numbers, and these. A note of a record has none.
    pub form: Option<(String, Vec<Number>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its value, by which several are ordered; `None` of one that is known as text alone.
    pub value: Option<f64>,
    /// How it is written, with its unit.
    pub text: String,
}

impl Number {
    pub fn new(value: f64, text: impl Into<String>) -> Number {
        Number { value: Some(value), text: text.into() }
    }

    pub fn count(count: usize) -> Number {
        Number::new(count as f64, count.to_string())
    }
}

impl Note {
    pub fn with_kind(kind: NoteKind, text: impl Into<String>) -> Note {
        Note { kind, text: text.into(), form: None }
    }

    /// A plain note: a sentence with numbers in the places of its `{}`.
    pub fn formed(form: impl Into<String>, numbers: impl Into<Vec<Number>>) -> Note {
        let (form, numbers) = (form.into(), numbers.into());
        let mut texts = numbers.iter().map(|number| number.text.as_str());
        let parts = form.split("{}");
        let text = parts.flat_map(|part| [part, texts.next().unwrap_or_default()]).collect();
        Note { kind: NoteKind::Plain, text, form: Some((form, numbers)) }
    }

    /// The same note as one of another kind.
    #[must_use]
    pub fn of_kind(self, kind: NoteKind) -> Note {
        Note { kind, ..self }
    }

    /// Bytes that should have come from a device or a server came from a cache.
    pub fn cache(text: impl Into<String>) -> Note {
        Note::with_kind(NoteKind::Cache, text)
    }

    /// A sync that may not outlive a loss of power.
    pub fn power(text: impl Into<String>) -> Note {
        Note::with_kind(NoteKind::Power, text)
    }

    /// Why the round has no core clock.
    pub fn no_clock(text: impl Into<String>) -> Note {
        Note::with_kind(NoteKind::NoClock, text)
    }
}

impl From<String> for Note {
    fn from(text: String) -> Note {
        Note::with_kind(NoteKind::Plain, text)
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Note {
        text.to_owned().into()
    }
}

impl Deref for Note {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Note {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(&self.text)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<Text> {
    Plain(Text),
    OfKind { kind: NoteKind, text: Text },
}

impl Serialize for Note {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.kind {
            NoteKind::Plain => Form::Plain(&self.text).serialize(to),
            kind => Form::OfKind { kind, text: &self.text }.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Note, D::Error> {
        Ok(match Form::<String>::deserialize(from)? {
            Form::Plain(text) => text.into(),
            Form::OfKind { kind, text } => Note::with_kind(kind, text),
        })
    }
}

/// Notes in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Adds one; a text is a plain one.
    pub fn push(&mut self, note: impl Into<Note>) {
        self.0.push(note.into());
    }

    pub fn has(&self, kind: NoteKind) -> bool {
        self.first_of_kind(kind).is_some()
    }

    pub fn first_of_kind(&self, kind: NoteKind) -> Option<&Note> {
        self.0.iter().find(|note| note.kind == kind)
    }

    /// What they say, without their kinds.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|note| note.text.clone()).collect()
    }
}

impl Deref for Notes {
    type Target = Vec<Note>;

    fn deref(&self) -> &Vec<Note> {
        &self.0
    }
}

impl DerefMut for Notes {
    fn deref_mut(&mut self) -> &mut Vec<Note> {
        &mut self.0
    }
}

impl<T: Into<Note>> Extend<T> for Notes {
    fn extend<I: IntoIterator<Item = T>>(&mut self, notes: I) {
        self.0.extend(notes.into_iter().map(Into::into));
    }
}

impl<'notes> IntoIterator for &'notes Notes {
    type Item = &'notes Note;
    type IntoIter = std::slice::Iter<'notes, Note>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for Notes {
    type Item = Note;
    type IntoIter = std::vec::IntoIter<Note>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
