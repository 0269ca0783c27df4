//! Dense matrices of f64 in huge pages, views of their parts, and the product of two.
//!
//! A matrix lies column by column. Its views are cut by rows and by columns, so that parts of one
//! column may be written while others are read: what slices cannot say, because the elements of
//! two such parts alternate in memory. A part of one column is a slice.

use crate::answer::invalid;
use crate::memory::{Mapping, Pages};
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

mod loops;

pub use loops::{SMALL, add_column, exchange, factor, solve_lower, solve_upper, subtract_columns};

/// Elements of a cache line; columns begin on lines.
const LINE_ELEMENTS: usize = 8;
/// Columns whose distance is a multiple of this many elements (4 KiB) would all fall into the same
/// few sets of a cache.
const ALIASING_ELEMENTS: usize = 512;

/// A matrix, all zeros when made; unmapped on drop.
#[derive(Debug)]
pub struct Matrix {
    memory: Mapping,
    rows: usize,
    columns: usize,
    stride: usize,
}

impl Matrix {
    /// A matrix of `rows` x `columns` in pages of the kind asked for. No page is there before it is
    /// touched. Errors: no rows or columns, more than the kernel gives, or huge pages of a kernel
    /// without them.
    pub fn new(rows: usize, columns: usize, pages: Pages) -> io::Result<Matrix> {
        let stride = stride(rows);
        let bytes =
            stride.checked_mul(columns).and_then(|elements| elements.checked_mul(size_of::<f64>()));
        let bytes = bytes.ok_or_else(|| {
            invalid(format!("{rows} x {columns} elements are more than memory has addresses"))
        })?;
        Ok(Matrix { memory: Mapping::new(bytes, pages)?, rows, columns, stride })
    }

    /// Bytes that a matrix of this shape takes, before they are rounded up to whole pages.
    pub fn bytes(rows: usize, columns: usize) -> usize {
        stride(rows).saturating_mul(columns).saturating_mul(size_of::<f64>())
    }

    /// The share of its touched memory that huge pages hold, 0 to 1. Errors: no /proc/self/smaps.
    pub fn huge_share(&self) -> io::Result<f64> {
        self.memory.huge_share()
    }

    pub fn view(&self) -> View<'_> {
        self.rectangle()
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.rectangle()
    }

    fn rectangle<Borrow>(&self) -> Rectangle<Borrow> {
        let Matrix { rows, columns, stride, .. } = *self;
        Rectangle { start: self.start(), rows, columns, stride, borrowed: PhantomData }
    }

    fn start(&self) -> NonNull<f64> {
        NonNull::new(self.memory.as_ptr().cast_mut().cast()).expect("a mapping is not at address 0")
    }
}

/// Elements from one column to the next.
fn stride(rows: usize) -> usize {
    let stride = rows.next_multiple_of(LINE_ELEMENTS);
    if stride.is_multiple_of(ALIASING_ELEMENTS) { stride + LINE_ELEMENTS } else { stride }
}

pub type View<'a> = Rectangle<&'a [f64]>;

/// A rectangle of a matrix, to write. No two that exist at a time share an element.
pub type ViewMut<'a> = Rectangle<&'a mut [f64]>;

/// A rectangle of a matrix, each of whose columns is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle<Borrow> {
    start: NonNull<f64>,
    rows: usize,
    columns: usize,
    stride: usize,
    borrowed: PhantomData<Borrow>,
}

// SAFETY: it is a borrowed slice per column.
unsafe impl<Borrow: Send> Send for Rectangle<Borrow> {}
// SAFETY: as above.
unsafe impl<Borrow: Sync> Sync for Rectangle<Borrow> {}

