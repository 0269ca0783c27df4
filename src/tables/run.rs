//! The tables of runs.

use super::{EXPERIMENT, PARAMS, PARAMS_JSON, Table, Writer};
use super::{digest, integer, json, real, text, time_of};
use record::key::CaseId;
use record::run::Run;
use report::json::{FlatFigure, flat};
use serde_json::{Value, json};
use std::io::{self, Write};

/// A run.
pub const RUN: Table = Table {
    name: "run",
    about: "A run of plumb on one machine",
    columns: &[
        text(
            "id",
            "digest of name, machine, seed and start: the same for every copy of the record",
        )
        .required(),
        text("name", "name of the run: time and host; two machines may have the same").required(),
        text("machine", "identity of the machine, which stays over reboots").required(),
        text("host", "host name, as in the run's name").required(),
        time_of("started", "when it began"),
        time_of("finished", "when it ended; null if it was killed or is still running"),
        text("outcome", "complete, budget (the time was used up), interrupted or killed")
            .required(),
        text("preset", "quick, standard, thorough, rehearsal").required(),
        text("plumb", "version of plumb that measured").required(),
        text("build", "fingerprint of the sources that measure"),
        text("profile", "release, or debug: its figures mean little").required(),
        text("processor", "model of the processor"),
        integer("cpus", "CPUs that were measured on").required(),
        integer("memory_bytes", "main memory"),
        text("kernel", "release of the kernel"),
        text("distribution", "the Linux distribution"),
        text("hypervisor", "the hypervisor; null on hardware, or if it is unknown"),
        text("vendor", "maker of the machine, from its firmware table"),
        text("instance_type", "product of that maker: the instance type at many cloud providers"),
        json(
            "environment",
            "what may change between runs (microcode, mitigations, governor …), by name",
        )
        .required(),
        integer("bytes", "length of the record: of two states of a run the longer is the later")
            .required(),
        text("exported_by", "version of plumb that computed the figures from the record")
            .required(),
    ],
    key: &["id"],
    root: None,
    indexes: &[&["machine", "started"], &["host", "started"], &["name"]],
};

/// A figure of a run.
pub const FIGURE: Table = Table {
    name: "figure",
    about: "A figure of a run, in base units (column unit)",
    columns: &[
        text("run", "run.id").required(),
        text("experiment", EXPERIMENT).required(),
        text("params", PARAMS).required(),
        json("params_json", PARAMS_JSON).required().at("/case"),
        text("metric", "name of the metric").required(),
        text("unit", "ns, B/s, op/s, flop/s, Hz, count, ratio …").required(),
        text("better", "direction of improvement: lower, higher or none").required(),
        text("kind", "hardware, os or io").required(),
        text("outcome", "measured; skipped or failed with a reason: do not use the value")
            .required(),
        text("reason", "why it was skipped or failed"),
        real("value", "the estimate: the median of round values"),
        real("ci_low", "lower end of its interval").at("/ci/0"),
        real("ci_high", "upper end of its interval").at("/ci/1"),
        real("confidence", "confidence of the interval, 0 to 1"),
        text("interval_of", "what the interval spans: rounds, within-run or resamples")
            .at("/interval"),
        text("condition", "alone: from samples with an exclusive core; as_found: from all samples"),
        real("as_found", "the estimate from all samples, where value is of an exclusive core")
            .at("/as_found/value"),
        real("cycles", "the value in core cycles"),
        real("predicted_low", "predicted from the hardware description: lower end")
            .at("/prediction/low"),
        real("predicted_likely", "the same: best guess").at("/prediction/likely"),
        real("predicted_high", "the same: upper end").at("/prediction/high"),
        text("verdict", "the value against this prediction"),
        real("derived_low", "predicted from earlier figures of the run: lower end")
            .at("/derived_prediction/low"),
        real("derived_likely", "the same: best guess").at("/derived_prediction/likely"),
        real("derived_high", "the same: upper end").at("/derived_prediction/high"),
        text("derived_verdict", "the value against this prediction"),
        text("summary_name", "its name in the run's summary; null for other figures").at("/key"),
        integer("rounds", "rounds that count").at("/stats/rounds"),
        integer("disturbed", "rounds among them that were disturbed").at("/stats/disturbed"),
        integer("used", "rounds that the value uses").at("/stats/used"),
        integer("samples", "samples in them").at("/stats/samples"),
        real("mean", "mean of the samples").at("/stats/mean"),
        real("stddev", "standard deviation of the samples").at("/stats/stddev"),
        real("minimum", "smallest sample").at("/stats/min"),
        real("p50", "median of the samples").at("/stats/p50"),
        real("p90", "90th percentile of the samples").at("/stats/p90"),
        real("p99", "99th percentile of the samples").at("/stats/p99"),
        real("maximum", "largest sample").at("/stats/max"),
        integer("modes", "modes of the samples").at("/stats/modes"),
        json("notes", "caveats, a list of texts"),
    ],
    key: &["run", "experiment", "params", "metric"],
    root: Some("run"),
    indexes: &[&["experiment", "metric"]],
};

