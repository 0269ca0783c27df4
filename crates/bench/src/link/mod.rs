//! Frames and message types between the session and its workers, near and far; no I/O policy.

pub mod frame;
pub mod path;
pub mod waiting;

use crate::measure::Clock;
use anyhow::{Context, Result};
use record::case::Series;
use record::codec::EventText;
use record::event::{Calibration, FailedCase, Options};
use record::key::CaseId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Where the far end listens, and what a data connection must say first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Address as the near end must connect to it; one per listening socket.
    pub addrs: Vec<String>,
    pub token: String,
}

/// Which moments a calibration should take its time over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrateOrder {
    pub cpu: usize,
    /// Windows of the counter's calibration.
    pub windows: u32,
    /// Length of each, in ns.
    pub window_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundOrder {
    /// The series, sizes resolved, cases in the order in which to measure them.
    pub series: Series,
    /// Round number, from 1.
    pub round: u32,
    /// Seed for everything random in the round.
    pub seed: u64,
    /// CPUs to use; the first is the measuring thread's.
    pub cpus: Vec<usize>,
    pub calibration: Calibration,
    /// Directory for files, where the experiment needs one.
    #[serde(default, with = "path::maybe")]
    pub dir: Option<PathBuf>,
    pub far: Option<Endpoint>,
    /// The address of a far end on another host: at the near end the one to reach it by, at the far
    /// end the one to listen on. `None` where both ends are here, on loopback.
    pub far_address: Option<IpAddr>,
    /// Measuring time that each case may take, in ns.
    pub case_ns: u64,
    /// Smallest parameters everywhere: a rehearsal proves the way, not the figures.
    pub rehearsal: bool,
}

impl RoundOrder {
    /// CPU of the measuring thread.
    pub fn cpu(&self) -> usize {
        self.cpus.first().copied().unwrap_or(0)
    }

    /// The clock of the round, for windows of the experiment's own: one start, one end, length in
    /// ns.
    pub fn clock(&self) -> Clock {
        Clock::from_calibration(&self.calibration)
    }

    /// Operations per cycle of a core that is alone; none where calibration did not learn it.
    pub fn level_alone(&self) -> Option<f64> {
        self.calibration.width.and_then(|width| width.level)
    }

    /// Directory for files. Errors: none was given.
    pub fn directory(&self) -> Result<&Path> {
        self.dir.as_deref().context("no directory for files was given")
    }

    /// Whether the scheduler places the measuring thread, and those that it makes, on the CPUs.
    pub fn is_free(&self) -> bool {
        let first = self.series.cases.first();
        first.is_some_and(|case| case.id.waits_for_device(&self.series.experiment))
    }
}

/// A whole run of this plumb: its record is the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOrder {
    pub options: Options,
    /// Where it runs: the current directory of the node.
    #[serde(with = "path")]
    pub here: PathBuf,
    /// The store in whose journal it writes what it makes, so that it goes even where both ends are
    /// killed.
    #[serde(with = "path")]
    pub store: PathBuf,
    /// What it shares, among the plumbs of the machine, with the one that orders it; empty where that
    /// has no place there.
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    Calibrate(CalibrateOrder),
    /// Make what the rounds of a series only read.
    Prepare(Box<RoundOrder>),
    Round(Box<RoundOrder>),
    /// Be the far end of a round.
    Serve(Box<RoundOrder>),
    /// The near end is done: drain, report counts, end.
    Drain,
    /// Be a session of its own: all events of its record are answers.
    Run(Box<RunOrder>),
}

/// From a worker to the session. Nothing is sent while a round is timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    Calibrated(Calibration),
    /// `prepare` made these files.
    Prepared(#[serde(with = "path::all")] Vec<PathBuf>),
    Listening(Endpoint),
    /// A long `Once` is alive: seconds of it that have passed.
    Alive(f64),
    /// Memory is taken now for these cases: where the kernel kills the worker for it, it is theirs.
    TakesMemory(Vec<CaseId>),
    /// What follows is a case whose files may hang the worker in the kernel.
    MayHangIn(CaseId),
    /// An event as the record has it: samples, a distribution or a trace of the round.
    Measured(EventText),
    /// The round is over; what the worker's own threads saw of their environment.
    Done(Done),
    /// The round failed: the chain of reasons, outermost first.
    Failed(Vec<String>),
}

/// The end of a round as the worker saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Length of the measured window, in ns.
    pub window_ns: f64,
    /// CPUs that measured, read back.
    pub cpus: Vec<usize>,
    /// Deltas of the environment over the window, by name, unit last.
    pub environment: BTreeMap<String, f64>,
    /// Cases that failed while the round went on.
    pub failed: Vec<FailedCase>,
}
