//! plumb's side beside those that move memory: cases of `memory.bandwidth` whose arrays have as
//! many bytes as the rival's.

use super::sides::case;
use super::{Conditions, MIB, Ours, Row, Statistic};
use bench::experiment::{Site, Skip};
use bench::fitted::Fitted;
use catalogue::{self, FAMILIES};
use record::case::Case;
use record::crosscheck::Goal;
use record::unit::Unit;
use session::params::Settings;
use session::plan::case_ns;
use std::collections::BTreeSet;

const ID: &str = "memory.bandwidth";
pub(super) const STREAM_OPS: [&str; 4] = ["copy", "scale", "add", "triad"];
/// Bytes of a walk in main memory; in a rehearsal less.
pub(super) const FAR: u64 = 128 * MIB;
pub(super) const FAR_REHEARSED: u64 = 4 * MIB;
/// CPUs of a comparison on all of them, at most: rivals' arrays are divided among them.
const TEAM_MOST: usize = 16;
/// Arrays of so many bytes together are compared as main memory's even where they are less than
/// four times the last cache: a virtual machine that is described hundreds of MiB has a part of
/// them (STREAM's best pass over 92 MiB was twice that over 275 MiB in one with 480 MiB).
pub(super) const MAIN_MEMORY_FROM: u64 = 256_000_000;
/// What `memory.bandwidth.limit` takes at least.
const LIMIT_LEAST: u64 = 1 << 20;

/// What is moved, and where: every byte by vectors, the widest
/// in caches and the fastest in main memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves<'a> {
    pub ops: &'a [&'static str],
    /// Into the caches or past them.
    pub stores: &'static str,
    pub level: &'static str,
    pub cpus: &'a [usize],
    /// Most bytes of one thread's arrays in main memory.
    pub limit: u64,
}

impl Moves<'_> {
    pub fn ours(&self, conditions: &Conditions) -> Ours {
        let threads = threads(self.cpus);
        let Moves { stores, level, .. } = self;
        let (ops, limit) = (self.ops.join(","), self.limit.max(LIMIT_LEAST));
        let set = format!(
            "op={ops} stores={stores} access=every width=vector level={level} threads={threads} limit={limit}"
        );
        conditions.ours(ID, &set).on(self.cpus).within(10)
    }

    /// Bytes of all threads' arrays together, as plumb's command takes them; the same for each of
    /// its cases.
    ///
    /// # Errors
    /// There is no such case on this machine: why.
    pub fn footprint(&self, conditions: &Conditions) -> Result<u64, Skip> {
        let cases = cases(conditions, &self.ours(conditions))?;
        let bytes = cases.first().and_then(|case| case.int("footprint_total"));
        bytes.ok_or_else(|| {
            let why = cases.first().and_then(|case| case.at.get("impossible")?.text());
            Skip::because(why.unwrap_or("the arrays have no size here"))
        })
    }

    /// The goal beside a rival that passes over the same arrays again and again: at least as much,
    /// where these lie in main memory; where the last cache may hold them the rival finds them
    /// there, and plumb, which writes them past the caches before each case, does not.
    pub fn goal_beside_passes(&self, conditions: &Conditions) -> Goal {
        let cases = cases(conditions, &self.ours(conditions)).unwrap_or_default();
        let is_small = |case: &Case| {
            let bytes = case.int("footprint_total").unwrap_or(0);
            case.at.contains_key("cut") && bytes < MAIN_MEMORY_FROM
        };
        match cases.iter().any(is_small) {
            true => Goal::Explained,
            false => Goal::AtLeast,
        }
    }

    pub fn rows(
        &self,
        what: impl Fn(&str) -> String,
        goal: Goal,
        difference: &'static str,
    ) -> Vec<Row> {
        let row = |op: &&'static str| Row {
            name: (*op).to_owned(),
            ..self.row(op, what(op), Statistic::Best, goal, difference)
        };
        self.ops.iter().map(row).collect()
    }

    pub fn row(
        &self,
        op: &'static str,
        what: impl Into<String>,
        statistic: Statistic,
        goal: Goal,
        difference: &'static str,
    ) -> Row {
        let case = case(&format!("op={op} stores={}", self.stores));
        Row { case, statistic, goal, ..Row::new("bandwidth", Unit::BPerS, what, difference) }
    }
}

/// Cases of plumb's command as it will resolve them: alone, it has no figures of others to go by.
pub(super) fn cases(conditions: &Conditions, ours: &Ours) -> Result<Vec<Case>, Skip> {
    let experiment = catalogue::find(ours.experiment)
        .ok_or_else(|| Skip::because(format!("plumb has no {}", ours.experiment)))?;
    let settings = Settings::parse(&ours.settings(), FAMILIES);
    let settings = settings.map_err(|bad| Skip::because(bad.0))?;
    let site = Site {
        host: conditions.host.clone(),
        peer: None,
        peers: Vec::new(),
        dir: None,
        cpus: ours.cpus.clone(),
        memory_bytes: conditions.memory_bytes,
        case_ns: case_ns(ours.preset),
        fitted: Fitted::committed(),
    };
    let offer = experiment.series(&site, &settings.params(experiment.card(), ours.preset))?;
    if let Some((_, skip)) = offer.skipped.into_iter().next() {
        return Err(skip);
    }
    let mut cases = Vec::new();
    for series in offer.series {
        cases.extend(experiment.resolve(&site, &Default::default(), series)?.cases);
    }
    Ok(cases)
}

/// plumb's name for a thread on each of these CPUs.
pub(super) fn threads(cpus: &[usize]) -> &'static str {
    if cpus.len() == 1 { "1" } else { "all" }
}

/// CPUs of a comparison on all of them: one of each core, in the order of the conditions.
pub(super) fn team(conditions: &Conditions) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    let mut team = Vec::new();
    for cpu in &conditions.cpus {
        let siblings = conditions.host.cpu.cpu(*cpu).map(|cpu| cpu.smt_siblings.as_slice());
        if !taken.contains(cpu) {
            team.push(*cpu);
        }
        taken.extend(siblings.unwrap_or_default().iter().copied());
    }
    team.truncate(TEAM_MOST);
    team
}

/// Environment of programs that take their arrays by malloc: in huge pages, as plumb's are, where
/// the kernel gives them only when asked (glibc 2.35 and later).
pub(super) fn huge_pages() -> (&'static str, String) {
    ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned())
}

#[cfg(test)]
pub(super) mod tests;
