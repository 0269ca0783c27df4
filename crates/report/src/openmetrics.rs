//! Figures as OpenMetrics text: `plumb_<experiment>_<metric>_<unit>{case labels} value`, in the
//! base units that its convention asks for (seconds, bytes, hertz, ratio).
//!
//! The text is read by two parsers: OpenMetrics' own, and that of the Prometheus text format, which
//! node_exporter's textfile collector has. Hence only what both take: gauges (the older format
//! knows no type `info`), no time stamps on samples (the collector refuses them), no quotes in
//! `HELP` (one format asks that they be escaped, the other that they be not).

use analysis::crosscheck::{Verdict, rows};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Severity, findings};
use analysis::score::{Score, score};
use record::event::{End, Ending, PredictionKind};
use record::run::Run;

mod families;
#[cfg(any(test, feature = "fixtures"))]
pub mod strict;
#[cfg(test)]
mod tests;

pub use families::{Families, identifier, label, unit};

/// The text, ending in `# EOF`. Only measured figures; intervals are families of their own
/// (`…_low`, `…_high`), as the format knows none. Values that are no numbers are left out.
pub fn render(run: &Run) -> String {
    let figures = figures(run);
    let mut families = Families::with_labels(vec![label(MACHINE, &run.header.identity)]);
    about_the_run(&mut families, run);
    about_the_figures(&mut families, run, &figures);
    for figure in &figures {
        if figure.outcome == Ending::Measured {
            add_figure(&mut families, figure);
        }
    }
    about_other_tools(&mut families, run);
    families.text()
}

const MACHINE: &str = "machine";

fn about_the_run(families: &mut Families, run: &Run) {
    let header = &run.header;
    let host = |pointer: &str| {
        let text = header.host.pointer(pointer)?.as_str()?;
        Some(text.to_owned())
    };
    let environment = |name: &str| header.environment.get(name).cloned();
    let labels: Vec<String> = [
        ("run", Some(header.run.clone())),
        ("version", Some(header.plumb.clone())),
        ("profile", Some(header.profile.clone())),
        ("target", Some(header.target.clone())),
        ("preset", Some(header.options.preset.clone())),
        ("processor", host("/cpu/model_name")),
        ("microcode", environment("microcode")),
        ("distribution", environment("distribution")),
        ("kernel", environment("kernel")),
        ("hypervisor", environment("hypervisor")),
        ("clock_source", environment("clock_source")),
        ("governor", environment("governor")),
        ("thp", environment("thp")),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some(label(name, &text?)))
    .collect();
    let what = "Version of plumb and the machine: always 1, the facts are labels";
    families.add("plumb_info", "", what, &labels, 1.0);
    let footer = run.footer.as_ref();
    let is_whole = footer.is_some_and(|footer| footer.end != End::Interrupted);
    let ended = footer.and_then(|footer| seconds_since_1970(&footer.finished));
    for (stem, unit, help, value) in [
        (
            "plumb_run_start_timestamp",
            "seconds",
            "When the run began, in seconds since 1970",
            seconds_since_1970(&header.started),
        ),
        (
            "plumb_run_end_timestamp",
            "seconds",
            "When the run ended, in seconds since 1970; absent if it was killed",
            ended,
        ),
        (
            "plumb_run_duration",
            "seconds",
            "How long the run took; for a resumed run, its last part",
            footer.map(|footer| footer.elapsed_s),
        ),
        (
            "plumb_run_complete",
            "",
            "1 if the run is complete, 0 if it was interrupted or killed",
            Some(f64::from(u8::from(is_whole))),
        ),
        (
            "plumb_core_clock",
            "hertz",
            "Core clock at calibration",
            Some(header.calibration.core_hz),
        ),
        (
            "plumb_counter",
            "hertz",
            "Rate of the counter that times everything",
            Some(header.calibration.counter_hz),
        ),
    ] {
        families.add(stem, unit, help, &[], value);
    }
}

/// How many figures and findings there are, and how good the predictions were.
fn about_the_figures(families: &mut Families, run: &Run, figures: &[Figure]) {
    let endings =
        [("measured", Ending::Measured), ("skipped", Ending::Skipped), ("failed", Ending::Failed)];
    for (name, ending) in endings {
        let count = figures.iter().filter(|figure| figure.outcome == ending).count();
        let help = "Figures, and cases and experiments without a figure, by outcome";
        let labels = [label("outcome", name)];
        families.add("plumb_figures", "", help, &labels, count as f64);
    }
    let found = findings(run, figures);
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let count = found.iter().filter(|finding| finding.severity == severity).count();
        let labels = [label("severity", severity.text())];
        let help = "Findings of the report, by severity";
        families.add("plumb_findings", "", help, &labels, count as f64);
    }
    let sources = [("prior", PredictionKind::Prior), ("derived", PredictionKind::Derived)];
    for (name, of) in sources {
        let Score { all, by_family } = score(figures, of);
        let tallies = std::iter::once(("all", &all));
        let tallies = tallies.chain(by_family.iter().map(|(name, tally)| (name.as_str(), tally)));
        for (family, tally) in tallies {
            let labels = [label("prediction", name), label("family", family)];
            let help = "Share of the figures within their predicted range; not predictable ones are misses";
            let share = tally.inside_share();
            families.add("plumb_predictions_inside", "ratio", help, &labels, share);
        }
    }
}

/// What stands beside other tools: the ratios with their intervals, and whether goals are met.
fn about_other_tools(families: &mut Families, run: &Run) {
    for row in rows(run) {
        let labels = [
            label("rival", &row.pairing.rival),
            label("pairing", &row.pairing.name),
            label("row", &row.row.name),
        ];
        let help = "plumb's figure over another tool's, median over the turns";
        let values = (row.ratio, row.interval);
        families.add_with_ends("plumb_crosscheck", ("ratio", 1.0), help, &labels, values);
        if let Verdict::Met | Verdict::Missed = row.verdict {
            let help = "1 where the goal of a ratio is met, 0 where it is missed";
            let value = f64::from(u8::from(row.verdict == Verdict::Met));
            families.add("plumb_crosscheck_goal_met", "", help, &labels, value);
        }
    }
}

fn add_figure(families: &mut Families, figure: &Figure) {
    let Some((metric, key)) = figure.metric.as_ref().zip(figure.key()) else { return };
    let cases = key.case.0.iter();
    let labels: Vec<String> =
        cases.map(|(name, value)| label(&parameter(name), &value.to_string())).collect();
    let stem = format!("plumb_{}_{}", key.experiment, key.metric);
    let values = (figure.value, figure.ci);
    families.add_with_ends(&stem, unit(metric.unit), &metric.doc, &labels, values);
}

/// Seconds since 1970 of a time as RFC 3339 writes it.
pub fn seconds_since_1970(text: &str) -> Option<f64> {
    let at = humantime::parse_rfc3339(text).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}

/// The label of a case's parameter: an identifier that is no other label's.
fn parameter(name: &str) -> String {
    let name = identifier(name);
    match name == MACHINE || name.starts_with(|letter: char| !letter.is_ascii_alphabetic()) {
        true => format!("case_{name}"),
        false => name,
    }
}
