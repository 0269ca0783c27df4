//! Another periodic source among events that are not the tick's.
//!
//! A process that sleeps for a while each time drifts and jitters, so its events keep no phase.
//! What stays is the time from one to the next: events have a successor at that distance more often
//! than at distances nearby. Events of like length are also looked at by themselves.
//!
//! That bound takes events to be independent of each other, which those of a hypervisor and of a
//! scheduler are not: they come a little regularly, or in clusters, and then keep some distance for
//! a while. So a period is claimed only where chance is as good as excluded, and where each half of
//! the time shows it by itself.

use super::{SIGNIFICANT, binomial_tail};
use crate::quantile::median;
use record::order::InOrder;

/// How far the time from one event to the next may be from the period.
const WITHIN: f64 = 0.01;
/// How far distances reach that say how often chance has a successor there.
const NEARBY: f64 = 0.15;
/// Shortest period looked for, in ns. Bursts have their own, shorter times.
const SHORTEST_NS: f64 = 100_000.0;
/// Successors looked at, per event.
const SUCCESSORS: usize = 24;
/// Events looked at; of more, the first.
const EVENTS: usize = 4_000;
/// Greatest probability under chance, all looks counted, of a period that is claimed: far beyond
/// what is significant for independent events.
const CERTAIN: f64 = 1e-12;
/// Distances judged in each group, the most frequent ones.
const JUDGED: usize = 24;
/// Fewest pairs of events at the period.
const FEWEST: usize = 5;
/// Share of the cycles of the whole time that must have a pair, beyond those that chance has. Gaps
/// are not as independent as chance takes them to be: many that are a little regular are not a
/// period.
const PRESENT: f64 = 0.4;
/// Share of the pairs whose second event begins another: what comes regularly goes on. Two events
/// that keep their places in a longer period are apart by the same time again and again, but not
/// twice in a row.
const GOES_ON: f64 = 0.4;
/// A shorter period is taken if it has so large a share of the pairs of the best.
const SHORTER: f64 = 0.6;

/// A period of others than the tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Periodic {
    /// From one start to the next, the mean of the pairs.
    pub period_ns: f64,
    /// Median length of its events.
    pub length_ns: f64,
    /// Its events, by their place in the list.
    pub members: Vec<usize>,
    /// Probability of so many pairs by chance, all looks counted: a bound.
    pub p: f64,
}

impl Periodic {
    /// Time that its events take together: by their median, for some are others' that only came
    /// at the right time.
    fn taken_ns(&self) -> f64 {
        self.length_ns * self.members.len() as f64
    }
}

/// The period that most pairs of events keep; the shortest where whole multiples keep it too. Of
/// several, each of events of like length, the one that takes most time: a host's tick of every
/// millisecond is surer than a thread every seven, and takes less. `lengths_ns` has a length for
/// every start.
pub fn periodic(starts_ns: &[f64], lengths_ns: &[f64]) -> Option<Periodic> {
    let most = starts_ns.len().min(lengths_ns.len()).min(EVENTS);
    let groups = groups(&lengths_ns[..most]);
    let looks = groups.len() as f64;
    let span_ns = starts_ns[..most].last()? - starts_ns.first()?;
    let mut found: Vec<Periodic> = Vec::new();
    for group in groups {
        let starts: Vec<f64> = group.iter().map(|&index| starts_ns[index]).collect();
        let Some((period_ns, members, p)) = in_group(&starts, span_ns, looks) else { continue };
        let middle_ns = f64::midpoint(starts_ns[0], starts_ns[most - 1]);
        if p > CERTAIN || !is_in_both_halves(&starts, middle_ns, span_ns, period_ns) {
            continue;
        }
        let members: Vec<usize> = members.into_iter().map(|member| group[member]).collect();
        let lengths = members.iter().map(|&index| lengths_ns[index]).collect::<Vec<_>>();
        found.push(Periodic { period_ns, length_ns: median(&lengths)?, members, p });
    }
    found.into_iter().max_by(|a, b| a.taken_ns().total_cmp(&b.taken_ns()))
}

/// All events, and those of each range of lengths (a factor of four, half of it common with the
/// next).
fn groups(lengths_ns: &[f64]) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..lengths_ns.len()).collect();
    let mut groups = vec![all.clone()];
    let shortest = lengths_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = lengths_ns.iter().copied().fold(0.0, f64::max);
    let mut low = shortest.max(1.0);
    while low <= longest {
        let is_in = |index: &usize| (low..4.0 * low).contains(&lengths_ns[*index]);
        let group: Vec<usize> = all.iter().copied().filter(is_in).collect();
        if group.len() > FEWEST && group.len() < all.len() {
            groups.push(group);
        }
        low *= 2.0;
    }
    groups
}

/// Whether each half of the time shows the period without the other's help.
fn is_in_both_halves(starts_ns: &[f64], middle_ns: f64, span_ns: f64, period_ns: f64) -> bool {
    let (first, second) = starts_ns.split_at(starts_ns.partition_point(|start| *start < middle_ns));
    [first, second].into_iter().all(|half| {
        let found = in_group(half, span_ns / 2.0, 1.0);
        found.is_some_and(|(found_ns, ..)| (found_ns / period_ns - 1.0).abs() <= WITHIN)
    })
}

