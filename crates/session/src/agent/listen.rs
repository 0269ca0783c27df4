//! An agent that listens: it admits clients that have a key of its list, and serves one session at
//! a time.
//!
//! At most [`PENDING_MAX`] connections wait for admission, each for [`HANDSHAKE_TIME`], in which
//! the handshake and the first message must arrive. For one more the oldest is closed. So silent
//! and wrong clients up to that number delay nobody. Whoever opens connections faster than a client
//! completes its handshake can keep that client out.

use super::admission::{self, Admission};
use super::channel::{Channel, FIRST_FRAME_BYTES_MAX, HANDSHAKE_TIME, prepare};
use super::clock::wall_s;
use super::handshake::Responder;
use super::key::Keys;
use super::message::{FromAgent, Open, ToAgent};
use super::options::{Addresses, Options};
use super::server::ServedSession;
use crate::child::STOPPING;
use crate::is_interrupt;
use anyhow::{Context, Result};
use metal::wait::{Want, any_unless};
use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connections that wait for admission.
pub const PENDING_MAX: usize = 64;
/// Connections that the kernel queues for the agent.
const BACKLOG: i32 = 1024;
/// Pause after a failed accept(2): the host has no descriptors or no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An agent that listens.
pub struct Listener<'agent> {
    options: &'agent Options<'agent>,
    keys: Keys,
    listener: TcpListener,
    pending: Vec<Pending>,
    session: Option<ServedSession<'agent>>,
}

/// A connection that is not admitted yet.
struct Pending {
    client: SocketAddr,
    deadline: Instant,
    state: State,
}

enum State {
    Handshake(TcpStream, Box<Responder>),
    /// The client has a key, of this name. Its first message has not arrived.
    Opening(Box<Channel>, String),
}

impl<'agent> Listener<'agent> {
    /// Listens at an address for clients that have one of these keys. Errors: the address is not
    /// this host's, or taken.
    pub fn new(options: &'agent Options<'agent>, keys: Keys, address: SocketAddr) -> Result<Self> {
        let listener = admission::listener(address, BACKLOG)?;
        Ok(Listener { options, keys, listener, pending: Vec::new(), session: None })
    }

