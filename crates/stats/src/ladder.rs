//! What a latency ladder says: plateaus and their edges, a saturating ramp, the cost of misses in a
//! structure of finite reach. Sizes are in bytes, values in the ladder's own unit.
//!
//! All fits work on the logarithm of the value: a cache level is a constant ratio apart from its
//! neighbours, and the noise of a latency is proportional to it.

use super::quantile::robust_deviation;

/// One rung: what was measured at one footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// Footprint in bytes, positive.
    pub size: f64,
    pub value: f64,
}

/// A stretch of the ladder on which the value hardly depends on the footprint.
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    pub first: usize,
    pub last: usize,
    /// Value: the median over its longest flat segment (the earliest of equals).
    pub value: f64,
    /// Footprint at which one access in ten is served by what comes next: where the ladder has
    /// risen by a tenth of the way to the next plateau, or to its own highest later rung where it
    /// ends on a slope. `None` for a plateau that reaches the ladder's end.
    pub edge: Option<f64>,
}

/// Rungs whose values lie this close together (standard deviation of the log) count as one
/// segment even on a ladder without noise: prefetch, banks and pages tilt a real plateau.
const FLAT_SD: f64 = 0.03;
/// Penalty of a further segment, in units of `sd² ln(n)`.
const PENALTY: f64 = 3.0;
/// A shorter stretch is part of a slope.
const SHORTEST_OCTAVES: f64 = 0.49;
/// Neighbouring segments closer than this ratio are one level: no two levels of a documented
/// memory hierarchy are, and TLB misses or a mesh tilt a plateau by less.
const SAME_LEVEL: f64 = 1.5;
/// Share of accesses that miss at a plateau's edge.
const EDGE_MISSES: f64 = 0.1;

/// The plateaus of a ladder in ascending order of footprint.
///
/// Change points come from optimal partitioning (Jackson et al. 2005) of the log values into
/// constant segments, with the noise taken from second differences and a floor of 3 %; segments
/// shorter than half an octave are slopes, neighbours less than a factor 1.5 apart are one plateau.
pub fn plateaus(rungs: &[Rung]) -> Vec<Plateau> {
    if rungs.len() < 2 {
        return Vec::new();
    }
    let logs: Vec<f64> = rungs.iter().map(|rung| rung.value.ln()).collect();
    let sd = noise(&logs).max(FLAT_SD);
    let penalty = PENALTY * sd * sd * (logs.len() as f64).ln();
    let flat = segments(&logs, penalty)
        .into_iter()
        .filter(|&(first, last)| octaves(rungs, first, last) >= SHORTEST_OCTAVES)
        .filter(|&(first, last)| deviation(&logs[first..=last]) <= 2.0 * sd);

    let mut levels: Vec<Level> = Vec::new();
    for (first, last) in flat {
        let segment =
            Segment { octaves: octaves(rungs, first, last), log: median(&logs[first..=last]) };
        match levels.last_mut() {
            // Never below: a level that seems faster than the one inside it is noise.
            Some(level) if segment.log < level.best.log + SAME_LEVEL.ln() => {
                level.last = last;
                if segment.octaves > level.best.octaves {
                    level.best = segment;
                }
            }
            _ => levels.push(Level { first, last, best: segment }),
        }
    }
    with_edges(rungs, &levels)
}

struct Segment {
    octaves: f64,
    log: f64,
}

struct Level {
    first: usize,
    last: usize,
    best: Segment,
}

fn with_edges(rungs: &[Rung], levels: &[Level]) -> Vec<Plateau> {
    let plateau = |(at, level): (usize, &Level)| {
        let value = level.best.log.exp();
        let end = levels.get(at + 1).map_or(rungs.len(), |next| next.first);
        let top = match levels.get(at + 1) {
            Some(next) => Some(next.best.log.exp()),
            None => rungs[level.last..]
                .iter()
                .map(|rung| rung.value)
                .reduce(f64::max)
                .filter(|&highest| highest > value * SAME_LEVEL),
        };
        let threshold = top.map(|top| value + EDGE_MISSES * (top - value));
        Plateau {
            first: level.first,
            last: level.last,
            value,
            edge: threshold.and_then(|threshold| crossing(rungs, level.first, end, threshold)),
        }
    };
    levels.iter().enumerate().map(plateau).collect()
}

