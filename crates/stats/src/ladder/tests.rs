use super::{Excess, Rung, names, plateaus, reaches, saturation};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

/// A ladder of a hierarchy of (capacity, latency) levels and memory behind it: hits are shared by
/// capacity over footprint, sharpened like a cache that evicts the oldest line.
fn ladder(levels: &[(f64, f64)], memory: f64, per_octave: u32, top: f64) -> Vec<Rung> {
    let mut rungs = Vec::new();
    let mut step = 0;
    loop {
        let size = 512.0 * 2.0_f64.powf(f64::from(step) / f64::from(per_octave));
        if size > top * 1.001 {
            return rungs;
        }
        let mut value = 0.0;
        let mut covered = 0.0;
        for (capacity, latency) in levels {
            let share = (capacity / size).min(1.0).powi(3).max(covered);
            value += (share - covered) * latency;
            covered = share;
        }
        value += (1.0 - covered) * memory;
        rungs.push(Rung { size, value });
        step += 1;
    }
}

/// Multiplies every rung by a log-normal error.
fn noisy(rungs: &[Rung], sd: f64, seed: u64) -> Vec<Rung> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut error = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    rungs.iter().map(|rung| Rung { value: rung.value * (sd * error()).exp(), ..*rung }).collect()
}

fn check(rungs: &[Rung], values: &[f64], edges: &[f64]) {
    let found = plateaus(rungs);
    assert_eq!(found.len(), values.len(), "{found:?}");
    for (plateau, value) in found.iter().zip(values) {
        assert!((plateau.value / value - 1.0).abs() < 0.1, "{found:?} against {value}");
    }
    for (plateau, edge) in found.iter().zip(edges) {
        let got = plateau.edge.expect("an edge before the last plateau");
        assert!((0.75..1.34).contains(&(got / edge)), "{got} against {edge}");
    }
    assert_eq!(found.last().and_then(|last| last.edge), None);
}

const THREE: &[(f64, f64)] = &[(48.0 * KIB, 1.4), (2.0 * MIB, 4.5), (32.0 * MIB, 25.0)];

#[test]
fn three_levels_and_memory_at_every_density() {
    for per_octave in [1, 2, 4] {
        let rungs = ladder(THREE, 95.0, per_octave, 1024.0 * MIB);
        check(&rungs, &[1.4, 4.5, 25.0, 95.0], &[48.0 * KIB, 2.0 * MIB, 32.0 * MIB]);
    }
}

#[test]
fn noise_neither_makes_nor_hides_a_level() {
    let clean = ladder(THREE, 95.0, 4, 1024.0 * MIB);
    for seed in 0..50 {
        let rungs = noisy(&clean, 0.03, seed);
        check(&rungs, &[1.4, 4.5, 25.0, 95.0], &[48.0 * KIB, 2.0 * MIB, 32.0 * MIB]);
    }
}

#[test]
fn two_and_four_levels() {
    let two = &[(32.0 * KIB, 2.0), (1.0 * MIB, 8.0)];
    check(&ladder(two, 120.0, 4, 256.0 * MIB), &[2.0, 8.0, 120.0], &[32.0 * KIB, 1.0 * MIB]);
    let four = &[(32.0 * KIB, 1.2), (256.0 * KIB, 3.5), (6.0 * MIB, 12.0), (128.0 * MIB, 40.0)];
    check(
        &ladder(four, 90.0, 4, 1024.0 * MIB),
        &[1.2, 3.5, 12.0, 40.0, 90.0],
        &[32.0 * KIB, 256.0 * KIB, 6.0 * MIB, 128.0 * MIB],
    );
}

#[test]
fn a_tilted_plateau_is_one_level() {
    let mut rungs = ladder(THREE, 95.0, 4, 1024.0 * MIB);
    for rung in &mut rungs {
        // 3 % per octave beyond 256 KiB, as TLB misses and a mesh make it.
        rung.value *= 1.0 + 0.03 * (rung.size / (256.0 * KIB)).log2().max(0.0);
    }
    assert_eq!(plateaus(&rungs).len(), 4, "{:?}", plateaus(&rungs));
}

#[test]
fn a_ladder_that_ends_on_a_slope_still_has_the_edge_below_it() {
    let rungs = ladder(THREE, 95.0, 4, 56.0 * MIB);
    let found = plateaus(&rungs);
    assert_eq!(found.len(), 3, "{found:?}");
    let edge = found[2].edge.expect("the ladder rises behind it");
    assert!((0.75..1.34).contains(&(edge / (32.0 * MIB))), "{edge}");
}

