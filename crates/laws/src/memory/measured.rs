//! Latencies as `memory.latency` found them, and rates as `memory.bandwidth` did: what laws of other
//! experiments start from.

use super::Level;
use super::transfer::{Op, Stores};
use crate::cpu::clocked;
use crate::{Facts, Law, inverse, range, scaled};
use bench::experiment::Known;
use record::event::Range;
use record::key::CaseId;

/// A copy of the kernel's over a program's of arrays: it is short and begins anew at each page, often
/// by string instructions.
const KERNEL_OVER_ARRAYS: Range = range(0.25, 0.6, 1.1);

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
        let walk = [("pattern", "random"), ("load", "pointer"), ("pages", pages)];
        let is_it = |case: &CaseId| walk.iter().all(|(name, is)| case.text(name) == Some(*is));
        let found = known.figures("memory.latency", "latency").filter(|(case, _)| is_it(case));
        let near = found.filter_map(|(case, ns)| Some((distance(case)?, ns)));
        let near = near.filter(|(distance, _)| *distance <= NEAR.ln());
        near.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, ns)| ns)
    };
    nearest("huge").or_else(|| nearest("base"))
}

/// Bytes per ns that one thread moved by an operation with regular stores at a level: the best of
/// what is known.
pub fn moved(known: &Known, op: Op, level: Level) -> Option<f64> {
    let is_it = |case: &CaseId| {
        case.text("op") == Some(op.text())
            && case.text("level") == Some(level.text())
            && case.text("stores").is_none_or(|stores| stores == Stores::Regular.text())
            && case.int("threads").is_none_or(|threads| threads == 1)
    };
    let rates = known.figures("memory.bandwidth", "bandwidth").filter(|(case, _)| is_it(case));
    rates.map(|(_, rate)| rate / 1e9).filter(|rate| *rate > 0.0).reduce(f64::max)
}

/// Bytes per ns that one thread copied at a level, each counted once: of the program's bytes, which
/// count both the read and the written ones, the half.
pub fn copied(known: &Known, level: Level) -> Option<f64> {
    Some(moved(known, Op::Copy, level)? / 2.0)
}

/// The same in main memory.
pub fn measured_copy(known: &Known) -> Option<f64> {
    copied(known, Level::Memory)
}

/// The kernel's copies of so many bytes, in ns, by what one thread copied in the cache that holds
/// `held` bytes, or in what is nearest beyond it; none where that is not known.
pub fn kernel_copy(facts: Facts, bytes: f64, held: f64) -> Option<Law> {
    let (known, cpu) = (facts.known?, facts.site.cpus.first().copied().unwrap_or(0));
    let holds = |number: u32| {
        let cache = facts.site.host.cache.data(number, cpu);
        cache.is_some_and(|cache| cache.size_bytes as f64 >= held)
    };
    let holding = Level::CACHES.iter().zip(1..).skip_while(|(_, number)| !holds(*number));
    let mut levels = holding.map(|(level, _)| *level).chain([Level::Memory]);
    let rate = levels.find_map(|level| copied(known, level))?;
    let why = format!("one thread copies {rate:.1} GB/s there (measured by memory.bandwidth)");
    Some(Law::hardware(inverse(bytes, scaled(KERNEL_OVER_ARRAYS, rate)), why))
}

/// Bytes a cycle of a kernel's copy: within caches, and of so much that no cache may hold it.
const IN_CACHES: Range = range(3.0, 8.0, 25.0);
const BEYOND_CACHES: Range = range(0.5, 2.5, 12.0);
const NO_CACHE_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// As [`kernel_copy`], by the core's clock where that is not known.
pub fn copies(facts: Facts, bytes: f64, held: f64) -> Law {
    kernel_copy(facts, bytes, held).unwrap_or_else(|| {
        let rate = if held < NO_CACHE_BYTES { IN_CACHES } else { BEYOND_CACHES };
        let why = format!("copies {} to {} B per cycle", rate.low, rate.high);
        clocked(facts, Law::hardware(inverse(bytes, rate), why))
    })
}

#[cfg(test)]
mod tests {
    use super::{Level, kernel_copy, level_ns, walk_ns};
    use crate::Facts;
    use crate::os::ipc::{Via, Way, bandwidth};
    use bench::experiment::Known;
    use bench::experiment::fixtures::{case, recorded};
    use bench::pair::Class;
    use record::key::Key;

    #[test]
    fn the_nearest_walk_on_huge_pages_counts_and_none_that_is_far() {
        let mut known = Known::default();
        let mut latency = |pages: &str, footprint: u64, ns: f64| {
            let of = format!("pattern=random,load=pointer,pages={pages},footprint={footprint}");
            known.insert(Key::new("memory.latency", &case(&of), "latency"), ns);
            walk_ns(&known, 67e6)
        };
        assert_eq!(latency("base", 64 << 20, 120.0), Some(120.0));
        assert_eq!(latency("huge", 64 << 20, 90.0), Some(90.0));
        assert_eq!(latency("huge", 32 << 20, 70.0), Some(90.0));
        assert_eq!(walk_ns(&known, 1e9), None, "too far");
    }

    #[test]
    fn copies_go_at_the_rate_of_the_cache_that_holds_them() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        let far = |known: &Known, held| {
            let facts = Facts { site: &site, known: Some(known) };
            Some(kernel_copy(facts, 6e3, held)?.range.likely)
        };
        assert_eq!(far(&known, 1e3), None);
        for (of, rate) in [("op=copy,level=DRAM", 2e10), ("op=copy,level=L2", 8e10)] {
            known.insert(Key::new("memory.bandwidth", &case(of), "bandwidth"), rate);
        }
        // Half of the program's bytes, and of that what a kernel's copy reaches. The first cache was
        // not measured, so the second stands for it.
        for (held, rate) in [(1e3, 40.0), (3e5, 40.0), (1e6, 10.0), (f64::INFINITY, 10.0)] {
            let ns = far(&known, held).unwrap();
            assert!((ns - 6e3 / (0.6 * rate)).abs() < 1e-6, "{held} {ns}");
        }
        let way = Way { via: Via::Pipe, pair: Class::Same, size: 1 << 20 };
        let through_a_pipe = |times: f64| {
            let mut scaled = known.clone();
            for (case, rate) in known.figures("memory.bandwidth", "bandwidth") {
                scaled.insert(Key::new("memory.bandwidth", case, "bandwidth"), times * rate);
            }
            bandwidth(Facts { site: &site, known: Some(&scaled) }, &way).range.likely
        };
        assert!(through_a_pipe(0.1) < 0.5 * through_a_pipe(1.0));
    }

    #[test]
    fn a_level_that_was_not_found_has_no_latency() {
        let mut known = Known::default();
        assert_eq!(level_ns(&known, Level::Memory), None);
        let key = Key::new("memory.latency", &case("level=DRAM"), "level_latency");
        known.insert(key.clone(), 0.0);
        assert_eq!(level_ns(&known, Level::Memory), None);
        known.insert(key, 95.0);
        assert_eq!(level_ns(&known, Level::Memory), Some(95.0));
    }
}