impl<Borrow> Rectangle<Borrow> {
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows before `at`, and those from it on. Panics: there are fewer than `at` rows.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        assert!(at <= self.rows, "row {at} of {}", self.rows);
        let below = self.part(advanced(self.start, at), self.rows - at, self.columns);
        (self.part(self.start, at, self.columns), below)
    }

    /// Columns before `at`, and those from it on. Panics: there are fewer than `at` columns.
    pub fn split_columns(self, at: usize) -> (Self, Self) {
        assert!(at <= self.columns, "column {at} of {}", self.columns);
        let start = advanced(self.start, at * self.stride);
        let right = self.part(start, self.rows, self.columns - at);
        (self.part(self.start, self.rows, at), right)
    }

    /// A part of it; the callers see to it that those to be written at a time are disjoint.
    fn part<Part>(&self, start: NonNull<f64>, rows: usize, columns: usize) -> Rectangle<Part> {
        Rectangle { start, rows, columns, stride: self.stride, borrowed: PhantomData }
    }

    fn column_start(&self, index: usize) -> *mut f64 {
        assert!(index < self.columns, "column {index} of {}", self.columns);
        self.start.as_ptr().wrapping_add(index * self.stride)
    }
}

impl<'a> Rectangle<&'a [f64]> {
    /// Column `index`. Panics: there is no such column.
    pub fn column(&self, index: usize) -> &'a [f64] {
        // SAFETY: the column exists, so its `rows` elements are in the matrix, which 'a borrows and
        // no code writes.
        unsafe { std::slice::from_raw_parts(self.column_start(index), self.rows) }
    }
}

impl<'a> Rectangle<&'a mut [f64]> {
    /// The same rectangle for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        self.part(self.start, self.rows, self.columns)
    }

    pub fn as_view(&self) -> View<'_> {
        self.part(self.start, self.rows, self.columns)
    }

    /// Gives up writing for good.
    pub fn into_view(self) -> View<'a> {
        self.part(self.start, self.rows, self.columns)
    }

    /// Column `index`. Panics: there is no such column.
    pub fn column_mut(&mut self, index: usize) -> &mut [f64] {
        // SAFETY: the column exists, so its `rows` elements are in the matrix; they are this
        // view's alone, and `&mut self` keeps it from handing them out twice.
        unsafe { std::slice::from_raw_parts_mut(self.column_start(index), self.rows) }
    }
}

/// A pointer further on; where that is the end of the matrix or beyond (a rectangle without rows
/// or columns), it is never followed.
fn advanced(start: NonNull<f64>, elements: usize) -> NonNull<f64> {
    NonNull::new(start.as_ptr().wrapping_add(elements))
        .expect("a mapping does not reach the end of the address space")
}

