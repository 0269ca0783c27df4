//! What rank 0 decides: who takes part, what each node does next, what goes into the record. A pure
//! state machine: messages and times go in, orders and events come out, so that a test can lose a
//! node at every message.

mod door;
mod lines;
mod members;
mod pairs;
mod work;

use crate::model::{Known, Suspects};
use crate::read::Sweep;
use crate::recipe::Recipe;
use crate::relay::Link;
use crate::sweep::{Absent, End, Event, Node, Phase, Purpose, Stage};
use crate::wire::{Down, Hello, Message, Numbered, Order};
pub use door::Admission;
use lines::Lines;
use members::{Given, Member, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use work::Work;

/// How often rank 0 looks where nothing can be late.
const LOOK: Duration = Duration::from_secs(60);

/// What rank 0 is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A line of the record.
    Write(Event),
    /// What was written reaches the disk.
    Sync,
    /// A message over a connection.
    Down(Link, Down),
    /// A connection ends.
    Close(Link),
    /// Rank 0 itself executes an order, in place of what runs.
    Start(u64, Order),
    /// A line for the user.
    Say(String),
    /// The sweep needs the list of suspects: [`Rank0::suspects`] answers.
    Doubt(Known),
    /// The sweep is over.
    Over,
}

/// The clock of a node, as rank 0 found it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// Its wall clock minus that of rank 0, in seconds.
    pub offset_s: f64,
    /// Smallest round trip, in seconds.
    pub round_trip_s: f64,
}

/// Where the sweep is.
#[derive(Debug)]
enum Course {
    /// Nodes join until this time.
    Meets(Duration),
    /// Steps of a phase.
    Works(Stage),
    /// The list of suspects is not known yet.
    Doubts,
    /// Over.
    Over,
}

/// Rank 0's decisions. Times are those since the sweep began.
#[derive(Debug)]
pub struct Rank0 {
    recipe: Recipe,
    /// Drawn when the process started.
    generation: u64,
    members: BTreeMap<u32, Member>,
    lines: Lines,
    /// The parents that nodes have now.
    parents: BTreeMap<u32, u32>,
    /// Ranks that were refused while nodes join, whose absence is in the record.
    refused: BTreeSet<u32>,
    /// How many nodes are on each machine.
    machines: BTreeMap<String, u32>,
    /// The time of what happens now.
    now: Duration,
    /// Nothing is late before.
    look_at: Duration,
    course: Course,
    work: Work,
    /// What an earlier part of the sweep has measured.
    done: Done,
    /// Time of the earlier parts.
    earlier: Duration,
    acts: VecDeque<Act>,
}

/// What is in the record already.
#[derive(Debug, Default)]
struct Done {
    records: BTreeMap<u32, String>,
    again: BTreeSet<(u32, u32)>,
    pairs: BTreeSet<(u32, u32, u32)>,
}

impl Done {
    fn of(sweep: &Sweep) -> Done {
        let records = sweep.nodes.iter();
        let figures = sweep.figures.iter().filter(|figure| figure.again > 0);
        let mut done = Done {
            records: records
                .filter_map(|(rank, node)| Some((*rank, node.record.clone()?)))
                .collect(),
            again: figures.map(|figure| (figure.rank, figure.again)).collect(),
            pairs: sweep.pairs.iter().map(|pair| (pair.step, pair.from, pair.to)).collect(),
        };
        // Rank 0 may have been killed in the middle of the last set.
        let has_ended = |phase| sweep.phases.iter().any(|of| of.phase == phase && of.ended);
        if !has_ended(Stage::Suspects) {
            if let Some(last) = sweep.figures.last() {
                done.again.remove(&(last.rank, last.again));
            }
            if let Some(last) = sweep.pairs.last()
                && (last.purpose == Purpose::Suspect || !has_ended(Stage::Pairs))
            {
                let is_gathering = last.purpose.is_gathering();
                done.pairs.retain(|(step, from, to)| {
                    *step != last.step || (!is_gathering && (*from, *to) != (last.from, last.to))
                });
            }
        }
        done
    }
}

impl Node {
    /// A node as it described itself.
    fn of(hello: Hello, clock: Clock, record: Option<String>) -> Node {
        Node {
            rank: hello.rank,
            name: hello.name,
            plumb: hello.plumb,
            stratum: hello.stratum,
            labels: hello.labels,
            address: hello.address.to_string(),
            record,
            clock_offset_s: clock.offset_s,
            round_trip_s: clock.round_trip_s,
        }
    }
}

impl Rank0 {
    /// The sweep begins; `generation` is drawn for the process, `earlier` what its record has, for
    /// one that goes on.
    pub fn new(recipe: Recipe, generation: u64, earlier: Option<&Sweep>) -> Rank0 {
        let until = Duration::from_secs_f64(recipe.limits.meet_s);
        let at = |sweep: &Sweep| sweep.phases.iter().map(|phase| phase.at_s).fold(0.0, f64::max);
        let mut rank0 = Rank0 {
            generation,
            members: BTreeMap::new(),
            lines: Lines::default(),
            parents: BTreeMap::new(),
            refused: BTreeSet::new(),
            machines: BTreeMap::new(),
            now: Duration::ZERO,
            look_at: until,
            course: Course::Meets(until),
            work: Work::default(),
            done: earlier.map(Done::of).unwrap_or_default(),
            earlier: Duration::try_from_secs_f64(earlier.map_or(0.0, at)).unwrap_or_default(),
            acts: VecDeque::new(),
            recipe,
        };
        if earlier.is_none() {
            rank0.acts.push_back(Act::Write(Event::Header(rank0.recipe.header.clone())));
        }
        rank0.phase(Stage::Meet, false);
        rank0
    }

