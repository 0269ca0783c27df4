//! Interruptions of waits that last longer than they may.

use bench::prelude::*;
use metal::deadline::Deadline;

/// Interrupts waits that last longer than they may, and costs nothing where they do not: a time-out
/// of the socket's own would be a timer at each wait.
pub struct Limit {
    deadline: Deadline,
    clock: Clock,
    ns: f64,
    /// The share after which it is renewed.
    renewed_after_ns: f64,
    armed: u64,
}

impl Limit {
    /// Of so many ns from now on; [`Limit::renew`] renews it when `share` of them have passed.
    pub fn new(clock: Clock, ns: f64, share: f64) -> Result<Limit> {
        let deadline = Deadline::after(Duration::from_nanos(ns as u64)).context("a deadline")?;
        Ok(Limit { deadline, clock, ns, renewed_after_ns: ns * share, armed: clock.start() })
    }

    /// Before each wait: the limit is its own, but for the share that may have passed. One that is
    /// interrupted too early waits on, for the interruption comes again.
    pub fn renew(&mut self) -> Result<()> {
        let now = self.clock.end();
        if self.clock.between_ns(self.armed, now) > self.renewed_after_ns {
            self.armed = now;
            let time = Duration::from_nanos(self.ns as u64);
            self.deadline.put_off(time).context("a deadline")?;
        }
        Ok(())
    }

    /// What an interrupted call is to do: go on, or give up.
    pub fn go_on(&self) -> Result<()> {
        let passed_ns = self.clock.between_ns(self.armed, self.clock.end());
        ensure!(passed_ns < self.ns, "an exchange did not complete within {:.1} s", self.ns / 1e9);
        Ok(())
    }
}
