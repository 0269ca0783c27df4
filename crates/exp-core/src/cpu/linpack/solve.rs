//! The system as HPL sets it up, and its solution by threads that share the columns.
//!
//! The matrix and the right-hand side beside it are cut into blocks of columns, and the blocks are
//! dealt out to the threads in turn. A panel, once factored, is published and only read; each
//! thread applies it to its own blocks, the next panel first, which it factors and publishes at
//! once. So the factorisation of a panel overlaps the updates by the previous one, and no thread
//! waits at a barrier. Rows are exchanged to the right of a panel only: the right-hand side is a
//! column like the others, so L is not needed afterwards. The unknowns are found from the last
//! block up in the same way.

use super::lu::{Panel, Singular};
use bench::measure::Team;
use bench::measure::team::{Fault, Seat, all_of};
use bench::prelude::*;
use metal::matrix::{Matrix, View, ViewMut, subtract_product};
use metal::memory::Pages;
use metal::place;
use std::sync::OnceLock;
use std::thread;

/// Turns of waiting awake before the CPU is offered to others: threads may share one.
const SPINS: u32 = 1000;
/// Products of the warm-up, and their most rows, columns and depth.
const WARM_UP: (usize, usize) = (4, 192);

/// A system of `n` equations with elements drawn evenly from [-0.5, 0.5).
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) n: usize,
    /// What the elements are drawn from.
    pub(super) seed: u64,
}

impl System {
    /// Fills column `index` of the matrix; column `n` is the right-hand side.
    pub(super) fn fill(&self, index: usize, column: &mut [f64]) {
        // Two draws between the seed and the stream of a column, so that streams of neighbours
        // have nothing to do with each other.
        let mut seeds = fastrand::Rng::with_seed(self.seed);
        let mut seed = fastrand::Rng::with_seed(seeds.u64(..) ^ index as u64);
        let mut stream = fastrand::Rng::with_seed(seed.u64(..));
        column.fill_with(|| stream.f64() - 0.5);
    }
}

/// A solution and when it was found.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) x: Vec<f64>,
    /// When all threads had their columns and began, and when the last unknown was found, by the
    /// given clock.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Columns of a block for `n` equations and so many threads: wide ones make better products, but
/// fewer of them to share, and longer panels to wait for.
pub(super) fn block_columns(n: usize, threads: usize) -> usize {
    let wide = match (n, threads) {
        (0..=1535, 2..) => 64,
        (0..=767, _) => 128,
        (768..=1535, _) => 64,
        (1536..=2999, _) => 128,
        _ => 192,
    };
    // Several blocks for each thread.
    let share = (n / (4 * threads.max(1))).next_multiple_of(16);
    wide.min(share.max(16))
}

#[derive(Debug)]
pub(super) struct Solver {
    matrix: Matrix,
    n: usize,
    block: usize,
    cpus: Vec<usize>,
}

impl Solver {
    /// Room for `n` equations, in blocks of so many columns, for one thread on each of `cpus`; the
    /// calling thread is the first. Errors: no memory.
    pub(super) fn new(n: usize, block: usize, cpus: &[usize]) -> Result<Self> {
        ensure!(n > 0 && block > 0, "no equations, or blocks of none");
        let matrix = Matrix::new(n, n + 1, Pages::Huge)
            .or_else(|_| Matrix::new(n, n + 1, Pages::Base))
            .with_context(|| format!("memory for {n} equations"))?;
        Ok(Solver { matrix, n, block, cpus: cpus.to_vec() })
    }

    /// Share of the matrix that lies in huge pages; 0 if that is unknown.
    pub(super) fn huge_share(&self) -> f64 {
        self.matrix.huge_share().unwrap_or(0.0)
    }

    /// Fills the memory by `fill(column, elements)` and solves. Errors: a singular matrix
    /// ([`Singular`]), a thread that cannot be made, or a CPU that cannot be pinned to.
    pub(super) fn solve(
        &mut self,
        fill: impl Fn(usize, &mut [f64]) + Sync,
        now: impl Fn() -> u64,
    ) -> Result<Solved> {
        let members = self.cpus.len().max(1);
        let blocks = self.n.div_ceil(self.block);
        let mut shares: Vec<Vec<Block<'_>>> = (0..members).map(|_| Vec::new()).collect();
        let (mut rest, right) = self.matrix.view_mut().split_columns(self.n);
        for index in 0..blocks {
            let width = self.block.min(rest.columns());
            let (columns, others) = rest.split_columns(width);
            shares[index % members].push(Block { index, columns });
            rest = others;
        }
        shares[blocks % members].push(Block { index: blocks, columns: right });
        let solution = Solution::new(members, self.n, self.block);
        let mut shares = shares.into_iter();
        let first = shares.next().expect("there is at least one member");
        let cpus = (1..members).map(|member| Some(self.cpus[member]));
        let team = Team::new(std::iter::once(None).chain(cpus))?.led().awake();
        let (mut led, mut times) = (Ok(()), [0; 2]);
        let ((), mut outcomes) = team.threads(
            shares,
            |_, share| {
                // Best effort, as for the measuring thread.
                let _ = place::nice(-20);
                Ok(share)
            },
            |seat, share| solution.work(seat, share, &fill, || {}),
            |team| {
                team.open();
                led = team.lead(|seat| solution.work(seat, first, &fill, || times[0] = now()));
                times[1] = now();
            },
        )?;
        outcomes.push(led);
        all_of(outcomes)?;
        let mut x = Vec::with_capacity(self.n);
        for part in &solution.unknowns {
            x.extend_from_slice(part.get().context("an unknown was not found")?);
        }
        let [from, to] = times;
        Ok(Solved { x, from, to })
    }
}

