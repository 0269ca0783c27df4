//! The list of the hosts of a sweep: a line a host, in the order of the ranks, and in a step of
//! suspects the pairs that are measured, and what each host measures by itself.
//!
//! ```text
//! # host[:port]      labels
//! n[1-16]            rack=r1 instance_type=c7
//! 10.0.0.17:9000     rack=r2
//! n1 > n4            # this pair and no others
//! * memory.latency   # this and nothing else, again and again
//! ```

use crate::matchings::Edge;
use crate::nodelist;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, HashMap};

/// Port at which a node is reached where the list gives none. Below what Linux gives to clients.
pub const PORT: u16 = 7412;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Names as the list has them, with the port where it gives one.
    pub hosts: Vec<String>,
    /// What the list says of a host, by rank; none where it says nothing of any.
    pub labels: Vec<BTreeMap<String, String>>,
    /// The pairs of a step of suspects; none for matchings.
    pub pairs: Vec<Edge>,
    /// Selectors of what each node measures by itself in a step of suspects; none for those of the sweep.
    pub selectors: Vec<String>,
}

impl List {
    pub fn new(hosts: Vec<String>) -> List {
        List { hosts, ..List::default() }
    }

    pub fn size(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    /// Reads a list; what follows a `#` is left out, and names may have Slurm's brackets. Errors: a
    /// line of another form, by its number; no host, or one twice; a pair of hosts that are not listed.
    pub fn parse(text: &str) -> Result<List> {
        let mut list = List::default();
        let mut pairs = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.split_once(['>', '*']) {
                _ if line.is_empty() => {}
                Some(("", selector)) => list.selectors.push(selector.trim().to_owned()),
                Some((near, far)) => pairs.push((number, near.trim(), far.trim())),
                None => list.add(line).with_context(|| format!("line {number}"))?,
            }
        }
        ensure!(!list.hosts.is_empty(), "the list has no host: type a line for each");
        let mut ranks = HashMap::new();
        for (rank, host) in (0..).zip(&list.hosts) {
            ensure!(ranks.insert(host.as_str(), rank).is_none(), "{host} is listed twice");
        }
        let rank = |number: usize, host: &str| {
            let rank = ranks.get(host).copied();
            rank.with_context(|| format!("line {number}: {host} is in no line of its own"))
        };
        let pairs = pairs.into_iter().map(|(number, near, far)| {
            ensure!(near != far, "line {number}: {near} is paired with itself");
            Ok((rank(number, near)?, rank(number, far)?))
        });
        let pairs: Vec<Edge> = pairs.collect::<Result<_>>()?;
        Ok(List { pairs, ..list })
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let mut words = line.split_whitespace();
        let names = words.next().unwrap_or_default();
        let labels = words.map(label).collect::<Result<BTreeMap<_, _>>>()?;
        // An address of IPv6 has brackets of its own.
        let is_address = names.starts_with('[');
        let names = if is_address { vec![names.to_owned()] } else { nodelist::hosts(names)? };
        for name in names {
            ensure!(!name.starts_with('-'), "{name:?} is not a host");
            address(&name)?;
            self.hosts.push(name);
            self.labels.push(labels.clone());
        }
        Ok(())
    }
}

/// Host and port of a name of a list. Errors: the port is not one.
pub fn address(name: &str) -> Result<(&str, u16)> {
    let (host, port) = match name.rsplit_once(':') {
        // A bare address of IPv6 has more colons and no port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().with_context(|| format!("{port:?} of {name} is not a port"))?)
        }
        _ => (name, PORT),
    };
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// A label of a node, `name=value`. Errors: it lacks its name or its value.
pub fn label(text: &str) -> Result<(String, String)> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let (name, value) =
        parts.filter(|(name, value)| !name.is_empty() && !value.is_empty()).with_context(|| {
            format!("{text:?} is not a label: type NAME=VALUE, for example rack=r1")
        })?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{List, PORT, address};

    #[test]
    fn a_line_is_a_host_with_labels_or_a_pair() {
        let list =
            List::parse("# all\nn[1-2] rack=r1 # two\n10.0.0.7:99\n\nn1 > 10.0.0.7:99\n* fs.*")
                .unwrap();
        assert_eq!(list.hosts, ["n1", "n2", "10.0.0.7:99"]);
        assert_eq!(list.labels[1]["rack"], "r1");
        assert!(list.labels[2].is_empty());
        assert_eq!((list.pairs, list.selectors), (vec![(0, 2)], vec!["fs.*".to_owned()]));
        for (name, expected) in [
            ("n1", ("n1", PORT)),
            ("n1:99", ("n1", 99)),
            ("fd00::1", ("fd00::1", PORT)),
            ("[fd00::1]:99", ("fd00::1", 99)),
        ] {
            assert_eq!(address(name).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn errors_are_one_line_and_name_theirs() {
        for (text, part) in [
            ("n1\nn2 rack", "line 2"),
            ("n1\nn[1-3]", "n1 is listed twice"),
            ("n1\nn1 > n1", "paired with itself"),
            ("n1\nn1 > n9", "line 2: n9"),
            ("-oProxyCommand=x", "line 1"),
            ("n1:port", "line 1"),
            ("# none\n", "no host"),
        ] {
            let error = format!("{:#}", List::parse(text).unwrap_err());
            assert!(error.contains(part) && error.lines().count() == 1, "{text}: {error}");
        }
    }
}
