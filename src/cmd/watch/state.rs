//! What a watch keeps in its store: the rotation, the saved CPU time, and the changes that it found.

use super::voice::Voice;
use crate::cmd::Failure;
use analysis::watch::Seen;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::store::{self, Store};
use session::watch::{FORMAT, Kept};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Instant;

/// Its file, in the store of the watch.
const FILE: &str = "watch.json";

/// What is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The rotation and the saved CPU time.
    #[serde(flatten)]
    pub kept: Kept,
    /// Rotations after which changes were searched.
    pub searched: u64,
    /// The changes.
    pub seen: Seen,
}

/// Seconds since 1970 when the watch started, and the time since then by a clock that is never set.
pub(super) struct Clock {
    began_s: f64,
    at: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { began_s: super::now_s(), at: Instant::now() }
    }

    pub fn now_s(&self) -> f64 {
        self.began_s + self.at.elapsed().as_secs_f64()
    }
}

fn path(store: &Store) -> Result<PathBuf> {
    Ok(store.dir()?.join(FILE))
}

impl State {
    fn new(now_s: f64) -> State {
        State { kept: Kept::new(now_s), searched: 0, seen: Seen::default() }
    }

    /// What an earlier start left; a new one without it, or where it is damaged. Errors: it cannot
    /// be read, or a newer plumb wrote it.
    pub fn load(store: &Store, now_s: f64, voice: &Voice) -> Result<State, Failure> {
        let path = path(store)?;
        let shown = path.display();
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::new(now_s)),
            text => text.with_context(|| format!("cannot read {shown}"))?,
        };
        let format = serde_json::from_slice::<Value>(&text).ok();
        let format = format.and_then(|value| value["format"].as_u64());
        if format.is_some_and(|format| format > u64::from(FORMAT)) {
            return Err(Failure::Usage(format!(
                "{shown} was written by a newer plumb; use that one, or remove the file to start \
                 the rotation anew"
            )));
        }
        serde_json::from_slice(&text).or_else(|error| {
            voice.says(&format!("{shown} is damaged ({error}): the rotation starts anew"));
            Ok(State::new(now_s))
        })
    }

    /// Writes it, whole. Errors: it cannot be written.
    pub fn write(&self, store: &Store) -> Result<()> {
        let text = serde_json::to_vec(self)?;
        store::file::write_whole(&path(store)?, &text)
    }
}
