//! What a node of a sweep is started with.

use crate::drawn::Drawn;
use crate::place::Place;
use anyhow::{Context, Result};
use bench::experiment::Catalogue;
use session::agent::key::Key;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// What a node is started with.
pub struct Options {
    /// Its place in the sweep.
    pub place: Place,
    /// The secret of the sweep.
    pub key: Key,
    /// Address at which others reach it; the one from which it reaches rank 0, where absent.
    pub address: OnceLock<IpAddr>,
    /// Directory for the records of nodes.
    pub records: PathBuf,
    /// Directory for the files that experiments write; the current one, where absent.
    pub dir: Option<PathBuf>,
    /// CPUs to measure on.
    pub cpus: Option<String>,
    /// Figures that are drawn instead of measured.
    pub drawn: Option<Drawn>,
    /// How long it tries to reach rank 0.
    pub patience: Duration,
    /// The binary that measures: this one.
    pub plumb: PathBuf,
    /// Experiments that it may measure.
    pub catalogue: Catalogue,
}

impl Options {
    /// Address at which others reach this node. Errors: it is not known yet.
    pub fn address(&self) -> Result<IpAddr> {
        self.address.get().copied().context("this node's address is not known yet")
    }
}