/// Where the ladder passes `threshold` for good before `end`, interpolated on log axes.
fn crossing(rungs: &[Rung], first: usize, end: usize, threshold: f64) -> Option<f64> {
    let below = (first..end.min(rungs.len())).rev().find(|&at| rungs[at].value < threshold)?;
    let (here, next) = (rungs[below], rungs.get(below + 1)?);
    let share = (threshold / here.value).ln() / (next.value / here.value).ln();
    Some(here.size * (next.size / here.size).powf(share))
}

/// Standard deviation of the noise of a mostly smooth sequence, from the median absolute second
/// difference (a second difference of independent errors has six times their variance).
fn noise(logs: &[f64]) -> f64 {
    let bends: Vec<f64> =
        logs.windows(3).map(|three| (three[0] - 2.0 * three[1] + three[2]).abs()).collect();
    robust_deviation(&bends, 0.0) / 6.0_f64.sqrt()
}

/// Optimal partition into constant segments: least sum of squares plus `penalty` per segment.
/// Returns first and last index of each.
fn segments(logs: &[f64], penalty: f64) -> Vec<(usize, usize)> {
    let n = logs.len();
    let mut sum = vec![0.0; n + 1];
    let mut squares = vec![0.0; n + 1];
    for (at, log) in logs.iter().enumerate() {
        sum[at + 1] = sum[at] + log;
        squares[at + 1] = squares[at] + log * log;
    }
    let cost = |from: usize, to: usize| {
        let count = (to - from) as f64;
        let total: f64 = sum[to] - sum[from];
        (squares[to] - squares[from] - total * total / count).max(0.0)
    };
    let mut best = vec![0.0; n + 1];
    let mut start = vec![0; n + 1];
    for to in 1..=n {
        let (from, total) = (0..to)
            .map(|from| (from, best[from] + cost(from, to) + penalty))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("0..to is not empty");
        best[to] = total;
        start[to] = from;
    }
    let mut found = Vec::new();
    let mut to = n;
    while to > 0 {
        found.push((start[to], to - 1));
        to = start[to];
    }
    found.reverse();
    found
}

