use super::EXPERIMENT;
use super::lu::Singular;
use super::residual::scaled_residual;
use super::solve::{Solver, System, block_columns};
use bench::experiment::fixtures::bare_site;
use bench::prelude::*;
use session::fixtures::{offered, refused};

/// Solves a system given row by row, the right-hand side last in each row.
fn solve(rows: &[&[f64]], block: usize) -> Result<Vec<f64>> {
    let fill = |column: usize, elements: &mut [f64]| {
        for (element, row) in elements.iter_mut().zip(rows) {
            *element = row[column];
        }
    };
    Ok(Solver::new(rows.len(), block, &[])?.solve(fill, || 0)?.x)
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn known_systems_have_their_known_solutions() {
    assert_near(&solve(&[&[4.0, 2.0]], 8).unwrap(), &[0.5]);
    let three: [&[f64]; 3] =
        [&[2.0, 1.0, -1.0, 8.0], &[-3.0, -1.0, 2.0, -11.0], &[-2.0, 1.0, 2.0, -3.0]];
    for block in [1, 2, 3, 16] {
        assert_near(&solve(&three, block).unwrap(), &[2.0, 3.0, -1.0]);
    }
}

#[test]
fn a_zero_or_tiny_leading_element_is_pivoted_away() {
    let zero: [&[f64]; 2] = [&[0.0, 1.0, 2.0], &[1.0, 1.0, 5.0]];
    assert_near(&solve(&zero, 1).unwrap(), &[3.0, 2.0]);
    // Without an exchange the first unknown would be lost in rounding.
    let tiny: [&[f64]; 2] = [&[1e-20, 1.0, 1.0], &[1.0, 1.0, 2.0]];
    assert_near(&solve(&tiny, 2).unwrap(), &[1.0, 1.0]);
}

#[test]
fn a_permutation_across_blocks_is_undone() {
    // Row r has its one in column r * 29 mod 61, so nearly every pivot comes from another block.
    let n = 61;
    let fill = |column: usize, elements: &mut [f64]| {
        for (row, element) in elements.iter_mut().enumerate() {
            let there = row * 29 % n;
            *element = if column == n { there as f64 } else { f64::from(column == there) };
        }
    };
    for block in [8, 20, 64] {
        let mut solver = Solver::new(n, block, &[]).unwrap();
        let x = solver.solve(fill, || 0).unwrap().x;
        assert_near(&x, &(0..n).map(|at| at as f64).collect::<Vec<_>>());
    }
}

#[test]
fn a_singular_matrix_is_an_error_that_names_the_column_and_hangs_no_thread() {
    let two: [&[f64]; 2] = [&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]];
    let error = solve(&two, 1).expect_err("the rows are multiples");
    assert_eq!(error.downcast_ref(), Some(&Singular { column: 1 }));

    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    let system = System { n: 60, seed: 3 };
    let zeros = |column: usize, elements: &mut [f64]| {
        system.fill(column, elements);
        if column == 33 {
            elements.fill(0.0);
        }
    };
    let error =
        Solver::new(60, 16, &cpus).unwrap().solve(zeros, || 0).expect_err("a column is zero");
    assert_eq!(error.downcast_ref(), Some(&Singular { column: 33 }));
}

