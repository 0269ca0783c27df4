//! The two loops of the near end: when their requests are due, drawn before the first is sent, so
//! that nothing that happens can move it, and what became of each. One thread sends and receives,
//! awake all the time on a CPU of its own: it looks at the clock, sends what is due, and takes in
//! what is there, from one connection a turn.

use crate::net::Events;
use crate::net::wire::timed::{Messages, Socket, Taken, number};
use bench::prelude::*;
use laws::net::request::Schedule;
use metal::socket::Wait;

/// The first request is due so long after the loop begins, in ns.
const LEAD_NS: f64 = 20e3;
/// A closed loop whose least number of requests takes longer is given up, in ns.
const LONGEST_NS: f64 = 5e9;

/// What became of a request, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::request) struct Trip {
    pub(in crate::net::request) intended: u64,
    /// When it was sent; a request may have been due and never sent.
    pub(in crate::net::request) started: Option<u64>,
    pub(in crate::net::request) replied: Option<u64>,
}

/// Bytes that are taken in at a time, or a message if that is longer.
pub(in crate::net::request) const INBOX_BYTES: usize = 64 << 10;

/// A connection of the near end, on which nothing waits.
pub(in crate::net::request) struct Connection {
    pub(in crate::net::request) socket: Socket,
    messages: Messages,
}

impl Connection {
    /// Of messages of so many bytes.
    pub(in crate::net::request) fn new(socket: Socket, bytes: usize) -> Result<Connection> {
        socket.options().set_nonblocking(true).context("making a socket non-blocking")?;
        Ok(Connection { socket, messages: Messages::new(bytes, INBOX_BYTES) })
    }

    /// Sends a request; `false` if the kernel accepts no bytes now.
    #[inline]
    fn send(&mut self, number: u64) -> Result<bool> {
        self.messages.post(&self.socket, number)
    }

    /// Receives what is there, in one call; `got` gets the number of each reply.
    #[inline]
    fn receive(&mut self, mut got: impl FnMut(u64) -> Result<()>) -> Result<()> {
        self.messages.flush(&self.socket)?;
        let is_stream = self.socket.is_stream;
        let taken = self.messages.take(&self.socket, Wait::Block, |sent, reply| {
            match number(reply).filter(|_| reply.len() == sent.len()) {
                Some(number) => got(number),
                // A late answer of the introduction is no message.
                None if !is_stream => Ok(()),
                None => bail!("received data is not a reply"),
            }
        })?;
        ensure!(taken != Taken::End, "the far end closed a connection during a case");
        Ok(())
    }
}

pub(in crate::net::request) struct Near {
    pub(in crate::net::request) clock: Clock,
    pub(in crate::net::request) connections: Vec<Connection>,
    /// After this time a reply is not waited for, in ticks.
    pub(in crate::net::request) timeout: u64,
    /// Number of the next loop's first request: replies that come later than their loop are known
    /// by it.
    pub(in crate::net::request) first: u64,
}

