use super::*;
use crate::tests::said;
use bench::experiment::fixtures::recorded;

const GUESTS: [&str; 3] = [
    include_str!("../../testdata/hwloc/2.4.1-guest.txt"),
    include_str!("../../testdata/hwloc/2.9.0-guest.txt"),
    include_str!("../../testdata/hwloc/2.12.0-guest.txt"),
];
/// 48 CPUs of which eight share a core.
const PACKAGES: &str = include_str!("../../testdata/hwloc/2.9.0-two-packages.txt");

fn conditions(host: &str, preset: Preset) -> Conditions {
    crate::tests::conditions(&recorded(host), preset, usize::MAX)
}

#[test]
fn a_guests_caches_are_read_from_every_version() {
    for text in GUESTS {
        for cpu in 0..2 {
            for (level, bytes) in
                [("L1", 49_152.0), ("L1i", 65_536.0), ("L2", 2_097_152.0), ("L3", 503_316_480.0)]
            {
                let found = parse(&said(text), &format!("{level} of CPU {cpu}"));
                assert_eq!(found, Ok(bytes), "{level} of {cpu}");
            }
        }
    }
}

#[test]
fn a_cpu_above_the_first_words_of_a_set_has_its_own_caches() {
    for cpu in [0, 23, 24, 31, 32, 47] {
        assert_eq!(parse(&said(PACKAGES), &format!("L3 of CPU {cpu}")), Ok(33_554_432.0));
    }
    parse(&said(PACKAGES), "L3 of CPU 48").expect_err("there are 48");
    // A cache of one package alone has another size: who is in its set is told by it.
    let first = PACKAGES.replacen("cache_size=\"33554432\"", "cache_size=\"7\"", 1);
    assert_eq!(parse(&said(&first), "L3 of CPU 23"), Ok(7.0));
    assert_eq!(parse(&said(&first), "L3 of CPU 24"), Ok(33_554_432.0));
    assert_eq!(parse(&said(&first), "L3 of CPU 32"), Ok(33_554_432.0));
}

#[test]
fn sets_of_cpus_are_words_the_highest_first() {
    assert_eq!(holds("0x00000001,,0x80000000", 31), Ok(true));
    assert_eq!(holds("0x00000001,,0x80000000", 32), Ok(false));
    assert_eq!(holds("0x00000001,,0x80000000", 64), Ok(true));
    assert_eq!(holds("0x00000001,0x0,0x80000000", 96), Ok(false));
    assert!(holds("0xcpus", 0).is_err());
}

#[test]
fn what_is_no_topology_is_refused() {
    let refused = |text: &str, what: &str| parse(&said(text), what).expect_err("is refused");
    assert!(refused("", "L1 of CPU 0").contains("no whole topology"));
    let guest = GUESTS[1];
    assert!(refused(&guest[..guest.len() / 2], "L1 of CPU 0").contains("no whole topology"));
    assert!(refused(guest, "L4 of CPU 0").contains("no L4Cache"));
    assert!(refused(guest, "L1").contains("reports no L1"));
    assert!(
        refused(&guest.replace("cache_size", "size"), "L2 of CPU 1").contains("without a size")
    );
    assert!(refused(&guest.replace(" cpuset=", " set="), "L2 of CPU 1").contains("without CPUs"));
    let twice = guest.replace("cpuset=\"0x00000001\"", "cpuset=\"0x00000003\"");
    assert!(refused(&twice, "L2 of CPU 1").contains("2 of type L2Cache"));
}

#[test]
fn every_described_level_stands_beside_hwlocs() {
    for (host, names) in [
        ("vm-granite-rapids", vec!["L1", "L2", "L3", "L1i"]),
        ("epyc-7763-2s", vec!["L1", "L2", "L3", "L1i"]),
        ("alder-lake-hybrid", vec!["L1", "L2", "L3", "L1i"]),
        ("graviton3", vec!["L1", "L2", "L3", "L1i"]),
    ] {
        let conditions = conditions(host, Preset::Rehearsal);
        let found = pairings(&conditions);
        assert_eq!(found.len(), 1, "{host}");
        let rows: Vec<&str> = found[0].rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(rows, names, "{host}");
        assert_eq!(found[0].skip, None, "{host}");
        assert_eq!(found[0].rows[1].what, format!("L2 of CPU {}", conditions.cpus[0]));
    }
}

#[test]
fn a_run_tells_what_it_read_of_its_first_cpu() {
    let mut run = Run::new(analysis::sample::header());
    let host = recorded("alder-lake-hybrid").host;
    run.header.host = serde_json::to_value(&host).expect("JSON");
    run.header.cpus = vec![0];
    let conditions = conditions("alder-lake-hybrid", Preset::Rehearsal);
    let row = |level| sized(&conditions, String::new(), level);
    assert_eq!(size_read(&run, &row(1), false).expect("is read"), 49_152.0);
    assert_eq!(size_read(&run, &row(1), true).expect("is read"), 32_768.0);
    run.header.cpus = vec![*host.cpu.usable().last().expect("CPUs")];
    assert_eq!(size_read(&run, &row(1), false).expect("is read"), 32_768.0);
    let error = size_read(&run, &row(4), false).expect_err("there is none");
    assert!(error.to_string().contains("has no L4"), "{error}");
}

#[test]
fn ladders_go_from_below_the_first_to_beyond_the_last() {
    let rungs = ladder(48 << 10, 2 << 20);
    assert_eq!(rungs[0], 12 << 10);
    let last = rungs[rungs.len() - 1];
    assert!((8 << 20..10 << 20).contains(&last), "{last}");
    assert!(rungs.iter().all(|bytes| bytes % LINE_BYTES == 0));
    assert!(rungs.windows(2).all(|two| two[0] < two[1]));
    assert!(rungs.len() > 30, "four to the octave");
}

#[test]
fn the_last_level_is_for_machines_that_have_all_of_it() {
    let of = |host, preset| pairings(&conditions(host, preset));
    let guest = of("vm-granite-rapids", Preset::Standard);
    let names: Vec<&str> = guest.iter().map(|pairing| pairing.name.as_str()).collect();
    assert_eq!(names, ["described", "measured", "last-level"]);
    assert!(guest[2].skip.is_some(), "a guest");
    let measured: Vec<&str> = guest[1].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(measured, ["L1", "L2"]);
    let bare = of("epyc-7763-2s", Preset::Standard);
    assert_eq!(bare[2].skip, None);
    assert_eq!(bare[2].rows.len(), 1);
    let mut little = conditions("epyc-7763-2s", Preset::Standard);
    little.memory_bytes = 16 << 20;
    assert!(pairings(&little)[2].skip.is_some());
    assert_eq!(of("epyc-7763-2s", Preset::Quick).len(), 2);
    // A machine that tells nothing.
    let mut silent = conditions("epyc-7763-2s", Preset::Standard);
    silent.host.cache.levels.clear();
    assert!(pairings(&silent).iter().all(|pairing| pairing.skip.is_some()));
}
