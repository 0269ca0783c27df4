//! ## Question
//! Does what goes wrong inside a round cost that round, and is it told?
//!
//! ## Method
//! The round fails in the way that the parameter names.
//!
//! ## Prediction
//! Unknown: a round that fails has no figure.
//!
//! ## Parameters
//! `fault`: `none`, an error, a panic, a worker that ends itself, an error in the first round only,
//! or a case that fails (`case`) while its series, that of `none`, goes on.
//!
//! ## Reading the result
//! Every fault but `none` and `first` gives a failed case with its reason.
//!
//! ## Pitfalls
//! None.
//!
//! ## Sources
//! DESIGN §4.2.

use anyhow::{Result, anyhow, bail};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, predicted, unknown,
};
use bench::measure::Bench;
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub struct Fault;
/// For the family's list.
pub const EXPERIMENT: Fault = Fault;

static CARD: Card = Card {
    id: "selftest.fault",
    title: "Rounds that go wrong",
    metrics: &[Metric::new("answer", "42", Unit::Count, Better::None, Kind::Os)],
    params: &[Param {
        name: "fault",
        doc: "what goes wrong",
        domain: Domain::Symbols(&["none", "error", "panic", "exit", "first", "case"]),
        defaults: ["none", "none", "none"],
        role: Role::Case,
    }],
    ..Card::PLAIN
};

impl Experiment for Fault {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("fault.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for fault in params.texts("fault") {
            let case = Case::new(CaseId::new().with("fault", fault));
            let name = if fault == "case" { "none" } else { fault };
            let of_name = |series: &&mut Series| series.name == name;
            match offer.series.iter_mut().find(of_name) {
                Some(series) => series.cases.push(case),
                None => offer.series.push(Series {
                    experiment: CARD.id.to_owned(),
                    name: name.to_owned(),
                    order: Order::Fixed,
                    cases: vec![case],
                    settings: Default::default(),
                }),
            }
        }
        Ok(offer)
    }

    fn round_cost(&self, _site: &Site, _series: &Series) -> Duration {
        Duration::from_millis(10)
    }

    fn predict(
        &self,
        _site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        known.is_none().then(|| match case.text("fault") {
            Some("none" | "first") => predicted(42.0, 42.0, 42.0, "it is known"),
            _ => unknown("the round fails"),
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let first = bench.order().round == 1;
        for case in &series.cases {
            bench.record(case, "answer", vec![42.0])?;
            match case.text("fault") {
                Some("error") => bail!("asked to fail"),
                Some("panic") => panic!("asked to panic"),
                Some("exit") => std::process::exit(7),
                Some("first") if first => bail!("asked to fail in the first round"),
                Some("case") => bench.fail(case, &anyhow!("asked to fail").context("one case")),
                _ => {}
            }
        }
        Ok(())
    }
}
