//! What was measured in a round: samples, distributions and rows over time.

use crate::event::Calibration;
use crate::key::{CaseId, Value};
use crate::note::Notes;
use crate::shared::Shared;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// Each value is one event, in the metric's unit.
    Event { values: Vec<f64> },
    /// ABBA quartets: sums of the two short and of the two long batches, in ns. A sample is
    /// `(two_n - n) / (2 k)` ns per operation, never clamped.
    Quartets {
        /// Operations in the short batch.
        k: u64,
        /// Sum of the two batches of `k`, in ns, per quartet.
        n: Vec<f64>,
        /// Sum of the two batches of `2 k`, in ns, per quartet.
        two_n: Vec<f64>,
        /// Quartets that were left out, because they failed a check of their own.
        voids: u32,
    },
    /// Each value covers a batch or block of `k` operations, in the metric's unit.
    Batch {
        /// Operations in the batch; 0 where the block is one of time.
        k: u64,
        values: Vec<f64>,
    },
}

impl Raw {
    /// The samples in the metric's unit (quartets: ns per operation).
    pub fn samples(&self) -> Vec<f64> {
        self.values().into_owned()
    }

    /// The same, where the record lists them without a copy.
    pub fn values(&self) -> Cow<'_, [f64]> {
        match self {
            Raw::Event { values } | Raw::Batch { values, .. } => Cow::Borrowed(values),
            Raw::Quartets { k, n, two_n, .. } => n
                .iter()
                .zip(two_n)
                .map(|(short, long)| (long - short) / (2.0 * *k as f64))
                .collect(),
        }
    }

    /// Written like this: `event` or `batch(k)`.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    pub series: String,
    pub round: u32,
    pub case: CaseId,
    pub metric: String,
    /// Which visit of the case in its round this is: 0 the first, others where that had too few
    /// samples of a core that was alone.
    pub visit: u32,
    pub raw: Raw,
    /// What every value is a whole multiple of, where that is known: the record lists the multiples
    /// ([`Samples::shorten`]).
    pub step: Option<f64>,
    /// Additions per cycle of each value's slowest probe; 0 where the value cannot be classified.
    /// Empty where nothing was probed.
    pub width: Vec<f64>,
    /// Core clock at each value, in MHz, by the chains beside its probes; 0 where they gave none.
    /// Empty where nothing was probed, and in records before this field.
    pub core_mhz: Vec<u32>,
    /// Core clock over the case's window, in Hz: the median of `core_mhz` where it moved. Null with
    /// the reason in `notes` where neither is known.
    pub core_hz: Option<f64>,
    /// Same-round quantities that bounds may use, by name with the unit last.
    pub quantities: BTreeMap<String, f64>,
    /// What the case's symbols resolved to in this round (CPU, page share …).
    pub at: Shared<BTreeMap<String, Value>>,
    /// What a reader of the figure must know.
    pub notes: Notes,
}

/// Significant digits of a step: a counter's frequency is known to a billionth.
const STEP_DIGITS: usize = 10;
/// Distance of a value from a whole multiple of a step that still counts as one, in steps, and as a
/// share of the multiple: values were rounded to ten digits.
const OFF_STEP: (f64, f64) = (1e-3, 1e-9);
/// Fewer values are listed as they are: some would be multiples of anything by chance.
const LEAST_IN_STEPS: usize = 16;
/// More values are listed in ascending order, by their differences.
const MOST_IN_ORDER: usize = 1000;

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
            step: None,
            width: Vec::new(),
            core_mhz: Vec::new(),
            core_hz: None,
            quantities: BTreeMap::new(),
            at: Shared::default(),
            notes: Notes::default(),
        }
    }

    /// The values, in the metric's unit.
    pub fn values(&self) -> Cow<'_, [f64]> {
        self.raw.values()
    }

    /// The core clock at each value, in Hz; that of the case where it was not taken at each. NaN
    /// where there is none.
    pub fn clocks(&self) -> Cow<'_, [f64]> {
        let of_case = self.core_hz.unwrap_or(f64::NAN);
        let clock = |at: usize| match self.core_mhz.get(at) {
            Some(0) => f64::NAN,
            Some(mhz) => f64::from(*mhz) * 1e6,
            None => of_case,
        };
        (0..self.values().len()).map(clock).collect()
    }

    /// The values, which are in ns, in cycles of the core. NaN where there is no clock.
    pub fn cycles(&self) -> Cow<'_, [f64]> {
        let clocks = self.clocks();
        self.values().iter().zip(&*clocks).map(|(ns, hz)| ns * hz / 1e9).collect()
    }

    /// Forgets the core clock: it is not that of what was timed.
    pub fn forget_clock(&mut self) {
        self.core_mhz.clear();
        self.core_hz = None;
        self.quantities.remove("core_hz");
    }

    pub fn set_quantities<'name, V: Into<Option<f64>>>(
        &mut self,
        named: impl IntoIterator<Item = (&'name str, V)>,
    ) {
        let known = |(name, value): (&str, V)| Some((name.to_owned(), value.into()?));
        self.quantities.extend(named.into_iter().filter_map(known));
    }

    /// Readies many events for a record that lists no more than what was measured: whole multiples of
    /// the clock's steps, and in ascending order where nothing needs the one in which they came.
    pub fn shorten(&mut self, clock: &Calibration, in_order: bool) {
        let Raw::Event { values } = &mut self.raw else { return };
        if values.len() < LEAST_IN_STEPS {
            return;
        }
        let steps = [clock.resolution_ns, 1e9 / clock.counter_hz, 1.0];
        let fits = |step: &f64| values.iter().all(|value| is_multiple(*value, *step));
        if let Some(found) = steps.into_iter().find(fits) {
            let counts = counts(values, found);
            let step = to_digits(found);
            self.step = Some(step);
            *values = multiples(&counts, step);
            if !in_order && self.width.is_empty() && values.len() > MOST_IN_ORDER {
                values.sort_unstable_by(f64::total_cmp);
            }
        }
    }
}