    /// Where it listens. Errors: what getsockname(2) reports.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves one session after the other until a signal comes. Errors: poll(2) fails.
    pub fn serve(&mut self) -> Result<()> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits once, for `patience` at most, and handles what has arrived; `false` after a signal.
    pub(super) fn turn(&mut self, patience: Option<Duration>) -> Result<bool> {
        let stopped = || self.options.stop.load(Ordering::Relaxed);
        let has_client = match self.wait(patience) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(!stopped()),
            waited => waited.context("cannot wait for connections")?,
        };
        if !self.advance_session() {
            return Ok(false);
        }
        for pending in std::mem::take(&mut self.pending) {
            self.advance(pending);
        }
        if has_client {
            self.accept();
        }
        Ok(!stopped())
    }

    /// Waits until there is something to do; whether a connection can be accepted.
    fn wait(&self, patience: Option<Duration>) -> io::Result<bool> {
        let now = Instant::now();
        let session = self.session.iter().flat_map(ServedSession::wants);
        let pending = self.pending.iter().map(Pending::want);
        let wants: Vec<_> = std::iter::once(Want::Readable(self.listener.as_fd()))
            .chain(session)
            .chain(pending)
            .collect();
        let deadlines = self.pending.iter().map(|pending| pending.deadline);
        let deadlines = deadlines.chain(self.session.as_ref().and_then(ServedSession::deadline));
        let left =
            deadlines.map(|deadline| deadline.saturating_duration_since(now)).chain(patience).min();
        let stopped = || self.options.stop.load(Ordering::Relaxed);
        Ok(any_unless(&wants, left, &STOPPING, stopped)?[0])
    }

    /// `false` after a signal.
    fn advance_session(&mut self) -> bool {
        let Some(session) = &mut self.session else { return true };
        let end = match session.advance() {
            Ok(true) => return true,
            Ok(false) => "ended".to_owned(),
            Err(error) if is_interrupt(&error) => return false,
            Err(error) => format!("was lost: {error:#}"),
        };
        (self.options.log)(&format!("the session of {} {end}", session.client()));
        // Its worker and its connection end with it.
        self.session = None;
        true
    }

    /// Reads what a pending connection has sent. What arrived in time counts, even if the agent was
    /// busy when the deadline passed.
    fn advance(&mut self, Pending { client, deadline, state }: Pending) {
        match state {
            State::Handshake(mut stream, mut responder) => {
                match admission::advance(&mut stream, &mut responder) {
                    Admission::Pending => {
                        self.keep(client, deadline, State::Handshake(stream, responder));
                    }
                    Admission::Secured(mut secured) => {
                        let key = std::mem::take(&mut secured.key_name);
                        match Channel::accepted(stream, *secured, FIRST_FRAME_BYTES_MAX) {
                            Ok(channel) => self.open(client, deadline, Box::new(channel), key),
                            Err(lost) => self.reject(client, &lost),
                        }
                    }
                    Admission::Refused(refusal) => self.reject(client, &refusal),
                    Admission::Closed(reason) => self.reject(client, &reason),
                }
            }
            State::Opening(channel, key) => self.open(client, deadline, channel, key),
        }
    }

    /// Keeps a connection pending until its deadline.
    fn keep(&mut self, client: SocketAddr, deadline: Instant, state: State) {
        if Instant::now() < deadline {
            self.pending.push(Pending { client, deadline, state });
        } else {
            self.reject(client, &"it did not complete the handshake in time");
        }
    }

    fn reject(&self, client: SocketAddr, reason: &dyn Display) {
        (self.options.log)(&format!("rejected {client}: {reason}"));
    }

    /// Reads the first message of a client that has a key.
    fn open(
        &mut self,
        client: SocketAddr,
        deadline: Instant,
        mut channel: Box<Channel>,
        key: String,
    ) {
        // What came with the handshake is taken before more is read.
        let message = match channel.taken() {
            Ok(None) => channel.read_some().and_then(|()| channel.taken()),
            message => message,
        };
        match message {
            Ok(None) => self.keep(client, deadline, State::Opening(channel, key)),
            Ok(Some(ToAgent::Open(open))) => self.begin_session(client, *channel, &key, &open),
            Ok(Some(ToAgent::Clock)) => {
                // A client that is gone needs no answer.
                let _ = channel.send(&FromAgent::Clock { wall_s: wall_s() }, self.options.stop);
            }
            Ok(Some(_)) => self.reject(client, &"it sent an order before the session was opened"),
            Err(lost) => self.reject(client, &lost),
        }
    }

    /// Serves a client, unless another session is served.
    fn begin_session(&mut self, client: SocketAddr, mut channel: Channel, key: &str, open: &Open) {
        let log = self.options.log;
        if let Some(expired) = self.session.take_if(|session| session.is_expired()) {
            log(&format!(
                "the session of {} was silent for longer than its expected duration; it is closed \
                 for the next one",
                expired.client()
            ));
        }
        if let Some(session) = &self.session {
            log(&format!("{client} asked while the session of {} is served", session.client()));
            // A client that is gone needs no answer.
            let _ = channel.send(&session.busy_message(), self.options.stop);
            return;
        }
        let addresses =
            Addresses { local: channel.local_address(), remote: Some(client.ip().to_canonical()) };
        match ServedSession::begin(self.options, channel, open, addresses) {
            Ok(session) => {
                let separator = if key.is_empty() { "" } else { ", key " };
                log(&format!("a session of {} from {client}{separator}{key}", session.client()));
                self.session = Some(session);
            }
            Err(reason) => log(&format!("{client} was refused: {reason}")),
        }
    }

    /// Accepts the connections that the kernel has queued, at most [`PENDING_MAX`].
    fn accept(&mut self) {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        for _ in 0..PENDING_MAX {
            match self.listener.accept() {
                Ok((stream, client)) => self.admit(stream, client),
                Err(error) if error.kind() == WouldBlock => return,
                // The client closed it before it was accepted.
                Err(error) if matches!(error.kind(), Interrupted | ConnectionAborted) => {}
                Err(error) => {
                    (self.options.log)(&format!("cannot accept a connection: {error}"));
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Begins the handshake on a new connection, in the place of the oldest if there are too many.
    fn admit(&mut self, stream: TcpStream, client: SocketAddr) {
        if self.pending.len() >= PENDING_MAX {
            let oldest = self.pending.remove(0);
            let reason = "too many other clients connected before it completed the handshake";
            self.reject(oldest.client, &reason);
        }
        let prepared = prepare(&stream)
            .map_err(|error| error.to_string())
            .and_then(|()| self.keys.now().map_err(|error| format!("{error:#}")))
            .map(Responder::new);
        match prepared {
            Ok(responder) => {
                let deadline = Instant::now() + HANDSHAKE_TIME;
                let state = State::Handshake(stream, Box::new(responder));
                // Its first bytes have most often arrived by now.
                self.advance(Pending { client, deadline, state });
            }
            Err(reason) => self.reject(client, &reason),
        }
    }
}

impl Pending {
    fn want(&self) -> Want<'_> {
        Want::Readable(match &self.state {
            State::Handshake(stream, _) => stream.as_fd(),
            State::Opening(channel, _) => channel.fd(),
        })
    }
}

#[cfg(test)]
impl Listener<'_> {
    /// Number of connections that wait for admission.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The client whose session is served.
    pub(super) fn client(&self) -> Option<&str> {
        self.session.as_ref().map(ServedSession::client)
    }

    /// Lets the time of a message of the session pass.
    pub(super) fn expire_frame(&mut self) {
        self.session.as_mut().expect("a session is served").expire_frame();
    }

    /// Lets the time of all pending connections pass.
    pub(super) fn expire_pending(&mut self) {
        let now = Instant::now();
        for pending in &mut self.pending {
            pending.deadline = now;
        }
    }
}
