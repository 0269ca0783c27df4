//! Files below a mounted directory, read through the kernel, and on which mount an open file lies.
//!
//! What was named may be a link to elsewhere, and a server's parts may be mounted where they are
//! first looked into: the kernel's number of the mount says, the path does not.

use super::Look;
use super::target::server_of;
use crate::fs::file::{self, Made, Mode};
use crate::fs::job::{Below, Job};
use crate::fs::offered::text_at;
use crate::fs::prelude::*;
use host::block::{is_mounted, mount_with_id};
use laws::fs::read::Read;
use metal::storage::file_system;
use std::fs::read_to_string;
use std::os::fd::AsRawFd;

fn name(bytes: u64) -> String {
    format!("remote-{bytes}")
}

pub(super) fn prepare(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let first = series.cases.first().context("the series has no case")?;
    let opened = File::open(dir).context("opening the directory")?;
    place_of(&opened, first).with_context(|| dir.display().to_string())?;
    let sizes: BTreeSet<u64> = series.cases.iter().filter_map(|case| case.int("size")).gather();
    let files = sizes.into_iter().map(|bytes| Made { name: name(bytes), bytes }).collect();
    file::make(dir, files, "--set fs.remote.size=SIZE")
}

pub(super) fn time(case: &Case, look: Look, bench: &mut Bench) -> Result<()> {
    let dir = bench.order().directory()?;
    demand_mount(case)?;
    let Look { pattern, mode, size } = look;
    let path = dir.join(name(size));
    let opened = file::open(&path, Mode::Cached)?;
    ensure!(opened.bytes == size, "the size of the prepared file changed");
    let place = place_of(&opened.file, case).with_context(|| dir.display().to_string())?;
    let facts = file_system(&opened.file).context("statfs")?;
    // The job opens it anew: what the client keeps of attributes is asked for again
    // (close-to-open), and nothing that it learnt of earlier reads counts.
    drop(opened);
    let read = Read { pattern, mode, size };
    let below = Below::Server(&place.target);
    let job = Job::passes(bench, &case.id, &read, path, bench.order().case_ns, below);
    let mut done = job.alone()?;
    let (asked, counted) = (done.bytes(), done.seen.server.take());
    if let Some(counted) = &counted {
        counted.record(bench, case)?;
    }
    done.record(bench, case, &job, "latency", |samples| {
        samples.set_quantities([
            ("statfs_magic", facts.magic as f64),
            ("statfs_block_bytes", facts.block_bytes as f64),
        ]);
        let is_cached = mode == Mode::Cached;
        if let Some(counted) = &counted {
            counted.describe(samples, asked, is_cached);
        }
        samples.notes.extend(place.note.clone());
        samples.notes.extend(origin(size, is_cached, counted.is_some()));
    })
}

/// From where the blocks of a file of so many bytes may have come.
fn origin(bytes: u64, is_cached: bool, is_counted: bool) -> Vec<String> {
    if is_cached {
        return vec!["read from the local page cache, which was filled first".to_owned()];
    }
    let given = render(bytes as f64, Unit::B);
    let by_server =
        format!("this run wrote these {given} to the server, which may answer from memory");
    let uncounted =
        "this file system does not count its requests, so a cache of its client may answer";
    let uncounted = (!is_counted).then(|| uncounted.to_owned());
    [by_server].into_iter().chain(uncounted).collect()
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
fn place_of(file: &File, case: &Case) -> Result<Place> {
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

#[cfg(test)]
mod tests {
    use super::{Place, decide, mount_id, place_of};
    use bench::prelude::*;

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
}
