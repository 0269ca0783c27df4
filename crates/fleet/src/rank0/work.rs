//! The steps of the phases: which jobs run, what their nodes are to do, and what became of them.

use super::members::State;
use super::{Act, Course, Rank0};
use crate::model::Known;
use crate::recipe::{Job, Step};
use crate::sweep::{Absent, Event, Figure, Node, Pair, Stage};
use crate::wire::{OneTime, Order, Report};
use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Why a job failed whose node said something else.
pub(super) const UNFIT: &str = "its report does not answer its order";
/// Longer than any sweep.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// The steps that are left, and the jobs of the one that runs.
#[derive(Debug, Default)]
pub(super) struct Work {
    steps: VecDeque<Step>,
    /// The step that runs.
    pub number: u32,
    pub live: BTreeMap<u32, Live>,
    /// Jobs whose far end makes itself ready, and those whose far end is ready.
    pub listening: usize,
    pub ready: Vec<u32>,
    /// What a gathering has measured, until its last sender is done.
    held: Vec<(Job, Vec<Figure>)>,
    next_job: u32,
    last_id: u64,
    /// Steps that began, over all phases.
    begun: u32,
    /// Looks at the suspects that began.
    looks: u32,
}

/// A job that runs.
#[derive(Debug)]
pub(super) struct Live {
    pub job: Job,
    pub doing: Doing,
    /// A node that has not answered by then is lost.
    pub deadline: Duration,
}

/// How far a job is.
#[derive(Debug)]
pub(super) enum Doing {
    /// The node works.
    Works,
    /// The far end makes itself ready.
    Listens,
    /// It is, and the others of the step are not yet.
    Ready(SocketAddr, OneTime),
    /// The near end measures.
    Reaches,
}

impl Work {
    /// The number of the next order.
    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Steps that began, over all phases.
    pub fn steps_begun(&self) -> u32 {
        self.begun
    }

    /// A job begins.
    pub fn begins(&mut self, job: Job, doing: Doing, deadline: Duration) -> u32 {
        self.next_job += 1;
        self.listening += usize::from(matches!(doing, Doing::Listens));
        self.live.insert(self.next_job, Live { job, doing, deadline });
        self.next_job
    }

    /// Whether a job that runs needs a node.
    fn needs(&self, rank: u32) -> bool {
        self.live.values().any(|live| live.job.ranks().contains(&rank))
    }

    fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// When the first job is late.
    pub fn deadline(&self) -> Option<Duration> {
        self.live.values().map(|live| live.deadline).min()
    }
}

impl Rank0 {
    /// A phase begins.
    pub(super) fn begin(&mut self, stage: Stage, steps: Vec<Step>) {
        self.phase(stage, false);
        self.course = Course::Works(stage);
        self.work.steps = steps.into();
    }

    /// Selects the next suspects to measure again.
    fn doubt(&mut self) {
        // What was measured so far is on disk before anything is concluded from it.
        let known = Known { looks: self.work.looks, steps: self.work.begun };
        self.acts.extend([Act::Sync, Act::Doubt(known)]);
        self.course = Course::Doubts;
    }

    /// A look at the suspects begins.
    pub(super) fn look_at_suspects(&mut self, steps: Vec<Step>) {
        self.work.looks += 1;
        self.work.steps = steps.into();
        self.course = Course::Works(Stage::Suspects);
    }

    /// All suspects are settled, as far as they can be.
    pub(super) fn end_suspects(&mut self) {
        self.phase(Stage::Suspects, true);
        let present = self.members.iter().filter(|(_, of)| of.state != State::Lost);
        let jobs = present.map(|(rank, _)| Job::Gather { rank: *rank }).collect();
        let step = Step { number: self.work.begun, phase: Stage::Gather, jobs };
        self.begin(Stage::Gather, vec![step]);
    }

    /// Begins what can begin now: steps, near ends, phases.
    pub(super) fn advance(&mut self) {
        loop {
            self.reach_when_all_listen();
            let Course::Works(stage) = self.course else { return };
            if !self.work.is_idle() {
                return;
            }
            for (job, figures) in std::mem::take(&mut self.work.held) {
                self.write_pair(&job, figures);
            }
            match self.work.steps.pop_front() {
                Some(step) => self.begin_step(step),
                None => self.next_phase(stage),
            }
        }
    }

    fn next_phase(&mut self, over: Stage) {
        if !matches!(over, Stage::Meet | Stage::Suspects) {
            self.phase(over, true);
        }
        match over {
            Stage::Meet => {
                let steps = self.recipe.alone();
                self.begin(Stage::Alone, steps);
            }
            Stage::Alone => {
                let may_pair = |one, other| self.may_pair(one, other);
                let cut = self.cut();
                let group = |rank| self.label(rank, cut).unwrap_or_default().to_owned();
                let steps = self.recipe.pairs(&may_pair, &group);
                self.begin(Stage::Pairs, steps);
            }
            Stage::Pairs => {
                self.phase(Stage::Suspects, false);
                self.doubt();
            }
            Stage::Suspects => self.doubt(),
            Stage::Gather => {
                self.leave(None);
                self.end(false);
            }
        }
    }

