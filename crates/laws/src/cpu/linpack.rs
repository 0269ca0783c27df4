//! What a dense solve takes: its products at a share of the peak rate of the vector units, and for
//! each element of the matrix some cycles that no product does (exchanges, panels, triangles).

use super::peak::{
    Arithmetic, Op, Threads, distinct_cores, measured_peak, peak_rate, per_cycle, thread_cpus,
};
use super::{best_core_clock, cycles_text};
use crate::{Facts, Law, ceiling, range};
use bench::experiment::Site;
use record::event::{Bound, Range};

/// Share of the peak that a well-made product reaches in the shapes of a factorisation. Libraries
/// reach 0.9 in square products of thousands; here one dimension is the width of a block.
const PRODUCT_SHARE: Range = range(0.5, 0.72, 0.92);
/// The same where there is no fused operation, of the rate of multiplications alone: additions run
/// beside them, but the product's kernel is a plain loop then.
const PLAIN_SHARE: Range = range(0.4, 1.1, 2.0);
/// Operations of f64 that no core known to plumb passes in a cycle.
const MOST_PER_CYCLE: f64 = 32.0;
/// Cycles for each element of the matrix beside the products. From runs of one core with
/// AVX-512; on others the loops are as wide as their vectors, so the range is wide.
const CYCLES_PER_ELEMENT: Range = range(9.0, 22.0, 50.0);
/// Share of those cycles that threads do not divide: panels, each after the one before.
const SERIAL_SHARE: f64 = 0.3;
/// Threads from which memory and the way between cores begin to matter; beyond, nothing is sure.
const MANY_THREADS: f64 = 16.0;

/// A solve by threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solve {
    pub n: u64,
    /// Threads, one of each core of the site first.
    pub threads: usize,
    /// Blocks of columns that the threads share.
    pub blocks: usize,
}

/// Floating-point operations of a solve as HPL counts them: `2/3 n^3 + 3/2 n^2`.
pub fn solve_operations(n: u64) -> f64 {
    let n = n as f64;
    2.0 / 3.0 * n.powi(3) + 1.5 * n.powi(2)
}

pub fn solve_rate(facts: Facts, solve: Solve) -> Law {
    let site = facts.site;
    let share = if fused(site).is_some() { PRODUCT_SHARE } else { PLAIN_SHARE };
    let cores = distinct_cores(site, &thread_cpus(site, solve.threads)).max(1) as f64;
    // Blocks that do not divide evenly, and threads that wait for a panel.
    let uneven = match solve.threads {
        0 | 1 => range(1.0, 1.0, 1.0),
        threads => {
            let share = threads as f64 / solve.blocks.max(1) as f64;
            range(1.0, 1.0 + 0.5 * share, 1.0 + 2.0 * share)
        }
    };
    let operations = solve_operations(solve.n);
    let products = peak_of_one(facts)
        .by(share)
        .inverse(operations / cores)
        .by(uneven)
        .and(format!("matrix products reach {} of that on {cores} cores", cycles_text(share)));
    let elements = (solve.n as f64).powi(2) * (SERIAL_SHARE + (1.0 - SERIAL_SHARE) / cores);
    let rest = best_core_clock(facts).inverse(elements).by(CYCLES_PER_ELEMENT).and(format!(
        "{} cycles per element outside the products",
        cycles_text(CYCLES_PER_ELEMENT)
    ));
    spread(site, solve, (products + rest).inverse(operations))
}

/// What makes the rate of several threads less sure.
fn spread(site: &Site, solve: Solve, estimate: Law) -> Law {
    let is_uneven = solve.threads > 1 && site.host.cpu.classes.len() > 1;
    let many = solve.threads as f64 / MANY_THREADS;
    let limits = "more than 16 threads: memory and the interconnect also limit";
    estimate
        .when(is_uneven, |law| law.widened(2.0, 1.0, "threads wait for those on slower cores"))
        .when(many > 1.0, |law| law.widened(1.0 + many, 1.0, limits))
}

/// The rate that so many threads never pass, from their cores' clock and vector units.
pub fn solve_bound(site: &Site, threads: usize) -> Bound {
    let cpus = thread_cpus(site, threads);
    let cores = distinct_cores(site, &cpus).max(1);
    let (constant, firm) = fused(site)
        .and_then(|fused| per_cycle(site, fused, &cpus))
        .unwrap_or((MOST_PER_CYCLE, false));
    let rule = format!("at most {constant} operations a cycle of {cores} cores, at the core clock");
    let inputs = vec![("core_hz".to_owned(), 1)];
    // The other cores' clocks are not known.
    let warns_only = threads > 1 || !firm;
    Bound { inputs, warns_only, ..ceiling(constant * cores as f64, 0.05, rule) }
}

/// The fused operation on f64 at the greatest width: without one, the product's plain kernel runs.
fn fused(site: &Site) -> Option<Arithmetic> {
    Arithmetic::chief(site).filter(|chief| chief.op == Op::Fma)
}

/// Floating-point operations of f64 per second that one thread reaches at most: cpu.peak's figure,
/// else its law.
fn peak_of_one(facts: Facts) -> Law {
    let Some(chief) = Arithmetic::chief(facts.site) else {
        let any = Law::hardware(range(1.0, 4.0, MOST_PER_CYCLE), "vector units unknown");
        let clock = best_core_clock(facts);
        return any.by(clock.range).with(&clock);
    };
    match measured_peak(facts, chief, Threads::Number(1)) {
        Some(rate) => Law::measured(rate, 0.03, format!("{rate:.3e} flop/s measured by cpu.peak")),
        None => peak_rate(facts, chief, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::solve_operations;

    #[test]
    fn operations_are_as_hpl_counts_them() {
        assert_eq!(solve_operations(3), 18.0 + 13.5);
        assert!((solve_operations(1000) / 668.167e6 - 1.0).abs() < 1e-5);
    }
}