fn is_multiple(value: f64, step: f64) -> bool {
    let count = value / step;
    let off = OFF_STEP.0 + OFF_STEP.1 * count.abs();
    step.is_normal() && step > 0.0 && (count - count.round()).abs() <= off
}

fn counts(values: &[f64], step: f64) -> Vec<i64> {
    values.iter().map(|value| (value / step).round() as i64).collect()
}

fn multiples(counts: &[i64], step: f64) -> Vec<f64> {
    counts.iter().map(|count| *count as f64 * step).collect()
}

fn to_digits(value: f64) -> f64 {
    format!("{value:.*e}", STEP_DIGITS - 1).parse().unwrap_or(value)
}

/// Each less the one before; the first as it is.
fn differences(counts: &[i64]) -> Vec<i64> {
    let before = std::iter::once(&0).chain(counts);
    counts.iter().zip(before).map(|(count, before)| count - before).collect()
}

fn sums(differences: &[i64]) -> Vec<i64> {
    let mut sum = 0_i64;
    let next = |difference: &i64| {
        sum = sum.saturating_add(*difference);
        sum
    };
    differences.iter().map(next).collect()
}

/// Samples as their line has them, flat: of a tagged enum within it serde would first make a tree
/// of every number.
#[derive(Deserialize)]
struct Line {
    series: String,
    round: u32,
    case: CaseId,
    metric: String,
    #[serde(default)]
    visit: u32,
    of: Counted,
    k: Option<u64>,
    step: Option<f64>,
    steps: Option<Vec<i64>>,
    ascending: Option<Vec<i64>>,
    values: Option<Vec<f64>>,
    n: Option<Vec<f64>>,
    two_n: Option<Vec<f64>>,
    voids: Option<u32>,
    #[serde(default)]
    width: Vec<f64>,
    #[serde(default)]
    core_mhz: Vec<u32>,
    core_hz: Option<f64>,
    #[serde(default)]
    quantities: BTreeMap<String, f64>,
    #[serde(default)]
    at: BTreeMap<String, Value>,
    #[serde(default)]
    notes: Notes,
}

/// Which [`Raw`] a line has.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Counted {
    Event,
    Quartets,
    Batch,
}

/// As a [`Line`]; what is absent or empty is left out.
impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (of, k) = match &self.raw {
            Raw::Event { .. } => (Counted::Event, None),
            Raw::Quartets { k, .. } => (Counted::Quartets, Some(k)),
            Raw::Batch { k, .. } => (Counted::Batch, Some(k)),
        };
        let mut line = to.serialize_map(None)?;
        line.serialize_entry("series", &self.series)?;
        line.serialize_entry("round", &self.round)?;
        line.serialize_entry("case", &self.case)?;
        line.serialize_entry("metric", &self.metric)?;
        if self.visit > 0 {
            line.serialize_entry("visit", &self.visit)?;
        }
        line.serialize_entry("of", &of)?;
        if let Some(k) = k {
            line.serialize_entry("k", k)?;
        }
        if let Some(step) = &self.step {
            line.serialize_entry("step", step)?;
        }
        match (&self.raw, self.step) {
            (Raw::Event { values }, Some(step)) => {
                let counts = counts(values, step);
                match counts.len() > MOST_IN_ORDER && counts.is_sorted() {
                    true => line.serialize_entry("ascending", &differences(&counts))?,
                    false => line.serialize_entry("steps", &counts)?,
                }
            }
            (Raw::Event { values }, None) | (Raw::Batch { values, .. }, _) => {
                line.serialize_entry("values", values)?;
            }
            (Raw::Quartets { n, two_n, voids, .. }, _) => {
                line.serialize_entry("n", n)?;
                line.serialize_entry("two_n", two_n)?;
                line.serialize_entry("voids", voids)?;
            }
        }
        if !self.width.is_empty() {
            line.serialize_entry("width", &self.width)?;
        }
        if !self.core_mhz.is_empty() {
            line.serialize_entry("core_mhz", &self.core_mhz)?;
        }
        line.serialize_entry("core_hz", &self.core_hz)?;
        if !self.quantities.is_empty() {
            line.serialize_entry("quantities", &self.quantities)?;
        }
        if !self.at.is_empty() {
            line.serialize_entry("at", &*self.at)?;
        }
        if !self.notes.is_empty() {
            line.serialize_entry("notes", &self.notes)?;
        }
        line.end()
    }
}

