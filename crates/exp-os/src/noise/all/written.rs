//! What the party saw, as figures, notes and the table of CPUs.

use super::AtWork;
use super::party::{Party, Traced};
use crate::noise::activity::seen::Seen;
use crate::noise::attribution::Evidence;
use crate::noise::moved;
use crate::noise::trace::{self, Threshold};
use bench::prelude::*;
use laws::noise::Cause;
use record::event::Samples;
use record::order::InOrder;
use stats::histogram::Histogram;
use stats::quantile::median;

/// Gaps that are listed one by one of all CPUs together.
const LISTED_MAX: usize = 20_000;
/// CPUs that a note lists at most.
const WORST: usize = 3;
/// Columns of the table of CPUs before the shares by cause.
const COLUMNS: [&str; 6] =
    ["cpu", "lost_ratio", "gaps_per_second", "gap_median_ns", "gap_longest_ns", "threshold_ns"];

type ByCause = BTreeMap<Cause, f64>;

struct Loss<'party> {
    cpu: usize,
    threshold: &'party Threshold,
    seen: &'party Seen,
    /// The share of the traced time by each cause that the evidence can name.
    by_cause: ByCause,
}

pub(super) fn write(series: &Series, party: &Party, bench: &mut Bench) {
    let found = party.members.iter().filter_map(|(_, found)| found.as_ref().ok());
    let losses: Vec<Loss<'_>> = found.map(Loss::new).collect();
    // They are what is measured here.
    bench.declare(Declared::Switches(party.evidence.involuntary()));
    for case in &series.cases {
        let written = AtWork::decode(case).and_then(|at_work| match at_work.one() {
            Some(cpu) => write_one(case, cpu, party, &losses, bench),
            None => write_all(case, party, &losses, bench),
        });
        if let Err(error) = written {
            bench.give_up([case], &error);
        }
    }
}

