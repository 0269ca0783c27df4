//! Before files are measured, what was written earlier gets to the device (METHOD §4): else its
//! writes stand in the queue before our reads.

use anyhow::{Context, Result};
use host::text::bytes;
use metal::storage::sync_file_system;
use record::key::Put;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};

/// The machine is quiet with less than this unwritten, in bytes.
const QUIET_BYTES: u64 = 1 << 20;
/// A wait takes no longer, whatever a round takes.
const LONGEST: Duration = Duration::from_secs(10);
/// The waits of a run, as a share of its budget: one over this.
const BUDGET_SHARE: u32 = 10;
/// How often the kernel is asked.
const EVERY: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// Time that syncfs and the wait took, in ns.
    pub waited_ns: f64,
    /// Bytes in memory that no device has yet; `None` where the kernel does not say.
    pub unwritten_bytes: Option<u64>,
}

impl Settled {
    /// Puts both into a case's quantities.
    pub fn write(self, quantities: &mut BTreeMap<String, f64>) {
        quantities.put("settle_ns", self.waited_ns);
        quantities.put_known("unwritten_bytes", self.unwritten_bytes.map(|bytes| bytes as f64));
    }

    /// What is to be said where it did not become quiet.
    pub fn note(self) -> Option<String> {
        let bytes = self.unwritten_bytes.filter(|bytes| *bytes >= QUIET_BYTES)?;
        Some(format!(
            "dirty pages of other processes were still in memory during the measurement: {:.1} \
             MiB, after {:.2} s of waiting",
            bytes as f64 / QUIET_BYTES as f64,
            self.waited_ns / 1e9
        ))
    }
}

/// Where more than 1 MiB of all file systems is unwritten, has the file system of `file` write what
/// it has and waits for the rest: for at most 10 s, and at most a tenth of `round`, the time that
/// the round measures, so that all waits stay within a tenth of the budget. (syncfs itself takes
/// what the device takes.) Errors: syncfs(2) failed: the device did.
pub fn settle(file: &File, round: Duration) -> Result<Settled> {
    let start = Instant::now();
    let mut left = unwritten_now();
    if left.is_none_or(|bytes| bytes >= QUIET_BYTES) {
        sync_file_system(file).context("syncing the file system")?;
        left = unwritten_now();
    }
    let most = LONGEST.min(round / BUDGET_SHARE);
    while left.is_some_and(|bytes| bytes >= QUIET_BYTES) && start.elapsed() < most {
        std::thread::sleep(EVERY);
        left = unwritten_now();
    }
    let unwritten_bytes = left;
    Ok(Settled { waited_ns: start.elapsed().as_secs_f64() * 1e9, unwritten_bytes })
}

fn unwritten_now() -> Option<u64> {
    unwritten(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `Dirty` and `Writeback` of a text as /proc/meminfo is, in bytes.
pub fn unwritten(meminfo: &str) -> Option<u64> {
    bytes(meminfo, "Dirty:")?.checked_add(bytes(meminfo, "Writeback:")?)
}

#[cfg(test)]
mod tests {
    use super::{Settled, settle, unwritten};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn dirty_and_writeback_count_and_temporary_writeback_does_not() {
        let text = "Cached: 9 kB\nDirty:   12 kB\nWriteback:  3 kB\nWritebackTmp:  50 kB\n";
        assert_eq!(unwritten(text), Some(15 << 10));
        assert_eq!(unwritten("Dirty: 12 kB\n"), None);
    }

    #[test]
    fn waiting_ends_and_tells_what_is_left() {
        let file = tempfile::tempfile().expect("a file");
        let settled = settle(&file, Duration::ZERO).expect("syncs");
        let mut quantities = BTreeMap::new();
        settled.write(&mut quantities);
        assert!(quantities["settle_ns"] > 0.0);
        assert!(quantities.contains_key("unwritten_bytes"), "Linux says it");
    }

    #[test]
    fn only_what_did_not_settle_is_a_note() {
        let settled = |unwritten_bytes| Settled { waited_ns: 2e9, unwritten_bytes };
        assert_eq!(settled(Some(4096)).note(), None);
        assert_eq!(settled(None).note(), None);
        let note = settled(Some(3 << 20)).note().expect("3 MiB");
        assert!(note.contains("3.0 MiB, after 2.00 s"), "{note}");
    }
}
