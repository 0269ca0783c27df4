//! Who is let in: every node speaks to rank 0 first, which places it in the tree.

use super::members::{Member, State};
use super::{Clock, Course, Rank0};
use crate::relay::Link;
use crate::sweep::{Event, Header, Node, Stage};
use crate::tree::{ancestors, children};
use crate::wire::{Down, Hello};
use std::time::Duration;

/// A wall clock that differs by more, in seconds, gets a line.
const CLOCK_APART_S: f64 = 60.0;
/// Longest name of a node, and of what it says of itself, in characters.
const TEXT_MAX: usize = 256;
/// Most properties of hardware and labels of a node.
const PROPERTIES_MAX: usize = 64;

/// What becomes of a node that said hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It takes part; [`Rank0::joined`] is next.
    In,
    /// It does not, and why.
    Refused(String),
}

impl Rank0 {
    /// Whether a node that has the secret takes part.
    pub fn admit(&mut self, hello: &Hello) -> Admission {
        let (rank, name) = (hello.rank, &hello.name);
        let who = format!("rank {rank} ({name} at {})", hello.address);
        let Some((why, is_absent)) = self.refusal(hello) else { return Admission::In };
        self.say(format!("{who} was not let in: {why}"));
        let may_be_missed = is_absent && rank < self.recipe.header.size;
        if may_be_missed && !self.members.contains_key(&rank) && self.refused.insert(rank) {
            self.absent(rank, Stage::Meet, format!("{name} was not let in: {why}"), true);
        }
        Admission::Refused(why)
    }

    /// Why a node does not take part, and whether its rank is absent for that reason.
    fn refusal(&self, hello: &Hello) -> Option<(String, bool)> {
        let header = &self.recipe.header;
        if self.is_over() {
            return Some(("the sweep is over".to_owned(), false));
        }
        if let Some(why) = unfit(hello, header) {
            return Some((why, true));
        }
        let rank = hello.rank;
        let meets = matches!(self.course, Course::Meets(_));
        let why = match self.members.get(&rank) {
            None if meets => return None,
            None => format!(
                "the sweep goes on without rank {rank}, which did not join in time; `plumb fleet \
                 resume` takes it in afterwards"
            ),
            Some(member) if member.hello.instance == hello.instance => match member.state {
                State::Lost => {
                    "the sweep gave this node up; `plumb fleet resume` takes it in afterwards"
                        .to_owned()
                }
                State::Here | State::Awaited(_) => return None,
            },
            // One that was started again before anything was measured.
            Some(member) if meets && member.state != State::Here => return None,
            Some(member) => format!(
                "two nodes have rank {rank}: {} at {} joined before; give each node its own rank",
                member.hello.name, member.hello.address
            ),
        };
        Some((why, false))
    }

    /// A node that was let in is connected to rank 0, which has no connection to itself: it is placed in
    /// the tree.
    pub fn joined(&mut self, link: Option<Link>, hello: Hello, clock: Clock, now: Duration) {
        self.now = now;
        let rank = hello.rank;
        link.into_iter().for_each(|link| self.connect(rank, link));
        let is_known = |member: &&Member| member.hello.instance == hello.instance;
        if let Some(member) = self.members.get(&rank).filter(is_known) {
            let came_back = member.sent_to.is_none();
            let line = format!("{} came back", self.name(rank));
            if came_back && rank != 0 {
                self.say(line);
            }
        } else {
            let record = self.done.records.get(&rank).cloned();
            self.write(Event::Node(Node::of(hello.clone(), clock, record)));
            let apart = clock.offset_s.abs();
            if apart > CLOCK_APART_S {
                self.say(format!(
                    "the clock of node {rank} ({}) is {} {} rank 0's: times of its own record \
                     are wrong by this; the sweep needs no common clock and goes on",
                    hello.name,
                    duration(apart),
                    if clock.offset_s > 0.0 { "ahead of" } else { "behind" }
                ));
            }
            *self.machines.entry(hello.machine.clone()).or_default() += 1;
            self.members.insert(rank, Member::new(hello, clock));
        }
        let meets = matches!(self.course, Course::Meets(_));
        // Over this connection it has no place yet, whatever it had over an earlier one.
        self.parents.remove(&rank);
        self.place(rank, !meets);
        self.tick(now);
    }

