//! What the kernel's NFS client counts of each mount: /proc/self/mountstats (Linux
//! net/sunrpc/stats.c, fs/nfs/super.c). Counters are sums since the mount, so that two readings
//! have to be subtracted.

use super::mountinfo::unescape;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountStats {
    /// Written like this: `server:/export`.
    pub source: String,
    pub target: String,
    /// Written like this: `nfs` or `nfs4`.
    pub fs: String,
    /// Options in force, including defaults.
    pub options: String,
    /// Bytes by how they were asked for; `None` where the kernel does not count them.
    pub bytes: Option<Bytes>,
    /// Operations by the protocol's names (`READ`, `GETATTR`, …).
    pub operations: BTreeMap<String, Operation>,
}

/// Bytes since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub server_read: u64,
}

/// One kind of operation since the mount. Times are whole milliseconds of all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    pub count: u64,
    /// Requests that were sent for them: more than operations where some were sent again.
    pub transmissions: u64,
    pub timeouts: u64,
    /// Bytes sent, headers included.
    pub sent_bytes: u64,
    /// Bytes received, headers included.
    pub received_bytes: u64,
    /// Waiting to be sent, in ms.
    pub queue_ms: u64,
    /// From sending to the answer: wire and server, in ms.
    pub rtt_ms: u64,
    /// From the request's making to its end: queue, wire, server and the client's own work, in ms.
    pub execute_ms: u64,
    /// Answers that were errors; `None` before statistics of version 1.1.
    pub errors: Option<u64>,
}

/// The counters of the NFS mount at `target`; of several on one point those of the last. `None`
/// where nothing of NFS is mounted there.
pub fn at_target(mountstats: &str, target: &str) -> Option<MountStats> {
    all(mountstats).into_iter().rfind(|mount| mount.target == target)
}

/// The counters of all NFS mounts, in their order.
fn all(mountstats: &str) -> Vec<MountStats> {
    let mut mounts: Vec<MountStats> = Vec::new();
    // Other file systems have a line each, which ends what was said of the mount before.
    let mut inside = false;
    for line in mountstats.lines() {
        if line.starts_with("device ") || line.starts_with("no device ") {
            let mount = head(line);
            inside = mount.is_some();
            mounts.extend(mount);
        } else if let Some(mount) = mounts.last_mut().filter(|_| inside) {
            detail(mount, line.trim());
        }
    }
    mounts
}

/// `device SOURCE mounted on TARGET with fstype nfs4 statvers=1.1`, without the last word where the
/// file system keeps no counters.
fn head(line: &str) -> Option<MountStats> {
    let (source, rest) = line.strip_prefix("device ")?.split_once(" mounted on ")?;
    let (target, rest) = rest.split_once(" with fstype ")?;
    let (fs, _) = rest.split_once(" statvers=")?;
    Some(MountStats {
        source: unescape(source),
        target: unescape(target),
        fs: fs.to_owned(),
        ..MountStats::default()
    })
}

fn detail(mount: &mut MountStats, line: &str) {
    let Some((name, rest)) = line.split_once(':') else { return };
    let numbers = || -> Option<Vec<u64>> {
        rest.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    match name {
        "opts" => mount.options = rest.trim().to_owned(),
        "bytes" => mount.bytes = numbers().and_then(|numbers| bytes(&numbers)),
        // Operations are written in capitals; a `xprt` line has a word among its numbers.
        _ if name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()) => {
            if let Some(operation) = numbers().and_then(|numbers| operation(&numbers)) {
                mount.operations.insert(name.to_owned(), operation);
            }
        }
        _ => {}
    }
}

fn bytes(numbers: &[u64]) -> Option<Bytes> {
    Some(Bytes { server_read: *numbers.get(4)? })
}

fn operation(numbers: &[u64]) -> Option<Operation> {
    let at = |index: usize| numbers.get(index).copied();
    Some(Operation {
        count: at(0)?,
        transmissions: at(1)?,
        timeouts: at(2)?,
        sent_bytes: at(3)?,
        received_bytes: at(4)?,
        queue_ms: at(5)?,
        rtt_ms: at(6)?,
        execute_ms: at(7)?,
        errors: at(8),
    })
}

/// What the counts of a kind have grown by; other fields follow it.
macro_rules! since {
    ($now:expr, $then:expr, $kind:ident { $($count:ident),* $(,)? } $($rest:tt)*) => {
        $kind { $($count: $now.$count.checked_sub($then.$count)?,)* $($rest)* }
    };
}

