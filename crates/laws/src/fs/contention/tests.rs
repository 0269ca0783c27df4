use super::{BLOCK_BYTES, Readers, bandwidth, fairness, latency, saturation, slope};
use crate::Facts;
use crate::fs::Pattern;
use bench::experiment::Site;
use bench::experiment::fixtures::{known, on_disk};

/// A machine with so many CPUs and a disk: its name, and whether it spins.
fn site(cpus: usize, disk: &str, spins: bool) -> Site {
    Site { cpus: (0..cpus).collect(), ..on_disk(disk, spins, "write back", "rw") }
}

/// One of each kind, and none that is known.
fn sites() -> Vec<Site> {
    let nowhere = Site { dir: None, ..site(16, "sda", false) };
    vec![site(16, "nvme0n1", false), site(16, "sda", false), site(16, "sdb", true), nowhere]
}

fn readers(count: u64) -> Readers {
    Readers { count, pattern: Pattern::Sequential, size: 64 << 20 }
}

#[test]
fn a_read_takes_no_less_with_more_readers_and_its_ends_keep_their_order() {
    for site in sites() {
        let facts = Facts::prior(&site);
        let mut before = latency(facts, readers(1)).range;
        for count in 2..=16 {
            let now = latency(facts, readers(count)).range;
            assert!(now.low <= now.likely && now.likely <= now.high, "{now:?}");
            assert!(now.low >= before.low && now.likely >= before.likely, "{count}");
            before = now;
            let rate = bandwidth(facts, readers(count)).range;
            let product = rate.likely * now.likely / (count as f64 * BLOCK_BYTES * 1e9);
            assert!((product - 1.0).abs() < 1e-9, "{product}");
        }
        let slope = slope(facts, readers(16)).range;
        assert!(slope.low <= slope.likely && slope.likely <= slope.high, "{slope:?}");
        // One reader has no share, and no index passes one.
        assert!(fairness(&site, readers(1)).is_none());
        let index = fairness(&site, readers(16)).expect("several").range;
        assert!(index.low > 1.0 / 16.0 && index.high == 1.0, "{index:?}");
    }
    let full: Vec<f64> = sites()
        .iter()
        .map(|site| saturation(Facts::prior(site), readers(16)).range.likely)
        .collect();
    assert!(full[0] > full[1] && full[1] > full[2] && full[2] >= 1.0, "{full:?}");
}

#[test]
fn with_both_figures_of_the_run_it_is_flat_and_then_linear() {
    let site = Site { dir: None, ..site(64, "sda", false) };
    let known = known(&[
        ("fs.read", "pattern=sequential,size=4194304,mode=direct", "latency", 9e4),
        ("fs.read", "pattern=sequential,size=134217728,mode=direct", "latency", 1e5),
        ("fs.io", "op=read,block=4096,depth=1", "iops", 1e9),
        ("fs.io", "op=read,block=4096,depth=8", "iops", 6e4),
        ("fs.io", "op=read,block=4096,depth=64", "iops", 1e5),
        ("fs.io", "op=read,block=4096,depth=128", "iops", 9e4),
    ]);
    let facts = Facts { site: &site, known: Some(&known) };
    let at = |count| latency(facts, readers(count)).range;
    // The nearer size's; a queue of one says nothing of many.
    assert_eq!(at(1).likely, 1e5);
    // Ten at a time: below flat, far above linear.
    assert!(at(2).likely < 1.1e5, "{:?}", at(2));
    assert!((at(60).likely / 6e5 - 1.0).abs() < 0.05, "{:?}", at(60));
    let full = saturation(facts, readers(60)).range;
    assert!((full.likely - 10.0).abs() < 1e-9, "{full:?}");
    // A file of another size says less.
    let found = latency(facts, Readers { size: 16 << 10, ..readers(1) });
    assert!(found.range.low < at(1).low && found.range.likely == 9e4, "{found:?}");
    // Another pattern's figure does not count.
    let random = Readers { pattern: Pattern::Random, ..readers(1) };
    assert_eq!(latency(facts, random).range, latency(facts.as_prior(), random).range);
}

#[test]
fn what_the_user_says_of_the_disk_counts() {
    let mut site = Site { dir: None, ..site(16, "sda", false) };
    site.host.given.set("host.disk.read_latency", "200us").expect("a fact");
    site.host.given.set("host.disk.read_iops", "20k").expect("a fact");
    let found = latency(Facts::prior(&site), readers(1));
    assert!(found.range.likely > 1.5e5 && found.range.likely < 2.5e5, "{found:?}");
    let many = latency(Facts::prior(&site), readers(16)).range;
    // 16 at 50 µs each.
    assert!(many.low < 8e5 && 8e5 < many.high, "{many:?}");
}

#[test]
fn few_cpus_bound_what_many_readers_get() {
    let high =
        |cpus| bandwidth(Facts::prior(&site(cpus, "nvme0n1", false)), readers(64)).range.high;
    assert!(high(1) < high(64), "{}", high(1));
}
