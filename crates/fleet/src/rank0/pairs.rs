//! The pairs of a step: which nodes may meet, far ends that make themselves ready, and near ends that
//! begin together.

use super::Rank0;
use super::work::{Doing, Live, UNFIT};
use crate::recipe::Job;
use crate::sweep::Purpose;
use crate::wire::{OneTime, Order};
use record::order::Gather;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The label of the host of a node, where several nodes of a sweep may be on one.
pub const HOST: &str = "host";
/// Labels that say on which side of a cut a node is.
const CUTS: [&str; 3] = ["rack", "switch", "zone"];

impl Rank0 {
    /// Two nodes on one host are not paired where the site says which host that is.
    pub(super) fn may_pair(&self, one: u32, other: u32) -> bool {
        let host = |rank| self.label(rank, HOST);
        host(one).is_none_or(|host_of_one| host(other) != Some(host_of_one))
    }

    pub(super) fn label(&self, rank: u32, name: &str) -> Option<&str> {
        self.members.get(&rank)?.hello.labels.get(name).map(String::as_str)
    }

    /// The first of [`CUTS`] in which nodes differ.
    pub(super) fn cut(&self) -> &'static str {
        let values = |name: &str| -> BTreeSet<Option<&str>> {
            self.members.keys().map(|rank| self.label(*rank, name)).gather()
        };
        CUTS.into_iter().find(|name| values(name).len() > 1).unwrap_or(CUTS[0])
    }

    /// Pairs with one far end begin: it makes itself ready for all of them.
    pub(super) fn begin_pairs(&mut self, to: u32, jobs: Vec<Job>) {
        let gather_s = self.recipe.limits.gather_s;
        let ends = jobs.iter().flat_map(Job::ranks);
        let within_s = 2.0 * ends.map(|rank| self.pair_s(rank, to)).fold(0.0, f64::max) + gather_s;
        let (step, nears) = (self.work.number, jobs.len() as u32);
        let deadline = self.deadline_after(gather_s);
        let begin = |job| self.work.begins(job, Doing::Listens, deadline);
        let numbers: Vec<u32> = jobs.into_iter().map(begin).collect();
        self.order(to, Order::Listen { step, nears, within_s }, numbers);
    }

    /// The time of a pair, with the turns of its nodes.
    fn pair_s(&self, from: u32, to: u32) -> f64 {
        self.recipe.limits.pair_s * self.turns(from).max(self.turns(to))
    }

    /// The near ends of a step begin together, once every far end listens or was given up.
    pub(super) fn reach_when_all_listen(&mut self) {
        if self.work.listening > 0 || self.work.ready.is_empty() {
            return;
        }
        for number in std::mem::take(&mut self.work.ready) {
            let Some(job) = self.work.live.get(&number).map(|live| &live.job) else { continue };
            let Job::Pair { purpose, from, to: far } = *job else { continue };
            let within_s = self.pair_s(from, far);
            let deadline = self.deadline_after(within_s);
            let Some(live) = self.work.live.get_mut(&number) else { continue };
            live.deadline = deadline;
            let before = std::mem::replace(&mut live.doing, Doing::Reaches);
            let Doing::Ready(at, key) = before else { continue };
            let step = self.work.number;
            let preset = self.recipe.pair_preset().to_owned();
            let selectors = self.recipe.pair_selectors(purpose);
            let id = &self.recipe.header.id;
            let token = purpose.is_gathering().then(|| format!("{id} step {step}"));
            let pulls = purpose == Purpose::Outcast;
            let order =
                Order::Reach { step, far, at, key, token, preset, selectors, pulls, within_s };
            self.order(from, order, vec![number]);
        }
    }

    /// A far end is ready for its near ends.
    pub(super) fn listens(&mut self, jobs: &[u32], at: u32, doors: Vec<(SocketAddr, OneTime)>) {
        let mut doors = doors.into_iter();
        for number in jobs {
            let listens = |live: &&mut Live| {
                matches!(live.doing, Doing::Listens)
                    && matches!(live.job, Job::Pair { to, .. } if to == at)
            };
            let Some(live) = self.work.live.get_mut(number).filter(listens) else { continue };
            match doors.next() {
                Some((at, key)) => {
                    live.doing = Doing::Ready(at, key);
                    self.work.listening -= 1;
                    self.work.ready.push(*number);
                }
                None => self.fail(*number, at, UNFIT),
            }
        }
    }
}
