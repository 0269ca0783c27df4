//! Runs by what a user calls them: a path, a stored name or a unique prefix of one, `last`, or a
//! published machine.

use crate::analysis::figures;
use crate::analysis::history::History;
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

/// The round values of the stored runs of the first compared run's machine, by the same profile of
/// plumb (`release` or `debug`), the oldest first; the compared runs themselves are left out, also
/// where they were read from copies.
pub fn history(compared: &[&Run]) -> History {
    let mut history = History::default();
    let Some(base) = compared.first().map(|run| &run.header) else {
        return history;
    };
    let store = Store::here();
    for name in store.names().unwrap_or_default() {
        let Ok(recording) = store::read(&store.path(&name)) else {
            continue;
        };
        let run = recording.run;
        let is_compared = compared.iter().any(|other| {
            (&other.header.run, other.header.seed) == (&run.header.run, run.header.seed)
        });
        let is_alike =
            (&run.header.identity, &run.header.profile) == (&base.identity, &base.profile);
        if is_alike && !is_compared && run.footer.is_some() {
            history.add(&figures(&run));
        }
    }
    history
}
