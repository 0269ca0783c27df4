//! Rank 0 as a process: it decides, writes the record, and is a node itself.

use super::branch::Ended;
use super::door::{Door, Happened};
use super::hands::Hands;
use super::options::Options;
use super::{Say, hello, wait, wall_s};
use crate::book::{Book, open};
use crate::model;
use crate::rank0::{Act, Admission, Clock, Rank0};
use crate::read::Sweep;
use crate::recipe::Recipe;
use crate::relay::Link;
use crate::sweep::Event;
use crate::tree::DEGREE;
use crate::wire::{Down, Hello, Up};
use anyhow::{Context, Result};
use session::agent::reach;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Round trips from which the smallest is taken.
const PINGS: u32 = 3;
/// Nodes that wait at rank 0 for their parent; others come again.
const HELD_MAX: usize = 400;
/// They come again after this time, in seconds.
const LATER_S: f64 = 1.0;
/// Nodes have this time to hear that the sweep is over.
const LEAVING: Duration = Duration::from_secs(5);

/// What rank 0 is started with, beside what every node is.
pub struct Lead {
    /// What the sweep does.
    pub recipe: Recipe,
    /// Its record.
    pub book: Book,
    /// What the record has, for a sweep that goes on.
    pub earlier: Option<Sweep>,
}

/// Leads a sweep to its end. Errors: the meeting point cannot be listened at, or the record cannot
/// be written.
pub fn lead(options: &Options, lead: Lead, say: Say<'_>, stop: &AtomicBool) -> Result<Ended> {
    let mut root = Root::new(options, lead, say, stop)?;
    let own = root.hello.clone();
    root.rank0.joined(None, own, Clock::default(), Duration::ZERO);
    loop {
        root.act(stop)?;
        if root.is_over() {
            return Ok(Ended::Over);
        }
        let until = root.leaving.unwrap_or(root.began + root.rank0.wake_at());
        let ready = wait(&root.door, Some(&root.hands), None, Some(until), stop)
            .context("cannot wait for messages")?;
        if ready.stopped {
            root.hands.end();
            let now = root.now();
            root.rank0.stop(now);
            // What is left is said without regard to the flag.
            root.act(&AtomicBool::new(false))?;
            return Ok(Ended::Interrupted);
        }
        root.attend_door(&ready.door, stop);
        if let Some(report) = root.hands.attend() {
            let now = root.now();
            root.rank0.own_report(report, now);
        }
        let now = root.now();
        root.rank0.tick(now);
    }
}

/// A connection before its node takes part.
struct Arriving {
    hello: Hello,
    pinged: Instant,
    wall_s: f64,
    pings: u32,
    clock: Clock,
}

struct Root<'a> {
    say: Say<'a>,
    hello: Hello,
    rank0: Rank0,
    book: Book,
    door: Door,
    hands: Hands<'a>,
    began: Instant,
    arriving: BTreeMap<Link, Arriving>,
    leaving: Option<Instant>,
}

