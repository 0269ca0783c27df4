//! What a case is written down as: every exchange, what was lost where, both ends' CPU time.

use super::echo::Told;
use super::trip::Ran;
use crate::net::place::{Used, listed};
use crate::net::record_with_lost;
use anyhow::{Result, ensure};
use bench::measure::{Bench, Declared, Values};
use laws::net::Ends;
use laws::net::rtt::{Exchange, Protocol};
use record::case::Case;
use record::event::Samples;
use record::key::Put;

pub(super) struct Counts<'case> {
    /// Each connection's thread at the near end.
    pub(super) ran: &'case [Ran],
    /// What the kernel did beside at the near end.
    pub(super) used: &'case Used,
    /// The far end's; none where one thread is both.
    pub(super) told: Option<&'case Told>,
}

impl Counts<'_> {
    fn sum(&self, count: impl Fn(&Ran) -> u64) -> u64 {
        self.ran.iter().map(count).sum()
    }

    /// Messages that came to the far end.
    fn came(&self) -> u64 {
        self.told.map_or_else(|| self.sum(|ran| ran.sent), |told| told.messages)
    }

    pub(super) fn write(&self, bench: &mut Bench, case: &Case, of: &Exchange) -> Result<()> {
        let (sent, came) = (self.sum(|ran| ran.sent), self.came());
        ensure!(
            came == sent || of.protocol == Protocol::Udp,
            "{came} of {sent} messages arrived at the far end"
        );
        // On one CPU, and if connections share one, a woken thread may preempt its waker: planned.
        if of.ends != Ends::OtherCpu || of.connections > 1 {
            bench.declare(Declared::Switches(2 * sent));
        }
        let samples = self.write_trips(bench, case)?;
        samples.set_quantities(self.quantities(of));
        self.place(samples);
        let each = |cpu_ns: u64, count: u64| vec![cpu_ns as f64 / count.max(1) as f64];
        let timed = self.sum(|ran| ran.timed);
        let near = each(self.sum(|ran| ran.cpu_ns), timed);
        bench.record(case, "cpu_near", Values::batches(timed, near))?;
        if let Some(told) = self.told {
            let far = Values::blocks(each(told.cpu_ns, told.messages));
            bench.record(case, "cpu_far", far.apart())?;
        }
        Ok(())
    }

    /// Every exchange; those that did not come back in time as values known only to be long.
    fn write_trips<'bench>(
        &self,
        bench: &'bench mut Bench,
        case: &Case,
    ) -> Result<&'bench mut Samples> {
        let clock = bench.order().clock();
        let ticks = self.ran.iter().flat_map(|ran| &ran.ticks);
        let values: Vec<f64> = ticks.map(|ticks| clock.ns(*ticks)).collect();
        let lost = self.sum(|ran| ran.lost);
        let samples = record_with_lost(bench, case, "round_trip", values, lost)?;
        if lost == 0 {
            return Ok(samples);
        }
        let waited = self.ran.iter().map(|ran| ran.lost_after_ns);
        samples.set_quantities([
            ("timeouts", lost as f64),
            ("timeout_ns", waited.fold(0.0, f64::max)),
        ]);
        samples.notes.push(format!(
            "{lost} of {} messages did not come back in time; the distribution counts them as \
             longer than the time-out",
            self.sum(|ran| ran.timed)
        ));
        Ok(samples)
    }

    fn quantities(&self, of: &Exchange) -> Vec<(&'static str, f64)> {
        let sent = self.sum(|ran| ran.sent);
        let mut all = vec![
            ("messages", sent as f64),
            ("near_softirq_ns", self.used.softirq_ns as f64),
            ("near_net_rx", self.used.received() as f64),
        ];
        if let Some(told) = self.told {
            all.push(("far_softirq_ns", told.used.softirq_ns as f64));
            all.push(("far_net_rx", told.used.received() as f64));
        }
        if of.protocol == Protocol::Udp {
            // One that came too late came.
            let back = sent - self.sum(|ran| ran.unanswered);
            let late = self.sum(|ran| ran.late);
            all.extend([
                ("lost_there", sent.saturating_sub(self.came()) as f64),
                ("lost_back", self.came().saturating_sub(back + late) as f64),
                ("late", late as f64),
            ]);
        }
        all
    }

    /// Where packets arrived, and where the far end was.
    fn place(&self, samples: &mut Samples) {
        let near: Vec<usize> = self.ran.iter().filter_map(|ran| ran.softirq_cpu).collect();
        let far = self.told.map(|told| told.softirq_cpus.clone()).unwrap_or_default();
        for (name, cpus) in [
            ("near_softirq_cpu", listed(near)),
            ("far_softirq_cpu", listed(far)),
            ("far_cpu", listed(self.told.and_then(|told| told.cpu))),
        ] {
            samples.at.put_known(name, cpus);
        }
    }
}
