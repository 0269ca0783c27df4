//! A synthetic run for the tests of analysis and report: small, and with one of everything that
//! can go right or wrong.

mod planned;
mod unanswered;

use planned::planned;
use record::event::{
    Absence, Bound, Calibration, Derived, End, Ending, Event, Footer, Header, Options, Outcome,
    Plan, Prediction, PredictionEvent, PredictionKind, Range, Raw, Repeat, Round, RoundStatus,
    Samples, Side, Trace,
};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::order::Gather;
use record::run::Run;
use record::unit::Unit;
use record::view::{Cases, View};
use std::collections::BTreeMap;

pub use unanswered::unanswered;

/// Core clock of the synthetic machine.
pub const CORE_HZ: f64 = 3.2e9;

const ROUNDS: u32 = 6;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Footprints of the ladder with the latency that the synthetic machine has there, in ns.
pub fn ladder() -> Vec<(u64, f64)> {
    (10..=27)
        .map(|power| {
            let footprint = 1_u64 << power;
            let latency_ns = match footprint {
                0..=32_768 => 1.25,
                32_769..=524_288 => 4.06,
                524_289..=16_777_216 => 14.7,
                33_554_432 => 71.3,
                _ => 94.8,
            };
            (footprint, latency_ns)
        })
        .collect()
}

pub fn rung(footprint: u64) -> CaseId {
    CaseId::new().with("pattern", "random").with("pages", "huge").with("footprint", footprint)
}

pub fn call(name: &str) -> CaseId {
    CaseId::new().with("call", name)
}

pub fn run() -> Run {
    changed(|_| {})
}

pub fn changed(mut change: impl FnMut(&mut Event)) -> Run {
    kept(|event| {
        change(event);
        true
    })
}

pub fn kept(mut keep: impl FnMut(&mut Event) -> bool) -> Run {
    let mut run = Run::new(header());
    for mut event in events() {
        if keep(&mut event) {
            run.push(event);
        }
    }
    run
}

pub fn events() -> Vec<Event> {
    let mut events = vec![Event::Plan(Box::new(plan()))];
    events.extend(predictions());
    for n in 1..=ROUNDS {
        events.extend(latency_round(n));
        events.extend(syscall_round(n));
        events.extend(pipe_round(n));
    }
    let void = RoundStatus::Void("the worker died of signal 9".into());
    events.push(round("os.syscall", 7, void, &[]));
    events.extend(rate_round());
    events.extend(derived());
    events.extend(outcomes());
    events.push(Event::Footer(Footer {
        finished: "2026-11-21T10:06:02Z".into(),
        elapsed_s: 362.0,
        end: End::Budget,
        counter_drift: Some(71e-6),
        eta_after_first_pass_s: Some(350.0),
        session_cpu_s: 0.8,
        session_peak_bytes: 21 << 20,
        synced: Default::default(),
        programs: Vec::new(),
    }));
    events
}

/// The header of the synthetic machine: a virtual one with mitigations.
pub fn header() -> Header {
    let environment = [
        ("governor", "performance"),
        ("kernel", "6.1.0-18-amd64"),
        ("thp", "madvise"),
        ("load_1m", "0.12"),
    ];
    Header {
        format: record::FORMAT,
        plumb: "0.1.0".into(),
        rustc: "rustc 1.95.0".into(),
        profile: "release".into(),
        target: "x86_64-unknown-linux-gnu".into(),
        target_features: "fxsr,sse,sse2".into(),
        build: "00f1e2d3c4b5a697".into(),
        run: "2026-11-21T10-00-00-lab".into(),
        started: "2026-11-21T10:00:00Z".into(),
        seed: 42,
        cpus: vec![1, 0],
        options: Options {
            preset: "standard".into(),
            budget_s: 360.0,
            precision: 0.02,
            ..Options::default()
        },
        identity: "5f3c9a7e11d0b264".into(),
        host: host(),
        environment: environment.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        peers: Vec::new(),
        estimates: Vec::new(),
        calibration: Calibration {
            width: None,
            source: "tsc".into(),
            counter_hz: 2.445e9,
            counter_error: 2e-6,
            windows_hz: vec![2.445e9; 10],
            resolution_ns: 0.41,
            pair_cost_ns: 18.2,
            vdso_falls_back: false,
            core_hz: CORE_HZ,
            core_source: "chains".into(),
            multiply_cycles: Some(3.0),
            cpu: 1,
            notes: vec![],
        },
    }
}

