//! The loops of a factorisation that are too small or too thin for products.
//!
//! Each is written once and compiled for AVX-512, for AVX2 and for the baseline; the best that the
//! processor has is called.

use super::{View, ViewMut};

/// Elements looked at together: a whole number of vectors of any architecture.
const LANES: usize = 16;
/// Rows of the largest triangle of [`solve_lower`].
pub const SMALL: usize = 16;
/// Columns that are solved side by side, because each waits for its own row before.
const SIDE_BY_SIDE: usize = 4;

/// Defines a function whose body is compiled for several levels of vector instructions.
macro_rules! vectorised {
    ($(#[$doc:meta])* pub fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        pub fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn baseline($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                fn avx512($($argument: $kind),*) $(-> $result)? {
                    baseline($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) $(-> $result)? {
                    baseline($($argument),*)
                }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the processor and the kernel have what it was compiled for.
                    return unsafe { avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            baseline($($argument),*)
        }
    };
}

vectorised! {
    /// Factors a block of few columns into L (ones on its diagonal, which are not stored) and U,
    /// with partial pivoting: row `i` was exchanged with row `pivots[i]`. Errors: the first column
    /// without a pivot, which is zero (or NaN) from the diagonal down. Panics: `pivots` or the rows
    /// are fewer than the columns.
    pub fn factor(block: &mut ViewMut<'_>, pivots: &mut [usize]) -> Result<(), usize> {
        for column in 0..block.columns() {
            let (mut left, mut right) = block.reborrow().split_columns(column + 1);
            let current = left.column_mut(column);
            let pivot = column + largest(&current[column..]);
            let value = current[pivot];
            // False for NaN as well.
            if value.abs() > 0.0 {
                pivots[column] = pivot;
            } else {
                return Err(column);
            }
            for index in 0..left.columns() {
                left.column_mut(index).swap(column, pivot);
            }
            let below = &mut left.column_mut(column)[column + 1..];
            for element in below.iter_mut() {
                // Not times the inverse, which overflows for tiny pivots.
                *element /= value;
            }
            for index in 0..right.columns() {
                let other = right.column_mut(index);
                other.swap(column, pivot);
                let (top, rest) = other.split_at_mut(column + 1);
                subtract(rest, top[column], below);
            }
        }
        Ok(())
    }
}

/// Exchanges row `first + i` with row `pivots[i]`, in order, in all columns. Panics: there are no
/// such rows.
pub fn exchange(block: &mut ViewMut<'_>, first: usize, pivots: &[usize]) {
    for index in 0..block.columns() {
        let column = block.column_mut(index);
        for (row, pivot) in pivots.iter().enumerate() {
            column.swap(first + row, *pivot);
        }
    }
}

vectorised! {
    /// Solves L X = B in place; L is the lower triangle of a square of at most [`SMALL`] rows, with
    /// ones on its diagonal, whatever is stored there. Panics: the shapes do not fit each other, or
    /// the triangle is larger.
    pub fn solve_lower(triangle: View<'_>, right: &mut ViewMut<'_>) {
        let size = triangle.columns();
        assert!(size <= SMALL && size == triangle.rows() && size == right.rows());
        // Whole vectors: zeros from the diagonal up, and beyond the triangle.
        let mut lower = [[0.0; SMALL]; SMALL];
        for (index, lower) in lower.iter_mut().enumerate().take(size) {
            lower[index + 1..size].copy_from_slice(&triangle.column(index)[index + 1..]);
        }
        for first in (0..right.columns()).step_by(SIDE_BY_SIDE) {
            let width = SIDE_BY_SIDE.min(right.columns() - first);
            let mut x = [[0.0; SMALL]; SIDE_BY_SIDE];
            for (index, x) in x.iter_mut().enumerate().take(width) {
                x[..size].copy_from_slice(right.column_mut(first + index));
            }
            for (row, lower) in lower.iter().enumerate() {
                for x in &mut x {
                    let solved = x[row];
                    for (x, lower) in x.iter_mut().zip(lower) {
                        *x -= solved * lower;
                    }
                }
            }
            for (index, x) in x.iter().enumerate().take(width) {
                right.column_mut(first + index).copy_from_slice(&x[..size]);
            }
        }
    }
}

vectorised! {
    /// Solves U x = y in place; U is the upper triangle of a square. Panics: the shapes do not fit
    /// each other.
    pub fn solve_upper(triangle: View<'_>, y: &mut [f64]) {
        for column in (0..triangle.columns()).rev() {
            let elements = triangle.column(column);
            y[column] /= elements[column];
            let (above, solved) = y.split_at_mut(column);
            subtract(above, solved[0], &elements[..column]);
        }
    }
}

vectorised! {
    /// `y -= A x`. Panics: the shapes do not fit each other.
    pub fn subtract_columns(a: View<'_>, y: &mut [f64], x: &[f64]) {
        for (index, factor) in x.iter().enumerate() {
            subtract(y, *factor, a.column(index));
        }
    }
}

vectorised! {
    /// Adds `factor` times a column to `sum`, and its absolute values to `absolute`. Panics: the
    /// lengths differ.
    pub fn add_column(sum: &mut [f64], absolute: &mut [f64], factor: f64, column: &[f64]) {
        assert!(sum.len() == column.len() && absolute.len() == column.len());
        for ((sum, absolute), element) in sum.iter_mut().zip(absolute).zip(column) {
            *sum += factor * element;
            *absolute += element.abs();
        }
    }
}

/// `y -= factor x`.
#[inline(always)]
fn subtract(y: &mut [f64], factor: f64, x: &[f64]) {
    assert_eq!(y.len(), x.len());
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
            let value = value.abs();
            // Not `f64::max`, whose care for NaN costs instructions.
            *most = if value > *most { value } else { *most };
        }
    }
    let most = most.iter().copied().chain(rest.iter().map(|value| value.abs())).fold(0.0, f64::max);
    let position = values.iter().position(|value| value.abs() == most);
    position.unwrap_or(0)
}