/// `c -= a b` on the calling thread, by the crate `gemm-f64`: with AVX-512 or AVX2 and FMA where
/// the processor has them, NEON on aarch64. Panics: the shapes do not fit each other.
pub fn subtract_product(c: &mut ViewMut<'_>, a: View<'_>, b: View<'_>) {
    assert!(
        c.rows == a.rows && c.columns == b.columns && a.columns == b.rows,
        "{} x {} less {} x {} times {} x {}",
        c.rows,
        c.columns,
        a.rows,
        a.columns,
        b.rows,
        b.columns
    );
    if c.rows == 0 || c.columns == 0 || a.columns == 0 {
        return;
    }
    let step = |stride: usize| isize::try_from(stride).expect("a stride lies within a mapping");
    // SAFETY: each pointer and stride describe a rectangle of a matrix of the shape asserted above;
    // `c` is this view's alone, so it overlaps neither `a` nor `b`, which are not written.
    unsafe {
        gemm_f64::gemm::f64::get_gemm_fn()(
            c.rows,
            c.columns,
            a.columns,
            c.start.as_ptr(),
            step(c.stride),
            1,
            true,
            a.start.as_ptr().cast_const(),
            step(a.stride),
            1,
            b.start.as_ptr().cast_const(),
            step(b.stride),
            1,
            1.0,
            -1.0,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASING_ELEMENTS, Matrix, ViewMut, stride, subtract_product};
    use crate::memory::Pages;

    fn filled(rows: usize, columns: usize, of: impl Fn(usize, usize) -> f64) -> Matrix {
        let mut matrix = Matrix::new(rows, columns, Pages::Base).unwrap();
        fill(&mut matrix.view_mut(), of);
        matrix
    }

    fn fill(view: &mut ViewMut<'_>, of: impl Fn(usize, usize) -> f64) {
        for column in 0..view.columns() {
            for (row, element) in view.column_mut(column).iter_mut().enumerate() {
                *element = of(row, column);
            }
        }
    }

    #[test]
    fn columns_begin_on_lines_and_do_not_alias() {
        for rows in [1, 7, 8, 500, 511, 512, 1000, 4096] {
            let stride = stride(rows);
            assert!(stride >= rows && stride.is_multiple_of(8));
            assert!(!stride.is_multiple_of(ALIASING_ELEMENTS));
        }
        assert!(Matrix::bytes(4096, 10) > 4096 * 10 * 8);
        Matrix::new(usize::MAX / 2, 9, Pages::Base).expect_err("no such memory");
        Matrix::new(0, 0, Pages::Base).expect_err("no elements");
    }

    #[test]
    fn parts_are_where_they_belong() {
        let mut matrix = filled(5, 4, |row, column| (10 * row + column) as f64);
        let (top, bottom) = matrix.view_mut().split_rows(2);
        let (_, mut right) = bottom.split_columns(3);
        assert_eq!((right.rows(), right.columns(), top.rows()), (3, 1, 2));
        assert_eq!(right.column_mut(0), [23.0, 33.0, 43.0]);
        right.column_mut(0)[1] = -1.0;
        right.reborrow().column_mut(0)[2] = -2.0;
        assert_eq!(top.as_view().column(3), [3.0, 13.0]);
        assert_eq!(right.into_view().column(0), [23.0, -1.0, -2.0]);
        let (_, bottom) = matrix.view().split_rows(3);
        let (left, right) = bottom.split_columns(3);
        assert_eq!(left.column(0), [30.0, 40.0]);
        assert_eq!(right.column(0), [-1.0, -2.0]);
        let (all, none) = matrix.view().split_rows(5);
        assert_eq!((all.rows(), none.rows()), (5, 0));
        assert!(none.column(3).is_empty());
    }

    #[test]
    fn the_product_is_that_of_three_loops() {
        // Sizes around those at which a kernel has whole tiles, and beyond one.
        for (rows, columns, depth) in [(1, 1, 1), (3, 5, 2), (24, 8, 16), (33, 9, 17), (64, 40, 70)]
        {
            let a = filled(rows, depth, |row, k| (row as f64 - 3.0) * 0.5 + k as f64);
            let b = filled(depth, columns, |k, column| 1.0 - (k * (column + 1) % 7) as f64);
            let mut c = filled(rows + 2, columns + 1, |row, column| (row + column) as f64);
            let (c_left, _) = c.view_mut().split_columns(columns);
            let (_, mut part) = c_left.split_rows(2);
            subtract_product(&mut part, a.view(), b.view());
            for column in 0..columns {
                for row in 0..rows {
                    let sum: f64 = (0..depth)
                        .map(|k| a.view().column(k)[row] * b.view().column(column)[k])
                        .sum();
                    let expected = (row + 2 + column) as f64 - sum;
                    let found = c.view().column(column)[row + 2];
                    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
                }
                // What lies around the part is untouched.
                assert_eq!(c.view().column(column)[1], (1 + column) as f64);
            }
            assert_eq!(c.view().column(columns)[0], columns as f64);
        }
    }

    #[test]
    #[should_panic(expected = "2 x 2 less 2 x 3 times 2 x 2")]
    fn shapes_that_do_not_fit_are_refused() {
        let (a, b) = (filled(2, 3, |_, _| 0.0), filled(2, 2, |_, _| 0.0));
        let mut c = filled(2, 2, |_, _| 0.0);
        subtract_product(&mut c.view_mut(), a.view(), b.view());
    }
}
