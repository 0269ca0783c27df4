//! The directories that series have their files in: which of them hang, and what a preparation that
//! failed left there.

use crate::live::Live;
use crate::node::Interrupted;
use crate::node::worker::Hung;
use crate::setup::Setup;
use anyhow::{Result, bail};
use bench::experiment::Need;
use metal::process::Patience;
use record::case::Series;
use record::event::FailedCase;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A worker that touches files gives a sign within this and what its round takes as stated. A disk
/// that must first spin up answers in half of it, and so does a flash device that cleans up; the
/// kernel itself gives a command to a disk up after 30 s.
const SILENCE: Duration = Duration::from_secs(20);
/// What is stated counts up to this: a case that takes longer says that it lives.
const STATED_MOST: Duration = Duration::from_secs(60);
/// Cases that hang and can be ended before their directory is given up: a server that is gone for
/// one of them is gone for all.
const HANGS_MAX: u32 = 2;

/// How long a worker whose files may hang is silent at most, if a round takes so long as stated.
pub fn silence(stated: Duration) -> Duration {
    SILENCE + stated.min(STATED_MOST)
}

/// Where a series has its files; `None` where the run has no directory. Errors: the one that it has
/// elsewhere could not be made.
pub fn of_series(setup: &Setup, live: &Live<'_>) -> Result<Option<PathBuf>> {
    match live.work.experiment.files_below(&live.series) {
        None => Ok(setup.site.dir.as_ref().map(|dir| dir.path.clone())),
        Some(below) => match setup.elsewhere.get(&below) {
            Some(Ok(dir)) => Ok(Some(dir.clone())),
            Some(Err(reason)) => bail!("{reason}"),
            None => bail!("cannot create a work directory in {}", below.display()),
        },
    }
}

/// What counts for the block devices below a directory; `None` where none is known.
pub fn device(setup: &Setup, dir: Option<&Path>) -> Option<String> {
    let block = &setup.site.host.block;
    block.numbers_of(block.mount_of(dir?.to_str()?)?)
}

/// Whether a series can do nothing without its directory.
pub fn depends(live: &Live<'_>) -> bool {
    let experiment = live.work.experiment;
    experiment.card().needs.contains(&Need::Directory)
        || experiment.files_below(&live.series).is_some()
        || experiment.is_prepared(&live.series)
}

#[derive(Debug, Default)]
pub struct Hanging {
    dirs: BTreeMap<PathBuf, (u32, Option<String>)>,
}

impl Hanging {
    /// Takes a worker that hung in a directory: whether that one is given up.
    pub fn take(&mut self, dir: &Path, hung: &Hung) -> bool {
        let (count, given_up) = self.dirs.entry(dir.to_owned()).or_default();
        *count += 1;
        if hung.is_stuck || hung.case.is_none() || *count >= HANGS_MAX {
            given_up.get_or_insert_with(|| hung.reason.clone());
        }
        given_up.is_some()
    }

    pub fn given_up(&self) -> Vec<PathBuf> {
        let given_up = self.dirs.iter().filter(|(_, (_, reason))| reason.is_some());
        given_up.map(|(dir, _)| dir.clone()).collect()
    }

    /// Why nothing more is to be tried in a directory.
    pub fn reason(&self, dir: &Path) -> Option<&str> {
        self.dirs.get(dir)?.1.as_deref()
    }

    /// Why a series cannot be measured any more: its directory hangs.
    pub fn ends(&self, setup: &Setup, live: &Live<'_>) -> Option<&str> {
        let dir = of_series(setup, live).ok()??;
        let reason = self.reason(&dir)?;
        depends(live).then_some(reason)
    }
}

/// The files of a series could not be made: it has no rounds.
#[derive(Debug, thiserror::Error)]
#[error("cannot create its files: {0}")]
pub struct Unprepared(pub String);

