//! An agent that listens: admits clients with a key of its list, one session at a time, and stays up whatever
//! strangers do.
//!
//! Strangers cost little: at most [`WAITING_MAX`] connections wait to be let in, each for the time
//! of a handshake and with a kilobyte; for a new one the one that came least far, and of those the
//! oldest, is given up. The session's end of the handshake proves its key with its first bytes,
//! which no other party can replay, and so passes them.

use super::channel::{Channel, FIRST_FRAME_BYTES_MAX, HANDSHAKE_TIME, prepare};
use super::handshake::{Heard, Progress, Refusal, Responder};
use super::key::Keys;
use super::message::{FromAgent, Open, ToAgent};
use super::office::{Office, Way};
use super::server::Served;
use super::stranger::{self, STRANGER_BYTES, Shaken, is_passing};
use crate::child::STOPPING;
use crate::is_interrupt;
use anyhow::{Context, Result};
use metal::wait::{Want, any_unless};
use std::fmt::Display;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connections that wait to be let in.
pub const WAITING_MAX: usize = 32;
/// Connections that the kernel keeps for the agent meanwhile.
const BACKLOG: i32 = 1024;
/// A refused connection has this time to read the refusal.
const LEAVE_TIME: Duration = Duration::from_secs(2);
/// Where no connection can be accepted (no descriptors), the next is tried after this time.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Strangers are reported at most this often.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// An agent that listens.
pub struct Listen<'agent> {
    office: &'agent Office<'agent>,
    keys: Keys,
    listener: TcpListener,
    waiting: Vec<Waiting>,
    heard: Heard,
    served: Option<Served<'agent>>,
    /// No connection is accepted before.
    accept_at: Option<Instant>,
    strangers: Strangers,
}

/// A connection that is not a session, or not yet.
struct Waiting {
    from: SocketAddr,
    deadline: Instant,
    state: State,
}

enum State {
    /// In the handshake.
    Shakes(TcpStream, Box<Responder>),
    /// It has the key, and did not say yet what it wants.
    Opens(Box<Channel>, String),
    /// It was refused.
    Leaves(TcpStream),
}

/// Rejected connections, reported now and then.
#[derive(Default)]
struct Strangers {
    untold: u64,
    told: Option<Instant>,
}

impl<'agent> Listen<'agent> {
    /// Listens at an address, for whoever has one of these keys. Errors: the address is not this
    /// host's, or taken.
    pub fn new(office: &'agent Office<'agent>, keys: Keys, at: SocketAddr) -> Result<Self> {
        let listener = stranger::listener(at, BACKLOG)?;
        Ok(Listen {
            office,
            keys,
            listener,
            waiting: Vec::new(),
            heard: Heard::default(),
            served: None,
            accept_at: None,
            strangers: Strangers::default(),
        })
    }

