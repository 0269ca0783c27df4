//! The events of a run, in the order in which they may be written: one line of JSON each.

use crate::crosscheck;
use crate::key::{CaseId, Value};
use crate::note::Notes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::plan::{Absence, Isolation, Plan, PlannedExperiment, PlannedSeries, Repeat};
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
    /// A crosscheck begins.
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
    /// What the width probe learnt after the calibration.
    Width(Learnt),
    /// Last line.
    Footer(Footer),
}

/// What measured, on what machine, when and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`crate::FORMAT`] of the writer.
    pub format: u32,
    /// Version of plumb.
    pub plumb: String,
    /// Compiler that built it.
    pub rustc: String,
    /// `release` or `debug`.
    pub profile: String,
    /// Target triple.
    pub target: String,
    /// Target features the binary was built with.
    pub target_features: String,
    /// Fingerprint of the sources that measure, which a version says too little of; empty in files of
    /// before there was one.
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
    /// The machine, as the host room describes it.
    pub host: serde_json::Value,
    /// The environment: kernel, mitigations, governor, load … by name.
    pub environment: BTreeMap<String, String>,
    /// The far ends on other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerHeader>,
    /// The clocks.
    pub calibration: Calibration,
}

/// The preset of a run whose figures were published by others: a report's machine.
pub const PUBLISHED: &str = "published";

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

/// A far end on another host, as its agent told of it when the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerHeader {
    /// Its name in cases (`far=NAME`).
    pub name: String,
    /// How it was reached, as given on the command line.
    pub url: String,
    /// The address of its data connections.
    pub address: String,
    /// Its version of plumb.
    pub plumb: String,
    /// Identity of the machine.
    pub identity: String,
    /// CPUs that its ends of rounds use, the first first.
    pub cpus: Vec<usize>,
    /// The machine, as the host room describes it.
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
    /// `quick`, `standard` or `thorough`.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What the width probe reads on that CPU; null in records of before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
    /// What was found on the way.
    pub notes: Vec<String>,
}

/// Where a prediction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PredictionKind {
    /// From the hardware description alone, written in planning.
    Prior,
    /// From earlier figures of the same run, written at the start of the stage.
    Derived,
}

/// A prediction as an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionEvent {
    /// Experiment id.
    pub experiment: String,
    /// Case.
    pub case: CaseId,
    /// Metric.
    pub metric: String,
    /// Prior or derived.
    pub of: PredictionKind,
    /// The prediction.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// What the case's symbols resolved to when this was written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
}

/// What was expected, and from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The interval, in the metric's unit; null where nothing can be said.
    pub range: Option<Range>,
    /// One sentence with the inputs and their sources; for an unknown, why it is unknown.
    pub because: String,
    /// A limit that no correct figure passes.
    pub bound: Option<Bound>,
    /// What of the machine it counted in or was widened for: none of that is a cause of a miss.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What of it base hardware takes and what software; null where nobody can part them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

impl Prediction {
    /// An interval, or none, and why.
    pub fn new(range: Option<Range>, because: impl Into<String>) -> Prediction {
        Prediction {
            range,
            because: because.into(),
            bound: None,
            conditions: Vec::new(),
            shares: None,
        }
    }
}

/// Something of the machine that a prediction may count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Page tables of the kernel are apart from those of programs.
    PageTableIsolation,
    /// A seccomp filter looks at system calls.
    Seccomp,
    /// A hypervisor takes interrupts, timers and halts.
    Hypervisor,
    /// Page tables of a guest are walked through those of its host.
    NestedPaging,
    /// A disk is the host's file or network, whose medium is unknown.
    VirtualDisk,
    /// A device's cache of writes.
    WriteCache,
    /// A journal of the file system.
    Journal,
    /// The clock of the core, and how far it may be from the stated one.
    CoreClock,
    /// The kernel's source of time.
    ClockSource,
    /// One that a newer plumb knows.
    #[serde(other)]
    Other,
}

/// A prediction in the reports' two shares, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// What the machine itself takes.
    pub hardware: Range,
    /// What kernel and libraries add.
    pub software: Range,
}

