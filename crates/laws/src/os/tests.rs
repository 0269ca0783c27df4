use super::*;
use bench::experiment::fixtures::{self, bare_site, recorded};
use record::key::Key;

/// A bare machine of 4 GHz whose kernel says this about these vulnerabilities.
fn mitigated(texts: &[(&str, &str)]) -> Site {
    let mut site = bare_site();
    site.host.kernel.virtualisation.is_guest = Some(false);
    site.host.cpu.cpuid_frequency.max_hz = Some(4_000_000_000);
    site.host.kernel.clock_source.current = Some("tsc".to_owned());
    site.host.kernel.release = Some("6.8.0".to_owned());
    site.host.kernel.mitigations =
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    site
}

fn known(call_ns: f64) -> Known {
    fixtures::known(&[
        ("clock.read", "clock=clock_gettime_syscall", "cost", call_ns),
        ("clock.rate", "", "core_frequency", 3.5e9),
    ])
}

fn width(estimate: &Law) -> f64 {
    let Range { low, likely, high } = estimate.range;
    assert!(0.0 < low && low <= likely && likely <= high && high.is_finite(), "{estimate:?}");
    high / low
}

#[test]
fn work_of_a_kernel_of_unknown_version_is_less_certain() {
    let known = mitigated(&[]);
    let mut unknown = known.clone();
    unknown.host.kernel.release = None;
    let [known, unknown] = [&known, &unknown].map(|site| {
        let facts = Facts::prior(site);
        Section { facts, name: "net", count: &|_| 1.0, time: &|_| entry(facts) }.law(&["SLEEP"])
    });
    assert_eq!(unknown.range.likely, known.range.likely);
    assert!((width(&unknown) / width(&known) - VERSIONS * VERSIONS).abs() < 1e-9);
}

fn named(site: &Site) -> Vec<&'static str> {
    let words = Words(&site.host);
    mitigations(&words).collect()
}

#[test]
fn every_mitigation_costs_and_is_told_from_words_of_later_clauses() {
    let (isolated, ibrs) = ("page-table isolation without PCID", "IBRS written at entry and exit");
    for (name, text, expected) in [
        ("meltdown", "Not affected", None),
        ("meltdown", "Mitigation: PTI", Some(isolated)),
        ("spectre_v2", "Mitigation: Retpolines; STIBP: disabled", Some("retpolines")),
        ("spectre_v2", "Mitigation: IBRS; IBPB: conditional", Some(ibrs)),
        (
            "retbleed",
            "Mitigation: untrained return thunk; SMT vulnerable",
            Some("untrained returns"),
        ),
        ("spec_rstack_overflow", "Mitigation: Safe RET", Some("safe returns")),
        ("mds", "Mitigation: Clear CPU buffers; SMT vulnerable", Some("buffers cleared at exit")),
        (
            "spectre_v2",
            "Mitigation: Enhanced / Automatic IBRS; BHI: SW loop",
            Some("branch history cleared"),
        ),
        // Words of later clauses are not the mode, whichever way the kernel parts them.
        (
            "spectre_v2",
            "Mitigation: Retpolines; STIBP: disabled; PBRSB-eIBRS: Not affected; BHI: Retpoline",
            Some("retpolines"),
        ),
        (
            "spectre_v2",
            "Mitigation: Retpolines, IBPB: conditional, IBRS_FW, STIBP: always-on, RSB filling",
            Some("retpolines"),
        ),
        ("spectre_v2", "Vulnerable: eIBRS with unprivileged eBPF", None),
        ("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional", None),
    ] {
        let site = mitigated(&[(name, text)]);
        assert_eq!(named(&site), Vec::from_iter(expected), "{text}");
        let law = entry(Facts::prior(&site));
        let none = entry(Facts::prior(&mitigated(&[("meltdown", "Not affected")])));
        assert_eq!(law.range.likely > none.range.likely, expected.is_some(), "{text}");
        let prediction = law.prediction();
        let isolates = prediction.conditions.contains(&Condition::PageTableIsolation);
        assert_eq!(isolates, expected == Some(isolated));
        assert!(prediction.shares.is_some(), "hardware and software are known apart");
    }
    let milan = named(&recorded("epyc-7763-2s"));
    assert!(milan.contains(&"retpolines") && !milan.contains(&ibrs), "{milan:?}");
}