fn host() -> serde_json::Value {
    let cache = |level: u32, kind: &str, size: u64, ways: u32, sharers: u32| {
        serde_json::json!({ "level": level, "kind": kind, "size_bytes": size, "ways": ways,
            "line_bytes": 64, "sets": null, "shared_by": [], "sharers": sharers,
            "write_policy": "write-back", "inclusive": false })
    };
    serde_json::json!({
        "cpu": { "arch": "x86_64", "vendor": "AuthenticAMD", "family": 25, "model": 1,
            "model_name": "AMD EPYC 7763 64-Core Processor", "microcode": "0xa0011d1",
            "stepping": 1, "microarchitecture": { "core": "Zen 3", "platform": "Milan",
                "by_model": "Zen 3", "evidence": [], "contradiction": null },
            "cpus": [
                { "id": 0, "online": true, "allowed": true, "package": 0, "core": 0,
                  "frequency": { "governor": null, "max_hz": null } },
                { "id": 1, "online": true, "allowed": true, "package": 0, "core": 1,
                  "frequency": { "governor": null, "max_hz": null } } ],
            "turbo": { "enabled": null }, "smt_active": false },
        "cache": { "levels": [
            cache(1, "data", 32 * KIB, 8, 1), cache(1, "instruction", 32 * KIB, 8, 1),
            cache(2, "unified", 512 * KIB, 8, 1), cache(3, "unified", 16 * MIB, 16, 2) ],
            "tlbs": [], "source": "sysfs" },
        "memory": { "total_bytes": 8_u64 << 30, "available_bytes": 7_u64 << 30, "page_bytes": 4096,
            "thp": { "enabled": "madvise" }, "numa_balancing": false, "swap_used_bytes": 0,
            "dimms": [] },
        "numa": { "nodes": [ { "id": 0 } ] },
        "kernel": { "release": "6.1.0-18-amd64", "distribution": "Debian GNU/Linux 12 (bookworm)",
            "hz": 250, "mitigations": { "spectre_v2": "Mitigation: Retpolines",
                "meltdown": "Not affected" },
            "clock_source": { "current": "tsc", "available": ["tsc"] },
            "virtualisation": { "is_guest": true, "hypervisor": "KVM" },
            "container": { "runtime": null, "evidence": [] } },
        "limits": { "cpu_quota": null }, "net": {}, "block": {}
    })
}

fn metric(name: &'static str, unit: Unit, better: Better, kind: Kind) -> Metric {
    Metric::new(name, "What it is.", unit, better, kind)
}

fn plan() -> Plan {
    let mut latency = planned(
        "memory.latency",
        "Latency of a dependent load",
        vec![
            metric("latency", Unit::Ns, Better::Lower, Kind::Hardware),
            Metric::derived(
                "level_latency",
                "Of a level.",
                Unit::Ns,
                Better::Lower,
                Kind::Hardware,
            ),
            Metric::derived("level_size", "Of a level.", Unit::B, Better::None, Kind::Hardware),
        ],
        ladder().iter().map(|(footprint, _)| rung(*footprint)).collect(),
    );
    latency.units = [("footprint".to_owned(), Unit::B)].gather();
    latency.view = View::Line {
        over: "footprint".into(),
        metric: "latency".into(),
        log_x: true,
        log_y: true,
        beside: Vec::new(),
        marks: Vec::new(),
        at: None,
        cases: Cases::default(),
    };
    latency.derived = ["L1", "L2", "L3", "DRAM"].map(level).into();
    let mut rate = planned(
        "clock.rate",
        "Rate of the counter",
        vec![metric("counter", Unit::Hz, Better::None, Kind::Hardware)],
        vec![CaseId::new()],
    );
    rate.repeat = Repeat::Once { duration_s: 2.5 };
    rate.view = View::Timeline { trace: "series".into(), beside: Vec::new() };
    let mut numa = planned("memory.numa", "Memory of other nodes", vec![], vec![]);
    numa.series.clear();
    numa.skipped = Some(Absence {
        reason: "one NUMA node".into(),
        needed: Some("a machine with more than one NUMA node".into()),
    });
    let syscall = planned(
        "os.syscall",
        "Cost of a system call",
        vec![metric("latency", Unit::Ns, Better::Lower, Kind::Os)],
        ["getppid", "read", "time-vdso", "futex"].map(call).into(),
    );
    let mut pipe = planned(
        "os.pipe",
        "Hop through a pipe",
        vec![metric("hop", Unit::Ns, Better::Lower, Kind::Os)],
        vec![CaseId::new()],
    );
    pipe.view = View::Bars { metric: "hop".into(), cases: Cases::default() };
    Plan {
        experiments: vec![rate, syscall, pipe, latency, numa],
        stages: vec![vec!["clock.rate".into()], vec!["memory.latency".into()]],
        looks: vec![6, 9, 12],
        eta_s: 350.0,
    }
}

