use crate::Root;
use crate::block::read;

/// A stack on two NVMe disks, two SATA disks that btrfs joins, an array controller's disk, a cached
/// disk, a multipath one and a card.
const TREE: &str = "== sys/block/nvme{0-1}n1/size\n1000\n== sys/block/nvme{0-1}n1/queue/rotational\n0\n\
    =* sys/block/nvme{0-1}n1/dev\n259:0\n259:4\n\
    =* sys/block/nvme0n1/nvme0n1p{1-3}/dev\n259:1\n259:2\n259:3\n\
    == sys/block/nvme1n1/nvme1n1p3/dev\n259:7\n\
    == sys/block/md127/size\n900\n== sys/block/md127/dev\n9:127\n== sys/block/md127/md/level\nraid1\n\
    == sys/block/md127/slaves/nvme0n1p3/dev\n259:3\n== sys/block/md127/slaves/nvme1n1p3/dev\n259:7\n\
    == sys/block/dm-{0-1,10}/size\n800\n=* sys/block/dm-{0-1,10}/dev\n253:0\n253:1\n253:10\n\
    =* sys/block/dm-{0-1,10}/dm/name\nvg--a-root\nluks-1f2e\nswap\n\
    == sys/block/dm-0/slaves/md127 -> ../../md127\n== sys/block/dm-1/slaves/dm-0 -> ../../dm-0\n\
    == sys/block/sda/size\n10\n== sys/block/sda/dev\n8:0\n== sys/block/sda/queue/rotational\n1\n\
    == sys/block/sda/sda1/dev\n8:1\n== sys/block/sdb/size\n10\n== sys/block/sdb/dev\n8:16\n\
    == sys/block/sdb/queue/rotational\n1\n== sys/fs/btrfs/features/raid1c34\n0\n\
    == sys/fs/btrfs/aa-bb/devices/sda1 -> ../../x\n== sys/fs/btrfs/aa-bb/devices/sdb -> ../../x\n\
    == sys/fs/btrfs/cc-dd/devices/dm-1 -> ../../x\n\
    == sys/block/cciss!c0d0/size\n9\n== sys/block/cciss!c0d0/cciss!c0d0p2/dev\n104:2\n\
    == sys/block/bcache0/size\n9\n== sys/block/bcache0/dev\n252:0\n\
    == sys/block/bcache0/slaves/sdb -> ../x\n== sys/block/bcache0/slaves/nvme0n1p2 -> ../x\n\
    == sys/block/nvme4n1/size\n9\n== sys/block/nvme4n1/dev\n259:9\n== sys/block/nvme4c{0-1}n1/size\n9\n\
    == proc/diskstats\n 259 9 nvme4n1 0 0 0 0 0 0 0 0 0 0 0\n0 0 nvme4c0n1 5 0 8 1 5 0 8 1 0 2 3\n\
    == sys/block/mmcblk0/size\n9\n== sys/block/mmcblk0/mmcblk0p2/dev\n179:2\n\
    == dev/disk/by-uuid/12-34 -> ../../sda1\n\
    == proc/cmdline\nquiet root=UUID=cc-dd ro\n";

/// What is below a mount of `source` with these options, on a machine with further mounts.
fn path(number: &str, fs: &str, source: &str, options: &str) -> (String, Option<String>) {
    let mounts = format!(
        "20 1 0:30 /@ / rw - btrfs /dev/mapper/luks-1f2e rw\n21 20 0:31 / /tmp rw - tmpfs tmpfs rw\n\
         22 20 {number} /part /mnt rw - {fs} {source} {options}\n"
    );
    let block = read(&Root::tree(TREE).with("proc/self/mountinfo", &mounts));
    let mount = block.mount_of("/mnt/x").expect("it is mounted");
    (block.path_of(mount).unwrap_or_else(|why| why), block.numbers_of(mount))
}

