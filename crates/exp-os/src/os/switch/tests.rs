use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::recorded;
use host::limits::Rlimit;
use record::key::{Key, Value};
use session::fixtures::{ids, offered, skipped, smoke};
use std::os::fd::AsFd;

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    site.cpus.truncate(1);
    site.host.limits.open_files = Some(Rlimit { soft: Some(128), hard: Some(4096) });
    let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[]);
    assert!(offer.skipped.iter().all(|(_, skip)| skip.needed.is_some()));
    let (skipped, offered_ids) = (skipped(&offer), ids(&offer));
    assert!(skipped.contains(&"via=pipe,parties=processes,pair=llc".to_owned()));
    assert!(skipped.contains(&"via=ring,size=96,working_set=0".to_owned()));
    assert!(offered_ids.iter().all(|id| !id.contains("size=96")));
    assert!(offered_ids.contains(&"via=ring,size=32,working_set=0".to_owned()));
    // A class that was asked for by name.
    let remote = offered(&EXPERIMENT, &site, Preset::Quick, &[("via", "pipe"), ("pair", "remote")]);
    assert!(remote.series.is_empty() && remote.skipped.len() == 2, "{:?}", remote.skipped);
}

#[test]
fn a_chosen_mechanism_has_its_own_parameters_and_no_others() {
    let site = recorded("vm-granite-rapids");
    let of = |via: &str| ids(&offered(&EXPERIMENT, &site, Preset::Quick, &[("via", via)]));
    assert_eq!(of("first_run"), ["via=first_run"]);
    assert_eq!(of("ring"), ["via=ring,size=8,working_set=0"]);
    assert_eq!(of("yield"), ["via=yield,parties=processes", "via=yield,parties=threads"]);
    assert_eq!(of("eventfd")[0], "via=eventfd,parties=processes,pair=same");
}

#[test]
fn a_row_is_a_setting_that_costs_time() {
    let site = recorded("vm-granite-rapids");
    let offer = |row: &str| {
        offered(&EXPERIMENT, &site, Preset::Quick, &[("via", "pipe,first_run"), ("row", row)])
    };
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

#[test]
fn an_emptied_tlb_costs_processes_and_not_threads() {
    let likely = |site: &Site, parties: Parties| {
        let case = Case::new(same_cpu(parties));
        let told = EXPERIMENT.unscaled(site, None, &case, &CARD.metrics[2]);
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
fn a_ratio_over_nothing_is_no_figure() {
    let mut values = Known::default();
    for (parties, ns) in [(Parties::Processes, 900.0), (Parties::Threads, -3.0)] {
        values.insert(Key::new(CARD.id, &same_cpu(parties), "switch"), ns);
    }
    let site = recorded("vm-granite-rapids");
    assert!(EXPERIMENT.derive(&site, &Known::default(), &values).is_empty());
}

/// Hand-overs of a circle that are counted on this machine's first CPUs.
fn counted(via: Via, kind: Parties, size: usize, other: bool) -> circle::Switches {
    let allowed = metal::place::allowed().expect("CPUs");
    metal::place::pin(allowed[0]).expect("pins");
    let mut cpus = vec![if other { allowed[allowed.len() - 1] } else { allowed[0] }; size];
    cpus[0] = allowed[0];
    let patient = size > 2 || via == Via::Yield;
    let mut circle =
        Circle::form(&Plan { via, kind, cpus, patient, working_set: 4096 }).expect("forms");
    let before = circle.switches().expect("counts");
    circle.laps(40).expect("goes round");
    circle.alone(10).expect("alone");
    let after = circle.switches().expect("counts");
    circle.end().expect("all end well");
    after.since(&before)
}

#[test]
fn the_token_goes_round_by_every_mechanism_and_hand_overs_are_counted() {
    for via in [Via::Pipe, Via::Futex, Via::Eventfd, Via::Yield] {
        for &kind in Parties::ALL {
            for (size, other) in [(2, false), (2, true), (3, false)] {
                let is_ring = size > 2;
                if via == Via::Yield && (other || is_ring) || kind == Parties::Threads && is_ring {
                    continue;
                }
                // In a thread of its own, because the measuring party is pinned.
                let work = std::thread::spawn(move || counted(via, kind, size, other));
                let counted = work.join().expect("does not panic");
                // The laps, the one that reports, and where parties are put to rest those.
                let laps = if via == Via::Yield { 43 } else { 41 };
                assert_eq!(counted.handovers, laps * size as u64, "{via:?} {kind:?}");
                assert!(counted.voluntary + counted.involuntary > 0);
            }
        }
    }
}

#[test]
fn it_measures_both_sides_and_their_difference() {
    let samples = smoke(&EXPERIMENT);
    for each in samples.iter().filter(|samples| samples.metric == "switch") {
        let of = |metric: &str| {
            let mut same = samples.iter().filter(|other| other.case == each.case);
            let found = same.find(|other| other.metric == metric).expect("measured");
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
