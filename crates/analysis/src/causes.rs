//! Candidate causes of a missed prediction, read from the environment: a table of conditions.
//! They are candidates, not proofs; a text says what the condition does to a figure.

mod table;

pub use table::{Cause, MOVED_CPUS, SHARED_CORE, THROTTLED};

use super::figure::Figure;
use super::gather::gathered;
use super::held;
use super::index::series_label;
use super::misses::Miss;
use super::verdict::Verdict;
use record::event::{PredictionKind, Round, RoundStatus};
use record::metric::{Better, Over};
use record::order::InOrder;
use record::run::Run;
use table::{CAUSES, IN_COMMON, SLOWER};

/// Candidate causes of some missed predictions, each once, the likeliest first: what was counted in
/// the figures' own rounds before what is true of the machine anyway, then what holds for more of
/// them. Empty where no recorded condition held, and for a published machine, whose figures have no
/// recorded conditions.
///
/// A miss whose interval reaches into what was predicted needs no cause. What is true of the
/// machine explains no miss of a prediction from earlier figures, which it touched as well, nor of
/// a prediction that counted it in.
pub fn cause_texts(run: &Run, misses: &[Miss]) -> Vec<String> {
    if run.header.is_published() {
        return Vec::new();
    }
    let misses: Vec<&Miss> = misses.iter().filter(|miss| miss.is_certain).collect();
    let mut texts = by_limits(run, &misses);
    texts.extend(candidates(run, &misses).into_iter().map(|cause| cause.text.to_owned()));
    texts
}

/// The recorded conditions that may explain some misses, each once, the likeliest first, and behind
/// them the mitigations in force, by name: a prediction may have counted one in with less than it
/// costs here.
pub fn candidates(run: &Run, misses: &[&Miss]) -> Vec<&'static Cause> {
    let mitigations = IN_COMMON.iter().filter(|cause| cause.may_cost_more);
    once(held(run, misses).into_iter().chain(explaining(run, misses, mitigations)))
}

fn once(found: impl Iterator<Item = (&'static Cause, Vec<usize>)>) -> Vec<&'static Cause> {
    let by_name = gathered(found.map(|(cause, _)| (cause.name, cause)));
    by_name.into_iter().map(|(_, same)| same[0]).collect()
}

/// The causes that explain some of the misses, the likeliest first, each with which ones.
fn held(run: &Run, misses: &[&Miss]) -> Vec<(&'static Cause, Vec<usize>)> {
    let mut held = explaining(run, misses, CAUSES.iter());
    held.order_by_key(|(cause, explained)| {
        let is_of_the_machine = !cause.fact.is_of_rounds();
        (is_of_the_machine, std::cmp::Reverse(explained.len()))
    });
    held
}

/// What may be behind a factor that some misses share: what explains most of them, first what was
/// counted in their rounds, then what is true of the machine; each once.
pub fn shared(run: &Run, misses: &[&Miss]) -> Vec<&'static Cause> {
    let (of_rounds, of_machine): (Vec<&Cause>, Vec<&Cause>) =
        IN_COMMON.iter().chain(CAUSES).partition(|cause| cause.fact.is_of_rounds());
    let held = explaining(run, misses, of_rounds.into_iter().chain(of_machine));
    once(held.into_iter().filter(|(_, explained)| 2 * explained.len() > misses.len()))
}

fn explaining(
    run: &Run,
    misses: &[&Miss],
    causes: impl Iterator<Item = &'static Cause>,
) -> Vec<(&'static Cause, Vec<usize>)> {
    let rounds: Vec<Vec<&Round>> = misses.iter().map(|miss| rounds_of(run, miss.figure)).collect();
    let explained = |cause: &'static Cause| {
        let is_explained = |at: &usize| {
            explains(cause, misses[*at])
                && touches(cause, misses[*at].figure)
                && !is_counted_in(cause, misses[*at])
                && cause.fact.holds(run, &rounds[*at])
                && is_large_enough(cause.fact.share(&rounds[*at]), misses[*at])
        };
        (cause, (0..misses.len()).filter(is_explained).collect::<Vec<usize>>())
    };
    causes.map(explained).filter(|(_, explained)| !explained.is_empty()).collect()
}

