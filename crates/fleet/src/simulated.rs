//! A sweep without processes: rank 0 and its nodes as they decide, joined by queues in the place of
//! connections, with figures that are drawn. A node can be killed at every message.

use crate::book::settle;
use crate::drawn::Drawn;
use crate::matchings::steps_for;
use crate::model;
use crate::rank0::{Act, Admission, Clock, Rank0};
use crate::read::Sweep;
use crate::recipe::{Limits, Recipe, loads};
use crate::relay::{Act as Does, Link, Relay};
use crate::sweep::{Event, FLEET_FORMAT, Header};
use crate::tree::has_children;
use crate::wire::{Down, Hello, Order, Report, Up};
use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Whom to kill, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The node.
    pub rank: u32,
    /// The number of the message.
    pub at: u64,
    /// Whether it is killed before the message arrives, or after.
    pub before: bool,
}

/// What a simulated sweep came to.
#[derive(Debug)]
pub struct Outcome {
    /// The lines of its record, with those of its earlier parts.
    pub events: Vec<Event>,
    /// Messages that arrived.
    pub messages: u64,
    /// Whether it came to its end.
    pub is_over: bool,
    /// Largest number of connections of rank 0 at a time.
    pub connections: usize,
    /// Connections of rank 0 at the end.
    pub connections_at_end: usize,
    /// Time that passed, in seconds.
    pub wall_s: f64,
}

/// A sweep of this size as it is without options.
pub fn recipe(size: u32, seed: u64) -> Recipe {
    let steps = steps_for(size);
    let header = Header {
        format: FLEET_FORMAT,
        id: "simulated".to_owned(),
        plumb: PLUMB.to_owned(),
        size,
        preset: "rehearsal".to_owned(),
        steps,
        seed,
        loads: loads(size, steps, [None; 3]),
        simulated: true,
        ..Header::default()
    };
    let limits =
        Limits { meet_s: 60.0, grace_s: 10.0, alone_s: 60.0, pair_s: 20.0, gather_s: 30.0 };
    Recipe { header, limits }
}

/// Version of plumb on all nodes.
const PLUMB: &str = "0.1.0";

/// What a node says of itself.
pub(crate) fn hello(rank: u32, size: u32) -> Hello {
    Hello {
        rank,
        size,
        instance: u64::from(rank) + 1,
        plumb: PLUMB.to_owned(),
        name: format!("n{rank}"),
        machine: rank.to_string(),
        // The address is the rank: that is how a child finds its parent.
        address: IpAddr::from(rank.to_be_bytes()),
        port: u16::from(has_children(rank, size)),
        stratum: [("cpu".to_owned(), "drawn".to_owned())].gather(),
        labels: BTreeMap::new(),
        simulated: true,
    }
}

/// Runs a sweep to its end, or until rank 0 is killed; `earlier` are the lines of a record that it
/// goes on with. `generation` counts the processes of rank 0.
pub fn run(
    recipe: &Recipe,
    drawn: &Drawn,
    earlier: &[Event],
    generation: u64,
    kill: Option<Kill>,
) -> Outcome {
    let mut world = World::new(recipe, drawn, earlier, generation);
    let mut messages = 0;
    let mut killed = None;
    while !world.is_over {
        let Some(arrives) = world.queue.pop_front() else {
            if !world.pass_time() {
                break;
            }
            continue;
        };
        let due = kill.filter(|kill| kill.at == messages && killed.is_none());
        killed = killed.or(due);
        if let Some(kill) = due.filter(|kill| kill.before) {
            world.kill(kill.rank);
        }
        world.arrive(arrives);
        if let Some(kill) = due.filter(|kill| !kill.before) {
            world.kill(kill.rank);
        }
        messages += 1;
        if killed.is_some_and(|kill| kill.rank == 0) {
            break;
        }
    }
    Outcome {
        events: world.events,
        messages,
        is_over: world.is_over,
        connections: world.most,
        connections_at_end: world.rank0.connections(),
        wall_s: world.now.as_secs_f64(),
    }
}

/// The events of a record as a reader gets them.
pub fn sweep(events: &[Event]) -> Option<Sweep> {
    let mut sweep = Sweep::from_events(events.iter().cloned())?;
    settle(&mut sweep);
    Some(sweep)
}

