//! What a case is written down as: every exchange, what was lost where, both ends' CPU time.

use super::echo::FarCounts;
use crate::net::place::{Used, listed};
use crate::net::record_with_lost;
use crate::net::wire::timed::Ran;
use bench::prelude::*;
use laws::net::Ends;
use laws::net::rtt::{Exchange, Protocol};
use record::event::Samples;

/// Writes a case down. `ran`: each connection's thread at the near end; `used`: what the kernel did
/// beside there; `told`: the far end's counts, `None` where one thread is both ends.
pub(super) fn write(
    bench: &mut Bench,
    case: &Case,
    of: &Exchange,
    ran: &[Ran],
    used: &Used,
    told_counts: Option<&FarCounts>,
) -> Result<()> {
    let sent = sum(ran, |ran| ran.sent);
    let came = told_counts.map_or(sent, |told| told.messages);
    ensure!(
        came == sent || of.protocol == Protocol::Udp,
        "{came} of {sent} messages arrived at the far end"
    );
    // On one CPU, and if connections share one, a woken thread may preempt its waker: planned.
    if of.ends != Ends::OtherCpu || of.connections > 1 {
        bench.declare(Declared::Switches(2 * sent));
    }
    let clock = bench.order().clock();
    let ticks = ran.iter().flat_map(|ran| &ran.ticks);
    let values = ticks.map(|ticks| clock.ns(*ticks)).collect();
    let (timed, lost) = (sum(ran, |ran| ran.timed), sum(ran, |ran| ran.lost));
    // Those that did not come back in time are values known only to be long.
    let samples = record_with_lost(bench, case, "round_trip", values, lost)?;
    if lost > 0 {
        let waited_ns = ran.iter().map(|ran| ran.lost_after_ns).fold(0.0, f64::max);
        samples.set_quantities([("timeouts", lost as f64), ("timeout_ns", waited_ns)]);
        samples.notes.push(format!(
            "{lost} of {timed} messages did not come back in time; the distribution counts them as \
             longer than the time-out"
        ));
    }
    describe(samples, ran, used, told_counts);
    if of.protocol == Protocol::Udp {
        // A late one counts as arrived.
        let back = sent - sum(ran, |ran| ran.unanswered);
        let late = sum(ran, |ran| ran.late);
        samples.set_quantities([
            ("lost_there", sent.saturating_sub(came) as f64),
            ("lost_back", came.saturating_sub(back + late) as f64),
            ("late", late as f64),
        ]);
    }
    let each = |cpu_ns: u64, count: u64| vec![cpu_ns as f64 / count.max(1) as f64];
    let near = each(sum(ran, |ran| ran.cpu_ns), timed);
    bench.record(case, "cpu_near", Values::batches(timed, near))?;
    if let Some(told) = told_counts {
        let far = Values::blocks(each(told.cpu_ns, told.messages));
        bench.record(case, "cpu_far", far.apart())?;
    }
    Ok(())
}

fn sum(ran: &[Ran], count: impl Fn(&Ran) -> u64) -> u64 {
    ran.iter().map(count).sum()
}

/// What the kernel did at each end, where packets arrived, and where the far end was.
fn describe(samples: &mut Samples, ran: &[Ran], used: &Used, told: Option<&FarCounts>) {
    samples.set_quantities([
        ("messages", sum(ran, |ran| ran.sent) as f64),
        ("near_softirq_ns", used.softirq_ns as f64),
        ("near_net_rx", used.received() as f64),
    ]);
    let near = ran.iter().filter_map(|ran| ran.softirq_cpu);
    samples.at.put_known("near_softirq_cpu", listed(near));
    if let Some(told) = told {
        samples.set_quantities([
            ("far_softirq_ns", told.used.softirq_ns as f64),
            ("far_net_rx", told.used.received() as f64),
        ]);
        let far = told.softirq_cpus.iter().copied();
        samples.at.put_known("far_softirq_cpu", listed(far));
        samples.at.put_known("far_cpu", listed(told.cpu));
    }
}
