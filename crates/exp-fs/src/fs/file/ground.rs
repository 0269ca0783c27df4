//! What lies below a directory: a device, or something that keeps data of its own.

use crate::fs::offered::text_at;
use crate::fs::prelude::*;
use bench::device::{counts_itself, disk_of, is_virtual, mount_of};
use host::block::{Disk, Mount};

/// The fact of a file system that has no journal though its kind has one.
pub(in crate::fs) const JOURNAL_AT: &str = "journal";

symbols! {
    pub(in crate::fs) enum Kind {
        /// A block device that counts what it does.
        Device = "device",
        /// Another file system's files, or a disk made of a file: a cache of its own is below.
        Stacked = "stacked",
        Memory = "memory",
        /// A program answers (FUSE), from wherever.
        Fuse = "fuse",
        /// Another machine answers, or the machine that this one is a guest of.
        Network = "network",
        /// The mount table does not say.
        Unknown = "unknown",
    }
}

pub(in crate::fs) struct Ground<'site> {
    pub(in crate::fs) kind: Kind,
    /// The disk, for devices and what poses as one; of several one that stands for them.
    pub(in crate::fs) disk: Option<&'site Disk>,
    /// What counts for all disks below (`bench::device::Below::number`).
    pub(in crate::fs) number: Option<String>,
    /// The disks and what is in between, or why no disk is known; nothing to add to one disk.
    path: Option<String>,
    pub(in crate::fs) mount: Option<&'site Mount>,
    /// A sentence for notes and predictions.
    pub(in crate::fs) because: String,
}

/// What lies below `dir`, an absolute path.
pub(in crate::fs) fn ground<'site>(site: &'site Site, dir: &Path) -> Ground<'site> {
    let shown = dir.display();
    let Some(mount) = mount_of(site, dir) else {
        return Ground {
            kind: Kind::Unknown,
            disk: None,
            number: None,
            path: None,
            mount: None,
            because: format!("the mount table does not show which file system {shown} is on"),
        };
    };
    let (disk, number) = disk_of(site, mount).unzip();
    let name = disk.map(|disk| disk.name.as_str());
    let path = site.host.block.path_of(mount).unwrap_or_else(|why| why);
    let path = Some(path).filter(|path| Some(path.as_str()) != name);
    // All overlays look alike in the mount table; the site tried whether a file stays in memory.
    let known = site.dir.as_ref().filter(|known| known.path == dir);
    let upper = mount.below.upper.as_deref();
    let systems = known.map(|known| known.file_system.as_str()).into_iter().chain(upper);
    let kind = match systems.into_iter().any(is_memory) {
        true => Kind::Memory,
        false => kind_of(mount, disk),
    };
    let is_virtual = disk.is_some_and(|disk| is_virtual(disk, site));
    let path = path.filter(|_| disk.is_some() || matches!(kind, Kind::Unknown | Kind::Stacked));
    let device = path.as_deref().or(name);
    let because = sentence(kind, &mount.fs, device, is_virtual);
    Ground { kind, disk, number, path, mount: Some(mount), because }
}

/// What lies below the directory for files; none without one.
pub(in crate::fs) fn below(site: &Site) -> Option<Ground<'_>> {
    site.dir.as_ref().map(|dir| ground(site, &dir.path))
}

/// Why direct and cold cases are absent: the directory for files is in memory.
pub(in crate::fs) fn only_memory(site: &Site) -> Option<Skip> {
    // A disk of memory (zram) takes direct reads, and its pages can be evicted.
    let ground = below(site).filter(|at| at.kind == Kind::Memory && at.disk.is_none())?;
    let on = &ground.because;
    let why = format!("files are on {on}: O_DIRECT is faked there, and pages cannot be evicted");
    Some(Skip::because(why).needs("--dir DIR on a file system of a block device"))
}

/// Puts what is known of the place among the facts of all cases.
pub(in crate::fs) fn ground_facts(site: &Site, mut series: Series) -> Series {
    if let Some(ground) = below(site) {
        series.cases.iter_mut().for_each(|case| ground.put(site, &mut case.at));
    }
    series
}

