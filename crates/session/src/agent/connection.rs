//! A connection to an agent: made, let in, and what came of it.

use super::answer;
use super::channel::{Channel, Lost};
use super::handshake::Role;
use super::key::Key;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::reach;
use super::ssh::Carrier;
use super::url::{PeerUrl, Transport};
use crate::is_interrupt;
use anyhow::{Context, Error, Result, anyhow, bail};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What starts an agent elsewhere may take so long until that says hello: ssh's own time and a
/// login.
const START_TIME: Duration = Duration::from_secs(30);
/// An agent's own calibration takes its windows, and then up to this long, as it also waits for its
/// CPUs.
const WELCOME_TIME: Duration = Duration::from_secs(30);
/// One that an agent drops in the handshake asks so often in all, and waits so long between.
const TRIES: u32 = 4;
const TRY_PAUSE: Duration = Duration::from_millis(200);
/// Nothing that is said at the end is waited for longer.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// The agent serves another session.
#[derive(Debug, Error)]
#[error(
    "the agent is busy until {until} with a run of {by}; an agent serves one session at a time: \
     wait, or name another host"
)]
pub struct Busy {
    pub until: String,
    pub by: String,
}

/// What it takes to reach an agent.
pub struct Reach {
    pub url: PeerUrl,
    /// What a `tcp://` one shares.
    pub key: Option<Key>,
    /// What is said first: it names the client.
    pub open: Open,
    /// Identity of this host.
    pub here: String,
}

/// A connection, and what carries it.
pub struct Connection {
    pub channel: Channel,
    pub carrier: Option<Carrier>,
}

impl Connection {
    /// Why it is of no more use, in the words of what carried it where there are some.
    pub fn explained(&mut self, error: Error) -> Error {
        match &mut self.carrier {
            Some(carrier) => anyhow!("{error:#}: {}", carrier.last_words()),
            None => error,
        }
    }

    /// Sends a message that has no answer, without waiting for its arrival.
    pub fn send_last(&mut self, message: &ToAgent) {
        // An agent that does not take it hears the end of the connection.
        let _ = self.channel.send_within(message, PARTING_TIME, &AtomicBool::new(false));
    }
}

/// A connection to an agent that lets this session in, and what it says of its host. Errors: it
/// cannot be reached, refuses, or is busy ([`Busy`]); [`crate::child::Interrupted`].
pub fn reached(to: &Reach, stop: &AtomicBool) -> Result<(Connection, Facts)> {
    let (mut connection, near_address) = connected(&to.url, to.key.as_ref(), stop)?;
    let open = Open { near_address, ..to.open.clone() };
    match welcomed(&mut connection.channel, &open, stop) {
        Err(error) if error.downcast_ref::<Lost>().is_some() => Err(connection.explained(error)),
        Err(error) => Err(error),
        Ok(facts) => {
            check_address(facts.address, &facts.host.identity.hash, &to.here)?;
            Ok((connection, facts))
        }
    }
}

fn connected(
    url: &PeerUrl,
    key: Option<&Key>,
    stop: &AtomicBool,
) -> Result<(Connection, Option<IpAddr>)> {
    let mut carrier = match &url.transport {
        Transport::Tcp { host, port } => {
            let key = key.context(
                "it needs the agent's key: --key-file FILE (`plumb agent --new-key FILE` makes one)",
            )?;
            let (channel, near) = connect_tcp(host, *port, key, stop)?;
            let carrier = None;
            return Ok((Connection { channel, carrier }, Some(near)));
        }
        Transport::Ssh(ssh) => Carrier::ssh(ssh)?,
        Transport::Exec(command) => Carrier::exec(command)?,
    };
    let (output, input) = (carrier.output()?, carrier.input()?.into());
    match Channel::over_pipes(output, input, Role::Session, START_TIME, stop) {
        Ok(channel) => {
            let carrier = Some(carrier);
            Ok((Connection { channel, carrier }, None))
        }
        Err(error) if is_interrupt(&error) => Err(error),
        Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {
            bail!("cannot start the agent: {}", carrier.last_words())
        }
        Err(error) => Err(anyhow!("{error:#}: {}", carrier.last_words())),
    }
}

/// A connection after its handshake. An agent with too many connections in their handshake closes
/// the oldest, which may be this one, so it is tried [`TRIES`] times.
fn connect_tcp(host: &str, port: u16, key: &Key, stop: &AtomicBool) -> Result<(Channel, IpAddr)> {
    let mut tries = 1;
    loop {
        let listens = |at| format!("plumb agent --listen {at} --key-file FILE");
        let stream = reach::tcp(host, port, &listens, stop)?;
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
    let answer = answer::receive(channel, Instant::now() + patience, stop)?
        .with_context(|| format!("the agent did not answer in {} s", patience.as_secs()))?;
    match answer {
        FromAgent::Welcome(facts) => Ok(*facts),
        FromAgent::Busy { until, by } => {
            bail!(Busy { until: printable(&until), by: printable(&by) })
        }
        FromAgent::Refused { reason } => bail!("the agent refused: {}", printable(&reason)),
        FromAgent::Worker { .. } | FromAgent::Ended { .. } | FromAgent::Clock { .. } => {
            bail!("the agent reported a round before one began")
        }
    }
}

/// Checks that an agent's address, to which experiments are to send, can be that of one host, and
/// that of this one only where the agent runs here: whatever an agent says, no traffic goes to
/// many, and none that stays at home is taken for a link's.
fn check_address(address: IpAddr, there: &str, here: &str) -> Result<()> {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || is_broadcast {
        bail!("the agent gave {address} as its data address, which is not the address of a host");
    }
    if address.is_loopback() && there != here {
        bail!(
            "the agent gave {address} as its data address, which leads to this host, but the agent \
             runs on another one; start the agent with --data ADDR, where ADDR is an address of \
             its host that this host can reach"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_address;

    #[test]
    fn an_address_is_one_hosts_and_this_ones_only_here() {
        let check = |address: &str, there: &str, word: Option<&str>| {
            let checked = check_address(address.parse().expect(address), there, "here");
            let refusal = checked.err().map(|error| error.to_string());
            match word {
                None => assert_eq!(refusal, None, "{address}"),
                Some(word) => assert!(
                    refusal.as_ref().is_some_and(|text| text.contains(word)),
                    "{address}: {refusal:?}"
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
            check(many, "there", Some("not the address of a host"));
            check(many, "here", Some("not the address of a host"));
        }
    }
}
