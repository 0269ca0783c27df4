//! The reason of a prediction as the arithmetic that gives it: the terms of its likely value with
//! their ranges, their sum, the fitted factor and what gave it, and the range, in one line that adds
//! up.

use crate::fitted::TABLE;
use record::event::{Arithmetic, Prediction, Range, Term};
use record::quantity::{digits, render, scale};
use record::unit::Unit;

/// The printed sum is that of the terms, within this share: a law may have changed one end of a
/// range by a rule that is no sum, and then its reasons stand alone.
const EXACT: f64 = 1e-6;

pub fn with_arithmetic(prediction: Prediction, unit: Unit) -> Prediction {
    let because = line(&prediction, unit).unwrap_or_else(|| prediction.because.clone());
    Prediction { because, arithmetic: Arithmetic::default(), ..prediction }
}

/// The line; none where the terms do not say all.
fn line(prediction: &Prediction, unit: Unit) -> Option<String> {
    let range = prediction.range?;
    let Arithmetic { terms, rate_of, factor } = &prediction.arithmetic;
    let all = terms.iter().filter_map(|term| term.adds);
    let sum: f64 = all.clone().map(|adds| adds.likely).sum();
    let by = factor.as_ref().map_or(1.0, |(by, _)| *by);
    let whole = rate_of.map_or(sum, |over| over / sum);
    let is_whole = (whole * by - range.likely).abs() <= EXACT * range.likely.abs();
    if !is_whole || all.clone().next().is_none() {
        return None;
    }
    let of_terms = if rate_of.is_some() { Unit::Ns } else { unit };
    let mut text = String::new();
    for Term { what, adds } in terms {
        let Some(adds) = adds.filter(|adds| adds.low != 0.0 || adds.high != 0.0) else { continue };
        let is_less = adds.likely < 0.0;
        text += match (text.is_empty(), is_less) {
            (true, false) => "",
            (true, true) => "- ",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        // Clauses end by semicolons.
        let what = what.replace("; ", ", ");
        text += &format!("{what} {}", with_ends(adds, is_less, of_terms));
    }
    if text.is_empty() {
        return None;
    }
    if all.count() > 1 {
        text += &format!(" = {}", render(sum, of_terms));
    }
    if let Some(over) = rate_of {
        let done = match unit {
            Unit::BPerS => render(over / 1e9, Unit::B),
            Unit::OpPerS => format!("{} op", digits(over / 1e9)),
            _ => return None,
        };
        text += &format!("; {done} in that time: {}", render(whole, unit));
    }
    if let Some((by, group)) = factor {
        let value = render(range.likely, unit);
        text += &format!("; × {by:.3} = {value}, {}", origin(group));
    }
    let [low, high] = [range.low, range.high].map(|end| render(end, unit));
    text += &format!("; range {low} to {high}");
    let notes = terms.iter().filter(|term| term.adds.is_none() && !term.what.is_empty());
    notes.for_each(|note| text += &format!("; {}", note.what));
    Some(text)
}

/// `245 ns [110–570]`: a term with its range in the scale of its likely value.
fn with_ends(adds: Range, is_less: bool, unit: Unit) -> String {
    let sign = if is_less { -1.0 } else { 1.0 };
    let (factor, _) = scale(adds.likely, unit);
    let mut ends = [adds.low, adds.high].map(|end| sign * end / factor);
    ends.sort_by(f64::total_cmp);
    let [low, high] = ends.map(digits);
    format!("{} [{low}–{high}]", render(sign * adds.likely, unit))
}

/// What gave a coefficient: the group of figures, and how many designs of processors it rests on.
fn origin(group: &str) -> String {
    let row = TABLE.lines().find_map(|row| row.strip_prefix(group)?.strip_prefix(','));
    let designs = row.and_then(|row| row.split(',').nth(1));
    match designs {
        Some(designs) => format!("fitted to {designs} designs of processors ({group})"),
        None => format!("fitted ({group})"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_arithmetic;
    use crate::law::{Law, range};
    use record::event::Prediction;
    use record::unit::Unit;

    fn reason(law: Law, factor: Option<f64>) -> String {
        let mut prediction = Prediction::from(law);
        prediction.range = prediction.range.map(|of| crate::law::scaled(of, factor.unwrap_or(1.0)));
        prediction.arithmetic.factor = factor.map(|by| (by, "prior a".to_owned()));
        with_arithmetic(prediction, Unit::Ns).because
    }

    #[test]
    fn a_reason_is_the_sum_that_gives_the_figure() {
        let entry = || Law::hardware(range(80.0, 100.0, 130.0), "entry; exit");
        let work = Law::software(range(200.0, 400.0, 1000.0), "work").and("by a book");
        let both = entry().counted(2.0) + work;
        let text = reason(both.clone(), Some(1.5));
        let sum = "2 × entry, exit 200 ns [160–260] + work 400 ns [200–1000] = 600 ns; \
                   × 1.500 = 900 ns, fitted (prior a)";
        assert!(text.starts_with(sum) && text.ends_with("; by a book"), "{text}");
        let less = reason(both - entry(), None);
        assert!(less.contains("- entry, exit 100 ns") && less.contains("= 500 ns"), "{less}");
        // A rate divides by the sum.
        let rate = (entry() + entry()).inverse(64e9);
        let text = with_arithmetic(rate.prediction(), Unit::BPerS).because;
        assert!(
            text.starts_with("entry, exit 200 ns") && text.contains("64 B in that time: 320 MB/s"),
            "{text}"
        );
    }

    #[test]
    fn a_law_that_is_no_sum_keeps_its_reasons() {
        let mut law =
            Law::hardware(range(1.0, 2.0, 3.0), "a") + Law::hardware(range(1.0, 2.0, 3.0), "b");
        law.range.likely = 3.0;
        assert_eq!(reason(law, None), "a; b");
    }
}
