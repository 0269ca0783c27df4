//! What only replays the published reports: one word of each line, in two orders (R0, R1), and
//! arrays of exactly four times the last cache (R1, R4).

use super::levels::{TIMES_LAST, instances, last_bytes as level_last_bytes, level_bytes};
use bench::prelude::*;
use laws::memory::transfer::{Access, Stores, Transfer, Width};
use laws::memory::{Level, described_levels};

/// Why a case of words that stand for lines cannot be, if it cannot.
pub(super) fn contradiction(case: &Transfer) -> Option<&'static str> {
    match case.access {
        Access::Every => None,
        _ if !matches!(case.width, Width::Word(_)) || case.stores == Stores::NonTemporal => {
            Some("single words of a line need regular stores")
        }
        _ if case.level == Level::L1 => {
            Some("a word represents a line that moves, but in the first cache no lines move")
        }
        _ => None,
    }
}

/// The last cache that the reports' arrays are four times of. Only a measurement shows a virtual
/// machine's share of a shared one; before that it is what a law expects. Errors: it is unknown.
fn last_bytes(facts: Facts) -> Result<(u64, &'static str), Skip> {
    let described = described_levels(facts.site);
    let Some((level, whole)) = described.last().copied() else {
        return Err(Skip::because("the machine describes no last cache"));
    };
    let name = level.text();
    let (bytes, from) = level_bytes(facts, level)
        .ok_or_else(|| Skip::because(format!("the size of {name} is unknown")))?;
    match from {
        "measured" => Ok(level_last_bytes(facts)),
        "described" if facts.known.is_some() && bytes < whole / 10 * 9 => {
            Err(Skip::because(format!(
                "{name} is described as {}, but a virtual machine gets an unknown part, and \
                 memory.latency did not find its end",
                render(whole as f64, Unit::B)
            ))
            .needs("--set host.cache.l3=…, the part that one core can fill"))
        }
        _ => Ok((bytes, from)),
    }
}

/// Bytes of each thread's arrays where those of all are four times their last caches, and the bytes
/// of one such cache with their source. Errors: they are unknown, or the arrays are larger than the
/// limit of a thread's.
pub(super) fn four_times(
    facts: Facts,
    cpus: &[usize],
    limit: u64,
) -> Result<(u64, (u64, &'static str)), Skip> {
    let last = last_bytes(facts)?;
    let caches = last.0 * instances(facts.site, cpus) as u64;
    let wanted = TIMES_LAST * caches / cpus.len() as u64;
    if wanted <= limit {
        return Ok((wanted, last));
    }
    let [caches, each, most] = [caches, wanted, limit].map(|bytes| render(bytes as f64, Unit::B));
    Err(Skip::because(format!(
        "four times the last cache ({caches} here, {}) is {each} for each thread, more than the \
         limit of {most}",
        last.1
    ))
    .needs(format!("--set memory.bandwidth.limit={}MiB", (wanted >> 20) + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::experiment::fixtures::recorded;

    /// What is not among the recorded hosts' frozen sizes.
    #[test]
    fn four_times_an_unknown_part_of_a_cache_is_no_size_and_of_a_given_one_is() {
        let mut site = recorded("vm-granite-rapids");
        let known = Known::default();
        let at =
            |site: &Site| four_times(Facts { site, known: Some(&known) }, &site.cpus[..1], 2 << 30);
        assert!(at(&site).expect_err("an unknown part").needed.is_some());
        site.host.given.set("cache.l3", "16MiB").unwrap();
        let sized = at(&site).expect("the part was given");
        assert_eq!(sized, (64 << 20, (16 << 20, "given")));
    }
}
