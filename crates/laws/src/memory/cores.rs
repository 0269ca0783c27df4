//! Load-to-use latencies of core designs, and what main memory adds (`designs.rows`).

use crate::{designs, range};
use host::Core;
use record::event::Range;

/// What a design takes, in core cycles; main memory in ns beyond the last cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadCosts {
    pub(super) l1: Range,
    pub(super) l2: Range,
    /// Last-level cache of few cores.
    pub(super) near: Range,
    /// Last-level cache behind a mesh.
    pub(super) mesh: Range,
    /// What main memory adds to the last cache, in ns.
    pub(super) memory_ns: Range,
    /// Kind of memory that the designs are sold with.
    pub(super) memory: &'static str,
}

/// The costs of a design; for an unknown design, an interval over all, marked `false`.
pub(super) fn costs(core: Core) -> (LoadCosts, bool) {
    let (row, is_known) = designs::row("memory.load", core, "any");
    let [l1, l2, near, mesh, memory_ns] = row.ranges();
    (LoadCosts { l1, l2, near, mesh, memory_ns, memory: &row.note }, is_known)
}

/// What memory of this kind adds to the last cache, in ns.
pub(super) fn memory_ns(kind: &str) -> Option<Range> {
    let mut kinds = designs::table("memory.kinds").iter();
    kinds.find(|row| kind.starts_with(&row.names[0])).map(|row| row.range(0))
}

/// Whether a design's memory adds what its modules take, and not what its own controllers do.
pub(super) fn is_of_modules(memory_ns: Range) -> bool {
    designs::table("memory.kinds").iter().any(|row| row.range(0) == memory_ns)
}

/// KiB of the first three caches of a core, where the machine does not describe them.
pub(super) fn usual_sizes(core: Core) -> [Range; 3] {
    designs::row("memory.sizes", core, "any").0.ranges()
}

/// Beyond the last cache of AMD's servers: Rome takes 113 to 134 ns, of which its last cache is 10
/// (AnandTech, "AMD Rome Second Generation EPYC Review", 2019); later ones are written from memory.
pub(super) const BEHIND_IO_DIE: Range = range(75.0, 100.0, 135.0);

#[cfg(test)]
mod tests {
    use super::{costs, is_of_modules, memory_ns};
    use host::Core;

    #[test]
    fn each_level_takes_longer_than_the_one_before() {
        for core in Core::ALL {
            let row = costs(*core).0;
            assert!(row.l1.high < row.l2.low && row.l2.likely < row.near.likely);
            assert!(row.near.likely <= row.mesh.likely, "{}", core.name());
        }
        for core in [Core::Unknown, Core::CortexX925, Core::KnightsLanding, Core::Zen6] {
            assert!(!costs(core).1, "{}", core.name());
        }
    }

    #[test]
    fn kinds_of_memory_are_found_by_their_beginning() {
        let likely = |kind| memory_ns(kind).map(|ns| ns.likely);
        assert_eq!(
            [likely("DDR5"), likely("LPDDR4X"), likely("FLASH")],
            [Some(70.0), Some(110.0), None]
        );
        let is_of_modules = |core| is_of_modules(costs(core).0.memory_ns);
        assert!(is_of_modules(Core::SkylakeClient) && !is_of_modules(Core::Silvermont));
    }
}
