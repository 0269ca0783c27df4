//! The door of a node: a listening socket for those that have the secret, and the connections that
//! came through it.

use crate::relay::Link;
use crate::wire::{Down, FRAME_BYTES_MAX, Up};
use anyhow::Result;
use metal::wait::Want;
use session::agent::admission::{self, Admission};
use session::agent::channel::{Channel, HANDSHAKE_TIME, prepare};
use session::agent::handshake::{Refusal, Responder};
use session::agent::key::{Key, Named};
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Connections in their handshake.
const WAITING_MAX: usize = 128;
/// Connections that the kernel keeps meanwhile.
const BACKLOG: i32 = 4096;
/// Without descriptors or memory no connection is accepted for this time.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// Strangers are reported at most this often.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// A listening socket and what came through it.
pub struct Door {
    listener: TcpListener,
    keys: Rc<[Named]>,
    waiting: Vec<Waiting>,
    lines: BTreeMap<Link, Channel>,
    last: Link,
    accept_at: Option<Instant>,
    said_at: Option<Instant>,
    unsaid: u32,
}

struct Waiting {
    stream: TcpStream,
    from: SocketAddr,
    responder: Responder,
    deadline: Instant,
}

/// What happened at a door.
#[derive(Debug)]
pub enum Happened {
    /// A connection says something.
    Said(Link, Up),
    /// It ended.
    Closed(Link),
    /// A stranger was rejected, for the user.
    Rejected(String),
}

impl Door {
    /// Listens at an address. Errors: it is not this host's, or taken.
    pub fn new(at: SocketAddr, key: &Key) -> Result<Door> {
        let listener = admission::listener(at, BACKLOG)?;
        let named = Named { key: key.clone(), name: String::new() };
        Ok(Door {
            listener,
            keys: Rc::new([named]),
            waiting: Vec::new(),
            lines: BTreeMap::new(),
            last: 0,
            accept_at: None,
            said_at: None,
            unsaid: 0,
        })
    }

    /// The port where it listens. Errors: what getsockname(2) reports.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Connections that came through.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// What to wait for, in the order in which [`Door::attend`] takes the answers.
    pub fn wants(&self) -> Vec<Want<'_>> {
        let mut wants = Vec::with_capacity(1 + self.waiting.len() + self.lines.len());
        if self.accepts() {
            wants.push(Want::Readable(self.listener.as_fd()));
        }
        wants.extend(self.waiting.iter().map(|one| Want::Readable(one.stream.as_fd())));
        wants.extend(self.lines.values().map(|line| Want::Readable(line.fd())));
        wants
    }

    fn accepts(&self) -> bool {
        self.waiting.len() < WAITING_MAX && self.accept_at.is_none_or(|at| Instant::now() >= at)
    }

    /// When to look without anything's having arrived.
    pub fn deadline(&self) -> Option<Instant> {
        let handshakes = self.waiting.iter().map(|one| one.deadline);
        let frames = self.lines.values().filter_map(Channel::slow_at);
        handshakes.chain(frames).chain(self.accept_at).min()
    }

    /// Takes what arrived; `ready` answers [`Door::wants`].
    pub fn attend(&mut self, ready: &[bool]) -> Vec<Happened> {
        let mut happened = Vec::new();
        let accepting = ready.len() > self.waiting.len() + self.lines.len();
        let mut ready = ready.iter().copied();
        let knocks = accepting && ready.next().unwrap_or(false);
        let waiting: Vec<(Waiting, bool)> = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|one| (one, ready.next().unwrap_or(false)))
            .collect();
        let lines: Vec<(Link, bool)> =
            self.lines.keys().map(|link| (*link, ready.next().unwrap_or(false))).collect();
        for (link, is_ready) in lines {
            self.hear(link, is_ready, &mut happened);
        }
        for (one, is_ready) in waiting {
            self.shake(one, is_ready, &mut happened);
        }
        if knocks {
            self.accept(&mut happened);
        }
        happened
    }

    /// Says something over a connection. One that cannot hear it is closed: `false`.
    pub fn say(&mut self, link: Link, down: &Down, stop: &AtomicBool) -> bool {
        let Some(line) = self.lines.get_mut(&link) else { return false };
        let said = line.send(down, stop).is_ok();
        if !said {
            self.close(link);
        }
        said
    }

    /// Ends a connection.
    pub fn close(&mut self, link: Link) {
        // The kernel still delivers what was said last.
        self.lines.remove(&link);
    }

    fn hear(&mut self, link: Link, is_ready: bool, happened: &mut Vec<Happened>) {
        let Some(line) = self.lines.get_mut(&link) else { return };
        let mut heard = || {
            if is_ready {
                line.read_some()?;
            }
            while let Some(up) = line.taken::<Up>()? {
                happened.push(Happened::Said(link, up));
            }
            Ok::<(), session::agent::channel::Lost>(())
        };
        if heard().is_err() {
            self.lines.remove(&link);
            happened.push(Happened::Closed(link));
        }
    }

    fn accept(&mut self, happened: &mut Vec<Happened>) {
        self.accept_at = None;
        while self.waiting.len() < WAITING_MAX {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    if prepare(&stream).is_ok() {
                        let responder = Responder::new(Rc::clone(&self.keys));
                        let deadline = Instant::now() + HANDSHAKE_TIME;
                        let one = Waiting { stream, from, responder, deadline };
                        self.shake(one, true, happened);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.accept_at = Some(Instant::now() + ACCEPT_AGAIN);
                    let line = format!("cannot accept a connection: {error}");
                    return self.reject(line, happened);
                }
            }
        }
    }

    fn shake(&mut self, mut one: Waiting, is_ready: bool, happened: &mut Vec<Happened>) {
        let is_over = Instant::now() >= one.deadline;
        if !is_ready && !is_over {
            return self.waiting.push(one);
        }
        let why = match admission::advance(&mut one.stream, &mut one.responder) {
            Admission::Pending if !is_over => return self.waiting.push(one),
            Admission::Pending => LATE.to_owned(),
            Admission::Secured(secured) => {
                match Channel::accepted(one.stream, *secured, FRAME_BYTES_MAX) {
                    Ok(channel) => return self.open(channel, happened),
                    Err(lost) => lost.to_string(),
                }
            }
            Admission::Refused(refusal) => {
                let _ = one.stream.shutdown(Shutdown::Write);
                match refusal {
                    Refusal::OtherKey => {
                        "it has another secret: all nodes of a sweep need the same one".to_owned()
                    }
                    other => other.to_string(),
                }
            }
            Admission::Closed(why) => why,
        };
        self.reject(format!("rejected {}: {why}", one.from), happened);
    }

    fn open(&mut self, channel: Channel, happened: &mut Vec<Happened>) {
        self.last += 1;
        self.lines.insert(self.last, channel);
        self.hear(self.last, false, happened);
    }

    /// Reports a stranger, seldom.
    fn reject(&mut self, line: String, happened: &mut Vec<Happened>) {
        if self.said_at.is_some_and(|at| at.elapsed() < SAY_AGAIN) {
            self.unsaid += 1;
            return;
        }
        self.said_at = Some(Instant::now());
        let more = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            more => format!(" (and {more} more before)"),
        };
        happened.push(Happened::Rejected(line + &more));
    }
}

const LATE: &str = "it did not complete the handshake in time";
