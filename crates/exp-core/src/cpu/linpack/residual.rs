//! Whether a solution solves its system: HPL's scaled residual.

use super::solve::System;
use metal::matrix::add_column;

/// A solution with a larger scaled residual is wrong (HPL's threshold).
pub(super) const THRESHOLD: f64 = 16.0;

/// The relative error of one rounding, which HPL calls the machine's precision.
const ROUNDING: f64 = f64::EPSILON / 2.0;

/// `‖Ax-b‖∞ / (eps (‖A‖∞ ‖x‖∞ + ‖b‖∞) n)`, from the system made anew column by column. Not a number
/// if an element of the solution is not a number.
pub(super) fn scaled_residual(system: &System, x: &[f64]) -> f64 {
    let n = system.n;
    let mut column = vec![0.0; n];
    let (mut product, mut row_sums) = (vec![0.0; n], vec![0.0; n]);
    for (index, x) in x.iter().enumerate() {
        system.fill(index, &mut column);
        add_column(&mut product, &mut row_sums, *x, &column);
    }
    system.fill(n, &mut column);
    let difference = product.iter().zip(&column).map(|(ax, b)| ax - b);
    let scale = largest(row_sums.iter().copied()) * largest(x.iter().copied())
        + largest(column.iter().copied());
    largest(difference) / (ROUNDING * scale * n as f64)
}

/// The largest absolute value; not a number if one of them is not a number.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).fold(
        0.0,
        |most, value| {
            if value > most || value.is_nan() { value } else { most }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::linpack::solve::{Solver, System};

    #[test]
    fn a_solution_passes_and_a_changed_one_fails() {
        let system = System { n: 50, seed: 7 };
        let mut solver = Solver::new(50, 16, &[]).unwrap();
        let fill = |column: usize, elements: &mut [f64]| system.fill(column, elements);
        let mut x = solver.solve(fill, || 0).unwrap().x;
        let good = scaled_residual(&system, &x);
        assert!(good < 1.0, "{good}");
        // One unknown wrong in the tenth digit.
        x[31] *= 1.0 + 1e-10;
        let wrong = scaled_residual(&system, &x);
        assert!(wrong > THRESHOLD, "{wrong}");
        x[31] = f64::NAN;
        assert!(scaled_residual(&system, &x).is_nan());
    }

    #[test]
    fn the_largest_is_by_absolute_value_and_no_number_is_not_lost() {
        assert_eq!(largest([1.0, -3.0, 2.0].into_iter()), 3.0);
        assert!(largest([1.0, f64::NAN, 2.0].into_iter()).is_nan());
        assert_eq!(largest(std::iter::empty()), 0.0);
    }
}