/// A predicted interval in the metric's unit: about nine figures in ten should lie inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Best single guess.
    pub likely: f64,
    /// Upper end.
    pub high: f64,
}

/// The rule of a bound: `constant x product(input ^ exponent)` over quantities that were measured
/// in the same round (METHOD §5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// Which side is impossible.
    pub side: Side,
    /// Architectural constant.
    pub constant: f64,
    /// Names of same-round quantities (`core_hz` …) with their exponents.
    pub inputs: Vec<(String, i32)>,
    /// Relative uncertainty of the rule.
    pub uncertainty: f64,
    /// The rule in words.
    pub rule: String,
    /// From a guessed clock, a table or a nominal rate: passing it only warns.
    pub warns_only: bool,
}

/// Which side of a bound is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// No correct value lies below.
    AtLeast,
    /// No correct value lies above.
    AtMost,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status", content = "reason")]
pub enum RoundStatus {
    /// Its samples count.
    Ok,
    /// Nothing of it counts: the worker died, an end failed, a check failed.
    Void(String),
}

/// One round of a series. Its samples are the events between the previous round event and this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Series label, `experiment/name`.
    pub series: String,
    /// Round number, from 1.
    pub n: u32,
    /// Segment of the run, from 0.
    pub segment: u32,
    /// Seconds since the start of the segment.
    pub at_s: f64,
    /// Length of the measured window, in ns.
    pub window_ns: f64,
    /// How it ended.
    #[serde(flatten)]
    pub status: RoundStatus,
    /// CPUs that measured.
    pub cpus: Vec<usize>,
    /// Changes of the environment over the round, by name and unit last (docs/FORMAT.md).
    pub environment: BTreeMap<String, f64>,
    /// Why this round counts as disturbed; empty if it does not.
    pub disturbed: Vec<String>,
    /// Cases that failed while the round went on; they have no samples in it. Of a void round: those
    /// that no further round measures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedCase>,
}

/// A case that failed in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedCase {
    /// Case.
    pub case: CaseId,
    /// Why, outermost reason first.
    pub reason: String,
}

/// What one raw value is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Raw {
    /// Each value is one event, in the metric's unit.
    Event {
        /// The values.
        values: Vec<f64>,
    },
    /// ABBA quartets: sums of the two short and of the two long batches, in ns. A sample is
    /// `(two_n - n) / (2 k)` ns per operation, never clamped.
    Quartets {
        /// Operations in the short batch.
        k: u64,
        /// Sum of the two batches of `k`, in ns, per quartet.
        n: Vec<f64>,
        /// Sum of the two batches of `2 k`, in ns, per quartet.
        two_n: Vec<f64>,
        /// Quartets that were left out: until format 1 those that the core clock moved around, since
        /// then those that failed a check of their own.
        #[serde(default)]
        voids: u32,
    },
    /// Each value covers a batch or block of `k` operations, in the metric's unit.
    Batch {
        /// Operations in the batch; 0 where the block is one of time.
        k: u64,
        /// The values.
        values: Vec<f64>,
    },
}

impl Raw {
    /// The samples in the metric's unit (quartets: ns per operation).
    pub fn samples(&self) -> Vec<f64> {
        match self {
            Raw::Event { values } | Raw::Batch { values, .. } => values.clone(),
            Raw::Quartets { k, n, two_n, .. } => n
                .iter()
                .zip(two_n)
                .map(|(short, long)| (long - short) / (2.0 * *k as f64))
                .collect(),
        }
    }

    /// `event` or `batch(k)`.
    pub fn label(&self) -> String {
        match self {
            Raw::Event { .. } => "event".to_owned(),
            Raw::Quartets { k, .. } | Raw::Batch { k, .. } => format!("batch({k})"),
        }
    }

    /// Whether every value is one event.
    pub fn is_event(&self) -> bool {
        matches!(self, Raw::Event { .. })
    }
}

/// Quantity of samples: time of a load from main memory, taken beside them, in ns.
pub const MEMORY_PROBE: &str = "memory_probe_ns";

