use super::*;
use bench::experiment::fixtures::recorded;
use host::limits::Rlimit;
use record::event::Raw;
use session::fixtures::{offered, skipped, smoke};

#[test]
fn what_a_site_lacks_is_skipped() {
    let skips = |site: &Site| skipped(&offered(&EXPERIMENT, site, Standard, &[]));
    let mut site = recorded("vm-granite-rapids");
    site.host.kernel.release = Some("4.19.0-26-amd64".to_owned());
    assert_eq!(skips(&site), ["call=uring_nop"]);
    site.host.kernel.release = Some("6.1".to_owned());
    site.host.limits.open_files = Some(Rlimit { soft: Some(128), hard: Some(4096) });
    assert_eq!(skips(&site), ["call=open", "call=close"]);
    site.host.limits.open_files = None;
    site.host.cpu.arch = Arch::Aarch64;
    assert_eq!(skips(&site), ["call=time_raw"]);
    // A sandbox that forbids it.
    site.host.cpu.arch = Arch::X86_64;
    site.host.kernel.has_rings = Some(false);
    assert_eq!(skips(&site), ["call=uring_nop"]);
}

#[test]
fn pools_are_recorded_as_quartets() {
    let samples = smoke(&EXPERIMENT);
    for call in ["open", "close"] {
        let raw =
            samples.iter().find(|one| one.case.text("call") == Some(call)).map(|one| &one.raw);
        let Some(Raw::Quartets { k: 64, n, two_n, .. }) = raw else { panic!("{call} is {raw:?}") };
        assert!(n.len() == two_n.len() && n.iter().chain(two_n).all(|sum| *sum > 0.0));
    }
}
