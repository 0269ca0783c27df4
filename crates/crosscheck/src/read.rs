//! What several rivals' answers are read by.

use super::Output;
use serde::de::DeserializeOwned;

/// What a parser says where the program did no work: an answer that has no ratio, and no mistake of
/// the parser's ([`super::Rival::read`]).
pub(super) const ZERO: &str = "it reported 0";

pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The value in the one line of either stream that has the pattern's form.
///
/// A pattern is compared word by word. `{n}` stands for a number and `{..}` for any words. The value
/// is `{x}`, or what is computed of it: `{x*1e3}`, `{1e9/x}`; `{measured}` is a number and its unit,
/// in ns or B/s. A pattern of several lines needs one line of each form.
pub(super) fn line(said: &Output, pattern: &str) -> Result<f64, String> {
    let mut value = None;
    for form in pattern.lines() {
        let form: Vec<&str> = form.split_whitespace().collect();
        let found = one_line(said, &form)?;
        value = value.or(found);
    }
    match value.ok_or_else(|| format!("`{pattern}` has no value"))? {
        0.0 => Err(ZERO.to_owned()),
        value if value.is_finite() && value > 0.0 => Ok(value),
        value => Err(format!("it reported {value}")),
    }
}

/// The value, if the form has one, of the only line of this form on the first stream with such.
fn one_line(said: &Output, form: &[&str]) -> Result<Option<f64>, String> {
    for text in [&said.stdout, &said.stderr] {
        let mut found = text.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            fits(&words, form).map(|value| (line, value))
        });
        match (found.next(), found.next()) {
            (None, _) => {}
            (Some((_, value)), None) => return Ok(value),
            (Some((line, _)), Some(_)) => {
                return Err(format!("several lines where one is expected: {line:?} and more"));
            }
        }
    }
    Err(format!("no line `{}`", form.join(" ")))
}

/// Whether the words have this form; then its value, if the form has one.
fn fits(words: &[&str], form: &[&str]) -> Option<Option<f64>> {
    let Some((first, form)) = form.split_first() else {
        return words.is_empty().then_some(None);
    };
    if *first == "{..}" {
        return (0..=words.len()).find_map(|skipped| fits(&words[skipped..], form));
    }
    let (word, words) = words.split_first()?;
    let Some(place) = first.strip_prefix('{').and_then(|place| place.strip_suffix('}')) else {
        return (first == word).then(|| fits(words, form))?;
    };
    let x = number(word)?;
    let value = match place.split_once(['*', '/']) {
        None if place == "n" => return fits(words, form),
        None if place == "x" => x,
        None => return unit(words).filter(|_| form.is_empty()).map(|scale| Some(scale * x)),
        Some(("x", factor)) => x * factor.parse::<f64>().ok()?,
        // No work in no time has no rate.
        Some(_) if x == 0.0 => 0.0,
        Some((share, _)) => share.parse::<f64>().ok()? / x,
    };
    fits(words, form).map(|_| Some(value))
}

/// The scale of a unit, in ns or B/s.
fn unit(words: &[&str]) -> Option<f64> {
    match words {
        ["microseconds"] => Some(1e3),
        ["nanoseconds"] => Some(1.0),
        ["MB/sec"] => Some(1e6),
        _ => None,
    }
}

/// A number as programs print it: digits, a sign, a point.
fn number(word: &str) -> Option<f64> {
    let is_plain = word.chars().all(|letter| letter.is_ascii_digit() || "-.".contains(letter));
    word.parse::<f64>().ok().filter(|value| is_plain && value.is_finite())
}
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
    version.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{ZERO, line};
    use crate::Output;
    use crate::tests::{everywhere, said};

    #[test]
    fn a_value_is_read_of_the_line_with_the_pattern_s_form() {
        let text = "head 7\n  0.25 usecs/op\nrow 1 2 4.5 end of row\nTotal: 3.5 microseconds\n";
        for (pattern, value) in [
            ("{x*1e3} usecs/op", 250.0),
            ("{8/x} usecs/op", 32.0),
            ("row {n} {n} {x} {..}", 4.5),
            ("{..} {x*2} end {..}", 9.0),
            ("Total: {measured}", 3500.0),
            ("head {n}\n{x} usecs/op", 0.25),
        ] {
            assert_eq!(line(&said(text), pattern), Ok(value), "{pattern}");
            assert_eq!(line(&everywhere(text), pattern), Ok(value), "one stream counts");
        }
        let on_error = Output { stderr: text.to_owned(), ..Output::default() };
        assert_eq!(line(&on_error, "{x} usecs/op"), Ok(0.25));
    }

    #[test]
    fn what_has_another_form_is_refused() {
        let text = "head 7\ntwice 1\ntwice 2\nlost 0\nless -1\nmuch inf\nTotal: 3.5 hours\n";
        for pattern in [
            "head",
            "head {n}",
            "head {x} more",
            "tail {x}",
            "twice {x}",
            "less {x}",
            "much {x}",
            "Total: {measured}",
            "head {x}\nfoot {n}",
            "head {many*x}",
            "",
        ] {
            line(&said(text), pattern).expect_err(pattern);
        }
        for pattern in ["lost {x}", "lost {x*5}", "lost {5/x}"] {
            assert_eq!(line(&said(text), pattern), Err(ZERO.to_owned()), "no work is no mistake");
        }
    }
}
