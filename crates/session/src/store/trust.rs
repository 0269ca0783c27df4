//! What other users can have put in the store is not trusted.

use anyhow::{Context, Result, bail};
use metal::path::Location;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What of a mode lets others write.
const OTHERS: u32 = 0o022;

/// Any name, to look at the directory that it would be in.
const NAME: &str = "name";

/// Why what a file or directory holds may be another user's; `None` where it is this user's alone.
pub(super) fn others(facts: &Metadata) -> Option<String> {
    match facts.uid() == metal::process::geteuid() {
        false => Some(format!("belongs to another user (uid {})", facts.uid())),
        true if facts.mode() & OTHERS != 0 => {
            Some(format!("can be written by other users (mode {:03o})", facts.mode() & 0o777))
        }
        true => None,
    }
}

/// Checks that a directory of the store, if it is there, is this user's alone. Errors: it is not,
/// with the way out.
pub(super) fn check(dir: &Path) -> Result<()> {
    let shown = dir.display();
    let found = Location::exact(&dir.join(NAME)).and_then(|location| location.directory());
    let facts = match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts.with_context(|| format!("cannot use {shown}"))?,
    };
    match others(&facts) {
        None => Ok(()),
        Some(why) if facts.uid() == metal::process::geteuid() => bail!(
            "{shown} {why}, so plumb only reads it: run `chmod go-w {shown}`, or name another \
             store with PLUMB_STORE"
        ),
        Some(why) => bail!(
            "{shown} {why}, so plumb only reads it: name a store of your own with PLUMB_STORE"
        ),
    }
}

/// Makes a directory of the store where there is none, in which only this user can write. Errors:
/// it cannot be made, or is not this user's alone.
pub(super) fn make(dir: &Path) -> Result<()> {
    Location::make(&dir.join(NAME))
        .with_context(|| format!("cannot create the directory {}", dir.display()))?;
    check(dir)
}
