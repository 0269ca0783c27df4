//! The loops below the products: too small or too thin for them. The crate `pulp` compiles each
//! for AVX-512, AVX2 and the baseline, and picks one at run time.

use super::lu::Singular;
use metal::matrix::{View, ViewMut};
use pulp::Arch;

/// Elements looked at together: a whole number of vectors of any architecture.
const LANES: usize = 16;

/// Factors a narrow block with partial pivoting, column by column. Pivots are counted from its
/// first row.
pub(super) fn factor(block: &mut ViewMut<'_>, pivots: &mut [usize]) -> Result<(), Singular> {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for column in 0..block.columns() {
                let (mut left, mut right) = block.reborrow().split_columns(column + 1);
                let current = left.column_mut(column);
                let pivot = column + largest(&current[column..]);
                let value = current[pivot];
                // A comparison that is false for NaN.
                if !(value.abs() > 0.0) {
                    return Err(Singular { column });
                }
                pivots[column] = pivot;
                for index in 0..left.columns() {
                    left.column_mut(index).swap(column, pivot);
                }
                let below = &mut left.column_mut(column)[column + 1..];
                let inverse = value.recip();
                below.iter_mut().for_each(|element| *element *= inverse);
                for index in 0..right.columns() {
                    let other = right.column_mut(index);
                    other.swap(column, pivot);
                    let (top, rest) = other.split_at_mut(column + 1);
                    subtract(rest, top[column], below);
                }
            }
            Ok(())
        },
    )
}

/// Exchanges row `first + i` with row `pivots[i]`, in order, in all columns.
pub(super) fn exchange(block: &mut ViewMut<'_>, first: usize, pivots: &[usize]) {
    for index in 0..block.columns() {
        let column = block.column_mut(index);
        for (row, pivot) in pivots.iter().enumerate() {
            column.swap(first + row, *pivot);
        }
    }
}

/// Solves L X = B in place for a small lower triangle with ones on its diagonal.
pub(super) fn solve_lower(triangle: View<'_>, right: &mut ViewMut<'_>) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for index in 0..right.columns() {
                let x = right.column_mut(index);
                for column in 0..triangle.columns() {
                    let (solved, rest) = x.split_at_mut(column + 1);
                    subtract(rest, solved[column], &triangle.column(column)[column + 1..]);
                }
            }
        },
    );
}

/// Solves U x = y in place for an upper triangle.
pub(super) fn solve_upper(triangle: View<'_>, y: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for column in (0..triangle.columns()).rev() {
                let elements = triangle.column(column);
                y[column] /= elements[column];
                let (above, solved) = y.split_at_mut(column);
                subtract(above, solved[0], &elements[..column]);
            }
        },
    );
}

/// `y -= A x`.
pub(super) fn subtract_columns(a: View<'_>, y: &mut [f64], x: &[f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (index, factor) in x.iter().enumerate() {
                subtract(y, *factor, a.column(index));
            }
        },
    );
}

/// Adds `factor` times a column to `sum`, and its absolute values to `absolute`.
pub(super) fn add_column(sum: &mut [f64], absolute: &mut [f64], factor: f64, column: &[f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for ((sum, absolute), element) in sum.iter_mut().zip(absolute).zip(column) {
                *sum += factor * element;
                *absolute += element.abs();
            }
        },
    );
}

/// `y -= factor x`.
#[inline(always)]
fn subtract(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y -= factor * x;
    }
}

/// Index of the first of the elements whose absolute value is largest; 0 of none.
#[inline(always)]
fn largest(values: &[f64]) -> usize {
    let mut most = [0.0_f64; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (most, value) in most.iter_mut().zip(chunk) {
            // Not `f64::max`, whose care for NaN costs instructions.
            *most = if value.abs() > *most { value.abs() } else { *most };
        }
    }
    let most = most
        .iter()
        .copied()
        .chain(rest.iter().map(|value| value.abs()))
        .fold(0.0, f64::max);
    values
        .iter()
        .position(|value| value.abs() == most)
        .unwrap_or(0)
}