/// Whether time that others took for a share of it may slow a figure down by the factor of a miss:
/// at most to `1 / (1 - 2 share)`, since two parties that wait for each other may each lose it. What
/// is measured of disturbances themselves has no such limit.
fn is_large_enough(share: Option<f64>, miss: &Miss) -> bool {
    let over = miss.figure.metric.as_ref().map(|metric| metric.over);
    let is_slower = miss.verdict == Verdict::Slower && over == Some(Over::Undisturbed);
    match (share, miss.factor) {
        (Some(share), Some(factor)) if is_slower => factor * (1.0 - 2.0 * share) <= 1.0,
        _ => true,
    }
}

pub fn named(name: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.name == name)
}

/// Whether a figure depends on where the host runs the virtual CPUs.
pub fn is_moved(figure: &Figure) -> bool {
    named(MOVED_CPUS).is_some_and(|cause| touches(cause, figure))
}

/// Some certain misses by their likeliest causes, and those that none explains.
pub fn parted<'miss, 'run>(
    run: &Run,
    misses: &[&'miss Miss<'run>],
) -> (Vec<(&'static Cause, Vec<&'miss Miss<'run>>)>, Vec<&'miss Miss<'run>>) {
    let mut is_left = vec![true; misses.len()];
    let mut parts = Vec::new();
    for (cause, explained) in held(run, misses) {
        let own: Vec<usize> = explained.into_iter().filter(|at| is_left[*at]).collect();
        for at in &own {
            is_left[*at] = false;
        }
        if !own.is_empty() {
            parts.push((cause, own.into_iter().map(|at| misses[at]).collect()));
        }
    }
    let left = misses.iter().zip(is_left).filter(|(_, is_left)| *is_left);
    (parts, left.map(|(miss, _)| *miss).collect())
}

/// Limits that somebody set, near which figures lie that are worse than predicted: each once.
fn by_limits(run: &Run, misses: &[&Miss]) -> Vec<String> {
    let worse = misses.iter().filter(|miss| is_explained(SLOWER, miss));
    let mut texts: Vec<String> = worse
        .filter_map(|miss| held::by(run, miss.figure))
        .map(|limit| format!("it is limited by {limit}"))
        .collect();
    texts.order();
    texts.dedup();
    texts
}

/// Of quantities that are better when higher, what makes things worse lets them lie below.
fn explains(cause: &Cause, miss: &Miss) -> bool {
    is_explained(cause.explains, miss)
}

fn is_explained(by: &[Verdict], miss: &Miss) -> bool {
    let better = miss.figure.metric.as_ref().map(|metric| metric.better);
    let verdict = match (miss.verdict, better) {
        (Verdict::Above, Some(Better::Higher)) => Verdict::Below,
        (Verdict::Below, Some(Better::Higher)) => Verdict::Above,
        (verdict, _) => verdict,
    };
    by.contains(&verdict)
}

fn is_counted_in(cause: &Cause, miss: &Miss) -> bool {
    if cause.fact.is_of_rounds() {
        return false;
    }
    let counted = miss.figure.prior.iter().flat_map(|judged| &judged.prediction.conditions);
    let mut counted = counted.filter(|_| !cause.may_cost_more);
    miss.kind == PredictionKind::Derived || counted.any(|of| cause.counted_as == Some(*of))
}

fn touches(cause: &Cause, figure: &Figure) -> bool {
    let is_of_experiment = cause.touches.is_empty()
        || cause.touches.iter().any(|prefix| figure.experiment.starts_with(prefix));
    is_of_experiment && cause.scope.has(figure)
}

/// The rounds on which the figure rests: of the series that its case is in (of all of its
/// experiment where it has none), and not those that it left out as disturbed.
fn rounds_of<'run>(run: &'run Run, figure: &Figure) -> Vec<&'run Round> {
    let plan = run.plan.iter().flat_map(|plan| &plan.experiments);
    let series =
        plan.filter(|planned| planned.id == figure.experiment).flat_map(|planned| &planned.series);
    let labels: Vec<String> = series
        .clone()
        .filter(|series| series.cases.contains(&figure.case))
        .map(|series| series_label(&figure.experiment, series))
        .collect();
    let labels = match labels.is_empty() {
        true => series.map(|series| series_label(&figure.experiment, series)).collect(),
        false => labels,
    };
    let uses_disturbed = figure.stats.as_ref().is_none_or(|stats| stats.used_disturbed);
    let counts = |round: &Round| {
        figure.rounds.is_empty()
            || figure.rounds.iter().any(|point| {
                (point.n, point.segment) == (round.n, round.segment)
                    && (uses_disturbed || !point.disturbed)
            })
    };
    run.rounds
        .iter()
        .filter(|round| round.status == RoundStatus::Ok && labels.contains(&round.series))
        .filter(|round| counts(round))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::table::{CAUSES, EITHER, Scope};
    use super::touches;
    use crate::facts::Fact::Sum;
    use crate::figure::{Condition, Figure};
    use crate::held::tests::{figure, limited};
    use crate::misses::Miss;
    use crate::verdict::Verdict;
    use crate::{figures, misses, sample};
    use record::event::{Condition as Counted, Ending, Event, PUBLISHED, PredictionKind, Range};
    use record::key::CaseId;
    use record::run::Run;
    use record::unit::Unit;

    #[test]
    fn a_cause_touches_the_figures_of_its_scope() {
        let figure = |id: &str, case: CaseId, condition| Figure {
            case,
            condition,
            ..Figure::absent(id, Ending::Measured, String::new())
        };
        let others = CAUSES.iter().find(|cause| matches!(cause.fact, Sum("foreign_switches", _)));
        let of = |scope: Scope| CAUSES.iter().find(|cause| cause.scope == scope);
        let footprint = |bytes: u64| CaseId::new().with("footprint", bytes);
        let level = |level: &str| CaseId::new().with("level", level);
        for (cause, id, case, condition, is_touched) in [
            (others, "os.schedule", CaseId::new(), None, true),
            (others, "os.switch", CaseId::new(), None, false),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), None, true),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), Some(Condition::AsFound), true),
            (of(Scope::SharedCore), "os.syscall", CaseId::new(), Some(Condition::Alone), false),
            (of(Scope::BeyondTlb), "memory.latency", footprint(55_104), None, false),
            (of(Scope::BeyondTlb), "memory.latency", footprint(64 << 20), None, true),
            (of(Scope::BeyondTlb), "memory.latency", level("L1"), None, false),
            (of(Scope::BeyondTlb), "memory.latency", level("L2"), None, false),
            (of(Scope::BeyondTlb), "memory.latency", level("DRAM"), None, true),
            (of(Scope::BeyondTlb), "fs.io", CaseId::new(), None, false),
            (of(Scope::Device), "memory.fault", CaseId::new().with("fault", "huge"), None, false),
            (of(Scope::Device), "fs.io", CaseId::new(), None, true),
        ] {
            let cause = cause.expect("is in the table");
            let figure = figure(id, case, condition);
            assert_eq!(touches(cause, &figure), is_touched, "{}: {}", cause.text, figure.label());
        }
        assert!(others.is_some_and(|cause| cause.explains == EITHER));
    }

    /// A read of the sample that takes 171 ns where 60 to 120 were predicted before the run and 70
    /// to 140 from earlier figures, without steal, with some of the window waited for the CPU.
    fn run_of(run_delay: f64, counted: &[Counted]) -> Run {
        let mut run = sample::changed(|event| match event {
            Event::Round(round) if round.series == "os.syscall" => {
                round.disturbed.clear();
                round.environment.insert("steal_ns".to_owned(), 0.0);
                let delay = round.window_ns * run_delay;
                round.environment.insert("run_delay_ns".to_owned(), delay);
            }
            Event::Prediction(predicted) if predicted.experiment == "os.syscall" => {
                predicted.prediction.conditions = counted.to_vec();
            }
            _ => {}
        });
        // True of the machine: a cause of whatever is slow and counts it not in.
        run.header.host["kernel"]["seccomp"] = serde_json::json!(2);
        run
    }

    /// What the kernel of the sample calls its mitigation.
    const RETPOLINES: &str = "spectre_v2";

    fn causes(run: &Run, kind: PredictionKind) -> Vec<String> {
        let all = figures(run);
        let read = all.iter().find(|figure| {
            figure.experiment == "os.syscall" && figure.case.text("call") == Some("read")
        });
        let miss = misses::miss(read.expect("is in the sample"), kind);
        super::cause_texts(run, &[miss.expect("is a miss")])
    }

    #[test]
    fn what_is_true_of_the_machine_explains_no_miss_of_earlier_figures() {
        let run = run_of(0.0, &[]);
        let of_machine = causes(&run, PredictionKind::Prior);
        assert_eq!(of_machine.len(), 2, "{of_machine:?}");
        assert!(of_machine[0].contains("seccomp") && of_machine[1].contains(RETPOLINES));
        assert!(causes(&run, PredictionKind::Derived).is_empty());
    }

    #[test]
    fn what_a_prediction_counts_in_explains_no_miss_of_it() {
        // But a mitigation in force may cost more than was counted in.
        let run = run_of(0.0, &[Counted::Seccomp, Counted::Retpolines]);
        let told = causes(&run, PredictionKind::Prior);
        assert!(told.len() == 1 && told[0].contains(RETPOLINES), "{told:?}");
    }

    #[test]
    fn a_cpu_that_others_had_comes_first_and_explains_both_kinds() {
        const DELAY: &str = "other programs used its CPU (run delay)";
        let run = run_of(0.25, &[]);
        let told = causes(&run, PredictionKind::Prior);
        assert_eq!((told[0].as_str(), told.len()), (DELAY, 3), "{told:?}");
        assert_eq!(causes(&run, PredictionKind::Derived), [DELAY]);
        // Six percent of the time do not make a call 1.2 times slower.
        let little = run_of(0.06, &[]);
        assert!(causes(&little, PredictionKind::Derived).is_empty());
    }

    #[test]
    fn a_limit_near_which_a_slow_figure_lies_comes_first_and_is_named() {
        let run = limited();
        let case = [("op", "read"), ("mode", "direct"), ("block", "4096")];
        let figure = figure("fs.io", &case, ("iops", Unit::OpPerS), 301.0);
        let range = |low: f64| Range { low, likely: low, high: 2.0 * low };
        let miss = |verdict, low| Miss {
            figure: &figure,
            kind: PredictionKind::Prior,
            verdict,
            range: range(low),
            value: 301.0,
            factor: None,
            is_certain: true,
        };
        let told = super::cause_texts(&run, &[miss(Verdict::Slower, 4000.0)]);
        assert!(told[0].contains("300 requests/s on 254:0"), "{told:?}");
        let told = super::cause_texts(&run, &[miss(Verdict::Faster, 10.0)]);
        assert!(told.iter().all(|text| !text.contains("254:0")), "{told:?}");
    }

    #[test]
    fn an_uncertain_miss_and_a_published_one_have_no_cause() {
        let run = run_of(0.5, &[]);
        let all = figures(&run);
        let mut missed = misses::worst(&all, 10);
        assert!(!super::cause_texts(&run, &missed).is_empty());
        for miss in &mut missed {
            miss.is_certain = false;
        }
        assert!(super::cause_texts(&run, &missed).is_empty());
        let mut published = run.clone();
        published.header.options.preset = PUBLISHED.to_owned();
        assert!(super::cause_texts(&published, &misses::worst(&all, 10)).is_empty());
    }
}