/// What a kind of ground is called, with the names that are known.
fn sentence(kind: Kind, fs: &str, disk: Option<&str>, is_virtual: bool) -> String {
    match (kind, disk) {
        (Kind::Device, Some(name)) if is_virtual => {
            format!("{fs} on {name}, a virtual disk that the host may cache invisibly")
        }
        (Kind::Device, Some(name)) => format!("{fs} on {name}"),
        // A reason why no disk is known begins with the file system.
        (Kind::Unknown | Kind::Stacked, Some(why)) if why.starts_with(fs) => why.to_owned(),
        (Kind::Stacked, Some(name)) => {
            format!("{fs} on {name}, which keeps its data in a file with a separate cache")
        }
        (Kind::Stacked, None) => format!("{fs}, stacked on another file system"),
        (Kind::Memory, Some(name)) => format!("{fs} on {name}, which keeps its data in memory"),
        (Kind::Memory, None) => format!("{fs}, which keeps its files in memory"),
        (Kind::Fuse, _) => {
            format!("{fs}: a program answers (FUSE), perhaps from a cache")
        }
        (Kind::Network, _) => {
            format!("{fs}: a remote server answers, from its memory or its disks")
        }
        (Kind::Unknown | Kind::Device, _) => format!("{fs} on an unknown device"),
    }
}

/// What a reader of a case's figures must know, from the facts that [`Ground::put`] left with it:
/// where it is no device that answers for itself.
pub(in crate::fs) fn ground_note(case: &Case) -> Option<String> {
    let text = |name| text_at(case, name);
    let kind = <Kind as Field>::from_value(case.at.get("ground"))?;
    let is_virtual = text("device_kind").is_some();
    let is_plain = kind == Kind::Device && !is_virtual;
    let fs = text("file_system").unwrap_or("an unknown file system");
    let device = text("device_path").or(text("device"));
    (!is_plain).then(|| format!("the files are on {}", sentence(kind, fs, device, is_virtual)))
}

fn is_memory(fs: &str) -> bool {
    ["tmpfs", "ramfs"].contains(&fs)
}

fn kind_of(mount: &Mount, disk: Option<&Disk>) -> Kind {
    const NETWORK: &str = "nfs nfs4 cifs smb3 smbfs 9p ceph virtiofs vboxsf afs lustre gfs2 \
                           fuse.sshfs fuse.glusterfs";
    let fs = mount.fs.as_str();
    match disk {
        _ if NETWORK.split(' ').any(|name| name == fs) => Kind::Network,
        _ if is_memory(fs) => Kind::Memory,
        _ if fs.starts_with("fuse") => Kind::Fuse,
        // What an overlay reads and writes is the upper file system's own, if that is known.
        _ if ["aufs", "ecryptfs", "unionfs"].contains(&fs) => Kind::Stacked,
        None if fs == "overlay" => Kind::Stacked,
        Some(disk) if counts_itself(disk) => Kind::Device,
        Some(disk) if disk.name.starts_with("loop") => Kind::Stacked,
        Some(_) => Kind::Memory,
        None => Kind::Unknown,
    }
}

