//! The tables of sweeps over a fleet.

use super::run::object;
use super::{PARAMS, PARAMS_JSON, Table, Writer};
use super::{digest, flag, integer, json, real, text, time_of};
use fleet::read::Sweep;
use record::key::CaseId;
use serde_json::{Value, json};
use std::io::{self, Write};

/// A sweep.
pub const SWEEP: Table = Table {
    name: "sweep",
    about: "A sweep of plumb over a fleet",
    columns: &[
        text("id", "digest of name, seed and start: the same for every copy of the record")
            .required(),
        text("name", "name of the sweep").required(),
        time_of("started", "when it began"),
        text("outcome", "complete, interrupted or killed").required(),
        real("wall_s", "time that it took, in seconds"),
        integer("size", "nodes that were expected").required(),
        text("preset", "preset of the single-node phase").required(),
        json("selectors", "what was measured on single nodes; empty: all of the preset").required(),
        json("pair_selectors", "what was measured between nodes").required(),
        integer("steps", "number of matchings").required(),
        text("starter", "what started the nodes: slurm, kubernetes, mpi, ssh or options")
            .required(),
        text("plumb", "version of plumb at rank 0").required(),
        integer("bytes", "length of the record: of two states of a sweep the longer is the later")
            .required(),
        text("exported_by", "version of plumb that computed the verdicts from the record")
            .required(),
    ],
    key: &["id"],
    root: None,
    indexes: &[&["started"], &["name"]],
};

const SWEEP_ID: &str = "sweep.id";
const EXPERIMENT: &str = "experiment, for example net.bandwidth";

/// A node of a sweep.
pub const NODE: Table = Table {
    name: "node",
    about: "A node that joined a sweep",
    columns: &[
        text("sweep", SWEEP_ID).required(),
        integer("rank", "its number in the sweep, from 0").required(),
        text("name", "host name, as the engine calls it").required(),
        text("stratum", "digest of stratum_facts: nodes with the same one are peers").required(),
        json("stratum_facts", "what makes hardware identical, by name").required(),
        text("rack", "the label rack").at("/labels/rack"),
        text("instance_type", "the label instance_type").at("/labels/instance_type"),
        text("zone", "the label zone").at("/labels/zone"),
        text("switch", "the label switch").at("/labels/switch"),
        json("labels", "all that the site says of the node, by name").required(),
        text("plumb", "version of plumb there").required(),
        text("address", "address at which other nodes reach it").required(),
        text("record", "path of its own record, on the node"),
        real("clock_offset_s", "its clock minus that of rank 0, in seconds"),
        real("round_trip_s", "smallest round trip to rank 0, in seconds"),
    ],
    key: &["sweep", "rank"],
    root: Some("sweep"),
    indexes: &[&["name"]],
};

/// A figure of one node.
pub const FIGURE: Table = Table {
    name: "fleet_figure",
    about: "A figure of one node in a sweep, in base units (column unit)",
    columns: &[
        text("sweep", SWEEP_ID).required(),
        integer("rank", "node.rank").required(),
        text("experiment", EXPERIMENT).required(),
        text("params", PARAMS).required(),
        json("params_json", PARAMS_JSON).required().at("/case"),
        text("metric", "name of the metric").required(),
        integer("again", "0, or the number of its repetition in the phase suspects").required(),
        text("unit", "ns, B/s, op/s, flop/s, Hz, count, ratio …").required(),
        text("better", "direction of improvement: lower, higher or none").required(),
        text("kind", "hardware, os or io").required(),
        real("value", "the estimate"),
        real("ci_low", "lower end of its interval").at("/ci/0"),
        real("ci_high", "upper end of its interval").at("/ci/1"),
        integer("rounds", "rounds that it uses").required(),
        real("scatter", "standard deviation of the logarithms of the round values"),
        real("predicted_low", "lower end of the prediction").at("/predicted/0"),
        real("predicted_high", "upper end of the prediction").at("/predicted/1"),
    ],
    key: &["sweep", "rank", "experiment", "params", "metric", "again"],
    root: Some("sweep"),
    indexes: &[&["experiment", "metric"]],
};

/// A figure between two nodes.
pub const PAIR: Table = Table {
    name: "fleet_pair",
    about: "A figure between two nodes in a sweep, in base units (column unit)",
    columns: &[
        text("sweep", SWEEP_ID).required(),
        integer("step", "number of the step").required(),
        text("purpose", "matching, isolated, suspect, bisection, incast or outcast").required(),
        integer("from_rank", "node.rank of the near end, which sends").required().at("/from"),
        integer("to_rank", "node.rank of the far end").required().at("/to"),
        text("experiment", EXPERIMENT).required(),
        text("params", PARAMS).required(),
        json("params_json", PARAMS_JSON).required().at("/case"),
        text("metric", "name of the metric").required(),
        text("unit", "ns, B/s, op/s …").required(),
        text("better", "direction of improvement: lower, higher or none").required(),
        real("value", "the estimate"),
        real("ci_low", "lower end of its interval").at("/ci/0"),
        real("ci_high", "upper end of its interval").at("/ci/1"),
        integer("rounds", "rounds that it uses").required(),
        real("scatter", "standard deviation of the logarithms of the round values"),
        real("predicted_low", "lower end of the prediction").at("/predicted/0"),
        real("predicted_high", "upper end of the prediction").at("/predicted/1"),
    ],
    key: &["sweep", "step", "purpose", "from_rank", "to_rank", "experiment", "params", "metric"],
    root: Some("sweep"),
    indexes: &[&["sweep", "from_rank"], &["sweep", "to_rank"], &["experiment", "metric"]],
};

