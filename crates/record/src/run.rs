//! All that one `plumb run` recorded.

use crate::crosscheck::{Began, Pair, Pairing, PairingEnd, Rival};
use crate::event::{
    Derived, End, Event, Footer, Header, Histogram, Learnt, Outcome, Plan, PlannedExperiment,
    PredictionEvent, PredictionKind, Round, RoundStatus, Samples, Segment, Trace, Width,
};
use crate::key::{CaseId, Key, Value};
use crate::metric::Metric;
use crate::seal::Damaged;
use crate::shared::Shared;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

/// A run, event by event, with look-ups. Samples, histograms and traces of void rounds are kept in
/// the file but not here. Only [`Run::push`] changes predictions, derived values and outcomes:
/// they are found by their places.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub header: Header,
    /// The plan; a run killed at once has none.
    pub plan: Option<Plan>,
    pub segments: Vec<Segment>,
    /// What the width probe learnt after calibrations.
    pub learnt: Vec<Learnt>,
    pub predictions: Vec<PredictionEvent>,
    pub rounds: Vec<Round>,
    pub samples: Vec<Samples>,
    pub histograms: Vec<Histogram>,
    pub traces: Vec<Trace>,
    /// Derived values; a later one of the same key replaces an earlier one.
    pub derived: Vec<Derived>,
    pub outcomes: Vec<Outcome>,
    /// What stands beside other tools.
    pub crosscheck: Crosscheck,
    /// Last line; none if the run was killed.
    pub footer: Option<Footer>,
    /// Lines that were changed by accident or cannot be read, with what is lost by each.
    pub damaged: Vec<Damaged>,
    pending: Pending,
    places: Places,
    seen: Seen,
}

/// What rounds say of cases again and again: each once.
#[derive(Clone, Debug, Default)]
struct Seen {
    cases: HashSet<CaseId>,
    places: HashSet<Shared<BTreeMap<String, Value>>>,
}

impl Seen {
    fn share(&mut self, samples: &mut Samples) {
        share(&mut self.cases, &mut samples.case);
        share(&mut self.places, &mut samples.at);
    }
}

