//! Periods in lists of events: the kernel's tick, and others that come at regular times.
//!
//! Events are given by their starts, in ns from any origin, in order. A period is claimed only with
//! a probability that events at random times would have looked so; what is too few or too scattered
//! for one gives `None`.

mod other;

pub use other::{Periodic, periodic};

use std::f64::consts::TAU;

/// How far a tick may be from its nominal period: a clock may be slewed by 500 ppm (adjtimex(2)).
const OFF_NOMINAL: f64 = 600e-6;
/// Widths of the arc of a period in which its events must lie. A tick is a spike; a hypervisor
/// delays some.
const ARCS: [f64; 3] = [1.0 / 400.0, 1.0 / 100.0, 1.0 / 20.0];
/// The arc by which periods near the nominal one are compared.
const COARSE_ARC: f64 = ARCS[1];
/// Cycles and events of the first look, after which longer stretches are fitted.
const FIRST_LOOK: (f64, usize) = (200.0, 4_000);
/// Fewest cycles with an event of their own.
const FEWEST: usize = 5;
/// Least share of the cycles that must have an event: the tick comes every time, and is seen unless
/// somebody else has the CPU.
const OCCUPIED: f64 = 0.3;
/// Pairs of cycles next to each other with events, at least.
const NEXT_TO_EACH_OTHER: usize = 3;
/// Greatest probability under chance, all looks counted.
pub(super) const SIGNIFICANT: f64 = 1e-3;
/// Parts of a period that might be the true one.
const PARTS: std::ops::RangeInclusive<usize> = 2..=10;
/// Parts of the events, the longest, that are looked at alone.
const LONGEST_PARTS: [usize; 3] = [4, 16, 64];
/// A shorter period wins only if it explains so many times more than a longer one.
const EXPLAINS_MORE: f64 = 1.25;

/// A period near a nominal one, with the events on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Length of the period, fitted to the events.
    pub period_ns: f64,
    /// Where the first period of the time axis begins: events lie about this plus whole periods.
    pub phase_ns: f64,
    pub events: usize,
    /// |sum of exp(2 pi i t / T)| / n over all events: 1 where every one is on the period.
    pub resultant: f64,
    /// Probability that so long a resultant comes from events at random times (Rayleigh).
    pub rayleigh_p: f64,
    /// Probability that events at random times, and independent, crowd like this in one arc of any
    /// period looked at: a bound (Chernoff's for the binomial, times the arcs and periods looked
    /// at).
    pub p: f64,
    /// Cycles that have an event in the arc.
    pub on_grid: usize,
    /// Their share of all cycles from the first such to the last.
    pub occupied: f64,
    /// Events further than this from the grid are not on it.
    pub tolerance_ns: f64,
}

impl Tick {
    /// Whether an event that starts there belongs to the period.
    pub fn is_on(&self, start_ns: f64) -> bool {
        cycle(start_ns, self.period_ns, self.phase_ns).1.abs() <= self.tolerance_ns
    }
}

/// The longest of the periods near `candidates_ns` that explains the events: most events it
/// explains lie in one narrow arc of it, in cycles next to each other, and in no other arc at a
/// part of it.
pub fn tick(starts_ns: &[f64], candidates_ns: &[f64]) -> Option<Tick> {
    let mut found: Vec<(f64, Tick)> = Vec::new();
    let looks = candidates_ns.len() as f64;
    for candidate_ns in candidates_ns {
        found.extend(near(starts_ns, *candidate_ns, looks));
    }
    let most = found.iter().map(|(excess, _)| *excess).max_by(f64::total_cmp)?;
    found.retain(|(excess, _)| excess * EXPLAINS_MORE >= most);
    let longest = found.into_iter().max_by(|a, b| a.1.period_ns.total_cmp(&b.1.period_ns));
    longest.map(|(_, tick)| tick)
}

/// As [`tick`], where many short events that are no tick's hide it: also looks at the longest
/// quarter, sixteenth and sixty-fourth of the events alone, and takes the surest. Its figures are
/// of the events that it was found in. `lengths_ns` has a length for every start.
pub fn tick_by_length(
    starts_ns: &[f64],
    lengths_ns: &[f64],
    candidates_ns: &[f64],
) -> Option<Tick> {
    let mut sorted = lengths_ns.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let of_part = |part: &usize| {
        let shortest = sorted.get(sorted.len() - sorted.len() / part)?;
        let longest = starts_ns.iter().zip(lengths_ns);
        let longest = longest.filter(|(_, length)| *length >= shortest);
        Some(longest.map(|(start, _)| *start).collect::<Vec<f64>>())
    };
    let found = std::iter::once(starts_ns.to_vec())
        .chain(LONGEST_PARTS.iter().filter_map(of_part))
        .filter_map(|starts| tick(&starts, candidates_ns))
        .min_by(|a, b| a.p.total_cmp(&b.p))?;
    let p = found.p * (1 + LONGEST_PARTS.len()) as f64;
    (p <= SIGNIFICANT).then_some(Tick { p, ..found })
}

