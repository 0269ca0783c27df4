use super::{Call, Named, is_known, latency};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{Known, Site};

const CALLS: [Call; 8] = [
    Call::Create,
    Call::Open,
    Call::Stat,
    Call::Rename,
    Call::Unlink,
    Call::Mkdir,
    Call::Rmdir,
    Call::Readdir,
];

fn likely(site: &Site, file_system: &str, call: Call, entries: u64) -> f64 {
    let named = Named { call, entries, name_bytes: 24, file_system, discards: false };
    let range = latency(site, None, named).range;
    assert!(
        0.0 < range.low && range.low <= range.likely && range.likely <= range.high,
        "{file_system} {call:?} {entries}: {range:?}"
    );
    range.likely
}

#[test]
fn every_law_is_sound_and_ordered() {
    let site = bare_site();
    for file_system in ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.x", "nfs", ""] {
        for call in CALLS {
            for entries in [1, 10, 1000, 100_000, 10_000_000] {
                likely(&site, file_system, call, entries);
            }
            if call != Call::Readdir {
                let (few, many) = (
                    likely(&site, file_system, call, 10),
                    likely(&site, file_system, call, 100_000),
                );
                assert!(few < many, "{file_system} {call:?}");
            }
        }
        let of = |call| likely(&site, file_system, call, 1000);
        assert!(of(Call::Stat) < of(Call::Open) && of(Call::Open) < of(Call::Create));
        assert!(of(Call::Create) < of(Call::Mkdir) && of(Call::Unlink) < of(Call::Rmdir));
    }
    let create = |file_system| likely(&site, file_system, Call::Create, 1000);
    assert!(create("tmpfs") < create("ext4") && create("ext4") < create("btrfs"));
    assert!(create("ext4") < create("nfs4"), "a server is far away");
    assert!(!is_known(&Known::default(), Call::Stat));
}

#[test]
fn a_listing_of_few_pays_for_its_calls() {
    let site = bare_site();
    let of = |entries| likely(&site, "ext4", Call::Readdir, entries);
    assert!(of(10) > 1.3 * of(1000), "{} {}", of(10), of(1000));
    assert!(of(100_000) < 1.1 * of(1000));
}