impl Near {
    /// Sends requests when they are due, whatever became of earlier ones: one after another by the
    /// connections in turn. Those that nothing takes in time are never sent. Ends with the last
    /// reply, or when all have had their time.
    pub(in crate::net::request) fn open_loop(&mut self, due: &[u64]) -> Result<Vec<Trip>> {
        let Near { clock, connections, timeout, .. } = self;
        let begin = clock.start() + clock.ticks(LEAD_NS);
        let mut trips: Vec<Trip> = due.iter().map(|at| Trip::due(begin + at)).collect();
        let mut in_flight = vec![0_u64; connections.len()];
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
                    in_flight[by] += 1;
                    until = until.max(now + *timeout);
                    next += 1;
                }
            }
            if let Some(at) = turn_of(&in_flight, &mut turn) {
                let first = self.first;
                let in_flight = &mut in_flight[at];
                connections[at].receive(|number| {
                    let tick = clock.end();
                    *in_flight = in_flight.saturating_sub(1);
                    replies += u64::from(replied(&mut trips[..next], first, number, tick)?);
                    Ok(())
                })?;
            }
            if (!is_sending && replies == next as u64) || now > until {
                break;
            }
        }
        self.first += trips.len() as u64;
        Ok(trips)
    }

    /// Each connection sends its next request when it has the reply to the last, for `window_ns`
    /// and until there were `least` requests.
    pub(in crate::net::request) fn closed_loop(
        &mut self,
        window_ns: f64,
        least: usize,
    ) -> Result<Vec<Trip>> {
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
                    connections[at].receive(|number| {
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
    pub(in crate::net::request) fn due(intended: u64) -> Trip {
        Trip { intended, started: None, replied: None }
    }
}

/// The next connection that has something on its way, in turn.
#[inline]
fn turn_of(in_flight: &[u64], turn: &mut usize) -> Option<usize> {
    for _ in 0..in_flight.len() {
        *turn = (*turn + 1) % in_flight.len();
        if in_flight[*turn] > 0 {
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

/// More requests are not held.
const MOST: f64 = 4e6;
/// Fewer say nothing of a rate.
pub(in crate::net::request) const LEAST: usize = 8;

/// Due times in ns from the first: so many as fit into `window_ns` at `rate` a second, at least
/// [`LEAST`].
pub(in crate::net::request) fn due(
    schedule: Schedule,
    rate: f64,
    window_ns: f64,
    longest_ns: f64,
    seed: u64,
) -> Result<Vec<f64>> {
    let period_ns = 1e9 / rate;
    let count = (window_ns / period_ns).round().max(LEAST as f64);
    ensure!(
        rate > 0.0 && count * period_ns <= longest_ns.max(window_ns * 1.01),
        "at {rate:.1} requests per second, {LEAST} requests take longer than {:.1} s; allow more \
         with --set net.request.time=…",
        longest_ns / 1e9
    );
    ensure!(count <= MOST, "{count:.0} requests are too many; the limit is {MOST:.0}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at_ns = 0.0;
    let mut next = || {
        let now_ns = at_ns;
        at_ns += match schedule {
            Schedule::Fixed => period_ns,
            // 1 - u is above 0, so the logarithm is finite.
            Schedule::Poisson => -(1.0 - random.f64()).ln() * period_ns,
        };
        now_ns
    };
    Ok((0..count as usize).map(|_| next()).collect())
}

/// The account of a loop. A request without a reply in time, or never sent, has no value: it is
/// counted as one that lasted at least so long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::net::request) struct Account {
    /// From due time to reply; those never sent have none.
    pub(in crate::net::request) response: Events,
    /// From sending to reply, of those that were sent.
    pub(in crate::net::request) service: Events,
    /// From due time to sending.
    pub(in crate::net::request) lateness: Events,
    pub(in crate::net::request) never_sent: u64,
    /// Sent, without any reply before the loop ended.
    pub(in crate::net::request) no_reply: u64,
    pub(in crate::net::request) count: u64,
    /// Replies a second, from the moment at which the first was due to the last reply, less the
    /// shortest time that one was on its way: so a long way does not lower it, and a late begin
    /// does not raise it.
    pub(in crate::net::request) rate: f64,
    pub(in crate::net::request) asked: f64,
}

impl Account {
    /// Of what became of the requests of a loop. Errors: fewer than half had a reply in time; a
    /// figure would be of those that were lucky.
    pub(in crate::net::request) fn from_trips(
        clock: Clock,
        trips: &[Trip],
        timeout: u64,
    ) -> Result<Account> {
        let mut all = Account { count: trips.len() as u64, ..Account::default() };
        let put = |of: &mut Events, from: u64, to: Option<u64>| {
            let ticks = to.map(|to| to.saturating_sub(from));
            match ticks.filter(|ticks| *ticks < timeout) {
                Some(ticks) => of.ns.push(clock.ns(ticks)),
                None => of.without += 1,
            }
        };
        for trip in trips {
            put(&mut all.response, trip.intended, trip.replied);
            put(&mut all.lateness, trip.intended, trip.started);
            if let Some(started) = trip.started {
                put(&mut all.service, started, trip.replied);
            }
        }
        all.never_sent = trips.iter().filter(|trip| trip.started.is_none()).count() as u64;
        let silent = |trip: &&Trip| trip.started.is_some() && trip.replied.is_none();
        all.no_reply = trips.iter().filter(silent).count() as u64;
        ensure!(
            2 * all.response.without < all.count,
            "{} of {} requests got no reply within {:.0} ms ({} were not sent, {} never got one)",
            all.response.without,
            all.count,
            clock.ns(timeout) / 1e6,
            all.never_sent,
            all.no_reply
        );
        let on_the_way = |trip: &Trip| Some(trip.replied?.saturating_sub(trip.started?));
        let shortest = trips.iter().filter_map(on_the_way).min();
        let last_reply = trips.iter().filter_map(|trip| trip.replied).max();
        let replies = trips.iter().filter(|trip| trip.replied.is_some()).count();
        let dues = || trips.iter().map(|trip| trip.intended);
        let first_due = dues().min().context("no requests")?;
        let done = last_reply.zip(shortest).map(|(last, way)| last - way);
        all.rate = done
            .and_then(|done| rate(clock, replies, first_due, done))
            .context("too few replies for a rate")?;
        all.asked = dues()
            .max()
            .and_then(|last| rate(clock, trips.len(), first_due, last))
            .context("too few requests for a rate")?;
        Ok(all)
    }

    pub(in crate::net::request) fn lost(&self) -> f64 {
        self.response.without as f64 / self.count.max(1) as f64
    }
}

/// Events per second, from their number and the ticks of the first and the last.
fn rate(clock: Clock, count: usize, first: u64, last: u64) -> Option<f64> {
    let gaps = count.checked_sub(1)? as f64;
    (last > first).then(|| gaps * 1e9 / clock.ns(last - first))
}

#[cfg(test)]
mod tests {
    use super::{Account, Trip, due, replied};
    use bench::measure::Clock;
    use laws::net::request::Schedule;

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

    #[test]
    fn fixed_ones_are_a_period_apart() {
        let all = due(Schedule::Fixed, 1e4, 1e7, 1e9, 1).unwrap();
        assert_eq!((all.len(), all[0], all[99]), (100, 0.0, 9_900_000.0));
        // At least eight, however slow, as long as there is time.
        assert_eq!(due(Schedule::Fixed, 10.0, 1e7, 1e9, 1).unwrap().len(), 8);
        let error = due(Schedule::Fixed, 1.0, 1e7, 1e9, 1).unwrap_err();
        assert!(error.to_string().contains("time="), "{error}");
        assert!(due(Schedule::Fixed, 1e9, 1e11, 1e12, 1).is_err());
    }

    #[test]
    fn random_ones_have_the_rate_and_the_spread_of_poisson() {
        let all = due(Schedule::Poisson, 1e5, 1e9, 1e9, 7).unwrap();
        assert_eq!(all.len(), 100_000);
        let gaps: Vec<f64> = all.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let deviation = (square / gaps.len() as f64).sqrt();
        assert!((mean / 1e4 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation}");
        // Another seed is another schedule, the same one the same.
        assert_eq!(due(Schedule::Poisson, 1e5, 1e9, 1e9, 7).unwrap(), all);
        assert_ne!(due(Schedule::Poisson, 1e5, 1e9, 1e9, 8).unwrap(), all);
    }

    const MS: u64 = 1_000_000;

    fn trip(intended: u64, started: Option<u64>, replied: Option<u64>) -> Trip {
        Trip { intended, started, replied }
    }

    /// A thousand requests a second; the far end stands still from 100 to 120 ms, and the sender
    /// with it, as one does that waits for a reply before it sends again.
    #[test]
    fn a_stall_is_in_every_request_that_was_due_in_it_even_where_the_sender_was_held_up() {
        let service = MS / 10;
        let all: Vec<Trip> = (0..200)
            .map(|at| {
                let intended = at * MS;
                let is_in = (100..120).contains(&at);
                let started = if is_in { 120 * MS } else { intended };
                trip(intended, Some(started), Some(started + service))
            })
            .collect();
        let account = Account::from_trips(Clock::Monotonic, &all, 1000 * MS).unwrap();
        let slow = |values: &[f64]| values.iter().filter(|ns| **ns >= 1e6).count();
        assert_eq!(slow(&account.response.ns), 20);
        assert_eq!(slow(&account.lateness.ns), 20);
        // What a tool sees that takes the time from the actual start.
        assert_eq!(slow(&account.service.ns), 0);
        let sum: f64 = account.response.ns.iter().sum();
        assert!((sum / 1e6 - (200.0 * 0.1 + 210.0)).abs() < 1e-6, "{sum}");
        assert_eq!(account.lost(), 0.0);
        assert!((account.rate / account.asked - 1.0).abs() < 1e-9);
        // A late first reply makes nothing faster than was asked for, a late last one is time that
        // passed.
        let mut late = all.clone();
        late[0].replied = Some(50 * MS);
        let account = Account::from_trips(Clock::Monotonic, &late, 1000 * MS).unwrap();
        assert!((account.rate / account.asked - 1.0).abs() < 1e-9);
        late[199].replied = Some(398 * MS + service);
        let account = Account::from_trips(Clock::Monotonic, &late, 1000 * MS).unwrap();
        assert!((account.rate / account.asked - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_lost_or_late_or_never_sent_is_counted_and_has_no_value() {
        let mut all = vec![trip(0, Some(1), Some(2)); 10];
        all.extend([
            // Lost on the way.
            trip(3, Some(4), None),
            // Replied after the time-out of its due time, but not of its sending.
            trip(5, Some(90), Some(120)),
            // Never sent.
            trip(7, None, None),
            // At the time-out is not before it.
            trip(100, Some(100), Some(200)),
        ]);
        let account = Account::from_trips(Clock::Monotonic, &all, 100).unwrap();
        assert_eq!((account.response.ns.len(), account.response.without), (10, 4));
        assert_eq!((account.service.ns.len(), account.service.without), (11, 2));
        assert_eq!((account.lateness.ns.len(), account.lateness.without), (13, 1));
        assert_eq!((account.never_sent, account.no_reply), (1, 1));
        assert_eq!(account.lost(), 4.0 / 14.0);
        assert!(account.response.ns.iter().all(|ns| *ns < 100.0));
    }

    #[test]
    fn too_few_replies_are_no_figure() {
        let all = vec![trip(0, Some(0), Some(5)), trip(1, Some(1), None)];
        assert!(Account::from_trips(Clock::Monotonic, &all, 100).is_err());
        assert!(Account::from_trips(Clock::Monotonic, &[], 100).is_err());
    }
}
