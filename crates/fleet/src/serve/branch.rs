//! A node that is not rank 0, as a process.

use super::door::{Door, Happened};
use super::hands::Hands;
use super::options::Options;
use super::uplink::{Joined, NotLetIn, is_closed, join, other_secret};
use super::{Say, hello, wait};
use crate::relay::{Act, Relay};
use crate::tree::has_children;
use crate::wire::{Down, Report, Up};
use anyhow::{Context, Error, Result, anyhow};
use metal::wait::Want;
use session::agent::channel::Channel;
use session::agent::message::printable;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A node that could not connect tries again after this time.
const AGAIN: Duration = Duration::from_millis(200);
/// Handshakes that are closed in a row mean another secret.
const CLOSED_MAX: u32 = 5;
/// The children of a node that leaves have this time to hear that they leave, too.
const LEAVING: Duration = Duration::from_secs(2);

/// How a node's part ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The sweep is over.
    Over,
    /// Rank 0 ended it before, and why.
    Sent(String),
    /// A signal ended it.
    Interrupted,
}

/// Takes part in a sweep until it is over. Errors: rank 0 cannot be reached, or does not let this
/// node in.
pub fn node(options: &Options, say: Say<'_>, stop: &AtomicBool) -> Result<Ended> {
    let mut branch = Branch::new(options, say)?;
    loop {
        if branch.is_over() {
            return Ok(branch.leaving.map_or(Ended::Over, |(_, why)| match why {
                None => Ended::Over,
                Some(why) => Ended::Sent(why),
            }));
        }
        branch.connect(stop)?;
        let uplink = branch.uplink.as_ref().map(|uplink| Want::Readable(uplink.fd()));
        let hands = branch.hands.as_ref();
        let ready = wait(&branch.door, hands, uplink, branch.deadline(), stop)
            .context("cannot wait for messages")?;
        if ready.stopped {
            branch.interrupted();
            return Ok(Ended::Interrupted);
        }
        branch.attend_door(&ready.door);
        if ready.uplink {
            branch.hear(stop);
        }
        if let Some(report) = branch.hands.as_mut().and_then(Hands::attend) {
            branch.relay.report(report);
        }
        branch.act(stop);
    }
}

struct Branch<'a> {
    options: &'a Options,
    say: Say<'a>,
    instance: u64,
    door: Door,
    port: u16,
    relay: Relay,
    hands: Option<Hands<'a>>,
    sweep: String,
    uplink: Option<Channel>,
    /// The parent to connect to; rank 0 where absent.
    parent: Option<(u32, SocketAddr)>,
    /// When to connect.
    again_at: Instant,
    /// When trying is given up.
    give_up_at: Instant,
    closed: u32,
    leaving: Option<(Instant, Option<String>)>,
}

