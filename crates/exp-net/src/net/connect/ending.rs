//! How an end of a connection is closed: what close(2) takes, and when the other end has said that
//! the FIN came.

use super::talk::CpuTime;
use crate::net::usage::thread_cpu_ns;
use anyhow::{Context, Result, bail, ensure};
use bench::measure::Clock;
use metal::connection::state;
use metal::raw;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Looks at the state between two looks at the time.
const LOOKS: u32 = 64;

/// Which of an end's two figures a connection yields: they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// What close(2) took.
    Close,
    /// From the call that sends the FIN until it is acknowledged.
    Acknowledged,
}

impl Ending {
    pub(super) fn of(number: u64) -> Ending {
        match number.is_multiple_of(2) {
            true => Ending::Close,
            false => Ending::Acknowledged,
        }
    }
}

/// Notes the calling thread's CPU time from one connection's end to the next one's, of those that
/// are closed.
pub(super) struct Meter {
    cpu: CpuTime,
    last_ns: u64,
}

impl Meter {
    pub(super) fn begin() -> Meter {
        Meter { cpu: CpuTime::default(), last_ns: thread_cpu_ns() }
    }

    pub(super) fn ended(&mut self, number: u64) {
        let now_ns = thread_cpu_ns();
        if Ending::of(number) == Ending::Close {
            self.cpu.add(CpuTime { ns: now_ns.saturating_sub(self.last_ns), connections: 1 });
        }
        self.last_ns = now_ns;
    }

    pub(super) fn taken(self) -> CpuTime {
        self.cpu
    }
}

/// Times of one end's closes, in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Closes {
    /// What close(2) took.
    pub(super) close_ns: Vec<f64>,
    /// Until the FIN was acknowledged.
    pub(super) fin_ns: Vec<f64>,
}

impl Closes {
    pub(super) fn end(
        &mut self,
        stream: TcpStream,
        ending: Ending,
        clock: Clock,
        limit: Duration,
    ) -> Result<()> {
        match ending {
            Ending::Close => self.close_ns.push(close(stream, clock)?),
            Ending::Acknowledged => {
                let start = clock.start();
                finish(&stream)?;
                let end = acknowledged(&stream, clock, limit)?;
                self.fin_ns.push(clock.between_ns(start, end));
            }
        }
        Ok(())
    }
}

pub(super) fn close(stream: TcpStream, clock: Clock) -> Result<f64> {
    let fd = OwnedFd::from(stream);
    let start = clock.start();
    let closed = raw::close(fd);
    let end = clock.end();
    closed.context("closing a connection")?;
    Ok(clock.between_ns(start, end))
}

/// Sends the FIN that close(2) sends, and keeps the descriptor, by which alone the state can be
/// asked for.
pub(super) fn finish(stream: &TcpStream) -> Result<()> {
    stream.shutdown(Shutdown::Write).context("shutting down one direction")
}

/// Ticks when the FIN that was sent was first seen acknowledged. Another thread of the same CPU may
/// run meanwhile: it may be the one that acknowledges.
pub(super) fn acknowledged(stream: &TcpStream, clock: Clock, limit: Duration) -> Result<u64> {
    let until = Instant::now() + limit;
    let mut looks = 0_u32;
    loop {
        let now = state(stream.as_fd()).context("reading the state of a connection")?;
        if !now.awaits_acknowledgement() {
            return Ok(clock.end());
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) && Instant::now() > until {
            bail!("no acknowledgement of a FIN within {limit:?}: the other end is gone");
        }
        raw::sched_yield().context("sched_yield")?;
    }
}

/// Waits for the other end's FIN.
pub(super) fn ended(stream: &mut TcpStream) -> Result<()> {
    let got = stream.read(&mut [0]).context("waiting for the other end to close")?;
    ensure!(got == 0, "the other end sent data instead of closing");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Closes, Ending, acknowledged, ended, finish};
    use crate::net::ends::tests::streams;
    use bench::measure::Clock;
    use std::time::{Duration, Instant};

    #[test]
    fn both_figures_of_both_ends_are_taken() {
        let limit = Duration::from_secs(5);
        let (mut first, mut second) = (Closes::default(), Closes::default());
        for number in 0..4 {
            let (near, mut far) = streams();
            let ending = Ending::of(number);
            match ending {
                Ending::Close => first.end(near, ending, Clock::Monotonic, limit).unwrap(),
                Ending::Acknowledged => finish(&near).unwrap(),
            }
            ended(&mut far).unwrap();
            second.end(far, ending, Clock::Monotonic, limit).unwrap();
        }
        assert_eq!((first.close_ns.len(), first.fin_ns.len()), (2, 0));
        assert_eq!((second.close_ns.len(), second.fin_ns.len()), (2, 2));
        let mut all = first.close_ns.iter().chain(&second.fin_ns);
        assert!(all.all(|ns| *ns > 0.0));
    }

    #[test]
    fn a_fin_that_the_other_end_does_not_answer_is_acknowledged_all_the_same() {
        let (near, _far) = streams();
        let began = Instant::now();
        finish(&near).unwrap();
        // Neither end closes: the kernel holds the acknowledgement back (40 ms), and sends it then.
        acknowledged(&near, Clock::Monotonic, Duration::from_secs(5)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_does_not_close_is_told() {
        use std::io::Write;
        let (mut near, mut far) = streams();
        near.write_all(b"x").unwrap();
        assert!(ended(&mut far).is_err());
        far.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert!(ended(&mut far).is_err());
    }
}
