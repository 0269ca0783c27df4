//! What cyclictest says.

use crate::Output;
use crate::read::json;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Its answer (`--json`), as far as it is read.
#[derive(Debug, Deserialize)]
struct Answer {
    thread: BTreeMap<String, Thread>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    /// How many sleeps were late by so many whole µs; without those beyond its end.
    histogram: BTreeMap<String, u64>,
    cycles: u64,
}

/// `median` or `p99` of its sleeps, in ns.
pub(super) fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let answer: Answer = json(&said.answer)?;
    let threads: Vec<&Thread> = answer.thread.values().collect();
    let [thread] = threads[..] else {
        return Err(format!("{} threads, not one", threads.len()));
    };
    let share = match what {
        "median" => 0.50,
        "p99" => 0.99,
        other => return Err(format!("cyclictest reports no {other}")),
    };
    Ok(1000.0 * quantile_us(thread, share)?)
}

/// A quantile of whole µs, interpolated within the one that it lies in.
fn quantile_us(thread: &Thread, share: f64) -> Result<f64, String> {
    let mut counted: Vec<(u64, u64)> = Vec::with_capacity(thread.histogram.len());
    for (us, count) in &thread.histogram {
        let us = us.parse().map_err(|_| format!("a bucket called {us}"))?;
        counted.push((us, *count));
    }
    counted.sort_unstable();
    let held = counted.iter().fold(0, |held: u64, (_, count)| held.saturating_add(*count));
    if held > thread.cycles || held == 0 {
        return Err(format!("a histogram of {held} sleeps in {} cycles", thread.cycles));
    }
    // Those beyond the histogram's end are the longest.
    let wanted = share * thread.cycles as f64;
    let mut below = 0.0;
    for (us, count) in counted {
        let count = count as f64;
        if count > 0.0 && below + count >= wanted {
            return Ok(us as f64 + (wanted - below) / count);
        }
        below += count;
    }
    Err(format!(
        "it is beyond the end of the histogram, which has {held} of {} sleeps",
        thread.cycles
    ))
}
