//! Lists of hosts as Slurm writes them: `n[1-3,7],login` and `rack[1-2]n[01-16]`.

use crate::place::SIZE_MAX;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// The hosts of a list, in its order. The syntax is that of `scontrol show hostnames` (slurm.conf,
/// "NodeName"): names with commas between them, each with any number of brackets that hold numbers
/// and ranges; the digits of a range's beginning give the width. Errors: it is not such a list, or
/// has more hosts than a sweep.
pub fn hosts(list: &str) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for name in names(list)? {
        expand("", name, &mut hosts).with_context(|| format!("{list:?} is not a list of hosts"))?;
    }
    Ok(hosts)
}

/// The names of a list: it is divided at the commas outside of brackets.
fn names(list: &str) -> Result<Vec<&str>> {
    let mut names = Vec::new();
    let (mut from, mut is_inside) = (0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' | ']' => {
                let is_opening = letter == '[';
                ensure!(is_inside != is_opening, "{list:?} has brackets that do not match");
                is_inside = is_opening;
            }
            ',' if !is_inside => {
                names.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    ensure!(!is_inside, "{list:?} has brackets that do not match");
    names.push(&list[from..]);
    Ok(names)
}

/// Adds the hosts of one name whose beginning is expanded.
fn expand(prefix: &str, rest: &str, hosts: &mut Vec<String>) -> Result<()> {
    let Some((before, after)) = rest.split_once('[') else {
        let host = format!("{prefix}{rest}");
        ensure!(!host.is_empty(), "a name is empty");
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

/// Hosts as one list of that syntax: names that differ in the number at their end share brackets.
pub fn compact(hosts: &[String]) -> String {
    let mut groups: BTreeMap<(&str, usize), BTreeSet<u64>> = BTreeMap::new();
    let mut others: BTreeSet<&str> = BTreeSet::new();
    for host in hosts {
        let stem = host.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = &host[stem.len()..];
        // Without leading zeros numbers of all lengths share a list.
        let width = if digits.starts_with('0') { digits.len() } else { 0 };
        match digits.parse() {
            Ok(number) => groups.entry((stem, width)).or_default().insert(number),
            Err(_) => others.insert(host),
        };
    }
    let group = |((stem, width), numbers): ((&str, usize), BTreeSet<u64>)| {
        let numbers: Vec<u64> = numbers.into_iter().collect();
        if let [number] = numbers[..] {
            return format!("{stem}{number:0width$}");
        }
        let runs = numbers.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
            [first, .., last] => format!("{first:0width$}-{last:0width$}"),
            _ => format!("{:0width$}", run[0]),
        });
        format!("{stem}[{}]", runs.collect::<Vec<String>>().join(","))
    };
    let names = others.into_iter().map(str::to_owned);
    names.chain(groups.into_iter().map(group)).collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{compact, hosts};

    #[test]
    fn brackets_are_expanded() {
        for (list, expected) in [
            ("n1", "n1"),
            ("n[1-3,7]", "n1 n2 n3 n7"),
            ("n[08-10]", "n08 n09 n10"),
            ("a,b[1-2],c", "a b1 b2 c"),
            ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
            ("n[1-2]-ib.example,gw", "n1-ib.example n2-ib.example gw"),
        ] {
            assert_eq!(hosts(list).unwrap().join(" "), expected, "{list}");
        }
    }

    #[test]
    fn hosts_share_brackets_where_their_numbers_differ() {
        for list in ["n1", "n[1-3,7]", "n[08-10]", "login,n[1,3]", "a,n[9-11]"] {
            assert_eq!(compact(&hosts(list).unwrap()), list.replace("[08-10]", "10,n[08-09]"));
        }
    }

    #[test]
    fn what_is_not_a_list_is_refused() {
        for list in
            ["", "n1,", "n[1", "n1]", "n[[1]]", "n[3-1]", "n[a]", "n[1-]", "n[]", "n[1-999999999]"]
        {
            assert!(hosts(list).is_err(), "{list:?}");
        }
    }
}
