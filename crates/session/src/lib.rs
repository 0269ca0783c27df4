//! The session: a plan becomes events. It does not measure; workers do.
//!
//! R0 to R4 are the published lab reports of docs/REPORTS.md. METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

pub mod agent;
pub mod budget;
pub mod defaults;
pub mod derive;
pub mod directory;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod header;
mod kept;
pub mod live;
pub mod machine;
pub mod node;
pub mod params;
pub mod passes;
pub mod plan;
mod quiet;
pub mod resume;
pub mod round;
pub mod select;
pub mod setup;
pub mod site;
pub mod stepwise;
pub mod store;
pub mod worker;

use crate::derive::Measured;
use crate::directory::Hanging;
use crate::header::{header, now, peers};
use crate::live::{Live, Stop, measured_cases};
use crate::node::Interrupted;
use crate::plan::Work;
use crate::setup::Setup;
use anyhow::{Result, bail};
use bench::experiment::{AnyExperiment, Known, Skip};
use host::programs::CpuTimes;
use host::{Outside, Root};
use record::case::{Case, Series};
use record::codec::EventText;
use record::event::{
    Calibration, End, Ending, Event, Outcome, PredictionEvent, PredictionKind, Segment, Synced,
};
use record::key::{CaseId, Key};
use record::run::Run;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where the events of a run go: a record, or the plumb that ordered the run.
pub trait Sink {
    /// Takes an event, with its text. Errors: it is not kept.
    fn take(&mut self, event: &Event, text: &EventText) -> Result<()>;

    /// Has all events so far reach the disk. Errors: they do not.
    fn sync(&mut self) -> Result<()>;
}

/// What is being done, for a progress display.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The stage whose first rounds are measured; `None` in further rounds.
    pub stage: Option<usize>,
    pub series: String,
    pub cases: String,
    pub round: u32,
    /// Round of the next look.
    pub look: u32,
    /// Expected time until the run ends.
    pub left: Duration,
    /// Time since the segment began.
    pub elapsed: Duration,
}

pub struct Session<'run> {
    setup: &'run Setup,
    sink: &'run mut dyn Sink,
    show: &'run mut dyn FnMut(&Progress),
    stop: &'run AtomicBool,
    run: Run,
    calibration: Calibration,
    segment: u32,
    started: Instant,
    spent_before: Duration,
    rng: fastrand::Rng,
    eta_after_first_pass: Option<Duration>,
    hanging: Hanging,
    /// Readings of the width probe in samples that its level does not explain.
    readings: Vec<f64>,
    /// When all events had reached the disk, and what that cost so far.
    synced_at: Instant,
    synced: Synced,
    /// CPU times of all processes when the segment began.
    cpu_times: CpuTimes,
    /// See [`Finished::unreached`] for details.
    unreached: usize,
}

pub struct Finished {
    pub run: Run,
    /// Work directories that hung.
    pub hanging: Vec<PathBuf>,
    /// Cases that the budget ended before their first round.
    pub unreached: usize,
}

/// Runs a plan into a record; with `resumed`, continues that run. `show` is called before each round:
/// no message is printed while one is timed. Errors: the clocks cannot be calibrated, or an
/// event cannot be stored. What fails inside a round is an outcome, not an error; an interruption
/// ends the run cleanly with [`End::Interrupted`].
pub fn run(
    setup: &Setup,
    sink: &mut dyn Sink,
    show: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
    resumed: Option<Run>,
) -> Result<Finished> {
    let mut session = Session::begin(setup, sink, show, stop, resumed)?;
    session.announce()?;
    let end = session.stages()?;
    session.footer(end)?;
    let Session { run, hanging, unreached, .. } = session;
    Ok(Finished { run, hanging: hanging.given_up(), unreached })
}

pub fn spent(run: &Run) -> Duration {
    let segments = u32::try_from(run.segments.len()).unwrap_or(0);
    // An invalid time comes from a damaged record: then the budget is spent.
    let spent = (0..=segments).map(|segment| run.segment_s(segment)).sum();
    Duration::try_from_secs_f64(spent).unwrap_or(Duration::MAX)
}

