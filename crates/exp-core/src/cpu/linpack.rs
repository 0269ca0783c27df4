//! How fast does the processor solve a dense system of linear equations?
//!
//! ## Question
//!
//! At what rate do one thread and all threads solve n equations in double precision with partial
//! pivoting, and what share of the vector units' peak is that?
//!
//! ## Method
//!
//! The problem of HPL: n x n elements and a right-hand side, drawn evenly from [-0.5, 0.5), a new
//! system for each solve. LU factorisation by blocks of columns, right-looking, panels by halves;
//! the right-hand side is one more column, then the unknowns are found from the last up. The
//! products, nearly all of the work, are those of the crate `gemm` (AVX-512 or AVX2 with FMA where
//! present, NEON on aarch64); exchanges, panels of 8 columns and triangles of 16 rows are plumb's
//! own loops, compiled for the same vectors. Threads are pinned, one thread per CPU, filling
//! physical cores first, and share the blocks in turn; the next panel is factored in parallel with
//! the updates of the previous one. The matrix is in huge pages if available, and each block is
//! first touched by its thread.
//!
//! As in HPL, the time covers factorisation and solution, from when all threads have their columns,
//! not the generation of the system. Each solve is an event; a round has as many as its time
//! allows, at least one. `rate` counts `2/3 n^3 + 3/2 n^2` operations, as HPL does. After each
//! solve plumb regenerates the system, column by column, and computes HPL's scaled residual,
//! `|Ax-b| / (eps (|A| |x| + |b|) n)` in the infinity norm with eps = 2^-53; at 16 or more (HPL's
//! threshold) the case fails.
//!
//! ## Prediction
//!
//! Operations at a share of the peak (lanes x units x 2 x core clock; once known, cpu.peak's
//! figure), and some cycles per matrix element besides the products, which threads share only in
//! part. Bound: the peak of the vector instructions that the crate uses, at the round's core clock.
//!
//! ## Reading the result
//!
//! The rate grows with n, because products grow with n³ and everything else with n². With `all`
//! small systems gain little: there are few blocks to share, and panels are sequential. If the rate
//! is far below the prediction at large n, check for: memory without huge pages, a lowered clock
//! under vector load, or a neighbour on a core. The `residual` is normally 0.001 to 0.05 and says
//! nothing about speed.
//!
//! ## Pitfalls
//!
//! Any good solver exceeds a peak that ignores vector units or fused operations (R3 found more than
//! 100 %). Two threads on one core share its units. HPL's rate at small n depends on its block size
//! NB and process grid, so a comparison takes the best of several. The residual catches a wrong
//! solution, which a rate alone does not.
//!
//! ## Sources
//!
//! [R3]: LINPACK; [hpl] (operation count, residual, threshold); [toledo] (panels).

use super::peak::load::cpus_of;
use crate::too_much;
use bench::prelude::*;
use host::format_cpus;
use laws::cpu::peak::{Threads, thread_cpus};
use laws::cpu::{self, Solve, solve_bound, solve_operations, solve_rate};
use metal::matrix::Matrix;
use record::event::{Bound, Side};
use record::order::InOrder;
use residual::{THRESHOLD, scaled_residual};
use solve::{Solver, System, block_columns};

mod lu;
mod residual;
mod solve;
#[cfg(test)]
mod tests;

bench::experiment!(Linpack);

/// Equations in a rehearsal, whatever the case says: code without optimisation solves them in
/// milliseconds.
const REHEARSAL_N: usize = 48;
/// Solves of a case in one round, at most.
const SOLVES_MAX: usize = 200;
/// Making an element of the system, and its part of the residual, in ns, on a slow core.
const ELEMENT_NS: f64 = 8.0;
/// Threads made and warmed up for each solve, in ns.
const START_NS: f64 = 2e6;
/// Room for threads' buffers beside the matrix, in bytes each.
const THREAD_BYTES: u64 = 4 << 20;

case! {
    /// A system of equations, and how many solve it.
    pub struct Solved {
        /// equations, in a matrix of 8 n² bytes; sizes whose round would take too long in the
        /// preset are left out
        n: u64 = Domain::count(2, 200_000),
        /// threads, each on a CPU of its own, one of each core first; all: one on each allowed CPU
        threads: Threads = Domain::Either(&["all"], 1, 4096, Unit::Count),
    }
}

