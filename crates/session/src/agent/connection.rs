//! A connection to an agent: made, let in, and what came of it.
//!
//! An agent has the key, and may still be old, broken or taken over: its messages add nothing to what
//! is measured, lead to no other address, steer no terminal, and are bounded by their frames.

use super::acceptor::HANDSHAKE_TIME;
use super::handshake::{Greeting, Role};
use super::key::Key;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::url::{PeerUrl, Transport};
use super::{EVENT_BYTES_MAX, FACTS_BYTES_MAX, reach, ssh};
use crate::is_interrupt;
use crate::node::channel::{Channel, Lost};
use crate::node::process::Process;
use anyhow::{Context, Error, Result, bail, ensure};
use record::plain::line;
use serde_json::Value;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What starts an agent elsewhere may take so long until that says hello: ssh's own time and a
/// login.
const START_TIME: Duration = Duration::from_secs(30);
/// An agent's own calibration takes its windows, and then up to this long, as it also waits for its
/// CPUs.
const WELCOME_TIME: Duration = Duration::from_secs(30);
/// One that an agent drops in the handshake asks so often in all, and waits so long between.
const TRIES: u32 = 4;
const TRY_PAUSE: Duration = Duration::from_millis(200);
pub struct Reach {
    pub url: PeerUrl,
    /// What a `tcp://` one shares.
    pub key: Option<Key>,
    /// What is said first: it names the client.
    pub open: Open,
    pub here: String,
}

/// A connection, and the program that carries it where it is not TCP.
pub struct Connection {
    pub channel: Channel,
    pub carrier: Option<Process>,
}

/// A channel to an agent that listens, after its handshake, and this end's address. An agent with too
/// many connections in their handshake closes the oldest, which may be this one, so it is tried
/// [`TRIES`] times. Errors: it cannot be reached, or has another key.
pub fn listening(host: &str, port: u16, key: &Key, stop: &AtomicBool) -> Result<(Channel, IpAddr)> {
    let mut tries = 1;
    loop {
        let stream = reach::tcp(host, port, stop)?;
        let near = stream.local_addr()?.ip();
        let greeting = Greeting::initiator(key).context("no random bytes for a handshake")?;
        let mut channel = Channel::tcp(stream, FACTS_BYTES_MAX)?.greeting(greeting);
        match channel.greet(HANDSHAKE_TIME, stop) {
            Ok(()) => return Ok((channel, near)),
            Err(error) => match error.downcast_ref() {
                Some(Lost::Closed | Lost::Io(_)) if tries < TRIES => {
                    tries += 1;
                    reach::pause(TRY_PAUSE, stop)?;
                }
                Some(Lost::Closed) => {
                    return Err(error.context(
                        "the agent closed the connection during the handshake: it has a different \
                         key, it is not an agent, or too many clients connected at once; its own \
                         output gives the reason",
                    ));
                }
                _ => return Err(error),
            },
        }
    }
}

