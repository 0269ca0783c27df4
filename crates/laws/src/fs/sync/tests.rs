use super::{Call, Sync, Write, alone, amplification, flushes, is_known, latency, rate, requests};
use crate::device::{FLASH_NVME, SPINNING, UNKNOWN};
use crate::fs::journal::{Keeper, keeper, medium_least, no_flush, promise};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{DirFacts, Known, Site};
use host::{Host, Root};
use record::event::Range;
use record::key::{CaseId, Key};

const WRITES: [Write; 5] =
    [Write::Nothing, Write::Overwrite, Write::Append, Write::Reserved, Write::Create];
const CALLS: [Call; 4] = [Call::Fsync, Call::Fdatasync, Call::Dsync, Call::DirectDsync];
const FILE_SYSTEMS: [&str; 11] =
    ["ext4", "xfs", "btrfs", "vfat", "tmpfs", "overlay", "fuse.sshfs", "nfs4", "zfs", "", "new"];

/// A site with a disk: its name, whether it spins, its cache, options of the mount.
fn site(name: &str, rotational: u8, cache: &str, options: &str) -> Site {
    let tree = format!(
        "== sys/block/{name}/size\n100\n== sys/block/{name}/dev\n8:0\n\
         == sys/block/{name}/device/model\nX\n== sys/block/{name}/queue/rotational\n{rotational}\n\
         == sys/block/{name}/queue/write_cache\n{cache}\n\
         == proc/self/mountinfo\n22 1 8:0 / / rw - ext4 /dev/{name} {options}\n"
    );
    let mut site = Site {
        host: Host::read(&Root::tree(&tree)),
        dir: Some(DirFacts {
            path: "/x".into(),
            file_system: "ext4".to_owned(),
            allowance_bytes: 1 << 34,
        }),
        ..bare_site()
    };
    site.host.kernel.virtualisation.is_guest = Some(false);
    site
}

fn sync<'site>(
    site: &'site Site,
    file_system: &'site str,
    write: Write,
    call: Call,
) -> Sync<'site> {
    Sync { write, call, block: 4096, file_system, disk: site.host.block.disks.first() }
}

fn sound(range: Range, about: &str) {
    let Range { low, likely, high } = range;
    assert!(low.is_finite() && high.is_finite(), "{about}: {range:?}");
    assert!(0.0 <= low && low <= likely && likely <= high, "{about}: {range:?}");
}

#[test]
fn every_law_is_sound_everywhere() {
    let sites = [
        bare_site(),
        site("nvme0n1", 0, "write back", "rw"),
        site("sda", 1, "write back", "rw"),
        site("sda", 1, "write through", "rw"),
        site("sda", 0, "write back", "rw,nobarrier"),
    ];
    for site in &sites {
        for file_system in FILE_SYSTEMS {
            for write in WRITES {
                for call in CALLS {
                    for block in [1, 4096, 1 << 20] {
                        let sync = Sync { block, ..sync(site, file_system, write, call) };
                        let about = format!("{file_system} {write:?} {call:?} {block}");
                        let whole = latency(site, None, sync).range;
                        sound(whole, &about);
                        assert!(whole.low > 0.0, "{about}");
                        sound(alone(site, None, sync).range, &about);
                        sound(rate(site, None, sync).range, &about);
                        sound(amplification(site, sync).range, &about);
                        sound(flushes(site, sync).range, &about);
                        sound(requests(site, sync).range, &about);
                    }
                }
            }
        }
    }
}

#[test]
fn a_disk_that_spins_takes_most_of_a_turn_at_least() {
    let spins = site("sda", 1, "write back", "rw");
    let append = latency(&spins, None, sync(&spins, "ext4", Write::Append, Call::Fdatasync));
    assert!((2e6..5e6).contains(&append.range.low), "{:?}", append.range);
    assert!((1e7..5e7).contains(&append.range.likely), "{:?}", append.range);
    let mut given = spins;
    given.host.given.set("disk.rpm", "15000").expect("a fact");
    let faster = latency(&given, None, sync(&given, "ext4", Write::Append, Call::Fdatasync));
    assert!(faster.range.likely < append.range.likely);
    assert!(medium_least(&given, &SPINNING).is_some_and(|(ns, _)| (9e5..1.1e6).contains(&ns)));
    assert!(medium_least(&given, &FLASH_NVME).is_some());
    assert!(medium_least(&given, &UNKNOWN).is_none(), "a hypervisor's may be memory");
}

