//! What a session keeps: its record reaches the disk, and has an end.

use crate::Session;
use crate::header::now;
use crate::round;
use anyhow::Result;
use record::event::{End, Event, Footer};
use std::time::{Duration, Instant};

/// Events that are not on the disk for this time are brought there after the next round.
const SYNC_AFTER: Duration = Duration::from_secs(15);

impl Session<'_> {
    /// Has everything so far reach the disk. Between rounds only: a disk that writes disturbs them.
    pub(super) fn sync(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.observer.sync()?;
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
        let drift = if end == End::Interrupted {
            None
        } else {
            round::counter_drift(self.setup, &self.calibration, self.stop)
        };
        let usage = metal::process::rusage_self();
        let footer = Footer {
            finished: now(),
            elapsed_s: self.started.elapsed().as_secs_f64(),
            end,
            counter_drift: drift,
            eta_after_first_pass_s: self.eta_after_first_pass.map(|eta| eta.as_secs_f64()),
            session_cpu_s: (usage.utime_ns + usage.stime_ns) as f64 * 1e-9,
            // Not `ru_maxrss` where it can be helped: it survives exec, so it would show the peak
            // of the program that started plumb.
            session_peak_bytes: metal::process::peak_resident_bytes().unwrap_or(usage.maxrss),
            synced: self.synced,
        };
        self.emit(Event::Footer(footer))?;
        self.sync()
    }
}
