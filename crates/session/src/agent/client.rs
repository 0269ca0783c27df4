//! The session's side: agents are reached, and are the hosts of far ends.

use super::channel::{Channel, Lost};
use super::handshake::Role;
use super::heard;
use super::key::Key;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::reach;
use super::ssh::Carrier;
use super::url::{PeerUrl, Way};
use crate::child::Silent;
use crate::{FarHost, FarWorker, is_interrupt};
use anyhow::{Context, Error, Result, anyhow, bail};
use bench::experiment::Peer;
use bench::link::{FromWorker, RoundOrder, ToWorker};
use record::event::PeerHeader;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What starts an agent elsewhere may take so long until that says hello: ssh's own time and a login.
const START_TIME: Duration = Duration::from_secs(30);
/// An agent's own calibration takes its windows, and then up to this long, as it also waits for its CPUs.
const WELCOME_TIME: Duration = Duration::from_secs(30);
/// A connection over which nothing comes for so long, where something should, is given up.
const SILENCE: Duration = Duration::from_secs(5);
/// Before a lost connection is made again: one that was killed is gone by then, or was started again.
const PAUSE: Duration = Duration::from_secs(1);
/// One that an agent drops in the handshake asks so often in all, and waits so long between.
const TRIES: u32 = 4;
const TRY_PAUSE: Duration = Duration::from_millis(200);
/// A lost connection is tried again for this part of the session's time, and for this long at most.
const AWAY_PART: f64 = 0.05;
const AWAY_TIME_MAX: Duration = Duration::from_secs(60);
/// One that could not be had again is left alone for so long: there is more to measure than against it.
const GONE_TIME: Duration = Duration::from_secs(60);
/// An agent finds out within this time that the session which it serves has lost it.
const BUSY_TIME: Duration = Duration::from_secs(25);
/// Nothing that is said at the end is waited for longer.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// The agent serves another session.
#[derive(Debug, Error)]
#[error(
    "the agent is busy until {until} with a run of {by}; one session at a time is measured: wait, or name \
     another host"
)]
struct Busy {
    until: String,
    by: String,
}

/// Who answers is not who answered before.
#[derive(Debug, Error)]
#[error("{0}")]
struct Another(String);

/// An agent that was reached, and is reached again by itself when a round finds the connection lost.
pub struct Remote {
    url: PeerUrl,
    key: Option<Key>,
    open: Open,
    /// Identity of this host.
    here: String,
    facts: Facts,
    line: RefCell<Line>,
    /// Number of the last round.
    round: Cell<u64>,
    met: Cell<bool>,
}

/// How an agent is reached just now.
enum Line {
    Up(Connection),
    /// Lost, and not tried again yet.
    Lost,
    /// Lost, and could not be had again: why, and since when.
    Gone(String, Instant),
}

/// A connection, and what carries it.
struct Connection {
    channel: Channel,
    carrier: Option<Carrier>,
}

impl Remote {
    /// Reaches an agent, and hears of its host. `key` is what a `tcp://` one shares; `open` says who asks, `here`
    /// is the identity of this host.
    ///
    /// # Errors
    /// It cannot be reached, or refuses, with the way out; [`crate::child::Interrupted`].
    pub fn connect(
        url: PeerUrl,
        key: Option<Key>,
        open: Open,
        here: &str,
        stop: &AtomicBool,
    ) -> Result<Remote> {
        let (connection, facts) = reached(&url, key.as_ref(), &open, here, stop)
            .with_context(|| format!("--peer {}", shown(&url)))?;
        let open = Open {
            // Those that it has now, it has when it is reached again.
            cpus: Some(facts.cpus.clone()),
            ..open
        };
        Ok(Remote {
            url,
            key,
            open,
            here: here.to_owned(),
            facts,
            line: RefCell::new(Line::Up(connection)),
            round: Cell::new(0),
            met: Cell::new(false),
        })
    }

    /// One that is reached already, and once that is lost not again.
    #[cfg(test)]
    pub(super) fn over(url: PeerUrl, channel: Channel, facts: Facts) -> Remote {
        let carrier = None;
        Remote {
            url,
            key: None,
            open: Open::default(),
            here: String::new(),
            facts,
            line: RefCell::new(Line::Up(Connection { channel, carrier })),
            round: Cell::new(0),
            met: Cell::new(false),
        }
    }

    /// Its name in cases.
    pub fn name(&self) -> &str {
        &self.url.name
    }

    /// What experiments may know of it.
    pub fn peer(&self) -> Peer {
        Peer {
            name: self.url.name.clone(),
            address: self.facts.address,
            host: self.facts.host.clone(),
            cpus: self.facts.cpus.clone(),
            interface: self.facts.interface.clone(),
        }
    }

