//! What was measured in a round: samples, distributions and rows over time.

use crate::key::{CaseId, Value};
use crate::note::Notes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
        /// Quartets that were left out: until format 1 those that the core clock moved around,
        /// since then those that failed a check of their own.
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
    /// Which visit of the case in its round this is: 0 the first, others where that had too few
    /// samples of a core that was alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visit: u32,
    /// The values.
    #[serde(flatten)]
    pub raw: Raw,
    /// Additions per cycle of each value's slowest probe; 0 where the value cannot be classified.
    /// Empty where nothing was probed.
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

    /// Sets quantities by name.
    pub fn set_quantities<'name>(&mut self, named: impl IntoIterator<Item = (&'name str, f64)>) {
        let named = named.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.quantities.extend(named);
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
