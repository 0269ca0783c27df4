//! How far the counters of two CPUs are apart: no later than what light in the caches allows.

use super::clock::Clock;
use anyhow::{Context, Result, bail};
use host::refused;
use metal::place;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// METHOD §1: exchanges each way; the least counts.
pub const EXCHANGES: usize = 1000;
/// METHOD §1: share of a window above which an offset forbids comparing the counters.
const SHARE_MAX: f64 = 0.01;
/// Both threads give up after this time: a CPU may be taken away.
const PATIENCE: Duration = Duration::from_secs(10);
/// Spins between looks at the patience.
const SPINS: u32 = 1 << 16;

/// The clock of the second CPU minus that of the first lies in `low_ns..=high_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// Least possible offset, in ns: minus the quickest message back.
    pub low_ns: f64,
    /// Greatest possible offset, in ns: the quickest message forth.
    pub high_ns: f64,
}

impl Offset {
    /// Largest offset that the exchanges allow, in ns.
    pub fn bound_ns(&self) -> f64 {
        self.low_ns.abs().max(self.high_ns.abs())
    }

    /// Whether windows of this length may be compared across the two CPUs.
    pub fn allows(&self, window_ns: f64) -> bool {
        self.bound_ns() <= SHARE_MAX * window_ns
    }
}

/// A message: its send time in ticks, 0 before it is sent. On a cache line pair of its own.
#[repr(align(128))]
struct Mailbox(AtomicU64);

/// A message that there will be none.
const GONE: u64 = u64::MAX;

/// Bounds the offset between the clocks of two CPUs by exchanges between two pinned threads: about
/// a millisecond. Errors: the CPUs are the same or cannot be pinned to; a thread does not get its
/// CPU for two seconds.
pub fn offset(clock: Clock, first: usize, second: usize, exchanges: usize) -> Result<Offset> {
    if first == second {
        bail!("a CPU has no offset to itself");
    }
    let forth = Mailbox(AtomicU64::new(0));
    let back = Mailbox(AtomicU64::new(0));
    let (least_back, least_forth) = thread::scope(|scope| {
        let far = thread::Builder::new().spawn_scoped(scope, || {
            place::pin(second).with_context(|| format!("pinning to CPU {second}"))?;
            let mut least = i64::MAX;
            for _ in 0..exchanges {
                least = least.min(receive(clock, &forth)?);
                send(clock, &back);
            }
            Ok::<_, anyhow::Error>(least)
        });
        let far = far.map_err(refused::explained)?;
        let near = thread::Builder::new().spawn_scoped(scope, || {
            place::pin(first).with_context(|| format!("pinning to CPU {first}"))?;
            let mut least = i64::MAX;
            for _ in 0..exchanges {
                send(clock, &forth);
                least = least.min(receive(clock, &back)?);
            }
            Ok::<_, anyhow::Error>(least)
        });
        if near.is_err() {
            forth.0.store(GONE, Ordering::Release);
        }
        // A far end that is left alone otherwise gives up after its patience.
        let near = near.map_err(refused::explained)?.join();
        let near = near.expect("the exchange does not panic");
        let far = far.join().expect("the exchange does not panic");
        Ok::<_, anyhow::Error>((near?, far?))
    })?;
    Ok(bound(clock, least_forth, least_back))
}

/// The offset's limits from the least apparent delays both ways, in ticks. A message takes no
/// less than no time, so forth is at least the offset and back at least minus it.
fn bound(clock: Clock, least_forth: i64, least_back: i64) -> Offset {
    let ns = |ticks: i64| {
        let size = clock.ns(ticks.unsigned_abs());
        if ticks < 0 { -size } else { size }
    };
    Offset { low_ns: -ns(least_back), high_ns: ns(least_forth) }
}

fn send(clock: Clock, mailbox: &Mailbox) {
    mailbox.0.store(clock.start(), Ordering::Release);
}

/// Waits for a message and empties the box: its apparent delay in ticks, negative where this
/// CPU's clock is behind.
fn receive(clock: Clock, mailbox: &Mailbox) -> Result<i64> {
    let mut patience_ends = None;
    loop {
        for _ in 0..SPINS {
            let sent = mailbox.0.load(Ordering::Acquire);
            if sent == GONE {
                bail!("the other thread could not be made");
            }
            if sent != 0 {
                let now = clock.end();
                mailbox.0.store(0, Ordering::Relaxed);
                return Ok(now.wrapping_sub(sent) as i64);
            }
            std::hint::spin_loop();
        }
        let ends = *patience_ends.get_or_insert_with(|| Instant::now() + PATIENCE);
        if Instant::now() > ends {
            bail!("the other CPU did not answer for {PATIENCE:?}");
        }
        // Where both threads share a CPU after all, this lets the other one run.
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::{GONE, Mailbox, bound, offset, receive};
    use crate::measure::clock::Clock;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn the_offset_lies_between_the_quickest_messages() {
        // The second clock is 100 ns ahead; messages take 60 ns.
        let apart = bound(Clock::Monotonic, 160, -40);
        assert_eq!((apart.low_ns, apart.high_ns), (40.0, 160.0));
        assert_eq!(apart.bound_ns(), 160.0);
        assert!(apart.allows(16_000.0));
        assert!(!apart.allows(15_999.0));
    }

    #[test]
    fn an_end_left_alone_is_told() {
        let mailbox = Mailbox(AtomicU64::new(GONE));
        receive(Clock::Monotonic, &mailbox).expect_err("nobody is there");
    }

    #[test]
    fn a_cpu_has_no_offset_to_itself() {
        offset(Clock::Monotonic, 0, 0, 1).expect_err("same CPU");
    }

    #[test]
    fn one_clock_read_on_two_cpus_allows_no_offset_away_from_zero() {
        let cpus = metal::place::allowed().expect("CPUs");
        if let [first, second, ..] = cpus[..] {
            let same = offset(Clock::Monotonic, first, second, 100).expect("exchanges");
            // The kernel's clock never runs backwards between CPUs.
            assert!(same.low_ns <= 0.0 && same.high_ns >= 0.0, "{same:?}");
        }
    }
}
