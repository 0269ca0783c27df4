//! What does it cost to transfer a cache line from one CPU to another?
//!
//! ## Question
//!
//! How long does a modified cache line take from one CPU to another, by their distance, and does it
//! matter which of the two touched the line first?
//!
//! ## Method
//!
//! Two pinned threads alternate on one word of one shared line: the first makes an even value odd,
//! the second an odd one even, each by compare and swap, retried without pause until it succeeds
//! (`lock cmpxchg`; on Arm `casal`, or `ldaxr` and `stlxr` on older processors; `at` records
//! which). A turn of each is a round trip of two transfers. The first thread times n and 2n round
//! trips in ABBA quartets with its own clock, so no two CPUs' clocks are compared. `transfer` is
//! the difference per transfer: **half a round trip**, as core-to-core-latency prints it (RTT/2);
//! the two directions of a trip are not separated.
//!
//! The home of a line affects the result, so every round uses `lines` fresh lines in turn, each on
//! its own untouched page, at different offsets, and keeps all of them so that the kernel cannot
//! return the same page. Either thread makes the first touch: both directions are cases. The
//! samples record the range of the medians of the lines (`line_low`, `line_high`, in ns).
//!
//! At the end every line's value must be the sum of both threads' turns, and each thread must be on
//! its CPU. A thread waits in bounded spins; after two seconds without an answer it ends the round.
//!
//! A class is measured between the first CPU and its quietest partner. Cells use this machine's CPU
//! numbers: compare them only with runs of the same machine. Sampled pairs are spread over the
//! machine and are the same in every run. A case of a class takes at most 6 ms of a round, a cell 2
//! ms, because the number of cells grows with the square of the CPUs.
//!
//! ## Prediction
//!
//! By distance class and by what connects the cores: siblings share the first-level cache (cycles
//! of two locked instructions), rings and core complexes run at the core's clock (cycles), meshes
//! and links between dies and sockets at their own (ns); values of the published tables. plumb does
//! not trust a virtual machine's topology. Where the cost is in cycles, the derived prediction
//! takes the core clock that clock.rate measured.
//!
//! ## Reading the result
//!
//! The steps between classes are the cost per hand-over for data structures shared across caches or
//! sockets. A cell that is high in both directions is a distant pair; one that differs from its
//! mirror image shows where lines have their home. On a mesh, `line_low` and `line_high` differ
//! because each line has its own home slice. In a virtual machine, a class whose figures form two
//! groups reveals hidden topology: 5 to 10 ns are siblings of one core.
//!
//! ## Pitfalls
//!
//! A result for one line holds for that line only: the asymmetric results of other tools come from
//! that. Failed attempts take the line away from the thread whose turn it is, so a transfer here is
//! that of contended locks; a reader that only loads would see a slightly different time. The core
//! clock is measured for the measuring CPU only, so cells of other CPUs have none. Idle CPUs may
//! clock down or sleep between cells, so each line has a warm-up. If a hypervisor takes a CPU away,
//! the exchange stops: such quartets are long, and steal marks the round.
//!
//! ## Sources
//!
//! [core-to-core] (README: method and tables; issues 97, 154, 156 and 157 on where the line lives,
//! 18 and 137 on many CPUs); [microbenchx] issue 1 (not the mean). Which figure is from which table
//! stands in `crates/laws/src/cpu/coherence.rs`.

mod cells;
mod game;

use crate::add;
use bench::measure::Turns;
use bench::pair::{self, Class};
use bench::prelude::*;
use game::Game;
use host::Distance;
use laws::cpu::{self, coherence};

bench::experiment!(CoreToCore);

/// Fresh lines of a case, unless set otherwise.
const LINES: u64 = 8;
/// A case of a distance class, and a cell of the matrix, are measured no longer than this, in ns:
/// some quartets on each line.
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

symbols! {
    /// The party that touches a line first: the party that measures, or the one that answers.
    pub enum Home { First = "first", Second = "second" }
}
case! {
    /// A distance class with a home, or a cell of the matrix.
    pub struct Handed {
        /// where the two parties run: SMT siblings, under one last-level cache, in one socket, in
        /// different sockets (remote), or on CPUs of unknown distance (other); by default every
        /// class that this machine has
        pair: Option<Class>,
        /// the party that touches the line first: the party that measures or the one that answers
        home: Option<Home>,
        /// CPU that touches the line first and measures; by default every CPU to measure on, as
        /// `whole` and `sample` say
        from: Option<u64> = Domain::Either(&["auto"], 0, CPU_MAX, Unit::Count),
        /// CPU that answers; by default as for `from`
        to: Option<u64> = Domain::Either(&["auto"], 0, CPU_MAX, Unit::Count),
    }
}

impl Handed {
    /// A case of a distance class.
    fn class(pair: Class, home: Home) -> Handed {
        Handed { pair: Some(pair), home: Some(home), from: None, to: None }
    }

    fn cell(&self) -> Option<[usize; 2]> {
        Some([usize::try_from(self.from?).ok()?, usize::try_from(self.to?).ok()?])
    }
}

