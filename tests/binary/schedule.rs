//! Time slices where a control group's quota stops everything again and again.

use crate::plumb::{Here, answer, end, events, of};
use std::fs;
use std::path::PathBuf;

/// A control group with a fifth of a CPU; removed on drop.
pub struct Quota(pub PathBuf);

impl Quota {
    /// `None` where this process may make none.
    pub fn new() -> Option<Quota> {
        let name = format!("plumb-test-quota-{}", std::process::id());
        // Version 1, else version 2.
        let mounted = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(PathBuf::from);
        let mount = mounted
            .into_iter()
            .find(|mount| mount.join("cgroup.procs").exists())?;
        let group = Quota(mount.join(name));
        fs::create_dir(&group.0).ok()?;
        // Only the kernel makes these files, where the controller is there.
        let write = |file: &str, text: &str| {
            let path = group.0.join(file);
            path.exists().then(|| fs::write(path, text).ok())?
        };
        write("cpu.max", "20000 100000").or_else(|| {
            write("cpu.cfs_period_us", "100000")?;
            write("cpu.cfs_quota_us", "20000")
        })?;
        Some(group)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group with processes in it stays; then the test has failed already.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_that_throttles_is_named_and_disturbs() {
    let Some(group) = Quota::new() else {
        println!("skipped: no control group with a quota can be made here");
        return;
    };
    let here = Here::new();
    let line = format!(
        "echo $$ > {}; exec {} run os.schedule --preset rehearsal",
        group.0.join("cgroup.procs").display(),
        env!("CARGO_BIN_EXE_plumb")
    );
    let answer = answer(here.other("sh").args(["-c", &line]).output().unwrap());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = events(&here.record());
    assert_eq!(end(&events), "complete");
    let notes: String = of(&events, "samples")
        .into_iter()
        .map(|samples| samples["notes"].to_string())
        .collect();
    assert!(notes.contains("quota throttled the processes"), "{notes}");
    let rounds = of(&events, "round");
    let disturbed = rounds
        .iter()
        .all(|round| round["disturbed"].to_string().contains("throttled"));
    assert!(!rounds.is_empty() && disturbed, "{rounds:?}");
    // It was foretold.
    let lost = of(&events, "prediction")
        .into_iter()
        .map(ToString::to_string)
        .find(|text| text.contains("\"lost\""))
        .unwrap();
    assert!(lost.contains("quota of 0.20 CPUs"), "{lost}");
}