/// The tick near one nominal period, and how many events beyond chance are on it.
fn near(starts_ns: &[f64], nominal_ns: f64, looks: f64) -> Option<(f64, Tick)> {
    let (first, last) = (*starts_ns.first()?, *starts_ns.last()?);
    if starts_ns.len() < FEWEST || nominal_ns <= 0.0 || last - first < nominal_ns * FEWEST as f64 {
        return None;
    }
    let (mut period_ns, mut centre_ns, steps) = first_look(starts_ns, nominal_ns)?;
    // Twice the stretch each time: the error of the period is never more than an arc over it.
    let mut cycles = FIRST_LOOK.0;
    loop {
        let end_ns = first + cycles * period_ns;
        let events = starts_ns.partition_point(|start| *start <= end_ns);
        let arc_ns = COARSE_ARC * period_ns;
        if let Some(fit) = fitted(&starts_ns[..events], period_ns, centre_ns, arc_ns) {
            (period_ns, centre_ns) = fit;
        }
        if end_ns >= last {
            break;
        }
        cycles *= 2.0;
    }
    let best = ARCS
        .into_iter()
        .filter_map(|arc| judged(starts_ns, period_ns, arc, looks * steps))
        .min_by(|a, b| a.1.p.total_cmp(&b.1.p).then(b.0.total_cmp(&a.0)))?;
    let (excess, tick) = best;
    let is_tick = tick.p <= SIGNIFICANT
        && tick.on_grid >= FEWEST
        && tick.occupied >= OCCUPIED
        && is_every_cycle(starts_ns, &tick)
        && !PARTS.into_iter().any(|parts| is_part(starts_ns, &tick, parts));
    is_tick.then_some((excess, tick))
}

/// The period near the nominal one under which the first events crowd most, where they crowd, and
/// how many periods were tried.
fn first_look(starts_ns: &[f64], nominal_ns: f64) -> Option<(f64, f64, f64)> {
    let first = *starts_ns.first()?;
    let end_ns = first + FIRST_LOOK.0 * nominal_ns;
    let events = starts_ns.partition_point(|start| *start <= end_ns);
    let starts = &starts_ns[..events.min(FIRST_LOOK.1)];
    let cycles = (starts.last()? - first) / nominal_ns;
    // Over all cycles, one step is half an arc.
    let step = COARSE_ARC / (2.0 * cycles.max(1.0));
    let steps = (OFF_NOMINAL / step).ceil();
    let mut best = (0, nominal_ns, first);
    let mut at = -steps;
    while at <= steps {
        let period_ns = nominal_ns * (1.0 + at * step);
        let (count, centre) = densest(starts, period_ns, COARSE_ARC)?;
        if count > best.0 {
            best = (count, period_ns, centre);
        }
        at += 1.0;
    }
    Some((best.1, best.2, 2.0 * steps + 1.0))
}

/// The arc (a share of the period) that holds most events, and its centre in ns from the origin.
fn densest(starts_ns: &[f64], period_ns: f64, arc: f64) -> Option<(usize, f64)> {
    let mut phases: Vec<f64> =
        starts_ns.iter().map(|start| (start / period_ns).rem_euclid(1.0)).collect();
    phases.sort_unstable_by(f64::total_cmp);
    let n = phases.len();
    let at = |index: usize| phases[index % n] + (index / n) as f64;
    let (mut best, mut end) = ((0, 0), 0);
    for begin in 0..n {
        end = end.max(begin);
        while end < begin + n && at(end) - at(begin) <= arc {
            end += 1;
        }
        if end - begin > best.0 {
            best = (end - begin, begin);
        }
    }
    let (count, begin) = best;
    // The median event of the arc.
    (count > 0).then(|| (count, at(begin + count / 2) * period_ns))
}

/// Number of the cycle, and distance from its event's place.
fn cycle(start_ns: f64, period_ns: f64, phase_ns: f64) -> (f64, f64) {
    let number = ((start_ns - phase_ns) / period_ns).round();
    (number, start_ns - phase_ns - number * period_ns)
}