    /// Has a connection: the one that it had, or a new one where that was lost. That is tried for a part of
    /// the session's time; who is then still away is tried again when [`GONE_TIME`] is over.
    fn ensure_up(&self, stop: &AtomicBool) -> Result<()> {
        let mut line = self.line.borrow_mut();
        let patience = match &*line {
            Line::Up(_) => return Ok(()),
            Line::Gone(why, since) if since.elapsed() < GONE_TIME => bail!("{why}"),
            Line::Gone(..) => Duration::ZERO,
            Line::Lost => away_time(self.open.expected_s),
        };
        let begun = Instant::now();
        loop {
            let error = match self.again(stop) {
                Ok(connection) => {
                    *line = Line::Up(connection);
                    return Ok(());
                }
                Err(error) => error,
            };
            let waited = begun.elapsed();
            match error.downcast_ref::<Busy>() {
                _ if is_interrupt(&error) => return Err(error),
                // With what this session had lost, of which it has not heard yet.
                Some(busy) if busy.by == printable(&self.open.host_name) && waited < BUSY_TIME => {}
                // The next round tries again.
                Some(_) => return Err(error),
                None if waited < patience && !error.is::<Another>() => {}
                None => {
                    let why = format!(
                        "the connection was lost and cannot be had again ({error:#}); rounds against it fail \
                         until it is tried again, {} s later",
                        GONE_TIME.as_secs()
                    );
                    *line = Line::Gone(why.clone(), Instant::now());
                    bail!("{why}")
                }
            }
        }
    }

    fn again(&self, stop: &AtomicBool) -> Result<Connection> {
        reach::pause(PAUSE, stop)?;
        let (connection, facts) =
            reached(&self.url, self.key.as_ref(), &self.open, &self.here, stop)?;
        let (then, now) = (&self.facts.host.identity.hash, &facts.host.identity.hash);
        if then != now || self.facts.address != facts.address {
            bail!(Another(format!(
                "another machine answers now (identity {} at {}; it was {then} at {})",
                printable(now),
                facts.address,
                self.facts.address
            )));
        }
        Ok(connection)
    }

    /// Does something with the connection; one that is of no more use is closed, and its carrier's last
    /// words are the reason.
    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut line = self.line.borrow_mut();
        let Line::Up(connection) = &mut *line else {
            bail!("the connection was lost");
        };
        match act(connection) {
            Err(error) if error.downcast_ref::<Lost>().is_some() => {
                let told = connection.told(error);
                *line = Line::Lost;
                Err(told)
            }
            result => result,
        }
    }

    /// Gives the connection up: whoever is there does not answer.
    fn drop_line(&self) {
        *self.line.borrow_mut() = Line::Lost;
    }
}

impl FarHost for Remote {
    fn start<'a>(&'a self, stop: &'a AtomicBool) -> Result<Box<dyn FarWorker + 'a>> {
        self.ensure_up(stop)?;
        self.round.set(self.round.get() + 1);
        Ok(Box::new(RemoteWorker {
            remote: self,
            round: self.round.get(),
            stop,
            begun: Instant::now(),
            order: None,
            serves: false,
        }))
    }

    fn met(&self) -> &Cell<bool> {
        &self.met
    }

    fn header(&self) -> PeerHeader {
        PeerHeader {
            name: self.url.name.clone(),
            url: self.url.text.clone(),
            address: self.facts.address.to_string(),
            plumb: self.facts.plumb.clone(),
            identity: self.facts.host.identity.hash.clone(),
            cpus: self.facts.cpus.clone(),
            // What came as JSON is JSON.
            host: serde_json::to_value(&self.facts.host).unwrap_or_default(),
            environment: self.facts.environment.clone(),
            calibration: self.facts.calibration.clone(),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Line::Up(connection) = &mut *self.line.borrow_mut() {
            connection.part(&ToAgent::End);
        }
    }
}

impl Connection {
    /// Why it is of no more use, in the words of what carried it where there are some.
    fn told(&mut self, error: Error) -> Error {
        match &mut self.carrier {
            Some(carrier) => anyhow!("{error:#}: {}", carrier.last_words()),
            None => error,
        }
    }

