//! Latencies as `memory.latency` found them: what laws of other experiments start from.

use super::Level;
use bench::experiment::Known;
use record::key::CaseId;

/// A measured walk counts for footprints this many times smaller or larger.
const NEAR: f64 = 1.5;

/// Latency of a level, in ns.
pub fn level_ns(known: &Known, level: Level) -> Option<f64> {
    let level = if level.is_memory() { Level::Memory } else { level };
    let case = CaseId::new().with("level", level.text());
    let found = known.get("memory.latency", &case, "level_latency");
    found.filter(|ns| *ns > 0.0)
}

/// Latency of a random walk, in ns: on huge pages, else on base pages, at the nearest footprint.
pub fn walk_ns(known: &Known, footprint: f64) -> Option<f64> {
    let distance = |case: &CaseId| {
        let size = case.int("footprint")? as f64;
        Some((size / footprint).ln().abs())
    };
    let nearest = |pages: &str| {
        known
            .of("memory.latency", "latency")
            .filter(|(case, _)| {
                case.text("pattern") == Some("random")
                    && case.text("load") == Some("pointer")
                    && case.text("pages") == Some(pages)
            })
            .filter_map(|(case, ns)| Some((distance(case)?, ns)))
            .filter(|(distance, _)| *distance <= NEAR.ln())
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, ns)| ns)
    };
    nearest("huge").or_else(|| nearest("base"))
}

#[cfg(test)]
mod tests {
    use super::{Level, level_ns, walk_ns};
    use bench::experiment::Known;
    use record::key::{CaseId, Key};

    #[test]
    fn the_nearest_walk_on_huge_pages_counts_and_none_that_is_far() {
        let mut known = Known::default();
        let mut latency = |pages: &str, footprint: u64, ns: f64| {
            let case = CaseId::new()
                .with("pattern", "random")
                .with("load", "pointer")
                .with("pages", pages)
                .with("footprint", footprint);
            known.insert(Key::new("memory.latency", &case, "latency"), ns);
            walk_ns(&known, 67e6)
        };
        assert_eq!(latency("base", 64 << 20, 120.0), Some(120.0));
        assert_eq!(latency("huge", 64 << 20, 90.0), Some(90.0));
        assert_eq!(latency("huge", 32 << 20, 70.0), Some(90.0));
        assert_eq!(walk_ns(&known, 1e9), None, "too far");
    }

    #[test]
    fn a_level_that_was_not_found_has_no_latency() {
        let mut known = Known::default();
        assert_eq!(level_ns(&known, Level::Memory), None);
        let case = CaseId::new().with("level", "DRAM");
        let key = Key::new("memory.latency", &case, "level_latency");
        known.insert(key.clone(), 0.0);
        assert_eq!(level_ns(&known, Level::Memory), None);
        known.insert(key, 95.0);
        assert_eq!(level_ns(&known, Level::Memory), Some(95.0));
    }
}
