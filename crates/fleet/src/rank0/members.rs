//! The nodes of a sweep as rank 0 knows them: present, awaited, lost.

use super::{Clock, Course, Rank0};
use crate::sweep::Stage;
use crate::tree::below;
use crate::wire::{Hello, Message, Order};
use std::time::Duration;

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is connected.
    Here,
    /// Its connection ended; it may come back until this time.
    Awaited(Duration),
    /// It takes no part in what follows.
    Lost,
}

/// A node.
#[derive(Debug)]
pub(super) struct Member {
    /// What it said of itself.
    pub hello: Hello,
    pub clock: Clock,
    pub state: State,
    /// Highest number of its reports.
    pub reported: u64,
    /// What it does now.
    pub order: Option<Given>,
    /// The parent that it was sent to and has not reached.
    pub sent_to: Option<u32>,
}

/// An order that a node has.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub id: u64,
    pub order: Order,
    /// The jobs that it belongs to: several, that of a far end with several near ends.
    pub jobs: Vec<u32>,
}

impl Member {
    pub fn new(hello: Hello, clock: Clock) -> Member {
        Member { hello, clock, state: State::Here, reported: 0, order: None, sent_to: None }
    }

    pub fn awaited_until(&self) -> Option<Duration> {
        match self.state {
            State::Awaited(until) => Some(until),
            State::Here | State::Lost => None,
        }
    }
}

impl Rank0 {
    /// Whether a node takes part, or may again.
    pub(super) fn is_in(&self, rank: u32) -> bool {
        self.members.get(&rank).is_some_and(|member| member.state != State::Lost)
    }

    /// How a node is named in a sentence.
    pub(super) fn name(&self, rank: u32) -> String {
        match self.members.get(&rank) {
            Some(member) => format!("node {rank} ({})", member.hello.name),
            None => format!("node {rank}"),
        }
    }

    /// A node is connected to `to`.
    pub(super) fn attached(&mut self, rank: u32, to: u32, now: Duration) {
        self.now = now;
        self.settle_at(rank, to);
        self.tick(now);
    }

    /// A node has its place; what it does now is said to it again, in case it did not hear it.
    pub(super) fn settle_at(&mut self, rank: u32, parent: u32) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        if member.state == State::Lost {
            return;
        }
        member.state = State::Here;
        member.sent_to = None;
        self.parents.insert(rank, parent);
        if let Some(Given { id, order, .. }) = member.order.clone() {
            self.send(rank, Message::Order { id, order });
        }
        self.call_children(rank);
    }

    /// The connection between a node and its parent ended: it and all nodes below it may come back.
    pub(super) fn detached(&mut self, rank: u32, from: u32, now: Duration) {
        self.now = now;
        if self.parents.get(&rank) != Some(&from) {
            return;
        }
        let mut gone = below(&self.parents, rank);
        gone.insert(rank);
        let until = now + Duration::from_secs_f64(self.recipe.limits.grace_s);
        self.look_at(until);
        for rank in gone {
            self.parents.remove(&rank);
            if let Some(member) = self.members.get_mut(&rank)
                && member.state == State::Here
            {
                member.state = State::Awaited(until);
            }
        }
        self.tick(now);
    }

    /// Those that did not come back in time are lost.
    pub(super) fn give_up_awaited(&mut self) {
        let now = self.now;
        let over = |member: &Member| member.awaited_until().is_some_and(|at| now >= at);
        let late: Vec<u32> =
            self.members.iter().filter(|(_, of)| over(of)).map(|(rank, _)| *rank).collect();
        let grace_s = self.recipe.limits.grace_s;
        for rank in late {
            let why = format!("its connection ended, and it did not come back within {grace_s} s");
            self.lose(rank, &why);
        }
    }

    /// A node takes no part any more.
    pub(super) fn lose(&mut self, rank: u32, why: &str) {
        let Some(member) = self.members.get_mut(&rank).filter(|of| of.state != State::Lost) else {
            return;
        };
        member.state = State::Lost;
        member.order = None;
        self.parents.remove(&rank);
        let line = format!("{} is lost: {why}", self.name(rank));
        self.say(line);
        let stage = self.stage();
        self.absent(rank, stage, why.to_owned(), true);
        // One that only did not answer learns that the sweep goes on without it.
        let order = Order::Leave { why: Some(format!("rank 0 gave this node up: {why}")) };
        let id = self.work.next_id();
        self.send(rank, Message::Order { id, order });
        self.fail_jobs_of(rank, why);
    }

    /// Whether all nodes have joined.
    pub(super) fn has_met(&self) -> bool {
        self.members.len() == self.recipe.header.size as usize
    }

    /// Nodes that did not join are listed, and the sweep goes on without them.
    pub(super) fn end_meeting(&mut self) {
        let meet_s = self.recipe.limits.meet_s;
        let missing: Vec<u32> = (0..self.recipe.header.size)
            .filter(|rank| !self.members.contains_key(rank) && !self.refused.contains(rank))
            .collect();
        for rank in &missing {
            self.absent(*rank, Stage::Meet, format!("it did not join within {meet_s} s"), true);
        }
        if !missing.is_empty() {
            self.say(format!(
                "{} of {} nodes did not join within {meet_s} s: {}; the sweep goes on without them",
                missing.len(),
                self.recipe.header.size,
                ranks(&missing)
            ));
        }
        self.phase(Stage::Meet, true);
        self.course = Course::Works(Stage::Meet);
        // Those that waited at rank 0 for a parent that did not join.
        let at_root = self.parents.iter().filter(|(_, parent)| **parent == 0);
        let waiting: Vec<u32> = at_root.map(|(rank, _)| *rank).collect();
        for rank in waiting {
            self.place(rank, true);
        }
    }
}

/// Most ranks that a line lists.
const LISTED_MAX: usize = 20;

/// Ranks in a line, as ranges.
pub(super) fn ranks(all: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in all {
        match ranges.last_mut().filter(|(_, last)| *last + 1 == *rank) {
            Some((_, last)) => *last = *rank,
            None => ranges.push((*rank, *rank)),
        }
    }
    let shown = ranges.iter().take(LISTED_MAX).map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ranges.len() > LISTED_MAX {
        text.push_str(", …");
    }
    text
}
