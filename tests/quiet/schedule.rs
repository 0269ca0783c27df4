//! Slices: whole ticks as predicted, and one that comes between.

use super::noise::{EVERY, FOR, cpu, disturber};
use super::{attempts, events_with, figure, quantity, samples_of, values};
use metal::clock::{Clock, getres_ns};
use serde_json::Value;

/// A run's events with so many processes on the CPU.
fn schedule(processes: u64) -> Vec<Value> {
    let cpu = cpu().to_string();
    let set = format!("os.schedule.processes={processes}");
    events_with("os.schedule", &format!("--cpu {cpu} --set {set}"))
}

/// Whole ticks that a slice was predicted to last.
fn foretold(events: &[Value]) -> Option<f64> {
    let mut of = events.iter().filter(|event| event["event"] == "prediction");
    let of = of.find(|event| event["metric"] == "slice_ticks")?;
    let (low, high) = (&of["range"]["low"], &of["range"]["high"]);
    let (low, high) = (low.as_f64()?.ceil(), high.as_f64()?.floor());
    // Two numbers are foretold where a slice is close to whole ticks: nothing is asked of these.
    (low == high).then_some(low)
}

#[test]
fn slices_are_the_predicted_whole_ticks() {
    let tick_ns = getres_ns(Clock::MONOTONIC_COARSE) as f64;
    for processes in [2, 3] {
        attempts("slices of os.schedule", || {
            let found = schedule(processes);
            let slice_ns = figure(&found, "slice").unwrap_or(0.0);
            let on_tick = figure(&found, "on_tick").unwrap_or(0.0);
            let others = quantity(&found, "slice", "others_switches");
            let told = format!(
                "{processes} processes: {:.4} ticks of {tick_ns} ns, foretold {:?}; {on_tick:.3} on the \
                 tick, {others:?} switches to others a round",
                slice_ns / tick_ns,
                foretold(&found)
            );
            let whole = foretold(&found).unwrap_or_else(|| (slice_ns / tick_ns).round());
            let is_whole = (slice_ns / (whole * tick_ns) - 1.0).abs() < 0.03;
            // A window's first and last slices aside, all of one process have the others' between.
            let slices: Vec<f64> =
                samples_of(&found, "slice").into_iter().flat_map(values).collect();
            let near = |ns: &&f64| (**ns / (whole * tick_ns) - 1.0).abs() < 0.03;
            let usual = slices.iter().filter(near).count();
            let is_usual = usual as f64 > 0.8 * slices.len() as f64;
            (told, is_whole && is_usual && on_tick > 0.9)
        });
    }
}

#[test]
fn one_that_comes_between_is_no_switch_of_ours_and_disturbs() {
    let (every_ns, for_ns) = (EVERY.as_nanos() as f64, FOR.as_nanos() as f64);
    attempts("disturber in os.schedule", || {
        let alone = schedule(2);
        let disturber = disturber(cpu());
        let beside = schedule(2);
        drop(disturber);
        let both = |metric: &str| [&alone, &beside].map(|of| figure(of, metric).unwrap_or(0.0));
        let others = [&alone, &beside].map(|of| quantity(of, "slice", "others_switches"));
        let ([quiet, lost], [usual_ns, switch_ns]) = (both("lost"), both("switch"));
        let rounds = beside.iter().filter(|event| event["event"] == "round");
        let disturbed: Vec<bool> = rounds
            .map(|round| round["disturbed"].to_string().contains("others on the CPU"))
            .collect();
        let share = disturbed.iter().filter(|is| **is).count() as f64 / disturbed.len() as f64;
        let window_ns = quantity(&beside, "slice", "switches_window_ns").unwrap_or(0.0);
        let told = format!(
            "lost {quiet:.4} and {lost:.4}, others' switches {others:?} in {:.0} ms, switch {usual_ns:.0} and \
             {switch_ns:.0} ns, {:.2} of the rounds disturbed by others",
            window_ns / 1e6,
            share
        );
        let is_lost = lost - quiet > 0.5 * for_ns / every_ns;
        let is_counted = others[1] >= Some(0.3 * window_ns / every_ns) && others[1] > others[0];
        // The usual switch is still one of ours alone.
        let is_own = switch_ns < 0.5 * for_ns;
        (told, is_lost && is_counted && is_own && share > 0.5)
    });
}
