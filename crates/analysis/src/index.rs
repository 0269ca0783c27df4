//! A run's samples by figure and round, found once.

use record::event::{Histogram, PlannedSeries, Round, RoundStatus, Samples};
use record::key::CaseId;
use record::run::Run;
use stats::rounds::Condition;
use stats::width::is_alone;
use std::collections::HashMap;

/// The label under which a planned series' rounds and samples are recorded.
pub fn series_label(experiment: &str, series: &PlannedSeries) -> String {
    if series.name.is_empty() {
        experiment.to_owned()
    } else {
        format!("{experiment}/{}", series.name)
    }
}

pub fn experiment_of(label: &str) -> &str {
    label.split('/').next().unwrap_or(label)
}

type Address<'run> = (&'run str, &'run CaseId, &'run str);

pub struct Index<'run> {
    samples: HashMap<Address<'run>, Vec<&'run Samples>>,
    histograms: HashMap<Address<'run>, Vec<&'run Histogram>>,
    rounds: HashMap<(&'run str, u32), &'run Round>,
}

#[derive(Clone)]
pub struct RoundSamples<'run> {
    pub round: &'run Round,
    pub samples: Vec<&'run Samples>,
    pub histograms: Vec<&'run Histogram>,
    pub condition: Condition,
}

impl RoundSamples<'_> {
    pub fn disturbed(&self) -> bool {
        !self.round.disturbed.is_empty()
    }

    /// A same-round quantity by name; `core_hz` is the case's own core clock.
    pub fn quantity(&self, name: &str) -> Option<f64> {
        self.samples
            .iter()
            .find_map(|samples| samples.quantities.get(name).copied())
            .or_else(|| self.core_hz().filter(|_| name == "core_hz"))
    }

    /// Core clock, in Hz: at the samples that count, or over the windows of their visits.
    pub fn core_hz(&self) -> Option<f64> {
        self.condition.median(&self.samples, Samples::clocks)
    }

    /// The median of its samples that count, which are times in ns, in cycles. Events that are counted
    /// in histograms have one clock.
    pub fn cycles(&self) -> Option<f64> {
        match self.histograms.is_empty() {
            true => self.condition.median(&self.samples, Samples::cycles),
            false => self.value().zip(self.core_hz()).map(|(ns, hz)| ns * hz / 1e9),
        }
    }

    pub fn value(&self) -> Option<f64> {
        self.condition.round_value(&self.samples, &self.histograms)
    }

    pub fn under(&self, condition: Condition) -> Self {
        RoundSamples { condition, ..self.clone() }
    }

    /// Samples of the first visit that a probe classified, and those of them that were alone.
    pub fn probed(&self, level: f64) -> (usize, usize) {
        let first = self.samples.iter().filter(|samples| samples.visit == 0);
        let read = first.flat_map(|samples| &samples.width);
        let classified: Vec<f64> = read.copied().filter(|width| *width > 0.0).collect();
        let alone = classified.iter().filter(|width| is_alone(**width, level));
        (classified.len(), alone.count())
    }
}

impl<'run> Index<'run> {
    pub fn from_run(run: &'run Run) -> Self {
        let mut index =
            Index { samples: HashMap::new(), histograms: HashMap::new(), rounds: HashMap::new() };
        for samples in &run.samples {
            let address = (samples.series.as_str(), &samples.case, samples.metric.as_str());
            index.samples.entry(address).or_default().push(samples);
        }
        for histogram in &run.histograms {
            let address = (histogram.series.as_str(), &histogram.case, histogram.metric.as_str());
            index.histograms.entry(address).or_default().push(histogram);
        }
        for round in &run.rounds {
            if round.status == RoundStatus::Ok {
                index.rounds.insert((round.series.as_str(), round.n), round);
            }
        }
        index
    }

    pub fn rounds(&self, series: &str, case: &CaseId, metric: &str) -> Vec<RoundSamples<'run>> {
        let samples = self.samples.get(&(series, case, metric));
        let histograms = self.histograms.get(&(series, case, metric));
        let mut numbers: Vec<u32> = samples
            .into_iter()
            .flatten()
            .map(|samples| samples.round)
            .chain(histograms.into_iter().flatten().map(|histogram| histogram.round))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .into_iter()
            .filter_map(|n| {
                Some(RoundSamples {
                    round: self.round(series, n)?,
                    samples: of_round(samples, |samples| samples.round == n),
                    histograms: of_round(histograms, |histogram| histogram.round == n),
                    condition: Condition::AsFound,
                })
            })
            .collect()
    }

    fn round(&self, series: &str, n: u32) -> Option<&'run Round> {
        self.rounds.get(&(series, n)).copied()
    }
}

fn of_round<'run, T>(all: Option<&Vec<&'run T>>, is_of: impl Fn(&T) -> bool) -> Vec<&'run T> {
    all.into_iter().flatten().copied().filter(|one| is_of(one)).collect()
}
