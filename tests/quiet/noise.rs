//! Interruptions: the tick at the kernel's rate, and one made on purpose.

use super::{attempts, figure, samples_with, values};
use metal::clock::{Clock, getres_ns};
use metal::process::Child;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The disturber: how often it wakes and how long it runs.
pub const EVERY: Duration = Duration::from_millis(7);
pub const FOR: Duration = Duration::from_micros(200);

/// A quick run on a CPU in windows of 300 ms.
fn activity(cpu: usize) -> Vec<Value> {
    let cpu = format!("noise.activity.cpu={cpu}");
    let duration = "noise.activity.duration=300ms";
    samples_with("noise.activity", &format!("--set {cpu} --set {duration}"))
}

fn notes(samples: &[Value], metric: &str) -> Vec<String> {
    let of = samples.iter().filter(|one| one["metric"] == metric);
    of.flat_map(|one| one["notes"].as_array().cloned().unwrap_or_default())
        .filter_map(|note| note.as_str().map(str::to_owned))
        .collect()
}

fn rounds(samples: &[Value], metric: &str) -> usize {
    samples.iter().filter(|one| one["metric"] == metric).count()
}

/// The CPU on which to try: the last, which interrupts reach least often.
pub fn cpu() -> usize {
    let allowed = metal::place::allowed().expect("the allowed CPUs can be read");
    *allowed.last().expect("one is allowed")
}

/// A process on a CPU that wakes regularly and runs for a while each time, before all others where
/// it may. It ends with the test.
pub fn disturber(cpu: usize) -> Child {
    Child::fork(move || {
        if metal::place::pin(cpu).is_err() {
            return 1;
        }
        // Without the right it is woken as a normal one, and may come late.
        let _ = metal::place::fifo(1).or_else(|_| metal::place::nice(-20));
        let mut next = Instant::now();
        loop {
            next += EVERY;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let woken = Instant::now();
            while woken.elapsed() < FOR {
                std::hint::spin_loop();
            }
        }
    })
    .expect("a process can be made")
}

#[test]
fn the_tick_is_found_at_the_rate_of_the_kernel() {
    let coarse_ns = getres_ns(Clock::MONOTONIC_COARSE) as f64;
    attempts("tick of noise.activity", || {
        let found = activity(cpu());
        let with_tick = rounds(&found, "tick_period");
        let all = rounds(&found, "lost");
        let told = format!("{with_tick} of {all} rounds, {:?}", figure(&found, "tick_period"));
        let tickless = notes(&found, "lost").iter().any(|note| note.contains("tickless"));
        if tickless {
            return (format!("{told}: the CPU has no tick"), with_tick == 0);
        }
        let off = figure(&found, "tick_period").map(|ns| (ns / coarse_ns - 1.0).abs());
        let is_good = 2 * with_tick > all && off.is_some_and(|off| off < 0.001);
        (told, is_good)
    });
}

#[test]
fn a_gap_made_on_purpose_is_found_with_period_length_and_cause() {
    let cpu = cpu();
    let (every_ns, for_ns) = (EVERY.as_nanos() as f64, FOR.as_nanos() as f64);
    attempts("disturber in noise.activity", || {
        let disturber = disturber(cpu);
        let found = activity(cpu);
        drop(disturber);
        let periods: Vec<f64> =
            found.iter().filter(|one| one["metric"] == "other_period").flat_map(values).collect();
        let length = figure(&found, "other_gap").unwrap_or(0.0);
        let notes = notes(&found, "other_period");
        let told = format!(
            "periods {periods:?} in {} rounds, length {length:.0} ns, {notes:?}",
            rounds(&found, "lost")
        );
        let right = periods.iter().filter(|ns| (*ns / every_ns - 1.0).abs() < 0.01).count();
        let is_period = 2 * right > rounds(&found, "lost");
        // The switches to it and back are in the gap.
        let is_length = (0.9 * for_ns..1.5 * for_ns).contains(&length);
        let is_thread = notes.iter().any(|note| note.contains("thread"));
        // Of each 7 ms it takes at least 200 us.
        let lost = figure(&found, "lost").unwrap_or(0.0);
        (told, is_period && is_length && is_thread && lost > 0.9 * for_ns / every_ns)
    });
}