impl Bytes {
    /// What came after `before`; `None` where the mount is another one than then.
    pub fn since(self, before: Bytes) -> Option<Bytes> {
        Some(since!(self, before, Bytes { server_read }))
    }
}

impl Operation {
    /// What came after `before`; `None` where the mount is another one than then.
    pub fn since(self, before: Operation) -> Option<Operation> {
        let errors = match (self.errors, before.errors) {
            (Some(now), Some(then)) => Some(now.checked_sub(then)?),
            _ => None,
        };
        Some(since!(self, before, Operation {
            count, transmissions, timeouts, sent_bytes, received_bytes, queue_ms, rtt_ms, execute_ms,
        } errors))
    }

    /// Requests that were sent again.
    pub fn retransmissions(&self) -> u64 {
        self.transmissions.saturating_sub(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Operation, all, at_target};

    const V4: &str = include_str!("testdata/mountstats-v4");
    const V3: &str = include_str!("testdata/mountstats-v3");

    #[test]
    fn mounts_of_both_versions_tell_their_operations() {
        let of_version = |text: &str, place: &str, version: &str| {
            let mount = at_target(text, place).expect("is mounted");
            assert!(mount.options.contains(version), "{}", mount.options);
            let read = mount.operations["READ"];
            assert!(read.count > 0 && read.received_bytes > 4096, "{read:?}");
            (mount, read)
        };
        let (mount, read) = of_version(V4, "/mnt/4", "vers=4.2");
        assert_eq!(mount.fs, "nfs4");
        assert!(read.transmissions >= read.count && read.rtt_ms <= read.execute_ms, "{read:?}");
        assert_eq!(read.errors, Some(0));
        // What READ brought is what the byte counters say came from the server, and heads.
        let bytes = mount.bytes.expect("counts bytes");
        assert!(read.received_bytes > bytes.server_read, "{read:?} {bytes:?}");
        assert!(read.received_bytes < bytes.server_read + read.count * 400, "{read:?} {bytes:?}");
        let (mount, _) = of_version(V3, "/mnt/3", "vers=3");
        assert_eq!(mount.fs, "nfs");
        assert!(mount.operations.contains_key("READDIRPLUS"));
        // The mount protocol's own operations have no counters of the same names.
        assert!(!mount.operations.contains_key("xprt"));
    }

    #[test]
    fn only_the_mount_asked_for_is_found_and_the_last_of_one_place() {
        assert_eq!(at_target(V4, "/"), None);
        assert_eq!(at_target("", "/mnt/4"), None);
        let twice = "device a:/x mounted on /m with fstype nfs4 statvers=1.1\n\topts:\trw,one\n\
            device b mounted on /m with fstype ext4\n\tbytes:\t1 2 3 4 5 6 7 8\n\
            device a:/y mounted on /m with fstype nfs4 statvers=1.1\n\topts:\trw,two\n\
            device a:/z mounted on /with\\040space with fstype nfs statvers=1.0\n\
            \t        READ: 1 2 0 100 200 3 4 5\n";
        assert_eq!(at_target(twice, "/m").expect("is there").options, "rw,two");
        let mounts = all(twice);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].bytes, None, "these were another mount's");
        // Older statistics have no errors.
        let read = at_target(twice, "/with space").expect("is there").operations["READ"];
        assert_eq!((read.errors, read.retransmissions()), (None, 1));
        assert_eq!(read.execute_ms, 5);
    }

    #[test]
    fn differences_are_those_of_one_mount() {
        let operation = |count, transmissions, rtt_ms, execute_ms, errors| Operation {
            count,
            transmissions,
            rtt_ms,
            execute_ms,
            errors: Some(errors),
            ..Operation::default()
        };
        let (then, now) = (operation(10, 11, 5, 9, 0), operation(110, 113, 45, 59, 1));
        let between = now.since(then).expect("later");
        assert_eq!((between.count, between.retransmissions()), (100, 2));
        assert_eq!((between.rtt_ms, between.execute_ms, between.errors), (40, 50, Some(1)));
        // Mounted anew in between: its counters began again.
        assert_eq!(then.since(now), None);
        let bytes = Bytes { server_read: 7 };
        assert_eq!(Bytes::default().since(bytes), None);
    }
}