/// Something on its way.
#[derive(Debug)]
enum Arrives {
    /// A node begins to connect to rank 0.
    Starts(u32),
    /// Over a connection, from its child.
    Up(Link, Up),
    /// Over a connection, to its child.
    Down(Link, Down),
    /// The end of a connection, at one of its ends.
    Closed(Link, u32),
    /// A node has done something.
    Done(u32, u64, Report),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Line {
    child: u32,
    parent: u32,
}

struct Node {
    relay: Relay,
    uplink: Option<Link>,
    /// The order that it executes.
    order: u64,
}

struct World<'a> {
    drawn: &'a Drawn,
    size: u32,
    rank0: Rank0,
    nodes: BTreeMap<u32, Node>,
    lines: BTreeMap<Link, Line>,
    last: Link,
    queue: VecDeque<Arrives>,
    now: Duration,
    events: Vec<Event>,
    is_over: bool,
    most: usize,
}

impl<'a> World<'a> {
    fn new(recipe: &Recipe, drawn: &'a Drawn, earlier: &[Event], generation: u64) -> World<'a> {
        let size = recipe.header.size;
        let node = |rank| (rank, Node { relay: Relay::new(rank), uplink: None, order: 0 });
        let mut world = World {
            drawn,
            size,
            rank0: Rank0::new(recipe.clone(), generation, sweep(earlier).as_ref()),
            nodes: (1..size).map(node).collect(),
            lines: BTreeMap::new(),
            last: 0,
            queue: (1..size).map(Arrives::Starts).collect(),
            now: Duration::ZERO,
            events: earlier.to_vec(),
            is_over: false,
            most: 0,
        };
        let own = hello(0, size);
        world.rank0.joined(None, own, Clock::default(), Duration::ZERO);
        world.act();
        world
    }

    /// Time passes until something is late; `false` where nothing ever is.
    fn pass_time(&mut self) -> bool {
        let next = self.rank0.wake_at();
        if next <= self.now && self.rank0.is_over() {
            return false;
        }
        self.now = next.max(self.now + Duration::from_millis(1));
        self.rank0.tick(self.now);
        self.act();
        self.now < Duration::from_secs(100_000)
    }

    fn kill(&mut self, rank: u32) {
        if self.nodes.remove(&rank).is_none() {
            return;
        }
        let own: Vec<Link> = self
            .lines
            .iter()
            .filter(|(_, line)| line.child == rank || line.parent == rank)
            .map(|(link, _)| *link)
            .collect();
        for link in own {
            self.close(link, rank);
        }
    }

    /// One end closes a connection; the other hears it.
    fn close(&mut self, link: Link, by: u32) {
        let Some(line) = self.lines.remove(&link) else { return };
        let other = if line.child == by { line.parent } else { line.child };
        self.queue.push_back(Arrives::Closed(link, other));
    }

    fn open(&mut self, child: u32, parent: u32) {
        self.last += 1;
        self.lines.insert(self.last, Line { child, parent });
        if let Some(node) = self.nodes.get_mut(&child) {
            node.uplink = Some(self.last);
        }
        let hello = Box::new(hello(child, self.size));
        self.queue.push_back(Arrives::Up(self.last, Up::Hello(hello)));
    }

    fn arrive(&mut self, arrives: Arrives) {
        match arrives {
            Arrives::Starts(rank) => {
                if self.nodes.contains_key(&rank) {
                    self.open(rank, 0);
                }
            }
            Arrives::Up(link, up) => {
                let Some(line) = self.lines.get(&link).copied() else { return };
                match line.parent {
                    0 => self.at_root(link, up),
                    parent => self.at_node(parent, link, up),
                }
            }
            Arrives::Down(link, down) => {
                let Some(line) = self.lines.get(&link).copied() else { return };
                self.hear_parent(line.child, link, line.parent, down);
            }
            Arrives::Closed(link, at) => self.closed(link, at),
            Arrives::Done(0, _, report) => {
                self.rank0.own_report(report, self.now);
                self.act();
            }
            Arrives::Done(rank, order, report) => {
                if let Some(node) = self.nodes.get_mut(&rank).filter(|node| node.order == order) {
                    node.relay.report(report);
                }
                self.act_of(rank);
            }
        }
    }

    fn closed(&mut self, link: Link, at: u32) {
        self.lines.remove(&link);
        if at == 0 {
            self.rank0.closed(link, self.now);
            return self.act();
        }
        let Some(node) = self.nodes.get_mut(&at) else { return };
        if node.uplink == Some(link) {
            node.uplink = None;
            node.relay.detached();
            self.queue.push_back(Arrives::Starts(at));
        } else {
            node.relay.child_closed(link);
        }
        self.act_of(at);
    }

    fn at_root(&mut self, link: Link, up: Up) {
        match up {
            Up::Hello(hello) => match self.rank0.admit(&hello) {
                Admission::Refused(why) => {
                    self.queue.push_back(Arrives::Down(link, Down::Refused { why }));
                }
                Admission::In => {
                    self.most = self.most.max(self.rank0.connections() + 1);
                    self.rank0.joined(Some(link), *hello, Clock::default(), self.now);
                }
            },
            up => self.rank0.heard(link, up, self.now),
        }
        self.act();
    }

    fn at_node(&mut self, rank: u32, link: Link, up: Up) {
        let Some(node) = self.nodes.get_mut(&rank) else { return };
        match up {
            Up::Hello(hello) => node.relay.child(link, &hello, "simulated"),
            up => node.relay.child_says(link, up),
        }
        self.act_of(rank);
    }

    fn hear_parent(&mut self, rank: u32, link: Link, parent: u32, down: Down) {
        let Some(node) = self.nodes.get_mut(&rank) else { return };
        match down {
            Down::Welcome { generation, .. } => node.relay.attached(parent, generation),
            Down::Move { to, .. } => {
                node.uplink = None;
                node.relay.detached();
                self.close(link, rank);
                // A parent that is gone cannot be reached: rank 0 names another one.
                match self.nodes.contains_key(&to) {
                    true => self.open(rank, to),
                    false => self.queue.push_back(Arrives::Starts(rank)),
                }
            }
            Down::Refused { .. } => self.kill(rank),
            down => node.relay.parent_says(down),
        }
        self.act_of(rank);
    }

    fn act_of(&mut self, rank: u32) {
        while let Some(node) = self.nodes.get_mut(&rank) {
            let Some(does) = node.relay.take() else { return };
            match does {
                Does::Up(up) => {
                    if let Some(link) = node.uplink {
                        self.queue.push_back(Arrives::Up(link, up));
                    }
                }
                Does::Down(link, down) => self.queue.push_back(Arrives::Down(link, down)),
                Does::Close(link) => self.close(link, rank),
                Does::Start(id, order) => {
                    node.order = id;
                    self.start(rank, id, &order);
                }
                Does::Leave(_) => {
                    self.nodes.remove(&rank);
                    return;
                }
            }
        }
    }

    /// What an order comes to, after everything that is on its way now.
    fn start(&mut self, rank: u32, order: u64, what: &Order) {
        if let Some(report) = self.drawn.report(rank, order, what) {
            self.queue.push_back(Arrives::Done(rank, order, report));
        }
    }

    /// Does what rank 0 decided.
    fn act(&mut self) {
        while let Some(act) = self.rank0.take() {
            match act {
                Act::Write(event) => self.events.push(event),
                Act::Sync | Act::Say(_) => {}
                Act::Down(link, down) => self.queue.push_back(Arrives::Down(link, down)),
                // What was said before arrives.
                Act::Close(link) => {
                    let child = self.lines.get(&link).map(|line| line.child);
                    self.queue.extend(child.map(|child| Arrives::Closed(link, child)));
                }
                Act::Start(id, order) => self.start(0, id, &order),
                Act::Doubt(known) => {
                    let found = sweep(&self.events).map(|sweep| model::suspects(&sweep, known));
                    self.rank0.suspects(&found.unwrap_or_default(), self.now);
                }
                Act::Over => self.is_over = true,
            }
        }
    }
}

/// The nodes whose figures by themselves are all in a record.
pub fn measured(sweep: &Sweep) -> BTreeSet<u32> {
    sweep.nodes.values().filter(|node| node.record.is_some()).map(|node| node.rank).gather()
}

#[cfg(test)]
mod tests;
