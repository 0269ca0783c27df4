//! What a session keeps: its record reaches the disk, and has an end.

use crate::Session;
use crate::header::footer;
use crate::round::counter_drift;
use anyhow::Result;
use host::programs::CpuTimes;
use host::{Outside, Root};
use record::event::{End, Event, Footer};
use std::time::{Duration, Instant};

/// Events that are not on the disk for this time are brought there after the next round.
const SYNC_AFTER: Duration = Duration::from_secs(15);

impl Session<'_> {
    /// Has everything so far reach the disk. Between rounds only: a disk that writes disturbs them.
    pub(super) fn sync(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.sink.sync()?;
        self.synced.times += 1;
        self.synced.seconds += begun.elapsed().as_secs_f64();
        self.synced_at = Instant::now();
        Ok(())
    }

    /// The same, where that was long ago.
    pub(super) fn sync_if_due(&mut self) -> Result<()> {
        if self.synced_at.elapsed() > SYNC_AFTER { self.sync() } else { Ok(()) }
    }

    pub(super) fn footer(&mut self, end: End) -> Result<()> {
        let measured = (end != End::Interrupted).then_some(&self.calibration);
        let footer = Footer {
            counter_drift: measured.and_then(|of| counter_drift(self.setup, of, self.stop)),
            eta_after_first_pass_s: self.eta_after_first_pass.map(|eta| eta.as_secs_f64()),
            synced: self.synced,
            programs: self.busy_programs(),
            ..footer(self.started, end)
        };
        self.emit(Event::Footer(footer))?;
        self.sync()
    }

    /// What else was busy on the machine since the segment began.
    fn busy_programs(&self) -> Vec<String> {
        let root = Root::live(Outside::default());
        let own = root.line("proc/self/comm").unwrap_or_default();
        CpuTimes::read(&root).busiest_since(&self.cpu_times, self.started.elapsed(), &own)
    }
}