    /// Says something that has no answer and is not waited for.
    fn part(&mut self, message: &ToAgent) {
        // An agent that does not take it hears the end of the connection.
        let _ = self.channel.send_within(message, PARTING_TIME, &AtomicBool::new(false));
    }
}

/// A worker that an agent has for one round.
struct RemoteWorker<'a> {
    remote: &'a Remote,
    round: u64,
    stop: &'a AtomicBool,
    begun: Instant,
    /// Its order, once it has one.
    order: Option<RoundOrder>,
    /// It has its order, and has not said that it is done.
    serves: bool,
}

impl RemoteWorker<'_> {
    fn far(&self) -> String {
        format!("the far end {} ({})", self.remote.name(), self.remote.url.text)
    }

    fn take(&mut self, message: FromAgent) -> Result<Option<FromWorker>> {
        match message {
            FromAgent::Worker { round, message } if round == self.round => {
                let address = self.remote.facts.address;
                let order = self.order.as_ref();
                let order = order.context("the agent answered before it was asked")?;
                heard::check(&message, order, address).map_err(Error::msg)?;
                self.serves = !matches!(*message, FromWorker::Done(_) | FromWorker::Failed(_));
                Ok(Some(*message))
            }
            FromAgent::Ended { round, reason } if round == self.round => {
                self.serves = false;
                bail!("{}", printable(&reason))
            }
            // Of a round that was given up.
            FromAgent::Worker { .. } | FromAgent::Ended { .. } => Ok(None),
            FromAgent::Refused { reason } => {
                self.remote.drop_line();
                bail!("the agent ended the session: {}", printable(&reason))
            }
            FromAgent::Welcome(_) | FromAgent::Busy { .. } => {
                self.remote.drop_line();
                bail!("the agent began another conversation in the middle of one")
            }
        }
    }
}

