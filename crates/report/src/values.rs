//! Values as people read them: scaled, with as many digits as their interval supports.

use analysis::figure::{Basis, Condition, Figure, Interval};
use record::key::Value;
use record::quantity::{digits, render};
use record::unit::Unit;

use record::shown::significant;
pub use record::shown::{Shown, range, shown};

/// Marks of intervals that do not speak of fresh repetitions, with what they do speak of.
const MARKS: &[(Interval, &str, &str)] = &[
    (
        Interval::WithinRun,
        "†",
        "over blocks of one repetition, which does not predict a second \
                                one",
    ),
    (Interval::Resamples, "‡", "by resampling the rounds of several cases"),
];

/// A figure's interval, marked where it speaks of something else than fresh repetitions.
pub fn interval(figure: &Figure) -> Option<String> {
    let interval = of_figure(figure)?.interval;
    let mark = MARKS.iter().find(|(of, ..)| *of == figure.interval);
    let mark = mark.map_or("", |(_, mark, _)| mark);
    (!interval.is_empty()).then(|| format!("{interval}{mark}"))
}

/// What the marks in a table of some figures mean, to go on its caption; empty without any.
pub fn told_of_marks(figures: &[&Figure]) -> String {
    let has = |of: Interval| {
        let marked = |figure: &&Figure| figure.interval == of && figure.ci.is_some();
        figures.iter().any(marked)
    };
    let told = MARKS.iter().filter(|(of, ..)| has(*of));
    told.map(|(_, mark, what)| format!("; {mark} {what}")).collect()
}

/// Mark of a value that rests on samples in which others used the core.
pub const SHARED_MARK: &str = "§";

/// The value from all samples of a figure that is printed as of a core alone, where it is another
/// one.
pub fn as_found(figure: &Figure) -> Option<String> {
    let found = figure.as_found.as_ref()?;
    let (alone, all) = (figure.value?, found.value?);
    let differs = (all - alone).abs() > OTHER * alone.abs();
    differs.then(|| of_figure(found).map(|shown| shown.value))?
}

pub fn shared(figure: &Figure) -> Option<String> {
    Some(format!("{:.0} %", 100.0 * figure.shared?))
}

/// Relative difference from which on a value from all samples is another one.
const OTHER: f64 = 0.005;
/// Below this share of the samples a neighbour is not worth a word.
const SHARED: f64 = 0.005;

fn is_marked(figure: &Figure) -> bool {
    figure.condition == Some(Condition::AsFound) && figure.shared.is_some_and(|of| of >= SHARED)
}

/// Marks a value from samples in which others used the core; empty for others.
pub fn mark(figure: &Figure) -> &'static str {
    if is_marked(figure) { SHARED_MARK } else { "" }
}

/// The range by which a figure is judged: `110–195 ns`, of a marked one what was to be expected beside
/// a neighbour: `110–409 ns§`; `None` without a range that says something.
pub fn predicted(figure: &Figure) -> Option<String> {
    let alone = figure.shown_range()?;
    let beside = figure.shown_prediction().and_then(|judged| judged.beside);
    let judging = beside.filter(|_| is_marked(figure)).unwrap_or(alone);
    let text = range(&judging, figure.shown_unit()).replace(" – ", "–");
    Some(format!("{text}{}", mark(figure)))
}

/// A figure's value, marked where others used the core.
pub fn value(figure: &Figure) -> Option<String> {
    Some(format!("{}{}", of_figure(figure)?.value, mark(figure)))
}

/// What that mark means, to go on the caption of a table of some figures; empty without any.
pub fn told_of_core(figures: &[&Figure]) -> String {
    let is_any = |is: &dyn Fn(&Figure) -> bool| figures.iter().any(|figure| is(figure));
    let is_alone = is_any(&|figure| figure.condition == Some(Condition::Alone));
    match (is_alone, is_any(&is_marked)) {
        (false, false) => String::new(),
        (true, false) => "; core alone".to_owned(),
        (_, true) => format!("; {SHARED_MARK} from all samples: others used the core"),
    }
}

/// `others used the core 72 % of the time: 31 figures had too few quiet moments and rest on all
/// samples …`; `None` where no figure is marked.
pub fn of_mark(figures: &[Figure], share: f64) -> Option<String> {
    let marked = figures.iter().filter(|figure| !mark(figure).is_empty()).count();
    let rest = if marked == 1 { "rests" } else { "rest" };
    (marked > 0).then(|| {
        format!(
            "others used the core {} of the time: {} had too few quiet moments and {rest} on all \
             samples; a longer --budget or a quieter hour narrows this",
            percent(share),
            counted(marked, "figure")
        )
    })
}

pub fn of_figure(figure: &Figure) -> Option<Shown> {
    figure.metric.as_ref()?;
    Some(shown(figure.value?, figure.ci, figure.shown_unit()))
}

pub fn plain(value: f64, unit: Unit) -> String {
    shown(value, None, unit).value
}

pub fn mean(figure: &Figure) -> Option<String> {
    Some(plain(figure.stats.as_ref()?.mean, figure.shown_unit()))
}

pub fn deviation(figure: &Figure) -> Option<String> {
    Some(plain(figure.stats.as_ref()?.stddev?, figure.shown_unit()))
}

