//! What nodes, strata and figures are called.

use crate::model::{Role, Subject, Which};
use crate::read::Fleet;
use analysis::gather::gathered;
use analysis::verdict::is_speed;
use record::event::Range;
use record::key::Key;
use record::metric::Better;
use record::order::Gather;
use record::quantity::digits;
use record::shown::range;
use record::unit::Unit;
pub use report::{counted, percent};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const LISTED: usize = 6;

/// What figures are called: by the cards' key figures where they are some, else by what differs
/// between the figures of their experiment.
#[derive(Clone, Debug, Default)]
pub struct Titles {
    by_key: BTreeMap<Key, String>,
    places: HashMap<Key, usize>,
}

impl Titles {
    /// Titles of some keys. `card` is the title that a card gives a key figure, with its place among
    /// all key figures.
    pub fn from_keys<'key>(
        keys: impl IntoIterator<Item = &'key Key>,
        card: impl Fn(&Key) -> Option<(usize, String)>,
    ) -> Titles {
        let keys: BTreeSet<&Key> = keys.into_iter().gather();
        let mut titles = Titles::default();
        for (experiment, keys) in gathered(keys.into_iter().map(|key| (&key.experiment, key))) {
            let differing = differing(&keys);
            let cards: Vec<Option<(usize, String)>> = keys.iter().map(|key| card(key)).collect();
            for (key, of_card) in keys.iter().zip(&cards) {
                let title = match of_card {
                    Some((place, title)) => {
                        titles.places.insert((*key).clone(), *place);
                        // A card names its key figure by a part of the case: several may have it.
                        match cards.iter().flatten().filter(|(_, other)| other == title).count() {
                            1 => title.clone(),
                            _ => format!("{title}: {}", self::title(key, &differing)),
                        }
                    }
                    None => title(key, &differing),
                };
                titles.by_key.insert((*key).clone(), format!("{experiment}: {title}"));
            }
        }
        titles
    }

    /// Title of a figure: `memory.bandwidth: DRAM read, all`.
    pub fn key(&self, key: &Key) -> String {
        self.by_key.get(key).cloned().unwrap_or_else(|| key.to_string())
    }

    /// The same with the end of its pairs that the figure is of.
    pub fn role(&self, key: &Key, role: Role) -> String {
        let end = match role {
            Role::Alone => "",
            Role::Send => ", as near end",
            Role::Receive => ", as far end",
            Role::Both => ", at either end",
        };
        format!("{}{end}", self.key(key))
    }

    /// Title of what is compared over nodes.
    pub fn subject(&self, fleet: &Fleet, subject: Subject) -> String {
        self.role(&fleet.figures[subject.figure].key, subject.role)
    }

    /// Place of a key figure; behind all of them for another figure.
    pub fn place(&self, key: &Key) -> usize {
        self.places.get(key).copied().unwrap_or(usize::MAX)
    }
}

fn differing<'key>(keys: &[&'key Key]) -> BTreeSet<&'key str> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, value) in keys.iter().flat_map(|key| key.case.0.iter()) {
        values.entry(name).or_default().insert(value.to_string());
        *counts.entry(name).or_default() += 1;
    }
    let differs = |name: &&str| values[name].len() > 1 || counts[name] < keys.len();
    counts.keys().copied().filter(differs).gather()
}

/// `bandwidth (read, DRAM, all)`: the metric and what differs between the experiment's cases.
fn title(key: &Key, differing: &BTreeSet<&str>) -> String {
    let metric = key.metric.replace('_', " ");
    let values = key.case.0.iter().filter(|(name, _)| differing.contains(name.as_str()));
    let values: Vec<String> = values.map(|(_, value)| value.to_string()).collect();
    if values.is_empty() { metric } else { format!("{metric} ({})", values.join(", ")) }
}

pub fn which_name(fleet: &Fleet, which: Which) -> String {
    match which {
        Which::Node(node) => fleet.host(node).to_owned(),
        Which::Link(from, to) => format!("{} → {}", fleet.host(from), fleet.host(to)),
    }
}

pub fn listed<Name: AsRef<str>>(names: &[Name]) -> String {
    let shown = if names.len() > LISTED + 1 { LISTED } else { names.len() };
    let mut text = names[..shown].iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if names.len() > shown {
        text.push_str(&format!(" and {} more", names.len() - shown));
    }
    text
}

/// `1.41× slower`: how many times worse, or a ratio of new over base with its direction.
pub fn times(factor: f64, word: &str) -> String {
    format!("{}× {word}", size(factor))
}

/// A factor of at least 1 with the digits that it deserves.
pub fn size(factor: f64) -> String {
    match factor {
        factor if factor < 1.1 => format!("{factor:.3}"),
        factor if factor < 10.0 => format!("{factor:.2}"),
        factor => digits(factor),
    }
}

/// An interval of factors: `1.48–2.01`.
pub fn sizes((low, high): (f64, f64)) -> String {
    format!("{}–{}", size(low), size(high))
}

/// What worse means in one word: `slower` for times and rates, else `more` or `less`.
pub fn worse(unit: Unit, better: Better) -> &'static str {
    match better {
        _ if is_speed(unit) => "slower",
        Better::Higher => "less",
        Better::Lower | Better::None => "more",
    }
}

/// A predicted range: `60 – 120 ns`.
pub fn span((low, high): (f64, f64), unit: Unit) -> String {
    range(&Range { low, likely: (low * high).abs().sqrt(), high }, unit)
}

/// A time for people: `4 min 1 s`, `12 s`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Titles, duration, listed, size};
    use record::key::{CaseId, Key};

    #[test]
    fn figures_are_called_by_what_differs() {
        let key = |level: &str, metric| {
            let case = CaseId::new().with("pages", "huge").with("level", level);
            Key::new("memory.latency", &case, metric)
        };
        let keys = [key("L2", "latency"), key("DRAM", "latency"), key("DRAM", "size")];
        let card = |of: &Key| (*of == keys[1]).then(|| (3, "load, DRAM".to_owned()));
        let titles = Titles::from_keys(&keys, card);
        assert_eq!(titles.key(&keys[0]), "memory.latency: latency (L2)");
        assert_eq!(titles.key(&keys[1]), "memory.latency: load, DRAM");
        assert!(titles.place(&keys[1]) < titles.place(&keys[0]));
        let other = Key::new("os.syscall", &CaseId::new(), "latency");
        assert_eq!(titles.key(&other), "os.syscall latency");
        assert_eq!(Titles::from_keys([&other], |_| None).key(&other), "os.syscall: latency");
    }

    #[test]
    fn lists_and_sizes_are_short() {
        let names: Vec<String> = (0..20).map(|at| format!("n{at}")).collect();
        assert_eq!(listed(&names), "n0, n1, n2, n3, n4, n5 and 14 more");
        assert_eq!(listed(&names[..7]), "n0, n1, n2, n3, n4, n5, n6");
        assert_eq!([size(1.0123), size(1.414), size(12.34)], ["1.012", "1.41", "12.3"]);
        let times = [9.6, 241.4, 7322.0].map(duration);
        assert_eq!(times, ["10 s", "4 min 1 s", "2 h 2 min"]);
    }
}