/// What is missing in a sweep.
pub const ABSENT: Table = Table {
    name: "fleet_absent",
    about: "What is missing in a sweep, and why",
    columns: &[
        text("sweep", SWEEP_ID).required(),
        integer("number", "its place in the record, from 1").required(),
        integer("rank", "the node").required(),
        integer("to_rank", "the other end, for a pair").at("/to"),
        text("phase", "meet, alone, pairs, suspects or gather").required(),
        integer("step", "the step, for a pair"),
        text("experiment", "the experiment; null for all of the node's part of the phase"),
        text("why", "the reason").required(),
        flag("lost", "whether the node took no part in what followed").required(),
    ],
    key: &["sweep", "number"],
    root: Some("sweep"),
    indexes: &[],
};

/// What the model says of a sweep.
pub const VERDICT: Table = Table {
    name: "verdict",
    about: "A node or link of a sweep that is worse than its peers",
    columns: &[
        text("sweep", SWEEP_ID).required(),
        integer("number", "its place in the fleet's report, from 1").required(),
        text("charge", "slower, unstable, degraded_link, or suspect: not confirmed").required(),
        integer("rank", "node.rank; null for a link").at("/at/node"),
        integer("from_rank", "node.rank of the near end, for a link").at("/at/link/0"),
        integer("to_rank", "node.rank of the far end, for a link").at("/at/link/1"),
        text("experiment", EXPERIMENT).required().at("/key/experiment"),
        text("params", PARAMS).required(),
        json("params_json", PARAMS_JSON).required().at("/key/case"),
        text("metric", "name of the metric").required().at("/key/metric"),
        text("role", "alone, or which end of pairs the node is: send, receive or both").required(),
        text("unit", "unit of value and peers_median").required(),
        real("factor", "how many times worse than its peers: above 1"),
        real("ci_low", "lower end of the 95 % interval of factor").at("/interval/0"),
        real("ci_high", "upper end of this interval").at("/interval/1"),
        real("z", "distance from the peers in robust standard deviations").at("/evidence/z"),
        real("p", "probability of such a distance by chance").at("/evidence/p"),
        real("q", "false discovery rate over all nodes and figures").at("/evidence/q"),
        real("value", "what was measured first").at("/evidence/value"),
        real("peers_median", "the median of the peers; for a link what its ends let expect")
            .at("/evidence/peers_median"),
        integer("peers", "number of peers; for a link the number of pairs").at("/evidence/peers"),
        integer("repetitions", "how often it was measured again").at("/evidence/repetitions"),
    ],
    key: &["sweep", "number"],
    root: Some("sweep"),
    indexes: &[&["sweep", "rank"]],
};

/// Writes the rows of a sweep; none if they are written already. Errors: what writing reports.
pub fn push<Out: Write>(writer: &mut Writer<Out>, sweep: &Sweep) -> io::Result<()> {
    let about = about(sweep);
    let id = about["id"].clone();
    if !writer.is_new(&id) {
        return Ok(());
    }
    writer.push(&SWEEP, &about)?;
    for node in sweep.nodes.values() {
        let mut row = of_sweep(&id, node);
        let facts = row["stratum"].take();
        row["stratum"] = json!(digest(&[&facts.to_string()]));
        row["stratum_facts"] = facts;
        writer.push(&NODE, &row)?;
    }
    for figure in &sweep.figures {
        writer.push(&FIGURE, &with_params(of_sweep(&id, figure), &figure.key.case))?;
    }
    for pair in &sweep.pairs {
        writer.push(&PAIR, &with_params(of_sweep(&id, pair), &pair.key.case))?;
    }
    for (number, absent) in sweep.absents.iter().enumerate() {
        writer.push(&ABSENT, &numbered(of_sweep(&id, absent), number))?;
    }
    for (number, verdict) in fleet::model::verdicts(sweep).iter().enumerate() {
        let row = numbered(of_sweep(&id, verdict), number);
        writer.push(&VERDICT, &with_params(row, &verdict.subject.key.case))?;
    }
    Ok(())
}

/// The object of an event, with the sweep that it belongs to.
fn of_sweep(sweep: &Value, event: &impl serde::Serialize) -> Value {
    let mut row = object(event);
    row["sweep"] = sweep.clone();
    row
}

fn with_params(mut row: Value, case: &CaseId) -> Value {
    row["params"] = json!(case.to_string());
    row
}

fn numbered(mut row: Value, number: usize) -> Value {
    row["number"] = json!(number + 1);
    row
}

fn about(sweep: &Sweep) -> Value {
    let mut row = object(&sweep.header);
    let header = &sweep.header;
    row["name"] = json!(header.id);
    row["id"] = json!(digest(&[&header.id, &header.seed.to_string(), &header.started]));
    row["outcome"] = json!(match &sweep.end {
        Some(end) if end.interrupted => "interrupted",
        Some(_) => "complete",
        None => "killed",
    });
    row["wall_s"] = json!(sweep.end.as_ref().map(|end| end.wall_s));
    row["bytes"] = json!(sweep.whole_bytes);
    row["exported_by"] = json!(env!("CARGO_PKG_VERSION"));
    row
}