    fn begin_step(&mut self, step: Step) {
        self.work.number = step.number;
        if matches!(step.phase, Stage::Pairs | Stage::Suspects) {
            self.work.begun = self.work.begun.max(step.number + 1);
        }
        let mut by_far_end: BTreeMap<u32, Vec<Job>> = BTreeMap::new();
        for job in step.jobs {
            if self.is_done(&job) {
                continue;
            }
            match (job.ranks().into_iter().find(|rank| !self.is_in(*rank)), &job) {
                (Some(lost), _) => self.skip(&job, lost),
                (None, Job::Pair { to, .. }) => by_far_end.entry(*to).or_default().push(job),
                (None, Job::Alone { .. } | Job::Gather { .. }) => self.begin_job(job),
            }
        }
        for (to, jobs) in by_far_end {
            self.begin_pairs(to, jobs);
        }
    }

    /// Whether an earlier part of the sweep did it.
    fn is_done(&self, job: &Job) -> bool {
        match job {
            Job::Alone { rank, again: 0, .. } => self.done.records.contains_key(rank),
            Job::Alone { rank, again, .. } => self.done.again.contains(&(*rank, *again)),
            // A gathering is measured as a whole.
            Job::Pair { .. } if job.is_gathering() => {
                self.done.pairs.iter().any(|(step, ..)| *step == self.work.number)
            }
            Job::Pair { from, to, .. } => self.done.pairs.contains(&(self.work.number, *from, *to)),
            Job::Gather { .. } => false,
        }
    }

    /// A job is left out for a node that is not there.
    fn skip(&mut self, job: &Job, lost: u32) {
        // Its own absence is in the record.
        if let Job::Pair { .. } = job {
            let why = format!("{} takes no part", self.name(lost));
            self.give_up(job, why);
        }
    }

    fn begin_job(&mut self, job: Job) {
        let limits = self.recipe.limits;
        let header = &self.recipe.header;
        let (rank, order, within_s) = match &job {
            Job::Alone { rank, again, experiments } => {
                let within_s = limits.alone_s * self.turns(*rank);
                let selectors = match again {
                    0 => header.selectors.clone(),
                    _ => experiments.clone(),
                };
                let (preset, again) = (header.preset.clone(), *again);
                let order = Order::Alone { preset, selectors, again, within_s };
                (*rank, order, within_s)
            }
            Job::Gather { rank } => (*rank, Order::Gather, 0.0),
            Job::Pair { .. } => return,
        };
        let deadline = self.deadline_after(within_s);
        let number = self.work.begins(job, Doing::Works, deadline);
        self.order(rank, order, vec![number]);
    }

    /// A node gives an order up by itself; it is lost if it does not even report that.
    pub(super) fn deadline_after(&mut self, within_s: f64) -> Duration {
        let slack_s = self.recipe.limits.gather_s + self.recipe.limits.grace_s;
        let deadline =
            self.now + Duration::try_from_secs_f64(within_s + slack_s).unwrap_or(FOREVER);
        self.look_at(deadline);
        deadline
    }

    /// How many nodes are on a node's machine: they measure in turns.
    pub(super) fn turns(&self, rank: u32) -> f64 {
        let machine = self.members.get(&rank).map(|member| &member.hello.machine);
        machine.and_then(|machine| self.machines.get(machine)).copied().unwrap_or(1).into()
    }

    /// What a node reports of its job.
    pub(super) fn take_report(&mut self, from: u32, report: Report) {
        let order = match &report {
            Report::Leaves { why } => return self.lose(from, &why.clone()),
            Report::Alone { order, .. }
            | Report::Listening { order, .. }
            | Report::Pair { order, .. }
            | Report::Gathered { order }
            | Report::Failed { order, .. } => *order,
        };
        // What was given up meanwhile is not counted.
        let Some(member) = self.members.get_mut(&from) else { return };
        let Some(given) = member.order.take_if(|given| given.id == order) else { return };
        let jobs = given.jobs.clone();
        if matches!(report, Report::Listening { .. }) {
            member.order = Some(given);
        }
        match (report, &jobs[..]) {
            (Report::Listening { doors, .. }, _) => self.listens(&jobs, from, doors),
            (Report::Failed { why, .. }, _) => {
                jobs.iter().for_each(|number| self.fail(*number, from, &why));
            }
            (report, [number]) => self.take_work(*number, from, report),
            _ => jobs.iter().for_each(|number| self.fail(*number, from, UNFIT)),
        }
    }

