//! Texts of figures that differ in numbers only, as one text with the figures that it is for.

use analysis::figure::Figure;
use analysis::gather::distinct;
use analysis::names::{Names, words};
use record::event::PlannedExperiment;
use record::quantity::parted;

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
    use super::{gathered, span};
    use analysis::{figures, sample};

    #[test]
    fn the_least_and_the_greatest_are_told() {
        let of = |numbers: &[&str]| -> Vec<String> {
            numbers.iter().map(|number| (*number).to_owned()).collect()
        };
        assert_eq!(span(&of(&["12", "2.2", "9"])), "2.2 … 12");
        assert_eq!(span(&of(&["7"])), "7");
        assert_eq!(span(&of(&["2", "-1.5", "3e-4"])), "-1.5 … 2");
    }

    #[test]
    fn small_and_negative_numbers_are_numbers() {
        let run = sample::run();
        let all = figures(&run);
        let texts = ["around 2.16e-4 and -3 ns", "around 4 and 7.91e-3 ns"];
        let alike = gathered(all.iter().zip(texts.map(str::to_owned)));
        assert_eq!(alike.len(), 1);
        assert_eq!(alike[0].text(), "around 2.16e-4 … 4 and -3 … 7.91e-3 ns");
    }
}
