//! An agent: it lets sessions in, and serves one at a time.
//!
//! Over TCP it lets in clients that have a key of its list. At most [`PENDING_MAX`] connections wait
//! to be let in, each for [`HANDSHAKE_TIME`], in which the handshake and the first message must
//! arrive. For one more the oldest is closed. So silent and wrong clients up to that number delay
//! nobody. Whoever opens connections faster than a client completes its handshake can keep that
//! client out. On its standard input and output it has one connection, and ends with it.

use super::FIRST_BYTES_MAX;
use super::clock::wall_s;
use super::handshake::{Greeting, Role};
use super::key::Keys;
use super::message::{FromAgent, Open, ToAgent};
use super::options::{Addresses, Options};
use super::server::{Prepared, ServedSession};
use crate::is_interrupt;
use crate::node::channel::{Channel, Lost};
use crate::node::wait;
use anyhow::{Context, Result, bail};
use metal::wait::Want;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections that wait to be let in.
pub const PENDING_MAX: usize = 64;
/// The handshake and the first message arrive in this time …
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// … and on standard input in this: both hosts may be slow to start.
const START_TIME: Duration = Duration::from_secs(30);
/// Connections that the kernel queues for the agent.
const BACKLOG: i32 = 1024;
/// Pause after a failed accept(2): the host has no descriptors or no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct Agent<'agent> {
    options: &'agent Options<'agent>,
    /// Where it listens, for clients that have one of these keys; `None` on standard input and
    /// output.
    listens: Option<(TcpListener, Keys)>,
    pending: Vec<Pending>,
    session: Option<ServedSession<'agent>>,
}

/// A connection that is not let in yet.
struct Pending {
    client: String,
    addresses: Addresses,
    deadline: Instant,
    channel: Box<Channel>,
}