/// Least squares through the events about the grid: period and phase.
fn fitted(starts_ns: &[f64], period_ns: f64, phase_ns: f64, arc_ns: f64) -> Option<(f64, f64)> {
    let on: Vec<(f64, f64)> = starts_ns
        .iter()
        .map(|start| cycle(*start, period_ns, phase_ns))
        .filter(|(_, apart)| apart.abs() <= arc_ns)
        .collect();
    let n = on.len() as f64;
    let mean_cycle = on.iter().map(|(cycle, _)| cycle).sum::<f64>() / n;
    let mean_apart = on.iter().map(|(_, apart)| apart).sum::<f64>() / n;
    let (mut product, mut square) = (0.0, 0.0);
    for (cycle, apart) in &on {
        product += (cycle - mean_cycle) * (apart - mean_apart);
        square += (cycle - mean_cycle).powi(2);
    }
    let slope = (square > 0.0).then(|| product / square)?;
    Some((period_ns + slope, phase_ns + mean_apart - slope * mean_cycle))
}

/// What one arc of the fitted period holds, and how many events that is beyond chance.
fn judged(starts_ns: &[f64], period_ns: f64, arc: f64, looks: f64) -> Option<(f64, Tick)> {
    let n = starts_ns.len() as f64;
    let (_, centre_ns) = densest(starts_ns, period_ns, arc)?;
    let phase_ns = centre_ns.rem_euclid(period_ns);
    // Events near each other are one: a burst is no period.
    let numbers = numbers_on(starts_ns, period_ns, phase_ns, arc * period_ns / 2.0);
    let on_grid = numbers.len();
    let (first, last) = (numbers.first()?, numbers.last()?);
    let (mut x, mut y) = (0.0, 0.0);
    for start in starts_ns {
        let (sine, cosine) = (TAU * (start / period_ns).rem_euclid(1.0)).sin_cos();
        (x, y) = (x + cosine, y + sine);
    }
    let resultant = x.hypot(y) / n;
    // Any event may begin the arc; then so many of the others must lie in it.
    let tail = binomial_tail(n - 1.0, on_grid as f64 - 1.0, arc);
    let tick = Tick {
        period_ns,
        phase_ns,
        events: starts_ns.len(),
        resultant,
        rayleigh_p: (-n * resultant * resultant).exp(),
        p: (tail * n * looks * ARCS.len() as f64).min(1.0),
        on_grid,
        occupied: on_grid as f64 / (last - first + 1.0),
        tolerance_ns: arc * period_ns,
    };
    Some((on_grid as f64 - n * arc, tick))
}

/// The cycles that have an event no further than `within_ns` from its place, each once, in order.
fn numbers_on(starts_ns: &[f64], period_ns: f64, phase_ns: f64, within_ns: f64) -> Vec<f64> {
    let mut numbers: Vec<f64> = starts_ns
        .iter()
        .map(|start| cycle(*start, period_ns, phase_ns))
        .filter_map(|(number, apart)| (apart.abs() <= within_ns).then_some(number))
        .collect();
    numbers.dedup();
    numbers
}

/// Chernoff's bound of the probability that at least `k` of `n` are in a part `share`.
pub(super) fn binomial_tail(n: f64, k: f64, share: f64) -> f64 {
    if n <= 0.0 || k <= n * share {
        return 1.0;
    }
    let part = (k / n).min(1.0);
    let mut divergence = part * (part / share).ln();
    if part < 1.0 {
        divergence += (1.0 - part) * ((1.0 - part) / (1.0 - share)).ln();
    }
    (-n * divergence).exp()
}

/// Whether cycles next to each other have events as often as chance lets them. Where only every
/// second or seventh cycle has one, the period is that much longer.
fn is_every_cycle(starts_ns: &[f64], tick: &Tick) -> bool {
    let within_ns = tick.tolerance_ns / 2.0;
    let numbers = numbers_on(starts_ns, tick.period_ns, tick.phase_ns, within_ns);
    let next = numbers.windows(2).filter(|pair| pair[1] - pair[0] == 1.0).count();
    let by_chance = tick.occupied * (numbers.len() as f64 - 1.0);
    next as f64 >= 0.5 * by_chance && next >= NEXT_TO_EACH_OTHER
}

/// Whether every one of so many parts of the period holds about as many events: then a part is the
/// period, or what is common to it and another.
fn is_part(starts_ns: &[f64], tick: &Tick, parts: usize) -> bool {
    let within_ns = tick.tolerance_ns / 2.0;
    let by_chance = starts_ns.len() as f64 * tick.tolerance_ns / tick.period_ns;
    let count = |part: usize| {
        let phase_ns = tick.phase_ns + tick.period_ns * part as f64 / parts as f64;
        numbers_on(starts_ns, tick.period_ns, phase_ns, within_ns).len() as f64 - by_chance
    };
    let own = count(0);
    (1..parts).all(|part| count(part) > 0.5 * own)
}

#[cfg(test)]
mod tests;
