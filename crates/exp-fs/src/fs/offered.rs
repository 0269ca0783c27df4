//! What experiments of the family offer, and what all of their figures say beside them.

use super::file::ground_note;
use anyhow::{Context, Result};
use bench::experiment::contract::Experiment;
use bench::experiment::{Card, Field, Offer, Preset, Site, Skip};
use bench::measure::{Bench, Settled, settle};
use laws::fs::journal::{Keeper, keeper};
use record::case::{Case, Order, Series};
use record::event::Samples;
use record::key::{CaseId, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// Cases on their way to a series.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) cases: Vec<Case>,
    pub(super) skipped: Vec<(CaseId, Skip)>,
}

impl Offered {
    /// Takes a case, or the reason why it is not available.
    pub(super) fn push(&mut self, case: Case, skip: Option<Skip>) {
        match skip {
            Some(skip) => self.skipped.push((case.id, skip)),
            None => self.cases.push(case),
        }
    }

    pub(super) fn series(
        self,
        card: &Card,
        name: &str,
        settings: BTreeMap<String, Value>,
    ) -> Result<Offer, Skip> {
        let Offered { cases, skipped } = self;
        let (name, is_empty) = (name.to_owned(), cases.is_empty());
        let series = Series { name, settings, ..Series::new(card.id, Order::Shuffled, cases) };
        let series = if is_empty { Vec::new() } else { vec![series] };
        Offer { series, skipped }.or_reason()
    }
}

/// Puts the cases of the standard preset before the others: what may be written is theirs first, so
/// that a longer preset has them too.
pub(super) fn standard_first<E: Experiment>(site: &Site, cases: &mut [E::Case]) {
    let standard = E::cases(site, Preset::Standard);
    cases.sort_by_key(|case| !standard.contains(case));
}

pub(super) fn rounds(preset: Preset) -> u64 {
    u64::from(*preset.looks().last().unwrap_or(&1))
}

/// A text among what a case resolved to.
pub(super) fn told<'case>(case: &'case Case, name: &str) -> Option<&'case str> {
    case.at.get(name).and_then(Value::text)
}

/// What is stated for a round: a worker, and what each case takes, in ns.
pub(super) fn cost(worker_ns: f64, series: &Series, of: impl Fn(&Case) -> f64) -> Duration {
    Duration::from_nanos((worker_ns + series.cases.iter().map(of).sum::<f64>()) as u64)
}

/// The directory for files, once what others wrote has gone to its device; `measured_ns` is what
/// the round then measures.
pub(super) fn settled(bench: &Bench, measured_ns: u64) -> Result<(PathBuf, Settled)> {
    let dir = bench.order().directory()?.to_owned();
    let opened = File::open(&dir).context("opening the directory for files")?;
    let settled = settle(&opened, Duration::from_nanos(measured_ns))?;
    Ok((dir, settled))
}

/// The fact that says who decides what a sync does.
const PROMISE_AT: &str = "promise";

/// That fact, where the file system keeps no hard promise of its own.
pub(super) fn promise(site: &Site) -> Option<(String, Value)> {
    let keeper = keeper(&site.dir.as_ref()?.file_system);
    keeper.caveat().map(|_| (PROMISE_AT.to_owned(), keeper.text().into()))
}

/// Puts beside a case's first figure what its device was like, and what lies below.
pub(super) fn describe_place(samples: &mut Samples, case: &Case, settled: Settled) {
    settled.write(&mut samples.quantities);
    samples.notes.extend(settled.note());
    let keeper = Keeper::of(case.at.get(PROMISE_AT));
    samples.notes.extend(keeper.and_then(Keeper::caveat).map(str::to_owned));
    samples.notes.extend(ground_note(case));
}
