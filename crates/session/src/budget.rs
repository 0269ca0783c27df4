//! What is measured next, and for how long: pure, from what series cost and how wide their
//! intervals are.
//!
//! Every series has its first look before any has a second. Cases that a neighbour left without
//! enough rounds of a core alone get some more by themselves. Then every series gets its least
//! rounds, those with the fewest first: the cases that the quick preset has too, by themselves,
//! more than that preset could have given them, before the others get as many as the next smaller
//! preset could have given these. So a larger preset is the more precise even where its time is
//! short. Then the widest intervals go on, a look at a time. Where time is too short for the first
//! looks, the experiments of the key figures have theirs, as far as each other series keeps one
//! round, and the others get fewer rounds alike.

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod tests;

use record::order::InOrder;
use stats::quantile::median;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// Observed series from which on their ratio of observed to stated cost holds for others.
const LEAST_OBSERVED: usize = 3;

/// When looks come, and when a series has enough rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'run> {
    /// Rounds at which looks come.
    pub looks: &'run [u32],
    /// The first look at which the stop rule is asked.
    pub asked_from: u32,
    /// Rounds that the cases of the quick preset have before widths decide.
    pub ahead_until: u32,
    /// Goal of the relative half width.
    pub goal: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// All its intervals are within the goal.
    Precise,
    LastLook,
}

impl Rules<'_> {
    /// The first look, from which on a series has intervals.
    pub fn first(&self) -> u32 {
        self.looks.first().copied().unwrap_or(1)
    }

    fn last(&self) -> u32 {
        self.looks.last().copied().unwrap_or(1)
    }

    pub fn look_after(&self, rounds: u32) -> u32 {
        let later = self.looks.iter().find(|look| **look > rounds);
        later.copied().unwrap_or(self.last())
    }

    /// Whether a series with so many rounds and this relative half width has enough.
    pub fn enough(&self, rounds: u32, width: Option<f64>) -> Option<Enough> {
        let asked = rounds >= self.asked_from && self.looks.contains(&rounds);
        match width {
            Some(width) if asked && width <= self.goal => Some(Enough::Precise),
            _ if rounds >= self.last() => Some(Enough::LastLook),
            _ => None,
        }
    }
}

/// What the width probe says of the cores that may measure, before a further look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreState {
    /// The machine has no probe, or nobody asked it.
    #[default]
    Unknown,
    /// Nobody else uses one of the cores.
    Alone,
    /// Other tenants use all of the cores.
    Shared,
}

#[derive(Clone, Debug, Default)]
pub struct Claim<'run> {
    pub family: &'run str,
    pub stage: usize,
    /// Whether it is measured one time only.
    pub once: bool,
    pub alone: bool,
    pub has_keys: bool,
    /// Rounds that it has before widths decide.
    pub least: u32,
    /// Whether the next rounds are of cases that lack rounds of a core that was alone.
    pub lacks_alone: bool,
    /// Whether its samples have readings of the width probe: it can have a value of the core alone.
    pub is_probed: bool,
    /// Share of its cases that the next rounds measure.
    pub share: f64,
    /// Stated cost of a round of all its cases.
    pub stated: Duration,
    /// Stated cost of what is still to be made before its rounds.
    pub preparation: Duration,
    /// What such a round cost so far.
    pub observed: Option<Duration>,
    /// Rounds that count, of the cases that the next ones measure.
    pub rounds: u32,
    /// Greatest relative half width of their figures; none where one has no interval.
    pub width: Option<f64>,
    pub ended: bool,
}

/// A series that is to be measured until it has so many rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its index among the claims.
    pub claim: usize,
    /// Rounds that it then has.
    pub target: u32,
}

/// The claims of all series on the time that is left.
pub struct Budget<'run> {
    claims: &'run [Claim<'run>],
    /// Expected cost of a round and of the preparation of each.
    costs: Vec<(Duration, Duration)>,
    rules: Rules<'run>,
    left: Duration,
}