fn level(name: &str) -> CaseId {
    CaseId::new().with("level", name)
}

fn predicted(
    experiment: &str,
    case: CaseId,
    metric: &str,
    range: Option<[f64; 3]>,
) -> PredictionEvent {
    PredictionEvent {
        experiment: experiment.to_owned(),
        case,
        metric: metric.to_owned(),
        of: PredictionKind::Prior,
        prediction: Prediction::new(
            range.map(|[low, likely, high]| Range { low, likely, high }),
            match range {
                Some(_) => "4 to 5 cycles at 2.4 to 3.9 GHz (family table; virtual machine widens)",
                None => "unknown: the hypervisor does not report its clock source",
            },
        ),
        at: BTreeMap::new(),
    }
}

fn predictions() -> Vec<Event> {
    let mut all: Vec<PredictionEvent> = ladder()
        .iter()
        .map(|(footprint, latency)| {
            let range = [latency * 0.7, *latency, latency * 1.6];
            predicted("memory.latency", rung(*footprint), "latency", Some(range))
        })
        .collect();
    for (name, size) in [("L1", 32 * KIB), ("L2", 512 * KIB), ("L3", 16 * MIB)] {
        let size = size as f64;
        let range = Some([size / 1.5, size, size * 1.5]);
        all.push(predicted("memory.latency", level(name), "level_size", range));
    }
    all.push(predicted("os.syscall", call("getppid"), "latency", Some([40.0, 60.0, 110.0])));
    all.push(predicted("os.syscall", call("read"), "latency", Some([60.0, 80.0, 120.0])));
    let mut vdso = predicted("os.syscall", call("time-vdso"), "latency", Some([1.0, 2.0, 4.0]));
    vdso.prediction.bound = Some(Bound {
        side: Side::AtLeast,
        constant: 4e9,
        inputs: vec![("core_hz".into(), -1)],
        uncertainty: 0.02,
        rule: "a call and its return take at least 4 cycles".into(),
        warns_only: false,
    });
    all.push(vdso);
    all.push(predicted("os.pipe", CaseId::new(), "hop", None));
    all.push(predicted("clock.rate", CaseId::new(), "counter", Some([2.4e9, 2.445e9, 2.5e9])));
    let mut derived = predicted("os.syscall", call("read"), "latency", Some([70.0, 95.0, 140.0]));
    derived.of = PredictionKind::Derived;
    derived.prediction.because = "null call plus copying one byte".into();
    all.push(derived);
    all.into_iter().map(Event::Prediction).collect()
}

/// A repeatable number in -1..1.
fn wobble(seed: u64) -> f64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed >> 40) as f64 / (1_u64 << 24) as f64) * 2.0 - 1.0
}

/// Quartets whose samples lie within `spread` of `latency_ns`.
fn quartets(latency_ns: f64, spread: f64, seed: u64) -> Raw {
    let k = 10_000;
    let per_batch = 2.0 * k as f64;
    let samples = (0..20).map(|i| latency_ns * (1.0 + spread * wobble(seed * 1000 + i)));
    let n = vec![per_batch * latency_ns + 40.0; 20];
    Raw::Quartets {
        k,
        two_n: samples.zip(&n).map(|(sample, n)| n + per_batch * sample).collect(),
        n,
        voids: u32::from(seed.is_multiple_of(7)),
    }
}

fn samples(series: &str, n: u32, case: CaseId, metric: &str, raw: Raw) -> Event {
    Event::Samples(Samples {
        core_hz: Some(CORE_HZ * (1.0 + 0.001 * wobble(u64::from(n)))),
        at: [("cpu".to_owned(), 1.into())].into_iter().collect(),
        ..Samples::new(series, n, case, metric, raw)
    })
}

fn round(series: &str, n: u32, status: RoundStatus, disturbed: &[&str]) -> Event {
    let steal_ns = if disturbed.is_empty() { 0.0 } else { 9e6 };
    let environment = [
        ("steal_ns", steal_ns),
        ("involuntary_switches", 1.0),
        ("core_hz_before", CORE_HZ),
        ("core_hz_after", CORE_HZ * 1.001),
    ];
    Event::Round(Round {
        series: series.to_owned(),
        n,
        segment: 0,
        at_s: f64::from(n),
        window_ns: 5e8,
        status,
        waited_s: None,
        cpus: vec![1],
        environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
        disturbed: disturbed.iter().map(|reason| (*reason).to_owned()).collect(),
        others: Vec::new(),
        failed: Vec::new(),
    })
}