impl Ground<'_> {
    /// Puts what is known among the facts of a case: `ground`, `file_system`, `mount_options`,
    /// `journal` (`none` of an ext4 without one), and of a disk `device`, `device_path`, `device_number`, `device_kind`, `readahead_bytes` and
    /// `scheduler`.
    pub(in crate::fs) fn put(&self, site: &Site, at: &mut BTreeMap<String, Value>) {
        at.put("ground", self.kind.text());
        at.put_known("file_system", self.mount.map(|mount| mount.fs.as_str()));
        at.put_known("mount_options", self.mount.map(|mount| mount.options.as_str()));
        let is_unjournaled = self.mount.is_some_and(|mount| mount.below.is_unjournaled);
        at.put_known(JOURNAL_AT, is_unjournaled.then_some("none"));
        at.put_known("device_number", self.number.as_deref());
        at.put_known("device_path", self.path.as_deref());
        if let Some(disk) = self.disk {
            at.put("device", disk.name.as_str());
            at.put_known("device_kind", is_virtual(disk, site).then_some("virtual"));
            at.put_known("readahead_bytes", disk.read_ahead_bytes);
            at.put_known("scheduler", disk.scheduler.as_deref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JOURNAL_AT, Kind, below, ground, ground_note, only_memory};
    use crate::fs::prelude::*;
    use bench::experiment::fixtures::{bare_site, with_dir};
    use host::{Host, Root};

    const TREE: &str = "== sys/block/sdb/size\n100\n== sys/block/sdb/dev\n8:16\n\
        == sys/block/sdb/device/model\nX\n== sys/block/sdb/queue/read_ahead_kb\n128\n\
        == sys/block/sdc/size\n100\n== sys/block/sdc/dev\n8:32\n== sys/block/sdc/device/model\nX\n\
        == sys/block/dm-0/size\n9\n== sys/block/dm-0/dm/name\nluks-x\n\
        == sys/block/dm-0/slaves/sdc/dev\n8:32\n== sys/fs/btrfs/u/devices/dm-0\n\n\
        == sys/fs/btrfs/u/devices/sdb\n\n== sys/dev/block/8:16 -> ../../block/sdb\n\
        == sys/block/loop0/size\n10\n== sys/block/loop0/dev\n7:0\n\
        == sys/block/zram0/size\n10\n== sys/block/zram0/dev\n252:0\n";
    const MOUNTS: &str = "22 1 0:40 / / rw - overlay overlay rw,upperdir=/u\n\
        24 22 8:16 / /disk rw,noatime - ext4 /dev/sdb rw\n\
        25 22 0:42 / /tmp rw - tmpfs tmpfs rw\n\
        26 22 7:0 / /image rw - ext4 /dev/loop0 rw\n\
        27 22 252:0 / /zram rw - xfs /dev/zram0 rw\n\
        28 22 0:50 / /far rw - nfs4 host:/x rw\n\
        29 22 0:51 / /fuse rw - fuse.sshfs host: rw\n\
        30 22 0:52 / /own rw - fuse.own own rw\n\
        31 22 0:53 / /pool rw - zfs pool/x rw\n\
        32 22 0:54 / /several rw - btrfs /dev/sdb rw\n\
        33 22 0:55 / /memory rw - overlay overlay rw,upperdir=/tmp/u\n";

    #[test]
    fn every_ground_is_told_apart() {
        let root = Root::tree(TREE).with("proc/self/mountinfo", MOUNTS);
        let root = root.with("sys/fs/ext4/sdb/journal_task", "<none>\n");
        let site = Site { host: Host::read(&root), ..bare_site() };
        for (dir, kind, word) in [
            ("/disk/x", Kind::Device, "sdb"),
            ("/root", Kind::Stacked, "overlay"),
            ("/tmp", Kind::Memory, "tmpfs"),
            ("/image", Kind::Stacked, "loop0"),
            ("/zram", Kind::Memory, "memory"),
            ("/far/x", Kind::Network, "nfs4"),
            ("/fuse", Kind::Network, "sshfs"),
            ("/own", Kind::Fuse, "program"),
            ("/pool", Kind::Unknown, "zfs"),
            ("/memory", Kind::Memory, "overlay"),
        ] {
            let found = ground(&site, Path::new(dir));
            assert_eq!(found.kind, kind, "{dir}");
            assert!(found.because.contains(word), "{}", found.because);
            let mut case = Case::new(CaseId::new());
            found.put(&site, &mut case.at);
            let note = ground_note(&case);
            assert_eq!(note.is_none(), kind == Kind::Device);
            assert!(note.is_none_or(|note| note.ends_with(&found.because)));
        }
        let mut at = BTreeMap::new();
        ground(&site, Path::new("/disk")).put(&site, &mut at);
        assert_eq!(at["device_number"].text(), Some("8:16"));
        assert_eq!(at[JOURNAL_AT].text(), Some("none"));
        assert_eq!(at["readahead_bytes"].int(), Some(131_072));
        assert_eq!(at["mount_options"].text(), Some("rw,noatime"));
        let several = ground(&site, Path::new("/several"));
        assert!(several.because.ends_with("sdb and sdc through dm-0 (luks-x)"));
        several.put(&site, &mut at);
        assert_eq!(at["device_number"].text(), Some("8:32 8:16"));
        assert_eq!((at["device"].text(), several.kind), (Some("sdb"), Kind::Device));
        let container = ground(&site, Path::new("/root"));
        assert!(container.disk.is_none() && container.because.contains("/u"));
    }

    #[test]
    fn an_overlay_is_memory_where_its_files_stay_there() {
        let root = Root::tree(TREE).with("proc/self/mountinfo", MOUNTS);
        let site = Site { host: Host::read(&root), ..bare_site() };
        let of = |file_system: &str| {
            let mut site = with_dir(site.clone(), "/root", 1 << 30);
            site.dir.iter_mut().for_each(|dir| dir.file_system = file_system.to_owned());
            (below(&site).expect("a directory").kind, only_memory(&site).is_some())
        };
        assert_eq!(of("overlay"), (Kind::Stacked, false));
        assert_eq!(of("tmpfs"), (Kind::Memory, true));
    }

    #[test]
    fn without_mounts_nothing_is_known() {
        let site = bare_site();
        let found = ground(&site, Path::new("/x"));
        assert_eq!(found.kind, Kind::Unknown);
        assert!(found.disk.is_none());
        let mut case = Case::new(CaseId::new());
        assert_eq!(ground_note(&case), None, "nobody put anything there");
        found.put(&site, &mut case.at);
        assert!(ground_note(&case).is_some());
    }
}