impl<'run> Budget<'run> {
    pub fn new(claims: &'run [Claim<'run>], rules: Rules<'run>, left: Duration) -> Self {
        Budget { claims, costs: costs(claims), rules, left }
    }

    /// What is next on the way to the first looks of a stage, or where all stages had theirs, of
    /// what is wanted beyond. Empty where nothing is wanted, or nothing fits.
    pub fn next(&self, stage: Option<usize>, core: CoreState) -> Vec<Turn> {
        match stage {
            _ if self.left.is_zero() => Vec::new(),
            Some(stage) => self.first_looks(stage),
            None => self.further_looks(core),
        }
    }

    /// On the way to the first look of every series of a stage: what is measured one time, a pass
    /// of all others, what must be alone. Empty once the stage has its first looks, or as many
    /// rounds as all stages can have.
    fn first_looks(&self, stage: usize) -> Vec<Turn> {
        let first = self.rules.first();
        let of_stage = |at: &usize| self.claims[*at].stage == stage && self.wants(*at, first);
        let open: Vec<usize> = (0..self.claims.len()).filter(of_stage).collect();
        let (alone, shared): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|at| self.claims[**at].alone);
        let (once, passes): (Vec<usize>, Vec<usize>) =
            shared.iter().partition(|at| self.claims[**at].once);
        if !once.is_empty() {
            return turns(once, 1);
        }
        let rounds = |at: &usize| self.claims[*at].rounds;
        let is_afforded = |at: &usize| self.affords(self.claims[*at].has_keys, rounds(at) + 1);
        let passes: Vec<usize> = passes.into_iter().filter(is_afforded).collect();
        if let Some(fewest) = passes.iter().map(rounds).min() {
            let behind = passes.into_iter().filter(|at| rounds(at) == fewest);
            return turns(behind, fewest + 1);
        }
        let next = alone.into_iter().find(is_afforded);
        next.map_or(Vec::new(), |at| turns([at], rounds(&at) + 1))
    }

    /// Of those without their least rounds, the widest with the fewest that time is left for. Once
    /// all have theirs, the widest of all share half of that time, so that what they came to
    /// decides who has the rest. Where a core is alone, what lacks samples of that comes before all;
    /// where others use it, what is only ever as found.
    fn further_looks(&self, core: CoreState) -> Vec<Turn> {
        let level = |at: usize| {
            let rounds = self.claims[at].rounds;
            if rounds < self.claims[at].least { rounds } else { u32::MAX }
        };
        let most = |at: usize| self.rules.last().max(self.claims[at].least);
        let wants = |at: &usize| !self.claims[*at].once && self.wants(*at, most(*at));
        let fits = |at: &usize| wants(at) && self.to_next(*at) <= self.left;
        let mut open: Vec<usize> = (0..self.claims.len()).filter(fits).collect();
        let rank = |at: usize| {
            let claim = &self.claims[at];
            match core {
                CoreState::Unknown => false,
                CoreState::Alone => !claim.lacks_alone,
                CoreState::Shared => claim.is_probed,
            }
        };
        // At equal rounds, the cases of the quick preset have the greater least.
        let order = |at: usize| match level(at) {
            u32::MAX => (true, rank(at), u32::MAX, false, 0),
            rounds => {
                let claim = &self.claims[at];
                (false, rank(at), rounds, !claim.lacks_alone, u32::MAX - claim.least)
            }
        };
        open.order_by(|a, b| order(*a).cmp(&order(*b)).then(self.wider(*a, *b)));
        let Some((&widest, others)) = open.split_first() else { return Vec::new() };
        let shared = match level(widest) {
            u32::MAX => self.left / 2,
            _ => self.left,
        };
        let mut shared = shared.saturating_sub(self.to_next(widest));
        let mut chosen = vec![widest];
        for &at in others {
            let alone = self.claims[widest].alone || self.claims[at].alone;
            let is_like = level(at) == level(widest) && rank(at) == rank(widest);
            if !alone && is_like && self.to_next(at) <= shared {
                shared -= self.to_next(at);
                chosen.push(at);
            }
        }
        let turn = |claim| Turn { claim, target: self.target(claim) };
        chosen.into_iter().map(turn).collect()
    }

    /// Expected time until the run ends: every series up to its last look, within the time left.
    pub fn expected(&self) -> Duration {
        let last = self.rules.last();
        let all = (0..self.claims.len()).map(|at| self.until(at, last));
        all.sum::<Duration>().min(self.left)
    }

    /// Whether a series wants rounds up to `target`.
    fn wants(&self, at: usize, target: u32) -> bool {
        let claim = &self.claims[at];
        !claim.ended && claim.rounds < if claim.once { 1 } else { target }
    }

    /// Expected time until a series has so many rounds.
    fn until(&self, at: usize, target: u32) -> Duration {
        if !self.wants(at, target) {
            return Duration::ZERO;
        }
        let claim = &self.claims[at];
        let target = if claim.once { 1 } else { target };
        let (round, preparation) = self.costs[at];
        preparation + round * (target - claim.rounds)
    }

    /// Rounds of a series after its next turn: one more up to the first look and where it lacks
    /// rounds of a core alone, then the next look, at last its least.
    fn target(&self, at: usize) -> u32 {
        match self.claims[at].rounds {
            rounds if self.claims[at].lacks_alone => rounds + 1,
            rounds if rounds < self.rules.first() => rounds + 1,
            rounds if rounds >= self.rules.last() => self.claims[at].least,
            rounds => self.rules.look_after(rounds),
        }
    }

    fn to_next(&self, at: usize) -> Duration {
        self.until(at, self.target(at))
    }

    /// Whether all series of the key figures (`has_keys`), or all others, can have so many rounds:
    /// these beside the first looks of those, those beside one round of these. A first one is always
    /// tried.
    fn affords(&self, has_keys: bool, target: u32) -> bool {
        let others = if has_keys { 1 } else { self.rules.first() };
        let rounds = |claim: &Claim| if claim.has_keys == has_keys { target } else { others };
        let all = self.claims.iter().enumerate().map(|(at, claim)| self.until(at, rounds(claim)));
        target == 1 || all.sum::<Duration>() <= self.left
    }

    /// The wider of two comes first, what has no interval before all; of these the one with less to
    /// do.
    fn wider(&self, a: usize, b: usize) -> Ordering {
        let width = |at: usize| self.claims[at].width.unwrap_or(f64::INFINITY);
        let cheaper = || self.to_next(a).cmp(&self.to_next(b));
        width(b).total_cmp(&width(a)).then_with(cheaper)
    }
}

