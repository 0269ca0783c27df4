//! What a rule of `--fail-on` finds in trends: the last shift of a figure's level, if the search
//! without the last run finds that shift too. A search that is repeated after every run would find a
//! false shift at some time.

use crate::cmd::fail_on::{Rule, Word};
use crate::cmd::{Failure, output};
use analysis::compare::Direction;
use analysis::trend::{Chance, Changed, LEAST_RUNS, Over, Trend, Trends, trends_by};
use record::plain::line;
use record::quantity::{digits, render};

/// The words that `plumb trend` offers.
pub(super) const WORDS: [Word; 4] = [Word::Slower, Word::Faster, Word::Changed, Word::Never];

/// Runs of a figure from which on a shift can be found and confirmed.
pub(super) const RUNS_MIN: usize = LEAST_RUNS + 1;
/// Entries of the environment that a line names.
const NAMED_MAX: usize = 3;

/// Reports each shift that a rule names. Errors: [`Failure::Finding`]: there is one;
/// [`Failure::Usage`]: no figure is in a rule's scope; [`Failure::Undecided`]: none of a rule's
/// figures has enough runs.
pub(super) fn judge(found: &Trends, rules: &[Rule], chance: &mut Chance) -> Result<(), Failure> {
    let rules: Vec<&Rule> = rules.iter().filter(|rule| rule.needs_tests()).collect();
    if rules.is_empty() {
        return Ok(());
    }
    let earlier = without_last_run(found, chance);
    let (mut is_met, mut undecided) = (false, None);
    for rule in rules {
        let of_rule = |text: &str| format!("--fail-on {}: {text}", rule.text());
        let pairs = found.trends.iter().zip(&earlier.trends);
        let scope: Vec<(&Trend, &Trend)> = pairs
            .filter(|(trend, _)| rule.means(&trend.over.key.experiment, &trend.over.key.case))
            .collect();
        if scope.is_empty() {
            return Err(Failure::Usage(of_rule("no figure of this trend is in its scope")));
        }
        if scope.iter().all(|(trend, _)| trend.over.points.len() < RUNS_MIN) {
            undecided = Some(of_rule(&format!("undecided: no figure has {RUNS_MIN} runs yet")));
        }
        for (trend, earlier) in scope {
            let Some(changed) = confirmed(trend, earlier) else { continue };
            let (direction, ratio) = size(trend, changed);
            if rule.is_met_by(Some(direction), ratio) {
                is_met = true;
                output::diagnose(&format!("plumb: {}", of_rule(&described(found, trend, changed))));
            }
        }
    }
    match (is_met, undecided) {
        (true, _) => Err(Failure::Finding),
        (false, Some(text)) => Err(Failure::Undecided(text)),
        (false, None) => Ok(()),
    }
}

/// What a search before the last run found, figure by figure.
fn without_last_run(found: &Trends, chance: &mut Chance) -> Trends {
    let mut runs = found.runs.clone();
    runs.pop();
    let over = |trend: &Trend| {
        let mut over: Over = trend.over.clone();
        over.points.retain(|point| point.run < runs.len());
        over
    };
    let figures = found.trends.iter().map(over).collect();
    trends_by(runs, figures, chance)
}

/// The last shift, if the earlier search found one of its direction at a place that overlaps.
fn confirmed<'found>(trend: &'found Trend, earlier: &Trend) -> Option<&'found Changed> {
    let last = trend.shifts.last()?;
    let rises = |changed: &Changed| changed.shift.after > changed.shift.before;
    let is_same = |other: &Changed| {
        let (one, other_place) = (last.shift.place, other.shift.place);
        rises(last) == rises(other) && one.0 <= other_place.1 && other_place.0 <= one.1
    };
    earlier.shifts.iter().any(is_same).then_some(last)
}

/// The direction of a shift, and the new level over the old one; `None` where one is not positive.
fn size(trend: &Trend, changed: &Changed) -> (Direction, Option<f64>) {
    let (before, after) = (changed.shift.before, changed.shift.after);
    let direction = Direction::from_growth(trend.over.better, after > before);
    let ratio = after / before;
    (direction, (before > 0.0 && ratio > 0.0 && ratio.is_finite()).then_some(ratio))
}