/// What a run has no figure of.
pub const ABSENT: Table = Table {
    name: "absent",
    about: "A case, or a whole experiment, without figures in a run",
    columns: &[
        text("run", "run.id").required(),
        text("experiment", EXPERIMENT).required(),
        text("params", "parameters of the case; empty for a whole experiment").required(),
        json("params_json", PARAMS_JSON).required().at("/case"),
        text("outcome", "skipped or failed").required(),
        text("reason", "why"),
        text("needed", "what would help"),
    ],
    key: &["run", "experiment", "params"],
    root: Some("run"),
    indexes: &[],
};

/// A finding of a run.
pub const FINDING: Table = Table {
    name: "finding",
    about: "Something to look at in a run, as its report lists it",
    columns: &[
        text("run", "run.id").required(),
        integer("number", "its place in the report, from 1").required(),
        text("severity", "error, warning or note").required(),
        text("cause", "the cause as a word (docs/FORMAT.md lists them)").required(),
        text("about", "an experiment, or run for more than one").required(),
        text("finding", "the finding").required().at("/text"),
        text("advice", "what to do"),
        real("factor", "the common factor of the figures that it is about"),
    ],
    key: &["run", "number"],
    root: Some("run"),
    indexes: &[&["cause"]],
};

/// Writes the rows of a run, whose record has so many bytes; none if they are written already. Errors:
/// what writing reports.
pub fn push<Out: Write>(writer: &mut Writer<Out>, run: &Run, bytes: u64) -> io::Result<()> {
    let about = about(run, bytes);
    let id = about["id"].clone();
    if !writer.is_new(&id) {
        return Ok(());
    }
    writer.push(&RUN, &about)?;
    let flat = flat(run);
    for figure in &flat.figures {
        writer.push(table_of(figure), &row_of(figure, &figure.case, &id))?;
    }
    for (number, finding) in flat.findings.iter().enumerate() {
        let mut row = object(finding);
        row["run"] = id.clone();
        row["number"] = json!(number + 1);
        writer.push(&FINDING, &row)?;
    }
    Ok(())
}

/// A figure without a metric is a case, or an experiment, that is absent.
fn table_of(figure: &FlatFigure) -> &'static Table {
    if figure.has_metric() { &FIGURE } else { &ABSENT }
}

fn row_of(figure: &FlatFigure, case: &CaseId, run: &Value) -> Value {
    let mut row = object(figure);
    row["run"] = run.clone();
    // In the card's order, which a JSON value does not keep.
    row["params"] = json!(case.to_string());
    row
}

/// The JSON object of a value.
pub(super) fn object(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).expect("its keys are strings and it holds no foreign serialisers")
}

/// Length of the time that begins a run's name.
const TIME: usize = "2026-11-22T15-36-07".len();

fn about(run: &Run, bytes: u64) -> Value {
    let header = &run.header;
    let seed = header.seed.to_string();
    // As the record has it, so that an earlier plumb's run keeps its id.
    let recorded = header.host.pointer("/identity/hash").and_then(Value::as_str);
    let identity = recorded.unwrap_or(&header.identity);
    let end = run.footer.as_ref().map(|footer| object(&footer.end));
    let host = |pointer: &str| header.host.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "id": digest(&[&header.run, identity, &seed, &header.started]),
        "name": header.run,
        "machine": header.identity,
        "host": header.run.get(TIME + 1..).unwrap_or_default(),
        "started": header.started,
        "finished": run.footer.as_ref().map(|footer| footer.finished.clone()),
        "outcome": end.unwrap_or_else(|| json!("killed")),
        "preset": header.options.preset,
        "plumb": header.plumb,
        "build": Some(&header.build).filter(|build| !build.is_empty()),
        "profile": header.profile,
        "processor": host("/cpu/model_name"),
        "cpus": header.cpus.len(),
        "memory_bytes": host("/memory/total_bytes"),
        "kernel": host("/kernel/release"),
        "distribution": host("/kernel/distribution"),
        "hypervisor": host("/kernel/virtualisation/hypervisor"),
        "vendor": host("/kernel/virtualisation/system_vendor"),
        "instance_type": host("/kernel/virtualisation/product"),
        "environment": header.environment,
        "bytes": bytes,
        "exported_by": env!("CARGO_PKG_VERSION"),
    })
}