fn turns(of: impl IntoIterator<Item = usize>, target: u32) -> Vec<Turn> {
    of.into_iter().map(|claim| Turn { claim, target }).collect()
}

/// Expected cost of a round and of the preparation of each series: as observed, else as stated
/// times what the observed ones of its family, or of all, cost over what was stated of them, in the
/// median.
fn costs(claims: &[Claim<'_>]) -> Vec<(Duration, Duration)> {
    let mut families: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for claim in claims {
        if let Some(observed) = claim.observed.filter(|_| !claim.stated.is_zero()) {
            let ratio = observed.as_secs_f64() / claim.stated.as_secs_f64();
            families.entry(claim.family).or_default().push(ratio);
        }
    }
    let typical = |ratios: &[f64]| median(ratios).filter(|_| ratios.len() >= LEAST_OBSERVED);
    let of_all = typical(&families.values().flatten().copied().collect::<Vec<f64>>());
    let cost = |claim: &Claim<'_>| {
        let of_family = families.get(claim.family).and_then(|ratios| typical(ratios));
        let ratio = of_family.or(of_all).unwrap_or(1.0);
        let round = claim.observed.unwrap_or(claim.stated.mul_f64(ratio));
        (round.mul_f64(claim.share), claim.preparation.mul_f64(ratio))
    };
    claims.iter().map(cost).collect()
}
