//! The session's side: agents are reached, and have the nodes of far ends.

use super::connection::{Connection, Reach, reached};
use super::message::{Facts, FromAgent, ToAgent, printable};
use super::reach;
use super::url::{NAMELESS, PeerUrl};
use crate::is_interrupt;
use crate::node::channel::Lost;
use crate::node::{Node, Silent};
use anyhow::{Context, Result, bail};
use bench::experiment::Peer;
use bench::link::{FromWorker, ToWorker};
use record::event::PeerHeader;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Nothing that is said at the end is waited for longer.
const PARTING_TIME: Duration = Duration::from_secs(1);
/// A connection over which nothing comes for so long, where something should, is given up.
const SILENCE: Duration = Duration::from_secs(5);
/// Before a lost connection is made again: one that was killed is gone by then, or was started
/// again.
const PAUSE: Duration = Duration::from_secs(1);
/// A lost connection is tried again for this part of the session's time, and for this long at most.
const AWAY_PART: f64 = 0.05;
const AWAY_TIME_MAX: Duration = Duration::from_secs(60);
/// After a failed reconnection, a far end is left alone for this time: there is more to measure
/// than against it.
const GONE_TIME: Duration = Duration::from_secs(60);
/// A session says that it lives so often at most, unless it will say nothing for longer than it said.
const BEAT: Duration = Duration::from_secs(10);

/// A different machine answers than before.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OtherMachine(String);

/// An agent that was reached, and is reached again by itself when a round finds the connection
/// lost.
pub struct Remote {
    reach: Reach,
    facts: Facts,
    link: RefCell<Link>,
    round: Cell<u64>,
    /// Whether both ends of a round have found each other at its address: what is sent there
    /// without being asked for is sent only then.
    pub met: Cell<bool>,
    /// When it was last said that this session lives, and for how long.
    beat: Cell<Option<(Instant, Duration)>>,
}

/// How an agent is reached just now.
enum Link {
    Up(Box<Connection>),
    /// Lost, and not tried again yet.
    Lost,
    /// Lost, and reconnecting failed: why, and since when.
    Gone(String, Instant),
}

impl Remote {
    /// Reaches an agent, and hears of its host. Errors: it cannot be reached, or refuses, with the
    /// way out; [`crate::node::Interrupted`].
    pub fn connect(mut reach: Reach, stop: &AtomicBool) -> Result<Remote> {
        let (connection, facts) = reached(&reach, stop).with_context(|| {
            let PeerUrl { name, text, .. } = &reach.url;
            let name = if name == NAMELESS { String::new() } else { format!("{name}=") };
            format!("--peer {name}{text}")
        })?;
        // Those CPUs that it has now, it has when it is reached again.
        reach.open.cpus = Some(facts.cpus.clone());
        Ok(Remote::over(reach, connection, facts))
    }

    pub(super) fn over(reach: Reach, connection: Connection, facts: Facts) -> Remote {
        Remote {
            reach,
            facts,
            link: RefCell::new(Link::Up(Box::new(connection))),
            round: Cell::new(0),
            met: Cell::new(false),
            beat: Cell::new(None),
        }
    }

    pub fn name(&self) -> &str {
        &self.reach.url.name
    }

    /// Whether its connection was lost, and not made again.
    pub fn is_lost(&self) -> bool {
        !matches!(&*self.link.borrow(), Link::Up(_))
    }

    pub fn peer(&self) -> Peer {
        Peer {
            name: self.reach.url.name.clone(),
            address: self.facts.address,
            host: self.facts.host.clone(),
            cpus: self.facts.cpus.clone(),
            interface: self.facts.interface.clone(),
        }
    }

