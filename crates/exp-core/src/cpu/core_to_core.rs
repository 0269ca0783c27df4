//! What does it cost to hand a cache line from one CPU to another?
//!
//! ## Question
//!
//! How long does a modified cache line take from one CPU to another, by their distance, and does it
//! matter which of the two touched the line first?
//!
//! ## Method
//!
//! Two threads, each pinned to its CPU, play on one word of one shared line: the first makes an even
//! value odd, the second an odd one even, each by compare and swap, tried without pause until it
//! succeeds (`lock cmpxchg`; on Arm `casal`, or `ldaxr` and `stlxr` where there is nothing else; which
//! one stands in `at`). A turn of each is a round trip of two transfers. The first thread times n
//! and 2n round trips in ABBA quartets with its own clock, so no two CPUs' clocks are compared.
//! `transfer` is the difference per transfer: **half a round trip**, as core-to-core-latency prints it
//! (RTT/2); the two ways of one trip are not told apart.
//!
//! Where a line lives decides part of the answer, so every round takes `lines` fresh ones in turn,
//! each on a page of its own that nobody touched before, at different places of their pages, and all
//! held at once, so that the kernel cannot give the same page again. The first touch is by the one
//! party or by the other: both directions are cases. The spread between the medians of the
//! lines stands beside the figure (`line_low`, `line_high`, in ns).
//!
//! Every line's value must in the end be the sum of both parties' turns, and each party must be found
//! on its CPU. A party waits in bounded spins; one that hears nothing for two seconds ends the round.
//!
//! ## Prediction
//!
//! By distance class and by what connects the cores: siblings share the first-level cache (cycles of
//! two locked instructions), rings and core complexes run at the core's clock (cycles), meshes and
//! links between dies and sockets at their own (ns); values of the published tables. A virtual
//! machine's topology is not believed. Where the cost is one of cycles, the derived prediction takes
//! the core clock that clock.rate measured.
//!
//! ## Parameters
//!
//! - `pair`: distance class of the two CPUs; the first CPU and its quietest partner of the class. On
//!   the same CPU no line is handed over, so `same` is skipped.
//! - `home`: who touches the line first: the party that measures (`first`) or the one that answers
//!   (`second`).
//! - `from`, `to`: numbers of CPUs, the cells of the matrix: `from` touches the line first and
//!   measures, `to` answers, so both directions of a pair are cells. Numbers are this machine's: compare
//!   cells with runs of the same machine only.
//! - `whole`: up to so many CPUs all their ordered pairs are cells. Above, pairs are sampled.
//! - `sample`: pairs sampled for each distance class, spread over the machine, always the same ones;
//!   both directions of each.
//! - `lines`: fresh lines of a case and round.
//!
//! A case of a class takes at most 6 ms of a round, a cell at most 2 ms, because the number of cells
//! grows with the square of the CPUs.
//!
//! ## Reading the result
//!
//! The steps between classes are what data structures shared across caches or sockets pay per
//! hand-over. A cell that stands out in both directions is a far pair; one that differs from its mirror
//! image shows where lines are homed. On a mesh, `line_low` and `line_high` differ because each line has
//! a home slice of its own. In a virtual machine figures of one class that fall into two groups tell
//! what the topology hides: 5 to 10 ns are siblings of one core.
//!
//! ## Pitfalls
//!
//! Measuring one line only answers for that line: rivals' asymmetric results come from that. Looks in
//! vain take the line away from the party whose turn it is, so a transfer here is that of contended
//! locks; a reader that only loads would wait a little differently. Core clocks of `from` are taken
//! for the measuring CPU only, so cells of others have none. Idle CPUs may clock down or sleep
//! between cells; each line is played for a while before it is timed. A hypervisor that takes a CPU
//! away stops the game: such quartets are long, and steal marks the round.
//!
//! ## Sources
//!
//! N. Viennot, core-to-core-latency (README: method and tables; issues 97, 154, 156 and 157 on where
//! the line lives, 18 and 137 on many CPUs); MicroBenchX issue 1 (not the mean); the intervals' sources
//! stand in `predict/cpu/coherence.rs`.

mod cells;
mod game;

