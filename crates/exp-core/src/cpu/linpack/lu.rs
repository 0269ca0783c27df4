//! LU factorisation of a panel with partial pivoting, and what a panel does to the columns right
//! of it. All products are the crate's; here is the recursion that leads to them.

use metal::matrix::{self, SMALL, View, ViewMut, subtract_product};

/// Columns of a panel that are factored one by one; wider panels are halved.
const NARROW: usize = 8;

/// No pivot is left: the column is zero from the diagonal down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the matrix is singular: column {column} is zero from the diagonal down")]
pub(super) struct Singular {
    pub(super) column: usize,
}

/// A block of columns that is factored: no writer is left.
pub(super) struct Panel<'a> {
    /// All rows of its columns: U above the diagonal block, L below it.
    columns: View<'a>,
    /// Its first column, which is also the row in which its diagonal block begins.
    first: usize,
    /// The row that was exchanged with row `first + i`.
    pivots: Vec<usize>,
}

impl<'a> Panel<'a> {
    /// Factors the columns `first ..` of a matrix, to which all panels left of them were applied.
    /// Errors: a column without a pivot.
    pub(super) fn factor(mut columns: ViewMut<'a>, first: usize) -> Result<Self, Singular> {
        let mut pivots = vec![0; columns.columns()];
        let (_, active) = columns.reborrow().split_rows(first);
        factor(active, &mut pivots)
            .map_err(|singular| Singular { column: first + singular.column })?;
        pivots.iter_mut().for_each(|pivot| *pivot += first);
        Ok(Panel { columns: columns.into_view(), first, pivots })
    }

    /// Applies the panel to a block of columns right of it: exchanges, the rows of U, and the
    /// update of what is below.
    pub(super) fn apply(&self, block: &mut ViewMut<'_>) {
        matrix::exchange(block, self.first, &self.pivots);
        let (_, active) = block.reborrow().split_rows(self.first);
        let (_, lower) = self.columns.split_rows(self.first);
        eliminate(lower, active);
    }

    /// Solves U x = y for the rows of the diagonal block, in place.
    pub(super) fn solve_upper(&self, y: &mut [f64]) {
        let (_, rows) = self.columns.split_rows(self.first);
        let (diagonal, _) = rows.split_rows(self.pivots.len());
        matrix::solve_upper(diagonal, y);
    }

    /// Takes the part of the unknowns of this panel off the right-hand sides of the rows `from ..`
    /// above it.
    pub(super) fn subtract(&self, from: usize, y: &mut [f64], x: &[f64]) {
        let (_, rows) = self.columns.split_rows(from);
        let (rows, _) = rows.split_rows(y.len());
        matrix::subtract_columns(rows, y, x);
    }
}

/// Factors a block that has no fewer rows than columns. Pivots are counted from its first row.
fn factor(mut block: ViewMut<'_>, pivots: &mut [usize]) -> Result<(), Singular> {
    let columns = block.columns();
    if columns <= NARROW {
        return matrix::factor(&mut block, pivots).map_err(|column| Singular { column });
    }
    let half = (columns / 2).next_multiple_of(NARROW);
    let (left_pivots, right_pivots) = pivots.split_at_mut(half);
    let (mut left, mut right) = block.split_columns(half);
    factor(left.reborrow(), left_pivots)?;
    matrix::exchange(&mut right, 0, left_pivots);
    eliminate(left.as_view(), right.reborrow());
    let (_, rest) = right.split_rows(half);
    factor(rest, right_pivots).map_err(|singular| Singular { column: half + singular.column })?;
    right_pivots.iter_mut().for_each(|pivot| *pivot += half);
    matrix::exchange(&mut left, half, right_pivots);
    Ok(())
}

/// `lower` holds L of a factored panel, its diagonal block on top. Turns the rows beside that block
/// into rows of U, and takes their products off the rows below.
fn eliminate(lower: View<'_>, right: ViewMut<'_>) {
    let size = lower.columns();
    let (triangle, below) = lower.split_rows(size);
    let (mut top, mut bottom) = right.split_rows(size);
    solve_lower(triangle, &mut top);
    subtract_product(&mut bottom, below, top.as_view());
}

/// Solves L X = B in place; L is a lower triangle with ones on its diagonal.
fn solve_lower(triangle: View<'_>, right: &mut ViewMut<'_>) {
    let size = triangle.columns();
    if size <= SMALL {
        return matrix::solve_lower(triangle, right);
    }
    let half = (size / 2).next_multiple_of(SMALL);
    let (left, last) = triangle.split_columns(half);
    let (first, below) = left.split_rows(half);
    let (_, last) = last.split_rows(half);
    let (mut top, mut bottom) = right.reborrow().split_rows(half);
    solve_lower(first, &mut top);
    subtract_product(&mut bottom, below, top.as_view());
    solve_lower(last, &mut bottom);
}
