//! Control groups of tests, in the hierarchy of their controller (version 1) or in the only one.

use super::{left, own_name};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group; removed on drop.
pub struct Group(pub PathBuf);

impl Group {
    /// `None` where this process may make none.
    fn new(controller: &str) -> Option<Group> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mounted = [controller, ""].map(|name| PathBuf::from("/sys/fs/cgroup").join(name));
        let mount = mounted.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
        for of_a_killed_one in left(&mount, "group") {
            let _ = fs::remove_dir(of_a_killed_one);
        }
        let group = Group(mount.join(format!("{}-{number}", own_name("group"))));
        fs::create_dir(&group.0).ok()?;
        Some(group)
    }

    pub fn percent(percent: u32, period_us: u32) -> Option<Group> {
        let group = Group::new("cpu")?;
        let quota_us = period_us / 100 * percent;
        group.write("cpu.max", format!("{quota_us} {period_us}")).or_else(|| {
            group.write("cpu.cfs_period_us", period_us.to_string())?;
            group.write("cpu.cfs_quota_us", quota_us.to_string())
        })?;
        Some(group)
    }

    /// With no more processes than `most`.
    pub fn processes(most: u32) -> Option<Group> {
        let group = Group::new("pids")?;
        group.write("pids.max", most.to_string())?;
        Some(group)
    }

    pub fn memory(bytes: u64) -> Option<Group> {
        let group = Group::new("memory")?;
        group.set_memory(bytes)?;
        Some(group)
    }

    pub fn set_memory(&self, bytes: u64) -> Option<()> {
        let files = ["memory.max", "memory.limit_in_bytes"];
        files.iter().find_map(|file| self.write(file, bytes.to_string()))
    }

    pub fn freeze(&self) {
        let pids = fs::read_to_string(self.0.join("cgroup.procs")).unwrap();
        let stopped = Command::new("kill").arg("-STOP").args(pids.split_whitespace()).status();
        assert!(stopped.unwrap().success());
    }

    /// Processes that the OOM killer ended.
    pub fn killed(&self) -> u64 {
        let files = ["memory.events", "memory.oom_control"].map(|file| self.0.join(file));
        let counts = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap();
        let count = counts.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.expect("kernels count since 4.13").trim().parse().unwrap()
    }

    /// Only the kernel makes these files, where the controller is there.
    fn write(&self, file: &str, text: String) -> Option<()> {
        let path = self.0.join(file);
        path.exists().then(|| fs::write(path, text).ok())?
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was killed leaves the group a moment later; one that never does has failed its test.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
