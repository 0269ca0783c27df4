//! Reads of files below a mounted directory, through the kernel; on which mount an open file lies;
//! and what the kernel's NFS client counted of a case's reads: how long they were on the wire and
//! at the server, how long the client itself took, and what really came from the server.
//!
//! What was named may be a link to elsewhere, and a server's parts may be mounted where they are
//! first looked into: the kernel's number of the mount says, the path does not.

mod timed;

use super::passes::drive;
use super::target::server_of;
use super::{Look, SHARE_UNTOLD};
use crate::fs::file::{Mode, Opened, open, right, write};
use crate::fs::offered::text_at;
use crate::fs::prelude::*;
use host::block::{is_mounted, mount_with_id};
use host::mountstats::{Bytes, MountStats, Operation, at_target};
use metal::storage::file_system;
use record::note::Note;
use std::fs::read_to_string;
use std::os::fd::AsRawFd;

/// Every file's data is of this seed and its size.
const SEED: u64 = 0x7265_6d6f_7465;

fn name(bytes: u64) -> String {
    format!("remote-{bytes}")
}

pub(super) fn prepare(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let first = series.cases.first().context("the series has no case")?;
    let opened = std::fs::File::open(dir).context("opening the directory")?;
    place_of(&opened, first).with_context(|| dir.display().to_string())?;
    let sizes: BTreeSet<u64> = series.cases.iter().filter_map(|case| case.int("size")).gather();
    let made = |bytes| write(dir, &name(bytes), bytes, SEED ^ bytes, "--set fs.remote.size=SIZE");
    sizes.into_iter().map(made).collect()
}

/// A file in one of the ways to read it.
pub(super) struct File {
    opened: Opened,
    mode: Mode,
    seed: u64,
    is_warm: bool,
}

impl File {
    /// Sees to what has to hold before a pass: no page in a cache of this machine, or all pages.
    pub(super) fn begin_pass(&mut self) -> Result<()> {
        match self.mode {
            Mode::Cached if self.is_warm => Ok(()),
            Mode::Cached => {
                self.is_warm = true;
                self.opened.warm(0, 0)
            }
            _ => self.opened.make_cold(0, 0),
        }
    }

    /// Demands that a block holds what was written there.
    pub(super) fn check(&self, block: &[u8], offset: u64) -> Result<()> {
        ensure!(
            right(block, self.seed, offset),
            "the data read at {offset} differs from what was written there"
        );
        Ok(())
    }
}

pub(super) fn time(case: &Case, look: Look, bench: &mut Bench) -> Result<()> {
    let dir = bench.order().directory()?;
    demand_mount(case)?;
    let bytes = case.int("size").context("the case has no size")?;
    let mode = look.mode;
    // Opened anew: what the client keeps of attributes is asked for again (close-to-open), and
    // nothing that it learnt of earlier reads counts.
    let opened = open(&dir.join(name(bytes)), mode)?;
    ensure!(opened.bytes == bytes, "the size of the prepared file changed");
    let place = place_of(&opened.file, case).with_context(|| dir.display().to_string())?;
    let facts = file_system(&opened.file).context("statfs")?;
    let mut notes: Vec<String> = opened.notes.iter().cloned().chain(place.note).collect();
    let mut file = File { opened, mode, seed: SEED ^ bytes, is_warm: false };
    file.begin_pass()?;
    let before = counters(&place.target);
    let passes = drive(bench, look.pattern, bytes, &mut file)?;
    let counted = before.and_then(|before| since(&before, &counters(&place.target)?));
    let asked = passes.bytes();
    if mode == Mode::Cached {
        notes.push("read from the local page cache, which was filled first".to_owned());
    } else {
        let given = render(bytes as f64, Unit::B);
        notes.push(format!(
            "this run wrote these {given} to the server, which may answer from memory"
        ));
        let uncounted =
            "this file system does not count its requests, so a cache of its client may answer";
        notes.extend(counted.is_none().then(|| uncounted.to_owned()));
    }
    if let Some(counted) = &counted {
        counted.record(bench, case)?;
    }
    let samples = passes.record(bench, case)?;
    samples.set_quantities([
        ("statfs_magic", facts.magic as f64),
        ("statfs_block_bytes", facts.block_bytes as f64),
    ]);
    if let Some(counted) = &counted {
        counted.describe(samples, asked, mode == Mode::Cached);
    }
    samples.notes.extend(notes);
    Ok(())
}

/// Demands that what was mounted in planning still is. Where a program behind FUSE has ended, the
/// place is a directory of this machine again.
fn demand_mount(case: &Case) -> Result<()> {
    let Some(target) = text_at(case, "mount_point") else {
        return Ok(());
    };
    let mounts = read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    ensure!(
        is_mounted(&mounts, target),
        "nothing is mounted on {target} any more: the server or the FUSE program is gone"
    );
    Ok(())
}

#[derive(Debug)]
struct Place {
    /// Where what has it is mounted: under this name the kernel counts.
    target: String,
    /// What a reader of the figures must know, where that is not what was planned.
    note: Option<String>,
}

/// Where a file or directory lies, which must be at the server that a case was planned for.
fn place_of(file: &std::fs::File, case: &Case) -> Result<Place> {
    let facts = read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
    let facts = facts.context("reading the mount ID")?;
    let id = mount_id(&facts).context("the kernel does not report mount IDs in fdinfo")?;
    let mounts = read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    decide(&mounts, id, case)
}