#[test]
fn any_number_of_threads_gives_the_same_solution_to_the_last_bit() {
    let system = System { n: 64, seed: 11 };
    let fill = |column: usize, elements: &mut [f64]| system.fill(column, elements);
    let allowed = metal::place::allowed().expect("CPUs");
    let solved = |threads: usize| {
        // Threads that share CPUs must not wait for each other for ever either.
        let cpus: Vec<usize> = allowed.iter().copied().cycle().take(threads).collect();
        let mut solver = Solver::new(64, 8, &cpus).unwrap();
        let first = solver.solve(fill, || 0).unwrap().x;
        // The memory is used again.
        assert_eq!(solver.solve(fill, || 0).unwrap().x, first);
        first
    };
    let one = solved(1);
    let residual = scaled_residual(&system, &one);
    assert!(residual < 1.0, "{residual}");
    for threads in [2, 3, 5] {
        assert_eq!(solved(threads), one, "{threads} threads");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_an_error_and_a_panic_ends_all() {
    let system = System { n: 40, seed: 1 };
    let here = metal::place::allowed().expect("CPUs")[0];
    let mut solver = Solver::new(40, 8, &[here, 100_000]).unwrap();
    let error = solver
        .solve(|column, elements| system.fill(column, elements), || 0)
        .expect_err("no such CPU");
    assert!(format!("{error:#}").contains("100000"), "{error:#}");
    let mut solver = Solver::new(40, 8, &[here, here]).unwrap();
    let error = solver
        .solve(
            |column, elements| {
                // A column of the second thread.
                assert!(column != 8, "a panic that must not leave the others waiting");
                system.fill(column, elements);
            },
            || 0,
        )
        .expect_err("the other thread panics");
    assert!(format!("{error:#}").contains("panicked"), "{error:#}");
}

#[test]
fn columns_of_a_system_are_in_range_and_unlike() {
    let system = System { n: 1000, seed: 5 };
    let column = |index| {
        let mut elements = vec![0.0; 1000];
        system.fill(index, &mut elements);
        elements
    };
    let (first, second) = (column(0), column(1));
    assert!(first.iter().all(|element| (-0.5..0.5).contains(element)));
    let mean = first.iter().sum::<f64>() / 1000.0;
    let together: f64 = first.iter().zip(&second).map(|(a, b)| 12.0 * a * b).sum();
    assert!(mean.abs() < 0.05 && (together / 1000.0).abs() < 0.15);
    assert_eq!(column(0), first);
}

#[test]
fn blocks_are_several_for_each_thread_and_never_empty() {
    for n in [1, 2, 47, 500, 1000, 8000, 100_000] {
        for threads in [0, 1, 2, 8, 256] {
            let block = block_columns(n, threads);
            assert!(block >= 16 && block.is_multiple_of(16), "{n} {threads}: {block}");
            let blocks = n.div_ceil(block);
            assert!(block == 16 || blocks >= 3 * threads, "{n} {threads}: {block}");
        }
    }
}

#[test]
fn what_does_not_fit_is_skipped_with_its_reason() {
    let mut site = bare_site();
    let reasons = |site: &_, set: &[(&str, &str)]| {
        let skipped = offered(&EXPERIMENT, site, Preset::Thorough, set).skipped.into_iter();
        skipped.map(|(id, skip)| (id, skip.reason)).collect::<Vec<_>>()
    };
    // One CPU.
    let found = reasons(&site, &[("n", "100"), ("threads", "1,2,all")]);
    assert_eq!(found.len(), 2);
    assert!(found[0].1.contains("2 threads, but 1 CPUs"), "{found:?}");
    assert!(found[1].1.contains("same as threads=1"), "{found:?}");
    // All of one is something where nothing else is.
    let alone = offered(&EXPERIMENT, &site, Preset::Quick, &[("threads", "all")]);
    let all = CaseId::new().with("n", 1000).with("threads", "all");
    assert_eq!(alone.series[0].cases[0].id, all);
    // Memory.
    site.memory_bytes = 20 << 20;
    let found = reasons(&site, &[("n", "500,2000"), ("threads", "1")]);
    assert!(found[0].1.contains("of memory"), "{found:?}");
    // Time.
    site.memory_bytes = 1 << 50;
    let found = reasons(&site, &[("n", "1000,100000"), ("threads", "1")]);
    assert!(found[0].1.contains("would take about"), "{found:?}");
    let none = refused(&EXPERIMENT, &site, Preset::Quick, &[("n", "100000")]);
    assert!(none.needed.is_some_and(|needed| needed.contains("thorough")));
}
