//! What does a loop itself cost?
//!
//! ## Question
//!
//! The reports time an operation by repeating it and take the loop's own cost away. What does an
//! empty iteration cost, with its counter in a register, in memory, and unrolled?
//!
//! ## Method
//!
//! Loops written in assembly, aligned to 64 bytes, that count to n: n iterations against 2n in ABBA
//! quartets. `empty` adds, compares and branches on registers; `volatile` keeps the counter in a
//! word of the stack and loads it again, as a compiler without optimisation does; `unrolled` shares
//! one turn's control among 16 bodies. The loop's return value is checked.
//!
//! ## Prediction
//!
//! `empty`: one taken branch, 1 cycle on most cores and half a cycle on those that take two
//! branches of a small loop a cycle. `volatile`: the way of a store to the next load of the same
//! word and an addition, 4 to 7 cycles, or about 1 on cores that rename memory. Cycles are by core
//! design; the clock is the stated one. Bound: no core takes more than four branches a cycle.
//!
//! ## Parameters
//!
//! - `loop`: `empty`, `volatile`, `unrolled`.
//!
//! ## Reading the result
//!
//! These are throughputs: a loop around an operation that takes time by itself hides below it, so
//! subtracting this figure from a timed loop would take away too much. plumb never does: it takes
//! differences of n and 2n. `volatile` in cycles tells whether the core renames memory.
//!
//! ## Pitfalls
//!
//! R0 to R2 subtracted such a figure from others. Placement changes loops of this size by up to a
//! factor 2 between builds, hence the alignment.
//!
//! ## Sources
//!
//! R0, R1 and R2 "loop overhead". The table of core designs is written from memory of usual values
//! (A. Fog, "The microarchitecture of Intel, AMD and VIA CPUs"; uops.info), not looked up row by row.

use anyhow::{Result, bail, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, bounded, unknown,
};
use bench::measure::Bench;
use laws::cpu::{LoopBody, loop_iteration, taken_branches_bound};
use metal::kernel::{LOOP_UNROLLING, loop_empty, loop_unrolled, loop_volatile};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Loop = Loop;

/// `clock.loop`.
pub struct Loop;

static CARD: Card = Card {
    id: "clock.loop",
    title: "Cost of an empty loop's iteration",
    metrics: &[Metric::new(
        "iteration",
        "one iteration of the loop",
        Unit::Ns,
        Better::Lower,
        Kind::Hardware,
    )],
    params: &[Param {
        name: "loop",
        doc: "where the counter is, and how many bodies a turn has",
        domain: Domain::Symbols(&["empty", "volatile", "unrolled"]),
        defaults: ["empty,volatile,unrolled"; 3],
        role: Role::Case,
    }],
    after: &[],
    repeat: Repeat::Rounds,
    isolation: Isolation::Shared,
    needs: &[],
    views: &[],
};

impl Experiment for Loop {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("loop.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let cases = params
            .texts("loop")
            .into_iter()
            .map(|name| Case::new(CaseId::new().with("loop", name)))
            .collect();
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Shuffled,
                cases,
                settings: BTreeMap::new(),
            }],
            ..Offer::default()
        })
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        bench::experiment::shared_round_cost(site, series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some() {
            return None;
        }
        let (body, taken, what) = match case.text("loop") {
            Some("empty") => (LoopBody::Register, 1.0, "an iteration"),
            Some("volatile") => (LoopBody::Memory, 1.0, "an iteration"),
            Some("unrolled") => (
                LoopBody::Unrolled(LOOP_UNROLLING),
                1.0 / LOOP_UNROLLING as f64,
                "one of 16 bodies to a turn",
            ),
            _ => return Some(unknown("unknown: no such loop")),
        };
        let prediction = loop_iteration(site, body).prediction();
        Some(bounded(prediction, taken_branches_bound(taken, what)))
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each(series, |bench, case| {
            let count = match case.text("loop") {
                Some("empty") => loop_empty,
                Some("volatile") => loop_volatile,
                Some("unrolled") => loop_unrolled,
                other => bail!("there is no loop {other:?}"),
            };
            bench.try_time(case, "iteration", |n| {
                let counted = count(n);
                ensure!(counted == n, "the loop counted to {counted} instead of {n}");
                Ok(())
            })?;
            Ok(())
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::EXPERIMENT;
    use bench::experiment::fixtures::sites;
    use bench::experiment::{Experiment, Preset};
    use record::event::Side;
    use session::fixtures::{check, smoke};

    #[test]
    fn it_keeps_the_laws_of_the_catalogue() {
        for site in sites() {
            let offer = check(&EXPERIMENT, &site, Preset::Quick);
            assert_eq!(offer.series[0].cases.len(), 3);
        }
    }

    #[test]
    fn no_prediction_reaches_below_its_bound() {
        for site in sites() {
            for case in &check(&EXPERIMENT, &site, Preset::Standard).series[0].cases {
                let metric = &EXPERIMENT.card().metrics[0];
                let prediction = EXPERIMENT
                    .predict(&site, None, case, metric)
                    .expect("every case has a prior");
                let (range, bound) = (
                    prediction.range.expect("told"),
                    prediction.bound.expect("told"),
                );
                assert_eq!(bound.side, Side::AtLeast);
                // At 6 GHz, faster than any core clock.
                assert!(
                    range.low > bound.constant / 6e9,
                    "{:?}: {range:?} {bound:?}",
                    case.id
                );
            }
        }
    }

    #[test]
    fn it_measures() {
        assert!(!smoke(&EXPERIMENT).is_empty());
    }
}
