//! Experiments of the synthetic plan.

use record::case::Order;
use record::event::{Isolation, PlannedExperiment, PlannedSeries, Repeat};
use record::key::CaseId;
use record::key_figure::KeyFigure;
use record::metric::Metric;
use record::view::View;
use std::collections::BTreeMap;

pub(super) fn planned(
    id: &str,
    title: &str,
    metrics: Vec<Metric>,
    cases: Vec<CaseId>,
) -> PlannedExperiment {
    PlannedExperiment {
        id: id.to_owned(),
        title: title.to_owned(),
        manual: format!(
            "# Question\n\nWhat does {title} cost?\n\n# Method\n\nTimed `n` against `2n`.\n\n- once\n- twice\n"
        ),
        metrics,
        params: vec![],
        units: BTreeMap::new(),
        view: View::Table,
        views: vec![],
        keys: keys(id),
        repeat: Repeat::Rounds,
        isolation: Isolation::Shared,
        after: vec![],
        series: vec![PlannedSeries {
            name: String::new(),
            cases,
            order: Order::Fixed,
            settings: BTreeMap::new(),
            round_cost_s: 0.5,
        }],
        derived: vec![],
        skipped: None,
    }
}

fn keys(id: &str) -> Vec<KeyFigure> {
    let all: &[KeyFigure] = match id {
        "clock.rate" => &[KeyFigure::new("counter", "", "counter", "")],
        "memory.latency" => &[
            KeyFigure::new("load latency,", "L1", "level_latency", "level=L1"),
            KeyFigure::new("load latency,", "DRAM", "level_latency", "level=DRAM"),
        ],
        "os.syscall" => &[
            KeyFigure::new("system call,", "null", "latency", "call=getppid"),
            KeyFigure::new("system call,", "read", "latency", "call=read"),
            KeyFigure::new("system call,", "none such", "latency", "call=open"),
        ],
        _ => &[],
    };
    all.to_vec()
}
