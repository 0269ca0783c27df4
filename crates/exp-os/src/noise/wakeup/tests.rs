use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::{bare_site, recorded};
use host::limits::{CpuQuota, Rlimit};
use record::event::Raw;
use record::key::CaseId;
use session::fixtures::{offered, params, smoke};

#[test]
fn what_a_user_asks_for_is_where_the_steps_begin() {
    let asked = offered(
        &EXPERIMENT,
        &recorded("vm-granite-rapids"),
        Preset::Standard,
        &[("policy", "fifo"), ("idle_states", "held_off"), ("load", "idle")],
    );
    let asked: Vec<_> = asked.series.iter().flat_map(|series| &series.cases).collect();
    assert!(asked.iter().all(|case| case.id.get("slack").is_none()));
    assert_eq!(asked.len(), 3, "both clocks at 1 ms, one at 100 ms");
}

/// The reason of a skipped case of which all `words` are part.
fn reason(offer: &Offer, words: &[&str]) -> Option<Skip> {
    let has = |id: &CaseId| words.iter().all(|word| id.to_string().contains(word));
    let mut skipped = offer.skipped.iter();
    skipped.find(|(id, _)| has(id)).map(|(_, skip)| skip.clone())
}

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    site.cpus.truncate(1);
    site.host.kernel.euid = Some(1000);
    site.host.cpu.idle_states.truncate(1);
    let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[]);
    for (words, has_a_way) in [
        (&["load=others", "policy=other,slack=default,idle_states=allowed"][..], true),
        (&["policy=fifo", "load=idle"], true),
        // It only polls.
        (&["held_off", "policy=other", "load=idle"], false),
    ] {
        assert_eq!(reason(&offer, words).map(|skip| skip.needed.is_some()), Some(has_a_way));
    }
    assert!(offer.series.iter().all(|series| series.name == "other-allowed"));
    // The limit suffices, or there is none, or root needs none.
    for (limit, euid) in [(Some(80), 1000), (None, 1000), (Some(0), 0)] {
        site.host.limits.realtime_priority = Some(Rlimit { soft: limit, hard: None });
        site.host.kernel.euid = Some(euid);
        let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[]);
        assert_eq!(reason(&offer, &["policy=fifo", "idle_states=allowed,load=idle"]), None);
        assert!(offer.series.iter().any(|series| series.name == "fifo-allowed"));
    }
    site.host.kernel.rt_runtime_us = Some(0);
    let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[]);
    assert!(reason(&offer, &["policy=fifo", "load=idle"]).is_some(), "they never run");
}

#[test]
fn a_quota_that_spinners_would_use_up_leaves_them_out() {
    let mut site = recorded("epyc-7763-2s");
    site.cpus.truncate(4);
    let mut quota = |cpus: u64| {
        site.host.limits.cpu_quota = Some(CpuQuota { quota_us: cpus * 50_000, period_us: 100_000 });
        let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
        let is_out = |load| reason(&offer, &[load]).is_some_and(|skip| skip.needed.is_some());
        [is_out("load=idle"), is_out("load=same"), is_out("load=others")]
    };
    assert_eq!(quota(1), [false, true, true]);
    assert_eq!(quota(2), [false, false, true]);
    assert_eq!(quota(6), [false, false, false]);
}

#[test]
fn nothing_that_is_allowed_is_a_skip_of_all() {
    let mut site = bare_site();
    site.cpus.truncate(1);
    let params = params(&CARD, Preset::Quick, &[("load", "others")]);
    EXPERIMENT.series(&site, &params).expect_err("one CPU");
}

#[test]
fn a_series_without_the_rights_is_refused_before_its_first_round() {
    let site = recorded("epyc-7763-2s");
    let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[("spacing", "1ms")]);
    for series in offer.series {
        let name = series.name.clone();
        match EXPERIMENT.resolve(&site, &Known::default(), series.clone()) {
            Ok(resolved) => assert_eq!(resolved, series),
            Err(skip) => {
                assert_ne!(name, "other-allowed", "it needs no right");
                assert!(!skip.reason.is_empty());
            }
        }
    }
}

#[test]
fn missed_points_are_those_that_had_passed() {
    let wakeup = |intended_ns, actual_ns| Wakeup { intended_ns, actual_ns };
    let late = [
        wakeup(100, 105),
        // Two spacings late: the next two have passed, the one after them has not.
        wakeup(200, 405),
        wakeup(300, 406),
        wakeup(400, 407),
        wakeup(500, 501),
    ];
    assert_eq!(missed(&late), 2);
    assert_eq!(missed(&late[..2]), 0);
    // In the moment in which it is due nobody could sleep to it any more.
    assert_eq!(missed(&[wakeup(100, 200), wakeup(200, 203)]), 1);
    assert_eq!(missed(&[]), 0);
}

#[test]
fn a_window_has_every_point_of_its_grid_on_either_clock() {
    for &clock in GridClock::ALL {
        let sleep = Sleep { clock, slack: Some(Slack::Least), ..Sleep::plain(200_000) };
        let window = sleep_along(&sleep, 5).expect("sleeps");
        assert_eq!((window.wakeups.len(), window.lead), (30, 25));
        assert_eq!(window.slack_ns, 1);
        for two in window.wakeups.windows(2) {
            assert_eq!(two[1].intended_ns - two[0].intended_ns, 200_000);
            assert!(two[1].late_ns() >= 0 && two[1].actual_ns >= two[0].actual_ns);
        }
        assert!(window.voluntary >= 1, "nobody slept");
    }
    assert_ne!(timer_slack_ns().expect("is told"), 1, "it is put back");
}

#[test]
fn a_clock_that_goes_elsewhere_is_noticed() {
    // CPU time stands still while its thread sleeps: against the monotonic clock it is set back.
    let before = beyond_ns(Clock::THREAD_CPU);
    std::thread::sleep(Duration::from_millis(2));
    assert!(beyond_ns(Clock::THREAD_CPU) - before < -1_000_000);
    let monotonic = beyond_ns(Clock::MONOTONIC);
    assert!(monotonic.abs() < 1_000_000, "{monotonic}");
}

#[test]
fn one_round_of_everything() {
    let all = smoke(&EXPERIMENT);
    let late: Vec<_> = all.iter().filter(|samples| samples.metric == "latency").collect();
    assert_eq!((all.len(), late.len()), (4, 2));
    for samples in late {
        let Raw::Event { values } = &samples.raw else {
            panic!("latencies are events");
        };
        assert_eq!(values.len(), plan::REHEARSAL_SLEEPS);
        // No wake-up is early, and reading a clock takes time.
        assert!(values.iter().all(|ns| *ns > 0.0), "{values:?}");
        assert!(samples.quantities["timer_slack_ns"] >= 1.0);
    }
}