#[test]
fn a_recorded_guest_shows_a_last_level_of_eight_mebibytes() {
    // Recorded in a virtual machine that reports 480 MiB: 2 per octave from 512 B, in ns.
    const NS: &[f64] = &[
        1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392, 1.392,
        1.398, 4.428, 4.444, 4.454, 4.453, 4.454, 4.456, 4.942, 5.383, 5.675, 5.916, 15.565,
        33.456, 38.024, 39.846, 52.205, 114.647, 145.19, 168.618, 169.824, 173.774, 173.781,
        179.415, 178.02, 181.725, 182.244, 190.686, 193.4, 202.639, 224.208,
    ];
    let rungs: Vec<Rung> = NS
        .iter()
        .enumerate()
        .map(|(at, &value)| Rung { size: 512.0 * 2.0_f64.powf(at as f64 / 2.0), value })
        .collect();
    let found = plateaus(&rungs);
    assert_eq!(found.len(), 4, "{found:?}");
    let edges: Vec<Option<f64>> = found.iter().map(|level| level.edge).collect();
    let described = [("L1", 48.0 * KIB), ("L2", 2.0 * MIB), ("L3", 480.0 * MIB)];
    assert_eq!(names(&edges, &described), [Some("L1"), Some("L2"), None, None]);
    assert!((4.4..4.5).contains(&found[1].value), "{found:?}");
    let third = edges[2].expect("an edge");
    assert!((6.0 * MIB..11.0 * MIB).contains(&third), "{third}");
}

#[test]
fn a_name_is_given_once_and_to_an_edge_that_is_near() {
    let described = [("L1", 32.0), ("L2", 256.0), ("L3", 8192.0)];
    let edges = [Some(30.0), Some(47.0), Some(520.0), Some(2800.0), Some(9000.0), None];
    assert_eq!(names(&edges, &described), [Some("L1"), None, None, None, Some("L3"), None]);
    assert_eq!(names(&edges[3..4], &described), [None]);
    assert_eq!(names(&[Some(91.0), Some(2900.0)], &described), [Some("L2"), Some("L3")]);
}

fn steps(values: &[(f64, f64)]) -> Vec<Rung> {
    let rung = |&(size, value): &(f64, f64)| Rung { size, value };
    values.iter().map(rung).collect()
}

#[test]
fn the_line_is_where_the_growth_ends() {
    // Recorded: lines of a page in random order, 256 KiB, on a machine with lines of 64 bytes.
    let recorded =
        steps(&[(16.0, 2.193), (32.0, 2.982), (64.0, 4.584), (128.0, 4.565), (256.0, 4.57)]);
    assert_eq!(saturation(&recorded), Some(64.0));
    let wide = steps(&[(16.0, 1.6), (32.0, 1.9), (64.0, 2.4), (128.0, 3.6), (256.0, 3.6)]);
    assert_eq!(saturation(&wide), Some(128.0));
}

#[test]
fn no_line_where_nothing_saturates() {
    // A prefetcher hides the lines, or every step costs more.
    let hidden = steps(&[(16.0, 1.39), (32.0, 1.39), (64.0, 1.41), (128.0, 1.4), (256.0, 1.4)]);
    assert_eq!(saturation(&hidden), None);
    let growing = steps(&[(16.0, 2.0), (32.0, 2.3), (64.0, 5.4), (128.0, 18.0), (256.0, 29.0)]);
    assert_eq!(saturation(&growing), None);
}

fn excess(structures: &[(f64, f64)], sd: f64, seed: u64) -> Vec<Excess> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..36)
        .map(|at| {
            let size = 1024.0 * 2.0_f64.powf(f64::from(at) / 2.0);
            let scale = sd * if size > 2.0 * MIB { 20.0 } else { 4.0 };
            let error = scale * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
            let costs = structures.iter().map(|(reach, cost)| cost * (1.0 - reach / size).max(0.0));
            Excess {
                size,
                value: costs.sum::<f64>() + error,
                sd: if size > 2.0 * MIB { 20.0 } else { 4.0 },
            }
        })
        .collect()
}

#[test]
fn reach_and_cost_of_two_translation_levels() {
    let truth = [(384.0 * KIB, 2.2), (8.0 * MIB, 20.0)];
    for seed in 0..20 {
        let found = reaches(&excess(&truth, 0.01, seed));
        assert_eq!(found.len(), 2, "{found:?}");
        for (reach, (size, cost)) in found.iter().zip(truth) {
            assert!((0.7..1.4).contains(&(reach.size / size)), "{found:?}");
            assert!((0.8..1.2).contains(&(reach.cost / cost)), "{found:?}");
        }
    }
}

#[test]
fn noise_has_no_reach() {
    let found = (0..50).filter(|&seed| !reaches(&excess(&[], 0.02, seed)).is_empty());
    assert_eq!(found.count(), 0);
    assert_eq!(reaches(&[]), []);
}
