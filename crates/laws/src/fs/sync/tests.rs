use super::{Call, Sync, Write, alone, amplification, flushes, is_known, latency, rate, requests};
use crate::Facts;
use crate::device::{FLASH_NVME, SPINNING, UNKNOWN};
use crate::fs::journal::{Keeper, keeper, medium_least, promise};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{DirFacts, Known, Site};
use host::{Host, Root};
use record::event::{Condition, Range};
use record::key::{CaseId, Key};

const FILE_SYSTEMS: [&str; 11] =
    ["ext4", "xfs", "btrfs", "vfat", "tmpfs", "overlay", "fuse.sshfs", "nfs4", "zfs", "", "new"];

/// A site with a disk below ext4: its name, whether it spins, its cache, options of the mount.
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

/// The same with another file system.
fn with(mut site: Site, file_system: &str) -> Site {
    site.dir = site.dir.map(|dir| DirFacts { file_system: file_system.to_owned(), ..dir });
    site
}

fn sync(write: Write, call: Call) -> Sync {
    Sync { write, call, block: Some(4096) }
}

fn sound(range: Range, about: &str) {
    let Range { low, likely, high } = range;
    assert!(low.is_finite() && high.is_finite(), "{about}: {range:?}");
    assert!(0.0 <= low && low <= likely && likely <= high, "{about}: {range:?}");
}

#[test]
fn every_law_is_sound_everywhere() {
    for (name, rotational, cache, options) in [
        ("nvme0n1", 0, "write back", "rw"),
        ("sda", 1, "write back", "rw"),
        ("sda", 1, "write through", "rw"),
        ("sda", 0, "write back", "rw,nobarrier"),
    ] {
        let site = site(name, rotational, cache, options);
        for site in FILE_SYSTEMS.map(|file_system| with(site.clone(), file_system)) {
            let facts = Facts::prior(&site);
            for (write, call) in
                Write::ALL.iter().flat_map(|write| Call::ALL.iter().map(move |call| (write, call)))
            {
                for block in [1, 4096, 1 << 20] {
                    let sync = Sync { block: Some(block), ..sync(*write, *call) };
                    let about = format!("{name} {:?} {sync:?}", site.dir);
                    assert!(latency(facts, &sync).range.low > 0.0, "{about}");
                    for law in [
                        latency(facts, &sync),
                        alone(facts, &sync),
                        rate(facts, &sync),
                        amplification(&site, &sync),
                        flushes(&site, &sync),
                        requests(&site, &sync),
                    ] {
                        sound(law.range, &about);
                    }
                }
            }
        }
    }
}

#[test]
fn a_disk_that_spins_takes_most_of_a_turn_at_least() {
    let append = sync(Write::Append, Call::Fdatasync);
    let mut spins = site("sda", 1, "write back", "rw");
    let usual = latency(Facts::prior(&spins), &append).range;
    assert!((2e6..5e6).contains(&usual.low) && (1e7..5e7).contains(&usual.likely), "{usual:?}");
    spins.host.given.set("disk.rpm", "15000").expect("a fact");
    assert!(latency(Facts::prior(&spins), &append).range.likely < usual.likely);
    let least = |class| medium_least(&spins, class);
    assert!(least(&SPINNING).is_some_and(|(ns, _)| (9e5..1.1e6).contains(&ns)));
    assert!(least(&FLASH_NVME).is_some());
    assert!(least(&UNKNOWN).is_none(), "a hypervisor's may be memory");
}

#[test]
fn a_device_without_a_volatile_cache_gets_no_flush() {
    let of = |cache, options| {
        let site = site("nvme0n1", 0, cache, options);
        let sync = sync(Write::Append, Call::Fsync);
        (flushes(&site, &sync).range.likely, latency(Facts::prior(&site), &sync).range.likely)
    };
    let (through, back) = (of("write through", "rw"), of("write back", "rw"));
    assert_eq!((through.0, of("write back", "rw,barrier=0").0), (0.0, 0.0));
    assert!(back.0 >= 1.0 && through.1 < back.1);
}

#[test]
fn the_journal_costs_what_a_file_system_of_that_kind_writes() {
    let of = |file_system, write| {
        let site = with(site("nvme0n1", 0, "write back", "rw"), file_system);
        let sync = sync(write, Call::Fdatasync);
        let law = latency(Facts::prior(&site), &sync);
        let conditions = law.clone().prediction().conditions;
        let written = amplification(&site, &sync).range.likely;
        (law.range.likely, written, conditions.contains(&Condition::Journal))
    };
    let (overwrite, append) = (of("ext4", Write::Overwrite), of("ext4", Write::Append));
    assert!(overwrite.0 < append.0 && overwrite.1 < append.1);
    let (tree, memory) = (of("btrfs", Write::Append), of("tmpfs", Write::Append));
    assert!(append.1 < tree.1 && memory.0 < 1e5 && memory.0 < overwrite.0 / 10.0);
    // Counted in where there is one and it is committed.
    assert_eq!([overwrite.2, append.2, tree.2, memory.2], [false, true, false, false]);
}

#[test]
fn what_the_user_gave_and_what_was_measured_narrow_it() {
    let guest = || {
        let mut guest = site("vda", 1, "write back", "rw");
        guest.host.kernel.virtualisation.is_guest = Some(true);
        guest
    };
    let over = sync(Write::Overwrite, Call::Dsync);
    let width = |facts| {
        let range = latency(facts, &over).range;
        range.high / range.low
    };
    let (plain, mut given) = (guest(), guest());
    given.host.given.set("disk.flush_latency", "80us").expect("a fact");
    let prior = width(Facts::prior(&plain));
    assert!(width(Facts::prior(&given)) < prior);
    let told = latency(Facts::prior(&plain), &over).prediction().conditions;
    assert!(told.contains(&Condition::VirtualDisk), "{told:?}");
    let mut known = Known::default();
    assert!(!is_known(Facts { site: &plain, known: Some(&known) }));
    let read = CaseId::new().with("pattern", "random").with("mode", "direct");
    known.insert(Key::new("fs.read", &read, "latency"), 1.2e5);
    let facts = Facts { site: &plain, known: Some(&known) };
    assert!(is_known(facts) && width(facts) < prior / 10.0);
    let written = CaseId::new().with("op", "write").with("mode", "dsync").with("block", 4096_u64);
    known.insert(Key::new("fs.io", &written, "latency"), 2e5);
    let same = latency(Facts { site: &plain, known: Some(&known) }, &over);
    assert_eq!(same.range.likely, 2e5);
}

#[test]
fn what_promises_nothing_says_so() {
    assert_eq!(
        ["ext4", "fuseblk", ""].map(keeper),
        [Keeper::Journal, Keeper::Daemon, Keeper::Unknown]
    );
    let promising = |file_system: &&str| promise(file_system).is_none();
    let kinds = ["tmpfs", "overlay", "fuse.x", "nfs4", "xfs"];
    assert_eq!(kinds.iter().copied().filter(promising).collect::<Vec<_>>(), ["xfs"]);
}
