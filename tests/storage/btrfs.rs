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
    // Its number is no disk's, and the counters are those of the disks below it.
    for samples in events_of_kind(&events, "samples") {
        let bytes = |name: &str| samples["quantities"][name].as_f64();
        assert!(bytes("device_bytes") >= bytes("asked_bytes"), "{samples}");
        assert_eq!(samples["at"]["device_kind"], "virtual", "{samples}");
    }
    assert!(disk.left().is_empty());
}