fn share<T: Clone + Eq + Hash>(seen: &mut HashSet<T>, one: &mut T) {
    match seen.get(one) {
        Some(same) => one.clone_from(same),
        None => {
            seen.insert(one.clone());
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crosscheck {
    /// When and how each crosscheck was made.
    pub begun: Vec<Began>,
    pub rivals: Vec<Rival>,
    pub pairings: Vec<Pairing>,
    pub pairs: Vec<Pair>,
    /// How each pairing ended; one that was cut off has no end.
    pub ends: Vec<PairingEnd>,
}

impl Crosscheck {
    /// A rival was looked for. One that is absent now takes nothing from what was compared when it
    /// was here.
    fn rival(&mut self, rival: Rival) {
        let has_pairings = self.pairings.iter().any(|known| known.rival == rival.name);
        if rival.absent.is_some() && has_pairings {
            return;
        }
        self.rivals.retain(|known| known.name != rival.name);
        self.rivals.push(rival);
    }

    /// A pairing begins; what an earlier crosscheck found of it is replaced.
    fn pairing(&mut self, pairing: Pairing) {
        let is_other = |rival: &str, name: &str| rival != pairing.rival || name != pairing.name;
        self.pairings.retain(|known| is_other(&known.rival, &known.name));
        self.pairs.retain(|known| is_other(&known.rival, &known.pairing));
        self.ends.retain(|known| is_other(&known.rival, &known.pairing));
        self.pairings.push(pairing);
    }
}

#[derive(Clone, Debug, Default)]
struct Pending {
    samples: Vec<Samples>,
    histograms: Vec<Histogram>,
    traces: Vec<Trace>,
}

/// Where the events of a case stand in their lists.
#[derive(Clone, Debug, Default)]
struct Places {
    predictions: ByCase,
    derived: ByCase,
    outcomes: ByCase,
}

/// Places in a list by experiment and case, in the order of the list. An event without a case, or
/// of several metrics of one case, shares its entry: the caller compares the event itself.
#[derive(Clone, Debug, Default)]
struct ByCase(HashMap<String, HashMap<CaseId, Vec<usize>>>);

impl ByCase {
    fn add(&mut self, experiment: &str, case: Option<&CaseId>, at: usize) {
        if !self.0.contains_key(experiment) {
            self.0.insert(experiment.to_owned(), HashMap::new());
        }
        let cases = self.0.get_mut(experiment).expect("it is there by now");
        let case = case.cloned().unwrap_or_default();
        cases.entry(case).or_default().push(at);
    }

    fn positions(&self, experiment: &str, case: Option<&CaseId>) -> &[usize] {
        let none = CaseId::new();
        self.0
            .get(experiment)
            .and_then(|cases| cases.get(case.unwrap_or(&none)))
            .map_or(&[], Vec::as_slice)
    }
}

impl Run {
    /// Whether it came to its end: neither killed, nor interrupted, nor under way.
    pub fn has_ended(&self) -> bool {
        let end = self.footer.as_ref().map(|footer| footer.end);
        matches!(end, Some(End::Complete | End::Budget))
    }

    /// Measuring time of a segment up to its last round, in seconds; the first one is 0.
    pub fn segment_s(&self, segment: u32) -> f64 {
        let own = self.rounds.iter().filter(|round| round.segment == segment);
        own.map(|round| round.at_s).fold(0.0, f64::max)
    }

    pub fn new(header: Header) -> Self {
        Run { header, ..Run::default() }
    }

    /// Takes the next event. Samples count once their round event says so.
    pub fn push(&mut self, mut event: Event) {
        event.complete();
        match event {
            Event::Header(_) => {}
            Event::Plan(plan) => self.plan = Some(*plan),
            Event::Prediction(prediction) => {
                let at = self.predictions.len();
                let places = &mut self.places.predictions;
                places.add(&prediction.experiment, Some(&prediction.case), at);
                self.predictions.push(prediction);
            }
            Event::Samples(mut samples) => {
                self.seen.share(&mut samples);
                self.pending.samples.push(samples);
            }
            Event::Histogram(histogram) => self.pending.histograms.push(histogram),
            Event::Trace(trace) => self.pending.traces.push(trace),
            Event::Round(round) => self.settle(round),
            Event::Derived(derived) => self.derive(derived),
            Event::Outcome(outcome) => self.end(outcome),
            Event::Crosscheck(began) => self.crosscheck.begun.push(began),
            Event::Rival(rival) => self.crosscheck.rival(rival),
            Event::Pairing(pairing) => self.crosscheck.pairing(pairing),
            Event::Pair(pair) => self.crosscheck.pairs.push(pair),
            Event::PairingEnd(end) => self.crosscheck.ends.push(end),
            Event::Segment(segment) => {
                // What a killed segment left without its round event counts for nothing.
                self.pending = Pending::default();
                self.footer = None;
                // A run derives at its end; what an interrupted one derived must not outlive it.
                self.derived.clear();
                self.places.derived = ByCase::default();
                // The first part was killed before its clocks were calibrated.
                if self.header.calibration.is_absent() {
                    self.header.calibration = segment.calibration.clone();
                }
                self.segments.push(segment);
            }
            Event::Calibration(calibration) => self.header.calibration = *calibration,
            Event::Width(learnt) => self.learnt.push(learnt),
            Event::Footer(footer) => self.footer = Some(footer),
        }
    }

    /// A line was lost; where it may have ended a round, that round's samples do not count.
    pub(crate) fn lose(&mut self, damaged: Damaged, may_end_round: bool) {
        if may_end_round {
            self.pending = Pending::default();
        }
        self.damaged.push(damaged);
    }

    fn derive(&mut self, derived: Derived) {
        let key = (&derived.experiment, &derived.case, &derived.metric);
        match self.place_of_derived(key.0, key.1, key.2) {
            Some(at) => self.derived[at] = derived,
            None => {
                let at = self.derived.len();
                self.places.derived.add(key.0, Some(key.1), at);
                self.derived.push(derived);
            }
        }
    }

    fn end(&mut self, outcome: Outcome) {
        let (experiment, case) = (&outcome.experiment, outcome.case.as_ref());
        match self.place_of_outcome(experiment, case) {
            Some(at) => self.outcomes[at] = outcome,
            None => {
                let at = self.outcomes.len();
                self.places.outcomes.add(experiment, case, at);
                self.outcomes.push(outcome);
            }
        }
    }

    pub fn retain_outcomes(&mut self, passes: impl Fn(&Outcome) -> bool) {
        self.places.outcomes = ByCase::default();
        let outcomes = std::mem::take(&mut self.outcomes);
        outcomes.into_iter().filter(passes).for_each(|outcome| self.end(outcome));
    }

    fn place_of_derived(&self, experiment: &str, case: &CaseId, metric: &str) -> Option<usize> {
        let places = self.places.derived.positions(experiment, Some(case)).iter();
        places.copied().find(|at| self.derived[*at].metric == metric)
    }

    fn place_of_outcome(&self, experiment: &str, case: Option<&CaseId>) -> Option<usize> {
        let places = self.places.outcomes.positions(experiment, case).iter();
        places.copied().find(|at| self.outcomes[*at].case.as_ref() == case)
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

    pub fn experiment(&self, id: &str) -> Option<&PlannedExperiment> {
        self.plan.as_ref()?.experiments.iter().find(|planned| planned.id == id)
    }

    pub fn metric(&self, experiment: &str, metric: &str) -> Option<&Metric> {
        self.experiment(experiment)?.metrics.iter().find(|have| have.name == metric)
    }

    /// What the width probe knew in a segment (0: the first).
    pub fn width(&self, segment: u32) -> Option<Width> {
        let learnt = self.learnt.iter().rev().find(|one| one.segment == segment);
        let resumed = self.segments.iter().find(|one| one.n == segment);
        let calibration = match resumed {
            Some(resumed) => &resumed.calibration,
            None => &self.header.calibration,
        };
        learnt.map_or(calibration.width, |one| Some(one.width))
    }

    /// The width probe's level of a segment: additions per cycle of a core that is alone.
    pub fn width_level(&self, segment: u32) -> Option<f64> {
        self.width(segment)?.level
    }

    pub fn rounds_of<'run>(&'run self, series: &'run str) -> impl Iterator<Item = &'run Round> {
        self.rounds
            .iter()
            .filter(move |round| round.series == series && round.status == RoundStatus::Ok)
    }

    /// The prediction of a key; the last one written counts.
    pub fn prediction(&self, key: &Key, of: PredictionKind) -> Option<&PredictionEvent> {
        let places = self.places.predictions.positions(&key.experiment, Some(&key.case));
        places
            .iter()
            .rev()
            .map(|at| &self.predictions[*at])
            .find(|event| event.of == of && event.metric == key.metric)
    }

    pub fn derived(&self, experiment: &str, case: &CaseId, metric: &str) -> Option<&Derived> {
        let at = self.place_of_derived(experiment, case, metric)?;
        Some(&self.derived[at])
    }

    pub fn outcome(&self, experiment: &str, case: &CaseId) -> Option<&Outcome> {
        self.place_of_outcome(experiment, Some(case))
            .or_else(|| self.place_of_outcome(experiment, None))
            .map(|at| &self.outcomes[at])
    }
}

#[cfg(test)]
mod tests {
    use super::Run;
    use crate::event::{Ending, Header, PredictionKind};
    use crate::key::{CaseId, Key};
    use serde_json::{Value, json};

    fn calibration() -> Value {
        json!({"source": "tsc", "counter_hz": 1e9, "counter_error": 0.0, "windows_hz": [],
            "resolution_ns": 1.0, "pair_cost_ns": 1.0, "vdso_falls_back": false, "core_hz": 1e9,
            "core_source": "chains", "multiply_cycles": null, "cpu": 0, "notes": []})
    }

    fn run_of(events: &[Value]) -> Run {
        let calibration = serde_json::from_value(calibration()).unwrap();
        let header = Header { calibration, ..Header::default() };
        let mut run = Run::new(header);
        for event in events {
            run.push(crate::codec::event(event.to_string().as_bytes()).unwrap());
        }
        run
    }

    fn level(name: &str) -> CaseId {
        CaseId::new().with("level", name)
    }

    fn outcome(case: Value, outcome: &str) -> Value {
        json!({"event": "outcome", "experiment": "a.b", "case": case, "outcome": outcome,
            "reason": null})
    }

    fn derived(level: &str, metric: &str, value: f64) -> Value {
        json!({"event": "derived", "experiment": "a.b", "case": {"level": level},
            "metric": metric, "value": value, "ci": null, "confidence": null, "presence": 1.0})
    }

    fn predicted(of: &str, metric: &str, because: &str) -> Value {
        json!({"event": "prediction", "experiment": "a.b", "case": {"level": "L1"},
            "metric": metric, "of": of, "range": null, "because": because, "bound": null})
    }

    #[test]
    fn a_later_outcome_replaces_the_one_of_the_same_case_alone() {
        let run = run_of(&[
            outcome(Value::Null, "skipped"),
            outcome(json!({}), "measured"),
            outcome(json!({"level": "L1"}), "failed"),
            outcome(json!({"level": "L1"}), "measured"),
        ]);
        assert_eq!(run.outcomes.len(), 3);
        let ending = |experiment: &str, case: &CaseId| {
            run.outcome(experiment, case).map(|outcome| outcome.outcome)
        };
        assert_eq!(ending("a.b", &level("L1")), Some(Ending::Measured));
        assert_eq!(ending("a.b", &CaseId::new()), Some(Ending::Measured));
        // That of the whole experiment holds where a case has none.
        assert_eq!(ending("a.b", &level("L2")), Some(Ending::Skipped));
        assert_eq!(ending("a.c", &level("L1")), None);
    }

    #[test]
    fn the_last_prediction_of_a_key_counts() {
        let run = run_of(&[
            predicted("prior", "latency", "first"),
            predicted("prior", "rate", "another metric"),
            predicted("prior", "latency", "last"),
            predicted("derived", "latency", "another kind"),
        ]);
        let because = |metric: &str, of| {
            run.prediction(&Key::new("a.b", &level("L1"), metric), of)
                .map(|event| event.prediction.because.as_str())
        };
        assert_eq!(because("latency", PredictionKind::Prior), Some("last"));
        assert_eq!(because("rate", PredictionKind::Prior), Some("another metric"));
        assert_eq!(because("rate", PredictionKind::Derived), None);
    }

    #[test]
    fn derived_values_are_replaced_and_end_with_their_segment() {
        let mut events = vec![
            derived("L1", "size", 1.0),
            derived("L1", "latency", 2.0),
            derived("L2", "size", 3.0),
            derived("L1", "size", 4.0),
        ];
        let value = |run: &Run, level_name: &str, metric: &str| {
            run.derived("a.b", &level(level_name), metric).map(|derived| derived.value)
        };
        let run = run_of(&events);
        assert_eq!(run.derived.len(), 3);
        assert_eq!(value(&run, "L1", "size"), Some(4.0));
        assert_eq!(value(&run, "L1", "latency"), Some(2.0));
        events.push(json!({"event": "segment", "n": 1, "started": "", "environment": {},
            "calibration": calibration()}));
        events.push(derived("L2", "size", 5.0));
        let run = run_of(&events);
        assert_eq!(run.derived.len(), 1);
        assert_eq!(value(&run, "L1", "size"), None);
        assert_eq!(value(&run, "L2", "size"), Some(5.0));
    }
}