    /// Where it listens. Errors: what getsockname(2) reports.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves one session after the other until a signal comes. Errors: the kernel does not wait
    /// any more.
    pub fn serve(&mut self) -> Result<()> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits once, `patience` at most, and does what there is to do; `false` after a signal.
    pub(super) fn turn(&mut self, patience: Option<Duration>) -> Result<bool> {
        let stopped = || self.office.stop.load(Ordering::Relaxed);
        let is_knocked = match self.wait(patience) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(!stopped()),
            waited => waited.context("cannot wait for connections")?,
        };
        if !self.attend_session() {
            return Ok(false);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.attend(waiting);
        }
        if is_knocked {
            self.accept();
        }
        self.strangers.tell(self.office);
        Ok(!stopped())
    }

    /// Waits until there is something to do; whether a connection waits to be accepted.
    fn wait(&self, patience: Option<Duration>) -> io::Result<bool> {
        let now = Instant::now();
        let accepts = self.accept_at.is_none_or(|at| now >= at);
        let listener = accepts.then(|| Want::Readable(self.listener.as_fd()));
        let served = self.served.iter().flat_map(Served::wants);
        let waiting = self.waiting.iter().map(Waiting::want);
        let wants: Vec<_> = listener.into_iter().chain(served).chain(waiting).collect();
        let deadlines = self
            .waiting
            .iter()
            .map(|waiting| waiting.deadline)
            .chain(self.served.as_ref().and_then(Served::deadline))
            .chain(self.accept_at.filter(|_| !accepts))
            .chain(self.strangers.tell_at());
        let left =
            deadlines.map(|deadline| deadline.saturating_duration_since(now)).chain(patience).min();
        let stopped = || self.office.stop.load(Ordering::Relaxed);
        let ready = any_unless(&wants, left, &STOPPING, stopped)?;
        Ok(accepts && ready[0])
    }

    /// `false` after a signal.
    fn attend_session(&mut self) -> bool {
        let Some(served) = &mut self.served else { return true };
        let over = match served.attend() {
            Ok(true) => return true,
            Ok(false) => "ended".to_owned(),
            Err(error) if is_interrupt(&error) => return false,
            Err(error) => format!("was lost: {error:#}"),
        };
        (self.office.tell)(&format!("the session of {} {over}", served.by()));
        // With it go its worker and its connection.
        self.served = None;
        true
    }

    /// Goes on with a connection, as far as it has said something. What came in time counts, though
    /// the agent was busy with another one meanwhile.
    fn attend(&mut self, Waiting { from, deadline, state }: Waiting) {
        match state {
            State::Shakes(mut stream, mut responder) => {
                match stranger::shake(&mut stream, &mut responder, &mut self.heard) {
                    Shaken::Waits => self.keep(from, deadline, State::Shakes(stream, responder)),
                    Shaken::Secured(mut secured) => {
                        let by = std::mem::take(&mut secured.by);
                        match Channel::accepted(stream, *secured, FIRST_FRAME_BYTES_MAX) {
                            Ok(channel) => self.open(from, deadline, Box::new(channel), by),
                            Err(lost) => self.reject(from, &lost),
                        }
                    }
                    Shaken::Refused(refusal) => {
                        self.reject(from, &refusal);
                        // It hears this end's hello, and so why.
                        if matches!(refusal, Refusal::OtherVersion(_)) {
                            self.let_go(from, stream);
                        }
                    }
                    Shaken::Gone(why) => self.reject(from, &why),
                }
            }
            State::Opens(channel, by) => self.open(from, deadline, channel, by),
            State::Leaves(mut stream) => {
                let is_there = match stream.read(&mut [0; STRANGER_BYTES]) {
                    Ok(read) => read > 0,
                    Err(error) => is_passing(&error),
                };
                if is_there && Instant::now() < deadline {
                    self.waiting.push(Waiting { from, deadline, state: State::Leaves(stream) });
                }
            }
        }
    }

    /// Has one wait on, if it has time left.
    fn keep(&mut self, from: SocketAddr, deadline: Instant, state: State) {
        if Instant::now() < deadline {
            self.waiting.push(Waiting { from, deadline, state });
        } else {
            self.reject(from, &"it did not complete the handshake in time");
        }
    }

    /// One that was not let in.
    fn reject(&mut self, from: SocketAddr, why: &dyn Display) {
        self.strangers.note(self.office, from, why);
    }

    /// Hears what one wants that has the key.
    fn open(&mut self, from: SocketAddr, deadline: Instant, mut channel: Box<Channel>, by: String) {
        // What came with the handshake is taken before more is read.
        let said = match channel.taken() {
            Ok(None) => channel.read_some().and_then(|()| channel.taken()),
            said => said,
        };
        match said {
            Ok(None) => self.keep(from, deadline, State::Opens(channel, by)),
            Ok(Some(ToAgent::Open(open))) => self.ask(from, *channel, &by, &open),
            Ok(Some(_)) => self.reject(from, &"it sent an order before the session was opened"),
            Err(lost) => self.reject(from, &lost),
        }
    }

    /// One that has the key wants to be the session.
    fn ask(&mut self, from: SocketAddr, mut channel: Channel, by: &str, open: &Open) {
        let tell = self.office.tell;
        if let Some(served) = self.served.take_if(|served| served.is_forsaken()) {
            tell(&format!(
                "the session of {} was silent for longer than its expected duration; it is closed \
                 for the next one",
                served.by()
            ));
        }
        if let Some(served) = &self.served {
            let busy: FromAgent = served.busy();
            tell(&format!("{from} asked while the session of {} is served", served.by()));
            // One that is gone needs no answer.
            let _ = channel.send(&busy, self.office.stop);
            return self.part(from, channel);
        }
        let way = Way { here: channel.local_address(), there: Some(from.ip().to_canonical()) };
        match Served::begin(self.office, channel, open, way) {
            Ok(served) => {
                let key = if by.is_empty() { "" } else { ", key " };
                tell(&format!("a session of {} from {from}{key}{by}", served.by()));
                self.served = Some(served);
            }
            Err((channel, reason)) => {
                tell(&format!("{from} was refused: {reason}"));
                self.part(from, channel);
            }
        }
    }

    fn part(&mut self, from: SocketAddr, channel: Channel) {
        if let Some(stream) = channel.shut() {
            self.let_go(from, stream);
        }
    }

    /// Nothing more is said to one that was refused; its end is waited for, so that it hears what
    /// was.
    fn let_go(&mut self, from: SocketAddr, stream: TcpStream) {
        // One that is gone has no end to wait for.
        if stream.shutdown(Shutdown::Write).is_ok() {
            let deadline = Instant::now() + LEAVE_TIME;
            self.waiting.push(Waiting { from, deadline, state: State::Leaves(stream) });
        }
    }

    /// Takes the connections that wait in the kernel, not more than may wait here.
    fn accept(&mut self) {
        for _ in 0..WAITING_MAX {
            match self.listener.accept() {
                Ok((stream, from)) => self.take_in(stream, from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_at = None;
                    return;
                }
                // One that was gone before it was accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    // No descriptors or no memory: what waits makes room.
                    self.give_one_up();
                    self.accept_at = Some(Instant::now() + ACCEPT_AGAIN);
                    self.strangers
                        .say(self.office, &format!("cannot accept a connection: {error}"));
                    return;
                }
            }
        }
    }

    fn take_in(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.waiting.len() >= WAITING_MAX {
            self.give_one_up();
        }
        let prepared = prepare(&stream)
            .map_err(|error| error.to_string())
            .and_then(|()| self.keys.now().map_err(|error| format!("{error:#}")))
            .map(Responder::new);
        match prepared {
            Ok(responder) => {
                let waiting = Waiting {
                    from,
                    deadline: Instant::now() + HANDSHAKE_TIME,
                    state: State::Shakes(stream, Box::new(responder)),
                };
                // What it has to say is most often there by now.
                self.attend(waiting);
            }
            Err(why) => self.reject(from, &why),
        }
    }

    /// Gives up the connection that came least far, of those the oldest.
    fn give_one_up(&mut self) {
        let least = (0..self.waiting.len()).min_by_key(|at| {
            let waiting = &self.waiting[*at];
            (waiting.rank(), waiting.deadline)
        });
        if let Some(at) = least {
            let given_up = self.waiting.remove(at);
            let why = "too many other clients connected before it completed the handshake";
            self.reject(given_up.from, &why);
        }
    }
}