impl<'a> Branch<'a> {
    fn new(options: &'a Options, say: Say<'a>) -> Result<Branch<'a>> {
        let place = &options.place;
        let listen = |at: IpAddr| Door::new(SocketAddr::new(at, 0), &options.key);
        let (door, port) = if has_children(place.rank, place.size) {
            let any = listen(Ipv6Addr::UNSPECIFIED.into());
            let door = any.or_else(|_| listen(Ipv4Addr::UNSPECIFIED.into()))?;
            let port = door.port().context("no port")?;
            (door, port)
        } else {
            // No other host has a reason to come.
            (listen(Ipv4Addr::LOCALHOST.into())?, 0)
        };
        let now = Instant::now();
        Ok(Branch {
            options,
            say,
            instance: fastrand::u64(1..),
            door,
            port,
            relay: Relay::new(place.rank),
            hands: None,
            sweep: String::new(),
            uplink: None,
            parent: None,
            again_at: now,
            give_up_at: now + options.patience,
            closed: 0,
            leaving: None,
        })
    }

    fn is_over(&self) -> bool {
        let is_late =
            |(until, _): &(Instant, _)| Instant::now() >= *until || self.door.lines() == 0;
        self.leaving.as_ref().is_some_and(is_late)
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.leaving {
            Some((until, _)) => Some(*until),
            None => self.uplink.is_none().then_some(self.again_at),
        }
    }

    /// Connects to the parent, or to rank 0, where there is no connection. Errors: it is of no use
    /// to try again.
    fn connect(&mut self, stop: &AtomicBool) -> Result<()> {
        let is_due =
            self.uplink.is_none() && self.leaving.is_none() && Instant::now() >= self.again_at;
        if !is_due {
            return Ok(());
        }
        let to = self.parent.take();
        match self.try_once(to, stop) {
            Ok(Joined::Here(channel, sweep, generation)) => {
                self.closed = 0;
                self.uplink = Some(*channel);
                self.relay.attached(to.map_or(0, |(rank, _)| rank), generation);
                if self.hands.is_none() || self.sweep != sweep {
                    self.hands = match Hands::new(self.options, &sweep, stop) {
                        // A signal ended it. The next wait ends this node, and rank 0 learns it.
                        Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                        hands => Some(hands?),
                    };
                    (self.say)(&format!("takes part in {}", printable(&sweep)));
                    self.sweep = sweep;
                }
                self.take_heard(stop);
                Ok(())
            }
            Ok(Joined::Move(rank, at)) => {
                self.parent = Some((rank, at));
                Ok(())
            }
            Ok(Joined::Later(after)) => {
                self.again_at = Instant::now() + after.mul_f64(0.5 + fastrand::f64());
                Ok(())
            }
            Err(error) if error.is::<NotLetIn>() => Err(error),
            // The parent may be gone: rank 0 names another one.
            Err(_) if to.is_some() => Ok(()),
            Err(error) => self.failed(error),
        }
    }

    fn try_once(&self, to: Option<(u32, SocketAddr)>, stop: &AtomicBool) -> Result<Joined> {
        let parent = to.map(|(_, at)| (at.ip().to_string(), at.port()));
        let (host, port) = match &parent {
            Some((host, port)) => (host.as_str(), *port),
            None => self.options.place.meeting()?,
        };
        let introduction = |here: IpAddr| {
            let address = *self.options.address.get_or_init(|| here);
            hello(self.options, address, self.port, self.instance)
        };
        join((host, port), &self.options.key, introduction, stop)
    }

    fn failed(&mut self, error: Error) -> Result<()> {
        let meet = &self.options.place.meet;
        self.closed = if is_closed(&error) { self.closed + 1 } else { 0 };
        if self.closed >= CLOSED_MAX && self.sweep.is_empty() {
            return Err(other_secret(meet));
        }
        if Instant::now() >= self.give_up_at {
            let patience = humantime::format_duration(self.options.patience);
            return Err(match self.sweep.is_empty() {
                true => error.context(format!("no sweep to join at {meet} for {patience}")),
                false => anyhow!(
                    "rank 0 is gone, and nothing answers at {meet} for {patience} ({error:#}); \
                     `plumb fleet resume` goes on with the sweep"
                ),
            });
        }
        self.again_at = Instant::now() + AGAIN.mul_f64(1.0 + fastrand::f64());
        Ok(())
    }

    fn attend_door(&mut self, ready: &[bool]) {
        for happened in self.door.attend(ready) {
            match happened {
                Happened::Said(link, Up::Hello(hello)) => {
                    self.relay.child(link, &hello, &self.sweep);
                }
                Happened::Said(link, up) => self.relay.child_says(link, up),
                Happened::Closed(link) => self.relay.child_closed(link),
                Happened::Rejected(line) => (self.say)(&line),
            }
        }
    }

    fn hear(&mut self, stop: &AtomicBool) {
        if self.uplink.as_mut().is_some_and(|uplink| uplink.read_some().is_err()) {
            self.lose_uplink();
        }
        self.take_heard(stop);
    }

    /// Handles the messages that have arrived. Orders may arrive with the welcome: they are in the
    /// buffer then, and the connection does not become readable for them.
    fn take_heard(&mut self, stop: &AtomicBool) {
        let Some(uplink) = &mut self.uplink else { return self.act(stop) };
        let relay = &mut self.relay;
        let parent = &mut self.parent;
        let mut heard = || -> Result<bool> {
            while let Some(down) = uplink.taken::<Down>()? {
                if let Down::Move { to, at, .. } = down {
                    *parent = Some((to, at));
                    return Ok(false);
                }
                relay.parent_says(down);
            }
            Ok(true)
        };
        if !matches!(heard(), Ok(true)) {
            self.lose_uplink();
        }
        self.act(stop);
    }

    fn lose_uplink(&mut self) {
        self.uplink = None;
        self.relay.detached();
        let now = Instant::now();
        self.again_at = now;
        self.give_up_at = now + self.options.patience;
    }

    fn act(&mut self, stop: &AtomicBool) {
        while let Some(act) = self.relay.take() {
            match act {
                Act::Up(up) => {
                    let said = self.uplink.as_mut().map(|uplink| uplink.send(&up, stop).is_ok());
                    if said == Some(false) {
                        self.lose_uplink();
                    }
                }
                Act::Down(link, down) => {
                    if !self.door.say(link, &down, stop) {
                        self.relay.child_closed(link);
                    }
                }
                Act::Close(link) => self.door.close(link),
                Act::Start(id, order) => {
                    let report = self.hands.as_mut().and_then(|hands| hands.start(id, order));
                    if let Some(report) = report {
                        self.relay.report(report);
                    }
                }
                Act::Leave(why) => {
                    if let Some(hands) = &mut self.hands {
                        hands.end();
                    }
                    self.leaving = Some((Instant::now() + LEAVING, why.map(|why| printable(&why))));
                }
            }
        }
    }

    /// A signal: what runs is ended, and rank 0 learns it.
    fn interrupted(&mut self) {
        if let Some(hands) = &mut self.hands {
            hands.end();
        }
        self.relay.report(Report::Leaves { why: "a signal ended it".to_owned() });
        // The flag is set: it would end what is said.
        self.act(&AtomicBool::new(false));
    }
}
