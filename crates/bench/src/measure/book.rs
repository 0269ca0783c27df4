//! What a round writes down: samples, distributions and traces, in the record's form.

use super::values::Form;
use crate::link::RoundOrder;
use anyhow::{Result, bail};
use record::case::Case;
use record::event::{FailedCase, Histogram, Raw, Samples, TRACE_ROWS_MAX, Trace};
use record::key::CaseId;
use stats::histogram::{Histogram as Distribution, STEPS_PER_UNIT};
use std::collections::BTreeMap;

/// More events of one metric in one round are thinned, beside their histogram.
pub const EVENTS_MAX: usize = 20_000;
/// Significant digits that a recorded value keeps.
const DIGITS: i32 = 10;

#[derive(Debug)]
pub struct Book {
    series: String,
    round: u32,
    resolution_ns: f64,
    pair_ns: f64,
    pub samples: Vec<Samples>,
    pub histograms: Vec<Histogram>,
    pub traces: Vec<Trace>,
    pub failed: Vec<FailedCase>,
}

impl Book {
    pub fn new(order: &RoundOrder) -> Self {
        Book {
            series: order.series.label(),
            round: order.round,
            resolution_ns: order.calibration.resolution_ns,
            pair_ns: order.calibration.pair_cost_ns,
            samples: Vec::with_capacity(order.series.cases.len()),
            histograms: Vec::new(),
            traces: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Drops what is written of a case.
    pub fn forget(&mut self, case: &CaseId) {
        self.samples.retain(|samples| samples.case != *case);
        self.histograms.retain(|histogram| histogram.case != *case);
        self.traces.retain(|trace| trace.case != *case);
    }

    /// Drops what is written of a case, and notes why it failed.
    pub fn fail(&mut self, case: &CaseId, reason: String) {
        self.forget(case);
        self.failed.push(FailedCase { case: case.clone(), reason });
    }

    /// Writes values down in their form. Of more than [`EVENTS_MAX`] events every k-th is listed,
    /// beside a histogram of all. Errors: a value that is not finite, or not below the limit of
    /// censored ones.
    pub fn values(
        &mut self,
        case: &Case,
        metric: &str,
        form: Form,
        core_hz: Option<f64>,
    ) -> Result<&mut Samples> {
        let thinned = |count: usize| count.div_ceil(EVENTS_MAX).max(1);
        match form {
            Form::Counted(values, all) if values.len() as u64 != all.count() => {
                self.push(case, metric, all);
                let (count, listed) = (all.count(), values.len());
                let samples = self.events(case, metric, values, core_hz)?;
                samples.notes.push(format!(
                    "{count} events: one in {} of the first {listed} is listed, all are in the \
                     histogram",
                    thinned(listed)
                ));
                Ok(samples)
            }
            Form::Censored { values, censored, limit } if censored > 0 => {
                demand_below(case, metric, &values, limit)?;
                let mut all = distribution(&values);
                all.record_censored(censored);
                self.push(case, metric, &all);
                let samples = self.events(case, metric, values, core_hz)?;
                let quantities = &mut samples.quantities;
                quantities.insert("censored".to_owned(), censored as f64);
                quantities.insert("censored_at".to_owned(), limit);
                Ok(samples)
            }
            Form::Censored { values, limit, .. } => {
                demand_below(case, metric, &values, limit)?;
                self.values(case, metric, Form::Events(values), core_hz)
            }
            Form::Events(values) | Form::Counted(values, _) => {
                let mut note = None;
                let count = values.len();
                if count > EVENTS_MAX {
                    let all = distribution(&values);
                    self.push(case, metric, &all);
                    let except = match all.invalid() {
                        0 => String::new(),
                        some => format!(", except {some} that are negative"),
                    };
                    let step = thinned(count);
                    note = Some(format!(
                        "{count} events: one in {step} is listed, all are in the histogram{except}"
                    ));
                }
                let samples = self.events(case, metric, values, core_hz)?;
                samples.notes.extend(note);
                Ok(samples)
            }
            Form::Batches { k, values } => {
                let values = values.into_iter().map(shortened).collect();
                self.add(case, metric, Raw::Batch { k, values }, core_hz)
            }
            Form::Quartets { k, turns } => {
                let (n, two_n): (Vec<f64>, Vec<f64>) = turns.kept.into_iter().unzip();
                let tenths = |values: Vec<f64>| values.into_iter().map(to_tenth_ns).collect();
                let (n, two_n) = (tenths(n), tenths(two_n));
                let raw = Raw::Quartets { k, n, two_n, voids: turns.refused };
                self.add(case, metric, raw, core_hz)
            }
        }
    }

    /// Writes raw values down as they are. Errors: a value that is not finite.
    pub fn add(
        &mut self,
        case: &Case,
        metric: &str,
        raw: Raw,
        core_hz: Option<f64>,
    ) -> Result<&mut Samples> {
        let (Raw::Event { values } | Raw::Batch { values, .. } | Raw::Quartets { n: values, .. }) =
            &raw;
        let others: &[f64] = match &raw {
            Raw::Quartets { two_n, .. } => two_n,
            _ => &[],
        };
        let mut all = values.iter().chain(others);
        if let Some(value) = all.find(|value| !value.is_finite()) {
            bail!("{metric} of {}: a value is {value}", case.id);
        }
        let mut quantities = BTreeMap::new();
        if let Some(hz) = core_hz {
            quantities.insert("core_hz".to_owned(), hz);
        }
        self.samples.push(Samples {
            core_hz,
            visit: 0,
            quantities,
            at: case.at.clone().into(),
            ..Samples::new(&self.series, self.round, case.id.clone(), metric, raw)
        });
        Ok(self.samples.last_mut().expect("one was just added"))
    }

    /// Lists events, at most [`EVENTS_MAX`]. The clock's resolution and cost stand in the quantities,
    /// so that analysis can mark what is near them.
    fn events(
        &mut self,
        case: &Case,
        metric: &str,
        values: Vec<f64>,
        core_hz: Option<f64>,
    ) -> Result<&mut Samples> {
        let step = values.len().div_ceil(EVENTS_MAX).max(1);
        let values = values.into_iter().step_by(step).map(shortened).collect();
        let (resolution_ns, pair_ns) = (self.resolution_ns, self.pair_ns);
        let samples = self.add(case, metric, Raw::Event { values }, core_hz)?;
        let quantities = &mut samples.quantities;
        quantities.insert("resolution_ns".to_owned(), resolution_ns);
        quantities.insert("pair_ns".to_owned(), pair_ns);
        Ok(samples)
    }

    fn push(&mut self, case: &Case, metric: &str, all: &Distribution) {
        self.histograms.push(Histogram {
            series: self.series.clone(),
            round: self.round,
            case: case.id.clone(),
            metric: metric.to_owned(),
            scale: 1.0 / STEPS_PER_UNIT,
            buckets: all.buckets(),
            above: all.beyond(),
        });
    }

    /// Writes rows down, at most [`TRACE_ROWS_MAX`]; the rest is counted as dropped. Errors: a row
    /// whose length is not that of `columns`.
    pub fn trace(
        &mut self,
        case: &Case,
        kind: &str,
        columns: &[&str],
        mut rows: Vec<Vec<f64>>,
    ) -> Result<&mut Trace> {
        if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
            bail!(
                "trace {kind} of {}: a row of {} values for {} columns",
                case.id,
                row.len(),
                columns.len()
            );
        }
        let dropped = rows.len().saturating_sub(TRACE_ROWS_MAX) as u64;
        rows.truncate(TRACE_ROWS_MAX);
        self.traces.push(Trace {
            series: self.series.clone(),
            round: self.round,
            case: case.id.clone(),
            kind: kind.to_owned(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows,
            names: BTreeMap::new(),
            dropped,
        });
        Ok(self.traces.last_mut().expect("one was just added"))
    }
}

/// Demands that all events that ended did so below the limit which the others passed.
fn demand_below(case: &Case, metric: &str, values: &[f64], limit: f64) -> Result<()> {
    match values.iter().find(|value| **value >= limit) {
        None => Ok(()),
        Some(value) => bail!(
            "{metric} of {}: {value} is not below {limit}, from which on an event counts as one \
             that never ended",
            case.id
        ),
    }
}

fn distribution(values: &[f64]) -> Distribution {
    let mut all = Distribution::default();
    values.iter().for_each(|value| all.record(*value));
    all
}

/// A value to ten significant digits: a counter's frequency and its drift are known to a billionth;
/// whole numbers stay exact.
fn shortened(value: f64) -> f64 {
    if value.fract() == 0.0 || !value.is_finite() {
        return value;
    }
    let factor = 10_f64.powi(DIGITS - 1 - value.abs().log10().floor() as i32);
    if factor.is_normal() { (value * factor).round() / factor } else { value }
}

/// A reading of the width probe to three decimals.
pub fn to_thousandth(reading: f64) -> f64 {
    (reading * 1000.0).round() / 1000.0
}

/// A time in ns to 0.1 ns, as quartets store it.
pub fn to_tenth_ns(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}