impl<'de> Deserialize<'de> for Samples {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Samples, D::Error> {
        let line = Line::deserialize(from)?;
        let lacks = D::Error::missing_field;
        let listed = |values: Option<Vec<f64>>, name| values.ok_or_else(|| lacks(name));
        let raw = match line.of {
            Counted::Event => Raw::Event {
                values: match (line.step, line.steps, line.ascending) {
                    (Some(step), Some(counts), _) => multiples(&counts, step),
                    (Some(step), None, Some(ascending)) => multiples(&sums(&ascending), step),
                    (Some(_), None, None) => return Err(lacks("steps")),
                    (None, ..) => listed(line.values, "values")?,
                },
            },
            Counted::Quartets => Raw::Quartets {
                k: line.k.ok_or_else(|| lacks("k"))?,
                n: listed(line.n, "n")?,
                two_n: listed(line.two_n, "two_n")?,
                voids: line.voids.unwrap_or(0),
            },
            Counted::Batch => Raw::Batch {
                k: line.k.ok_or_else(|| lacks("k"))?,
                values: listed(line.values, "values")?,
            },
        };
        Ok(Samples {
            visit: line.visit,
            step: line.step,
            width: line.width,
            core_mhz: line.core_mhz,
            core_hz: line.core_hz,
            quantities: line.quantities,
            at: line.at.into(),
            notes: line.notes,
            ..Samples::new(&line.series, line.round, line.case, &line.metric, raw)
        })
    }
}

/// A distribution of events as sparse HDR buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    pub series: String,
    pub round: u32,
    pub case: CaseId,
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
    /// Kind of rows: `timeline`, `gaps`, `series` …
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

pub const TRACE_ROWS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::{MOST_IN_ORDER, Raw, Samples};
    use crate::event::Calibration;
    use crate::key::CaseId;

    fn clock() -> Calibration {
        Calibration { counter_hz: 2.5e9, resolution_ns: 10.0, ..Calibration::default() }
    }

    #[test]
    fn cycles_are_by_the_clock_at_each_value_or_that_of_the_case() {
        for (core_mhz, core_hz, cycles) in [
            (vec![3000, 2000, 0], Some(1e9), [30.0, 20.0, f64::NAN]),
            (vec![], Some(1e9), [10.0; 3]),
            (vec![], None, [f64::NAN; 3]),
        ] {
            let raw = Raw::Batch { k: 4, values: vec![10.0; 3] };
            let samples =
                Samples { core_mhz, core_hz, ..Samples::new("s", 1, CaseId::new(), "m", raw) };
            let found = samples.cycles();
            assert!(found.iter().zip(cycles).all(|(a, b)| a.to_bits() == b.to_bits()), "{found:?}");
            let line = serde_json::to_string(&samples).unwrap();
            assert_eq!(serde_json::from_str::<Samples>(&line).unwrap(), samples);
        }
    }

    fn check(values: &[f64], in_order: bool, step: Option<f64>, listed: &str) -> Samples {
        let raw = Raw::Event { values: values.to_vec() };
        let mut samples = Samples::new("s", 1, CaseId::new(), "m", raw);
        samples.shorten(&clock(), in_order);
        assert_eq!(samples.step, step);
        let line = serde_json::to_string(&samples).unwrap();
        assert!(line.contains(listed), "{line}");
        assert_eq!(serde_json::from_str::<Samples>(&line).unwrap(), samples);
        samples
    }

    #[test]
    fn events_are_listed_in_the_clock_s_greatest_step() {
        let of = |step: f64| (0..20).map(|at| step * f64::from(100 + at % 3)).collect::<Vec<_>>();
        check(&of(10.0), true, Some(10.0), r#""steps":[100,101,102,100"#);
        check(&of(0.4), true, Some(0.4), r#""steps":[100,101,102,100"#);
        check(&of(7.0), true, Some(1.0), r#""steps":[700,707,714,700"#);
        check(&of(0.123), true, None, r#""values":[12.3,"#);
        check(&[10.0; 3], true, None, r#""values":[10.0,"#);
    }

    #[test]
    fn many_are_listed_in_ascending_order_where_nothing_needs_theirs() {
        let count = u32::try_from(MOST_IN_ORDER).unwrap() + 1;
        let values: Vec<f64> = (0..count).rev().map(|at| 10.0 * f64::from(50 + at)).collect();
        check(&values, true, Some(10.0), r#""steps":[1050,"#);
        let sorted = check(&values, false, Some(10.0), r#""ascending":[50,1,1,"#);
        let mut values = values;
        values.reverse();
        assert_eq!(sorted.raw, Raw::Event { values });
    }
}
