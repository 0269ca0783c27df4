//! Where the newest record outside of the store lies: `last` is a run of the store, and a user who
//! measured with `--out` since then means another one.

use super::{Age, Store, begin, file};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The store's file with the path of that record.
const ELSEWHERE: &str = "elsewhere";

impl Store {
    /// Remembers the record of a run that began just now, unless it is in the store itself. Errors:
    /// the store is not this user's alone, or cannot be written.
    pub fn remember(&self, record: &Path) -> Result<()> {
        if self.name_of(record).is_some() {
            return Ok(());
        }
        self.make()?;
        let path = std::path::absolute(record)?;
        file::write_whole(&self.dir.join(ELSEWHERE), path.as_os_str().as_encoded_bytes())
    }

    /// A record outside of the store that began after this one, or after none; `None` where there
    /// is none any more.
    pub fn newer_elsewhere(&self, last: Option<&Path>) -> Option<PathBuf> {
        let path = PathBuf::from(std::fs::read_to_string(self.dir.join(ELSEWHERE)).ok()?);
        let age = |path: &Path| Age::new(begin(path).began.as_deref(), "");
        let is_newer = path.is_file() && last.is_none_or(|last| age(&path) > age(last));
        is_newer.then_some(path)
    }
}
