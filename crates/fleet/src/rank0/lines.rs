//! The connections of rank 0, and over which of them each node is reached.

use super::{Act, Rank0};
use crate::relay::Link;
use crate::tree::Routes;
use crate::wire::{Addressed, Down, Message, Numbered, Order, Report, Up};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The connections, and what waits until everything else is done.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Those of nodes that take part.
    links: BTreeMap<u32, Link>,
    routes: Routes<Link>,
    outbox: BTreeMap<Link, Vec<Addressed>>,
    /// Orders for rank 0 itself.
    own: VecDeque<(u64, Order)>,
}

impl Lines {
    fn rank(&self, link: Link) -> Option<u32> {
        self.links.iter().find(|(_, own)| **own == link).map(|(rank, _)| *rank)
    }

    fn forget(&mut self, link: Link) {
        self.routes.forget(link);
        self.outbox.remove(&link);
    }

    /// What to say last: all messages over one connection together.
    pub fn take(&mut self) -> Option<Act> {
        let own = self.own.pop_front().map(|(id, order)| Act::Start(id, order));
        own.or_else(|| {
            let (link, all) = self.outbox.pop_first()?;
            Some(Act::Down(link, Down::Orders(all)))
        })
    }
}

impl Rank0 {
    /// Connections of nodes that take part.
    pub fn connections(&self) -> usize {
        self.lines.links.len()
    }

    /// A connection says something.
    pub fn heard(&mut self, link: Link, up: Up, now: Duration) {
        match up {
            // Before it takes part it has nothing to say.
            _ if self.lines.rank(link).is_none() => self.acts.push_back(Act::Close(link)),
            Up::Attached { rank, to } => {
                self.lines.routes.learn(rank, link);
                self.attached(rank, to, now);
            }
            Up::Detached { rank, from } => self.detached(rank, from, now),
            Up::Reports(reports) => {
                reports.into_iter().for_each(|report| self.report(report, now));
            }
            Up::Hello(_) | Up::Pong { .. } => {}
        }
    }

    /// Rank 0 itself has something to report.
    pub fn own_report(&mut self, report: Report, now: Duration) {
        let number = self.members.get(&0).map_or(0, |member| member.reported) + 1;
        self.report(Numbered { from: 0, number, report }, now);
    }

    /// A connection ended.
    pub fn closed(&mut self, link: Link, now: Duration) {
        self.lines.forget(link);
        if let Some(rank) = self.lines.rank(link) {
            self.lines.links.remove(&rank);
            self.detached(rank, 0, now);
        }
    }

    /// A node has this connection, in place of one that it had before.
    pub(super) fn connect(&mut self, rank: u32, link: Link) {
        if let Some(old) = self.lines.links.insert(rank, link) {
            self.lines.forget(old);
            self.acts.push_back(Act::Close(old));
        }
        self.lines.routes.learn(rank, link);
    }

    /// Says something to a node that is connected here; after a move it is no more.
    pub(super) fn say_to(&mut self, rank: u32, down: Down) {
        let Some(link) = self.lines.links.get(&rank).copied() else { return };
        let moves = matches!(down, Down::Move { .. });
        self.acts.push_back(Act::Down(link, down));
        if moves {
            // What it hears from now on comes over its parent.
            self.lines.links.remove(&rank);
            self.lines.forget(link);
            self.acts.push_back(Act::Close(link));
        }
    }

    /// A message for a node, over whichever connection reaches it.
    pub(super) fn send(&mut self, to: u32, message: Message) {
        match (to, message, self.lines.routes.to(to)) {
            (0, Message::Order { id, order }, _) => self.lines.own.push_back((id, order)),
            (_, message, Some(link)) => {
                self.lines.outbox.entry(link).or_default().push(Addressed { to, message });
            }
            _ => {}
        }
    }
}