    /// A node did its part of a job.
    fn take_work(&mut self, number: u32, from: u32, report: Report) {
        let Some(live) = self.work.live.get(&number) else { return };
        match (report, &live.job) {
            (Report::Alone { figures, absent, record, .. }, Job::Alone { again, .. }) => {
                let again = *again;
                self.finish(number);
                self.write_alone(from, again, figures, absent, record);
            }
            (Report::Pair { figures, .. }, Job::Pair { from: near, .. }) if *near == from => {
                match self.finish(number).map(|live| live.job) {
                    Some(job) if job.is_gathering() => self.work.held.push((job, figures)),
                    Some(job) => self.write_pair(&job, figures),
                    None => {}
                }
            }
            (Report::Gathered { .. }, Job::Gather { .. }) => drop(self.finish(number)),
            _ => self.fail(number, from, UNFIT),
        }
    }

    /// Ends a job; the far end of a pair rests.
    fn finish(&mut self, number: u32) -> Option<Live> {
        let live = self.work.live.remove(&number)?;
        self.work.listening -= usize::from(matches!(live.doing, Doing::Listens));
        for rank in live.job.ranks() {
            let order = self.members.get_mut(&rank).and_then(|member| member.order.as_mut());
            let Some(given) = order else { continue };
            given.jobs.retain(|job| *job != number);
            // The receiver of a gathering waits for its last sender.
            let is_needed = live.job.is_gathering() && self.work.needs(rank);
            if matches!(live.job, Job::Pair { .. }) && !is_needed {
                self.order(rank, Order::Rest, Vec::new());
            }
        }
        Some(live)
    }

    fn write_alone(
        &mut self,
        rank: u32,
        again: u32,
        figures: Vec<Figure>,
        absent: Vec<(String, String)>,
        record: String,
    ) {
        for figure in figures {
            self.write(Event::Figure(Figure { rank, again, ..figure }));
        }
        let phase = self.stage();
        for (experiment, why) in absent {
            let absent = Absent::new(rank, phase, why);
            self.write(Event::Absent(Absent { experiment: Some(experiment), ..absent }));
        }
        if again > 0 {
            return;
        }
        let Some(member) = self.members.get(&rank) else { return };
        // The set is whole once its node's record is named.
        let (hello, clock) = (member.hello.clone(), member.clock);
        self.done.records.insert(rank, record.clone());
        self.write(Event::Node(Node::of(hello, clock, Some(record))));
    }

    fn write_pair(&mut self, job: &Job, figures: Vec<Figure>) {
        let Job::Pair { purpose, from, to, .. } = *job else { return };
        let step = self.work.number;
        if figures.is_empty() {
            return self.give_up(job, "no figure was measured".to_owned());
        }
        for figure in figures {
            let Figure { key, unit, better, estimate, predicted, .. } = figure;
            let pair = Pair { step, purpose, from, to, key, unit, better, estimate, predicted };
            self.write(Event::Pair(pair));
        }
    }

    /// A job failed at one of its nodes.
    pub(super) fn fail(&mut self, number: u32, at: u32, why: &str) {
        let Some(live) = self.finish(number) else { return };
        let why = match &live.job {
            Job::Alone { .. } | Job::Gather { .. } => why.to_owned(),
            Job::Pair { .. } => format!("at {}: {why}", self.name(at)),
        };
        self.give_up(&live.job, why);
    }

    /// What a job would have measured is missing.
    fn give_up(&mut self, job: &Job, why: String) {
        let (rank, to, step) = match *job {
            Job::Alone { rank, .. } => (rank, None, None),
            Job::Pair { from, to, .. } => (from, Some(to), Some(self.work.number)),
            Job::Gather { .. } => return,
        };
        let absent = Absent::new(rank, self.stage(), why);
        self.write(Event::Absent(Absent { to, step, ..absent }));
    }

    /// A node is lost: what it was doing with others has failed.
    pub(super) fn fail_jobs_of(&mut self, rank: u32, why: &str) {
        let live = self.work.live.iter().map(|(number, live)| (*number, live.job.ranks()));
        let own: Vec<_> = live.filter(|(_, ranks)| ranks.contains(&rank)).collect();
        for (number, ranks) in own {
            match ranks.len() {
                // Its own absence is in the record.
                1 => drop(self.finish(number)),
                _ => self.fail(number, rank, why),
            }
        }
    }

    /// Nodes that neither did what they were to do nor said why not are lost.
    pub(super) fn give_up_late(&mut self) {
        let late = self.work.live.values().filter(|live| self.now >= live.deadline);
        let silent: BTreeSet<u32> = late
            .map(|live| match (&live.job, &live.doing) {
                (Job::Alone { rank, .. } | Job::Gather { rank }, _) => *rank,
                (Job::Pair { to, .. }, Doing::Listens) => *to,
                (Job::Pair { from, .. }, _) => *from,
            })
            .gather();
        for rank in silent {
            self.lose(rank, "it did not answer in time");
        }
    }
}