/// The number of the mount, of a descriptor's facts.
fn mount_id(fdinfo: &str) -> Option<u64> {
    host::text::number(fdinfo, "mnt_id:")
}

fn decide(mountinfo: &str, id: u64, case: &Case) -> Result<Place> {
    let fact = |name| text_at(case, name).unwrap_or_default();
    let (planned, fs, server) = (fact("mount_point"), fact("file_system"), fact("server"));
    let mount = mount_with_id(mountinfo, id).context("the mount table does not list its mount")?;
    let now = server_of(&mount);
    let is_at_server = now.as_deref() == Some(server);
    // An unidentified server counts as the planned one if the mount point is the same.
    let is_as_planned = mount.target == planned && (is_at_server || now.is_none());
    let is_nfs = |fs: &str| fs.starts_with("nfs");
    let is_alike = mount.fs == fs || is_nfs(&mount.fs) && is_nfs(fs);
    ensure!(
        is_alike && (is_as_planned || is_at_server),
        "the path is on {} ({}) mounted on {}, not on the file system mounted on {planned} ({fs}); \
         use the path that it leads to",
        mount.source,
        mount.fs,
        mount.target
    );
    let note = (mount.target != planned).then(|| {
        format!(
            "the files are on {} mounted on {} ({}), a separate mount of the same server",
            mount.source, mount.target, mount.options
        )
    });
    Ok(Place { target: mount.target, note })
}

const READ: &str = "READ";
/// Times are whole milliseconds of all reads together: below so many a mean of them says nothing.
const RESOLVED_MS: u64 = 10;
const NS_PER_MS: f64 = 1e6;

struct Since {
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
fn counters(target: &str) -> Option<MountStats> {
    at_target(&read_to_string("/proc/self/mountstats").ok()?, target)
}

/// What was counted between; `None` where it was mounted anew meanwhile.
fn since(before: &MountStats, now: &MountStats) -> Option<Since> {
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
    fn describe(&self, samples: &mut Samples, asked: u64, is_cached: bool) {
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
    fn record(&self, bench: &mut Bench, case: &Case) -> Result<()> {
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
    use super::{Place, decide, mount_id, place_of, since};
    use bench::prelude::*;
    use host::mountstats::at_target;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        31 22 0:50 / /far rw - nfs4 files:/exp rw,vers=4.2,addr=10.0.0.2\n\
        32 31 0:51 / /far/sub\\040part rw - nfs4 files:/exp/sub rw,vers=4.2,addr=10.0.0.2\n\
        33 22 0:52 / /other rw - nfs4 others:/exp rw,vers=4.2,addr=10.0.0.3\n\
        34 22 0:53 / /ssh rw - fuse.sshfs me@10.0.0.2:/home rw,user_id=0\n\
        35 31 0:54 / /far rw - nfs4 others:/exp rw,vers=4.2,addr=10.0.0.3\n\
        36 22 0:55 / /pool rw - ceph tag rw\n";

    fn planned(facts: &[(&str, &str)]) -> Case {
        let at = facts.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Case { id: CaseId::new(), at: at.collect() }
    }

    fn far(id: u64) -> Result<Place> {
        let case =
            planned(&[("mount_point", "/far"), ("file_system", "nfs4"), ("server", "10.0.0.2")]);
        decide(MOUNTS, id, &case)
    }

    #[test]
    fn files_lie_where_the_mount_s_number_says() {
        let there = far(31).expect("as planned");
        assert_eq!((there.target.as_str(), there.note), ("/far", None));
        // A part of the same server that was mounted when it was first looked into: it counts for
        // itself.
        let part = far(32).expect("the same server");
        assert_eq!(part.target, "/far/sub part");
        assert!(part.note.expect("is told").contains("files:/exp/sub"));
        // A link that leads to this machine's disk, to another server, or to another way to the
        // same one; another server mounted over it since.
        for (id, word) in [
            (22, "/dev/sda1 (ext4) mounted on /,"),
            (33, "others:/exp"),
            (34, "fuse.sshfs"),
            (35, "others:/exp (nfs4) mounted on /far,"),
            (99, "does not list its mount"),
        ] {
            let reason = far(id).expect_err("elsewhere").to_string();
            assert!(reason.contains(word), "{id}: {reason}");
        }
        // A file system that names no server.
        let pool = planned(&[("mount_point", "/pool"), ("file_system", "ceph")]);
        assert!(decide(MOUNTS, 36, &pool).is_ok());
        let link = decide(MOUNTS, 22, &pool).expect_err("this machine's disk");
        assert!(link.to_string().contains("ext4"), "{link}");
    }

    #[test]
    fn a_file_of_this_machine_has_a_mount_that_is_none_of_the_plan() {
        let text = "pos:\t0\nflags:\t02100000\nmnt_id:\t1234\nino:\t5\n";
        assert_eq!(mount_id(text), Some(1234));
        assert_eq!(mount_id("pos:\t0\n"), None);
        let file = tempfile::tempfile().expect("a file");
        let case = planned(&[("mount_point", "/far"), ("file_system", "nfs4")]);
        assert!(place_of(&file, &case).is_err());
    }

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