impl<'a> Root<'a> {
    fn new(options: &'a Options, lead: Lead, say: Say<'a>, stop: &AtomicBool) -> Result<Root<'a>> {
        let (host, port) = options.place.meeting()?;
        let found = reach::resolved(host, port, stop)?;
        let at = *found.first().with_context(|| format!("{host} has no address"))?;
        let door = Door::new(at, &options.key).context("--meet names rank 0's own address")?;
        let address = *options.address.get_or_init(|| at.ip());
        let port = door.port()?;
        say(&format!("listening at {}", SocketAddr::new(at.ip(), port)));
        let Lead { recipe, book, earlier } = lead;
        let hands = Hands::new(options, &recipe.header.id, stop)?;
        let generation = fastrand::u64(1..);
        Ok(Root {
            say,
            hello: hello(options, address, port, generation),
            rank0: Rank0::new(recipe, generation, earlier.as_ref()),
            book,
            door,
            hands,
            began: Instant::now(),
            arriving: BTreeMap::new(),
            leaving: None,
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn is_over(&self) -> bool {
        self.leaving.is_some_and(|until| Instant::now() >= until || self.rank0.connections() == 0)
    }

    fn attend_door(&mut self, ready: &[bool], stop: &AtomicBool) {
        for happened in self.door.attend(ready) {
            match happened {
                Happened::Said(link, up) => self.heard(link, up, stop),
                Happened::Closed(link) => self.closed(link),
                Happened::Rejected(line) => (self.say)(&line),
            }
        }
    }

    fn heard(&mut self, link: Link, up: Up, stop: &AtomicBool) {
        match up {
            Up::Hello(hello) => self.knock(link, *hello, stop),
            Up::Pong { wall_s } => self.pong(link, wall_s, stop),
            up => self.rank0.heard(link, up, self.began.elapsed()),
        }
    }

    /// A node that has the secret wants to take part.
    fn knock(&mut self, link: Link, hello: Hello, stop: &AtomicBool) {
        if self.door.lines() > HELD_MAX && hello.rank > DEGREE {
            self.door.say(link, &Down::Later { after_s: LATER_S }, stop);
            return self.door.close(link);
        }
        if let Admission::Refused(why) = self.rank0.admit(&hello) {
            self.door.say(link, &Down::Refused { why }, stop);
            return self.door.close(link);
        }
        let clock = Clock { offset_s: 0.0, round_trip_s: f64::INFINITY };
        let arriving =
            Arriving { hello, pinged: Instant::now(), wall_s: wall_s(), pings: 0, clock };
        self.arriving.insert(link, arriving);
        if !self.door.say(link, &Down::Ping, stop) {
            self.arriving.remove(&link);
        }
    }

    fn pong(&mut self, link: Link, there_s: f64, stop: &AtomicBool) {
        let Some(mut arriving) = self.arriving.remove(&link) else { return };
        let round_trip_s = arriving.pinged.elapsed().as_secs_f64();
        if round_trip_s < arriving.clock.round_trip_s {
            let offset_s = there_s - (arriving.wall_s + round_trip_s / 2.0);
            arriving.clock = Clock { offset_s, round_trip_s };
        }
        arriving.pings += 1;
        if arriving.pings < PINGS {
            arriving.pinged = Instant::now();
            arriving.wall_s = wall_s();
            if self.door.say(link, &Down::Ping, stop) {
                self.arriving.insert(link, arriving);
            }
            return;
        }
        // Another one may have come with its rank meanwhile.
        if let Admission::Refused(why) = self.rank0.admit(&arriving.hello) {
            self.door.say(link, &Down::Refused { why }, stop);
            return self.door.close(link);
        }
        let now = self.now();
        self.rank0.joined(Some(link), arriving.hello, arriving.clock, now);
    }

    fn closed(&mut self, link: Link) {
        self.arriving.remove(&link);
        let now = self.now();
        self.rank0.closed(link, now);
    }

    /// Does what there is to do. Errors: the record cannot be written.
    fn act(&mut self, stop: &AtomicBool) -> Result<()> {
        while let Some(act) = self.rank0.take() {
            match act {
                Act::Write(event) => self.write(&event)?,
                Act::Sync => self.book.sync()?,
                Act::Down(link, down) => {
                    if !self.door.say(link, &down, stop) {
                        self.closed(link);
                    }
                }
                Act::Close(link) => self.door.close(link),
                Act::Start(id, order) => {
                    if let Some(report) = self.hands.start(id, order) {
                        let now = self.now();
                        self.rank0.own_report(report, now);
                    }
                }
                Act::Say(line) => (self.say)(&line),
                Act::Doubt(known) => {
                    let sweep = open(self.book.path())?;
                    let suspects = model::suspects(&sweep, known);
                    let now = self.now();
                    self.rank0.suspects(&suspects, now);
                }
                Act::Over => self.leaving = Some(Instant::now() + LEAVING),
            }
        }
        Ok(())
    }

    fn write(&mut self, event: &Event) -> Result<()> {
        self.book.append(event).with_context(|| {
            format!(
                "the sweep ends: its record cannot be written. After there is room, go on with: \
                 plumb fleet resume {}",
                self.book.path().display()
            )
        })
    }
}
