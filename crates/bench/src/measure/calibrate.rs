//! What the clocks of this machine are and what they cost (METHOD §1).

use super::clock::{CLOCK_GETTIME, Clock};
use super::core_clock::{CoreClock, Windows};
use super::width::{self, Probe};
use crate::link::CalibrateOrder;
use anyhow::{Context, Result, bail};
use metal::clock;
use metal::cpuid::Leaf;
use metal::place;
use record::event::Calibration;
use stats::interval::median_order;
use stats::quantile::median;
use std::hint::black_box;
use std::time::Duration;

/// METHOD §1: the counter is calibrated over at least so many windows.
const WINDOWS_MIN: u32 = 10;
/// Shortest window: below it the uncertainty of the two edges is above 100 ppm.
const WINDOW_NS_MIN: u64 = 200_000;
/// Attempts at each edge of a window; the tightest counts.
const EDGE_ATTEMPTS: usize = 32;
/// Empty pairs and neighbouring reads that are looked at.
const READS: usize = 4096;
/// The vDSO falls back where its read takes more than this share of a system call's.
const FALLBACK_SHARE: f64 = 0.6;
/// Attempts to get the chains to agree.
const CORE_ATTEMPTS: usize = 20;
/// Pause between two attempts.
const CORE_PAUSE: Duration = Duration::from_millis(20);
/// The level of the width probe is looked for in so many times the windows' time.
const PATIENCE: u32 = 4;
/// Windows whose rates differ by more than this ratio are reported.
const SPREAD_NOTED: f64 = 50e-6;

/// Calibrates the clocks on `order.cpu`, to which the calling thread is pinned afterwards. Takes
/// about `windows x window_ns` and 40 ms, and longer where others use the core all the time.
/// Errors: the CPU cannot be pinned to; a clock stands still.
pub fn calibrate(order: &CalibrateOrder) -> Result<Calibration> {
    place::pin(order.cpu).with_context(|| format!("pinning to CPU {}", order.cpu))?;
    let mut notes = Vec::new();
    let windows = order.windows.max(WINDOWS_MIN);
    let windows_hz = counter_windows(windows, order.window_ns.max(WINDOW_NS_MIN))?;
    let counter_hz = median(&windows_hz).context("no window of the counter")?;
    let counter_error = median_order(&windows_hz)
        .map(|interval| interval.half_width() / counter_hz)
        .context("ten windows always have an interval")?;
    let trust = counter_trust();
    let source = match &trust {
        Ok(name) => (*name).to_owned(),
        Err(reason) => {
            notes.push(format!("time is clock_gettime: {reason}"));
            CLOCK_GETTIME.to_owned()
        }
    };
    note_spread(&windows_hz, counter_hz, &mut notes);
    let clock =
        if trust.is_ok() { Clock::Counter { tick_ns: 1e9 / counter_hz } } else { Clock::Monotonic };
    let vdso_falls_back = vdso_falls_back()?;
    if vdso_falls_back {
        notes.push("clock_gettime falls back to a system call".to_owned());
    }
    let mut calibration = Calibration {
        source,
        counter_hz,
        counter_error,
        windows_hz,
        resolution_ns: resolution_ns(clock)?,
        pair_cost_ns: pair_cost_ns(clock),
        vdso_falls_back,
        core_hz: 0.0,
        core_source: String::new(),
        multiply_cycles: None,
        cpu: order.cpu,
        width: None,
        notes,
    };
    if clock == Clock::Monotonic {
        calibration.counter_hz = 1e9;
        calibration.counter_error = 0.0;
    }
    let core = core_into(&mut calibration, clock);
    let probe = Probe::new(clock, &core, &calibration, None);
    let patience = Duration::from_nanos(order.window_ns * u64::from(windows)) * PATIENCE;
    calibration.width = Some(width::learn(probe, patience));
    Ok(calibration)
}

