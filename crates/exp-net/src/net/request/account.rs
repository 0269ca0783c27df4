//! From what became of each request to the values of a round.

use super::loops::Trip;
use crate::net::Events;
use anyhow::{Context, Result, ensure};
use bench::measure::Clock;

/// The account of a loop. A request without a reply in time, or never sent, has no value: it is
/// counted as one that lasted at least so long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// From due time to reply; those never sent have none.
    pub(super) response: Events,
    /// From sending to reply, of those that were sent.
    pub(super) service: Events,
    /// From due time to sending.
    pub(super) lateness: Events,
    pub(super) never_sent: u64,
    /// Sent, without any reply before the loop ended.
    pub(super) no_reply: u64,
    pub(super) count: u64,
    /// Replies a second, from the moment at which the first was due to the last reply, less the
    /// shortest time that one was on its way: so a long way does not lower it, and a late begin
    /// does not raise it.
    pub(super) rate: f64,
    pub(super) asked: f64,
}

impl Account {
    /// Of what became of the requests of a loop. Errors: fewer than half had a reply in time; a
    /// figure would be of those that were lucky.
    pub(super) fn of(clock: Clock, trips: &[Trip], timeout: u64) -> Result<Account> {
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

    pub(super) fn lost(&self) -> f64 {
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
    use super::Account;
    use crate::net::request::loops::Trip;
    use bench::measure::Clock;

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
        let account = Account::of(Clock::Monotonic, &all, 1000 * MS).unwrap();
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
        let account = Account::of(Clock::Monotonic, &late, 1000 * MS).unwrap();
        assert!((account.rate / account.asked - 1.0).abs() < 1e-9);
        late[199].replied = Some(398 * MS + service);
        let account = Account::of(Clock::Monotonic, &late, 1000 * MS).unwrap();
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
        let account = Account::of(Clock::Monotonic, &all, 100).unwrap();
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
        assert!(Account::of(Clock::Monotonic, &all, 100).is_err());
        assert!(Account::of(Clock::Monotonic, &[], 100).is_err());
    }
}