/// A block of columns of one thread.
struct Block<'a> {
    index: usize,
    columns: ViewMut<'a>,
}

/// What the threads of one solution share. All cells are written once. They wait for each other's
/// panels and end when all are used: a [`bench::measure::TeamWindow`] works for a time that is set.
struct Solution<'a> {
    members: usize,
    n: usize,
    block: usize,
    panels: Vec<OnceLock<Panel<'a>>>,
    right: OnceLock<View<'a>>,
    unknowns: Vec<OnceLock<Vec<f64>>>,
}

impl<'a> Solution<'a> {
    fn new(members: usize, n: usize, block: usize) -> Self {
        let blocks = n.div_ceil(block);
        Solution {
            members,
            n,
            block,
            panels: (0..blocks).map(|_| OnceLock::new()).collect(),
            right: OnceLock::new(),
            unknowns: (0..blocks).map(|_| OnceLock::new()).collect(),
        }
    }

    /// One member from its first to its last instruction; `start` is called when all are ready.
    fn work(
        &self,
        seat: &Seat<'_>,
        mut share: Vec<Block<'a>>,
        fill: &(impl Fn(usize, &mut [f64]) + Sync),
        start: impl FnOnce(),
    ) -> Result<()> {
        for block in &mut share {
            for column in 0..block.columns.columns() {
                fill(
                    (block.index * self.block).min(self.n) + column,
                    block.columns.column_mut(column),
                );
            }
        }
        warm_up(self.n)?;
        seat.meet()?;
        start();
        self.factor(seat, share)?;
        self.substitute(seat)
    }

    /// Applies every panel to the member's blocks, and factors those in turn.
    fn factor(&self, seat: &Seat<'_>, mut share: Vec<Block<'a>>) -> Result<()> {
        if share.first().is_some_and(|block| block.index == 0) {
            self.publish(share.remove(0))?;
        }
        for index in 0..self.panels.len() {
            let panel = until(seat, || self.panels[index].get())?;
            let mut at = 0;
            while at < share.len() {
                panel.apply(&mut share[at].columns);
                if share[at].index == index + 1 {
                    self.publish(share.remove(at))?;
                } else {
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Factors a block to which all panels left of it were applied, and lets the others have it;
    /// of the right-hand side nothing is left to do.
    fn publish(&self, block: Block<'a>) -> Result<(), Singular> {
        if block.index == self.panels.len() {
            let set = self.right.set(block.columns.into_view());
            assert!(set.is_ok(), "one thread has the right-hand side");
        } else {
            let panel = Panel::factor(block.columns, block.index * self.block)?;
            let set = self.panels[block.index].set(panel);
            assert!(set.is_ok(), "one thread has block {}", block.index);
        }
        Ok(())
    }

    /// Finds the unknowns of the member's blocks of rows.
    fn substitute(&self, seat: &Seat<'_>) -> Result<()> {
        let right = until(seat, || self.right.get())?.column(0);
        let mut rows: Vec<(usize, Vec<f64>)> = (seat.number..self.panels.len())
            .step_by(self.members)
            .map(|index| {
                let first = index * self.block;
                let end = self.n.min(first + self.block);
                (index, right[first..end].to_vec())
            })
            .collect();
        for index in (0..self.panels.len()).rev() {
            let panel = self.panels[index].get().context("all panels are there")?;
            // The next block of rows was finished right after it lost the unknowns after it.
            if rows.last().is_some_and(|(last, _)| *last == index) {
                let (_, mut y) = rows.pop().expect("it has a last");
                panel.solve_upper(&mut y);
                let set = self.unknowns[index].set(y);
                assert!(set.is_ok(), "one thread has rows {index}");
            }
            let x = until(seat, || self.unknowns[index].get())?;
            for (above, y) in rows.iter_mut().rev() {
                panel.subtract(*above * self.block, y, x);
            }
        }
        Ok(())
    }
}

/// Waits awake until there is something, or another member failed.
fn until<T>(seat: &Seat<'_>, mut look: impl FnMut() -> Option<T>) -> Result<T, Fault> {
    let mut spins = 0_u32;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if seat.team.has_failed() {
            return Err(Fault::OtherFailed);
        }
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(SPINS) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Products of no consequence: the buffers of the crate on this thread, and the vector units.
fn warm_up(n: usize) -> Result<()> {
    let (times, most) = WARM_UP;
    let size = n.min(most);
    let make = || Matrix::new(size, size, Pages::Base).context("memory for the warm-up");
    let (mut c, a) = (make()?, make()?);
    for _ in 0..times {
        subtract_product(&mut c.view_mut(), a.view(), a.view());
    }
    std::hint::black_box(&c);
    Ok(())
}