/// `CLOCK_MONOTONIC_RAW` at a reading of the clock, in ns: the kernel's tracepoints of the same
/// time can be laid beside it. The moment is so recent that the calibration's error is negligible.
pub fn raw_ns(clock: Clock, tick: u64) -> f64 {
    let now = edge(|| clock.start());
    now.raw_ns as f64 - clock.between_ns(tick, now.ticks)
}

/// The core clock; where the chains never agree, the rotate chain's rate with a note. On a busy CPU
/// attempts are spread over time, so that one falls beside what disturbs them.
fn core_into(calibration: &mut Calibration, clock: Clock) -> CoreClock {
    let mut core = CoreClock::new(clock, Windows::FULL);
    core.source().clone_into(&mut calibration.core_source);
    let mut last = core.estimate();
    for _ in 1..CORE_ATTEMPTS {
        if last.hz.is_some() {
            break;
        }
        std::thread::sleep(CORE_PAUSE);
        last = core.estimate();
    }
    calibration.multiply_cycles = last.multiply_cycles;
    let reason = last.reason.unwrap_or_default();
    calibration.core_hz = match (last.hz, last.rotate_hz) {
        (Some(hz), _) => hz,
        (None, Some(hz)) => {
            let note = format!("core clock from the rotate chain alone: {reason}");
            calibration.notes.push(note);
            hz
        }
        (None, None) => {
            let note =
                format!("core clock from one window of the rotate chain, unconfirmed: {reason}");
            calibration.notes.push(note);
            core.fastest_hz()
        }
    };
    core
}

/// The counter's name if it can be the clock, otherwise the reason against it. Constant and
/// non-stop is bit 8 of CPUID 0x80000007 (Intel SDM 18.17.1, AMD APM 3 E.4.6); a kernel that no
/// longer lists `tsc` has seen it drift or stop. The Arm counter is both by architecture (Arm ARM
/// D11.1). Windows end by `rdtscp`, bit 27 of edx of leaf 0x80000001.
fn counter_trust() -> Result<&'static str, &'static str> {
    if cfg!(target_arch = "aarch64") {
        return Ok("cntvct");
    }
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let sources = std::fs::read_to_string(sources).ok();
    tsc_trust(&metal::cpuid::leaves(), sources.as_deref())
}

/// [`counter_trust`] of an x86-64 processor by its leaves and the kernel's clock sources, where it
/// lists any.
fn tsc_trust(leaves: &[Leaf], sources: Option<&str>) -> Result<&'static str, &'static str> {
    let says = |number: u32, bit: u32| {
        let mut leaves = leaves.iter();
        leaves.any(|leaf| leaf.leaf == number && leaf.edx >> bit & 1 == 1)
    };
    if !says(0x8000_0001, 27) {
        return Err("the processor lacks rdtscp, which ends timed windows");
    }
    if !says(0x8000_0007, 8) {
        return Err("the processor does not report its counter as constant and non-stop");
    }
    match sources {
        Some(sources) if !sources.contains("tsc") => {
            Err("the kernel does not offer the counter as a clock source")
        }
        _ => Ok("tsc"),
    }
}

/// The counter's rate over each of `count` adjoining windows, in Hz.
fn counter_windows(count: u32, window_ns: u64) -> Result<Vec<f64>> {
    let mut rates = Vec::with_capacity(count as usize);
    let mut from = edge(clock::ticks_start);
    for _ in 0..count {
        while clock::monotonic_raw_ns() < from.raw_ns + window_ns {}
        let to = edge(clock::ticks_start);
        if to.ticks <= from.ticks || to.raw_ns <= from.raw_ns {
            bail!("the counter or CLOCK_MONOTONIC_RAW does not advance");
        }
        rates.push((to.ticks - from.ticks) as f64 * 1e9 / (to.raw_ns - from.raw_ns) as f64);
        from = to;
    }
    Ok(rates)
}

/// The same moment on both clocks.
#[derive(Clone, Copy)]
struct Edge {
    ticks: u64,
    raw_ns: u64,
}

