//! ## Question
//! Do a `Sweep`, sizes fixed by `resolve`, and figures derived from several cases reach the report?
//!
//! ## Method
//! A made-up cost is recorded that steps from 1 to 3 above a size which `resolve` fixes; `derive`
//! finds the step.
//!
//! ## Prediction
//! Exact, for it is made up.
//!
//! ## Parameters
//! `size`: the sizes swept.
//!
//! ## Reading the result
//! `knee` is the largest size before the step.
//!
//! ## Pitfalls
//! None: nothing is measured.
//!
//! ## Sources
//! DESIGN §3.

use anyhow::Result;
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip,
    ViewCard, predicted,
};
use bench::measure::Bench;
use record::case::{Case, Order, Series};
use record::event::{Prediction, Repeat};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub struct Sweep;
/// For the family's list.
pub const EXPERIMENT: Sweep = Sweep;

static CARD: Card = Card {
    id: "selftest.sweep",
    title: "A sweep with a made-up step",
    metrics: &[
        Metric::time("cost", "made-up cost", Kind::Os),
        Metric::derived("knee", "largest size before the step", Unit::B, Better::None, Kind::Os),
    ],
    params: &[Param {
        name: "size",
        doc: "sizes swept",
        domain: Domain::Integer { low: 1, high: 1 << 40, unit: Unit::B },
        defaults: ["1KiB..16KiB", "1KiB..64KiB", "1KiB..1MiB"],
        role: Role::Case,
    }],
    after: &["selftest.pulse"],
    repeat: Repeat::Sweep,
    views: &[ViewCard::line("size", "cost").log_x()],
    ..Card::PLAIN
};

const STEP_AT: u64 = 4096;

impl Experiment for Sweep {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("sweep.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let case = |size| Case::new(CaseId::new().with("size", size));
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Fixed,
                cases: params.ints("size").into_iter().map(case).collect(),
                settings: Default::default(),
            }],
            skipped: vec![(
                CaseId::new().with("size", 1_u64 << 41),
                Skip::because("it is there to be skipped"),
            )],
        })
    }

    fn derivable(&self, _site: &Site, series: &[Series]) -> Vec<CaseId> {
        let sizes: usize = series.iter().map(|series| series.cases.len()).sum();
        if sizes > 1 { vec![CaseId::new()] } else { Vec::new() }
    }

    fn round_cost(&self, _site: &Site, _series: &Series) -> Duration {
        Duration::from_millis(20)
    }

    fn resolve(&self, _site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            case.at.insert("step".to_owned(), STEP_AT.into());
        }
        Ok(series)
    }

    fn predict(
        &self,
        _site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some_and(|known| known.of("selftest.pulse", "rate").next().is_none()) {
            return None;
        }
        Some(match (metric.name.as_ref(), case.int("size")) {
            ("knee", _) => {
                predicted(STEP_AT as f64, STEP_AT as f64, STEP_AT as f64, "the step is made up")
            }
            (_, Some(size)) if size > STEP_AT => predicted(2.5, 3.0, 3.5, "above the made-up step"),
            _ => predicted(0.5, 1.0, 1.5, "below the made-up step"),
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        for case in &series.cases {
            let above = case.int("size") > case.int("step");
            let level = if above { 3.0 } else { 1.0 };
            let blocks = (0..12).map(|block| level + 0.01 * f64::from(block % 3)).collect();
            bench.record_batches(case, "cost", 1, blocks)?;
        }
        Ok(())
    }

    fn derive(&self, _site: &Site, _known: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut points: Vec<(u64, f64)> = values
            .of(CARD.id, "cost")
            .filter_map(|(case, cost)| Some((case.int("size")?, cost)))
            .collect();
        points.sort_by_key(|(size, _)| *size);
        let step = points.windows(2).find(|pair| pair[1].1 > 2.0 * pair[0].1);
        step.map(|pair| DerivedValue::new(CaseId::new(), "knee", pair[0].0 as f64))
            .into_iter()
            .collect()
    }
}