pub fn all_failed(series: &Series, reason: &str) -> Vec<FailedCase> {
    let cases = series
        .cases
        .iter()
        .map(|case| FailedCase { case: case.id.clone(), reason: reason.to_owned() });
    cases.collect()
}

pub struct Before {
    dir: PathBuf,
    names: Vec<OsString>,
}

impl Before {
    /// Lists it. Errors: [`Hung`], [`Interrupted`], or why it cannot be listed.
    pub fn list(dir: &Path, stop: &AtomicBool) -> Result<Before> {
        match metal::directory::names(dir, Patience::unless(SILENCE, stop)) {
            Ok(names) => Ok(Before { dir: dir.to_owned(), names }),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => bail!(Hung {
                reason: format!(
                    "{} hangs: it did not answer in {} s; name another directory with --dir",
                    dir.display(),
                    SILENCE.as_secs()
                ),
                case: None,
                is_stuck: true,
            }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => bail!(Interrupted),
            Err(error) => bail!(Unprepared(format!("{}: {error}", dir.display()))),
        }
    }

    /// Removes what came since: incomplete files belong to no series. What cannot be removed goes
    /// with the directory, or stays in the journal.
    pub fn restore(&self) {
        let _ = metal::directory::remove_but(&self.dir, &self.names, SILENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::{Hanging, SILENCE, all_failed, silence};
    use crate::node::worker::Hung;
    use crate::round::given_up;
    use record::case::{Case, Order, Series};
    use record::key::CaseId;
    use std::path::Path;
    use std::time::Duration;

    fn case(size: u64) -> CaseId {
        CaseId::new().with("size", size)
    }

    fn hung(case: Option<CaseId>, is_stuck: bool) -> Hung {
        Hung { reason: "it hangs".to_owned(), case, is_stuck }
    }

    #[test]
    fn a_directory_is_given_up_for_good_or_for_the_second_time() {
        let (one, other) = (Path::new("/one"), Path::new("/other"));
        let mut hanging = Hanging::default();
        assert!(!hanging.take(one, &hung(Some(case(1)), false)));
        assert_eq!(hanging.reason(one), None);
        assert!(!hanging.take(other, &hung(Some(case(1)), false)));
        assert!(hanging.take(one, &hung(Some(case(2)), false)));
        assert_eq!(hanging.reason(one), Some("it hangs"));
        assert_eq!(hanging.reason(other), None);
        assert!(hanging.take(other, &hung(Some(case(1)), true)));
        let mut hanging = Hanging::default();
        assert!(hanging.take(one, &hung(None, false)), "no case is left");
        assert_eq!(hanging.given_up(), [one]);
        // One that answers otherwise is removed as any is.
        hanging.take(other, &hung(Some(case(1)), false));
        assert_eq!(hanging.given_up(), [one]);
    }

    #[test]
    fn a_hang_costs_its_case_and_one_without_a_case_all() {
        let cases = [1, 2].map(|size| Case::new(case(size)));
        let series = Series::new("fs.read", Order::Fixed, cases.to_vec());
        let of_case = given_up(&hung(Some(case(2)), false).into(), &series);
        assert_eq!(of_case.len(), 1);
        assert_eq!(of_case[0].case, case(2));
        let of_none = given_up(&hung(None, true).into(), &series);
        assert_eq!(of_none, all_failed(&series, "it hangs"));
        let unprepared = super::Unprepared("no space".to_owned());
        let of_all = given_up(&unprepared.into(), &series);
        assert_eq!(of_all.len(), 2);
        assert!(of_all[0].reason.ends_with("no space"));
        assert!(given_up(&anyhow::anyhow!("an error"), &series).is_empty());
    }

    #[test]
    fn what_is_stated_counts_up_to_a_limit() {
        assert_eq!(silence(Duration::ZERO), SILENCE);
        let second = Duration::from_secs(1);
        assert_eq!(silence(second), SILENCE + second);
        assert_eq!(silence(second * 3600), silence(second * 7200));
    }
}