fn latency_round(n: u32) -> Vec<Event> {
    let mut events: Vec<Event> = ladder()
        .into_iter()
        .map(|(footprint, latency)| {
            let seed = footprint + u64::from(n);
            let value = latency * (1.0 + 0.01 * wobble(seed));
            samples("memory.latency", n, rung(footprint), "latency", quartets(value, 0.02, seed))
        })
        .collect();
    events.push(round("memory.latency", n, RoundStatus::Ok, &[]));
    events
}

fn syscall_round(n: u32) -> Vec<Event> {
    let disturbed: &[&str] = if n > 2 { &["steal 1.8 % of the window"] } else { &[] };
    let value = |mid: f64, seed: u64| mid * (1.0 + 0.015 * wobble(seed + u64::from(n)));
    let of = |name: &str, mid: f64, seed: u64| {
        let raw = quartets(value(mid, seed), 0.03, seed + u64::from(n));
        samples("os.syscall", n, call(name), "latency", raw)
    };
    vec![
        of("getppid", 88.0, 100),
        of("read", 171.0, 200),
        of("time-vdso", 0.9, 300),
        round("os.syscall", n, RoundStatus::Ok, disturbed),
    ]
}

fn pipe_round(n: u32) -> Vec<Event> {
    let values = (0..200)
        .map(|i| {
            let mode = if i % 3 == 0 { 3400.0 } else { 80.0 };
            mode * (1.0 + 0.05 * wobble(u64::from(n) * 1000 + i))
        })
        .collect();
    vec![
        samples("os.pipe", n, CaseId::new(), "hop", Raw::Event { values }),
        round("os.pipe", n, RoundStatus::Ok, &[]),
    ]
}

fn rate_round() -> Vec<Event> {
    let values: Vec<f64> = (0..10).map(|i| 2.445e9 * (1.0 + 1e-6 * wobble(i))).collect();
    let rows = values.iter().enumerate().map(|(i, hz)| vec![i as f64 * 0.25, *hz]).collect();
    vec![
        samples("clock.rate", 1, CaseId::new(), "counter", Raw::Batch { k: 0, values }),
        Event::Trace(Trace {
            series: "clock.rate".into(),
            round: 1,
            case: CaseId::new(),
            kind: "series".into(),
            columns: vec!["at_s".into(), "counter_hz".into()],
            rows,
            names: BTreeMap::new(),
            dropped: 0,
        }),
        round("clock.rate", 1, RoundStatus::Ok, &[]),
    ]
}

fn derived() -> Vec<Event> {
    let value = |name: &str, metric: &str, value: f64, presence: f64| {
        Event::Derived(Derived {
            confidence: Some(0.91),
            experiment: "memory.latency".into(),
            case: level(name),
            metric: metric.into(),
            value,
            ci: Some((value * 0.98, value * 1.03)),
            presence,
            at: BTreeMap::new(),
            notes: vec![],
        })
    };
    vec![
        value("L1", "level_latency", 1.25, 1.0),
        value("L1", "level_size", 32768.0, 1.0),
        value("L2", "level_latency", 4.06, 1.0),
        value("L2", "level_size", 524_288.0, 1.0),
        value("L3", "level_latency", 14.7, 0.7),
        value("L3", "level_size", 16_777_216.0, 0.7),
        value("DRAM", "level_latency", 94.8, 1.0),
    ]
}

fn outcomes() -> Vec<Event> {
    let outcome = |experiment: &str, case: Option<CaseId>, outcome, reason: Option<&str>| {
        let (experiment, reason) = (experiment.to_owned(), reason.map(str::to_owned));
        Event::Outcome(Outcome { experiment, case, outcome, reason })
    };
    let measured = |experiment: &str, case| outcome(experiment, Some(case), Ending::Measured, None);
    let mut all: Vec<Event> = ladder()
        .iter()
        .map(|(footprint, _)| measured("memory.latency", rung(*footprint)))
        .collect();
    all.extend(["getppid", "read", "time-vdso"].map(|name| measured("os.syscall", call(name))));
    let refused = "futex: Operation not permitted (os error 1)";
    let disabled = "io_uring is disabled by kernel.io_uring_disabled";
    all.extend([
        outcome("os.syscall", Some(call("futex")), Ending::Failed, Some(refused)),
        outcome("os.syscall", Some(call("io-uring-nop")), Ending::Skipped, Some(disabled)),
        measured("os.pipe", CaseId::new()),
        measured("clock.rate", CaseId::new()),
        outcome("memory.numa", None, Ending::Skipped, Some("one NUMA node")),
    ]);
    all
}
