//! Sorting and gathering in little code: the standard library's are compiled for every type and
//! every order, 4 to 7 kB each time. For what times nothing and is not sorted often.

use std::cmp::Ordering;

/// Stable sorts. One sort, of places, serves all types: only the comparison and the exchanges are
/// compiled for each.
pub trait InOrder<T> {
    /// As the standard `slice::sort`.
    fn order(&mut self)
    where
        T: Ord;

    /// As the standard `slice::sort_by`.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// As the standard `slice::sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K);
}

impl<T> InOrder<T> for [T] {
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let exchanges = exchanges(self.len(), &|a, b| compare(&self[a], &self[b]));
        for (at, from) in exchanges.into_iter().enumerate() {
            self.swap(at, from);
        }
    }

    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

/// For each place in turn the place, the same or a later one, to exchange with.
fn exchanges(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut from: Vec<usize> = (0..count).collect();
    from.sort_by(|a, b| compare(*a, *b));
    for at in 0..count {
        // What was in an earlier place has gone to where that place exchanged with.
        while from[at] < at {
            from[at] = from[from[at]];
        }
    }
    from
}

/// What `collect` does for maps and sets, which sorts a copy first with a sort of its own.
pub trait Gather: IntoIterator + Sized {
    /// A map or set of the items. The last of those with the same key stays.
    fn gather<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: IntoIterator> Gather for I {}

#[cfg(test)]
mod tests {
    use super::{Gather as _, InOrder as _};
    use std::collections::BTreeMap;

    /// All sequences of five numbers below four: the same order as the standard sort's.
    #[test]
    fn is_the_standard_order() {
        for number in 0..4_usize.pow(5) {
            let one = |place: u32| (number / 4_usize.pow(place) % 4, place);
            let mut ours: Vec<(usize, u32)> = (0..5).map(one).collect();
            let mut standard = ours.clone();
            ours.order_by_key(|(key, _)| *key);
            standard.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, standard);
        }
        let mut texts = ["b", "", "c", "a"].map(str::to_owned);
        texts.order();
        assert_eq!(texts, ["", "a", "b", "c"]);
        <[u8]>::order(&mut []);
    }

    #[test]
    fn gathers_as_collect_does() {
        let pairs = [(2, "a"), (1, "b"), (2, "c")];
        assert_eq!(pairs.gather::<BTreeMap<_, _>>(), pairs.into_iter().collect());
    }
}
