//! Direct reads of a file system that reads into pages which nobody touched through its cache.

use crate::disk::Disk;
use crate::plumb::prelude::*;
use crate::runs::are_measured;

#[test]
fn direct_reads_of_btrfs_are_no_fakes() {
    let Some(disk) = Disk::new("btrfs", 256 << 20) else { return };
    let here = Here::new();
    let events = here.measure(&format!(
        "fs.read fs.contention --dir {} --preset rehearsal --set fs.read.size=1MiB \
         --set fs.read.mode=direct,direct_sync --set fs.contention.competitors=1",
        disk.text()
    ));
    are_measured(&events, &["fs.read", "fs.contention"]);
    // Its number is no disk's: what one disk counts is not taken for all.
    for samples in of(&events, "samples") {
        assert!(samples["quantities"].get("device_bytes").is_none(), "{samples}");
    }
    assert!(disk.left().is_empty());
}