impl Waiting {
    fn want(&self) -> Want<'_> {
        Want::Readable(match &self.state {
            State::Shakes(stream, _) | State::Leaves(stream) => stream.as_fd(),
            State::Opens(channel, _) => channel.fd(),
        })
    }

    /// How far it came.
    fn rank(&self) -> u8 {
        match &self.state {
            State::Leaves(_) => 0,
            State::Shakes(_, responder) => match responder.progress() {
                Progress::Silent => 1,
                Progress::Hello => 2,
                Progress::Keyed => 3,
            },
            State::Opens(..) => 4,
        }
    }
}

impl Strangers {
    /// One that was not let in.
    fn note(&mut self, office: &Office<'_>, from: SocketAddr, why: &dyn Display) {
        if self.is_quiet() {
            self.untold += 1;
        } else {
            self.say(office, &format!("rejected {from}: {why}"));
        }
    }

    fn say(&mut self, office: &Office<'_>, line: &str) {
        if !self.is_quiet() {
            self.told = Some(Instant::now());
            (office.tell)(line);
        }
    }

    fn is_quiet(&self) -> bool {
        self.told.is_some_and(|told| told.elapsed() < TELL_AGAIN)
    }

    /// When the skipped ones are to be reported.
    fn tell_at(&self) -> Option<Instant> {
        self.told.filter(|_| self.untold > 0).map(|told| told + TELL_AGAIN)
    }

    fn tell(&mut self, office: &Office<'_>) {
        if self.untold > 0 && !self.is_quiet() {
            let untold = std::mem::take(&mut self.untold);
            self.say(office, &format!("rejected {untold} more connections"));
        }
    }
}

#[cfg(test)]
impl Listen<'_> {
    /// How many connections wait to be let in.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whose session is served.
    pub(super) fn served_by(&self) -> Option<&str> {
        self.served.as_ref().map(Served::by)
    }

    /// The time of what the session has begun to say is over.
    pub(super) fn frame_time_passes(&mut self) {
        let served = self.served.as_mut().expect("a session is served");
        served.frame_time_passes();
    }

    /// The time of all that wait is over.
    pub(super) fn time_passes(&mut self) {
        let now = Instant::now();
        for waiting in &mut self.waiting {
            waiting.deadline = now;
        }
    }
}
