use super::{Below, Read, Way, block, cpu, readahead_gain, single};
use crate::Law;
use bench::experiment::Known;
use bench::experiment::fixtures::bare_site;
use bench::experiment::fixtures::sites;
use record::key::{CaseId, Key};

const BELOW: Below = Below { disk: None, is_plain: true };

fn reads() -> impl Iterator<Item = Read> {
    let ways = [Way::Direct, Way::Ahead, Way::Alone, Way::Cached];
    ways.into_iter().flat_map(|way| {
        [(false, 17), (false, 28), (true, 17), (true, 28)].map(|(random, power)| Read {
            random,
            way,
            bytes: 1 << power,
        })
    })
}

fn ordered(estimate: &Law) {
    let range = estimate.range;
    let sane = 0.0 < range.low && range.low <= range.likely && range.likely <= range.high;
    assert!(sane && range.high.is_finite(), "{estimate:?}");
}

#[test]
fn every_law_answers_at_every_site() {
    for site in sites() {
        for is_plain in [true, false] {
            let below = Below { is_plain, ..BELOW };
            for read in reads() {
                ordered(&block(&site, None, below, read).expect("a prior"));
                ordered(&single(&site, None, below, read).expect("a prior"));
                ordered(&cpu(&site, None, read).expect("a prior"));
                let gain = readahead_gain(&site, None, below, read.random, read.bytes);
                ordered(&gain.expect("a prior"));
            }
        }
    }
}

/// Figures as a quick flash gives them, in ns.
fn faults() -> Known {
    let mut known = Known::default();
    for (fault, readahead, metric, ns) in [
        ("random", "off", "major_latency", 9e4),
        ("window", "off", "per_page", 8e4),
        ("window", "on", "per_page", 2.5e3),
    ] {
        let case = CaseId::new().with("fault", fault).with("readahead", readahead);
        known.insert(Key::new("memory.fault", &case, metric), ns);
    }
    known
}

#[test]
fn page_faults_of_the_same_device_narrow_what_is_predicted() {
    let site = bare_site();
    let known = faults();
    for read in reads().filter(|read| read.way != Way::Cached) {
        let prior = block(&site, None, BELOW, read).expect("a prior").range;
        let derived = block(&site, Some(&known), BELOW, read).expect("known");
        ordered(&derived);
        let width = |range: record::event::Range| range.high / range.low;
        assert!(width(derived.range) < width(prior) / 3.0, "{read:?}: {derived:?} {prior:?}");
        assert!(derived.because().contains("memory.fault"));
        // Not where something else is between.
        let behind = Below { is_plain: false, ..BELOW };
        assert!(block(&site, Some(&known), behind, read).is_none());
    }
    let gain = readahead_gain(&site, Some(&known), BELOW, false, 1 << 26).expect("known");
    assert!(gain.range.low < 32.0 && 32.0 < gain.range.high, "{gain:?}");
    for read in reads() {
        assert!(block(&site, Some(&Known::default()), BELOW, read).is_none());
    }
}

#[test]
fn a_cached_block_is_a_call_and_a_copy() {
    let site = bare_site();
    let mut known = Known::default();
    let call = CaseId::new().with("call", "pread_cached");
    known.insert(Key::new("os.syscall", &call, "latency"), 200.0);
    let read = Read { random: false, way: Way::Cached, bytes: 1 << 28 };
    let found = block(&site, Some(&known), BELOW, read).expect("known").range;
    // 200 ns, and 0.9 of 4 KiB at 10 GB/s.
    assert!((found.likely - 568.64).abs() < 1e-6, "{found:?}");
}
