//! Runs by what a user calls them: a path, a stored name or a unique prefix of one, `last`, or a
//! published machine.

use crate::cmd::{Failure, output};
use crate::published;
use crate::store::{self, Store};
use record::run::Run;

/// The run of a name.
///
/// # Errors
/// There is none, there are several, or it cannot be read.
pub fn open(name: &str) -> Result<Run, Failure> {
    if let Some(run) = published::run(name) {
        return Ok(run);
    }
    let usage = |error: anyhow::Error| Failure::Usage(format!("{error:#}"));
    let path = Store::here().find(name).map_err(usage)?;
    let recording = store::read(&path).map_err(usage)?;
    if recording.torn {
        output::diagnose(&format!(
            "plumb: the last line of {} is torn (its writer was killed) and left out",
            path.display()
        ));
    }
    Ok(recording.run)
}