static CARD: Card = Card {
    id: "cpu.core_to_core",
    title: "Hand-over of a cache line between CPUs",
    metrics: &[Metric::time(
        "transfer",
        "one transfer: half a round trip of two transfers",
        Kind::Hardware,
    )],
    params: params![
        Handed::PARAMS,
        settings! {
            "whole": Domain::count(0, CPU_MAX), ["0", "2", "64"] =>
                "largest number of CPUs for which all ordered pairs are measured";
            "sample": Domain::count(0, 1000), ["0", "0", "8"] =>
                "sampled pairs per distance class on machines with more CPUs";
            "lines": Domain::count(1, 1000), ["8"; 3] => "fresh lines of a case and round";
        }
    ],
    after: &["clock.rate"],
    needs: &[Need::TwoCpus],
    views: &[ViewCard::matrix("from", "to", "transfer")],
    keys: &[KeyFigure::new(
        "cache line between CPUs",
        "",
        "transfer",
        "pair=llc|socket|remote|other,home=first",
    )],
    ..Card::PLAIN
};

impl Experiment for CoreToCore {
    type Case = Handed;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("core_to_core.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let case = Duration::from_nanos(case_ns(series, site.case_ns)) + CASE_OVERHEAD;
        let cases = u32::try_from(series.cases.len()).unwrap_or(u32::MAX);
        case.saturating_mul(cases).saturating_add(ROUND_OVERHEAD)
    };

    /// The cases of the distance classes; the matrix follows from the settings.
    fn cases(site: &Site, _: Preset) -> Vec<Handed> {
        let classes = pair::classes(site).into_iter().filter(|class| *class != Class::Same);
        classes
            .flat_map(|class| Home::ALL.iter().map(move |home| Handed::class(class, *home)))
            .collect()
    }

    fn absent(site: &Site, case: &Handed, _: &Params) -> Option<Skip> {
        match case.pair? {
            Class::Same => Some(Skip::because("a CPU hands no cache line to itself")),
            class => pair::in_class(site, class).err(),
        }
    }

    fn series(site: &Site, cases: Vec<Handed>, params: &Params) -> Result<Offer, Skip> {
        if site.cpus.len() < 2 {
            return Err(Skip::because("only one CPU to measure on: a hand-over needs two")
                .needs("a second CPU, allowed and named by --cpu"));
        }
        let mut offer = Offer::default();
        let classes =
            cases.into_iter().map(|case| (CLASSES, Self::absent(site, &case, params), case));
        let cells = cells::cells(site, params).into_iter().map(|(case, skip)| (MATRIX, skip, case));
        for (name, skip, case) in classes.chain(cells) {
            add(&mut offer, (&CARD, name, Self::ORDER), &case, skip);
        }
        let lines = params.ints("lines").first().copied().unwrap_or(LINES);
        for series in &mut offer.series {
            series.settings = [("lines".to_owned(), Value::Int(lines))].into();
        }
        Ok(offer)
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            if let Some(class) = Handed::from_id(&case.id).and_then(|handed| handed.pair) {
                pair::place(case, pair::in_class(site, class)?);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Handed, _: &Case, _: &Metric) -> Option<Prediction> {
        let Some(distance) = distance(facts.site, case) else {
            return facts.known.is_none().then(|| unknown("unknown: no such pair of CPUs"));
        };
        let is_told = facts.known.is_none()
            || cpu::knows_clock(facts) && coherence::follows_core_clock(facts.site, distance);
        is_told.then(|| Prediction {
            otherwise: coherence::in_two_complexes(facts.site, distance),
            ..coherence::transfer(facts, distance).prediction()
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let lines = usize::try_from(series.setting("lines").unwrap_or(LINES))?;
        bench.each_of::<Handed>(series, |bench, case, handed| {
            let cpus = handed.cell().or_else(|| pair::cpus(case));
            let cpus = cpus.with_context(|| format!("{} was not resolved to two CPUs", case.id))?;
            let home = handed.home.unwrap_or(Home::First);
            let game =
                Game { cpus, home, lines, case_ns: case_ns(series, bench.order().case_ns) as f64 };
            bench.declare(Declared::Cpus(&cpus));
            let played = game
                .play(bench)
                .with_context(|| format!("handing lines from CPU {} to {}", cpus[0], cpus[1]))?;
            write(case, bench, cpus, played)
        });
        Ok(())
    }
}

/// How far the two CPUs of a case are apart; `None`: there is no such case. The inner `None`: the
/// kernel does not know.
fn distance(site: &Site, case: &Handed) -> Option<Option<Distance>> {
    let cpus = match case.pair {
        Some(Class::Same) => return None,
        Some(class) => pair::in_class(site, class).ok()?.cpus,
        None => case.cell()?,
    };
    Some(site.host.cpu.distance(cpus[0], cpus[1]))
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
    bench.declare(Declared::Switches(played.switches));
    let measures_elsewhere = cpus[0] != bench.order().cpu();
    let spread = played.line_spread();
    let quartets = Turns::joined(played.lines);
    let samples = bench.record(case, "transfer", Values::quartets(played.k, quartets))?;
    samples.at.put("instruction", metal::line::method());
    if let Some((low, high)) = spread {
        samples.quantities.put("line_low", low);
        samples.quantities.put("line_high", high);
    }
    if measures_elsewhere {
        // What was taken around the case is another CPU's clock.
        samples.forget_clock();
    }
    samples.notes.extend(played.note);
    Ok(())
}

#[cfg(test)]
mod tests;
