//! How far a run can be trusted, by what its rounds counted.

use super::health::{Health, health};
use record::event::End;
use record::run::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Good,
    /// Look at intervals and findings before relying on small differences.
    Fair,
    Poor,
}

impl Grade {
    pub fn text(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Fair => "fair",
            Grade::Poor => "poor",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Samples beside which others used the core.
    Shared,
    /// Time that the hypervisor gave to others.
    Steal,
    Disturbed,
    /// Time that a quota took.
    Throttled,
    /// Time in which other programs had the measuring thread's CPU.
    RunDelay,
    /// Rounds in the rarer of two places between which the host moved the CPUs.
    Moved,
}

/// An aspect, its share, and the shares above which a run is fair, and poor.
type Limit = (Aspect, fn(&Health) -> Option<f64>, f64, f64);
const LIMITS: [Limit; 6] = [
    (Aspect::Shared, |health| health.shared, 0.05, 0.5),
    (Aspect::Steal, |health| health.steal, 0.005, 0.05),
    (Aspect::Disturbed, Health::disturbed_share, 0.2, 0.5),
    (Aspect::Throttled, |health| health.throttled, 0.005, 0.05),
    (Aspect::RunDelay, |health| health.run_delay, 0.02, 0.2),
    (Aspect::Moved, |health| health.moved, 0.0, 0.5),
];

/// How far a run can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// The worst of its aspects; not good where the run is not whole.
    pub grade: Grade,
    /// How the run ended; `None` where it was killed or is under way.
    pub end: Option<End>,
    /// What was counted, each share with its own grade.
    pub aspects: Vec<(Aspect, f64, Grade)>,
}

/// Judges a run; `None` for one without rounds, as that of a published machine.
pub fn quality(run: &Run) -> Option<Quality> {
    let health = health(run);
    if health.rounds == 0 {
        return None;
    }
    let aspects = LIMITS.iter().filter_map(|(aspect, of, fair, poor)| {
        let share = of(&health)?;
        let grade = match share {
            _ if share > *poor => Grade::Poor,
            _ if share > *fair => Grade::Fair,
            _ => Grade::Good,
        };
        Some((*aspect, share, grade))
    });
    let aspects: Vec<(Aspect, f64, Grade)> = aspects.collect();
    let end = run.footer.as_ref().map(|footer| footer.end);
    let is_whole = matches!(end, Some(End::Complete | End::Budget));
    let least = if is_whole { Grade::Good } else { Grade::Fair };
    let grade = aspects.iter().map(|(.., grade)| *grade).fold(least, Grade::max);
    Some(Quality { grade, end, aspects })
}

#[cfg(test)]
mod tests {
    use super::{Aspect, Grade, quality};
    use crate::sample;
    use record::event::End;

    #[test]
    fn the_worst_aspect_decides() {
        let mut run = sample::run();
        let grade_of = |run: &_| {
            let quality = quality(run).expect("has rounds");
            let of = quality.aspects.iter().find(|(aspect, ..)| *aspect == Aspect::Disturbed);
            (quality.grade, of.map(|(.., grade)| *grade))
        };
        // Four of nineteen.
        assert_eq!(grade_of(&run), (Grade::Fair, Some(Grade::Fair)));
        for round in &mut run.rounds {
            round.disturbed.clear();
        }
        assert_eq!(grade_of(&run), (Grade::Good, Some(Grade::Good)));
        run.footer.as_mut().expect("has one").end = End::Interrupted;
        assert_eq!(grade_of(&run), (Grade::Fair, Some(Grade::Good)));
        run.rounds.clear();
        assert_eq!(quality(&run), None);
    }
}