    /// What there is to do now.
    pub fn take(&mut self) -> Option<Act> {
        self.acts.pop_front().or_else(|| self.lines.take())
    }

    /// Whether the sweep is over.
    pub fn is_over(&self) -> bool {
        matches!(self.course, Course::Over)
    }

    /// When [`Rank0::tick`] is due, if nothing arrives before.
    pub fn wake_at(&self) -> Duration {
        self.look_at
    }

    /// Something is late at this time.
    fn look_at(&mut self, deadline: Duration) {
        self.look_at = self.look_at.min(deadline);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        if self.is_over() {
            return;
        }
        if now >= self.look_at {
            self.give_up_awaited();
            self.give_up_late();
            self.look_again();
        }
        if let Course::Meets(until) = self.course
            && (now >= until || self.has_met())
        {
            self.end_meeting();
        }
        self.advance();
    }

    fn look_again(&mut self) {
        let awaited = self.members.values().filter_map(Member::awaited_until);
        let meets = match self.course {
            Course::Meets(until) => Some(until),
            _ => None,
        };
        let next = awaited.chain(meets).chain(self.work.deadline()).min();
        self.look_at = next.unwrap_or(self.now + LOOK);
    }

    /// Something came up the tree, or from this node itself.
    fn report(&mut self, report: Numbered, now: Duration) {
        self.now = now;
        let Numbered { from, number, report } = report;
        let Some(member) = self.members.get_mut(&from) else { return };
        let is_new = number > member.reported;
        member.reported = number.max(member.reported);
        if is_new && member.state != State::Lost {
            self.take_report(from, report);
        }
        // Whatever becomes of its report: a node that repeats it would gain nothing.
        self.send(from, Message::Written { number });
        self.tick(now);
    }

    /// What the next look at the suspects needs, after [`Act::Doubt`]; the phase ends with nothing.
    pub fn suspects(&mut self, suspects: &Suspects, now: Duration) {
        self.now = now;
        if !matches!(self.course, Course::Doubts) {
            return;
        }
        let steps = self.recipe.suspects(suspects, self.work.steps_begun());
        match steps.is_empty() {
            true => self.end_suspects(),
            false => self.look_at_suspects(steps),
        }
        self.tick(now);
    }

    /// A signal: the sweep ends now, and can be resumed.
    pub fn stop(&mut self, now: Duration) {
        self.now = now;
        if !self.is_over() {
            self.leave(Some("the sweep was interrupted at rank 0".to_owned()));
            self.end(true);
        }
    }

    fn end(&mut self, interrupted: bool) {
        let wall_s = (self.earlier + self.now).as_secs_f64();
        self.write(Event::End(End { wall_s, interrupted }));
        self.acts.extend([Act::Sync, Act::Over]);
        self.course = Course::Over;
    }

    fn leave(&mut self, why: Option<String>) {
        let all: Vec<u32> = self.members.keys().copied().collect();
        for rank in all {
            self.order(rank, Order::Leave { why: why.clone() }, Vec::new());
        }
    }

    fn write(&mut self, event: Event) {
        self.acts.push_back(Act::Write(event));
    }

    fn say(&mut self, line: String) {
        self.acts.push_back(Act::Say(line));
    }

    fn phase(&mut self, phase: Stage, ended: bool) {
        let at_s = (self.earlier + self.now).as_secs_f64();
        self.write(Event::Phase(Phase { phase, ended, at_s }));
        if ended {
            self.acts.push_back(Act::Sync);
        }
    }

    fn absent(&mut self, rank: u32, phase: Stage, why: String, lost: bool) {
        self.write(Event::Absent(Absent { lost, ..Absent::new(rank, phase, why) }));
    }

    /// The phase that the sweep is in.
    fn stage(&self) -> Stage {
        match self.course {
            Course::Meets(_) => Stage::Meet,
            Course::Works(stage) => stage,
            Course::Doubts => Stage::Suspects,
            Course::Over => Stage::Gather,
        }
    }

    /// Gives a node something to do, which it does once, also where its connection breaks.
    fn order(&mut self, rank: u32, order: Order, jobs: Vec<u32>) {
        let id = self.work.next_id();
        let Some(member) = self.members.get_mut(&rank) else { return };
        member.order = Some(Given { id, order: order.clone(), jobs });
        self.send(rank, Message::Order { id, order });
    }

    /// Address at which a node's children find it.
    fn door_of(&self, rank: u32) -> Option<SocketAddr> {
        let hello: &Hello = &self.members.get(&rank)?.hello;
        Some(SocketAddr::new(hello.address, hello.port))
    }
}

#[cfg(test)]
mod tests;
