//! The events of a run, in the order in which they may be written: one line of JSON each.

use crate::crosscheck;
use crate::estimate::Estimate;
use crate::key::{CaseId, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::plan::{Absence, Isolation, Plan, PlannedExperiment, PlannedSeries, Repeat};
pub use crate::prediction::{
    Arithmetic, Bound, Condition, Prediction, PredictionEvent, PredictionKind, Range, Shares, Side,
    Term,
};
pub use crate::samples::{Histogram, MEMORY_PROBE, Raw, Samples, TRACE_ROWS_MAX, Trace};
pub use crate::width::{Learnt, Unusable, Width};

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First line: what measured, on what, when.
    Header(Box<Header>),
    /// Second line: what would be measured.
    Plan(Box<Plan>),
    /// A prediction, before the first sample of its case.
    Prediction(PredictionEvent),
    /// One round of a series ended, with what its environment did.
    Round(Round),
    /// Raw samples of one metric of one case in one round.
    Samples(Samples),
    /// A distribution of events, where there are too many to list.
    Histogram(Histogram),
    /// Rows over time: timelines, gap lists, once-a-second series.
    Trace(Trace),
    /// A value that several cases give together.
    Derived(Derived),
    /// How a case ended: always written, also for skipped and failed ones.
    Outcome(Outcome),
    Crosscheck(crosscheck::Began),
    /// Another tool of a crosscheck, and whether it is here.
    Rival(crosscheck::Rival),
    /// What of plumb's is compared with what of its.
    Pairing(crosscheck::Pairing),
    /// One turn of a pairing.
    Pair(crosscheck::Pair),
    /// How a pairing ended.
    PairingEnd(crosscheck::PairingEnd),
    /// The run was resumed here.
    Segment(Segment),
    /// The clocks of the run's first part, once they are calibrated.
    Calibration(Box<Calibration>),
    /// What the width probe learnt after the calibration.
    Width(Learnt),
    Footer(Footer),
}

/// What measured, on what machine, when and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`crate::FORMAT`] of the writer.
    pub format: u32,
    pub plumb: String,
    /// Compiler that built it.
    pub rustc: String,
    /// Written like this: `release` or `debug`.
    pub profile: String,
    pub target: String,
    /// Target features the binary was built with.
    pub target_features: String,
    /// Fingerprint of the sources that measure, which a version says too little of; empty in files
    /// of before there was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// Name of the run: time and host.
    pub run: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of every random order.
    pub seed: u64,
    /// What was asked for.
    pub options: Options,
    /// CPUs to measure on, the measuring thread's first; a resume keeps them.
    pub cpus: Vec<usize>,
    /// Identity of the machine: of what does not change from boot to boot.
    pub identity: String,
    pub host: serde_json::Value,
    /// The environment: kernel, mitigations, governor, load … by name.
    pub environment: BTreeMap<String, String>,
    /// The far ends on other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerHeader>,
    /// The author's estimates of key figures, stated before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<Estimate>,
    /// The clocks: in a file an event of its own, which follows.
    #[serde(default, skip_serializing_if = "Calibration::is_absent")]
    pub calibration: Calibration,
}

/// The preset of a run of the published reports' cases, which has the rules of `thorough`.
pub const REPORTS: &str = "reports";

/// The preset of a run whose figures were published by others: a report's machine.
pub const PUBLISHED: &str = "published";

impl Calibration {
    /// Whether the clocks were not calibrated, or not yet.
    pub fn is_absent(&self) -> bool {
        self.source.is_empty()
    }
}

impl Header {
    /// Whether its figures were published by others and not measured by plumb: without rounds, and
    /// with clocks that the report states instead of calibrated ones.
    pub fn is_published(&self) -> bool {
        self.options.preset == PUBLISHED
    }

    /// Whether it begins a crosscheck's own record, which has no plan and no figures.
    pub fn is_crosscheck(&self) -> bool {
        self.options.preset == crosscheck::CROSSCHECK
    }
}

/// A far end on another host, as its agent described it when the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerHeader {
    /// Its name in cases (`far=NAME`).
    pub name: String,
    /// Its address, as given on the command line.
    pub url: String,
    /// The address of its data connections.
    pub address: String,
    /// Its version of plumb.
    pub plumb: String,
    /// Identity of the machine.
    pub identity: String,
    /// CPUs of its ends of rounds, the preferred one first.
    pub cpus: Vec<usize>,
    /// The machine's description.
    pub host: serde_json::Value,
    /// Its environment, by name.
    pub environment: BTreeMap<String, String>,
    /// Its clocks.
    pub calibration: Calibration,
}

/// The options of a run: the ones that a resume must repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Options {
    /// Selectors as typed; empty means everything the site allows.
    pub selectors: Vec<String>,
    /// `quick`, `standard`, `thorough` or [`REPORTS`].
    pub preset: String,
    /// Hard limit of the measuring time, in seconds.
    pub budget_s: f64,
    /// Goal for the relative half width of an interval, as a ratio.
    pub precision: f64,
    /// `ID.PARAM=VALUE` and `host.FACT=VALUE` settings, as typed.
    pub set: Vec<String>,
    /// CPUs asked for, as typed; null where plumb chose.
    pub cpus: Option<String>,
    /// Where fs experiments may write.
    pub dir: Option<String>,
    /// Far ends on other hosts, as typed (`NAME=URL` or `URL`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Where the key that is shared with agents that listen is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
}

