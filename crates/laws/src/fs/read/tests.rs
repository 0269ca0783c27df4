use super::{Below, Read, block, readahead_gain};
use crate::fs::{Mode, Pattern};
use crate::{Facts, Law};
use bench::experiment::Known;
use bench::experiment::fixtures::{bare_site, known};

const BELOW: Below = Below { disk: None, is_plain: true };

fn reads() -> impl Iterator<Item = Read> {
    let modes = [Mode::Direct, Mode::Cold, Mode::ColdNoReadahead, Mode::Cached];
    modes.into_iter().flat_map(|mode| {
        let all = Pattern::ALL.iter().flat_map(|pattern| [17, 28].map(|power| (*pattern, power)));
        all.map(move |(pattern, power)| Read { pattern, mode, size: 1 << power })
    })
}

fn ordered(law: Option<Law>) -> Law {
    let law = law.expect("a law");
    let range = law.range;
    let sane = 0.0 < range.low && range.low <= range.likely && range.likely <= range.high;
    assert!(sane && range.high.is_finite(), "{law:?}");
    law
}

#[test]
fn page_faults_of_the_same_device_narrow_what_is_predicted() {
    let (site, nothing) = (bare_site(), Known::default());
    // As a quick flash gives them, in ns.
    let known = known(&[
        ("memory.fault", "fault=random,readahead=off", "major_latency", 9e4),
        ("memory.fault", "fault=window,readahead=off", "per_page", 8e4),
        ("memory.fault", "fault=window,readahead=on", "per_page", 2.5e3),
    ]);
    let facts = Facts { site: &site, known: Some(&known) };
    let width = |law: Law| law.range.high / law.range.low;
    for read in reads() {
        assert!(block(Facts { known: Some(&nothing), ..facts }, BELOW, &read).is_none());
        if read.mode == Mode::Cached {
            continue;
        }
        let prior = ordered(block(facts.as_prior(), BELOW, &read));
        assert!(width(ordered(block(facts, BELOW, &read))) < width(prior) / 3.0, "{read:?}");
        // Not where something else is between.
        assert!(block(facts, Below { is_plain: false, ..BELOW }, &read).is_none());
    }
    let gain = ordered(readahead_gain(facts, BELOW, Pattern::Sequential, 1 << 26));
    assert!(gain.range.low < 32.0 && 32.0 < gain.range.high, "{gain:?}");
}

#[test]
fn a_cached_block_is_a_call_and_a_copy() {
    let site = bare_site();
    let known = known(&[("os.syscall", "call=pread_cached", "latency", 200.0)]);
    let read = Read { pattern: Pattern::Sequential, mode: Mode::Cached, size: 1 << 28 };
    let found = block(Facts { site: &site, known: Some(&known) }, BELOW, &read);
    // 200 ns, and 0.9 of 4 KiB at 10 GB/s.
    assert!((found.expect("known").range.likely - 568.64).abs() < 1e-6);
}