impl<'agent> Agent<'agent> {
    /// Listens at an address for clients that have one of these keys. Errors: the address is not
    /// this host's, or taken.
    pub fn listening(
        options: &'agent Options<'agent>,
        keys: Keys,
        address: SocketAddr,
    ) -> Result<Self> {
        let listen = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok::<Socket, io::Error>(socket)
        };
        let listener = listen().with_context(|| format!("cannot listen at {address}"))?;
        let listens = Some((listener.into(), keys));
        Ok(Agent { options, listens, pending: Vec::new(), session: None })
    }

    /// Serves the session at the other end of a pair of pipes, which others authenticate and encrypt.
    pub fn on_pipes(
        options: &'agent Options<'agent>,
        reader: OwnedFd,
        writer: OwnedFd,
        addresses: Addresses,
    ) -> Self {
        let channel = Channel::new(reader, writer, FIRST_BYTES_MAX);
        let pending = Pending {
            client: "standard input".to_owned(),
            addresses,
            deadline: Instant::now() + START_TIME,
            channel: Box::new(channel.greeting(Greeting::plain(Role::Agent))),
        };
        Agent { options, listens: None, pending: vec![pending], session: None }
    }

    /// Where it listens. Errors: it does not, or what getsockname(2) reports.
    pub fn address(&self) -> Result<SocketAddr> {
        let (listener, _) = self.listens.as_ref().context("it does not listen")?;
        Ok(listener.local_addr()?)
    }

    /// Serves one session after the other until a signal comes; the only one of standard input.
    /// Errors: poll(2) fails; the only session could not be served, or was lost.
    pub fn serve(&mut self) -> Result<()> {
        while self.listens.is_some() || !self.pending.is_empty() || self.session.is_some() {
            match self.turn(None) {
                Err(error) if is_interrupt(&error) => return Ok(()),
                turned => turned?,
            }
        }
        Ok(())
    }

    /// Waits once, for `patience` at most, and handles what has arrived. Errors: as
    /// [`Agent::serve`]; [`crate::node::Interrupted`].
    pub(super) fn turn(&mut self, patience: Option<Duration>) -> Result<()> {
        let has_client = self.wait(patience)?;
        self.advance_session()?;
        for pending in std::mem::take(&mut self.pending) {
            self.advance(pending)?;
        }
        if has_client { self.accept() } else { Ok(()) }
    }

    /// Waits until there is something to do; whether a connection can be accepted.
    fn wait(&self, patience: Option<Duration>) -> Result<bool> {
        let session = self.session.iter().flat_map(ServedSession::wants);
        let pending = self.pending.iter().map(|pending| Want::Readable(pending.channel.fd()));
        let listener = self.listens.iter().map(|(listener, _)| Want::Readable(listener.as_fd()));
        let wants: Vec<_> = session.chain(pending).chain(listener).collect();
        let deadlines = self.pending.iter().map(|pending| pending.deadline);
        let deadlines = deadlines.chain(self.session.as_ref().map(ServedSession::deadline));
        let until = deadlines.chain(patience.map(|patience| Instant::now() + patience)).min();
        let ready = wait("sessions", &wants, until, self.options.stop)?;
        Ok(self.listens.is_some() && ready.last() == Some(&true))
    }

    fn advance_session(&mut self) -> Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let Err(error) = session.advance() else { return Ok(()) };
        let client = session.client().to_owned();
        // Its worker and its connection end with it.
        self.session = None;
        match error.downcast_ref() {
            _ if is_interrupt(&error) => Err(error),
            Some(Lost::Closed) => {
                (self.options.log)(&format!("the session of {client} ended"));
                Ok(())
            }
            _ => self.report(format!("the session of {client} was lost: {error:#}")),
        }
    }

    /// Logs what happened to a connection. Errors: it was the only one.
    fn report(&self, what: String) -> Result<()> {
        match self.listens {
            Some(_) => (self.options.log)(&what),
            None => bail!(what),
        }
        Ok(())
    }

    fn reject(&self, client: &str, reason: &str) -> Result<()> {
        self.report(match self.listens {
            Some(_) => format!("rejected {client}: {reason}"),
            None => format!(
                "no session said hello and what it wants on {client} ({reason}): `plumb run --peer` \
                 starts `plumb agent`"
            ),
        })
    }

    /// Reads what a connection has sent that was not let in yet. What arrived in time counts, even
    /// if the agent was busy when the deadline passed.
    fn advance(&mut self, mut pending: Pending) -> Result<()> {
        let channel = &mut pending.channel;
        // What came with the handshake is taken before more is read.
        let message = match channel.taken() {
            Ok(None) => channel.read_some().and_then(|()| channel.taken()),
            message => message,
        };
        match message {
            Ok(None) if Instant::now() < pending.deadline => {
                self.pending.push(pending);
                Ok(())
            }
            Ok(None) => self.reject(&pending.client, "it did not complete the handshake in time"),
            Ok(Some(ToAgent::Open(open))) => self.begin_session(pending, &open),
            Ok(Some(ToAgent::Clock)) => {
                // A client that is gone needs no answer.
                let _ = channel.send(&FromAgent::Clock { wall_s: wall_s() }, self.options.stop);
                Ok(())
            }
            Ok(Some(_)) => {
                self.reject(&pending.client, "it sent an order before the session was opened")
            }
            Err(lost) => self.reject(&pending.client, &lost.to_string()),
        }
    }

    /// Serves a client, unless another session is served.
    fn begin_session(&mut self, pending: Pending, open: &Open) -> Result<()> {
        let Pending { client, addresses, mut channel, .. } = pending;
        let key = std::mem::take(&mut channel.key_name);
        // One that comes back has not waited until the loss of its connection was found.
        self.session.take_if(|session| session.id == open.session);
        let prepared = match &self.session {
            Some(session) => Err(session.busy()),
            None => Prepared::new(self.options, open, addresses),
        };
        match prepared {
            Ok(prepared) => {
                let session = ServedSession::new(self.options, *channel, open, prepared);
                let separator = if key.is_empty() { "" } else { ", key " };
                (self.options.log)(&format!(
                    "a session of {} from {client}{separator}{key}",
                    session.client()
                ));
                self.session = Some(session);
                Ok(())
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let refused = FromAgent::Refused { reason: reason.clone() };
                // A client that is gone needs no reason.
                let _ = channel.send(&refused, self.options.stop);
                self.report(format!("{client} was refused: {reason}"))
            }
        }
    }

    /// Accepts the connections that the kernel has queued, at most [`PENDING_MAX`].
    fn accept(&mut self) -> Result<()> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        for _ in 0..PENDING_MAX {
            let Some((listener, keys)) = &self.listens else { return Ok(()) };
            match listener.accept() {
                Ok((stream, client)) => match pending(stream, client, keys) {
                    Ok(pending) => self.admit(pending)?,
                    Err(error) => self.reject(&client.to_string(), &format!("{error:#}"))?,
                },
                Err(error) if error.kind() == WouldBlock => return Ok(()),
                // The client closed it before it was accepted.
                Err(error) if matches!(error.kind(), Interrupted | ConnectionAborted) => {}
                Err(error) => {
                    (self.options.log)(&format!("cannot accept a connection: {error}"));
                    std::thread::sleep(ACCEPT_PAUSE);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Begins with a new connection, in the place of the oldest if there are too many.
    fn admit(&mut self, pending: Pending) -> Result<()> {
        if self.pending.len() >= PENDING_MAX {
            let oldest = self.pending.remove(0);
            let reason = "too many other clients connected before it completed the handshake";
            self.reject(&oldest.client, reason)?;
        }
        // Its first bytes have most often arrived by now.
        self.advance(pending)
    }
}

/// A new connection of a client that must have one of these keys. Errors: it is of no use; the keys
/// cannot be read.
fn pending(stream: TcpStream, client: SocketAddr, keys: &Keys) -> Result<Pending> {
    let local = stream.local_addr()?.ip().to_canonical();
    let channel = Channel::tcp(stream, FIRST_BYTES_MAX)?;
    Ok(Pending {
        client: client.to_string(),
        addresses: Addresses { local: Some(local), remote: Some(client.ip().to_canonical()) },
        deadline: Instant::now() + HANDSHAKE_TIME,
        channel: Box::new(channel.greeting(Greeting::responder(keys.now()?))),
    })
}

#[cfg(test)]
impl Agent<'_> {
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn client(&self) -> Option<&str> {
        self.session.as_ref().map(ServedSession::client)
    }

    /// Lets the time of a message of the session pass.
    pub(super) fn expire_frame(&mut self) {
        self.session.as_mut().expect("a session is served").channel.expire_frame();
    }

    /// Lets the time of all pending connections pass.
    pub(super) fn expire_pending(&mut self) {
        let now = Instant::now();
        for pending in &mut self.pending {
            pending.deadline = now;
        }
    }
}
