//! What experiments of the family offer, what all of their figures say beside them, latencies that
//! engines logged, and a clock that several CPUs share.

use super::file::ground_note;
use crate::fs::prelude::*;
use bench::measure::{Settled, settle};
use laws::fs::journal::{Keeper, keeper};
use metal::io::Latencies;
use stats::histogram::Histogram;

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
        Offer { series, skipped, ..Offer::default() }.or_reason()
    }
}

/// Puts the cases of the standard preset before the others: what may be written is theirs first, so
/// that a longer preset has them too.
pub(super) fn standard_first<E: Experiment>(site: &Site, cases: &mut [E::Case]) {
    let standard = E::cases(site, Preset::Standard);
    cases.order_by_key(|case| !standard.contains(case));
}

pub(super) fn rounds(preset: Preset) -> u64 {
    u64::from(*preset.looks().last().unwrap_or(&1))
}

/// A text among what a case resolved to.
pub(super) fn text_at<'case>(case: &'case Case, name: &str) -> Option<&'case str> {
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
    let keeper = Keeper::from_value(case.at.get(PROMISE_AT));
    samples.notes.extend(keeper.and_then(Keeper::caveat).map(str::to_owned));
    samples.notes.extend(ground_note(case));
}

/// Single latencies that a log keeps as they are; all are counted.
pub(super) const LISTED: usize = 20_000;

pub(super) fn in_ns<'log>(
    clock: Clock,
    logs: impl Iterator<Item = &'log Latencies>,
) -> (Vec<f64>, Histogram) {
    let mut all = Histogram::default();
    let mut listed = Vec::new();
    for log in logs {
        listed.extend(log.first().iter().map(|ticks| clock.ns(*ticks)));
        if log.total() == log.first().len() as u64 {
            // All are known as they were.
            log.first().iter().for_each(|ticks| all.record(clock.ns(*ticks)));
            continue;
        }
        for (ticks, count) in log.counts() {
            (0..count).for_each(|_| all.record(clock.ns(ticks)));
        }
    }
    (listed, all)
}

/// A clock that may be compared between CPUs over so many ns.
pub(super) fn common_clock(bench: &mut Bench, cpus: &[usize], window_ns: f64) -> Result<Clock> {
    let mut clock = bench.order().clock();
    for cpu in cpus.iter().filter(|cpu| **cpu != cpus[0]) {
        if !bench.offset(cpus[0], *cpu)?.allows(window_ns) {
            clock = Clock::Monotonic;
        }
    }
    Ok(clock)
}
