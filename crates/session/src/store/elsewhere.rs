//! Where the newest record outside of the store lies: `last` is a run of the store, and a user who
//! measured with `--out` since then means another one.

use super::{Age, Store, begin, file};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The store's file with the path of that record.
const ELSEWHERE: &str = "elsewhere";

impl Store {
    /// Remembers the record of a run that began just now, unless it is in the store itself, or there
    /// is no store. Errors: the store is not this user's alone, or cannot be written.
    pub fn remember(&self, record: &Path) -> Result<()> {
        if self.name_of(record).is_some() || !self.dir.is_dir() {
            return Ok(());
        }
        self.check_own()?;
        let path = std::path::absolute(record)?;
        file::write_whole(&self.dir.join(ELSEWHERE), path.as_os_str().as_encoded_bytes())
    }

    /// A record outside of the store that began after this one of the store.
    pub fn newer_elsewhere(&self, last: &Path) -> Option<PathBuf> {
        let path = PathBuf::from(std::fs::read_to_string(self.dir.join(ELSEWHERE)).ok()?);
        let age = |path: &Path| Age::new(begin(path).began.as_deref(), "");
        (path.is_file() && age(&path) > age(last)).then_some(path)
    }
}