static CARD: Card = Card {
    id: "cpu.linpack",
    title: "Dense system of linear equations",
    metrics: metrics! {
        "rate" => FlopPerS Higher Hardware:
            "operations (HPL's count) over the time of factorisation and solution";
        "residual" => Ratio None Hardware:
            "HPL's scaled residual of the solution; 16 or more means a wrong solution";
    },
    params: Solved::PARAMS,
    after: &["clock.rate", "cpu.peak"],
    views: &[ViewCard::line("n", "rate").log_x()],
    keys: &[KeyFigure::new("linear system, n = 1000", "", "rate", "n=1000,threads=1")],
    ..Card::PLAIN
};

impl Experiment for Linpack {
    type Case = Solved;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("linpack.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfCase, ..Hazards::NONE };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let cases = series.cases.iter().filter_map(|case| Solved::from_id(&case.id));
        let all_ns: f64 = cases.map(|solved| case_cost_ns(site, &solved)).sum();
        Duration::from_nanos(all_ns as u64) + Duration::from_millis(30)
    };

    fn cases(_: &Site, preset: Preset) -> Vec<Solved> {
        let (sizes, counts): (&[u64], &[Threads]) = match preset {
            Preset::Rehearsal | Preset::Quick => (&[1000], &[Threads::Number(1)]),
            Preset::Standard => (&[1000, 2000], &[Threads::Number(1), Threads::All]),
            Preset::Thorough => {
                (&[500, 1000, 2000, 4000, 8000], &[Threads::Number(1), Threads::All])
            }
        };
        let of = |&n| counts.iter().map(move |&threads| Solved { n, threads });
        sizes.iter().flat_map(of).collect()
    }

