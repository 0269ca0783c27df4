//! Families most of whose figures miss by one factor: they have a cause in common, which is looked
//! for before single figures are.

use super::missed::factor;
use super::{Finding, Severity};
use crate::causes;
use crate::figure::Figure;
use crate::keys::{GROUPS, group_of};
use crate::misses::{self, Miss};
use record::metric::Better;
use record::run::Run;
use stats::quantile::quantile;
use std::collections::BTreeMap;

/// Figures of a family that must miss: fewer are single figures.
const LEAST: usize = 5;

/// Likely reasons that are named.
const REASONS: usize = 4;

/// How far apart the quartiles of one factor may be.
const ONE: f64 = 1.5;

/// A finding for each family most of whose judged figures are among these misses, which are all on
/// one side, by one factor; and the misses that are in none.
pub(super) fn findings<'miss, 'run>(
    run: &Run,
    figures: &[Figure],
    missed: Vec<&'miss Miss<'run>>,
) -> (Vec<Finding>, Vec<&'miss Miss<'run>>) {
    let mut families: BTreeMap<usize, Vec<&Miss>> = BTreeMap::new();
    for miss in missed {
        families.entry(group_of(miss.figure)).or_default().push(miss);
    }
    let (mut found, mut left) = (Vec::new(), Vec::new());
    for (group, own) in families {
        let is_judged = |figure: &&Figure| group_of(figure) == group && misses::is_judged(figure);
        let judged = figures.iter().filter(is_judged).count();
        match of_family(run, group, &own, judged) {
            Some(finding) => found.push(finding),
            None => left.extend(own),
        }
    }
    (found, left)
}

fn of_family(run: &Run, group: usize, own: &[&Miss], judged: usize) -> Option<Finding> {
    let factors: Vec<f64> = own.iter().filter_map(|miss| over_likely(miss)).collect();
    let of = |q| quantile(&factors, q);
    let (low, middle, high) = (of(0.25)?, of(0.5)?, of(0.75)?);
    if factors.len() < LEAST || 2 * factors.len() <= judged || high > ONE * low {
        return None;
    }
    let (how, severity) = match misses::is_worse(own.first()?) {
        true => ("slower", Severity::Warning),
        false => ("faster", Severity::Note),
    };
    let family = GROUPS.get(group).map_or("other", |(title, _)| title);
    let causes = causes::shared(run, own);
    let reasons: Vec<&str> = causes.iter().take(REASONS).map(|cause| cause.text).collect();
    let reasons = match reasons.as_slice() {
        [] => "nothing recorded suggests why".to_owned(),
        reasons => format!("likely: {}", reasons.join("; or ")),
    };
    let text = format!(
        "{} of {judged} figures of the group {family} are {how} than predicted by one factor, {} times \
         the best guess (half of them {} to {}), so they share a cause; {reasons}",
        factors.len(),
        factor(middle),
        factor(low),
        factor(high),
    );
    let mut finding = Finding::new(severity, "shared_factor", text)
        .so("look for what they share before you look at single figures (--full lists them)");
    finding.factor = Some(middle);
    Some(finding)
}

/// How many times slower, or faster, than the best guess a figure is: above one on the side on
/// which it missed.
fn over_likely(miss: &Miss) -> Option<f64> {
    let ratio = miss.value / miss.range.likely;
    let better = miss.figure.metric.as_ref().map(|metric| metric.better)?;
    let is_turned = (better == Better::Higher) == misses::is_worse(miss);
    let factor = if is_turned { ratio.recip() } else { ratio };
    (factor.is_finite() && factor > 0.0 && better != Better::None).then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use crate::figure::{Figure, Judged};
    use crate::findings::findings;
    use crate::held::tests::figure;
    use crate::sample;
    use crate::verdict::Verdict;
    use record::event::{Prediction, Range};
    use record::metric::{Better, Kind, Metric};
    use record::run::Run;
    use record::unit::Unit;

    fn judged(figure: Figure, factor: f64) -> Figure {
        let range = Range { low: 90.0, likely: 100.0, high: 110.0 };
        let verdict = match factor {
            1.1.. => Verdict::Slower,
            ..0.9 => Verdict::Faster,
            _ => Verdict::Within,
        };
        let metric = Metric::new("latency", "", Unit::Ns, Better::Lower, Kind::Os);
        let prior = Judged {
            prediction: Prediction::new(Some(range), ""),
            beside: None,
            bound: None,
            verdict: Some(verdict),
        };
        let value = Some(100.0 * factor);
        Figure { value, metric: Some(metric), prior: Some(prior), ..figure }
    }

    fn run() -> Run {
        let mut run = sample::run();
        run.rounds.clear();
        let kernel = &mut run.header.host["kernel"];
        kernel["virtualisation"] = serde_json::json!({ "is_guest": true });
        kernel["mitigations"] = serde_json::json!({
            "spec_rstack_overflow": "Mitigation: Safe RET", "spectre_v2": "Mitigation: Retpolines",
        });
        run
    }

    fn calls(factors: &[f64]) -> Vec<Figure> {
        let one = |(at, by): (usize, &f64)| {
            let name = at.to_string();
            let case = [("call", name.as_str())];
            judged(figure("os.syscall", &case, ("latency", Unit::Ns), 1.0), *by)
        };
        factors.iter().enumerate().map(one).collect()
    }

    fn shared(factors: &[f64]) -> Option<(f64, Severity, String)> {
        let found = findings(&run(), &calls(factors));
        let shared = found.iter().find(|finding| finding.cause == "shared_factor")?;
        // Its figures are not counted once more, one by one.
        assert!(found.iter().all(|finding| finding.cause != "unexplained"));
        Some((shared.factor?, shared.severity, shared.text.clone()))
    }

    #[test]
    fn a_family_that_misses_by_one_factor_is_one_finding_with_mitigations_by_name() {
        let (factor, severity, text) =
            shared(&[1.8, 1.9, 2.0, 1.85, 1.9, 1.95, 1.0]).expect("a shared factor");
        assert!((factor - 1.9).abs() < 0.02, "{factor}");
        assert_eq!(severity, Severity::Warning);
        for name in ["spec_rstack_overflow", "spectre_v2", "emulates"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn few_figures_half_of_them_or_several_factors_share_nothing() {
        assert!(shared(&[1.8, 1.8, 1.8, 1.8]).is_none());
        assert!(shared(&[1.8, 1.8, 1.8, 1.8, 1.8, 1.0, 1.0, 1.0, 1.0, 1.0]).is_none());
        assert!(shared(&[1.2, 1.3, 1.4, 3.0, 4.0, 5.0, 8.0]).is_none());
        assert!(shared(&[0.5, 0.5, 0.5, 1.8, 1.8, 1.8]).is_none());
    }

    #[test]
    fn a_faster_family_is_worth_a_note() {
        let (factor, severity, _) =
            shared(&[0.5, 0.5, 0.5, 0.52, 0.48, 1.0]).expect("a shared factor");
        assert!((factor - 2.0).abs() < 0.1, "{factor}");
        assert_eq!(severity, Severity::Note);
    }
}