impl Connection {
    fn new(reach: &Reach, stop: &AtomicBool) -> Result<(Connection, Option<IpAddr>)> {
        let mut command = match &reach.url.transport {
            Transport::Tcp { host, port } => {
                let key = reach.key.as_ref().context(
                    "it needs the agent's key: --key-file FILE (`plumb agent --new-key FILE` makes \
                     one)",
                )?;
                let (channel, near) = listening(host, *port, key, stop)?;
                return Ok((Connection { channel, carrier: None }, Some(near)));
            }
            Transport::Ssh(ssh) => ssh::command(ssh),
            Transport::Exec(command) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(command);
                shell
            }
        };
        let program = command.get_program().display().to_string();
        let mut carrier = Process::start(metal::process::dying_with_parent(&mut command))
            .with_context(|| format!("cannot start {program}; tcp:// needs no program"))?;
        let channel = carrier.channel(FACTS_BYTES_MAX)?;
        let channel = channel.greeting(Greeting::plain(Role::Session));
        let mut connection = Connection { channel, carrier: Some(carrier) };
        match connection.channel.greet(START_TIME, stop) {
            Ok(()) => Ok((connection, None)),
            Err(error) if is_interrupt(&error) => Err(error),
            Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {
                bail!("cannot start the agent: {}", connection.last_words(reach))
            }
            Err(error) => bail!("{error:#}: {}", connection.last_words(reach)),
        }
    }

    fn last_words(&mut self, reach: &Reach) -> String {
        let Some(carrier) = &mut self.carrier else { return String::new() };
        let (status, written) = carrier.end();
        ssh::explanation(status, &written, &reach.url.transport)
    }

    /// Why it is of no more use, in the words of what carried it where there are some.
    pub fn explained(&mut self, error: Error, reach: &Reach) -> Error {
        match self.last_words(reach) {
            words if words.is_empty() => error,
            words => error.context(words),
        }
    }

    pub fn send(&mut self, message: &ToAgent, stop: &AtomicBool) -> Result<()> {
        if let Some(carrier) = &mut self.carrier {
            // What carries it must never wait to say something.
            carrier.listen();
        }
        self.channel.send(message, stop)
    }

    /// Waits for the next message, whose texts steer no terminal; `None` where none has come by the
    /// deadline. Errors: as [`Channel::receive`].
    pub fn receive(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<Option<FromAgent>> {
        let Some(body) = self.channel.receive_frame(deadline, stop)? else { return Ok(None) };
        let parsed = || {
            let mut value: Value = serde_json::from_slice(&body)?;
            make_plain(&mut value);
            // As every message is read, so that it is compiled once.
            serde_json::from_slice(&serde_json::to_vec(&value)?)
        };
        Ok(Some(parsed().map_err(|error| Lost::malformed(&error))?))
    }

    /// Opens the session: what the agent says of its host. Errors: it refuses, or is another plumb.
    pub fn welcomed(&mut self, open: &Open, stop: &AtomicBool) -> Result<Facts> {
        self.send(&ToAgent::Open(Box::new(open.clone())), stop)?;
        let calibration = Duration::from_nanos(open.window_ns).saturating_mul(open.windows);
        let patience = WELCOME_TIME + calibration * 2;
        let answer = self
            .receive(Instant::now() + patience, stop)?
            .with_context(|| format!("the agent did not answer in {} s", patience.as_secs()))?;
        let facts = match answer {
            FromAgent::Welcome(facts) => *facts,
            FromAgent::Refused { reason } => bail!("the agent refused: {}", printable(&reason)),
            _ => bail!("the agent reported a round before one began"),
        };
        let ours = env!("CARGO_PKG_VERSION");
        ensure!(
            facts.plumb == ours,
            "the agent runs plumb {}, this is plumb {ours}: install the same version at both ends",
            printable(&facts.plumb)
        );
        self.channel.set_limit(EVENT_BYTES_MAX);
        Ok(facts)
    }
}

/// Has spaces in the place of what steers a terminal, in names as in texts.
fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) => *text = line(text),
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(all) => {
            all.values_mut().for_each(make_plain);
            *all = std::mem::take(all).into_iter().map(|(name, of)| (line(&name), of)).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A connection to an agent that lets this session in, and what it says of its host. Errors: it
/// cannot be reached, or refuses; [`crate::node::Interrupted`].
pub fn reached(reach: &Reach, stop: &AtomicBool) -> Result<(Connection, Facts)> {
    let (mut connection, near_address) = Connection::new(reach, stop)?;
    let open = Open { near_address, ..reach.open.clone() };
    match connection.welcomed(&open, stop) {
        Err(error) if error.is::<Lost>() => Err(connection.explained(error, reach)),
        Err(error) => Err(error),
        Ok(facts) => {
            check_address(facts.address, &facts.host.identity.hash, &reach.here)?;
            Ok((connection, facts))
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
