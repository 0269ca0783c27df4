//! The two loops of the near end. One thread sends and receives, awake all the time on a CPU of its
//! own: it looks at the clock, sends what is due, and takes in what is there, from one connection a
//! turn.

use super::connection::Connection;
use anyhow::{Result, ensure};
use bench::measure::Clock;

/// The first request is due so long after the loop begins, in ns.
const LEAD_NS: f64 = 20e3;
/// A closed loop whose least number of requests takes longer is given up, in ns.
const LONGEST_NS: f64 = 5e9;

/// What became of a request, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    pub(super) intended: u64,
    /// When it was sent; a request may have been due and never sent.
    pub(super) started: Option<u64>,
    pub(super) replied: Option<u64>,
}

pub(super) struct Near {
    pub(super) clock: Clock,
    pub(super) connections: Vec<Connection>,
    /// After this time a reply is not waited for, in ticks.
    pub(super) timeout: u64,
    /// Number of the next loop's first request: replies that come later than their loop are known
    /// by it.
    pub(super) first: u64,
}

impl Near {
    /// Sends requests when they are due, whatever became of earlier ones: one after another by the
    /// connections in turn. Those that nothing takes in time are never sent. Ends with the last
    /// reply, or when all have had their time.
    pub(super) fn open_loop(&mut self, due: &[u64]) -> Result<Vec<Trip>> {
        let Near { clock, connections, timeout, .. } = self;
        let begin = clock.start() + clock.ticks(LEAD_NS);
        let mut trips: Vec<Trip> = due.iter().map(|at| Trip::due(begin + at)).collect();
        let last = trips.last().map_or(begin, |trip| trip.intended);
        let give_up = last + *timeout;
        let (mut next, mut replies, mut turn) = (0, 0, 0);
        let mut until = give_up;
        loop {
            let now = clock.start();
            let is_sending = next < trips.len() && now < give_up;
            if is_sending && now >= trips[next].intended {
                let by = next % connections.len();
                if connections[by].send(self.first + next as u64)? {
                    trips[next].started = Some(now);
                    until = until.max(now + *timeout);
                    next += 1;
                }
            }
            if let Some(at) = turn_of(connections, &mut turn) {
                let first = self.first;
                connections[at].receive(&mut |number| {
                    let tick = clock.end();
                    replies += u64::from(replied(&mut trips[..next], first, number, tick)?);
                    Ok(())
                })?;
            }
            if (!is_sending && replies == next as u64) || now > until {
                break;
            }
        }
        self.first += trips.len() as u64;
        // What is still on its way belongs to no later loop.
        self.connections.iter_mut().for_each(|one| one.in_flight = 0);
        Ok(trips)
    }

    /// Each connection sends its next request when it has the reply to the last, for `window_ns`
    /// and until there were `least` requests.
    pub(super) fn closed_loop(&mut self, window_ns: f64, least: usize) -> Result<Vec<Trip>> {
        let Near { clock, connections, timeout, .. } = self;
        let begin = clock.start();
        let end = begin + clock.ticks(window_ns);
        let longest = begin + clock.ticks(window_ns + LONGEST_NS);
        let mut trips: Vec<Trip> = Vec::with_capacity(1 << 16);
        let mut current: Vec<Option<usize>> = vec![None; connections.len()];
        let mut at = 0;
        loop {
            let now = clock.start();
            let is_sending = now < end || trips.len() < least;
            match current[at] {
                None if is_sending && connections[at].send(self.first + trips.len() as u64)? => {
                    current[at] = Some(trips.len());
                    trips.push(Trip { started: Some(now), ..Trip::due(now) });
                }
                None => {}
                Some(of) => {
                    let first = self.first;
                    let trips = &mut trips[..];
                    connections[at].receive(&mut |number| {
                        let tick = clock.end();
                        replied(trips, first, number, tick).map(|_| ())
                    })?;
                    let trip = trips[of];
                    if trip.replied.is_some() {
                        current[at] = None;
                    } else if now > trip.intended + *timeout {
                        ensure!(
                            trips.iter().any(|trip| trip.replied.is_some()),
                            "the far end does not reply: nothing within {:.1} s",
                            clock.ns(*timeout) / 1e9
                        );
                        connections[at].give_up();
                        current[at] = None;
                    }
                }
            }
            if !is_sending && current.iter().all(Option::is_none) {
                break;
            }
            ensure!(
                now < longest,
                "{} requests in sequence took longer than {:.0} s",
                trips.len(),
                LONGEST_NS / 1e9
            );
            at = (at + 1) % connections.len();
        }
        self.first += trips.len() as u64;
        Ok(trips)
    }
}

impl Trip {
    pub(super) fn due(intended: u64) -> Trip {
        Trip { intended, started: None, replied: None }
    }
}

/// The next connection that has something on its way, in turn.
#[inline]
fn turn_of(connections: &[Connection], turn: &mut usize) -> Option<usize> {
    for _ in 0..connections.len() {
        *turn = (*turn + 1) % connections.len();
        if connections[*turn].in_flight > 0 {
            return Some(*turn);
        }
    }
    None
}

/// Notes a reply at a tick; whether it is the first to its request. Late replies to requests of
/// earlier loops do not count.
#[inline]
fn replied(trips: &mut [Trip], first: u64, number: u64, tick: u64) -> Result<bool> {
    let Some(at) = number.checked_sub(first) else {
        return Ok(false);
    };
    let trip = usize::try_from(at).ok().and_then(|at| trips.get_mut(at));
    let trip = trip.filter(|trip| trip.started.is_some());
    ensure!(trip.is_some(), "a reply to request {number}, which was not sent");
    let is_first = trip.as_ref().is_some_and(|trip| trip.replied.is_none());
    if let Some(trip) = trip.filter(|_| is_first) {
        trip.replied = Some(tick);
    }
    Ok(is_first)
}

#[cfg(test)]
mod tests {
    use super::{Trip, replied};

    #[test]
    fn replies_are_matched_by_number_and_counted_once() {
        let sent = Trip { started: Some(1), ..Trip::due(1) };
        let mut trips = vec![sent, sent, Trip::due(5)];
        assert!(replied(&mut trips, 100, 101, 7).unwrap());
        assert!(!replied(&mut trips, 100, 101, 9).unwrap(), "twice");
        assert!(!replied(&mut trips, 100, 99, 9).unwrap(), "of before");
        assert_eq!([trips[0].replied, trips[1].replied], [None, Some(7)]);
        for never in [102, 103, u64::MAX] {
            assert!(replied(&mut trips, 100, never, 9).is_err(), "{never}");
        }
    }
}
