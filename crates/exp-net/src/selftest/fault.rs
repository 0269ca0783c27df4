//! ## Question
//! Does a fault inside a round cost that round, and is it reported?
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

use bench::prelude::*;

bench::experiment!(Fault);

symbols! {
    /// What goes wrong.
    pub enum Wrong {
        Nothing = "none",
        Error = "error",
        Panic = "panic",
        Exit = "exit",
        First = "first",
        Case = "case",
    }
}
case! {
    /// A round.
    pub struct Round {
        /// what goes wrong
        fault: Wrong,
    }
}

static CARD: Card = Card {
    id: "selftest.fault",
    title: "Rounds that go wrong",
    metrics: metrics! {
        "answer" => Count None Os: "42";
    },
    params: Round::PARAMS,
    ..Card::PLAIN
};

impl Experiment for Fault {
    type Case = Round;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("fault.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, _| Duration::from_millis(10);

    fn cases(_: &Site, _: Preset) -> Vec<Round> {
        vec![Round { fault: Wrong::Nothing }]
    }

    fn series(_: &Site, cases: Vec<Round>, _: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for case in cases {
            // The case that fails alone does so beside one that does not.
            let of = if case.fault == Wrong::Case { Wrong::Nothing } else { case.fault };
            offer.series_named(&CARD, of.text(), Order::Fixed).cases.push(Case::new(case.id()));
        }
        Ok(offer)
    }

    fn law(facts: Facts, case: &Round, _: &Case, _: &Metric) -> Option<Prediction> {
        facts.known.is_none().then(|| match case.fault {
            Wrong::Nothing | Wrong::First => predicted(42.0, 42.0, 42.0, "it is known"),
            _ => unknown("the round fails"),
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let first = bench.order().round == 1;
        for case in &series.cases {
            bench.record(case, "answer", vec![42.0])?;
            match Round::decode(case)?.fault {
                Wrong::Error => bail!("asked to fail"),
                Wrong::Panic => panic!("asked to panic"),
                Wrong::Exit => std::process::exit(7),
                Wrong::First if first => bail!("asked to fail in the first round"),
                Wrong::Case => {
                    bench.give_up([case], &anyhow!("asked to fail").context("one case"));
                }
                Wrong::First | Wrong::Nothing => {}
            }
        }
        Ok(())
    }
}