/// Both clocks at once: the kernel's read between two of the counter's, the tightest of several.
fn edge(ticks: impl Fn() -> u64) -> Edge {
    let mut best = (u64::MAX, Edge { ticks: 0, raw_ns: 0 });
    for _ in 0..EDGE_ATTEMPTS {
        let before = ticks();
        let raw_ns = clock::monotonic_raw_ns();
        // Not `ticks_end`: the processor may lack its instruction, which is not decided yet.
        let after = ticks();
        let gap = after.saturating_sub(before);
        if gap < best.0 {
            let ticks = before + gap / 2;
            best = (gap, Edge { ticks, raw_ns });
        }
    }
    best.1
}

/// Says so where the windows disagree by more than a run may drift.
fn note_spread(windows_hz: &[f64], counter_hz: f64, notes: &mut Vec<String>) {
    let low = windows_hz.iter().copied().fold(f64::INFINITY, f64::min);
    let high = windows_hz.iter().copied().fold(0.0, f64::max);
    let spread = (high - low) / counter_hz;
    if spread > SPREAD_NOTED {
        notes.push(format!(
            "calibration windows of the counter spread over {:.0} ppm",
            spread * 1e6
        ));
    }
}

/// Smallest step of the clock, in ns. Errors: the clock stands still.
pub fn resolution_ns(clock: Clock) -> Result<f64> {
    let mut reads = vec![0; READS];
    // A clock coarser than its own read repeats itself; the window is long enough for its steps.
    for attempt in 0..64 {
        for read in &mut reads {
            *read = black_box(clock.end());
        }
        if let Some(step) = smallest_step(&reads) {
            return Ok(clock.ns(step));
        }
        if attempt == 63 {
            break;
        }
    }
    bail!("the clock does not advance over {} reads", 64 * READS)
}