/// Raw samples of one metric of one case in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Series label.
    pub series: String,
    /// Round number.
    pub round: u32,
    /// Case.
    pub case: CaseId,
    /// Metric.
    pub metric: String,
    /// Which visit of the case in its round this is: 0 the first, others where that had too few samples
    /// of a core that was alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The values.
    #[serde(flatten)]
    pub raw: Raw,
    /// Additions per cycle of each value's slowest probe; 0 where the value cannot be classified. Empty
    /// where nothing was probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub width: Vec<f64>,
    /// Core clock over the case's window, in Hz; null with the reason in `notes` where it moved.
    pub core_hz: Option<f64>,
    /// Same-round quantities that bounds may use, by name with the unit last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quantities: BTreeMap<String, f64>,
    /// What the case's symbols resolved to in this round (CPU, page share …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
    /// What a reader of the figure must know.
    #[serde(default, skip_serializing_if = "Notes::is_empty")]
    pub notes: Notes,
}

impl Samples {
    /// Samples of a first visit, with nothing beside them.
    pub fn new(series: &str, round: u32, case: CaseId, metric: &str, raw: Raw) -> Samples {
        Samples {
            series: series.to_owned(),
            round,
            case,
            metric: metric.to_owned(),
            visit: 0,
            raw,
            width: Vec::new(),
            core_hz: None,
            quantities: BTreeMap::new(),
            at: BTreeMap::new(),
            notes: Notes::default(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(visit: &u32) -> bool {
    *visit == 0
}

/// A distribution of events as sparse HDR buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Series label.
    pub series: String,
    /// Round number.
    pub round: u32,
    /// Case.
    pub case: CaseId,
    /// Metric.
    pub metric: String,
    /// One bucket unit, in the metric's unit.
    pub scale: f64,
    /// (bucket value in `scale`, count), ascending.
    pub buckets: Vec<(u64, u64)>,
    /// Events above the largest bucket.
    pub above: u64,
}

/// Rows over time, at most 100,000.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trace {
    /// Series label.
    pub series: String,
    /// Round number.
    pub round: u32,
    /// Case.
    pub case: CaseId,
    /// What the rows are: `timeline`, `gaps`, `series` …
    pub kind: String,
    /// Column names, unit last.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<f64>>,
    /// Names of a column's values: value `k` is the `k`-th name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, Vec<String>>,
    /// Rows that did not fit.
    pub dropped: u64,
}

/// Rows that a trace may hold.
pub const TRACE_ROWS_MAX: usize = 100_000;

/// A value that several cases give together, with the interval of 200 resamples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    /// Experiment id.
    pub experiment: String,
    /// Case.
    pub case: CaseId,
    /// Metric.
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
    /// What a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// There are figures.
    Measured,
    /// It was not measured, for a known reason.
    Skipped,
    /// It should have been measured.
    Failed,
}

/// The outcome of a case (of the whole experiment where `case` is null).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Experiment id.
    pub experiment: String,
    /// Case; null for the whole experiment.
    pub case: Option<CaseId>,
    /// How it ended.
    pub outcome: Ending,
    /// Why, for skipped and failed; why no further rounds were made, for measured.
    pub reason: Option<String>,
}

/// A resumed part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Number, from 1.
    pub n: u32,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The environment then.
    pub environment: BTreeMap<String, String>,
    /// The clocks then.
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

/// The last line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// When it ended, RFC 3339 in UTC.
    pub finished: String,
    /// Seconds since the start of the last segment.
    pub elapsed_s: f64,
    /// Why it ended.
    pub end: End,
    /// Change of the counter's frequency since calibration, as a ratio; null where unmeasured.
    pub counter_drift: Option<f64>,
    /// The estimate shown after the first pass, in seconds since the start.
    pub eta_after_first_pass_s: Option<f64>,
    /// Processor time of the session itself, in seconds.
    pub session_cpu_s: f64,
    /// Peak resident memory of the session, in bytes.
    pub session_peak_bytes: u64,
}
