//! Things in the order in which they first come.

use std::collections::HashMap;
use std::hash::Hash;

pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The least and the greatest; infinity and minus infinity where there are no numbers.
pub fn ends(all: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    all.into_iter().fold(start, |(low, high), one| (low.min(one), high.max(one)))
}

pub fn gathered<K: Clone + Eq + Hash, T>(
    all: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, one) in all {
        let at = *places.entry(key).or_insert_with_key(|key| {
            groups.push((key.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(one);
    }
    groups
}
