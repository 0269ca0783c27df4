//! ## Question
//! Do `Once` and `Alone`, a trace over time and an interval from blocks reach the report?
//!
//! ## Method
//! Blocks of 10 ms are counted for as long as the setting says; each gives one value of the rate of
//! a rotate chain and one row of the trace.
//!
//! ## Prediction
//! One rotation per core cycle, within what clocks there are: 0.2 to 8 GHz.
//!
//! ## Parameters
//! `duration`: how long it takes.
//!
//! ## Reading the result
//! The interval is within the run: it says nothing about another run.
//!
//! ## Pitfalls
//! Blocks next to each other resemble each other.
//!
//! ## Sources
//! DESIGN §4.3.

use anyhow::Result;
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, predicted,
};
use bench::measure::Bench;
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The experiment.
pub struct Pulse;
/// For the family's list.
pub const EXPERIMENT: Pulse = Pulse;

static CARD: Card = Card {
    id: "selftest.pulse",
    title: "Once, alone: a rate over time",
    metrics: &[Metric::new(
        "rate",
        "rotations per second",
        Unit::OpPerS,
        Better::Higher,
        Kind::Hardware,
    )],
    params: &[Param {
        name: "duration",
        doc: "how long it takes",
        domain: Domain::Integer { low: 100_000_000, high: 60_000_000_000, unit: Unit::Ns },
        defaults: ["200ms", "500ms", "2s"],
        role: Role::Setting,
    }],
    repeat: Repeat::Once { duration_s: 0.5 },
    isolation: Isolation::Alone,
    views: &[ViewCard::timeline("series")],
    ..Card::PLAIN
};

const BLOCK: Duration = Duration::from_millis(10);
const STEP: u64 = 100_000;

impl Experiment for Pulse {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("pulse.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let duration = params.ints("duration").first().copied().unwrap_or(0);
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Fixed,
                cases: vec![Case::new(CaseId::new())],
                settings: BTreeMap::from([("duration".to_owned(), duration.into())]),
            }],
            ..Offer::default()
        })
    }

    fn round_cost(&self, _site: &Site, series: &Series) -> Duration {
        Duration::from_nanos(series.setting("duration").unwrap_or(0))
    }

    fn predict(
        &self,
        _site: &Site,
        known: Option<&Known>,
        _case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        known
            .is_none()
            .then(|| predicted(2e8, 3e9, 8e9, "one rotation a cycle, at any clock there is"))
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let case = &series.cases[0];
        let whole = Duration::from_nanos(series.setting("duration").unwrap_or(0));
        let began = Instant::now();
        let (mut rates, mut rows) = (Vec::new(), Vec::new());
        while began.elapsed() < whole {
            let (block, mut rotations) = (Instant::now(), 0);
            while block.elapsed() < BLOCK {
                std::hint::black_box(metal::kernel::chain_rotate(STEP));
                rotations += STEP;
            }
            let rate = rotations as f64 / block.elapsed().as_secs_f64();
            rates.push(rate);
            rows.push(vec![began.elapsed().as_secs_f64(), rate]);
            bench.alive(began.elapsed().as_secs_f64());
        }
        bench.record_batches(case, "rate", 0, rates)?;
        bench.trace(case, "series", &["at_s", "rate_op_per_s"], rows)?;
        Ok(())
    }
}
