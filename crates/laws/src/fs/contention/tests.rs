use super::{BLOCK_BYTES, Readers, bandwidth, fairness, latency, line, saturation, slope};
use bench::experiment::fixtures::bare_site;
use bench::experiment::{Known, Site};
use host::block::Disk;
use host::{Host, Root};
use record::key::{CaseId, Key};

fn disks() -> Vec<Disk> {
    let tree = "== sys/block/nvme0n1/size\n100\n== sys/block/nvme0n1/device/model\nX\n\
        == sys/block/nvme0n1/queue/rotational\n0\n\
        == sys/block/sda/size\n100\n== sys/block/sda/device/model\nX\n== sys/block/sda/queue/rotational\n0\n\
        == sys/block/sdb/size\n100\n== sys/block/sdb/device/model\nX\n== sys/block/sdb/queue/rotational\n1\n";
    Host::read(&Root::tree(tree)).block.disks
}

fn site(cpus: usize) -> Site {
    let mut site = bare_site();
    site.cpus = (0..cpus).collect();
    site.host.kernel.virtualisation.is_guest = Some(false);
    site
}

fn of(disk: Option<&Disk>, count: u64) -> Readers<'_> {
    Readers { disk, count, pattern: "sequential", size: 64 << 20 }
}

#[test]
fn a_read_takes_no_less_with_more_readers_and_its_ends_keep_their_order() {
    let site = site(16);
    let disks = disks();
    assert_eq!(disks.len(), 3);
    for disk in disks.iter().map(Some).chain([None]) {
        let mut before = latency(&site, None, of(disk, 1)).range;
        for count in 2..=16 {
            let now = latency(&site, None, of(disk, count)).range;
            assert!(now.low <= now.likely && now.likely <= now.high, "{now:?}");
            assert!(now.low >= before.low && now.likely >= before.likely, "{count}");
            before = now;
            let rate = bandwidth(&site, None, of(disk, count)).range;
            let product = rate.likely * now.likely / (count as f64 * BLOCK_BYTES * 1e9);
            assert!((product - 1.0).abs() < 1e-9, "{product}");
        }
        let slope = slope(&site, None, of(disk, 16)).range;
        assert!(slope.low <= slope.likely && slope.likely <= slope.high, "{slope:?}");
    }
}

#[test]
fn kinds_of_devices_are_full_in_their_order() {
    let site = site(16);
    let disks = disks();
    let full = |name: &str| {
        let disk = disks.iter().find(|disk| disk.name == name);
        saturation(&site, None, of(disk, 16)).range.likely
    };
    assert!(full("nvme0n1") > full("sda") && full("sda") > full("sdb"));
    assert!(full("sdb") >= 1.0, "no fewer than one reader");
}

#[test]
fn with_both_figures_of_the_run_it_is_flat_and_then_linear() {
    let site = site(64);
    let mut known = Known::default();
    let mut put = |experiment: &str, case: CaseId, metric: &str, value: f64| {
        known.insert(Key::new(experiment, &case, metric), value);
    };
    for (size, ns) in [(4_u64 << 20, 9e4), (128 << 20, 1e5)] {
        let case =
            CaseId::new().with("pattern", "sequential").with("size", size).with("mode", "direct");
        put("fs.read", case, "latency", ns);
    }
    for (depth, iops) in [(1_u64, 1e9), (8, 6e4), (64, 1e5), (128, 9e4)] {
        let case = CaseId::new().with("op", "read").with("block", 4096_u64).with("depth", depth);
        put("fs.io", case, "iops", iops);
    }
    let at = |count| latency(&site, Some(&known), of(None, count)).range;
    // The nearer size's; a queue of one says nothing of many.
    assert_eq!(at(1).likely, 1e5);
    // Ten at a time: below flat, far above linear.
    assert!(at(2).likely < 1.1e5, "{:?}", at(2));
    assert!((at(60).likely / 6e5 - 1.0).abs() < 0.05, "{:?}", at(60));
    let full = saturation(&site, Some(&known), of(None, 60)).range;
    assert!((full.likely - 10.0).abs() < 1e-9, "{full:?}");
    // A file of another size says less.
    let small = Readers { size: 16 << 10, ..of(None, 1) };
    let found = latency(&site, Some(&known), small);
    assert!(found.because().contains("another size"), "{}", found.because());
    assert!(found.range.low < at(1).low && found.range.likely == 9e4, "{found:?}");
    // Another pattern's figure is none.
    let random = Readers { pattern: "random", ..of(None, 1) };
    assert!(!latency(&site, Some(&known), random).because().contains("fs.read"));
}

#[test]
fn what_the_user_says_of_the_disk_counts() {
    let mut site = site(16);
    site.host.given.set("host.disk.read_latency", "200us").expect("a fact");
    site.host.given.set("host.disk.read_iops", "20k").expect("a fact");
    let found = latency(&site, None, of(None, 1));
    assert!(found.range.likely > 1.5e5 && found.range.likely < 2.5e5, "{found:?}");
    assert!(found.because().contains("host.disk.read_latency"), "{}", found.because());
    let many = latency(&site, None, of(None, 16)).range;
    // 16 at 50 µs each.
    assert!(many.low < 8e5 && 8e5 < many.high, "{many:?}");
}

#[test]
fn few_cpus_bound_what_many_readers_get() {
    let disks = disks();
    let rate = |cpus| bandwidth(&site(cpus), None, of(disks.first(), 64)).range;
    assert!(rate(1).high < rate(64).high, "{:?}", rate(1));
}

#[test]
fn one_reader_has_no_share_and_no_index_passes_one() {
    let site = site(4);
    assert!(fairness(&site, of(None, 1)).is_none());
    for disk in disks().iter().map(Some).chain([None]) {
        let found = fairness(&site, of(disk, 16)).expect("several").range;
        assert!(found.low > 1.0 / 16.0 && found.high == 1.0, "{found:?}");
    }
}

#[test]
fn a_line_has_its_slope_and_how_much_it_explains() {
    let exact = line(&[(0.0, 5.0), (1.0, 7.0), (4.0, 13.0)]).expect("a line");
    assert!((exact.slope - 2.0).abs() < 1e-12);
    assert!(exact.linearity.is_some_and(|share| (share - 1.0).abs() < 1e-12));
    let flat = line(&[(0.0, 3.0), (1.0, 3.0)]).expect("a line");
    assert_eq!((flat.slope, flat.linearity), (0.0, None));
    let bent = line(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 5.0)]).expect("a line");
    assert!(bent.linearity.is_some_and(|share| share < 0.7));
    assert_eq!(line(&[(2.0, 1.0), (2.0, 5.0)]), None, "one place");
    assert_eq!(line(&[]), None);
}