    /// Has a connection: the one that it had, or a new one where that was lost. That is tried for a
    /// part of the session's time; a far end that is still away is tried again after [`GONE_TIME`].
    fn ensure_up(&self, stop: &AtomicBool) -> Result<()> {
        let mut link = self.link.borrow_mut();
        let patience = match &*link {
            Link::Up(_) => return Ok(()),
            Link::Gone(why, since) if since.elapsed() < GONE_TIME => bail!("{why}"),
            Link::Gone(..) => Duration::ZERO,
            Link::Lost => away_time(self.reach.open.expected_s),
        };
        let begun = Instant::now();
        loop {
            let error = match self.again(stop) {
                Ok(connection) => {
                    *link = Link::Up(Box::new(connection));
                    self.beat.set(None);
                    return Ok(());
                }
                Err(error) if is_interrupt(&error) => return Err(error),
                Err(error) => error,
            };
            if begun.elapsed() >= patience || error.is::<OtherMachine>() {
                let why = format!(
                    "the connection was lost, and reconnecting failed ({error:#}); rounds with \
                     this far end fail until the next attempt in {} s",
                    GONE_TIME.as_secs()
                );
                *link = Link::Gone(why.clone(), Instant::now());
                bail!("{why}")
            }
        }
    }

    fn again(&self, stop: &AtomicBool) -> Result<Connection> {
        reach::pause(PAUSE, stop)?;
        let (connection, facts) = reached(&self.reach, stop)?;
        let (then, now) = (&self.facts.host.identity.hash, &facts.host.identity.hash);
        if then != now || self.facts.address != facts.address {
            bail!(OtherMachine(format!(
                "a different machine answers now (identity {} at {}; it was {then} at {})",
                printable(now),
                facts.address,
                self.facts.address
            )));
        }
        Ok(connection)
    }

    /// Does something with the connection; one that is of no more use is closed, and its carrier's
    /// last words are the reason.
    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut link = self.link.borrow_mut();
        let Link::Up(connection) = &mut *link else {
            bail!("the connection was lost");
        };
        match act(connection) {
            Err(error) if error.is::<Lost>() => {
                let explained = connection.explained(error, &self.reach);
                *link = Link::Lost;
                Err(explained)
            }
            result => result,
        }
    }

    /// Gives the connection up: whoever is there does not answer.
    fn drop_link(&self) {
        *self.link.borrow_mut() = Link::Lost;
    }

    /// Starts a node for a round, which is not waited for any longer once a signal sets `stop`.
    /// Errors: [`crate::node::Interrupted`]; the host cannot be reached any more, or refuses.
    pub fn start<'a>(&'a self, stop: &'a AtomicBool) -> Result<Box<dyn Node + 'a>> {
        self.ensure_up(stop)?;
        self.round.set(self.round.get() + 1);
        Ok(Box::new(FarNode {
            remote: self,
            round: self.round.get(),
            stop,
            begun: Instant::now(),
            serves: false,
        }))
    }

    /// Says that this session lives, and that its next word comes within so long. Called between
    /// rounds; a host that is lost is not reached again for that.
    pub fn beat(&self, within: Duration, stop: &AtomicBool) {
        let is_said = |(at, said): (Instant, Duration)| at.elapsed() < BEAT && within <= said;
        if self.beat.get().is_some_and(is_said) {
            return;
        }
        self.beat.set(Some((Instant::now(), within)));
        let message = ToAgent::Alive { within_s: within.as_secs_f64() };
        // A connection that is lost is found by the next round that needs it.
        let _ = self.with(|connection| connection.send(&message, stop));
    }

    pub fn header(&self) -> PeerHeader {
        PeerHeader {
            name: self.reach.url.name.clone(),
            url: self.reach.url.text.clone(),
            address: self.facts.address.to_string(),
            plumb: self.facts.plumb.clone(),
            identity: self.facts.host.identity.hash.clone(),
            cpus: self.facts.cpus.clone(),
            // What came as JSON is JSON.
            host: self.facts.host.to_json().unwrap_or_default(),
            environment: self.facts.environment.clone(),
            calibration: self.facts.calibration.clone(),
        }
    }
}

struct FarNode<'a> {
    remote: &'a Remote,
    round: u64,
    stop: &'a AtomicBool,
    begun: Instant,
    /// It has its order, and has not said that it is done.
    serves: bool,
}

