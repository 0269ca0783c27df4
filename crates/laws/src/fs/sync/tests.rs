use super::{Call, Sync, Write, amplification, flushes, is_known, latency};
use crate::Facts;
use crate::device::{FLASH_NVME, SPINNING, UNKNOWN};
use crate::fs::journal::{Keeper, keeper, medium_least};
use bench::experiment::fixtures::{known, on_disk};
use bench::experiment::{DirFacts, Known, Site};
use record::event::Condition;

fn with(mut site: Site, file_system: &str) -> Site {
    site.dir = site.dir.map(|dir| DirFacts { file_system: file_system.to_owned(), ..dir });
    site
}

fn sync(write: Write, call: Call) -> Sync {
    Sync { write, call, block: Some(4096) }
}

#[test]
fn a_disk_that_spins_takes_most_of_a_turn_at_least() {
    let append = sync(Write::Append, Call::Fdatasync);
    let mut spins = on_disk("sda", true, "write back", "rw");
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
        let site = on_disk("nvme0n1", false, cache, options);
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
        let site = with(on_disk("nvme0n1", false, "write back", "rw"), file_system);
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
        let mut guest = on_disk("vda", true, "write back", "rw");
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
    let nothing = Known::default();
    assert!(!is_known(Facts { site: &plain, known: Some(&nothing) }));
    let read = ("fs.read", "pattern=random,mode=direct", "latency", 1.2e5);
    let of_read = known(&[read]);
    let facts = Facts { site: &plain, known: Some(&of_read) };
    let derived = width(facts);
    assert!(is_known(facts) && derived < prior / 4.0, "{derived} of {prior}");
    let both = known(&[read, ("fs.io", "op=write,mode=dsync,block=4096", "latency", 2e5)]);
    let same = latency(Facts { site: &plain, known: Some(&both) }, &over);
    assert_eq!(same.range.likely, 2e5);
}

#[test]
fn what_promises_nothing_says_so() {
    assert_eq!(
        ["ext4", "fuseblk", ""].map(keeper),
        [Keeper::Journal, Keeper::Daemon, Keeper::Unknown]
    );
    let promising = |file_system: &&str| keeper(file_system).caveat().is_none();
    let kinds = ["tmpfs", "overlay", "fuse.x", "nfs4", "xfs"];
    assert_eq!(kinds.iter().copied().filter(promising).collect::<Vec<_>>(), ["xfs"]);
}
