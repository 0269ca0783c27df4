//! Texts of figures that differ in numbers only, as one text with the figures that it is for.

use crate::analysis::figure::Figure;
use crate::analysis::names::{Names, words};
use record::event::PlannedExperiment;

/// Cases that are named one by one.
const NAMED: usize = 3;

/// A text that several figures share but for its numbers.
pub(super) struct Alike<'run> {
    /// The text between the numbers.
    texts: Vec<String>,
    /// Every number's spellings, each once.
    numbers: Vec<Vec<String>>,
    figures: Vec<&'run Figure>,
}

/// Gathers texts of figures, in the order in which they first come.
pub(super) fn gathered<'run>(
    all: impl Iterator<Item = (&'run Figure, String)>,
) -> Vec<Alike<'run>> {
    let mut gathered: Vec<Alike> = Vec::new();
    for (figure, text) in all {
        let (texts, numbers) = parted(text.trim_end_matches('.'));
        match gathered.iter_mut().find(|alike| alike.texts == texts) {
            Some(alike) => {
                for (have, number) in alike.numbers.iter_mut().zip(numbers) {
                    if !have.contains(&number) {
                        have.push(number);
                    }
                }
                alike.figures.push(figure);
            }
            None => gathered.push(Alike {
                texts,
                numbers: numbers.into_iter().map(|number| vec![number]).collect(),
                figures: vec![figure],
            }),
        }
    }
    gathered
}

/// The text between numbers, and the numbers. Digits within a word (`avx512`, `L2`) are no number.
fn parted(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut texts, mut numbers) = (vec![String::new()], Vec::new());
    let letters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let is_in_word = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
        if !letter.is_ascii_digit() || is_in_word {
            if let Some(last) = texts.last_mut() {
                last.push(letter);
            }
            at += 1;
            continue;
        }
        let start = at;
        while letters.get(at).is_some_and(char::is_ascii_digit)
            || (letters.get(at) == Some(&'.')
                && letters.get(at + 1).is_some_and(char::is_ascii_digit))
        {
            at += 1;
        }
        // `6.404e10`
        if letters.get(at) == Some(&'e') && letters.get(at + 1).is_some_and(char::is_ascii_digit) {
            at += 1;
            while letters.get(at).is_some_and(char::is_ascii_digit) {
                at += 1;
            }
        }
        numbers.push(letters[start..at].iter().collect());
        texts.push(String::new());
    }
    (texts, numbers)
}

impl Alike<'_> {
    /// The text, with least and greatest where a number differs.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (at, part) in self.texts.iter().enumerate() {
            text.push_str(part);
            if let Some(numbers) = self.numbers.get(at) {
                text.push_str(&span(numbers));
            }
        }
        text
    }

    /// The figures that it is for: by metric, and by case where it is not for all cases.
    pub(super) fn whose(
        &self,
        planned: &PlannedExperiment,
        names: &Names,
        all: &[&Figure],
    ) -> String {
        let mut metrics: Vec<&str> = Vec::new();
        for figure in &self.figures {
            let metric = figure
                .metric
                .as_ref()
                .map_or("", |metric| metric.name.as_ref());
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        let of_metrics = all.iter().filter(|figure| {
            let metric = figure.metric.as_ref();
            metric.is_some_and(|metric| metrics.contains(&metric.name.as_ref()))
        });
        let is_all = of_metrics.count() == self.figures.len();
        let mut cases: Vec<String> = Vec::new();
        for figure in &self.figures {
            let case = names.case(figure);
            if !case.is_empty() && !cases.contains(&case) {
                cases.push(case);
            }
        }
        let metrics = match planned.metrics.len() {
            1 => String::new(),
            _ => words(&metrics.join(", ")),
        };
        let cases = match cases.as_slice() {
            _ if is_all => "all cases".to_owned(),
            [] => String::new(),
            few if few.len() <= NAMED => few.join("; "),
            many => names.stretch(&self.figures, many.len()),
        };
        let parts = [metrics, cases];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    }
}

/// `2.2`, or `2.2 … 5.4` of several.
fn span(numbers: &[String]) -> String {
    let value = |text: &String| text.parse::<f64>().unwrap_or(0.0);
    let least = numbers.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
    let most = numbers.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
    match (least, most) {
        (Some(least), Some(most)) if least != most => format!("{least} … {most}"),
        (Some(only), _) => only.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{parted, span};

    #[test]
    fn numbers_are_parted_from_words() {
        let (texts, numbers) = parted("avx512 at L2: 2.20 to 5 cycles, 6.4e10 flop/s; end.");
        assert_eq!(numbers, ["2.20", "5", "6.4e10"]);
        assert_eq!(
            texts,
            ["avx512 at L2: ", " to ", " cycles, ", " flop/s; end."]
        );
        let of = |numbers: &[&str]| -> Vec<String> {
            numbers.iter().map(|number| (*number).to_owned()).collect()
        };
        assert_eq!(span(&of(&["12", "2.2", "9"])), "2.2 … 12");
        assert_eq!(span(&of(&["7"])), "7");
    }
}