    fn series(site: &Site, mut cases: Vec<Solved>, params: &Params) -> Result<Offer, Skip> {
        let limit_ns = round_limit_ns(params.preset);
        cases.order_by_key(|solved| solved.n);
        let (mut offer, mut taken) = (Offer::default(), Vec::new());
        let mut used_ns = 0.0;
        for solved in cases {
            let has_one = taken.contains(&Solved { threads: Threads::Number(1), ..solved });
            let cost_ns = case_cost_ns(site, &solved);
            let is_too_long = used_ns + cost_ns > limit_ns;
            let skip = unfit(site, &solved, has_one)
                .or_else(|| is_too_long.then(|| too_long(cost_ns, limit_ns)));
            match skip {
                Some(skip) => offer.skipped.push((solved.id(), skip)),
                None => {
                    used_ns += cost_ns;
                    offer.series_named(&CARD, "", Self::ORDER).cases.push(Case::new(solved.id()));
                    taken.push(solved);
                }
            }
        }
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let threads = Solved::from_id(&case.id).map_or(1, |solved| solved.threads.count(site));
            case.at.put("cpus", format_cpus(&thread_cpus(site, threads)));
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Solved, _: &Case, metric: &Metric) -> Option<Prediction> {
        if metric.name == "residual" {
            // Speeds say nothing about it.
            return facts.known.is_none().then(|| bounded(residual_prior(), residual_bound()));
        }
        let solve = solve_of(facts.site, case);
        let bound = solve_bound(facts.site, solve.threads);
        cpu::knows_clock(facts).then(|| solve_rate(facts, solve).bounded(bound).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Solved>(series, |bench, case, solved| solve_case(case, &solved, bench));
        Ok(())
    }
}

/// Solves systems of one case until its time is over, and writes down the rates and residuals.
fn solve_case(case: &Case, solved: &Solved, bench: &mut Bench) -> Result<()> {
    let mut cpus = cpus_of(case);
    // The measuring thread is the first of them.
    let measuring = bench.order().cpu();
    let own = cpus.iter().position(|cpu| *cpu == measuring);
    let own = own.with_context(|| format!("no thread is on the measuring CPU, {measuring}"))?;
    cpus.swap(0, own);
    let threads = cpus.len();
    bench.declare(Declared::Cpus(&cpus));
    let n = if bench.order().rehearsal { REHEARSAL_N } else { usize::try_from(solved.n)? };
    let block = block_columns(n, threads);
    let mut solver = Solver::new(n, block, &cpus)?;
    let clock = bench.order().clock();
    let (seed, round_ns) = (bench.order().seed, bench.order().case_ns as f64);
    let (mut rates, mut residuals) = (Vec::new(), Vec::new());
    let begin = clock.start();
    loop {
        let system = System { n, seed: seed.wrapping_add(rates.len() as u64) };
        let solved = solver.solve(|index, column| system.fill(index, column), || clock.end())?;
        let residual = scaled_residual(&system, &solved.x);
        ensure!(
            residual < THRESHOLD,
            WrongResult(format!(
                "the scaled residual of the solution is {residual:.3}, {THRESHOLD} is HPL's \
                 threshold: it does not solve the system"
            ))
        );
        let seconds = clock.between_ns(solved.from, solved.to) / 1e9;
        rates.push(solve_operations(n as u64) / seconds);
        residuals.push(residual);
        let past_ns = clock.between_ns(begin, clock.end());
        bench.declare(Declared::Alive);
        // Another one must fit.
        let one_ns = past_ns / rates.len() as f64;
        if rates.len() >= SOLVES_MAX || past_ns + one_ns > round_ns {
            break;
        }
    }
    let samples = bench.record(case, "rate", rates)?;
    samples.at.put("block", block as u64);
    samples.quantities.put("huge_share", solver.huge_share());
    bench.record(case, "residual", residuals)?;
    Ok(())
}

fn solve_of(site: &Site, case: &Solved) -> Solve {
    let threads = case.threads.count(site);
    let equations = usize::try_from(case.n).unwrap_or(usize::MAX);
    Solve { n: case.n, threads, blocks: equations.div_ceil(block_columns(equations, threads)) }
}

/// Why a case cannot be here, whatever its time.
fn unfit(site: &Site, case: &Solved, has_one: bool) -> Option<Skip> {
    let solve = solve_of(site, case);
    let cpus = site.cpus.len();
    if solve.threads > cpus {
        let reason = format!("{} threads, but {cpus} CPUs are allowed", solve.threads);
        return Some(Skip::because(reason).needs("more allowed CPUs, or fewer threads"));
    }
    if case.threads == Threads::All && solve.threads == 1 && has_one {
        return Some(Skip::because("one CPU is allowed: the same as threads=1").needs("two CPUs"));
    }
    let equations = usize::try_from(solve.n).unwrap_or(usize::MAX);
    let matrix = Matrix::bytes(equations, equations.saturating_add(1)) as u64;
    let needed = matrix.saturating_add(THREAD_BYTES * solve.threads as u64);
    too_much(site, needed, "a smaller n")
}

/// Why a case that would take so long is left out.
fn too_long(cost_ns: f64, limit_ns: f64) -> Skip {
    Skip::because(format!(
        "a round of this size would take about {}, together with the smaller sizes more than {}",
        render(cost_ns, Unit::Ns),
        render(limit_ns, Unit::Ns)
    ))
    .needs("a smaller n, or --preset thorough")
}

/// Time of one round that a preset gives all sizes together, in ns.
fn round_limit_ns(preset: Preset) -> f64 {
    match preset {
        // The sizes are not those of the cases.
        Preset::Rehearsal => f64::INFINITY,
        Preset::Quick => 0.3e9,
        Preset::Standard => 1.2e9,
        Preset::Thorough => 40e9,
    }
}

/// What a case takes of a round: its time, or one solve with all that belongs to it if that is
/// longer.
fn case_cost_ns(site: &Site, case: &Solved) -> f64 {
    let solve = solve_of(site, case);
    let rate = solve_rate(Facts::prior(site), solve).range.likely;
    let solving_ns = solve_operations(solve.n) / rate * 1e9;
    let elements = (solve.n as f64).powi(2);
    let one_ns = solving_ns + ELEMENT_NS * elements + START_NS;
    one_ns.max(site.case_ns as f64)
}

fn residual_prior() -> Prediction {
    predicted(
        0.0005,
        0.007,
        0.1,
        "base hardware: none; software: partial pivoting on uniform random elements leaves an \
         error of a few roundings, which HPL's scaling by n puts between 0.0005 and 0.1",
    )
}

fn residual_bound() -> Bound {
    Bound {
        side: Side::AtMost,
        constant: THRESHOLD,
        inputs: Vec::new(),
        uncertainty: 0.0,
        rule: "HPL's threshold: a solution beyond it does not solve the system".to_owned(),
        warns_only: false,
    }
}