/// `memory.latency:… latency is 1.21× worse since TIME: 82 ns before, 99 ns now; kernel changed …`.
fn described(found: &Trends, trend: &Trend, changed: &Changed) -> String {
    let (direction, ratio) = size(trend, changed);
    let times =
        ratio.map_or_else(String::new, |ratio| format!("{}× ", digits(ratio.max(1.0 / ratio))));
    let size = match direction {
        Direction::Worse => format!("{times}worse"),
        Direction::Better => format!("{times}better"),
        Direction::Up | Direction::Down => "changed".to_owned(),
    };
    let shift = &changed.shift;
    let first = trend.over.points.get(shift.first).map(|point| &found.runs[point.run].started);
    let [before, after] = [shift.before, shift.after].map(|level| render(level, trend.over.unit));
    let mut text = format!(
        "{} is {size} since {}: {before} before, {after} now",
        trend.over.key,
        first.map_or("", String::as_str)
    );
    let named = changed.environment.iter().take(NAMED_MAX);
    let named: Vec<String> =
        named.map(|(name, before, after)| format!("{name} from {before} to {after}")).collect();
    if !named.is_empty() {
        text.push_str(&format!("; at that time changed: {}", named.join(", ")));
    }
    line(&text)
}

#[cfg(test)]
mod tests {
    use super::{RUNS_MIN, WORDS, described, judge};
    use crate::cmd::Failure;
    use crate::cmd::fail_on::parse;
    use analysis::trend::{Chance, Over, RunPoint, TrendRun, Trends, trends};
    use record::key::{CaseId, Key};
    use record::metric::{Better, Kind};
    use record::unit::Unit;

    /// Runs of a call that takes these times.
    fn found(values: &[f64]) -> Trends {
        let run = |n: usize| TrendRun {
            name: format!("run-{n}"),
            started: format!("2026-11-{:02}T04:00:00Z", n + 1),
            environment: [(
                "kernel".to_owned(),
                if n < 8 { "6.1" } else { "6.2\u{1b}" }.to_owned(),
            )]
            .into(),
        };
        // No two runs are equal.
        let point = |(run, value): (usize, &f64)| RunPoint {
            run,
            value: value * (1.0 + 0.0001 * ((run * 7) % 5) as f64),
            ci: None,
        };
        let over = Over {
            key: Key::new("os.syscall", &CaseId::new().with("call", "getpid"), "latency"),
            unit: Unit::Ns,
            better: Better::Lower,
            kind: Kind::Os,
            points: values.iter().enumerate().map(point).collect(),
        };
        trends((0..values.len()).map(run).collect(), vec![over])
    }

    /// The exit code of a rule over runs of so many at 80 ns, then so many at 100 ns.
    fn code(rule: &str, before: usize, after: usize) -> Option<u8> {
        let values = [vec![80.0; before], vec![100.0; after]].concat();
        let rules = parse(&[rule.to_owned()], &WORDS).expect("a rule");
        let judged = judge(&found(&values), &rules, &mut Chance::default());
        judged.err().map(|failure: Failure| failure.code())
    }

    #[test]
    fn a_shift_that_two_searches_find_fails_the_rule_that_names_it() {
        assert_eq!(code("slower:5%", 8, 8), Some(1));
        assert_eq!(code("changed", 8, 8), Some(1));
        assert_eq!(code("slower:5%@os", 8, 8), Some(1));
        assert_eq!(code("slower:30%", 8, 8), None);
        assert_eq!(code("faster", 8, 8), None);
        assert_eq!(code("never", 8, 8), None);
        assert_eq!(code("slower", 16, 0), None);
        assert_eq!(code("slower@memory", 8, 8), Some(2));
    }

    /// Three runs at the new level are the first that one search finds; the next one confirms it.
    #[test]
    fn a_shift_that_one_search_alone_finds_is_not_reported() {
        let first = (1..8).find(|after| {
            let values = [vec![80.0; 12], vec![100.0; *after]].concat();
            !found(&values).trends[0].shifts.is_empty()
        });
        let first = first.expect("it is found");
        assert_eq!(code("slower", 12, first), None);
        assert_eq!(code("slower", 12, first + 1), Some(1));
    }

    #[test]
    fn too_few_runs_decide_nothing() {
        assert_eq!(code("slower", RUNS_MIN - 1, 0), Some(5));
        assert_eq!(code("slower", RUNS_MIN, 0), None);
    }

    #[test]
    fn a_shift_is_a_line_with_its_size_its_time_and_what_else_changed() {
        let found = found(&[vec![80.0; 8], vec![100.0; 8]].concat());
        let text = described(&found, &found.trends[0], &found.trends[0].shifts[0]);
        for part in
            ["os.syscall:call=getpid", "1.25× worse", "2026-11-09T04:00:00Z", "from 6.1 to 6.2"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