fn octaves(rungs: &[Rung], first: usize, last: usize) -> f64 {
    (rungs[last].size / rungs[first].size).log2()
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

/// Median of a slice that is not empty; the mean of the middle two for an even count.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Octaves by which an edge may lie below and above the size whose name it gets. The other thread
/// of a core may hold half of a cache, and pages that fall on the same sets take more of it.
const NAMED_OCTAVES: std::ops::RangeInclusive<f64> = -1.5..=1.0;

/// Gives each edge the name of the described size nearest to it, at most one octave below the edge
/// and one and a half above; a name is given once, to the nearest edge. `None`: nothing described
/// lies that near.
pub fn names<'size>(
    edges: &[Option<f64>],
    described: &[(&'size str, f64)],
) -> Vec<Option<&'size str>> {
    let mut pairs: Vec<(f64, usize, &str)> = Vec::new();
    for (at, edge) in edges.iter().enumerate() {
        for (name, size) in described {
            let distance = edge.map_or(f64::INFINITY, |edge| (edge / size).log2());
            if NAMED_OCTAVES.contains(&distance) {
                pairs.push((distance.abs(), at, name));
            }
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut given: Vec<Option<&str>> = vec![None; edges.len()];
    for (_, at, name) in pairs {
        if given[at].is_none() && !given.contains(&Some(name)) {
            given[at] = Some(name);
        }
    }
    given
}

/// The step at which a value that grows in proportion to it stays: the smallest at which every
/// access meets a new unit. Fits `hit + (miss - hit) min(1, step / knee)` with the knee at one of
/// the steps measured, by least squares of relative errors. `None` where fewer than four steps were measured, where the
/// knee would be the first or the last step (then nothing shows that it is one), where a miss costs
/// less than 1.2 hits, or where the fit is off by more than 10 % anywhere.
pub fn saturation(steps: &[Rung]) -> Option<f64> {
    if steps.len() < 4 {
        return None;
    }
    let inner = &steps[1..steps.len() - 1];
    let (knee, hit, rise) = inner
        .iter()
        .filter_map(|candidate| {
            let shape = |size: f64| (size / candidate.size).min(1.0);
            let (hit, rise) = line(steps, shape)?;
            Some((candidate.size, hit, rise))
        })
        .min_by(|a, b| {
            let error = |fit: &(f64, f64, f64)| worst(steps, fit.0, fit.1, fit.2);
            error(a).total_cmp(&error(b))
        })?;
    let fits = worst(steps, knee, hit, rise) <= 0.1 && hit > 0.0 && rise > 0.2 * hit;
    fits.then_some(knee)
}

/// Largest relative error of a ramp.
fn worst(steps: &[Rung], knee: f64, hit: f64, rise: f64) -> f64 {
    steps
        .iter()
        .map(|step| {
            let fitted = hit + rise * (step.size / knee).min(1.0);
            (step.value / fitted - 1.0).abs()
        })
        .fold(0.0, f64::max)
}

/// Weighted least squares of `value = a + b shape(size)`, weights `1 / value²`.
fn line(rungs: &[Rung], shape: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let (mut s, mut sx, mut sxx, mut sy, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for rung in rungs {
        let weight = rung.value.powi(-2);
        let x = shape(rung.size);
        s += weight;
        sx += weight * x;
        sxx += weight * x * x;
        sy += weight * rung.value;
        sxy += weight * x * rung.value;
    }
    let determinant = s * sxx - sx * sx;
    (determinant > 1e-12 * s * sxx).then(|| {
        let slope = (s * sxy - sx * sy) / determinant;
        ((sy - slope * sx) / s, slope)
    })
}

/// What accesses cost more than on a reference ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// A footprint of the walk, in bytes.
    pub size: f64,
    pub value: f64,
    /// Standard deviation to weigh it by (of any common scale).
    pub sd: f64,
}

/// A structure of finite reach that is looked up at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    pub size: f64,
    /// Cost of an access that it does not cover.
    pub cost: f64,
}

/// Fits `sum of cost (1 - size / footprint)` over at most two structures: under random accesses a
/// structure that covers `size` of a footprint is hit with that share, whatever it evicts. Least
/// weighted squares, reaches on a grid of eighths of an octave, costs not negative. A structure is
/// kept only where it lowers the sum of squares to a third. Ascending by size; empty where nothing
/// stands out of the noise.
pub fn reaches(points: &[Excess]) -> Vec<Reach> {
    if points.len() < 6 {
        return Vec::new();
    }
    let none: f64 = points.iter().map(|p| (p.value / p.sd).powi(2)).sum();
    let low = points.iter().map(|p| p.size).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.size).fold(0.0, f64::max) / 2.0;
    let steps = ((high / low).log2() * 8.0).max(0.0) as usize;
    let grid: Vec<f64> = (0..=steps).map(|step| low * 2.0_f64.powf(step as f64 / 8.0)).collect();
    let Some((one, cost, rest)) = grid
        .iter()
        .filter_map(|&size| single(points, size).map(|(cost, rest)| (size, cost, rest)))
        .min_by(|a, b| a.2.total_cmp(&b.2))
    else {
        return Vec::new();
    };
    // Three parameters are always found in noise; a third of the squares left is not noise.
    if rest * 3.0 > none {
        return Vec::new();
    }
    let mut best = (rest / 3.0, vec![Reach { size: one, cost }]);
    for (at, &inner) in grid.iter().enumerate() {
        for &outer in grid.iter().skip(at + 4) {
            if let Some((costs, left)) = pair(points, inner, outer)
                && left < best.0
            {
                let reach = |size, cost| Reach { size, cost };
                best = (left, vec![reach(inner, costs.0), reach(outer, costs.1)]);
            }
        }
    }
    best.1
}

fn misses(reach: f64, footprint: f64) -> f64 {
    (1.0 - reach / footprint).max(0.0)
}

fn single(points: &[Excess], size: f64) -> Option<(f64, f64)> {
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in points {
        let (x, y) = (misses(size, point.size) / point.sd, point.value / point.sd);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    let cost = xy / xx;
    (xx > 0.0 && cost > 0.0).then_some((cost, yy - cost * xy))
}

fn pair(points: &[Excess], inner: f64, outer: f64) -> Option<((f64, f64), f64)> {
    let (mut aa, mut ab, mut bb, mut ay, mut by, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let a = misses(inner, point.size) / point.sd;
        let b = misses(outer, point.size) / point.sd;
        let y = point.value / point.sd;
        aa += a * a;
        ab += a * b;
        bb += b * b;
        ay += a * y;
        by += b * y;
        yy += y * y;
    }
    let determinant = aa * bb - ab * ab;
    if determinant <= 1e-9 * aa * bb {
        return None;
    }
    let first = (ay * bb - by * ab) / determinant;
    let second = (by * aa - ay * ab) / determinant;
    let left = yy - first * ay - second * by;
    (first > 0.0 && second > 0.0).then_some(((first, second), left))
}

#[cfg(test)]
mod tests;
