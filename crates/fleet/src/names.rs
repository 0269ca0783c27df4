//! What nodes, strata and figures are called.

use crate::model::{Role, Subject, Which};
use crate::read::Fleet;
use analysis::verdict::is_speed;
use record::event::Range;
use record::key::{CaseId, Key};
use record::metric::Better;
use record::order::Gather;
use record::quantity::digits;
use record::shown::range;
use record::unit::Unit;
pub use report::{counted, percent};
use std::collections::{BTreeMap, BTreeSet};

/// Names that a list spells out.
const LISTED: usize = 6;

/// What figures are called: by the cards' key figures where they are some, else by what differs
/// between the figures of their experiment.
#[derive(Clone, Debug, Default)]
pub struct Titles {
    by_key: BTreeMap<Key, String>,
    /// The key figures in the order of the cards.
    first: Vec<Key>,
}

impl Titles {
    /// Titles of some keys. `card` is the title that a card gives a key figure, with its place among
    /// all key figures.
    pub fn from_keys<'key>(
        keys: impl IntoIterator<Item = &'key Key>,
        card: impl Fn(&Key) -> Option<(usize, String)>,
    ) -> Titles {
        let keys: BTreeSet<&Key> = keys.into_iter().gather();
        let mut by_experiment: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for key in &keys {
            by_experiment.entry(&key.experiment).or_default().push(key);
        }
        let (mut by_key, mut first) = (BTreeMap::new(), BTreeMap::new());
        for of_one in by_experiment.values() {
            let named: Vec<Option<(usize, String)>> = of_one.iter().map(|key| card(key)).collect();
            for (key, name) in of_one.iter().zip(&named) {
                let title = match name {
                    Some((place, title)) => {
                        first.insert((*place, *key), (*key).clone());
                        // A card names its key figure by a part of the case: several may have it.
                        match named.iter().flatten().filter(|(_, other)| other == title).count() {
                            1 => title.clone(),
                            _ => format!("{title}: {}", self::title(key, of_one)),
                        }
                    }
                    None => title(key, of_one),
                };
                by_key.insert((*key).clone(), format!("{}: {title}", key.experiment));
            }
        }
        Titles { by_key, first: first.into_values().collect() }
    }

    /// Title of a figure: `memory.bandwidth: DRAM read, all`.
    pub fn key(&self, key: &Key) -> String {
        self.by_key.get(key).cloned().unwrap_or_else(|| key.to_string())
    }

    /// Title of what is compared over nodes.
    pub fn subject(&self, fleet: &Fleet, subject: Subject) -> String {
        format!("{}{}", self.key(&fleet.figures[subject.figure].key), role(subject.role))
    }

    /// Place of a key figure; behind all of them for another figure.
    pub fn place(&self, key: &Key) -> usize {
        self.first.iter().position(|first| first == key).unwrap_or(self.first.len())
    }

    /// Whether a card names the figure.
    pub fn is_key_figure(&self, key: &Key) -> bool {
        self.place(key) < self.first.len()
    }
}

/// `bandwidth (read, DRAM, all)`: the metric and what differs between the experiment's cases.
fn title(key: &Key, all: &[&Key]) -> String {
    let metric = key.metric.replace('_', " ");
    let differs = |name: &str| {
        let values: BTreeSet<Option<String>> =
            all.iter().map(|other| other.case.get(name).map(ToString::to_string)).gather();
        values.len() > 1
    };
    let CaseId(parameters) = &key.case;
    let values = parameters.iter().filter(|(name, _)| differs(name));
    let values: Vec<String> = values.map(|(_, value)| value.to_string()).collect();
    match values.is_empty() {
        true => metric,
        false => format!("{metric} ({})", values.join(", ")),
    }
}

/// Which end of its pairs a figure is of.
fn role(role: Role) -> &'static str {
    match role {
        Role::Alone => "",
        Role::Send => ", as near end",
        Role::Receive => ", as far end",
        Role::Both => ", at either end",
    }
}

/// Name of what is accused.
pub fn which_name(fleet: &Fleet, which: Which) -> String {
    let name = |node: usize| fleet.nodes[node].header.host.clone();
    match which {
        Which::Node(node) => name(node),
        Which::Link(from, to) => format!("{} → {}", name(from), name(to)),
    }
}

/// Some hosts: `n1 to n15, n20, … and 12 more`.
pub fn hosts(names: &[String]) -> String {
    listed(&runs(names))
}

/// Names that end in numbers in a row, as one.
fn runs(names: &[String]) -> Vec<String> {
    let follows = |one: &String, next: &String| {
        let (stem, number) = numbered(one);
        let (next_stem, next_number) = numbered(next);
        stem == next_stem
            && one.len() <= next.len()
            && number.is_some_and(|number| Some(number + 1) == next_number)
    };
    let spelled = |run: &[String]| match run {
        [first, .., last] if run.len() > 2 => vec![format!("{first} to {last}")],
        _ => run.to_vec(),
    };
    names.chunk_by(follows).flat_map(spelled).collect()
}

/// A name without the number at its end, and that number.
fn numbered(name: &str) -> (&str, Option<u64>) {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    (stem, name[stem.len()..].parse().ok())
}

/// Some names, the first of many.
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
    use super::{Titles, duration, listed, runs, size};
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
        assert!(titles.is_key_figure(&keys[1]) && !titles.is_key_figure(&keys[0]));
        let other = Key::new("os.syscall", &CaseId::new(), "latency");
        assert_eq!(titles.key(&other), "os.syscall latency");
        assert_eq!(Titles::from_keys([&other], |_| None).key(&other), "os.syscall: latency");
    }

    #[test]
    fn lists_and_sizes_are_short() {
        let names: Vec<String> = (0..20).map(|at| format!("n{at}")).collect();
        assert_eq!(listed(&names), "n0, n1, n2, n3, n4, n5 and 14 more");
        assert_eq!(listed(&names[..7]), "n0, n1, n2, n3, n4, n5, n6");
        let spare = ["spare-1", "spare-3", "login"].map(str::to_owned);
        let all = [&names[8..12], &spare[..]].concat();
        assert_eq!(runs(&all), ["n8 to n11", "spare-1", "spare-3", "login"]);
        assert_eq!([size(1.0123), size(1.414), size(12.34)], ["1.012", "1.41", "12.3"]);
        assert_eq!(duration(241.4), "4 min 1 s");
        assert_eq!([duration(9.6), duration(7322.0)], ["10 s", "2 h 2 min"]);
    }
}
