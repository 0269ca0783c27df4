//! Takes nodes that a sweep accuses out of service, on request: `scontrol update … state=drain`.

use super::job::said;
use crate::cmd::{Failure, output, usage};
use fleet::book;
use fleet::model::{At, Charge, Verdict, judge};
use fleet::read::Sweep;
use record::metric::Better;
use std::collections::BTreeMap;
use std::path::Path;

/// A node that is taken out of service, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Drained {
    node: String,
    reason: String,
}

impl Drained {
    fn arguments(&self) -> [String; 4] {
        [
            "update".to_owned(),
            format!("nodename={}", self.node),
            "state=drain".to_owned(),
            format!("reason={}", self.reason),
        ]
    }
}

/// Shows what is to be drained, and does it where the user agrees. Errors: the record cannot be
/// read, is of no sweep of Slurm's, or Slurm refuses.
pub fn drain(record: &Path, agreed: bool) -> Result<(), Failure> {
    let sweep = book::open(record).map_err(usage)?;
    let starter = &sweep.header.starter;
    if starter != "slurm" {
        return Err(Failure::Usage(format!(
            "the sweep of {} was not started by Slurm ({starter}), so its nodes may have other names \
             there",
            record.display()
        )));
    }
    let all = drained(&sweep);
    if all.is_empty() {
        output::diagnose("plumb: no node is confirmed to be slower or unstable; none is drained");
        return Ok(());
    }
    output::diagnose("plumb: this takes nodes out of service; running jobs on them end first:");
    for one in &all {
        output::diagnose(&format!(
            "  scontrol update nodename={} state=drain reason=\"{}\"",
            one.node, one.reason
        ));
    }
    let is_agreed = match agreed {
        true => Some(true),
        false => output::asked("Drain them?")?,
    };
    if is_agreed.is_none() {
        output::diagnose("plumb: there is no terminal to ask at; type --yes as well to drain them");
    }
    if is_agreed != Some(true) {
        output::diagnose("plumb: nothing was drained");
        return Ok(());
    }
    for one in &all {
        let arguments = one.arguments();
        said("scontrol", &arguments.each_ref().map(String::as_str))?;
        output::diagnose(&format!(
            "plumb: {} drains; `scontrol update nodename={} state=resume` ends it",
            one.node, one.node
        ));
    }
    Ok(())
}

/// The nodes that are confirmed to be worse than their peers, each with its worst figure. A link that
/// is degraded accuses no node.
fn drained(sweep: &Sweep) -> Vec<Drained> {
    let mut worst: BTreeMap<u32, Verdict> = BTreeMap::new();
    for verdict in judge(sweep).verdicts {
        let At::Node(rank) = verdict.at else { continue };
        let is_confirmed = matches!(verdict.charge, Charge::Slower | Charge::Unstable);
        if is_confirmed && worst.get(&rank).is_none_or(|other| other.factor < verdict.factor) {
            worst.insert(rank, verdict);
        }
    }
    let named = worst.into_iter().filter_map(|(rank, verdict)| {
        let node = sweep.nodes.get(&rank)?.name.clone();
        Some(Drained { node, reason: reason(&verdict) })
    });
    named.collect()
}

/// In a line that Slurm keeps with the node.
fn reason(verdict: &Verdict) -> String {
    let figure = &verdict.subject.key.experiment;
    if verdict.subject.is_scatter {
        return format!(
            "plumb: {figure} scatters {:.1} times as much as that of peers",
            verdict.factor
        );
    }
    let ratio = match verdict.subject.better {
        Better::Higher => 1.0 / verdict.factor,
        Better::Lower | Better::None => verdict.factor,
    };
    format!("plumb: {figure} {ratio:.2} of peers")
}
