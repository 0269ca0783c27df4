//! How the figures came about.

use crate::document::{Audience, Block, Section};
use crate::values::{clock, percent};
use analysis::findings;
use analysis::health::{Health, health};
use record::event::Width;
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;

pub fn section(run: &Run) -> Section {
    let blocks = match run.header.is_published() {
        true => published(run),
        false => {
            let heading = Block::Subheading("The run".to_owned());
            let (clocks, options) = (calibration(run), the_run(run));
            let of_run = [Block::KeyValues(clocks), heading, Block::KeyValues(options)];
            let summary = "How a figure comes about".to_owned();
            let how = Block::Folded { summary, blocks: vec![Block::text(HOW)] };
            [Block::text(BRIEF), how].into_iter().chain(of_run).map(Block::on_page).collect()
        }
    };
    Section::new("method", "Methodology and calibration", blocks)
}

const HOW_PUBLISHED: &str = "These figures come from published reports; plumb did not measure \
    them. Each is shown as its report prints it, with its source and statistic; errors in a report \
    are findings. Where text and table disagree, both readings are shown. Predictions are the \
    report's own. There are no rounds, so there are no intervals. Cases with `as_reported` have no \
    equivalent in plumb: a note names the nearest case.";

/// Of a report's machine: what it says of itself.
fn published(run: &Run) -> Vec<(Audience, Block)> {
    let header = &run.header;
    let stated = header.environment.iter().map(|(name, text)| pair(name, text));
    let pairs = stated.chain([pair("dated", &header.started)]);
    [Block::text(HOW_PUBLISHED), Block::KeyValues(pairs.collect())].map(Block::for_all).into()
}

/// What also stands on a short print.
const BRIEF: &str = "Each round is a new process on a pinned CPU. A figure is the median of its rounds, \
    and its interval is that of the median over rounds. Rounds are flagged as disturbed from kernel \
    counters, never because a value looks odd. Every prediction was recorded before the first sample \
    of its case.";

const HOW: &str = "Each round of a series is a fresh process on a pinned CPU (where it waits for a \
    device, on any CPU of the run), with fresh memory, files and connections. Repeatable \
    operations are timed as n against 2n of them in ABBA quartets, so that the cost of loop and clock cancels. Single \
    events are timed directly, and marked where the clock's resolution limits them. A figure is \
    the median of round values; its interval is the exact order-statistic interval of that median \
    over rounds (of five 93.75 %, of more at least 95 %, of fewer none), never over samples \
    inside a round. Two other kinds of \
    interval are marked: an experiment that runs once has an interval over blocks of its time (†), \
    which does not predict a second run; a figure derived from several cases has one from \
    resampling their rounds (‡). Rounds are flagged as disturbed from kernel counters (throttling, \
    migrations, major faults, involuntary switches, other programs on the CPU, a moved core \
    clock), never because a value looks odd. A probe of 1 µs of independent additions at every \
    batch boundary shows whether another tenant used the core. If six rounds have three samples \
    each with the core to themselves, or three rounds 20 in all, the figure uses only these; \
    otherwise it uses all samples (§). The interval is then by rounds if five have three such \
    samples, otherwise over the medians of stretches (consecutive samples) of at least five \
    rounds. First looks take the core as it is; before further rounds the session asks the probe, \
    gives a core that is alone to what lacks such samples, and waits up to a second for one. \
    A figure with § is judged by the range that was to be expected beside that tenant. \
    Percentiles, maxima and all noise figures use all rounds. Cycles are core clock cycles, \
    measured next to each case, not ticks of the counter. Every prediction was recorded before the \
    first sample of its case.";

fn pair(name: &str, text: impl Into<String>) -> (String, String) {
    (name.to_owned(), text.into())
}

fn calibration(run: &Run) -> Vec<(String, String)> {
    let clocks = &run.header.calibration;
    let multiply = match clocks.multiply_cycles {
        Some(cycles) => format!("{} cycles per dependent multiply", digits(cycles)),
        None => "not confirmed: the ratio of multiply to rotate is not an integer".to_owned(),
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
        pair("smallest step seen of the counter", render(clocks.resolution_ns, Unit::Ns)),
        pair(
            "shortest time from start to end of an empty window",
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
    pairs.extend(run.width(0).map(|width| pair("width probe", probe(&width))));
    if let Some(drift) = run.footer.as_ref().and_then(|footer| footer.counter_drift) {
        let text = drift_of(drift, clocks.counter_error);
        pairs.push(pair("counter drift over the run", text));
    }
    pairs.extend(clocks.notes.iter().map(|note| pair("note", note.clone())));
    pairs
}

/// What *alone* looks like on the measuring core, and how sure that is.
fn probe(width: &Width) -> String {
    let Some(level) = width.level else {
        let why = width.unusable.map_or("unknown", findings::no_probe);
        return format!("not usable: {why}");
    };
    format!(
        "{} additions a cycle on an exclusive core (quartiles {} apart, {} of {} readings); the \
         core was exclusive for {} of the calibration",
        digits(level),
        percent(width.spread),
        width.at_level,
        width.readings,
        percent(width.alone)
    )
}

/// A drift within the precision of its two calibrations.
fn drift_of(drift: f64, error: f64) -> String {
    match drift.abs() > error {
        true => format!("{} ppm", digits(drift * 1e6)),
        false => format!("less than the calibration's ± {} ppm", digits(error * 1e6)),
    }
}

/// What was asked for, what it took, and how quiet the machine was.
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
        pair("precision goal", format!("± {}", percent(options.precision))),
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
        pairs.push(pair("session's own CPU time", render(footer.session_cpu_s * 1e9, Unit::Ns)));
        pairs
            .push(pair("session's peak memory", render(footer.session_peak_bytes as f64, Unit::B)));
    }
    pairs.extend(disturbance(&health(run)));
    pairs
}

fn disturbance(health: &Health) -> Vec<(String, String)> {
    let mut pairs = vec![pair(
        "rounds",
        format!(
            "{}, {} of them disturbed; {} more are void",
            health.rounds, health.disturbed, health.void
        ),
    )];
    let reasons = health.reasons.iter();
    let reasons: Vec<String> =
        reasons.map(|(reason, count)| format!("{reason} in {count}")).collect();
    match reasons.as_slice() {
        [] => {}
        [only] => pairs.push(pair("disturbed by", only)),
        several => pairs.push(pair(
            "disturbed by",
            format!("{}; a round may have several reasons", several.join(", ")),
        )),
    }
    for (name, share) in [
        ("samples in which others used the core", health.shared),
        ("steal over all windows", health.steal),
        ("throttled over all windows", health.throttled),
    ] {
        pairs.extend(share.map(|share| pair(name, percent(share))));
    }
    if let Some((low, high)) = health.core_hz {
        pairs.push(pair("core clock around rounds", format!("{} to {}", clock(low), clock(high))));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::drift_of;

    #[test]
    fn a_drift_is_not_told_below_its_uncertainty() {
        let small = drift_of(-1.54e-9, 2e-8);
        assert!(small.ends_with("± 0.020 ppm") && !small.contains("0.00"), "{small}");
        assert_eq!(drift_of(-71e-6, 2e-6), "-71 ppm");
    }
}
