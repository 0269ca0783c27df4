//! How the figures came about.

use crate::analysis::health::{Health, health};
use crate::report::document::{Audience, Block, Section};
use crate::report::values::{clock, percent};
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;

/// Methodology and calibration.
pub(crate) fn section(run: &Run) -> Section {
    Section {
        id: "method".to_owned(),
        heading: "Methodology and calibration".to_owned(),
        blocks: match run.header.is_published() {
            true => published(run),
            false => vec![
                (Audience::Page, Block::Paragraph(HOW.to_owned())),
                (Audience::Page, Block::KeyValues(calibration(run))),
                (Audience::Page, Block::Subheading("The run".to_owned())),
                (Audience::Page, Block::KeyValues(the_run(run))),
                (Audience::Page, Block::KeyValues(disturbance(&health(run)))),
            ],
        },
    }
}

const HOW_PUBLISHED: &str = "These figures were printed by others and not measured by plumb. Each stands \
    as its report prints it, with its source, its statistic and what is known to be wrong with it; where \
    text and table disagree, both readings stand. Predictions are the report's own. There are no rounds, \
    so there are no intervals. Cases with `as_reported` are what no case of the catalogue measures.";

/// Of a report's machine: what it says of itself.
fn published(run: &Run) -> Vec<(Audience, Block)> {
    let header = &run.header;
    let told = ["report", "clocks"].into_iter().filter_map(|name| {
        let text = header.environment.get(name)?;
        Some(pair(name, text.clone()))
    });
    let mut pairs: Vec<(String, String)> = told.collect();
    pairs.push(pair("dated", header.started.clone()));
    vec![
        (
            Audience::Everyone,
            Block::Paragraph(HOW_PUBLISHED.to_owned()),
        ),
        (Audience::Page, Block::KeyValues(pairs)),
    ]
}

const HOW: &str = "Each round of a series is a fresh process on a pinned CPU, with fresh memory, \
    files and connections. Repeatable operations are timed as n against 2n of them in ABBA \
    quartets, so that the cost of loop and clock cancels; single events are read as they are and \
    marked where the clock's own grain shows. A figure is the median of round values; its \
    interval is the exact order-statistic interval of that median over rounds (none below six \
    rounds), never over samples inside a round. Rounds count as disturbed by counters alone \
    (steal, throttling, migrations, major faults, involuntary switches, others on the CPU, \
    a moved core clock), \
    never by their value. Cycles are core clock cycles, measured beside each case, not ticks of \
    the counter. Every prediction was written before the first sample of its case.";

fn pair(name: &str, text: impl Into<String>) -> (String, String) {
    (name.to_owned(), text.into())
}

fn calibration(run: &Run) -> Vec<(String, String)> {
    let clocks = &run.header.calibration;
    let multiply = match clocks.multiply_cycles {
        Some(cycles) => format!("{} cycles per dependent multiply", digits(cycles)),
        None => "not confirmed: multiply over rotate is no integer".to_owned(),
    };
    let mut pairs = vec![
        pair(
            "counter",
            format!(
                "{}: {} ± {} ppm over {} windows",
                clocks.source,
                clock(clocks.counter_hz),
                digits(clocks.counter_error * 1e6),
                clocks.windows_hz.len()
            ),
        ),
        pair("resolution", render(clocks.resolution_ns, Unit::Ns)),
        pair(
            "cost of a start and end pair",
            render(clocks.pair_cost_ns, Unit::Ns),
        ),
        pair(
            "core clock",
            format!(
                "{} on CPU {} ({}; {multiply})",
                clock(clocks.core_hz),
                clocks.cpu,
                clocks.core_source
            ),
        ),
    ];
    if let Some(drift) = run.footer.as_ref().and_then(|footer| footer.counter_drift) {
        pairs.push(pair(
            "counter drift over the run",
            format!("{} ppm", digits(drift * 1e6)),
        ));
    }
    pairs.extend(clocks.notes.iter().map(|note| pair("note", note.clone())));
    pairs
}

fn the_run(run: &Run) -> Vec<(String, String)> {
    let header = &run.header;
    let options = &header.options;
    let mut pairs = vec![
        pair(
            "plumb",
            format!(
                "{} ({}, {}, {} build)",
                header.plumb, header.target, header.rustc, header.profile
            ),
        ),
        pair("started", header.started.clone()),
        pair("preset", options.preset.clone()),
        pair("budget", render(options.budget_s * 1e9, Unit::Ns)),
        pair(
            "precision goal",
            format!("± {}", percent(options.precision)),
        ),
        pair("seed", header.seed.to_string()),
    ];
    if !options.selectors.is_empty() {
        pairs.push(pair("selected", options.selectors.join(" ")));
    }
    if !options.set.is_empty() {
        pairs.push(pair("given", options.set.join(" ")));
    }
    if let Some(footer) = &run.footer {
        pairs.push(pair("finished", footer.finished.clone()));
        pairs.push(pair(
            "session's own CPU time",
            render(footer.session_cpu_s * 1e9, Unit::Ns),
        ));
        pairs.push(pair(
            "session's peak memory",
            render(footer.session_peak_bytes as f64, Unit::B),
        ));
    }
    pairs
}

fn disturbance(health: &Health) -> Vec<(String, String)> {
    let mut pairs = vec![pair(
        "rounds",
        format!(
            "{} count, {} void, {} disturbed",
            health.rounds, health.void, health.disturbed
        ),
    )];
    for (reason, count) in &health.reasons {
        pairs.push(pair("disturbed by", format!("{reason} ({count} rounds)")));
    }
    if let Some(steal) = health.steal {
        pairs.push(pair("steal over all windows", percent(steal)));
    }
    if let Some(throttled) = health.throttled {
        pairs.push(pair("throttled over all windows", percent(throttled)));
    }
    if let Some((low, high)) = health.core_hz {
        pairs.push(pair(
            "core clock around rounds",
            format!("{} to {}", clock(low), clock(high)),
        ));
    }
    pairs
}
