//! Lists of hosts as Slurm writes them: `n[1-3,7],login` and `rack[1-2]n[01-16]`.

use crate::place::SIZE_MAX;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// The hosts of a list, in its order. The syntax is that of `scontrol show hostnames` (slurm.conf,
/// "NodeName"): names with commas between them, each with any number of brackets that hold numbers
/// and ranges; the digits of a range's beginning give the width. Errors: it is not such a list, or
/// has more hosts than a sweep.
pub fn hosts(list: &str) -> Result<Vec<String>> {
    let mut is_inside = false;
    let is_end = |letter: char| {
        is_inside = letter == '[' || is_inside && letter != ']';
        letter == ',' && !is_inside
    };
    let mut hosts = Vec::new();
    for name in list.split(is_end) {
        expand("", name, &mut hosts).with_context(|| format!("{list:?} is not a list of hosts"))?;
    }
    Ok(hosts)
}

/// Adds the hosts of one name whose beginning is expanded.
fn expand(prefix: &str, rest: &str, hosts: &mut Vec<String>) -> Result<()> {
    let Some((before, after)) = rest.split_once('[') else {
        let host = format!("{prefix}{rest}");
        ensure!(!host.is_empty(), "a name is empty");
        ensure!(!host.contains(']'), "a bracket is not opened");
        ensure!(hosts.len() < SIZE_MAX as usize, "it has more than {SIZE_MAX} hosts");
        hosts.push(host);
        return Ok(());
    };
    let (ranges, after) = after.split_once(']').context("a bracket is not closed")?;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (low.parse::<u64>(), high.parse::<u64>()) else {
            bail!("{range:?} is not a number or a range of numbers");
        };
        ensure!(first <= last, "the range {range} is empty");
        let width = low.len();
        for number in first..=last {
            expand(&format!("{prefix}{before}{number:0width$}"), after, hosts)?;
        }
    }
    Ok(())
}

/// Hosts in the names of such a list: those that differ in the number at their end share brackets.
pub fn compact<Host: AsRef<str>>(hosts: &[Host]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, usize), BTreeSet<u64>> = BTreeMap::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for host in hosts.iter().map(AsRef::as_ref) {
        let stem = host.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = &host[stem.len()..];
        // Without leading zeros numbers of all lengths share a list.
        let width = if digits.starts_with('0') { digits.len() } else { 0 };
        match digits.parse() {
            Ok(number) => groups.entry((stem, width)).or_default().insert(number),
            Err(_) => names.insert(host),
        };
    }
    let group = |((stem, width), numbers): ((&str, usize), BTreeSet<u64>)| {
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let runs = numbers.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
            [first, .., last] => format!("{first:0width$}-{last:0width$}"),
            _ => format!("{:0width$}", run[0]),
        });
        let runs = runs.collect::<Vec<String>>().join(",");
        if numbers.len() == 1 { format!("{stem}{runs}") } else { format!("{stem}[{runs}]") }
    };
    names.into_iter().map(str::to_owned).chain(groups.into_iter().map(group)).collect()
}

#[cfg(test)]
mod tests {
    use super::{compact, hosts};

    #[test]
    fn brackets_are_expanded_and_made() {
        for (list, expected) in [
            ("n1", "n1"),
            ("n[1-3,7]", "n1 n2 n3 n7"),
            ("n10,n[08-09]", "n10 n08 n09"),
            ("a,n[9-11]", "a n9 n10 n11"),
            ("r1n[01-02],r2n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ] {
            let all = hosts(list).unwrap();
            assert_eq!(
                (all.join(" ").as_str(), compact(&all).join(",").as_str()),
                (expected, list)
            );
        }
        let all = hosts("r[1-2]n[01-02],n[1-2]-ib.example,gw").unwrap();
        assert_eq!(all.join(" "), "r1n01 r1n02 r2n01 r2n02 n1-ib.example n2-ib.example gw");
        for list in
            ["", "n1,", "n[1", "n1]", "n[[1]]", "n[3-1]", "n[a]", "n[1-]", "n[]", "n[1-999999999]"]
        {
            assert!(hosts(list).is_err(), "{list:?}");
        }
    }
}
