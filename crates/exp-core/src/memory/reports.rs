//! What only replays the published reports: one word of each line, in two orders (R0, R1), and
//! arrays of exactly four times the last cache (R1, R4).

use super::levels::{last_bytes as level_last_bytes, level_bytes};
use bench::experiment::Skip;
use laws::Facts;
use laws::memory::transfer::{Access, Stores, Transfer, Width};
use laws::memory::{Level, described_levels};
use record::quantity::render;
use record::unit::Unit;

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
pub(super) fn last_bytes(facts: Facts) -> Result<(u64, &'static str), Skip> {
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

/// Four times the last caches (their bytes, and the source) is more than the limit of a thread's
/// arrays.
pub(super) fn too_large((caches, from): (u64, &str), wanted: u64, limit: u64) -> Skip {
    let [caches, each, most] = [caches, wanted, limit].map(|bytes| render(bytes as f64, Unit::B));
    Skip::because(format!(
        "four times the last cache ({caches} here, {from}) is {each} for each thread, more than the \
         limit of {most}"
    ))
    .needs(format!("--set memory.bandwidth.limit={}MiB", (wanted >> 20) + 1))
}
