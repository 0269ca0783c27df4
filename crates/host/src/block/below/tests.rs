use crate::Root;
use crate::block::{Block, read};

fn machine(mounts: &str) -> Block {
    read(&Root::tree(include_str!("tree.txt")).with("proc/self/mountinfo", mounts))
}

/// expected.txt has the columns of the mount table, what is below, and what counts there.
#[test]
fn every_name_leads_to_the_disks_or_to_the_reason() {
    for row in include_str!("expected.txt").lines() {
        let columns: Vec<&str> = row.splitn(3, " = ").collect();
        let [mount, path, numbers] = columns[..] else { panic!("{row}") };
        let (number, rest) = mount.split_once(' ').expect("a number");
        let block = machine(&format!(
            "20 1 0:30 /@ / rw - btrfs /dev/mapper/luks-1f2e rw\n\
             22 20 {number} /part /mnt rw - {rest}\n"
        ));
        let mount = block.mount_of("/mnt/x").expect("it is mounted");
        assert_eq!(block.path_of(mount).unwrap_or_else(|why| why), path, "{row}");
        assert_eq!(block.numbers_of(mount).as_deref().unwrap_or("-"), numbers, "{row}");
    }
}

#[test]
fn the_upper_directory_of_an_overlay_may_be_out_of_sight_or_in_memory() {
    let block = machine("1 0 0:60 / / rw - overlay overlay rw,upperdir=/var/lib/u\n");
    let why = "overlay, whose directory /var/lib/u is not in this mount namespace".to_owned();
    assert_eq!(block.path_of(&block.mounts[0]), Err(why));
    let block = machine(
        "1 0 0:60 / / rw - ext4 /dev/sda1 rw\n2 1 0:61 / /m rw - tmpfs t rw\n\
         3 1 0:62 / /o rw - overlay o rw,upperdir=/m/u\n",
    );
    assert_eq!(block.mounts[2].below.upper.as_deref(), Some("tmpfs"));
}

#[test]
fn disks_of_several_kinds_are_one_of_the_device_that_joins_them() {
    let block = machine("1 0 252:0 / / rw - xfs /dev/bcache0 rw\n2 1 253:1 / /l rw - x x rw\n");
    let class = |at: usize| block.disk_of(&block.mounts[at]).map(|disk| disk.name.as_str());
    assert_eq!((class(0), class(1)), (Some("bcache0"), Some("nvme0n1")));
    assert!(block.disks.iter().all(|disk| !disk.name.contains("c0n1")), "a path is no disk");
}
