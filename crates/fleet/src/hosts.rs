//! The list of hosts that a sweep over ssh starts: a line a host, as ssh takes its name, then its
//! labels.
//!
//! ```text
//! # host            labels
//! n[1-16]           rack=r1 instance_type=c7
//! me@10.0.0.17      rack=r2 address=192.168.0.17
//! ```

use crate::engine::label;
use crate::nodelist;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// Most hosts that one machine starts over ssh: each is a connection that is held open.
pub const HOSTS_MAX: usize = 256;
/// The label that is no label: where the other nodes reach the host.
const ADDRESS: &str = "address";

/// A host of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `[USER@]HOST`, as ssh takes it.
    pub name: String,
    /// Where the other nodes reach it, if that is not where ssh does.
    pub address: Option<String>,
    /// What the site says of the node.
    pub labels: BTreeMap<String, String>,
}

/// Reads a list: empty lines and what follows a `#` are left out, and a name may have Slurm's
/// brackets. Errors: a line of another form, by its number, a host that is listed twice, no
/// host, or more than [`HOSTS_MAX`].
pub fn hosts(text: &str) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        for host in of_line(line).with_context(|| format!("line {number}"))? {
            ensure!(seen.insert(host.name.clone()), "line {number}: {} is listed twice", host.name);
            hosts.push(host);
        }
    }
    ensure!(!hosts.is_empty(), "it lists no host: type a line for each, HOST [LABEL=VALUE ...]");
    ensure!(
        hosts.len() <= HOSTS_MAX,
        "it lists {} hosts; plumb starts at most {HOSTS_MAX} over ssh: start more with Slurm, \
         Kubernetes or MPI",
        hosts.len()
    );
    Ok(hosts)
}

fn of_line(line: &str) -> Result<Vec<Host>> {
    let mut words = line.split_whitespace();
    let Some(names) = words.next() else { return Ok(Vec::new()) };
    // ssh would take it for an option.
    ensure!(!names.starts_with('-'), "{names:?} is not a host");
    let mut labels = words.map(label).collect::<Result<BTreeMap<_, _>>>()?;
    let address = labels.remove(ADDRESS);
    let names = nodelist::hosts(names)?;
    ensure!(
        address.is_none() || names.len() == 1,
        "address= is of one host, and the line lists {}",
        names.len()
    );
    let host = |name| Host { name, address: address.clone(), labels: labels.clone() };
    Ok(names.into_iter().map(host).collect())
}

#[cfg(test)]
mod tests {
    use super::hosts;

    #[test]
    fn a_line_is_a_host_with_its_labels() {
        let text = "# all\nn[1-2] rack=r1 zone=b\n\n me@far address=fd00::7 # spare\n";
        let hosts = hosts(text).unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "me@far"]);
        assert_eq!(hosts[1].labels["rack"], "r1");
        assert_eq!(hosts[1].labels.len(), 2);
        assert_eq!(hosts[2].address.as_deref(), Some("fd00::7"));
        assert!(hosts[2].labels.is_empty());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("n1\nn2 rack", "line 2"),
            ("n1\nn[1-3]", "line 2: n1 is listed twice"),
            ("-oProxyCommand=x", "line 1"),
            ("n[1-2] address=10.0.0.1", "line 1"),
            ("# none\n", "no host"),
            ("n[1-300]", "at most 256"),
        ] {
            let error = format!("{:#}", hosts(text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