impl FarWorker for RemoteWorker<'_> {
    fn order(&mut self, message: &ToWorker) -> Result<()> {
        let round = self.round;
        let message = match message {
            ToWorker::Serve(order) => {
                self.order = Some(*order.clone());
                let order = order.clone();
                ToAgent::Serve { round, order }
            }
            ToWorker::Drain => ToAgent::Drain { round },
            other => bail!("no worker on another host takes {other:?}"),
        };
        self.serves = true;
        self.remote
            .with(|connection| {
                // What carries it must never wait to say something.
                if let Some(carrier) = &mut connection.carrier {
                    carrier.listen();
                }
                connection.channel.send(&message, self.stop)
            })
            .with_context(|| self.far())
    }

    fn next(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<FromWorker> {
        let began = Instant::now();
        loop {
            let message = self
                .remote
                .with(|connection| heard::message(&mut connection.channel, deadline, stop))
                .with_context(|| self.far())?;
            if let Some(message) = message
                && let Some(message) = self.take(message).with_context(|| self.far())?
            {
                return Ok(message);
            }
            // Also one that tells without end of what is over does not answer.
            if Instant::now() >= deadline {
                if began.elapsed() >= SILENCE {
                    self.remote.drop_line();
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

impl Drop for RemoteWorker<'_> {
    /// A round that was given up leaves no worker behind.
    fn drop(&mut self) {
        let round = self.round;
        if self.serves
            && let Line::Up(connection) = &mut *self.remote.line.borrow_mut()
        {
            connection.part(&ToAgent::Stop { round });
        }
    }
}

/// How long a lost connection is tried again in a session that is to take so long, in seconds.
fn away_time(expected_s: f64) -> Duration {
    let time = Duration::try_from_secs_f64(expected_s * AWAY_PART).unwrap_or_default();
    time.min(AWAY_TIME_MAX)
}

/// A connection to an agent that lets this session in.
fn reached(
    url: &PeerUrl,
    key: Option<&Key>,
    open: &Open,
    here: &str,
    stop: &AtomicBool,
) -> Result<(Connection, Facts)> {
    let (mut connection, near_address) = connected(url, key, stop)?;
    let open = Open { near_address, ..open.clone() };
    match welcomed(&mut connection.channel, &open, stop) {
        Err(error) if error.downcast_ref::<Lost>().is_some() => Err(connection.told(error)),
        Err(error) => Err(error),
        Ok(facts) => {
            check_address(facts.address, &facts.host.identity.hash, here)?;
            Ok((connection, facts))
        }
    }
}

fn connected(
    url: &PeerUrl,
    key: Option<&Key>,
    stop: &AtomicBool,
) -> Result<(Connection, Option<IpAddr>)> {
    let (carrier, output, input) = match &url.way {
        Way::Tcp { host, port } => {
            let key = key.context(
                "it needs the agent's key: --key-file FILE (`plumb agent --new-key FILE` makes one)",
            )?;
            let (channel, near) = let_in(host, *port, key, stop)?;
            let carrier = None;
            return Ok((Connection { channel, carrier }, Some(near)));
        }
        Way::Ssh(ssh) => Carrier::ssh(ssh)?,
        Way::Exec(command) => Carrier::exec(command)?,
    };
    let mut carrier = carrier;
    let (output, input) = (output.into(), input.into());
    match Channel::over_pipes(output, input, Role::Session, START_TIME, stop) {
        Ok(channel) => {
            let carrier = Some(carrier);
            Ok((Connection { channel, carrier }, None))
        }
        Err(error) if is_interrupt(&error) => Err(error),
        Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {
            bail!("no agent was started: {}", carrier.last_words())
        }
        Err(error) => Err(anyhow!("{error:#}: {}", carrier.last_words())),
    }
}

/// A connection that came through the handshake. Where many strangers ask at once the agent drops some that
/// have not come far, and one that has the key may be among them: it is not told from one that has another.
fn let_in(host: &str, port: u16, key: &Key, stop: &AtomicBool) -> Result<(Channel, IpAddr)> {
    let mut tries = 1;
    loop {
        let stream = reach::tcp(host, port, stop)?;
        let near = stream.local_addr()?.ip();
        match Channel::over_tcp(stream, key, stop) {
            Ok(channel) => return Ok((channel, near)),
            Err(error)
                if tries < TRIES
                    && matches!(error.downcast_ref(), Some(Lost::Closed | Lost::Io(_))) =>
            {
                tries += 1;
                reach::pause(TRY_PAUSE, stop)?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn welcomed(channel: &mut Channel, open: &Open, stop: &AtomicBool) -> Result<Facts> {
    channel.send(&ToAgent::Open(Box::new(open.clone())), stop)?;
    let calibration = Duration::from_nanos(open.window_ns).saturating_mul(open.windows);
    let patience = WELCOME_TIME + calibration * 2;
    let answer = heard::message(channel, Instant::now() + patience, stop)?
        .with_context(|| format!("the agent did not answer in {} s", patience.as_secs()))?;
    match answer {
        FromAgent::Welcome(facts) => Ok(*facts),
        FromAgent::Busy { until, by } => {
            bail!(Busy { until: printable(&until), by: printable(&by) })
        }
        FromAgent::Refused { reason } => bail!("the agent refused: {}", printable(&reason)),
        FromAgent::Worker { .. } | FromAgent::Ended { .. } => {
            bail!("the agent told of a round before one began")
        }
    }
}

/// Checks that an agent's address, to which experiments are to send, can be that of one host, and that of this
/// one only where the agent runs here: whatever an agent says, no traffic goes to many, and none that stays at
/// home is taken for a link's.
fn check_address(address: IpAddr, there: &str, here: &str) -> Result<()> {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || is_broadcast {
        bail!(
            "the agent says that its data connections go to {address}, which is no host's address"
        );
    }
    if address.is_loopback() && there != here {
        bail!(
            "the agent says that its data connections go to {address}: from here that is this host, and it \
             runs on another; start it with --data ADDR, an address of its host that this one reaches"
        );
    }
    Ok(())
}

/// As it was typed.
fn shown(url: &PeerUrl) -> String {
    match url.name.as_str() {
        super::url::NAMELESS => url.text.clone(),
        name => format!("{name}={}", url.text),
    }
}

#[cfg(test)]
mod tests {
    use super::{away_time, check_address};
    use std::time::Duration;

    #[test]
    fn an_address_is_one_hosts_and_this_ones_only_here() {
        let check = |address: &str, there: &str, word: Option<&str>| {
            let checked = check_address(address.parse().expect(address), there, "here");
            let told = checked.err().map(|error| error.to_string());
            match word {
                None => assert_eq!(told, None, "{address}"),
                Some(word) => assert!(
                    told.as_ref().is_some_and(|told| told.contains(word)),
                    "{address}: {told:?}"
                ),
            }
        };
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            check(local, "here", None);
            check(local, "there", Some("--data ADDR"));
        }
        for address in ["10.1.2.3", "2001:db8::1"] {
            check(address, "here", None);
            check(address, "there", None);
        }
        for many in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            check(many, "there", Some("no host's address"));
            check(many, "here", Some("no host's address"));
        }
    }

    #[test]
    fn a_lost_connection_is_tried_for_a_part_of_the_session() {
        assert_eq!(away_time(0.0), Duration::ZERO);
        assert_eq!(away_time(f64::NAN), Duration::ZERO);
        assert_eq!(away_time(360.0), Duration::from_secs(18));
        assert_eq!(away_time(1e12), Duration::from_secs(60));
    }
}
