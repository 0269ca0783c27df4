//! What was expected of a figure, and from what.

use crate::key::{CaseId, Value};
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub experiment: String,
    pub case: CaseId,
    pub metric: String,
    pub of: PredictionKind,
    #[serde(flatten)]
    pub prediction: Prediction,
    /// What the case's symbols resolved to when this was written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
}

/// What was expected, and from what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The shares of base hardware and software; null if they cannot be separated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Whether a number in it is from a table for which no source was looked up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsourced: bool,
    /// What makes the range too wide to say anything ([`Range::predicts`]): its widest term or an
    /// unknown fact. Records before it have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// What the figure is if something that the description does not tell is otherwise. The widths
    /// make one range of both.
    #[serde(skip)]
    pub otherwise: Option<Range>,
    /// Share of the likely time that a wire's nominal rate decides: no fitted coefficient scales it.
    #[serde(skip)]
    pub fixed: f64,
    /// What no value can pass: 1 of a share, the limit of what fits into it.
    #[serde(skip)]
    pub most: Option<f64>,
    /// What the likely value is made of. The reason has it as text.
    #[serde(skip)]
    pub arithmetic: Arithmetic,
}

/// What a likely value is made of: the sum of its terms times a fitted factor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arithmetic {
    pub terms: Vec<Term>,
    /// What a rate divides by the sum of its terms.
    pub rate_of: Option<f64>,
    /// A factor of the whole, and what gave it.
    pub factor: Option<(f64, String)>,
}

/// A term of a sum, in the unit of the figure (of a rate, in ns), or a reason that adds nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub what: String,
    pub adds: Option<Range>,
}

impl Prediction {
    /// An interval, or none, and why.
    pub fn new(range: Option<Range>, because: impl Into<String>) -> Prediction {
        Prediction { range, because: because.into(), ..Prediction::default() }
    }

    pub fn says(&self, unit: Unit) -> Option<Range> {
        self.range.filter(|range| range.predicts(unit))
    }

    /// Why it says nothing: its widest term, in older records its first one.
    pub fn why_not(&self) -> &str {
        let first = self.because.split("; ").next().unwrap_or_default();
        let why = self.doubt.as_deref().unwrap_or(first);
        why.strip_prefix("unknown: ").unwrap_or(why)
    }
}

/// A property of the machine that a prediction may account for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The kernel has separate page tables (page-table isolation).
    PageTableIsolation,
    /// A seccomp filter checks system calls.
    Seccomp,
    /// A hypervisor handles interrupts, timers and halts.
    Hypervisor,
    /// A TLB miss of a guest also walks its host's page tables.
    NestedPaging,
    /// The disk is virtual, and its medium is unknown.
    VirtualDisk,
    /// A device's write cache.
    WriteCache,
    /// The file system's journal.
    Journal,
    /// Safe returns, at every return of the kernel (speculative return stack overflow).
    SafeReturns,
    /// Return thunks that untrain the predictor, at every entry (retbleed).
    UntrainedReturns,
    /// Retpolines, at every indirect call of the kernel (Spectre v2).
    Retpolines,
    /// Buffers of the CPU that are cleared at every exit (MDS and its like).
    ClearedBuffers,
    /// The core clock, and its deviation from the stated one.
    CoreClock,
    /// The kernel's clock source.
    ClockSource,
    /// A condition of a newer plumb.
    #[serde(other)]
    Other,
}

/// A prediction in the reports' two shares, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// The share of the hardware.
    pub hardware: Range,
    /// The share of kernel and libraries.
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

impl Range {
    /// The greatest factor between the ends of a range that still says something (METHOD §5).
    pub const WIDEST: f64 = 10.0;

    /// Whether it says something. Shares and counts may be predicted from zero on, which no factor
    /// reaches.
    pub fn predicts(&self, unit: Unit) -> bool {
        let from_zero = self.low == 0.0 && matches!(unit, Unit::Ratio | Unit::Count);
        from_zero || self.high <= Range::WIDEST * self.low
    }

    /// The range with its ends around the likely value; `None` where one of them is no number.
    pub fn settled(self) -> Option<Range> {
        let Range { low, likely, high } = self;
        let is_finite = [low, likely, high].iter().all(|value| value.is_finite());
        is_finite.then(|| Range { low: low.min(likely), likely, high: high.max(likely) })
    }

    /// Whether a value lies inside, ends included.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether an interval has a part inside, ends included.
    pub fn overlaps(&self, (low, high): (f64, f64)) -> bool {
        low <= self.high && high >= self.low
    }
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
    /// No correct value is below.
    AtLeast,
    /// No correct value is above.
    AtMost,
}
