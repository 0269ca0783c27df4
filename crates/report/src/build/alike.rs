//! Texts of figures that differ in numbers only, as one text with the figures that it is for.

use analysis::figure::Figure;
use analysis::gather::distinct;
use analysis::names::{Names, words};
use record::event::PlannedExperiment;
use record::note::{Note, Number};
use record::order::InOrder;

const NAMED: usize = 3;

/// A text that several figures share but for its numbers.
pub(super) struct Alike<'run> {
    /// The text with `{}` for each number.
    form: String,
    /// Every number's spellings, each once.
    numbers: Vec<Vec<Number>>,
    figures: Vec<&'run Figure>,
}

pub(super) fn gathered<'run>(all: impl Iterator<Item = (&'run Figure, Note)>) -> Vec<Alike<'run>> {
    let mut gathered: Vec<Alike> = Vec::new();
    for (figure, note) in all {
        let (form, numbers) = note.form.unwrap_or_else(|| words_with_digits(&note.text));
        let is_alike = |alike: &&mut Alike| alike.form == form;
        let Some(alike) = gathered.iter_mut().find(is_alike) else {
            let numbers = numbers.into_iter().map(|number| vec![number]).collect();
            gathered.push(Alike { form, numbers, figures: vec![figure] });
            continue;
        };
        for (have, number) in alike.numbers.iter_mut().zip(numbers) {
            if !have.contains(&number) {
                have.push(number);
            }
        }
        alike.figures.push(figure);
    }
    gathered
}

/// A recorded text as its form, in which words with a digit are numbers without a value.
fn words_with_digits(text: &str) -> (String, Vec<Number>) {
    let mut numbers = Vec::new();
    let form = text.split(' ').map(|word| {
        let core = word.trim_matches(|letter: char| ".,;:()[]".contains(letter));
        if !core.contains(|letter: char| letter.is_ascii_digit()) {
            return word.to_owned();
        }
        numbers.push(Number { value: None, text: core.to_owned() });
        word.replacen(core, "{}", 1)
    });
    (form.collect::<Vec<String>>().join(" "), numbers)
}

impl Alike<'_> {
    /// The text, with least and greatest where a number differs.
    pub(super) fn text(&self) -> String {
        let numbers = self.numbers.iter().map(|all| Number { value: None, text: span(all) });
        let text = Note::formed(self.form.as_str(), numbers.collect::<Vec<Number>>()).text;
        text.trim_end_matches('.').to_owned()
    }

    /// The figures that it is for: by metric, and by case where it is not for all cases.
    pub(super) fn whose(
        &self,
        planned: &PlannedExperiment,
        names: &Names,
        all: &[&Figure],
    ) -> String {
        let metrics = distinct(self.figures.iter().map(|figure| figure.metric_name()));
        let is_of_metrics =
            |figure: &&&Figure| figure.metric.is_some() && metrics.contains(&figure.metric_name());
        // A case that failed or was skipped has no metric.
        let is_all = all.iter().all(|figure| figure.metric.is_some())
            && all.iter().filter(is_of_metrics).count() == self.figures.len();
        let cases = self.figures.iter().map(|figure| names.case(figure));
        let cases = distinct(cases.filter(|case| !case.is_empty()));
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

/// `2.2`, or `2.2 … 5.4` of several: the least and the greatest; without values the first and the
/// last.
fn span(numbers: &[Number]) -> String {
    let mut ordered: Vec<&Number> = numbers.iter().collect();
    if numbers.iter().all(|number| number.value.is_some()) {
        let value = |number: &Number| number.value.unwrap_or_default();
        ordered.order_by(|one, other| value(one).total_cmp(&value(other)));
    }
    match ordered.as_slice() {
        [first, .., last] => format!("{} … {}", first.text, last.text),
        [only] => only.text.clone(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::gathered;
    use analysis::{figures, sample};
    use record::note::{Note, Number};

    fn text(notes: [Note; 3]) -> String {
        let run = sample::run();
        let all = figures(&run);
        let alike = gathered(all.iter().zip(notes));
        assert_eq!(alike.len(), 1);
        alike[0].text()
    }

    #[test]
    fn numbers_with_values_are_the_least_and_the_greatest() {
        let notes = [12.0, 0.9, 3e3].map(|value| {
            let number = Number::new(value, format!("{value} ns"));
            Note::formed("the rounds alone give {} of {}", [number, Number::count(4)])
        });
        assert!(text(notes).ends_with("0.9 ns … 3000 ns of 4"));
    }

    #[test]
    fn recorded_texts_are_alike_but_for_words_with_digits() {
        let notes =
            [2, 5, 8].map(|n| format!("L{n}: around {n}.16e-4 ns (of {n}), -3 at least.").into());
        let text = text(notes);
        for range in ["L2 … L8: ", "2.16e-4 … 8.16e-4 ns", "(of 2 … 8), -3 at"] {
            assert!(text.contains(range), "{text}");
        }
    }
}
