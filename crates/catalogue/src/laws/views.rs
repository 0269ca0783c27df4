//! What every view keeps, and that the plots that a lab report lists are drawn.

use super::{all, offer, sites};
use analysis::figure::Figure;
use analysis::sample;
use bench::experiment::{AnyExperiment, Preset, Role, Site};
use record::case::Case;
use record::event::{Ending, PlannedExperiment, Prediction, Range, Trace};
use record::key::CaseId;
use record::metric::Metric;
use record::run::Run;
use record::view::{Cases, View};
use report::build::plots::{Shown, of_experiment};
use report::document::{Block, Plot, Shape};
use session::params::parse_values;
use std::collections::BTreeMap;

/// Parameters, metrics, marks and cases that a view names.
fn named(view: &View) -> (Vec<&String>, Vec<&String>, Vec<&String>, Option<&Cases>) {
    match view {
        View::Table | View::Timeline { .. } | View::Spans { .. } => (vec![], vec![], vec![], None),
        View::Line { over, metric, beside, marks, cases, .. } => {
            let metrics = std::iter::once(metric).chain(beside).collect();
            (vec![over], metrics, marks.iter().collect(), Some(cases))
        }
        View::Curve { along, x, y, cases, .. } => (vec![along], vec![x, y], vec![], Some(cases)),
        View::Matrix { rows, columns, metric, cases } => {
            (vec![rows, columns], vec![metric], vec![], Some(cases))
        }
        View::Bars { metric, cases } => (vec![], vec![metric], vec![], Some(cases)),
    }
}

#[test]
fn views_name_what_their_cards_have() {
    for (_, experiment) in all() {
        let card = experiment.card();
        let param = |name: &str| {
            let of_case = |param: &&bench::experiment::Param| param.role == Role::Case;
            let mut params = card.params.iter().filter(of_case);
            let found = params.find(|param| param.name == name);
            found.unwrap_or_else(|| panic!("{}: no parameter {name} of a case", card.id))
        };
        let metric = |name: &str| {
            let found = card.metrics.iter().find(|metric| metric.name == name);
            found.unwrap_or_else(|| panic!("{}: no metric {name}", card.id))
        };
        for view in card.views {
            let view = view.view();
            let (params, metrics, marks, cases) = named(&view);
            for name in &params {
                param(name);
            }
            for name in metrics {
                metric(name);
            }
            for name in marks {
                assert!(metric(name).derived, "{}: {name} marks cases", card.id);
            }
            for name in cases.iter().flat_map(|cases| &cases.each) {
                param(name);
                assert!(!params.contains(&name), "{}: {name} is an axis", card.id);
            }
            for (name, values) in cases.iter().flat_map(|cases| &cases.only) {
                assert!(!values.is_empty(), "{}: {name} of no value", card.id);
                for value in values {
                    let parsed = parse_values(value, param(name));
                    assert!(parsed.is_ok(), "{}: {name}={value}: {parsed:?}", card.id);
                }
            }
        }
    }
}

/// What a simulated run measured: something else in every case.
fn figure(id: &str, case: &Case, metric: &Metric, at: usize) -> Figure {
    let value = (at + 1) as f64 * 0.01;
    let mut figure = Figure::absent(id, Ending::Measured, String::new());
    figure.case = case.id.clone();
    figure.at = case.at.clone();
    figure.metric = Some(metric.clone());
    figure.value = Some(value);
    figure.ci = Some((0.9 * value, 1.1 * value));
    figure.prior = Some(analysis::figure::Judged {
        prediction: Prediction::new(
            Some(Range { low: value / 2.0, likely: value, high: value * 2.0 }),
            String::new(),
        ),
        beside: None,
        bound: None,
        verdict: None,
    });
    figure
}

/// Every figure that the plan of an experiment promises.
fn figures(experiment: &'static dyn AnyExperiment, site: &Site, preset: Preset) -> Vec<Figure> {
    let card = experiment.card();
    let Some(offer) = offer(experiment, site, preset) else { return Vec::new() };
    let (derived, measured): (Vec<&Metric>, Vec<&Metric>) =
        card.metrics.iter().partition(|metric| metric.derived);
    let known = bench::experiment::Known::default();
    let derivable = experiment.derivable(site, &offer.series);
    let resolved =
        offer.series.into_iter().filter_map(|series| experiment.resolve(site, &known, series).ok());
    let cases: Vec<Case> = resolved.flat_map(|series| series.cases).collect();
    let derivable: Vec<Case> = derivable.into_iter().map(Case::new).collect();
    let of = |(cases, metrics): (&[Case], &[&Metric])| -> Vec<Figure> {
        let cases = cases.iter().enumerate();
        cases
            .flat_map(|(at, case)| metrics.iter().map(move |metric| (at, case, metric)))
            .map(|(at, case, metric)| figure(card.id, case, metric, at))
            .collect()
    };
    let mut figures = of((&cases, &measured));
    figures.extend(of((&derivable, &derived)));
    figures
}

