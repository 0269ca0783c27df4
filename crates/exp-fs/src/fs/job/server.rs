//! What the kernel's NFS client counted of a job's reads: how long they were on the wire and at the
//! server, how long the client itself took, and what really came from the server.

use crate::fs::prelude::*;
use host::mountstats::{Bytes, MountStats, Operation, at_target};
use record::note::Note;
use std::fs::read_to_string;

/// A share of bytes that did not come from the server that is not worth a word.
const SHARE_UNTOLD: f64 = 0.01;
const READ: &str = "READ";
/// Times are whole milliseconds of all reads together: below so many a mean of them says nothing.
const RESOLVED_MS: u64 = 10;
const NS_PER_MS: f64 = 1e6;

pub(in crate::fs) struct Since {
    read: Operation,
    bytes: Option<Bytes>,
}

/// Share of what was asked for that did not come from the server.
fn share_from_cache(asked: u64, came: u64) -> Option<f64> {
    (asked > 0).then(|| asked.saturating_sub(came) as f64 / asked as f64)
}

/// The note if the server sent less than was requested, and the counter behind it.
fn cache_note(share: f64, counted_by: &str) -> Option<Note> {
    (share > SHARE_UNTOLD).then(|| {
        Note::cache(format!(
            "cache: {:.0} % of the data did not come from the server ({counted_by})",
            share * 100.0
        ))
    })
}

/// The counters of what is mounted at a place; `None` where that is not of NFS.
pub(super) fn counters(target: &str) -> Option<MountStats> {
    at_target(&read_to_string("/proc/self/mountstats").ok()?, target)
}

/// What was counted between; `None` where it was mounted anew meanwhile.
pub(super) fn since(before: &MountStats, now: &MountStats) -> Option<Since> {
    let read = |stats: &MountStats| stats.operations.get(READ).copied().unwrap_or_default();
    let bytes = match (now.bytes, before.bytes) {
        (Some(now), Some(before)) => Some(now.since(before)?),
        _ => None,
    };
    Some(Since { read: read(now).since(read(before))?, bytes })
}

impl Since {
    /// Share of what was asked for that did not come from the server in these reads.
    fn cache_share(&self, asked: u64) -> Option<f64> {
        share_from_cache(asked, self.bytes?.server_read)
    }

    /// Puts what was counted beside a case's figure, and a note beginning `cache:` if the server
    /// sent less than was requested although no local cache held the data.
    pub(in crate::fs) fn describe(&self, samples: &mut Samples, asked: u64, is_cached: bool) {
        let (again, share) = (self.read.retransmissions(), self.cache_share(asked));
        let quantities = [
            ("asked_bytes", Some(asked as f64)),
            ("nfs_reads", Some(self.read.count as f64)),
            ("nfs_retransmissions", Some(again as f64)),
            ("nfs_rtt_sum_ns", Some(self.read.rtt_ms as f64 * NS_PER_MS)),
            ("nfs_timeouts", Some(self.read.timeouts as f64)),
            ("nfs_errors", self.read.errors.map(|errors| errors as f64)),
            ("server_bytes", self.bytes.map(|bytes| bytes.server_read as f64)),
            ("cache_share", share),
        ];
        samples.set_quantities(quantities);
        if !is_cached {
            let note = share.and_then(|share| cache_note(share, "mountstats"));
            samples.notes.extend(note);
        }
        if again > 0 {
            samples.notes.push(format!(
                "{again} of {} read requests were retransmitted",
                self.read.transmissions
            ));
        }
    }

    /// Records the times of one read, where there were enough for the counters' milliseconds.
    pub(in crate::fs) fn record(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        for (metric, value_ns) in self.times() {
            bench.record(case, metric, Values::batches(self.read.count, vec![value_ns]))?;
        }
        Ok(())
    }

    fn times(&self) -> Vec<(&'static str, f64)> {
        let read = self.read;
        if read.count == 0 || read.rtt_ms < RESOLVED_MS {
            return Vec::new();
        }
        let mean = |ms: f64| ms * NS_PER_MS / read.count as f64;
        vec![
            ("rpc_queue", mean(read.queue_ms as f64)),
            ("rpc_rtt", mean(read.rtt_ms as f64)),
            ("rpc_execute", mean(read.execute_ms as f64)),
            ("rpc_client", mean(read.execute_ms as f64 - read.rtt_ms as f64)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::since;
    use host::mountstats::at_target;

    /// A mount's counters after `count` reads of 4 KiB.
    fn text(count: u64, sent: u64, rtt_ms: u64, execute_ms: u64, server_bytes: u64) -> String {
        format!(
            "device s:/x mounted on /m with fstype nfs4 statvers=1.1\n\
             \tbytes:\t0 0 {} 0 {server_bytes} 0 0 0\n\
             \t        READ: {count} {sent} 0 {} {} 1 {rtt_ms} {execute_ms} 0\n",
            count * 4096,
            count * 200,
            count * 4200
        )
    }

    #[test]
    fn a_read_s_time_is_divided_between_wire_and_client() {
        let stats = |text: &str| at_target(text, "/m").expect("is mounted");
        let before = stats(&text(100, 100, 1000, 1100, 100 * 4096));
        let now = stats(&text(300, 301, 1500, 1700, 250 * 4096));
        let since = since(&before, &now).expect("one mount");
        let times = since.times();
        let of = |name: &str| times.iter().find(|(have, _)| *have == name).expect("told").1;
        assert_eq!((of("rpc_rtt"), of("rpc_execute")), (2.5e6, 3e6));
        assert_eq!((of("rpc_client"), of("rpc_queue")), (0.5e6, 0.0));
        assert_eq!(since.read.retransmissions(), 1);
        // Of 200 blocks the server gave 150.
        assert_eq!(since.cache_share(200 * 4096), Some(0.25));
        // Mounted anew: no difference.
        assert!(super::since(&now, &before).is_none());
        // Too little time for counters of milliseconds.
        let short = stats(&text(110, 110, 1005, 1106, 110 * 4096));
        assert!(super::since(&before, &short).expect("one mount").times().is_empty());
    }
}
