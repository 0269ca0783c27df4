use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::recorded;
use host::limits::Rlimit;
use record::event::Raw;
use record::key::Key;
use record::key::Value;
use session::fixtures::{params, smoke};
use std::os::fd::AsFd;

fn offered(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Offer {
    EXPERIMENT.series(site, &params(&CARD, preset, set)).expect("offers")
}

fn ids(offer: &Offer) -> Vec<String> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| case.id.to_string()).collect()
}

#[test]
fn quick_has_what_matters_most() {
    let site = recorded("vm-granite-rapids");
    let offer = offered(&site, Preset::Quick, &[]);
    assert_eq!(
        ids(&offer),
        [
            "via=pipe,parties=processes,pair=same",
            "via=pipe,parties=processes,pair=llc",
            "via=pipe,parties=threads,pair=same",
            "via=futex,parties=threads,pair=same",
            "via=yield,parties=processes",
            "via=ring,size=8,working_set=0",
        ]
    );
    assert_eq!(EXPERIMENT.derivable(&site, &offer.series), [ratio_of()]);
}

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    site.cpus.truncate(1);
    site.host.limits.open_files = Some(Rlimit { soft: Some(128), hard: Some(4096) });
    let offer = offered(&site, Preset::Thorough, &[]);
    let reason = |id: &str| {
        let mut skips = offer.skipped.iter();
        let found = skips.find(|(skipped, _)| skipped.to_string() == id);
        found.unwrap_or_else(|| panic!("{id} is offered")).1.clone()
    };
    assert!(reason("via=pipe,parties=processes,pair=llc").needed.is_some());
    let files = reason("via=ring,size=96,working_set=0").needed;
    assert!(files.is_some_and(|way| way.contains("ulimit -n 256")));
    assert!(ids(&offer).iter().all(|id| !id.contains("size=96")));
    assert!(ids(&offer).contains(&"via=ring,size=32,working_set=0".to_owned()));
    // A class that was asked for by name.
    let remote = offered(&site, Preset::Quick, &[("via", "pipe"), ("pair", "remote")]);
    assert!(remote.series.is_empty() && remote.skipped.len() == 2, "{:?}", remote.skipped);
}

#[test]
fn a_chosen_mechanism_has_its_own_parameters_and_no_others() {
    let site = recorded("vm-granite-rapids");
    let of = |via: &str| ids(&offered(&site, Preset::Quick, &[("via", via)]));
    assert_eq!(of("first_run"), ["via=first_run"]);
    assert_eq!(of("ring"), ["via=ring,size=8,working_set=0"]);
    assert_eq!(of("yield"), ["via=yield,parties=processes", "via=yield,parties=threads"]);
    assert_eq!(of("eventfd")[0], "via=eventfd,parties=processes,pair=same");
}

#[test]
fn a_row_is_a_setting_that_costs_time() {
    let site = recorded("vm-granite-rapids");
    let offer =
        |row: &str| offered(&site, Preset::Quick, &[("via", "pipe,first_run"), ("row", row)]);
    let (auto, long) = (offer("auto"), offer("512"));
    assert_eq!(ids(&auto), ids(&long));
    let of = |offer: &Offer, name: &str| {
        let mut series = offer.series.iter();
        let found = series.find(|series| series.name == name).expect("is there");
        (row(found), EXPERIMENT.round_cost(&site, found))
    };
    assert_eq!(of(&auto, "first_run"), of(&long, "first_run"));
    let ((one, short_cost), (row, long_cost)) = (of(&auto, "pairs"), of(&long, "pairs"));
    assert_eq!((one, row), (1, 512));
    // Of processes on one CPU and on two, and of threads on one.
    let rows = (2 * NEAR + FAR) * (512 * 2 * 36);
    assert_eq!(long_cost, short_cost + rows);
    let cases = long.series.iter().flat_map(|series| &series.cases);
    assert!(cases.clone().any(|case| case.int("row") == Some(512)));
}

fn known_calls() -> Known {
    let mut known = Known::default();
    for (call, ns) in [("getpid", 60.0), ("sched_yield", 150.0)] {
        let id = CaseId::new().with("call", call);
        known.insert(Key::new("os.syscall", &id, "latency"), ns);
    }
    known
}