/// Traces as the experiment records them: names of columns, and the names of the last one's values.
fn traces(planned: &PlannedExperiment) -> Vec<Trace> {
    let cases = planned.series.iter().flat_map(|series| &series.cases);
    let first = cases.into_iter().next().cloned().unwrap_or_default();
    let trace = |kind: &str, columns: &[&str], states: &[&str]| Trace {
        series: planned.id.clone(),
        round: 1,
        case: first.clone(),
        kind: kind.to_owned(),
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows: (0..6)
            .map(|row| {
                let column = |at: usize| match (at, states.is_empty()) {
                    (2, false) => f64::from(row % 2),
                    _ => f64::from(row) * 1e6 + at as f64,
                };
                (0..columns.len()).map(column).collect()
            })
            .collect(),
        names: match states.is_empty() {
            true => BTreeMap::new(),
            false => {
                let names = states.iter().map(|name| (*name).to_owned()).collect();
                BTreeMap::from([("state".to_owned(), names)])
            }
        },
        dropped: 0,
    };
    let mut traces = Vec::new();
    for view in planned.all_views() {
        match view {
            View::Timeline { trace: kind, beside } => {
                let mut columns = vec!["time_s", "rate_flop_per_s"];
                columns.extend(beside.iter().map(String::as_str));
                traces.push(trace(kind, &columns, &[]));
            }
            View::Spans { timeline, .. } => {
                let columns = ["start_ns", "duration_ns", "state"];
                traces.push(trace(timeline, &columns, &["process 1", "process 2"]));
            }
            _ => {}
        }
    }
    traces
}