fn write_one(
    case: &Case,
    cpu: usize,
    party: &Party,
    losses: &[Loss<'_>],
    bench: &mut Bench,
) -> Result<()> {
    let Some(at) = losses.iter().position(|loss| loss.cpu == cpu) else {
        let failed = party.members.iter().find(|(at, _)| *at == cpu);
        return Err(match failed {
            Some((_, Err(error))) => anyhow!("{error:#}"),
            _ => anyhow!("CPU {cpu} is not among those that the round was given"),
        });
    };
    let loss = &losses[at];
    let traced_ns = bench.order().clock().ns(loss.seen.traced.traced_ticks);
    let samples = write_gaps(case, &losses[at..=at], usize::MAX, bench)?;
    let threshold = loss.threshold;
    samples.set_quantities([
        ("threshold_ns", threshold.ns),
        ("read_to_read_ns", threshold.read_to_read_ns),
        ("traced_ns", traced_ns),
    ]);
    samples.notes.push(threshold.because.clone());
    samples.notes.push(causes(case, &loss.by_cause, loss.is_untold()));
    samples.notes.extend(throttling(&party.evidence));
    samples.notes.extend(warnings(&loss.seen.traced));
    Ok(())
}

fn write_all(case: &Case, party: &Party, losses: &[Loss<'_>], bench: &mut Bench) -> Result<()> {
    let failed = party.members.iter().filter_map(|(cpu, seen)| Some((cpu, seen.as_ref().err()?)));
    let absent = failed.map(|(cpu, error)| format!("all but CPU {cpu}: {error:#}"));
    let absent: Vec<String> = absent.collect();
    if losses.is_empty() {
        return Err(anyhow!("no CPU could be traced: {}", absent.join("; ")));
    }
    let clock = bench.order().clock();
    let traced_ns: f64 = losses.iter().map(|loss| clock.ns(loss.seen.traced.traced_ticks)).sum();
    write_plumb(case, &party.evidence, traced_ns, bench)?;

    let in_all = |cause: &&Cause| losses.iter().all(|loss| loss.by_cause.contains_key(cause));
    let known: Vec<Cause> = Cause::ALL.iter().filter(in_all).copied().collect();
    let of_causes: Vec<String> =
        known.iter().map(|cause| format!("{}_ratio", cause.text())).collect();
    let columns: Vec<&str> =
        COLUMNS.into_iter().chain(of_causes.iter().map(String::as_str)).collect();
    let rows = losses.iter().map(|loss| loss.row(&known)).collect();
    bench.trace(case, "cpus", &columns, rows)?;
    moved::write(bench, case, &party.evidence, true)?;

    let gaps: u64 = losses.iter().map(|loss| loss.seen.traced.count).sum();
    let are_few = gaps as usize <= LISTED_MAX;
    let share = if are_few { usize::MAX } else { LISTED_MAX / losses.len() };
    let samples = write_gaps(case, losses, share, bench)?;
    samples.set_quantities([("cpus_count", losses.len() as f64)]);
    let by_cause = known.iter().map(|cause| (*cause, mean(losses, |loss| loss.by_cause[cause])));
    let is_untold = losses.iter().all(|loss| loss.is_untold());
    samples.notes.push(causes(case, &by_cause.collect(), is_untold));
    samples.notes.push(worst(losses));
    samples.notes.push(party.evidence.reached());
    samples.notes.extend(throttling(&party.evidence));
    samples.notes.extend(absent);
    Ok(())
}

fn mean(losses: &[Loss<'_>], of: impl Fn(&Loss<'_>) -> f64) -> f64 {
    losses.iter().map(of).sum::<f64>() / losses.len() as f64
}

/// Gaps of some CPUs, of each the first lengths one by one; the samples of what was lost.
fn write_gaps<'bench>(
    case: &Case,
    losses: &[Loss<'_>],
    most: usize,
    bench: &'bench mut Bench,
) -> Result<&'bench mut Samples> {
    let clock = bench.order().clock();
    let all = || losses.iter().map(|loss| &loss.seen.traced);
    let mut lengths = Histogram::default();
    all().for_each(|traced| lengths.merge(&traced.lengths));
    if lengths.count() > 0 {
        let gaps = all().flat_map(|traced| traced.gaps.iter().take(most));
        let excerpt = gaps.map(|gap| clock.ns(gap.ticks())).collect();
        bench.record(case, "gap", Values::counted(excerpt, &lengths).apart())?;
        let longest_ns = losses.iter().map(|loss| loss.seen.longest_ns()).fold(0.0, f64::max);
        bench.record(case, "longest_gap", Values::block(longest_ns).apart())?;
    }
    let rate_hz = mean(losses, |loss| loss.seen.rate_hz());
    bench.record(case, "gap_rate", Values::block(rate_hz).apart())?;
    bench.record(case, "lost", Values::block(mean(losses, |loss| loss.lost())).apart())
}

fn write_plumb(case: &Case, evidence: &Evidence, traced_ns: f64, bench: &mut Bench) -> Result<()> {
    let threads = &evidence.plumb;
    let times: Vec<u64> = threads.iter().filter_map(|thread| thread.time_ns).collect();
    if times.is_empty() && !threads.is_empty() {
        // A kernel without scheduler statistics.
        return Ok(());
    }
    let time_ns = times.iter().sum::<u64>() as f64;
    let samples = bench.record(case, "lost_plumb", Values::block(time_ns / traced_ns).apart())?;
    samples.set_quantities([("plumb_ns", time_ns)]);
    let ran = threads.iter().filter(|of| of.runs > Some(0) || of.time_ns > Some(0));
    let ran: Vec<String> = ran
        .map(|of| {
            let (runs, ns) = (of.runs.unwrap_or(0), of.time_ns.unwrap_or(0));
            format!("{}: {runs} runs, {:.1} µs", of.name, ns as f64 / 1e3)
        })
        .collect();
    let told = if ran.is_empty() { format!("none of {}", threads.len()) } else { ran.join("; ") };
    samples
        .notes
        .push(format!("plumb's other threads that ran from before to after the window: {told}"));
    Ok(())
}

impl<'party> Loss<'party> {
    fn new(traced: &'party Traced) -> Self {
        let Traced { threshold, seen } = traced;
        Loss { cpu: seen.look.cpu, threshold, seen, by_cause: seen.by_cause() }
    }

    fn lost(&self) -> f64 {
        self.seen.traced.lost()
    }

    /// Something is unattributed for want of evidence only.
    fn is_untold(&self) -> bool {
        self.seen.shares.outside <= 0.0
    }

    fn row(&self, causes: &[Cause]) -> Vec<f64> {
        let figures = [
            self.cpu as f64,
            self.lost(),
            self.seen.rate_hz(),
            median(&self.seen.lengths_ns).unwrap_or(0.0),
            self.seen.longest_ns(),
            self.threshold.ns,
        ];
        figures.into_iter().chain(causes.iter().map(|cause| self.by_cause[cause])).collect()
    }
}

/// What the lost time went to, largest part first. The likely source of the unattributed part is
/// named only if evidence is not missing.
fn causes(case: &Case, by_cause: &ByCause, is_untold: bool) -> String {
    let all: f64 = by_cause.values().sum();
    let nobody = case.at.get("nobody").and_then(Value::text).filter(|_| !is_untold);
    let name = |cause: &Cause| match cause {
        Cause::Unattributed => nobody.unwrap_or(cause.text()),
        _ => cause.text(),
    };
    let parts = by_cause.iter().filter(|(_, share)| **share > 0.0);
    let mut parts: Vec<(&Cause, &f64)> = parts.collect();
    if parts.is_empty() {
        return "no gap".to_owned();
    }
    parts.order_by(|a, b| b.1.total_cmp(a.1));
    let told =
        |(cause, share): &(&Cause, &f64)| format!("{} {:.0} %", name(cause), 100.0 * **share / all);
    let parts: Vec<String> = parts.iter().map(told).collect();
    format!("of the lost time, by counters: {}", parts.join(", "))
}

fn worst(losses: &[Loss<'_>]) -> String {
    let mut order: Vec<&Loss<'_>> = losses.iter().collect();
    order.order_by(|a, b| b.lost().total_cmp(&a.lost()));
    let told = |loss: &&Loss<'_>| {
        let (lost, longest_us) = (100.0 * loss.lost(), loss.seen.longest_ns() / 1e3);
        format!("CPU {} {lost:.3} % (longest {longest_us:.1} µs)", loss.cpu)
    };
    let worst: Vec<String> = order.iter().take(WORST).map(told).collect();
    format!("lost most: {}", worst.join(", "))
}

/// What a reader must know of one CPU's window.
fn warnings(traced: &trace::Traced) -> impl Iterator<Item = String> {
    let dropped = (traced.dropped > 0).then(|| {
        format!(
            "causes cover the first {} gaps of {}, with their share of the counts",
            traced.gaps.len(),
            traced.count
        )
    });
    let backward = (traced.backward > 0).then(|| {
        let times = traced.backward;
        format!("the counter went backwards {times} times: the figures are doubtful")
    });
    dropped.into_iter().chain(backward)
}

fn throttling(evidence: &Evidence) -> Option<String> {
    let throttled = evidence.throttling.filter(|throttled| throttled.periods > 0)?;
    Some(format!(
        "a quota of CPU time was used up in {} periods and throttled the threads for {:.1} ms in all",
        throttled.periods,
        throttled.time_ns as f64 / 1e6
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::activity::seen::Look;
    use crate::noise::attribution::{OfCpu, RowCount};
    use metal::gaps::Gap;

    /// 200 gaps of 2 ticks of a ns, the first `held` are stored individually.
    fn traced(held: u64) -> Traced {
        let mut traced = trace::Traced::default();
        let gap = |n: u64| Gap { start: 1_000_000 * n + 500, end: 1_000_000 * n + 2_500 };
        traced.gaps = (0..held).map(gap).collect();
        (traced.count, traced.dropped) = (200, 200 - held);
        (traced.lost_ticks, traced.traced_ticks) = (400_000, 200_000_000);
        traced.segments = vec![(0, 200_000_000)];
        let because = String::new();
        let clock = Clock::Counter { tick_ns: 1.0 };
        Traced {
            threshold: Threshold { ticks: 300, ns: 300.0, read_to_read_ns: 10.0, because },
            seen: Seen::new(
                traced,
                evidence().into(),
                Look { clock, cpu: 3, duration_ns: 2e8, coarse_ns: 4e6 },
            ),
        }
    }

    /// Every second of them was a switch, and a tick's every fourth.
    fn evidence() -> Evidence {
        let of_cpu = OfCpu {
            interrupts: Some(vec![RowCount { name: "LOC".to_owned(), is_timer: true, count: 50 }]),
            involuntary: Some(100),
            ..OfCpu::default()
        };
        Evidence::counted(3, of_cpu)
    }

    #[test]
    fn causes_add_up_to_what_was_lost_also_where_gaps_were_dropped() {
        for held in [200, 40] {
            let traced = traced(held);
            let loss = Loss::new(&traced);
            let sum: f64 = loss.by_cause.values().sum();
            assert!((sum - loss.seen.traced.lost()).abs() < 1e-12, "{sum}");
            let of = |cause: Cause| loss.by_cause.get(&cause).copied();
            let half = of(Cause::Thread).expect("switches are counted");
            assert!((half / loss.seen.traced.lost() - 0.5).abs() < 1e-9, "{half}");
            let quarter = of(Cause::Timer).expect("interrupts are counted");
            assert!((quarter / loss.seen.traced.lost() - 0.25).abs() < 0.026, "{quarter}");
            // No counter shows these.
            for unknown in [Cause::Softirq, Cause::Plumb, Cause::Steal] {
                assert_eq!(of(unknown), None);
            }
        }
    }

    #[test]
    fn a_cpu_s_figures_are_those_that_noise_activity_writes_of_a_window() {
        let traced = traced(200);
        let (loss, seen) = (Loss::new(&traced), &traced.seen);
        let figures = [3.0, seen.traced.lost(), seen.rate_hz(), 2_000.0, seen.longest_ns(), 300.0];
        assert_eq!(loss.row(&[]), figures);
        assert_eq!(loss.by_cause, seen.by_cause());
    }

    #[test]
    fn what_is_not_known_is_not_named() {
        let mut by_cause = ByCause::new();
        let mut case = Case::new(CaseId::new());
        case.at.put("nobody", "likely the hypervisor".to_owned());
        assert_eq!(causes(&case, &by_cause, true), "no gap");
        by_cause.extend([
            (Cause::Timer, 0.03),
            (Cause::Interrupt, 0.0),
            (Cause::Unattributed, 0.01),
        ]);
        let told =
            |nobody: &str| format!("of the lost time, by counters: timer 75 %, {nobody} 25 %");
        assert_eq!(causes(&case, &by_cause, true), told("unattributed"));
        assert_eq!(causes(&case, &by_cause, false), told("likely the hypervisor"));
    }
}