#[test]
fn the_derived_prediction_comes_from_what_os_syscall_measured() {
    let site = &recorded("vm-granite-rapids");
    let case = Case::new(same_cpu(Parties::Processes));
    let of = |known: &Known, case: &Case, metric: usize| {
        let told = EXPERIMENT.predict(site, Some(known), case, &CARD.metrics[metric]);
        told.map(|prediction| prediction.range.expect("a range"))
    };
    assert!(of(&Known::default(), &case, 0).is_none());
    let known = known_calls();
    let [handover, one_party, switch] =
        [0, 1, 2].map(|metric| of(&known, &case, metric).expect("told"));
    assert!((handover.likely - one_party.likely - switch.likely).abs() < 1e-9);
    assert!(one_party.low > 120.0 && one_party.low < one_party.likely);
    // A yield is one call, a working set costs both parties.
    let yields = Case::new(CaseId::new().with("via", "yield").with("parties", "processes"));
    assert_eq!(of(&known, &yields, 1).expect("told").likely, 150.0);
    let ring = |working_set: u64| {
        let id = CaseId::new().with("via", "ring").with("size", 16);
        let case = Case::new(id.with("working_set", working_set));
        [1, 2].map(|metric| of(&known, &case, metric).expect("told").likely)
    };
    let (empty, full) = (ring(0), ring(65_536));
    assert!(full[0] > empty[0] && full[1] > empty[1], "{empty:?} {full:?}");
    // More processes than the processor keeps apart in its TLB.
    assert!(empty[0] == one_party.likely && empty[1] > 1.3 * switch.likely);
}

#[test]
fn an_emptied_tlb_costs_processes_and_not_threads() {
    let likely = |site: &Site, parties: Parties| {
        let case = Case::new(same_cpu(parties));
        let told = EXPERIMENT.predict(site, None, &case, &CARD.metrics[2]);
        told.and_then(|told| told.range).expect("a range").likely
    };
    let site = recorded("epyc-7763-2s");
    let mut old = recorded("epyc-7763-2s");
    old.host.kernel.release = Some("3.2.0-54-generic".to_owned());
    let mut without = recorded("epyc-7763-2s");
    without.host.cpu.flags.retain(|flag| flag != "pcid");
    for changed in [old, without] {
        let [processes, threads] = [Parties::Processes, Parties::Threads]
            .map(|of| likely(&changed, of) / likely(&site, of));
        assert!(processes > 1.3 && threads == 1.0, "{processes} {threads}");
    }
}

#[test]
fn the_ratio_is_derived_from_both_switches() {
    let site = recorded("vm-granite-rapids");
    let of = |processes: f64, threads: f64| {
        let mut values = Known::default();
        for (parties, ns) in [(Parties::Processes, processes), (Parties::Threads, threads)] {
            values.insert(Key::new(CARD.id, &same_cpu(parties), "switch"), ns);
        }
        EXPERIMENT.derive(&site, &Known::default(), &values)
    };
    let derived = of(900.0, 600.0);
    assert_eq!((derived.len(), derived[0].value), (1, 1.5));
    assert_eq!(derived[0].case, ratio_of());
    assert!(of(900.0, -3.0).is_empty());
}

/// A circle on this machine's first CPUs, in a thread of its own because the measuring party is
/// pinned.
fn on_circle<T: Send>(
    via: Via,
    kind: Parties,
    size: usize,
    other: bool,
    check: impl FnOnce(&mut Circle) -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            let allowed = metal::place::allowed().expect("CPUs");
            metal::place::pin(allowed[0]).expect("pins");
            let second = if other { *allowed.last().expect("a CPU") } else { allowed[0] };
            let mut cpus = vec![second; size];
            cpus[0] = allowed[0];
            let plan =
                Plan { via, kind, cpus, patient: size > 2 || via == Via::Yield, working_set: 4096 };
            let mut circle = Circle::form(&plan).expect("forms");
            let outcome = check(&mut circle);
            circle.end().expect("all end well");
            outcome
        });
        work.join().expect("does not panic")
    })
}

