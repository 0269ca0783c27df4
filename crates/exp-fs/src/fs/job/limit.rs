//! The cache limit of a job: a control group with a memory limit that the worker runs in, and what
//! is in the page cache.

use crate::fs::prelude::*;
use host::cgroup::{GroupPlace, cached_bytes};
use host::text::{after, numbers};
use std::fs;

/// A group of the worker's own; when this is dropped it goes back to where it was and removes the
/// group.
pub(in crate::fs) struct OwnGroup {
    name: String,
    dir: PathBuf,
    home: PathBuf,
}

impl OwnGroup {
    /// Makes the group `name` with a limit; an empty one that an earlier worker of the run left
    /// when it was killed is made anew.
    pub(in crate::fs) fn make(
        place: &GroupPlace,
        name: &str,
        limit_bytes: u64,
    ) -> Result<OwnGroup> {
        let root = Path::new("/");
        let dir = root.join(&place.parent).join(name);
        let what = |doing: &str| format!("{doing} the control group {}", dir.display());
        // Only an empty directory, or a group without processes, is removed by this.
        if dir.is_dir() {
            fs::remove_dir(&dir).with_context(|| what("removing"))?;
        }
        fs::create_dir(&dir).with_context(|| what("creating"))?;
        let group = OwnGroup { name: name.to_owned(), dir, home: root.join(&place.home) };
        let limit = group.dir.join(place.limit_file());
        fs::write(&limit, limit_bytes.to_string())
            .with_context(|| format!("setting the memory limit in {}", limit.display()))?;
        let told = fs::read_to_string(&limit).context("reading back the memory limit")?;
        // The kernel rounds down to whole pages.
        let told: u64 = told.trim().parse().context("reading back the memory limit")?;
        ensure!(
            told <= limit_bytes && told > limit_bytes / 2,
            "the control group's memory limit is {told} bytes instead of {limit_bytes}"
        );
        Ok(group)
    }

    /// Where the group counts what it has in memory.
    pub(in crate::fs) fn stat(&self) -> PathBuf {
        self.dir.join("memory.stat")
    }

    /// Moves this process into the group. What it has touched so far stays charged where it was.
    pub(in crate::fs) fn enter(&self) -> Result<()> {
        move_to(&self.dir)?;
        let member = fs::read_to_string("/proc/self/cgroup")
            .context("reading the worker's control group")?;
        let ending = format!("/{}", self.name);
        ensure!(
            member.lines().any(|line| line.ends_with(&ending)),
            "the worker was moved to the control group {} but is not in it",
            self.name
        );
        Ok(())
    }

    /// Moves this process back to where it was.
    pub(in crate::fs) fn leave(&self) -> Result<()> {
        move_to(&self.home)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // What stays is in the run's journal.
        let _ = self.leave();
        let _ = fs::remove_dir(&self.dir);
    }
}

fn move_to(group: &Path) -> Result<()> {
    let procs = group.join("cgroup.procs");
    fs::write(&procs, std::process::id().to_string())
        .with_context(|| format!("moving the worker by {}", procs.display()))
}

/// Bytes of file pages in memory: of a group by its `stat`, else `Cached` of /proc/meminfo.
pub(in crate::fs) fn in_memory(stat: Option<&Path>) -> Result<u64> {
    let (file, of): (&Path, fn(&str) -> Option<u64>) = match stat {
        Some(stat) => (stat, cached_bytes),
        None => (Path::new("/proc/meminfo"), of_meminfo),
    };
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    of(&text).with_context(|| format!("{} has no count of file pages", file.display()))
}

fn of_meminfo(text: &str) -> Option<u64> {
    let kib: u64 = numbers(after(text, "Cached:")?).next()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::{OwnGroup, in_memory, of_meminfo};
    use host::cgroup::GroupPlace;
    use host::{Outside, Root};
    use std::fs;

    #[test]
    fn cached_is_not_swap_cached() {
        let text = "MemFree: 1 kB\nSwapCached:  7 kB\nCached:   12 kB\n";
        assert_eq!(of_meminfo(text), Some(12 << 10));
        assert_eq!(of_meminfo("SwapCached: 7 kB\n"), None);
        assert!(in_memory(None).is_ok_and(|bytes| bytes > 0));
    }

    fn place(version: u32, parent: &str) -> GroupPlace {
        GroupPlace { version, parent: parent.to_owned(), home: "plumb-is-not-there".to_owned() }
    }

    #[test]
    fn a_place_that_is_not_there_is_told_and_leaves_nothing() {
        let place = place(1, "sys/fs/cgroup/plumb-is-not-there");
        let refused = OwnGroup::make(&place, "plumb-test", 1 << 26).err();
        let text = format!("{:#}", refused.expect("no such group"));
        assert!(text.contains("plumb-is-not-there/plumb-test"), "{text}");
    }

    #[test]
    fn a_group_that_a_killed_worker_left_stands_in_nobody_s_way() {
        let parent = tempfile::tempdir().expect("a directory");
        // An empty directory is to remove_dir what a group without processes is.
        fs::create_dir(parent.path().join("plumb-x")).expect("made");
        let place = place(2, &parent.path().to_str().expect("text")[1..]);
        let group = OwnGroup::make(&place, "plumb-x", 1 << 26).expect("made anew");
        let limit = fs::read_to_string(group.dir.join("memory.max")).expect("written");
        assert_eq!(limit, "67108864");
    }

    #[test]
    fn this_machine_says_where_or_why_not() {
        let host = host::Host::read(&Root::live(Outside::default()));
        let limits = host.limits;
        assert_ne!(limits.memory_place.is_some(), limits.memory_place_refused.is_some());
    }
}
