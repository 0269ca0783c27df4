use super::*;
use bench::experiment::fixtures::bare_site;
use bench::experiment::fixtures::recorded;
use record::key::Key;

const SERVICES: [Service; 4] =
    [Service::READ_PAGE, Service::YIELD, Service::MAP, Service::FUTEX_WAKE];

/// A bare machine of 4 GHz whose kernel says this about these vulnerabilities.
fn mitigated(texts: &[(&str, &str)]) -> Site {
    let mut site = bare_site();
    site.host.kernel.virtualisation.is_guest = Some(false);
    site.host.cpu.cpuid_frequency.max_hz = Some(4_000_000_000);
    site.host.kernel.clock_source.current = Some("tsc".to_owned());
    site.host.kernel.mitigations =
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    site
}

fn known(call_ns: f64) -> Known {
    let mut known = Known::default();
    let case = CaseId::new().with("clock", "clock_gettime_syscall");
    known.insert(Key::new("clock.read", &case, "cost"), call_ns);
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.5e9);
    known
}

fn width(estimate: &Law) -> f64 {
    let Range { low, likely, high } = estimate.range;
    assert!(0.0 < low && low <= likely && likely <= high && high.is_finite(), "{estimate:?}");
    high / low
}

#[test]
fn every_service_has_an_ordered_interval_everywhere() {
    let mut guest = bare_site();
    guest.host.kernel.virtualisation.is_guest = Some(true);
    for site in [bare_site(), guest, mitigated(&[("meltdown", "Mitigation: PTI")])] {
        for known in [None, Some(&known(135.0))] {
            for service in SERVICES {
                width(&system_call(&site, known, service));
            }
            width(&clock_by_library(&site, known));
            width(&clock_by_call(&site, known));
            width(&seconds_by_library(&site, known));
            width(&ring_nop(&site, known, 32));
            width(&first_call_of_child(&site, known));
        }
    }
}

#[test]
fn services_keep_their_width_on_a_machine_that_tells_its_state() {
    let site = mitigated(&[("meltdown", "Not affected"), ("spectre_v2", "Mitigation: Retpolines")]);
    for service in SERVICES {
        let wide = width(&system_call(&site, None, service));
        assert!(wide <= 4.0, "{service:?}: {wide}");
    }
}

#[test]
fn every_mitigation_costs_and_is_named() {
    let likely = |texts: &[(&str, &str)]| entry(&mitigated(texts), None).range.likely;
    let none = likely(&[("meltdown", "Not affected")]);
    for (name, text, word) in [
        ("meltdown", "Mitigation: PTI", "page-table isolation"),
        ("spectre_v2", "Mitigation: Retpolines; STIBP: disabled", "retpolines"),
        ("spectre_v2", "Mitigation: IBRS; IBPB: conditional", "IBRS"),
        ("retbleed", "Mitigation: untrained return thunk; SMT vulnerable", "untrained"),
        ("spec_rstack_overflow", "Mitigation: Safe RET", "safe returns"),
        ("mds", "Mitigation: Clear CPU buffers; SMT vulnerable", "buffers"),
        ("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; BHI: SW loop", "history"),
    ] {
        assert!(likely(&[(name, text)]) > none, "{text}");
        let because = entry(&mitigated(&[(name, text)]), None).because();
        assert!(because.contains(word), "{because}");
    }
    // Words of later clauses are not the mode, whichever way the kernel parts them.
    let retpolines = likely(&[("spectre_v2", "Mitigation: Retpolines")]);
    let clauses =
        "Mitigation: Retpolines; STIBP: disabled; PBRSB-eIBRS: Not affected; BHI: Retpoline";
    assert_eq!(likely(&[("spectre_v2", clauses)]), retpolines);
    let commas =
        "Mitigation: Retpolines, IBPB: conditional, IBRS_FW, STIBP: always-on, RSB filling";
    assert_eq!(likely(&[("spectre_v2", commas)]), retpolines);
    let open = "Vulnerable: eIBRS with unprivileged eBPF";
    assert_eq!(likely(&[("spectre_v2", open)]), none);
    let enhanced =
        likely(&[("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional")]);
    assert_eq!(enhanced, none);
}

#[test]
fn a_kernel_that_parts_clauses_by_commas_is_read_right() {
    let because = entry(&recorded("epyc-7763-2s"), None).because();
    assert!(because.contains("retpolines") && !because.contains("IBRS"), "{because}");
}

#[test]
fn what_the_kernel_hides_widens() {
    let told = entry(&mitigated(&[("meltdown", "Not affected")]), None);
    let hidden = entry(&mitigated(&[]), None);
    assert!(width(&hidden) > 2.0 * width(&told));
    assert!(hidden.because().contains("does not state its mitigations"));
    let mut filtered = mitigated(&[("meltdown", "Not affected")]);
    filtered.host.kernel.seccomp = Some(2);
    assert!(entry(&filtered, None).because().contains("seccomp"));
}

#[test]
fn the_measured_call_replaces_the_mitigations() {
    let site = mitigated(&[]);
    let derived = entry(&site, Some(&known(135.0)));
    assert!(derived.because().contains("measured by clock.read"), "{}", derived.because());
    assert!((derived.range.likely - (135.0 - 155.0 / 3.5)).abs() < 0.1);
    assert!(width(&derived) < width(&entry(&site, None)));
    let slow = entry(&site, Some(&known(20.0)));
    assert!(
        !slow.because().contains("measured"),
        "a call that fast tells nothing: {}",
        slow.because()
    );
}

#[test]
fn the_way_in_starts_from_the_call_that_is_nothing_else() {
    let guarded = [("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode")];
    for (texts, clock_ns, likely) in
        [(&guarded[..], 244.0, 244.0 - 395.0 / 3.5), (&[], 135.0, 135.0 - 155.0 / 3.5)]
    {
        let site = mitigated(texts);
        let mut known = known(clock_ns);
        let from_clock = entry(&site, Some(&known)).range;
        assert!((from_clock.likely - likely).abs() < 0.1, "{from_clock:?}");
        let getpid = CaseId::new().with("call", "getpid");
        known.insert(Key::new("os.syscall", &getpid, "latency"), 138.0);
        assert_eq!(entry(&site, Some(&known)).range.likely, 138.0);
    }
}

#[test]
fn a_device_as_clock_source_is_a_system_call_and_its_read() {
    let mut site = mitigated(&[("meltdown", "Not affected")]);
    let fast = clock_by_library(&site, None).range.likely;
    site.host.kernel.clock_source.current = Some("hpet".to_owned());
    assert!(falls_back(&site));
    let slow = clock_by_library(&site, None);
    assert!(slow.range.likely > 10.0 * fast, "{slow:?}");
    assert!(entry(&site, Some(&known(1500.0))).because().contains("base hardware"));
}

#[test]
fn a_batch_shares_its_way_in() {
    let site = mitigated(&[("meltdown", "Mitigation: PTI")]);
    let (one, many) = (ring_nop(&site, None, 1), ring_nop(&site, None, 64));
    assert!(many.range.likely < one.range.likely / 2.0);
}