impl<'run> Session<'run> {
    /// Writes the header of a new run, and calibrates.
    fn begin(
        setup: &'run Setup,
        sink: &'run mut dyn Sink,
        show: &'run mut dyn FnMut(&Progress),
        stop: &'run AtomicBool,
        resumed: Option<Run>,
    ) -> Result<Session<'run>> {
        let started = Instant::now();
        let (run, segment) = match resumed {
            Some(run) => {
                let n = u32::try_from(run.segments.len() + 1).unwrap_or(u32::MAX);
                (run, n)
            }
            None => (Run::new(header(setup)?), 0),
        };
        let spent_before = spent(&run);
        let mut session = Session {
            rng: fastrand::Rng::with_seed(setup.seed ^ u64::from(segment)),
            setup,
            sink,
            show,
            stop,
            run,
            calibration: Calibration::default(),
            segment,
            started,
            spent_before,
            eta_after_first_pass: None,
            hanging: Hanging::default(),
            readings: Vec::new(),
            synced_at: started,
            synced: Synced::default(),
            cpu_times: CpuTimes::read(&Root::live(Outside::default())),
            unreached: 0,
        };
        if segment == 0 {
            session.emit(Event::Header(Box::new(session.run.header.clone())))?;
        }
        session.calibrate()?;
        Ok(session)
    }

    fn emit(&mut self, event: Event) -> Result<()> {
        let text = EventText::new(&event)?;
        self.keep(event, &text)
    }

    fn keep(&mut self, event: Event, text: &EventText) -> Result<()> {
        self.sink.take(&event, text)?;
        self.run.push(event);
        Ok(())
    }

    fn calibrate(&mut self) -> Result<()> {
        self.calibration = match round::calibrate(self.setup, self.stop) {
            Err(error) if !is_interrupt(&error) => {
                bail!("{error:#}: the clocks cannot be calibrated, so nothing was measured")
            }
            calibrated => calibrated?,
        };
        let calibration = self.calibration.clone();
        self.emit(match self.segment {
            0 => Event::Calibration(Box::new(calibration)),
            n => Event::Segment(Segment {
                n,
                started: now(),
                environment: host::environment::tags(&self.setup.site.host),
                calibration,
                peers: peers(self.setup),
            }),
        })
    }

    /// The plan, the prior of every case, and what is skipped: all before the first sample. A
    /// resumed run may have been killed in the midst of it; what is there is not said again.
    fn announce(&mut self) -> Result<()> {
        let setup = self.setup;
        if self.run.plan.is_none() {
            self.emit(Event::Plan(Box::new(setup.planned.plan.clone())))?;
        }
        for work in &setup.planned.work {
            self.predict(work.experiment, &work.series.cases, false, None)?;
        }
        for (experiment, derived) in derived_cases(setup) {
            self.predict(experiment, &derived, true, None)?;
        }
        for (card, case, skip) in &setup.planned.skipped {
            let is_of_case =
                |outcome: &Outcome| outcome.experiment == card.id && outcome.case == *case;
            if self.run.outcomes.iter().any(is_of_case) {
                continue;
            }
            self.outcome(card.id, case.clone(), Ending::Skipped, Some(skip_reason(skip)))?;
        }
        self.sync()
    }

    /// Predicts the metrics of cases that are derived, or those that are measured.
    fn predict(
        &mut self,
        experiment: &'static dyn AnyExperiment,
        cases: &[Case],
        is_derived: bool,
        known: Option<&Known>,
    ) -> Result<()> {
        let kind = match known {
            None => PredictionKind::Prior,
            Some(_) => PredictionKind::Derived,
        };
        let (card, setup) = (experiment.card(), self.setup);
        for case in cases {
            let site = setup.site_for(case);
            for metric in card.metrics.iter().filter(|metric| metric.derived == is_derived) {
                let key = Key::new(card.id, &case.id, &metric.name);
                if known.is_none() && self.run.prediction(&key, kind).is_some() {
                    continue;
                }
                let prediction = experiment.predict(&site, known, case, metric);
                let Some(prediction) = prediction else { continue };
                self.emit(Event::Prediction(PredictionEvent {
                    experiment: card.id.to_owned(),
                    case: case.id.clone(),
                    metric: metric.name.to_string(),
                    of: kind,
                    prediction,
                    at: case.at.clone(),
                }))?;
            }
        }
        Ok(())
    }

    fn outcome(
        &mut self,
        experiment: &str,
        case: Option<CaseId>,
        outcome: Ending,
        reason: Option<String>,
    ) -> Result<()> {
        self.emit(Event::Outcome(Outcome {
            experiment: experiment.to_owned(),
            case,
            outcome,
            reason,
        }))
    }

    /// The first looks stage by stage, what the budget has left for further ones, and what comes of
    /// all.
    fn stages(&mut self) -> Result<End> {
        let mut lives = Vec::new();
        let mut end = self.measure(&mut lives)?;
        if end == Stop::Done && lives.iter().any(|live| !live.claim().ended) {
            end = Stop::Budget;
        }
        self.conclude(&mut lives, end)
    }

    /// What comes of the measured cases, and how each ended.
    fn conclude(&mut self, lives: &mut [Live<'run>], end: Stop) -> Result<End> {
        let Setup { site, seed, .. } = self.setup;
        let measured = measured(&self.run, lives);
        for derived in derive::derive(&self.run, site, &measured, *seed) {
            self.emit(Event::Derived(derived))?;
        }
        for live in &*lives {
            self.close(live, end)?;
        }
        Ok(match end {
            _ if lives.iter().any(|live| self.lost_far_end(live)) => End::Interrupted,
            Stop::Done => End::Complete,
            Stop::Budget => End::Budget,
            Stop::Interrupted => End::Interrupted,
        })
    }

    /// Whether a series lacks rounds because the agent at its far end is gone: a resume measures them.
    fn lost_far_end(&self, live: &Live<'run>) -> bool {
        let remotes = &self.setup.remotes;
        let site = self.setup.site_of(&live.work.series);
        let remote = site.peer.as_ref().and_then(|peer| remotes.get(&peer.name));
        live.finished.is_none() && remote.is_some_and(|remote| remote.is_lost())
    }

    fn measure(&mut self, lives: &mut Vec<Live<'run>>) -> Result<Stop> {
        let setup = self.setup;
        let stages = setup.planned.work.iter().map(|work| work.stage);
        let last = stages.max().unwrap_or(0);
        for stage in 0..=last {
            self.open_stage(stage, lives)?;
            if !self.looks(Some(stage), lives)? {
                self.leave(stage)?;
                return Ok(Stop::Interrupted);
            }
            self.sync()?;
        }
        if self.looks(None, lives)? { Ok(Stop::Done) } else { Ok(Stop::Interrupted) }
    }

    /// Every case has an outcome, also those of the stages that a signal left out.
    fn leave(&mut self, stage: usize) -> Result<()> {
        let setup = self.setup;
        for work in setup.planned.work.iter().filter(|work| work.stage > stage) {
            let live = self.live(work, work.series.clone());
            self.close(&live, Stop::Interrupted)?;
        }
        Ok(())
    }

    /// Resolves and predicts the series of a stage by what the first looks of the earlier ones
    /// gave.
    fn open_stage(&mut self, stage: usize, lives: &mut Vec<Live<'run>>) -> Result<()> {
        let setup = self.setup;
        let known = derive::known(&self.run, &setup.site, &measured(&self.run, lives));
        let before = lives.len();
        for work in setup.planned.work.iter().filter(|work| work.stage == stage) {
            if let Some(mut live) = self.open(work, &known)? {
                live.look(&self.run);
                lives.push(live);
            }
        }
        if stage > 0 && !known.is_empty() {
            self.predict_from(&lives[before..], &known)?;
        }
        Ok(())
    }

    fn live(&self, work: &'run Work, series: Series) -> Live<'run> {
        let measured = measured_cases(&self.run, &series.label());
        Live::new(work, series, &self.run.rounds, &measured, self.rules())
    }

    /// Resolves a series and counts what an earlier segment already measured of it.
    fn open(&mut self, work: &'run Work, known: &Known) -> Result<Option<Live<'run>>> {
        let resolved =
            work.experiment.resolve(&self.setup.site_of(&work.series), known, work.series.clone());
        match resolved {
            Ok(series) => Ok(Some(self.live(work, series))),
            Err(skip) => {
                for case in &work.series.cases {
                    self.outcome(
                        &work.series.experiment,
                        Some(case.id.clone()),
                        Ending::Skipped,
                        Some(skip_reason(&skip)),
                    )?;
                }
                Ok(None)
            }
        }
    }

    fn predict_from(&mut self, lives: &[Live<'run>], known: &Known) -> Result<()> {
        for live in lives.iter().filter(|live| live.tally == 0) {
            self.predict(live.work.experiment, &live.series.cases, false, Some(known))?;
        }
        for (experiment, derived) in derived_cases(self.setup) {
            let here = lives
                .iter()
                .any(|live| live.tally == 0 && live.work.series.experiment == experiment.card().id);
            if here {
                self.predict(experiment, &derived, true, Some(known))?;
            }
        }
        Ok(())
    }

    fn close(&mut self, live: &Live<'run>, stopped: Stop) -> Result<()> {
        for case in &live.series.cases {
            let (ending, reason) = live.ending_of(&case.id, stopped);
            let is_over_budget = ending == Ending::Skipped && stopped != Stop::Interrupted;
            self.unreached += usize::from(is_over_budget);
            self.outcome(&live.series.experiment, Some(case.id.clone()), ending, Some(reason))?;
        }
        Ok(())
    }
}

/// The series under way as `derive` takes them.
fn measured(run: &Run, lives: &mut [Live<'_>]) -> Vec<Measured> {
    let measured = |live: &mut Live<'_>| (live.work.experiment, live.figures(run));
    lives.iter_mut().map(measured).collect()
}

fn skip_reason(skip: &Skip) -> String {
    match &skip.needed {
        Some(needed) => format!("{} (needed: {needed})", skip.reason),
        None => skip.reason.clone(),
    }
}

fn derived_cases(setup: &Setup) -> Vec<(&'static dyn AnyExperiment, Vec<Case>)> {
    let planned = &setup.planned;
    let some = planned.plan.experiments.iter().filter(|one| !one.derived.is_empty());
    let cases = some.filter_map(|one| {
        let work = planned.work.iter().find(|work| work.series.experiment == one.id)?;
        Some((work.experiment, one.derived.iter().cloned().map(Case::new).collect()))
    });
    cases.collect()
}

/// Whether an error says that a signal asked to end.
pub fn is_interrupt(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Interrupted>())
}
