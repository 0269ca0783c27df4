//! All that one `plumb run` recorded.

use crate::event::{
    Derived, Event, Footer, Header, Histogram, Outcome, Plan, PlannedExperiment, PredictionEvent,
    PredictionKind, Round, RoundStatus, Samples, Segment, Trace,
};
use crate::key::{CaseId, Key};
use crate::metric::Metric;

/// A run, event by event, with look-ups. Samples, histograms and traces of void rounds are kept in
/// the file but not here.
#[derive(Clone, Debug)]
pub struct Run {
    /// First line.
    pub header: Header,
    /// The plan; a run killed at once has none.
    pub plan: Option<Plan>,
    /// Resumes.
    pub segments: Vec<Segment>,
    /// Predictions, prior and derived.
    pub predictions: Vec<PredictionEvent>,
    /// Rounds, also void ones.
    pub rounds: Vec<Round>,
    /// Samples of rounds that count.
    pub samples: Vec<Samples>,
    /// Histograms of rounds that count.
    pub histograms: Vec<Histogram>,
    /// Traces of rounds that count.
    pub traces: Vec<Trace>,
    /// Derived values; a later one of the same key replaces an earlier one.
    pub derived: Vec<Derived>,
    /// Outcomes; likewise.
    pub outcomes: Vec<Outcome>,
    /// Last line; none if the run was killed.
    pub footer: Option<Footer>,
    pending: Pending,
}

#[derive(Clone, Debug, Default)]
struct Pending {
    samples: Vec<Samples>,
    histograms: Vec<Histogram>,
    traces: Vec<Trace>,
}

impl Run {
    /// A run of which only the header is known.
    pub fn new(header: Header) -> Self {
        Run {
            header,
            plan: None,
            segments: Vec::new(),
            predictions: Vec::new(),
            rounds: Vec::new(),
            samples: Vec::new(),
            histograms: Vec::new(),
            traces: Vec::new(),
            derived: Vec::new(),
            outcomes: Vec::new(),
            footer: None,
            pending: Pending::default(),
        }
    }

    /// Takes the next event. Samples count once their round event says so.
    pub fn push(&mut self, event: Event) {
        match event {
            Event::Header(_) => {}
            Event::Plan(plan) => self.plan = Some(*plan),
            Event::Prediction(prediction) => self.predictions.push(prediction),
            Event::Samples(samples) => self.pending.samples.push(samples),
            Event::Histogram(histogram) => self.pending.histograms.push(histogram),
            Event::Trace(trace) => self.pending.traces.push(trace),
            Event::Round(round) => self.settle(round),
            Event::Derived(derived) => {
                self.derived.retain(|old| {
                    (&old.experiment, &old.case, &old.metric)
                        != (&derived.experiment, &derived.case, &derived.metric)
                });
                self.derived.push(derived);
            }
            Event::Outcome(outcome) => {
                self.outcomes.retain(|old| {
                    (&old.experiment, &old.case) != (&outcome.experiment, &outcome.case)
                });
                self.outcomes.push(outcome);
            }
            Event::Segment(segment) => {
                // What a killed segment left without its round event counts for nothing.
                self.pending = Pending::default();
                self.footer = None;
                // Every stage derives again; what an unfinished one derived must not outlive it.
                self.derived.clear();
                self.segments.push(segment);
            }
            Event::Footer(footer) => self.footer = Some(footer),
        }
    }

    fn settle(&mut self, round: Round) {
        let pending = std::mem::take(&mut self.pending);
        if round.status == RoundStatus::Ok {
            self.samples.extend(pending.samples);
            self.histograms.extend(pending.histograms);
            self.traces.extend(pending.traces);
        }
        self.rounds.push(round);
    }

    /// The planned experiment of an id.
    pub fn experiment(&self, id: &str) -> Option<&PlannedExperiment> {
        self.plan
            .as_ref()?
            .experiments
            .iter()
            .find(|planned| planned.id == id)
    }

    /// The metric of a key.
    pub fn metric(&self, experiment: &str, metric: &str) -> Option<&Metric> {
        self.experiment(experiment)?
            .metrics
            .iter()
            .find(|have| have.name == metric)
    }

    /// Rounds that count, of a series.
    pub fn rounds_of<'run>(&'run self, series: &'run str) -> impl Iterator<Item = &'run Round> {
        self.rounds
            .iter()
            .filter(move |round| round.series == series && round.status == RoundStatus::Ok)
    }

    /// The prediction of a key; the last one written counts.
    pub fn prediction(&self, key: &Key, of: PredictionKind) -> Option<&PredictionEvent> {
        self.predictions.iter().rev().find(|event| {
            event.of == of
                && event.experiment == key.experiment
                && event.case == key.case
                && event.metric == key.metric
        })
    }

    /// The outcome of a case, else of its experiment.
    pub fn outcome(&self, experiment: &str, case: &CaseId) -> Option<&Outcome> {
        let of = |case: Option<&CaseId>| {
            self.outcomes
                .iter()
                .find(|outcome| outcome.experiment == experiment && outcome.case.as_ref() == case)
        };
        of(Some(case)).or_else(|| of(None))
    }
}
