//! What several rivals' answers are read by.

use super::Output;
use serde::de::DeserializeOwned;

/// What a parser says where the program did no work: an answer that has no ratio, and no mistake of
/// the parser's ([`super::Rival::read`]).
pub(super) const ZERO: &str = "it reported 0";

/// A number above zero.
pub(super) fn positive(word: &str) -> Result<f64, String> {
    let word = word.trim();
    let value: f64 = word.parse().map_err(|_| format!("`{word}` is not a number"))?;
    match value {
        0.0 => Err(ZERO.to_owned()),
        _ if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("it reported {value}")),
    }
}

/// The only word of a text as a number above zero.
pub(super) fn lone_number(text: &str) -> Result<f64, String> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => positive(word),
        (None, _) => Err("it printed nothing".to_owned()),
        (Some(_), Some(_)) => Err("it printed more than one number".to_owned()),
    }
}

/// The first JSON value of a text; warnings may stand before it.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let begin = text.find('{').ok_or("no JSON")?;
    let mut values = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<T>();
    let value = values.next().ok_or("no JSON")?;
    value.map_err(|error| format!("its JSON: {error}"))
}

/// The version behind a mark in what a program said on either stream.
pub(super) fn version_behind(said: &Output, mark: &str) -> Option<String> {
    let mut lines = said.stdout.lines().chain(said.stderr.lines());
    let version = lines.find_map(|line| line.trim().strip_prefix(mark))?;
    Some(version.trim().to_owned())
}