/// The blocks of every experiment of a simulated run on a site, under its id; `names` of as many
/// runs that are shown together.
fn blocks(site: &Site, preset: Preset, names: &[&str]) -> Vec<(String, Vec<Block>)> {
    let planned = super::planned(site, preset);
    let of = |planned: &PlannedExperiment| {
        let find = |(_, one): &(_, &'static dyn AnyExperiment)| one.card().id == planned.id;
        let (_, experiment) = all().into_iter().find(find).expect("it was planned");
        let figures = figures(experiment, site, preset);
        let figures: Vec<&Figure> = figures.iter().collect();
        let mut run = Run::new(sample::header());
        run.traces = traces(planned);
        let shown: Vec<Shown<'_>> = names
            .iter()
            .map(|name| Shown { name, run: &run, planned, figures: &figures })
            .collect();
        (planned.id.clone(), of_experiment(&shown))
    };
    planned.plan.experiments.iter().map(of).collect()
}

fn plots(blocks: &[Block]) -> Vec<&Plot> {
    blocks
        .iter()
        .filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .collect()
}

fn host(name: &str, preset: Preset) -> Site {
    let mut sites = sites(preset).into_iter();
    let found = sites.find(|(host, _)| host == name);
    let mut site = found.expect("it is recorded").1;
    // Whatever is to be written fits.
    let dir = site.dir.as_mut().expect("laws have a directory");
    dir.allowance_bytes = 1 << 44;
    site
}

/// The plots that the catalogue lists for a lab report.
const LISTED: &[(&str, &str)] = &[
    ("cpu.call", "call over arguments"),
    ("cpu.peak", "flop rate over thread count"),
    ("cpu.peak", "rate over thread count"),
    ("fs.io", "bandwidth over block: read, sequential"),
    ("fs.io", "bandwidth over block: read, random"),
    ("fs.io", "bandwidth over block: write, sequential"),
    ("fs.io", "bandwidth over block: write, random"),
    ("fs.io", "latency over block: read, sequential"),
    ("fs.io", "latency over block: write, random"),
    ("fs.io", "bandwidth over threads: read, sequential"),
    ("fs.io", "bandwidth over threads: write, random"),
    ("fs.io", "latency over threads: read, random"),
    ("fs.io", "iops over depth"),
    ("net.rtt", "round trip over message"),
    ("memory.latency", "latency over footprint: random"),
    ("memory.bandwidth", "bandwidth over thread count"),
    ("memory.bandwidth", "bandwidth over footprint total"),
    ("cpu.sustained", "flop rate over time"),
    ("net.bandwidth", "bandwidth over message"),
    ("os.ipc", "bandwidth over size"),
    ("fs.read", "latency per block over size"),
    ("fs.contention", "latency over competitors"),
    ("fs.cache_size", "latency per block over"),
    ("noise.activity", "timeline"),
    ("os.schedule", "timeline"),
    ("memory.numa", "latency"),
    ("memory.numa", "bandwidth"),
    ("cpu.core_to_core", "transfer"),
];

#[test]
fn every_listed_plot_is_drawn() {
    let drawn = blocks(&host("epyc-7763-2s", Preset::Thorough), Preset::Thorough, &[""]);
    let titles: Vec<&str> = drawn
        .iter()
        .flat_map(|(_, blocks)| blocks)
        .filter_map(|block| match block {
            Block::Plot(plot) => Some(plot.title.as_str()),
            Block::Grid(grid) => Some(grid.title.as_str()),
            _ => None,
        })
        .collect();
    for (id, what) in LISTED {
        let start = format!("{id}: {what}");
        let is_there = titles.iter().any(|title| title.starts_with(&start));
        assert!(is_there, "{start}, of {titles:#?}");
    }
    let rtt = drawn.iter().find(|(id, _)| id == "net.rtt").unwrap();
    let over_message = plots(&rtt.1).into_iter().find(|plot| plot.title.contains("over message"));
    let lines: Vec<&str> =
        over_message.unwrap().series.iter().map(|line| line.name.as_str()).collect();
    assert!(lines.contains(&"tcp") && lines.contains(&"udp"), "{lines:?}");
}

#[test]
fn every_plot_can_be_read() {
    for preset in [Preset::Quick, Preset::Standard] {
        for (name, site) in sites(preset) {
            for (id, blocks) in blocks(&site, preset, &[""]) {
                let mut titles = Vec::new();
                for plot in plots(&blocks) {
                    let what = format!("{name}: {}", plot.title);
                    assert!(!titles.contains(&&plot.title), "{id}, {what}: drawn twice");
                    titles.push(&plot.title);
                    for axis in [&plot.x, &plot.y] {
                        let is_lanes = plot.series.iter().any(|one| one.shape == Shape::Spans);
                        let is_named = !axis.label.is_empty() || !axis.names.is_empty();
                        assert!(is_named || is_lanes, "{what}: an axis of nothing");
                    }
                    assert!(!plot.series.is_empty(), "{what}");
                    let lies = plot.series.iter().any(|one| one.shape == Shape::Bars);
                    let mut legend = Vec::new();
                    for series in &plot.series {
                        assert!(!series.points.is_empty(), "{what}: {}", series.name);
                        assert!(!legend.contains(&&series.name), "{what}: {}", series.name);
                        legend.push(&series.name);
                        let is_positive =
                            |at: f64, axis: &report::document::Axis| !axis.is_log || at > 0.0;
                        for point in &series.points {
                            // Bars lie: their lengths, and the ranges beside them, run along the
                            // horizontal axis.
                            let (x, y) = if lies { (point.y, point.x) } else { (point.x, point.y) };
                            assert!(is_positive(x, &plot.x), "{what}: {x}");
                            assert!(is_positive(y, &plot.y), "{what}: {y}");
                        }
                    }
                    // A band per line.
                    let is_band = |one: &&report::document::Series| one.shape == Shape::Band;
                    let bands = plot.series.iter().filter(is_band).count();
                    assert!(2 * bands <= plot.series.len() || lies, "{what}: {bands} bands");
                }
            }
        }
    }
}

#[test]
fn runs_stand_in_each_others_plots() {
    let site = host("epyc-7763-2s", Preset::Standard);
    let alone = blocks(&site, Preset::Standard, &[""]);
    let both = blocks(&site, Preset::Standard, &["old", "new"]);
    let mut lines = 0;
    for ((id, alone), (_, both)) in alone.iter().zip(&both) {
        let of_shape = |plots: &[&Plot], shape: Shape| {
            let series = plots.iter().flat_map(|plot| &plot.series);
            series.filter(|series| series.shape == shape).count()
        };
        let (alone, both) = (plots(alone), plots(both));
        for shape in [Shape::Line, Shape::Bars, Shape::Spans] {
            let (one, two) = (of_shape(&alone, shape), of_shape(&both, shape));
            assert_eq!(2 * one, two, "{id}: {shape:?}");
            lines += one;
        }
        assert_eq!(of_shape(&alone, Shape::Band), of_shape(&both, Shape::Band), "{id}");
        let of_lines = both
            .iter()
            .filter(|plot| plot.series.iter().all(|series| series.shape != Shape::Spans));
        for plot in of_lines {
            let of_run =
                |run: &str| plot.series.iter().filter(|one| one.name.ends_with(run)).count();
            assert_eq!(
                of_run("new"),
                plot.series.iter().filter(|one| one.shape != Shape::Band).count() / 2,
                "{}",
                plot.title
            );
        }
    }
    assert!(lines > 50, "{lines}");
    let grids = |drawn: &[(String, Vec<Block>)]| {
        let blocks = drawn.iter().flat_map(|(_, blocks)| blocks);
        blocks.filter(|block| matches!(block, Block::Grid(_))).count()
    };
    assert!(grids(&alone) >= 3);
    assert_eq!(2 * grids(&alone), grids(&both), "side by side");
}

#[test]
fn a_case_without_a_parameter_is_shown_whatever_its_choice() {
    let cases = Cases {
        only: BTreeMap::from([("stride".to_owned(), vec!["64".to_owned()])]),
        each: vec![],
    };
    let stride = |stride: u64| CaseId::new().with("stride", stride);
    assert!(cases.shows(&stride(64)) && cases.shows(&CaseId::new()));
    assert!(!cases.shows(&stride(128)));
}
