//! Made-up crosschecks for tests.

use crate::sample;
use record::crosscheck::{CROSSCHECK, Goal, Pair, Pairing, PairingEnd, Rival, Row};
use record::event::{Absence, End, Ending, Event, Footer};
use record::key::CaseId;
use record::run::Run;
use record::unit::Unit;

pub fn row(name: &str, goal: Goal) -> Row {
    Row {
        name: name.into(),
        experiment: "os.syscall".into(),
        case: CaseId::new().with("call", "getppid"),
        metric: "latency".into(),
        statistic: "value".into(),
        unit: Unit::Ns,
        goal,
        difference: "perf counts interrupts; plumb leaves such rounds out".into(),
    }
}

pub fn rival(name: &str) -> Rival {
    Rival {
        name: name.into(),
        about: format!("{name}: what the field uses"),
        package: Some("linux-perf".into()),
        version: Some("6.1.94".into()),
        absent: None,
    }
}

pub fn pairing(rival: &str, name: &str, rows: Vec<Row>) -> Pairing {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    Pairing {
        rival: rival.into(),
        name: name.into(),
        ours: words("plumb run os.syscall --set os.syscall.call=getppid --out DIR/ours.jsonl"),
        theirs: words("taskset -c 1 perf bench syscall basic"),
        inputs: Default::default(),
        prepare: Vec::new(),
        server: None,
        rows,
        once: false,
    }
}

pub fn pair(of: &Pairing, n: u32, ours: Vec<f64>, theirs: Vec<f64>) -> Pair {
    Pair {
        rival: of.rival.clone(),
        pairing: of.name.clone(),
        n,
        ours_first: n % 2 == 1,
        ours,
        theirs,
        ours_load: None,
        theirs_load: None,
    }
}

pub fn end(of: &Pairing, outcome: Ending, why: Option<&str>) -> PairingEnd {
    PairingEnd {
        rival: of.rival.clone(),
        pairing: of.name.clone(),
        outcome,
        reason: why.map(str::to_owned),
        needed: None,
    }
}

/// The events of a pairing of one row, whose turns have these ratios.
pub fn turns(of: &Pairing, ratios: &[f64]) -> Vec<Event> {
    let mut events = vec![Event::Pairing(of.clone())];
    for (n, ratio) in (1..).zip(ratios) {
        let rows = of.rows.len();
        events.push(Event::Pair(pair(of, n, vec![80.0 * ratio; rows], vec![80.0; rows])));
    }
    events
}

/// Ratios around a middle, scattered by 1 %.
pub fn around(middle: f64, turns: u32) -> Vec<f64> {
    (0..turns).map(|n| middle * (1.0 + 0.01 * f64::from(n % 3) - 0.01)).collect()
}

/// One of everything: met, missed, explained, without enough turns, failed with some, skipped, cut
/// off, a rival that is not here and one that has nothing to compare.
pub fn events() -> Vec<Event> {
    let measured = |of: &Pairing, ratios: &[f64]| {
        let mut events = turns(of, ratios);
        events.push(Event::PairingEnd(end(of, Ending::Measured, None)));
        events
    };
    let basic = pairing("perf", "syscall-basic", vec![row("", Goal::Agree)]);
    let mut slow = pairing("perf", "sched-pipe", vec![row("", Goal::AtMost)]);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    slow.inputs.insert("how.txt".into(), "fast\nsmall\n".into());
    slow.prepare = vec![words("taskset -c 1 dd if=/dev/zero of=FILES/file")];
    slow.server = Some(words("taskset -c 2 perf far-end"));
    let other = pairing(
        "perf",
        "mem-memcpy",
        vec![row("mean", Goal::Explained), row("best", Goal::AtLeast)],
    );
    let few = pairing("stress-ng", "fork", vec![row("", Goal::Agree)]);
    let failed = pairing("stress-ng", "vfork", vec![row("", Goal::Agree)]);
    let skipped = pairing("stress-ng", "fault", vec![row("", Goal::Agree)]);
    let cut = pairing("stress-ng", "pthread", vec![row("", Goal::Agree)]);
    let mut events = vec![Event::Rival(rival("perf"))];
    events.extend(measured(&basic, &around(1.01, 9)));
    events.extend(measured(&slow, &around(1.3, 9)));
    events.extend(measured(&other, &around(2.5, 9)));
    events.push(Event::Rival(rival("stress-ng")));
    events.extend(measured(&few, &around(1.0, 7)));
    events.extend(turns(&failed, &around(0.9, 2)));
    let died = "stress-ng: signal: 9 (SIGKILL): it said nothing";
    events.push(Event::PairingEnd(end(&failed, Ending::Failed, Some(died))));
    events.push(Event::Pairing(skipped.clone()));
    let needed = Some("run it as root".to_owned());
    let reason = "the kernel gives no huge pages";
    events.push(Event::PairingEnd(PairingEnd {
        needed,
        ..end(&skipped, Ending::Skipped, Some(reason))
    }));
    events.push(Event::Rival(Rival {
        version: None,
        absent: Some(Absence {
            reason: "no iozone in PATH".into(),
            needed: Some("no package: put it into PATH".into()),
        }),
        package: None,
        ..rival("iozone")
    }));
    events.push(Event::Rival(rival("ping")));
    events.push(Event::Rival(rival("sysbench")));
    let cut = Pairing { rival: "sysbench".into(), ..cut };
    events.extend(turns(&cut, &[1.0]));
    events
}

pub fn run_of_plumb() -> Run {
    let mut header = sample::header();
    header.options.preset = CROSSCHECK.into();
    header.run = "2026-11-22T19-00-00-lab-crosscheck".into();
    let mut run = Run::new(header);
    events().into_iter().for_each(|event| run.push(event));
    run.push(Event::Footer(Footer {
        finished: "2026-11-22T19:06:02Z".into(),
        elapsed_s: 362.0,
        end: End::Complete,
        counter_drift: None,
        eta_after_first_pass_s: None,
        session_cpu_s: 0.8,
        session_peak_bytes: 21 << 20,
        synced: Default::default(),
        programs: Vec::new(),
    }));
    run
}

pub fn added() -> Run {
    let mut run = sample::run();
    events().into_iter().for_each(|event| run.push(event));
    run
}
