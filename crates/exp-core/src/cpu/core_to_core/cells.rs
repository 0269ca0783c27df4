//! The cells of the matrix: which pairs of CPUs, by their numbers.

use super::Handed;
use bench::pair::Class;
use bench::prelude::*;
use std::collections::BTreeSet;

/// CPUs whose pairs are looked through for a sample, spread over the machine: each with all others,
/// so that looking stays linear in the number of CPUs.
const ANCHORS: usize = 16;

/// The cells that the parameters ask for, and why some are absent.
pub(super) fn cells(site: &Site, params: &Params) -> Vec<(Handed, Option<Skip>)> {
    let mut cpus = site.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    let chosen = |name: &str| params.chosen(name).map(|_| params.ints(name));
    let pairs = match (chosen("from"), chosen("to")) {
        (None, None) => automatic(site, &cpus, params),
        (from, to) => {
            let all = || cpus.iter().map(|cpu| *cpu as u64).collect();
            product(&from.unwrap_or_else(all), &to.unwrap_or_else(all))
        }
    };
    let cell = |[from, to]: [u64; 2]| {
        let absent =
            [from, to].into_iter().find(|cpu| !cpus.iter().any(|have| *have as u64 == *cpu));
        let skip = absent.map(|cpu| {
            Skip::because(format!("CPU {cpu} is not among those to measure on"))
                .needs(format!("--cpu with {cpu} in its list"))
        });
        (Handed { pair: None, home: None, from: Some(from), to: Some(to) }, skip)
    };
    pairs.into_iter().map(cell).collect()
}

/// All ordered pairs of different CPUs.
fn product(from: &[u64], to: &[u64]) -> Vec<[u64; 2]> {
    let rows = from.iter().flat_map(|from| to.iter().map(|to| [*from, *to]));
    rows.filter(|[from, to]| from != to).collect()
}

/// All ordered pairs up to `whole` CPUs, above it a sample of each class in both directions.
fn automatic(site: &Site, cpus: &[usize], params: &Params) -> Vec<[u64; 2]> {
    let setting = |name: &str| {
        let value = params.ints(name).first().copied().unwrap_or(0);
        usize::try_from(value).unwrap_or(usize::MAX)
    };
    let numbers: Vec<u64> = cpus.iter().map(|cpu| *cpu as u64).collect();
    if cpus.len() <= setting("whole") {
        return product(&numbers, &numbers);
    }
    let pairs = sample(cpus, setting("sample"), |a, b| site.host.cpu.distance(a, b).into());
    let both = |[a, b]: [usize; 2]| [[a as u64, b as u64], [b as u64, a as u64]];
    pairs.into_iter().flat_map(both).collect()
}

/// At most `count` pairs of each class, spread evenly over those that [`ANCHORS`] CPUs have; the
/// same whenever it is asked.
fn sample(cpus: &[usize], count: usize, class: impl Fn(usize, usize) -> Class) -> Vec<[usize; 2]> {
    let mut classes: BTreeMap<&str, BTreeSet<[usize; 2]>> = BTreeMap::new();
    if count > 0 {
        for anchor in spread(cpus, ANCHORS) {
            for other in cpus.iter().filter(|other| **other != anchor) {
                let pair = [anchor.min(*other), anchor.max(*other)];
                classes.entry(class(anchor, *other).text()).or_default().insert(pair);
            }
        }
    }
    let mut pairs = Vec::new();
    for of_class in classes.into_values() {
        let of_class: Vec<[usize; 2]> = of_class.into_iter().collect();
        pairs.extend(spread(&of_class, count));
    }
    pairs
}

/// At most `count` of the items, evenly spread.
fn spread<T: Copy>(items: &[T], count: usize) -> Vec<T> {
    let count = count.min(items.len());
    (0..count).map(|index| items[(2 * index + 1) * items.len() / (2 * count)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_has_both_directions_and_no_diagonal() {
        assert_eq!(product(&[0, 1], &[0, 1]), [[0, 1], [1, 0]]);
        assert_eq!(product(&[5], &[4, 5, 6]), [[5, 4], [5, 6]]);
    }

    #[test]
    fn what_is_spread_is_even_and_never_more_than_there_is() {
        assert_eq!(spread(&[0, 1, 2, 3, 4, 5], 2), [1, 4]);
        assert_eq!(spread(&[7, 8], 5), [7, 8]);
        assert!(spread(&[7, 8], 0).is_empty());
    }

    #[test]
    fn a_sample_has_every_class_as_often_as_asked_without_repeats() {
        let cpus: Vec<usize> = (0..256).collect();
        // Siblings 128 apart, as the kernel numbers them.
        let class = |a: usize, b: usize| match a.abs_diff(b) {
            128 => Class::Smt,
            _ if a % 128 / 8 == b % 128 / 8 => Class::Llc,
            _ => Class::Socket,
        };
        let pairs = sample(&cpus, 8, class);
        for name in [Class::Smt, Class::Llc, Class::Socket] {
            let of_class = pairs.iter().filter(|[a, b]| class(*a, *b) == name);
            assert_eq!(of_class.count(), 8, "{name:?}");
        }
        let mut firsts: Vec<usize> = pairs.iter().map(|[a, _]| a / 64).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() >= 3, "spread over the machine: {pairs:?}");
        assert_eq!(pairs, sample(&cpus, 8, class));
        assert!(sample(&cpus, 0, class).is_empty());
    }
}