#[test]
fn every_name_leads_to_the_disks_and_to_what_counts() {
    const STACK: &str =
        "nvme0n1 and nvme1n1 through dm-1 (luks-1f2e), dm-0 (vg--a-root), md127 (raid1)";
    let mirror = "nvme0n1 and nvme1n1 through dm-0 (vg--a-root), md127 (raid1)";
    for (number, fs, source, disks, counting) in [
        ("253:1", "ext4", "/dev/mapper/luks-1f2e", STACK, "259:3 259:7"),
        ("0:40", "btrfs", "/dev/mapper/luks-1f2e", STACK, "259:3 259:7"),
        // By the kernel's command line, and there by the file system's own list.
        ("0:40", "btrfs", "/dev/root", STACK, "259:3 259:7"),
        ("0:40", "bcachefs", "/dev/vg-a/root", mirror, "259:3 259:7"),
        ("0:40", "bcachefs", "/dev/sda1:/dev/nvme1n1", "nvme1n1 and sda", "8:1 259:4"),
        ("259:2", "ext4", "/dev/root", "nvme0n1", "259:2"),
        ("0:41", "btrfs", "/dev/sdb", "sda and sdb", "8:1 8:16"),
        ("0:41", "btrfs", "/dev/disk/by-uuid/12-34", "sda and sdb", "8:1 8:16"),
        ("0:42", "x", "/dev/disk/by-uuid/12-34", "sda", "8:1"),
        ("0:42", "x", "/dev/cciss/c0d0p2", "cciss!c0d0", "104:2"),
        ("179:2", "ext4", "/dev/mmcblk0p2", "mmcblk0", "179:2"),
        ("252:0", "xfs", "/dev/bcache0", "nvme0n1 and sdb through bcache0", "259:2 8:16"),
        ("259:9", "xfs", "/dev/nvme4n1", "nvme4n1", "nvme4c0n1 nvme4c1n1"),
        ("253:10", "ext4", "/dev/mapper/swap", "dm-10", "253:10"),
    ] {
        let found = path(number, fs, source, "rw");
        assert_eq!(found, (disks.to_owned(), Some(counting.to_owned())), "{source}");
    }
    let options = "rw,lowerdir=/l,upperdir=/var/lib/docker/u,workdir=/w";
    assert_eq!(path("0:50", "overlay", "overlay", options).0, STACK);
}

#[test]
fn what_names_no_disk_gives_the_reason() {
    for (number, fs, source, part) in [
        ("8:33", "ext4", "/dev/sdc1", "ext4 on /dev/sdc1 (8:33), which /sys/block does not list"),
        ("0:40", "zfs", "rpool/data", "zfs, whose pool rpool/data does not name its disks"),
        ("0:40", "nfs4", "host:/dev/sda1", "nfs4, which names no block device"),
    ] {
        assert_eq!(path(number, fs, source, "rw"), (part.to_owned(), None));
    }
    let container = "1 0 0:60 / / rw - overlay overlay rw,upperdir=/var/lib/u\n";
    let block = read(&Root::tree(TREE).with("proc/self/mountinfo", container));
    let why = "overlay, whose directory /var/lib/u is not in this mount namespace".to_owned();
    assert_eq!(block.path_of(&block.mounts[0]), Err(why));
    let over_memory = "1 0 0:60 / / rw - ext4 /dev/sda1 rw\n2 1 0:61 / /m rw - tmpfs t rw\n\
                       3 1 0:62 / /o rw - overlay o rw,upperdir=/m/u\n";
    let block = read(&Root::tree(TREE).with("proc/self/mountinfo", over_memory));
    assert_eq!(block.mounts[2].below.upper.as_deref(), Some("tmpfs"));
}

#[test]
fn disks_of_several_kinds_are_one_of_the_device_that_joins_them() {
    let mounts = "1 0 252:0 / / rw - xfs /dev/bcache0 rw\n2 1 253:1 / /l rw - ext4 /dev/dm-1 rw\n";
    let block = read(&Root::tree(TREE).with("proc/self/mountinfo", mounts));
    let class = |at: usize| block.disk_of(&block.mounts[at]).map(|disk| disk.name.as_str());
    assert_eq!((class(0), class(1)), (Some("bcache0"), Some("nvme0n1")));
    assert!(block.disks.iter().all(|disk| !disk.name.contains("c0n1")), "a path is no disk");
}