impl FarNode<'_> {
    fn far(&self) -> String {
        format!("the far end {} ({})", self.remote.name(), self.remote.reach.url.text)
    }

    fn take(&mut self, message: FromAgent) -> Result<Option<FromWorker>> {
        match message {
            FromAgent::Event { round, event } if round == self.round => {
                check(&event, self.remote.facts.address)?;
                self.serves = !matches!(*event, FromWorker::Done(_) | FromWorker::Failed(_));
                match *event {
                    FromWorker::Failed(chain) => bail!(chain.join(": ")),
                    event => Ok(Some(event)),
                }
            }
            FromAgent::Ended { round, reason } if round == self.round => {
                self.serves = false;
                bail!("{}", printable(&reason))
            }
            // Of a round that was given up.
            FromAgent::Event { .. } | FromAgent::Ended { .. } => Ok(None),
            FromAgent::Refused { reason } => {
                self.remote.drop_link();
                bail!("the agent ended the session: {}", printable(&reason))
            }
            FromAgent::Welcome(_) | FromAgent::Clock { .. } => {
                self.remote.drop_link();
                bail!("the agent started a new session inside an open one")
            }
        }
    }
}

/// Checks that an event is one that a far end may send, and that it listens at the agent's address.
/// Only the near end reports figures of a round, or asks for time. Errors: what is wrong with it.
fn check(event: &FromWorker, address: IpAddr) -> Result<()> {
    match event {
        FromWorker::Done(_) | FromWorker::Failed(_) => Ok(()),
        FromWorker::Listening(endpoint) => {
            let is_at_agent = |text: &&String| {
                let parsed: Option<SocketAddr> = text.parse().ok();
                parsed.is_some_and(|parsed| parsed.ip() == address)
            };
            match endpoint.addrs.iter().find(|text| !is_at_agent(text)) {
                Some(text) => bail!("it says it listens at {text}, but its address is {address}"),
                None => Ok(()),
            }
        }
        _ => bail!("it sent what only the near end of a round may send"),
    }
}

impl Node for FarNode<'_> {
    fn order(&mut self, order: &ToWorker) -> Result<()> {
        self.serves = true;
        let order = ToAgent::Order { round: self.round, order: Box::new(order.clone()) };
        let sent = self.remote.with(|connection| connection.send(&order, self.stop));
        sent.with_context(|| self.far())
    }

    fn next(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<FromWorker> {
        let began = Instant::now();
        loop {
            let message = self
                .remote
                .with(|connection| connection.receive(deadline, stop))
                .with_context(|| self.far())?;
            if let Some(message) = message
                && let Some(event) = self.take(message).with_context(|| self.far())?
            {
                return Ok(event);
            }
            // Also one that tells without end of what is over does not answer.
            if Instant::now() >= deadline {
                if began.elapsed() >= SILENCE {
                    self.remote.drop_link();
                }
                bail!(Silent(format!(
                    "{} did not answer in time, {:.0} s after the round began",
                    self.far(),
                    self.begun.elapsed().as_secs_f64()
                )));
            }
        }
    }
}

impl Drop for FarNode<'_> {
    /// A round that was given up leaves no worker behind.
    fn drop(&mut self) {
        if self.serves
            && let Link::Up(connection) = &mut *self.remote.link.borrow_mut()
        {
            let stop = ToAgent::Stop { round: self.round };
            // An agent that does not take it hears the end of the connection.
            let _ = connection.channel.send_within(&stop, PARTING_TIME, &AtomicBool::new(false));
        }
    }
}

/// How long a lost connection is tried again in a session that is to take so long, in seconds.
fn away_time(expected_s: f64) -> Duration {
    let time = Duration::try_from_secs_f64(expected_s * AWAY_PART).unwrap_or_default();
    time.min(AWAY_TIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::away_time;
    use std::time::Duration;

    #[test]
    fn a_lost_connection_is_tried_for_a_part_of_the_session() {
        assert_eq!(away_time(0.0), Duration::ZERO);
        assert_eq!(away_time(f64::NAN), Duration::ZERO);
        assert_eq!(away_time(360.0), Duration::from_secs(18));
        assert_eq!(away_time(1e12), Duration::from_secs(60));
    }
}