#[test]
fn the_token_goes_round_by_every_mechanism_and_hand_overs_are_counted() {
    for via in [Via::Pipe, Via::Futex, Via::Eventfd, Via::Yield] {
        for kind in [Parties::Processes, Parties::Threads] {
            for (size, other) in [(2, false), (2, true), (3, false)] {
                if via == Via::Yield && (other || size > 2) {
                    continue;
                }
                let counted = on_circle(via, kind, size, other, |circle| {
                    let before = circle.switches().expect("counts");
                    circle.laps(40).expect("goes round");
                    circle.alone(10).expect("alone");
                    let after = circle.switches().expect("counts");
                    timing::Counted::between(&before, &after)
                });
                // The laps, the one that reports, and where parties are put to rest those.
                let laps = if via == Via::Yield { 43 } else { 41 };
                assert_eq!(counted.handovers, laps * size as u64, "{via:?} {kind:?}");
                assert!(counted.voluntary + counted.involuntary > 0);
            }
        }
    }
}

#[test]
fn a_party_that_cannot_be_pinned_is_told_at_once() {
    let error = std::thread::spawn(|| {
        let cpu = metal::place::allowed().expect("CPUs")[0];
        metal::place::pin(cpu).expect("pins");
        let cpus = vec![cpu, 100_000];
        let plan = Plan {
            via: Via::Futex,
            kind: Parties::Processes,
            cpus,
            patient: false,
            working_set: 0,
        };
        Circle::form(&plan).err().expect("there is no such CPU").to_string()
    });
    let error = error.join().expect("does not panic");
    assert!(error.contains("party 1 could not be pinned to CPU 100000"), "{error}");
}

#[test]
fn it_measures_both_sides_and_their_difference() {
    let samples = smoke(&EXPERIMENT);
    for each in samples.iter().filter(|samples| samples.metric == "switch") {
        let of = |metric: &str| {
            let mut same = samples.iter().filter(|other| other.case == each.case);
            let found = same.find(|other| other.metric == metric).expect("measured");
            assert!(matches!(found.raw, Raw::Quartets { .. }));
            found.raw.samples()
        };
        let (handover, one_party) = (of("handover"), of("one_party"));
        for (index, difference) in each.raw.samples().iter().enumerate() {
            let expected = handover[index] - one_party[index];
            let tolerance = 1e-3 * handover[index].abs() + 0.2;
            assert!((difference - expected).abs() < tolerance, "{}", each.case);
        }
        assert!(each.at.get("cpu").and_then(Value::int).is_some());
    }
    // The only figure of a first run is its hand-over.
    let site = recorded("vm-granite-rapids");
    let case = Case::new(CaseId::new().with("via", "first_run"));
    let ranges = CARD.metrics.iter().filter(|metric| !metric.derived).map(|metric| {
        let told = EXPERIMENT.predict(&site, None, &case, metric).expect("told");
        told.range.is_some()
    });
    assert_eq!(ranges.collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn no_party_outlives_a_worker_that_is_killed() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let worker = metal::process::Child::fork(|| {
        let cpu = metal::place::current_cpu();
        if metal::place::pin(cpu).is_err() {
            return 1;
        }
        let plan = Plan {
            via: Via::Pipe,
            kind: Parties::Processes,
            cpus: vec![cpu; 8],
            patient: true,
            working_set: 0,
        };
        let Ok(mut circle) = Circle::form(&plan) else {
            return 1;
        };
        if std::io::Write::write_all(&mut writer, b"x").is_err() {
            return 1;
        }
        while circle.laps(1).is_ok() {}
        1
    })
    .expect("forks");
    drop(writer);
    let mut byte = [0; 2];
    let mut read = || metal::raw::read(reader.as_fd(), &mut byte).expect("reads");
    assert_eq!(read(), 1, "the circle runs");
    // Dropping kills it, as the session kills a worker.
    drop(worker);
    // Every party has the pipe's other end: its end of file means that the last one is gone.
    let gone = metal::wait::readable(reader.as_fd(), Duration::from_secs(30)).expect("polls");
    assert!(gone, "a party is left");
    assert_eq!(read(), 0);
}
