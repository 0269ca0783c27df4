//! The timing core.

use crate::link::{Endpoint, RoundOrder};
use anyhow::Result;
use record::case::Case;
use record::event::{Calibration, Samples, Trace};
use std::path::Path;

/// What an experiment measures with: one round of one series in a worker.
pub struct Bench {
    order: RoundOrder,
}

impl Bench {
    /// The order of this round: series, seed, CPUs, calibration.
    pub fn order(&self) -> &RoundOrder {
        &self.order
    }
    /// CPU of the measuring thread.
    pub fn cpu(&self) -> usize {
        self.order.cpus.first().copied().unwrap_or(0)
    }
    /// The clocks.
    pub fn calibration(&self) -> &Calibration {
        &self.order.calibration
    }
    /// The far end.
    pub fn far(&self) -> Option<&Endpoint> {
        self.order.far.as_ref()
    }
    /// Directory for files.
    pub fn dir(&self) -> Option<&Path> {
        self.order.dir.as_deref()
    }
    /// Times `body(n)`, which does its operation exactly `n` times: batches grow until METHOD §2
    /// is met, then ABBA quartets of n against 2n for the case's time. Returns the samples (ns per
    /// operation) so that facts of the case can be added.
    pub fn time(
        &mut self,
        _case: &Case,
        _metric: &str,
        _body: impl FnMut(u64),
    ) -> Result<&mut Samples> {
        unimplemented!("being built")
    }
    /// Like `time`, for bodies that can fail.
    pub fn try_time(
        &mut self,
        _case: &Case,
        _metric: &str,
        _body: impl FnMut(u64) -> Result<()>,
    ) -> Result<&mut Samples> {
        unimplemented!("being built")
    }
    /// Records single events in the metric's unit; times at the clock's resolution are noted so.
    pub fn record(
        &mut self,
        _case: &Case,
        _metric: &str,
        _values: Vec<f64>,
    ) -> Result<&mut Samples> {
        unimplemented!("being built")
    }
    /// Records values that each cover a batch of `k` operations (0: a block of time).
    pub fn record_batches(
        &mut self,
        _case: &Case,
        _metric: &str,
        _k: u64,
        _values: Vec<f64>,
    ) -> Result<&mut Samples> {
        unimplemented!("being built")
    }
    /// Records rows over time.
    pub fn trace(
        &mut self,
        _case: &Case,
        _kind: &str,
        _columns: &[&str],
        _rows: Vec<Vec<f64>>,
    ) -> Result<&mut Trace> {
        unimplemented!("being built")
    }
    /// Ticks of the counter to ns.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.order.calibration.counter_hz
    }
    /// A long `Once` says that it lives, at most once a second, between its blocks.
    pub fn alive(&mut self, _seconds: f64) {}
    /// Switches the case makes on purpose (they do not disturb).
    pub fn planned_switches(&mut self, _count: u64) {}
}

/// What the far end of a two-ended experiment works with.
pub struct FarEnd {
    order: RoundOrder,
}

impl FarEnd {
    /// The order of this round.
    pub fn order(&self) -> &RoundOrder {
        &self.order
    }
    /// Tells the near end where to connect; returns the token each data connection must say first.
    pub fn publish(&mut self, _addrs: Vec<String>) -> Result<String> {
        unimplemented!("being built")
    }
    /// Waits until the near end is done.
    pub fn drained(&mut self) -> Result<()> {
        unimplemented!("being built")
    }
    /// Records what arrived here.
    pub fn record(
        &mut self,
        _case: &Case,
        _metric: &str,
        _values: Vec<f64>,
    ) -> Result<&mut Samples> {
        unimplemented!("being built")
    }
}
