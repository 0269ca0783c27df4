use super::{Call, Named, is_known, latency};
use crate::Facts;
use bench::experiment::fixtures::{bare_site, with_dir};
use bench::experiment::{DirFacts, Known, Site};

fn site(file_system: &str) -> Site {
    let mut site = with_dir(bare_site(), "/x", 1 << 40);
    site.dir = site.dir.map(|dir| DirFacts { file_system: file_system.to_owned(), ..dir });
    site
}

fn likely(site: &Site, call: Call, entries: u64) -> f64 {
    latency(Facts::prior(site), &Named { call, entries }, 24).range.likely
}

#[test]
fn dearer_calls_and_larger_directories_take_longer() {
    for file_system in ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.x", "nfs", ""] {
        let site = site(file_system);
        for call in Call::ALL.iter().filter(|call| **call != Call::Readdir) {
            let [few, many] = [10, 100_000].map(|entries| likely(&site, *call, entries));
            assert!(few < many, "{file_system} {call:?}");
        }
        let of = |call| likely(&site, call, 1000);
        assert!(of(Call::Stat) < of(Call::Open) && of(Call::Open) < of(Call::Create));
        assert!(of(Call::Create) < of(Call::Mkdir) && of(Call::Unlink) < of(Call::Rmdir));
    }
    let create = |file_system| likely(&site(file_system), Call::Create, 1000);
    assert!(create("tmpfs") < create("ext4") && create("ext4") < create("btrfs"));
    assert!(create("ext4") < create("nfs4"), "a server is far away");
    let (site, known) = (bare_site(), Known::default());
    assert!(!is_known(Facts { site: &site, known: Some(&known) }, Call::Stat));
}

#[test]
fn a_listing_of_few_pays_for_its_calls_and_longer_names_for_more() {
    let site = site("ext4");
    let of = |entries| likely(&site, Call::Readdir, entries);
    assert!(of(10) > 1.3 * of(1000), "{} {}", of(10), of(1000));
    assert!(of(100_000) < 1.1 * of(1000));
    let listing = Named { call: Call::Readdir, entries: 1000 };
    let of = |bytes| latency(Facts::prior(&site), &listing, bytes).range.likely;
    assert!(of(24) < of(255));
}