#[test]
fn a_device_without_a_volatile_cache_gets_no_flush() {
    let through = site("nvme0n1", 0, "write through", "rw");
    let back = site("nvme0n1", 0, "write back", "rw");
    let bare = site("nvme0n1", 0, "write back", "rw,barrier=0");
    let of = |site: &Site| {
        let sync = sync(site, "ext4", Write::Append, Call::Fsync);
        (flushes(site, sync).range.likely, latency(site, None, sync).range.likely)
    };
    assert_eq!(of(&through).0, 0.0);
    assert_eq!(of(&bare).0, 0.0);
    assert!(of(&back).0 >= 1.0);
    assert!(of(&through).1 < of(&back).1);
    assert!(no_flush(&back, back.host.block.disks.first()).is_none());
}

#[test]
fn the_journal_costs_what_a_file_system_of_that_kind_writes() {
    let site = site("nvme0n1", 0, "write back", "rw");
    let likely = |file_system, write| {
        let sync = sync(&site, file_system, write, Call::Fdatasync);
        (latency(&site, None, sync).range.likely, amplification(&site, sync).range.likely)
    };
    let (overwrite, append) = (likely("ext4", Write::Overwrite), likely("ext4", Write::Append));
    assert!(overwrite.0 < append.0 && overwrite.1 < append.1);
    assert!(append.1 < likely("btrfs", Write::Append).1);
    assert!(likely("tmpfs", Write::Append).0 < 1e5);
    assert!(likely("tmpfs", Write::Append).0 < overwrite.0 / 10.0);
}

#[test]
fn what_the_user_gave_and_what_was_measured_narrow_it() {
    let mut guest = site("vda", 1, "write back", "rw");
    guest.host.kernel.virtualisation.is_guest = Some(true);
    let width = |site: &Site, known: Option<&Known>, call| {
        let range = latency(site, known, sync(site, "ext4", Write::Overwrite, call)).range;
        range.high / range.low
    };
    let prior = width(&guest, None, Call::Dsync);
    let mut given = site("vda", 1, "write back", "rw");
    given.host.kernel.virtualisation.is_guest = Some(true);
    given.host.given.set("disk.flush_latency", "80us").expect("a fact");
    assert!(width(&given, None, Call::Dsync) < prior);
    let mut known = Known::default();
    assert!(!is_known(&known, sync(&guest, "ext4", Write::Append, Call::Fsync)));
    let read = CaseId::new().with("pattern", "random").with("mode", "direct");
    known.insert(Key::new("fs.read", &read, "latency"), 1.2e5);
    assert!(is_known(&known, sync(&guest, "ext4", Write::Append, Call::Fsync)));
    assert!(width(&guest, Some(&known), Call::Dsync) < prior / 10.0);
    let written = CaseId::new().with("op", "write").with("mode", "dsync").with("block", 4096_u64);
    known.insert(Key::new("fs.io", &written, "latency"), 2e5);
    let same = latency(&guest, Some(&known), sync(&guest, "ext4", Write::Overwrite, Call::Dsync));
    assert_eq!(same.range.likely, 2e5);
    assert!(same.because().contains("fs.io"));
}

#[test]
fn what_promises_nothing_says_so() {
    assert_eq!(keeper("ext4"), Keeper::Journal);
    assert_eq!(keeper("fuseblk"), Keeper::Daemon);
    assert_eq!(keeper(""), Keeper::Unknown);
    for file_system in ["tmpfs", "overlay", "fuse.x", "nfs4"] {
        assert!(promise(file_system).is_some(), "{file_system}");
    }
    assert!(promise("xfs").is_none());
}