/// Rounds on which a figure rests, and all its samples: `8 / 1203`.
pub fn trials(figure: &Figure) -> Option<String> {
    let stats = figure.stats.as_ref()?;
    Some(format!("{} / {}", stats.used, stats.samples))
}

/// Disturbed rounds of all, where the value uses them: `4 / 6`.
pub fn disturbed(figure: &Figure) -> Option<String> {
    let stats = figure.stats.as_ref().filter(|stats| stats.used_disturbed)?;
    Some(format!("{} / {}", stats.disturbed, stats.rounds))
}

/// What a figure of a core alone rests on: rounds, samples and stretches: `8 / 310 / 24`.
pub fn basis(figure: &Figure) -> Option<String> {
    let Basis { rounds, samples, stretches } = figure.alone?;
    Some(format!("{rounds} / {samples} / {stretches}"))
}

/// A frequency to the megahertz, as usual for clocks.
pub fn clock(hz: f64) -> String {
    format!("{:.3} GHz", hz / 1e9)
}

/// A figure's cycles, with as many digits as its value's interval supports.
pub fn of_cycles(figure: &Figure) -> Option<String> {
    let found = figure.cycles?;
    let value = figure.value.filter(|value| *value > 0.0);
    Some(match value.zip(figure.metric.as_ref()) {
        Some((value, metric)) if figure.ci.is_some() => {
            rounded(found, significant(value, figure.ci, metric.unit))
        }
        _ => cycles(found),
    })
}

/// Cycles to some significant digits, with hundredths at most, below one with two digits at most.
fn rounded(found: f64, digits: usize) -> String {
    if found == 0.0 || digits == 0 {
        return cycles(found);
    }
    let magnitude = found.abs().log10().floor() as i32;
    let places = i32::try_from(digits).unwrap_or(i32::MAX) - 1 - magnitude;
    match usize::try_from(places.min(i32::max(2, 1 - magnitude))) {
        Ok(places) => format!("{found:.places$}"),
        Err(_) => {
            let step = 10_f64.powi(-places);
            format!("{:.0}", (found / step).round() * step)
        }
    }
}

/// Estimated cycles with as many digits as make sense: tenths below a thousand, hundredths below
/// one.
pub fn cycles(cycles: f64) -> String {
    if cycles.abs() < 1.0 {
        format!("{cycles:.2}")
    } else if cycles.abs() < 1000.0 {
        format!("{cycles:.1}")
    } else {
        format!("{cycles:.0}")
    }
}

/// A count with its noun: `1 run`, `2 runs`.
pub fn counted(count: usize, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

pub fn shell(words: &[String]) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:,@%=".contains(letter);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A ratio with as many places as a reader compares.
pub fn ratio(ratio: f64) -> String {
    match ratio.abs() {
        size if size < 0.1 => format!("{ratio:.4}"),
        size if size < 10.0 => format!("{ratio:.3}"),
        _ => digits(ratio),
    }
}

pub fn ratios((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", ratio(low), ratio(high))
}

pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A figure's label with room to wrap: a long case would make its table wider than any screen.
pub fn label(figure: &Figure) -> String {
    figure.label().replace(',', ", ")
}

/// The name of a figure's metric as a reader sees it, which may be broken at its words.
pub fn metric(figure: &Figure) -> String {
    let name = figure.metric.as_ref().map(|metric| metric.name.replace('_', " "));
    name.unwrap_or_else(|| "-".to_owned())
}

/// A parameter's value; integers in its unit.
pub fn parameter(value: &Value, unit: Option<Unit>) -> String {
    match (value, unit) {
        (Value::Int(number), Some(unit)) => render(*number as f64, unit),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{cycles, rounded};
    use analysis::figure::Condition;
    use analysis::{figures, sample};

    #[test]
    fn the_mark_is_explained_with_the_figures_that_have_it() {
        for (marked, expected) in [
            (0, None),
            (1, Some("others used the core 72 % of the time: 1 figure had")),
            (2, Some("2 figures had too few quiet moments and rest on all samples; a longer")),
        ] {
            let mut figures = figures(&sample::run());
            for figure in figures.iter_mut().take(marked) {
                figure.condition = Some(Condition::AsFound);
                figure.shared = Some(0.9);
            }
            let told = super::of_mark(&figures, 0.72);
            assert_eq!(told.is_some(), expected.is_some());
            assert!(told.is_none_or(|told| expected.is_some_and(|part| told.contains(part))));
        }
    }

    #[test]
    fn estimated_cycles_have_tenths() {
        assert_eq!(cycles(4.04), "4.0");
        assert_eq!(cycles(0.123), "0.12");
        assert_eq!(cycles(2051.7), "2052");
    }

    #[test]
    fn cycles_have_no_more_digits_than_their_time() {
        for (found, digits, text) in [
            (12_398.4, 2, "12000"),
            (2_316_853.0, 3, "2320000"),
            (3.594, 3, "3.59"),
            (1.0004, 7, "1.00"),
            (0.031_25, 5, "0.031"),
            (-36.2, 2, "-36"),
            (0.0, 0, "0.00"),
        ] {
            assert_eq!(rounded(found, digits), text);
        }
    }
}