/// Period, members and probability in one group.
fn in_group(starts_ns: &[f64], span_ns: f64, looks: f64) -> Option<(f64, Vec<usize>, f64)> {
    let longest_ns = span_ns / FEWEST as f64;
    let mut distances: Vec<f64> = Vec::new();
    for (index, start) in starts_ns.iter().enumerate() {
        let next = starts_ns[index + 1..].iter().take(SUCCESSORS);
        distances.extend(
            next.map(|next| next - start)
                .filter(|distance| (SHORTEST_NS..=longest_ns).contains(distance)),
        );
    }
    distances.sort_unstable_by(f64::total_cmp);
    let cells = (longest_ns / SHORTEST_NS).ln() / WITHIN;
    let mut kept: Vec<Pairs> = most_frequent(&distances)
        .into_iter()
        .filter_map(|distance_ns| {
            Pairs::at_distance(starts_ns, distance_ns, span_ns, looks * cells)
        })
        .collect();
    let most = kept.iter().map(|pairs| pairs.list.len()).max()? as f64;
    kept.retain(|pairs| pairs.list.len() as f64 >= SHORTER * most);
    let best = kept.into_iter().min_by(|a, b| a.distance_ns.total_cmp(&b.distance_ns))?;
    // The distance was the most frequent one's; what its pairs say is better.
    let pairs = Pairs::at_distance(starts_ns, best.mean_ns(starts_ns), span_ns, looks * cells)?;
    let mut members: Vec<usize> = pairs.list.iter().flat_map(|(a, b)| [*a, *b]).collect();
    members.sort_unstable();
    members.dedup();
    Some((pairs.mean_ns(starts_ns), members, pairs.p))
}

/// Distances that have most others about them, apart from each other.
fn most_frequent(sorted: &[f64]) -> Vec<f64> {
    let mut counted: Vec<(usize, f64)> = Vec::new();
    let mut end = 0;
    for (begin, distance) in sorted.iter().enumerate() {
        while end < sorted.len() && sorted[end] <= distance * (1.0 + WITHIN) {
            end += 1;
        }
        counted.push((end - begin, sorted[begin + (end - begin) / 2]));
    }
    counted.order_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let mut found: Vec<f64> = Vec::new();
    for (_, distance) in counted {
        if found.len() == JUDGED {
            break;
        }
        if found.iter().all(|other| (distance / other - 1.0).abs() > 2.0 * WITHIN) {
            found.push(distance);
        }
    }
    found
}

/// Events with a successor at a distance.
struct Pairs {
    distance_ns: f64,
    list: Vec<(usize, usize)>,
    p: f64,
}

impl Pairs {
    /// `None` where chance has as many, or too few cycles have one.
    fn at_distance(starts_ns: &[f64], distance_ns: f64, span_ns: f64, looks: f64) -> Option<Pairs> {
        let list = pairs(starts_ns, distance_ns, WITHIN * distance_ns);
        let cycles = span_ns / distance_ns;
        if list.len() < FEWEST {
            return None;
        }
        // What chance has: by the mean rate, and by how often there is a successor nearby.
        let n = starts_ns.len() as f64;
        let by_rate = 1.0 - (-n / span_ns * 2.0 * WITHIN * distance_ns).exp();
        let nearby = [1.0 - NEARBY, 1.0 + NEARBY].map(|share| {
            let wide = pairs(starts_ns, share * distance_ns, 0.1 * distance_ns).len();
            wide as f64 / n * WITHIN / 0.1
        });
        let share = nearby.into_iter().fold(by_rate, f64::max).min(1.0);
        if list.len() as f64 - share * n < PRESENT * cycles || !goes_on(&list) {
            return None;
        }
        let p = (binomial_tail(n, list.len() as f64, share) * looks).min(1.0);
        (p <= SIGNIFICANT).then_some(Pairs { distance_ns, list, p })
    }

    fn mean_ns(&self, starts_ns: &[f64]) -> f64 {
        let sum: f64 = self.list.iter().map(|(a, b)| starts_ns[*b] - starts_ns[*a]).sum();
        sum / self.list.len() as f64
    }
}

/// Whether pairs follow each other often enough.
fn goes_on(list: &[(usize, usize)]) -> bool {
    // The first events of the pairs are in order.
    let begins = |event: &usize| list.binary_search_by_key(event, |(first, _)| *first).is_ok();
    let going_on = list.iter().filter(|(_, second)| begins(second)).count();
    going_on as f64 >= GOES_ON * (list.len() as f64 - 1.0)
}

/// Every event with the first other one that follows at a distance, to so many ns.
fn pairs(starts_ns: &[f64], distance_ns: f64, within_ns: f64) -> Vec<(usize, usize)> {
    let mut next = 0;
    let mut list = Vec::new();
    for (index, start) in starts_ns.iter().enumerate() {
        while next < starts_ns.len() && starts_ns[next] < start + distance_ns - within_ns {
            next += 1;
        }
        if next < starts_ns.len() && starts_ns[next] <= start + distance_ns + within_ns {
            list.push((index, next));
        }
    }
    list
}