#[test]
fn what_the_kernel_hides_widens() {
    let told = entry(Facts::prior(&mitigated(&[("meltdown", "Not affected")])));
    let hidden = entry(Facts::prior(&mitigated(&[])));
    assert!(width(&hidden) > 2.0 * width(&told));
    let mut filtered = mitigated(&[("meltdown", "Not affected")]);
    filtered.host.kernel.seccomp = Some(2);
    let filtered = entry(Facts::prior(&filtered)).prediction();
    assert!(filtered.conditions.contains(&Condition::Seccomp));
}

#[test]
fn the_way_in_starts_from_the_call_that_is_nothing_else() {
    let guarded = [("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode")];
    for (texts, clock_ns) in [(&guarded[..], 244.0), (&[], 135.0)] {
        let site = mitigated(texts);
        let mut all = known(clock_ns);
        let prior = entry(Facts::prior(&site));
        let at = |known: &Known| entry(Facts { site: &site, known: Some(known) });
        let from_clock = at(&all);
        // Less what the clock does, which fitted coefficients say.
        let likely = from_clock.range.likely;
        assert!(likely < clock_ns && likely > clock_ns / 3.0, "{from_clock:?}");
        assert!(width(&from_clock) < width(&prior));
        let fast = known(20.0);
        let stated = stated_entry(Facts { site: &site, known: Some(&fast) });
        assert_eq!(at(&fast), stated, "a call that fast says nothing");
        let getpid = CaseId::new().with("call", "getpid");
        all.insert(Key::new("os.syscall", &getpid, "latency"), 138.0);
        assert_eq!(at(&all).range.likely, 138.0);
    }
}

#[test]
fn a_device_as_clock_source_is_a_system_call_and_its_read() {
    let mut site = mitigated(&[("meltdown", "Not affected")]);
    let fast = clock_by_library(Facts::prior(&site)).range.likely;
    site.host.kernel.clock_source.current = Some("hpet".to_owned());
    assert!(falls_back(&site));
    let slow = clock_by_library(Facts::prior(&site));
    assert!(slow.range.likely > 10.0 * fast, "{slow:?}");
    let facts = Facts { site: &site, known: Some(&known(1500.0)) };
    assert_eq!(entry(facts), stated_entry(facts), "its time is the device's");
}

#[test]
fn a_host_that_polls_wakes_its_guest_sooner_in_short_gaps_alone() {
    let mut site = recorded("vm-granite-rapids");
    assert_eq!(site.host.cpu.idle_driver.as_deref(), Some("haltpoll"));
    let woken =
        |site: &Site| work::guest_wake(site, Law::from_range(range(1.0, 2.0, 3.0), "a halt"));
    let waking = woken(&site);
    assert!(waking.because().contains("not to poll"), "{}", waking.because());
    assert_eq!(work::polled(&site, 0.0), 1.0, "the guest asks its host not to");
    site.host.cpu.idle_driver = None;
    assert_eq!(work::polled(&site, 0.0), 1.0, "nothing is known");
    site.host.cpu.idle_driver = Some("none".to_owned());
    let (short, long) = (work::polled(&site, 100_000.0), work::polled(&site, 1_000_000.0));
    assert!(short < 0.5 && long == 1.0, "{short} {long}");
    let polled = woken(&site);
    assert_eq!(polled.range, waking.times(short).range);
    assert!(polled.because().contains("the host polls 200 µs"), "{}", polled.because());
    site.host.kernel.virtualisation.hypervisor = Some("Xen".to_owned());
    assert_eq!(work::polled(&site, 0.0), 1.0, "another hypervisor");
}