use anyhow::{Context, Result};
use bench::experiment::{
    Card, Domain, Experiment, Known, Need, Offer, Param, Params, Role, Site, Skip, ViewCard,
    unknown,
};
use bench::measure::{Bench, Turns};
use bench::pair;
use game::{Game, Home};
use host::Distance;
use laws::Law;
use laws::cpu::{self, coherence};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: CoreToCore = CoreToCore;

/// `cpu.core_to_core`.
pub struct CoreToCore;

/// Fresh lines of a case, unless set otherwise.
const LINES: u64 = 8;
/// A case of a distance class, and a cell of the matrix, are measured no longer than this, in ns: some
/// quartets on each line.
const CLASS_NS: u64 = 6_000_000;
const CELL_NS: u64 = 2_000_000;
/// Two threads made and joined, their lines mapped, the core clock taken.
const CASE_OVERHEAD: Duration = Duration::from_micros(2500);
/// Start of a worker and its end.
const ROUND_OVERHEAD: Duration = Duration::from_millis(30);
/// Series of the distance classes and of the matrix.
const CLASSES: &str = "classes";
const MATRIX: &str = "matrix";
/// The largest number of a CPU that may be asked for.
const CPU_MAX: u64 = 65_535;

static CARD: Card = Card {
    id: "cpu.core_to_core",
    title: "Hand-over of a cache line between CPUs",
    metrics: &[Metric::time(
        "transfer",
        "one transfer: half a round trip of two transfers",
        Kind::Hardware,
    )],
    params: &[
        pair::PARAM,
        Param {
            name: "home",
            doc: "who touches the line first: the party that measures or the one that answers",
            domain: Domain::Symbols(&["first", "second"]),
            defaults: ["first,second"; 3],
            role: Role::Case,
        },
        Param {
            name: "from",
            doc: "CPU that touches the line first and measures; auto: every CPU to measure on, as \
                  `whole` and `sample` say",
            domain: Domain::Either(&["auto"], 0, CPU_MAX, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "to",
            doc: "CPU that answers; auto as for `from`",
            domain: Domain::Either(&["auto"], 0, CPU_MAX, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "whole",
            doc: "up to so many CPUs all ordered pairs of them are cells of the matrix",
            domain: Domain::Integer { low: 0, high: CPU_MAX, unit: Unit::Count },
            defaults: ["0", "2", "64"],
            role: Role::Setting,
        },
        Param {
            name: "sample",
            doc: "pairs that are sampled for each distance class where there are more CPUs",
            domain: Domain::Integer { low: 0, high: 1000, unit: Unit::Count },
            defaults: ["0", "0", "8"],
            role: Role::Setting,
        },
        Param {
            name: "lines",
            doc: "fresh lines of a case and round",
            domain: Domain::Integer { low: 1, high: 1000, unit: Unit::Count },
            defaults: ["8"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate"],
    needs: &[Need::TwoCpus],
    views: &[ViewCard::matrix("from", "to", "transfer")],
    ..Card::PLAIN
};

impl Experiment for CoreToCore {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("core_to_core.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        if site.cpus.len() < 2 {
            return Err(Skip::because("there is one CPU to measure on: nobody to hand a line to")
                .needs("a second CPU, allowed and named by --cpu"));
        }
        let mut skipped = Vec::new();
        let classes = class_cases(site, params, &mut skipped);
        let matrix = cells::cells(site, params, &mut skipped);
        let lines = params.ints("lines").first().copied().unwrap_or(LINES);
        let series = [(CLASSES, classes), (MATRIX, matrix)]
            .into_iter()
            .filter(|(_, cases)| !cases.is_empty())
            .map(|(name, cases)| Series {
                experiment: CARD.id.to_owned(),
                name: name.to_owned(),
                order: Order::Shuffled,
                cases,
                settings: [("lines".to_owned(), Value::Int(lines))].into(),
            });
        Ok(Offer { series: series.collect(), skipped })
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let case = Duration::from_nanos(case_ns(series, site.case_ns)) + CASE_OVERHEAD;
        let cases = u32::try_from(series.cases.len()).unwrap_or(u32::MAX);
        case.saturating_mul(cases).saturating_add(ROUND_OVERHEAD)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            if let Some(symbol) = case.text("pair") {
                let pair = pair::named(site, symbol)?;
                pair::place(case, pair);
            }
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        let Some(distance) = distance(site, case) else {
            return known.is_none().then(|| unknown("unknown: no such pair of CPUs"));
        };
        if let Some(known) = known {
            cpu::measured_core_hz(known)?;
            if !coherence::follows_core_clock(site, distance) {
                return None;
            }
        }
        let estimate = coherence::transfer(laws::Facts { site, known }, distance);
        Some(Law::prediction(estimate))
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let lines = usize::try_from(series.setting("lines").unwrap_or(LINES))?;
        bench.each(series, |bench, case| {
            let (cpus, home) = parties(case)
                .with_context(|| format!("{} was not resolved to two CPUs", case.id))?;
            let game =
                Game { cpus, home, lines, case_ns: case_ns(series, bench.order().case_ns) as f64 };
            bench.use_cpus(&cpus);
            let played = game
                .play(bench)
                .with_context(|| format!("handing lines from CPU {} to {}", cpus[0], cpus[1]))?;
            write(case, bench, cpus, played)
        });
        Ok(())
    }
}

/// Cases of the distance classes, and why some are absent.
fn class_cases(site: &Site, params: &Params, skipped: &mut Vec<(CaseId, Skip)>) -> Vec<Case> {
    let present: Vec<&str> = match params.chosen("pair") {
        Some(_) => params.texts("pair"),
        None => pair::classes(site).into_iter().map(pair::Class::text).collect(),
    };
    let auto = params.chosen("pair").is_none();
    let mut cases = Vec::new();
    for symbol in present {
        for home in params.texts("home") {
            let id = CaseId::new().with("pair", symbol).with("home", home);
            match pair::named(site, symbol) {
                Ok(_) if symbol != "same" => cases.push(Case::new(id)),
                // That a CPU has no line to hand to itself need not be told every time.
                Ok(_) if auto => {}
                Ok(_) => {
                    let skip = Skip::because("a CPU hands no cache line to itself");
                    skipped.push((id, skip));
                }
                Err(skip) => skipped.push((id, skip)),
            }
        }
    }
    cases
}

/// How far the two CPUs of a case are apart; `None`: there is no such case. The inner `None`: the
/// kernel does not tell.
fn distance(site: &Site, case: &Case) -> Option<Option<Distance>> {
    let cpus = match case.text("pair") {
        Some("same") => return None,
        Some(symbol) => match pair::named(site, symbol) {
            Ok(pair) => pair.cpus,
            Err(_) => return None,
        },
        None => cells::cpus(&case.id)?,
    };
    Some(site.host.cpu.distance(cpus[0], cpus[1]))
}

/// Who measures, who answers, and who touches the line first.
fn parties(case: &Case) -> Option<([usize; 2], Home)> {
    match case.text("home") {
        None => Some((cells::cpus(&case.id)?, Home::First)),
        Some("first") => Some((pair::cpus(case)?, Home::First)),
        Some("second") => Some((pair::cpus(case)?, Home::Second)),
        Some(_) => None,
    }
}

/// Measuring time of a case in a round, in ns.
fn case_ns(series: &Series, case_ns: u64) -> u64 {
    match series.name.as_str() {
        MATRIX => case_ns.min(CELL_NS),
        _ => case_ns.min(CLASS_NS),
    }
}

/// Writes down what a game showed.
fn write(case: &Case, bench: &mut Bench, cpus: [usize; 2], played: game::Played) -> Result<()> {
    bench.planned_switches(played.switches);
    let measures_elsewhere = cpus[0] != bench.cpu();
    let spread = played.line_spread();
    let quartets = Turns::joined(played.lines);
    let samples = bench.record_quartets(case, "transfer", played.k, quartets)?;
    samples.at.insert("instruction".to_owned(), Value::from(metal::line::method()));
    if let Some((low, high)) = spread {
        samples.quantities.insert("line_low".to_owned(), low);
        samples.quantities.insert("line_high".to_owned(), high);
    }
    if measures_elsewhere {
        // What was taken around the case is another CPU's clock.
        samples.core_hz = None;
        samples.quantities.remove("core_hz");
    }
    samples.notes.extend(played.note);
    Ok(())
}

#[cfg(test)]
mod tests;