    /// Says to a node that is connected to rank 0 where it belongs: to its parent, or, where that is
    /// missing or cannot be reached (and `to_any` allows others), to the next ancestor.
    pub(super) fn place(&mut self, rank: u32, to_any: bool) {
        let Some(member) = self.members.get(&rank) else { return };
        if rank == 0 || self.parents.get(&rank).is_some_and(|parent| *parent != 0) {
            return;
        }
        let is_settled = self.parents.contains_key(&rank);
        let failed = member.sent_to;
        let is_open = |rank: &u32| {
            let is_here = |member: &Member| member.state == State::Here && member.hello.port != 0;
            self.members.get(rank).is_some_and(is_here)
        };
        let mut all = ancestors(rank).skip_while(|of| failed.is_some_and(|failed| *of >= failed));
        let found = match to_any {
            true => all.find(|of| *of == 0 || self.is_in(*of)),
            false => all.next(),
        };
        // One that is not connected itself calls it later.
        let parent = found.filter(is_open).unwrap_or(0);
        let (sweep, generation) = (self.recipe.header.id.clone(), self.generation);
        match self.door_of(parent).filter(|_| parent != 0) {
            Some(at) => {
                if let Some(member) = self.members.get_mut(&rank) {
                    member.sent_to = Some(parent);
                }
                // Its connection to rank 0 ends when it goes there: that is no loss.
                self.parents.remove(&rank);
                self.say_to(rank, Down::Move { to: parent, at, sweep, generation });
                self.await_move(rank);
            }
            None if is_settled => {}
            None => {
                self.say_to(rank, Down::Welcome { sweep, generation });
                self.settle_at(rank, 0);
            }
        }
    }

    /// The children of a node that has its place: those that waited at rank 0 go there.
    pub(super) fn call_children(&mut self, rank: u32) {
        if rank == 0 {
            return;
        }
        for child in children(rank) {
            if self.parents.get(&child) == Some(&0) {
                self.place(child, false);
            }
        }
    }

    fn await_move(&mut self, rank: u32) {
        let until = self.now + Duration::from_secs_f64(self.recipe.limits.grace_s);
        self.look_at(until);
        if let Some(member) = self.members.get_mut(&rank) {
            member.state = State::Awaited(until);
        }
    }
}

/// Why a node cannot be one of the sweep, whatever else it does.
fn unfit(hello: &Hello, header: &Header) -> Option<String> {
    if hello.plumb != header.plumb {
        return Some(format!(
            "it has plumb {}, rank 0 has {}: install the same version on all nodes",
            hello.plumb, header.plumb
        ));
    }
    if hello.size != header.size || hello.rank >= header.size {
        return Some(format!(
            "it is rank {} of {} nodes, the sweep has {}: start all nodes with the same size",
            hello.rank, hello.size, header.size
        ));
    }
    let why = match (hello.simulated, header.simulated) {
        (true, false) => "its figures are drawn (--figures), those of the sweep are measured",
        (false, true) => "its figures are measured, those of the sweep are drawn (--figures)",
        _ if !is_short(hello) => "its description is too long",
        _ => return None,
    };
    Some(why.to_owned())
}

fn is_short(hello: &Hello) -> bool {
    let properties = [&hello.stratum, &hello.labels];
    let texts =
        properties.iter().flat_map(|all| all.iter()).flat_map(|(name, value)| [name, value]);
    properties.iter().all(|all| all.len() <= PROPERTIES_MAX)
        && texts.chain([&hello.name, &hello.machine]).all(|text| text.chars().count() <= TEXT_MAX)
}

/// A time in whole seconds.
fn duration(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds as u64)).to_string()
}
