//! What experiments of the family offer, and what all of their figures say beside them.

use super::file::ground_note;
use bench::experiment::{Card, Offer, Preset, Skip};
use bench::measure::Settled;
use record::case::{Case, Order, Series};
use record::event::Samples;
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;

pub(super) const fn io(
    name: &'static str,
    doc: &'static str,
    unit: Unit,
    better: Better,
) -> Metric {
    Metric::new(name, doc, unit, better, Kind::Io)
}

pub(super) const fn found(
    name: &'static str,
    doc: &'static str,
    unit: Unit,
    better: Better,
) -> Metric {
    Metric::derived(name, doc, unit, better, Kind::Io)
}

/// Cases on their way to a series.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) cases: Vec<Case>,
    pub(super) skipped: Vec<(CaseId, Skip)>,
}

impl Offered {
    /// Takes a case, or the reason why it is not to be had.
    pub(super) fn push(&mut self, case: Case, skip: Option<Skip>) {
        match skip {
            Some(skip) => self.skipped.push((case.id, skip)),
            None => self.cases.push(case),
        }
    }

    /// One series of what is left.
    ///
    /// # Errors
    /// Nothing is: the first reason.
    pub(super) fn series(
        self,
        card: &Card,
        name: &str,
        settings: BTreeMap<String, Value>,
    ) -> Result<Offer, Skip> {
        let Offered { cases, skipped } = self;
        if cases.is_empty() {
            let first = skipped.into_iter().next();
            return Err(first.map_or_else(|| Skip::because("no case was chosen"), |(_, skip)| skip));
        }
        let series = Series {
            experiment: card.id.to_owned(),
            name: name.to_owned(),
            order: Order::Shuffled,
            cases,
            settings,
        };
        Ok(Offer { series: vec![series], skipped })
    }
}

pub(super) fn rounds(preset: Preset) -> u64 {
    u64::from(*preset.looks().last().unwrap_or(&1))
}

/// Puts quantities beside a figure, those that are known.
pub(super) fn put<const COUNT: usize>(
    samples: &mut Samples,
    quantities: [(&str, Option<f64>); COUNT],
) {
    let known = quantities.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    samples.quantities.extend(known);
}

/// Puts beside a case's first figure what its device was like, and what lies below.
pub(super) fn describe_place(samples: &mut Samples, case: &Case, settled: Settled) {
    settled.write(&mut samples.quantities);
    samples.notes.extend(settled.note());
    let promise = case.at.get("promise").and_then(Value::text);
    samples.notes.extend(promise.map(str::to_owned));
    samples.notes.extend(ground_note(case));
}