/// The clocks and what they cost (METHOD §1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// `tsc`, `cntvct` or `clock_gettime`.
    pub source: String,
    /// Counter frequency in Hz (10^9 where the source is `clock_gettime`).
    pub counter_hz: f64,
    /// Half width of the counter frequency's interval, as a ratio.
    pub counter_error: f64,
    /// Counter frequency of each calibration window, in Hz.
    pub windows_hz: Vec<f64>,
    /// Smallest step of the clock, in ns.
    pub resolution_ns: f64,
    /// Cost of an empty fenced start/end pair, in ns.
    pub pair_cost_ns: f64,
    /// Whether `clock_gettime` falls back to a system call.
    pub vdso_falls_back: bool,
    /// Core clock, in Hz.
    pub core_hz: f64,
    /// `perf` or `chains`.
    pub core_source: String,
    /// Multiply chain over rotate chain, in cycles per multiply; null if not within 1 % of an
    /// integer 3 to 6.
    pub multiply_cycles: Option<f64>,
    /// CPU on which this was measured.
    pub cpu: usize,
    /// The width probe's reading on that CPU; null in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
    /// Remarks of the calibration.
    pub notes: Vec<String>,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status", content = "reason")]
pub enum RoundStatus {
    Ok,
    /// Nothing of it counts: the worker died, an end failed, a check failed.
    Void(String),
}

/// One round of a series. Its samples are the events between the previous round event and this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The series' label, `experiment/name`.
    pub series: String,
    /// Round number, from 1.
    pub n: u32,
    /// Segment of the run, from 0.
    pub segment: u32,
    /// Seconds since the start of the segment.
    pub at_s: f64,
    /// Length of the measured window, in ns.
    pub window_ns: f64,
    #[serde(flatten)]
    pub status: RoundStatus,
    /// Seconds that the session waited for a core that is alone. It is present only if the session
    /// asked the probe before the round: such a round does not show how much of the time the core is
    /// shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_s: Option<f64>,
    pub cpus: Vec<usize>,
    /// Changes of the environment over the round, by name and unit last (docs/FORMAT.md).
    pub environment: BTreeMap<String, f64>,
    /// Why this round counts as disturbed; empty if it does not.
    pub disturbed: Vec<String>,
    /// Other plumbs that measured on this machine meanwhile, each as it describes itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Cases that failed while the round went on; they have no samples in it. Of a void round:
    /// those that no further round measures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedCase>,
}

/// A case that failed in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedCase {
    pub case: CaseId,
    /// Why, outermost reason first.
    pub reason: String,
}

/// A value that several cases give together, with the interval of 200 resamples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    pub experiment: String,
    pub case: CaseId,
    pub metric: String,
    /// Value from the estimates.
    pub value: f64,
    /// Interval of the resamples.
    pub ci: Option<(f64, f64)>,
    /// Simulated confidence of that interval, for the number of rounds it rests on.
    pub confidence: Option<f64>,
    /// Share of the resamples in which it was present; under 0.8 it is uncertain.
    pub presence: f64,
    /// What was found with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It has figures.
    Measured,
    /// It was not measured, for a known reason.
    Skipped,
    /// It could not be measured.
    Failed,
}

/// The outcome of a case (of the whole experiment where `case` is null).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub experiment: String,
    /// Case; null for the whole experiment.
    pub case: Option<CaseId>,
    pub outcome: Ending,
    /// Why, for skipped and failed; why no further rounds were made, for measured.
    pub reason: Option<String>,
}

/// A resumed part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub n: u32,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    pub environment: BTreeMap<String, String>,
    pub calibration: Calibration,
    /// The far ends on other hosts then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerHeader>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The plan was done.
    Complete,
    /// The budget ended looks that were still wanted.
    Budget,
    /// A signal ended it.
    Interrupted,
}

/// What it cost that a record reaches its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Synced {
    /// How often it was asked for.
    pub times: u32,
    /// How long all took, in seconds.
    pub seconds: f64,
}

impl Synced {
    fn is_none(&self) -> bool {
        self.times == 0
    }
}

/// The last line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// When it ended, RFC 3339 in UTC.
    pub finished: String,
    /// Seconds since the start of the last segment.
    pub elapsed_s: f64,
    pub end: End,
    /// Change of the counter's frequency since calibration, as a ratio; null where unmeasured.
    pub counter_drift: Option<f64>,
    /// The estimate shown after the first pass, in seconds since the start.
    pub eta_after_first_pass_s: Option<f64>,
    /// Processor time of the session itself, in seconds.
    pub session_cpu_s: f64,
    /// Peak resident memory of the session, in bytes.
    pub session_peak_bytes: u64,
    /// How often the record was made to reach its disk, and the seconds that took; absent in older
    /// records.
    #[serde(default, skip_serializing_if = "Synced::is_none")]
    pub synced: Synced,
    /// The programs that used most CPU time on the machine since the segment began, the busiest
    /// first; plumb is none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
}
