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

use bench::experiment::CaseId;
use bench::experiment::contract::one_series;
use bench::prelude::*;
use record::event::Repeat;
use record::order::InOrder;

bench::experiment!(Sweep);

case! {
    /// A point.
    pub struct Point {
        /// sizes swept
        size: u64 = Domain::bytes(1, 1 << 40),
    }
}

static CARD: Card = Card {
    id: "selftest.sweep",
    title: "A sweep with a made-up step",
    metrics: metrics! {
        "cost" => Ns Lower Os: "made-up cost";
        "knee" => derived B None Os: "largest size before the step";
    },
    params: Point::PARAMS,
    after: &["selftest.pulse"],
    repeat: Repeat::Sweep,
    views: &[ViewCard::line("size", "cost").log_x()],
    ..Card::PLAIN
};

const STEP_AT: u64 = 4096;

impl Experiment for Sweep {
    type Case = Point;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("sweep.rs");
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, _| Duration::from_millis(20);

    fn cases(_: &Site, preset: Preset) -> Vec<Point> {
        let most = match preset {
            Preset::Rehearsal | Preset::Quick => 16 << 10,
            Preset::Standard => 64 << 10,
            Preset::Thorough => 1 << 20,
        };
        let sizes = std::iter::successors(Some(1 << 10), |size| Some(2 * size));
        sizes.take_while(|size| *size <= most).map(|size| Point { size }).collect()
    }

    fn series(site: &Site, cases: Vec<Point>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = one_series::<Sweep>(site, cases, params);
        let absent = CaseId::new().with("size", 1_u64 << 41);
        offer.skipped.push((absent, Skip::because("it is there to be skipped")));
        Ok(offer)
    }

    fn resolve(_: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            case.at.insert("step".to_owned(), STEP_AT.into());
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Point, _: &Case, _: &Metric) -> Option<Prediction> {
        has_pulse(facts).then(|| match case.size > STEP_AT {
            true => predicted(2.5, 3.0, 3.5, "above the made-up step"),
            false => predicted(0.5, 1.0, 1.5, "below the made-up step"),
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        for case in &series.cases {
            let above = case.int("size") > case.int("step");
            let level = if above { 3.0 } else { 1.0 };
            let blocks = (0..12).map(|block| level + 0.01 * f64::from(block % 3)).collect();
            bench.record(case, "cost", Values::batches(1, blocks))?;
        }
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let sizes: usize = series.iter().map(|series| series.cases.len()).sum();
        if sizes > 1 { vec![CaseId::new()] } else { Vec::new() }
    }

    fn derived_law(facts: Facts, _: &CaseId, _: &Metric) -> Option<Prediction> {
        let step = STEP_AT as f64;
        has_pulse(facts).then(|| predicted(step, step, step, "the step is made up"))
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut points: Vec<(u64, f64)> = values
            .figures(CARD.id, "cost")
            .filter_map(|(case, cost)| Some((case.int("size")?, cost)))
            .collect();
        points.order_by_key(|(size, _)| *size);
        let step = points.windows(2).find(|pair| pair[1].1 > 2.0 * pair[0].1);
        step.map(|pair| DerivedValue::new(CaseId::new(), "knee", pair[0].0 as f64))
            .into_iter()
            .collect()
    }
}

/// Predicted before, and again once selftest.pulse has a figure.
fn has_pulse(facts: Facts) -> bool {
    facts.known.is_none_or(|known| known.figures("selftest.pulse", "rate").next().is_some())
}