/// Smallest step of a clock from neighbouring reads. A clock that repeats itself is coarser than
/// its read: its smallest difference is the step. One that never does is finer: all differences
/// are multiples of the step, so it is their greatest common divisor (processors count by their
/// clock multiplier, 20 to 40 ticks at a time).
fn smallest_step(reads: &[u64]) -> Option<u64> {
    let differences = || reads.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    if differences().any(|difference| difference == 0) {
        return differences().filter(|difference| *difference > 0).min();
    }
    differences().reduce(greatest_common_divisor).filter(|step| *step > 0)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What an empty window reads, in ns: the median of many, in batches, so that a step coarser than
/// the pair does not round it to nothing.
pub fn pair_cost_ns(clock: Clock) -> f64 {
    const PAIRS: usize = 64;
    let mut costs = Vec::with_capacity(READS / PAIRS);
    for _ in 0..READS / PAIRS {
        let mut sum_ns = 0.0;
        for _ in 0..PAIRS {
            let start = clock.start();
            let end = clock.end();
            sum_ns += clock.between_ns(black_box(start), black_box(end));
        }
        costs.push(sum_ns / PAIRS as f64);
    }
    median(&costs).unwrap_or(0.0)
}

/// Whether `clock_gettime` of the C library costs what the system call does.
fn vdso_falls_back() -> Result<bool> {
    let cost_ns = |read: fn(clock::Clock) -> u64| {
        let mut costs = [0.0; 9];
        for cost in &mut costs {
            let start = clock::ticks_start();
            for _ in 0..100 {
                black_box(read(clock::Clock::MONOTONIC));
            }
            // As in `edge`.
            *cost = clock::ticks_start().saturating_sub(start) as f64;
        }
        median(&costs)
    };
    let vdso = cost_ns(clock::vdso_clock_gettime).context("nine costs have a median")?;
    let call = cost_ns(clock::syscall_clock_gettime).context("nine costs have a median")?;
    Ok(vdso > FALLBACK_SHARE * call)
}

#[cfg(test)]
mod tests {
    use super::super::clock::Clock;
    use super::{calibrate, note_spread, raw_ns, smallest_step, tsc_trust};
    use crate::experiment::fixtures::on_a_thread;
    use crate::link::CalibrateOrder;
    use metal::cpuid::Leaf;

    #[test]
    fn the_counter_tells_time_only_where_everything_about_it_is_said() {
        let leaf = |leaf, edx| Leaf { leaf, subleaf: 0, eax: 0, ebx: 0, ecx: 0, edx };
        let (rdtscp, invariant) = (leaf(0x8000_0001, 1 << 27), leaf(0x8000_0007, 1 << 8));
        for (leaves, sources, reason) in [
            (vec![rdtscp, invariant], Some("tsc kvm-clock"), None),
            (vec![rdtscp, invariant], None, None),
            (vec![leaf(0x8000_0001, 0), invariant], None, Some("rdtscp")),
            (vec![invariant], None, Some("rdtscp")),
            (vec![rdtscp, leaf(0x8000_0007, 0)], None, Some("constant")),
            (vec![rdtscp, invariant], Some("hpet"), Some("clock source")),
        ] {
            let trust = tsc_trust(&leaves, sources);
            match (trust, reason) {
                (Ok(name), None) => assert_eq!(name, "tsc"),
                (Err(told), Some(reason)) => assert!(told.contains(reason), "{told}"),
                (trust, reason) => panic!("{trust:?}, not {reason:?}"),
            }
        }
    }

    #[test]
    fn a_moment_of_either_clock_lies_where_it_was_on_the_raw_one() {
        let calibrated = calibrate(&CalibrateOrder {
            cpu: metal::place::current_cpu(),
            windows: 10,
            window_ns: 200_000,
        });
        let chosen = Clock::from_calibration(&calibrated.expect("calibrated"));
        for clock in [chosen, Clock::Monotonic] {
            let before_ns = metal::clock::monotonic_raw_ns() as f64;
            let tick = clock.start();
            let after_ns = metal::clock::monotonic_raw_ns() as f64;
            let moment_ns = raw_ns(clock, tick);
            // Both edges of a calibration and of the moment are known to less than this.
            let known_ns = 10_000.0;
            assert!(moment_ns > before_ns - known_ns, "{moment_ns}: {before_ns}");
            assert!(moment_ns < after_ns + known_ns, "{moment_ns}: {after_ns}");
        }
    }

    #[test]
    fn steps_of_coarse_and_fine_clocks() {
        for (reads, step) in [
            (vec![0, 0, 0, 41, 41, 82, 82], Some(41)),
            (vec![0, 36, 108, 144, 252], Some(36)),
            (vec![0, 21, 44, 65], Some(1)),
            (vec![7, 7, 7], None),
            (vec![7], None),
        ] {
            assert_eq!(smallest_step(&reads), step, "{reads:?}");
        }
    }

    #[test]
    fn windows_that_disagree_are_told() {
        let mut notes = Vec::new();
        note_spread(&[2e9, 2.00001e9], 2e9, &mut notes);
        assert!(notes.is_empty());
        note_spread(&[2e9, 2.001e9], 2e9, &mut notes);
        assert!(notes[0].contains("500 ppm"), "{notes:?}");
    }

    #[test]
    fn this_machine_has_a_calibration_of_plausible_shape() {
        // Structure only; a thread of its own, because it is pinned afterwards.
        let calibration = on_a_thread(|| {
            let cpu = metal::place::allowed().expect("CPUs")[0];
            calibrate(&CalibrateOrder { cpu, windows: 1, window_ns: 0 })
        })
        .expect("calibrates");
        assert_eq!(calibration.windows_hz.len(), 10);
        assert!((1e6..2e10).contains(&calibration.counter_hz));
        assert!(calibration.resolution_ns > 0.0);
        assert!(calibration.pair_cost_ns >= 0.0);
        assert!((1e8..2e10).contains(&calibration.core_hz));
        assert!(["tsc", "cntvct", "clock_gettime"].contains(&calibration.source.as_str()));
    }
}
