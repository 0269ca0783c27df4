//! Laws of cache coherence: what one hand-over of a modified line between two CPUs takes.
//!
//! Figures are halves of round trips of a compare-and-swap game, as N. Viennot's
//! core-to-core-latency prints them: of the tables of its README (commit 0dddf50) and of the
//! results that KCORES collected (github.com/KCORES/core-to-core-latency-plus at 264ea0a), the
//! medians over all pairs of a kind on 75 machines. Cycles are ns times the data sheet's highest
//! clock. Where a line is at home they do not say; some are of machines with two sockets, where it
//! may be at the other one.
//!
//! Intel's rings, cycles: to Skylake 65 to 126, Tiger Lake 118 and 130, Alder and Raptor Lake 148
//! to 190; servers before the mesh 32 to 57 ns, Skylake-SP to Ice Lake-SP 43 to 51, Sapphire Rapids
//! 55, Emerald Rapids 77 (a guest of plumb's). AMD within one complex, cycles: Zen 101 to 122,
//! Zen 2 82 to 106 (and 145 to 214 on parts that did not reach their boost), Zen 3 79 to 95, Zen 4
//! 89 to 102, Zen 5 119 to 133; between complexes, ns: desktops 73 to 92 (135 and 208 on two
//! others), larger packages 95 to 117, two sockets 99 to 191, several dies of Zen 154 and, in two
//! sockets, 278. Arm: within a cluster or under one system cache 36 to 60 ns (a Raspberry Pi 4:
//! 90), between clusters 152 to 260, between cores of a mesh 46 to 180.

use super::{clocked, core, cycles_of, is_guest};
use crate::{Facts, Law, designs, product, range};
use bench::experiment::Site;
use host::{Arch, Core, Distance, LogicalCpu};
use record::event::{Condition, Range};
use std::collections::BTreeSet;

/// CPUs under one last-level cache beyond which Intel's chips of one class of core are no small
/// ring.
const RING_CPUS_MAX: usize = 24;
/// CPUs under one last-level cache up to which an Arm chip consists of clusters.
const CLUSTER_CPUS_MAX: usize = 4;
/// Complexes of a package up to which AMD's is a desktop's, and up to which it is one die of Zen.
const DESKTOP_COMPLEXES_MAX: usize = 4;
const DIE_COMPLEXES_MAX: usize = 2;

/// What carries lines between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fabric {
    /// Intel's ring, clocked with the cores or nearly so.
    Ring,
    /// The rings of Intel's servers before the mesh.
    Rings,
    /// Intel's mesh on one die, on a clock of its own.
    Mesh,
    /// Intel's mesh over several dies.
    Tiles,
    Complexes,
    /// Clusters of Arm cores with nothing but memory in common.
    ArmClusters,
    /// A mesh between Arm cores or large clusters.
    ArmMesh,
    Any,
}

/// What one hand-over takes in a fabric. The first is in cycles where its caches run at the core's
/// clock.
struct Costs {
    cluster: Cluster,
    /// One socket, no common cache, ns.
    socket: Range,
    /// Between different sockets, ns.
    remote: Range,
    what: &'static str,
}

enum Cluster {
    Cycles(Range),
    Ns(Range),
}

impl Fabric {
    fn costs(self, site: &Site) -> Costs {
        use Fabric::*;
        let core = core(site);
        let what = match self {
            Ring => "Intel's ring",
            Rings => "the rings of Intel's servers",
            Mesh => "Intel's mesh",
            Tiles => "Intel's mesh over several dies",
            Complexes => "AMD's core complexes",
            ArmClusters => "clusters of Arm cores",
            ArmMesh => "a mesh of Arm cores",
            Any => "an unknown interconnect",
        };
        let ns = |low, likely, high| Cluster::Ns(range(low, likely, high));
        let (cluster, socket, remote) = match self {
            Ring => (
                Cluster::Cycles(designs::cell("line.ring", core)),
                (30.0, 70.0, 130.0),
                (85.0, 125.0, 220.0),
            ),
            Rings => (ns(28.0, 44.0, 75.0), (40.0, 65.0, 120.0), (70.0, 122.0, 220.0)),
            Mesh => (ns(38.0, 49.0, 85.0), (45.0, 75.0, 140.0), (90.0, 118.0, 220.0)),
            Tiles => (ns(44.0, 64.0, 110.0), (50.0, 85.0, 150.0), (95.0, 135.0, 240.0)),
            Complexes => {
                let [socket, remote] = between_complexes(site);
                return Costs {
                    cluster: Cluster::Cycles(designs::cell("line.complex", core)),
                    socket,
                    remote,
                    what,
                };
            }
            ArmClusters => (ns(28.0, 50.0, 95.0), (120.0, 200.0, 320.0), (170.0, 280.0, 450.0)),
            ArmMesh => (ns(28.0, 48.0, 95.0), (36.0, 95.0, 220.0), (110.0, 190.0, 400.0)),
            Any => (ns(14.0, 45.0, 105.0), (32.0, 85.0, 200.0), (85.0, 150.0, 400.0)),
        };
        let [socket, remote] = [socket, remote].map(|(low, likely, high)| range(low, likely, high));
        Costs { cluster, socket, remote, what }
    }
}

/// Core complexes of one of AMD's packages.
fn complexes(site: &Site) -> usize {
    count(site, |cpu| cpu.llc_group) / count(site, |cpu| cpu.package)
}

/// Whether the package is of AMD's core complexes and larger than a desktop's, as guests' are.
pub fn is_large_of_complexes(site: &Site) -> bool {
    fabric(site) == Fabric::Complexes && (complexes(site) > DESKTOP_COMPLEXES_MAX || is_guest(site))
}

/// Between two complexes of a socket, and between sockets, ns.
fn between_complexes(site: &Site) -> [Range; 2] {
    let packages = count(site, |cpu| cpu.package);
    let complexes = complexes(site);
    let is_large = is_large_of_complexes(site);
    let (socket, remote) = match core(site) {
        Core::Zen | Core::ZenPlus if complexes > DIE_COMPLEXES_MAX => {
            (range(110.0, 165.0, 230.0), range(200.0, 310.0, 450.0))
        }
        core => (
            if is_large { range(70.0, 106.0, 190.0) } else { range(62.0, 85.0, 190.0) },
            match core {
                Core::Zen4 | Core::Zen4c | Core::Zen5 | Core::Zen5c => range(140.0, 200.0, 330.0),
                _ => range(140.0, 240.0, 340.0),
            },
        ),
    };
    // A line that is at home at the other socket is asked for there.
    let asked = if packages > 1 { range(1.0, 1.3, 1.5) } else { range(1.0, 1.0, 1.0) };
    [product(socket, asked), remote]
}

/// How many different values of a CPU's property there are, 1 at least.
fn count<T: Ord>(site: &Site, of: fn(&LogicalCpu) -> Option<T>) -> usize {
    let values: BTreeSet<T> = site.host.cpu.cpus.iter().filter_map(of).collect();
    values.len().max(1)
}

/// One hand-over of a modified line, in ns: half of a round trip between two CPUs of a distance.
/// `None`: a distance that the kernel does not know.
pub fn transfer(facts: Facts, distance: Option<Distance>) -> Law {
    let site = facts.site;
    let Costs { cluster, socket, remote, what } = fabric(site).costs(site);
    let siblings = || {
        let why = "the line stays in the caches that both siblings share";
        clocked(
            facts,
            cycles_of(designs::cell("line.siblings", core(site)), why, "published figures"),
        )
    };
    let between = |ns, whom| {
        let why = format!("a modified line between {whom} over {what} (published figures)");
        Law::hardware(ns, why)
    };
    let law = match distance {
        Some(Distance::Same) => {
            return Law::hardware(range(0.0, 0.0, 0.0), "a CPU transfers no line to itself");
        }
        Some(Distance::SmtSibling) => return siblings(),
        Some(Distance::SharedLlc) => match cluster {
            Cluster::Cycles(cycles) => {
                let fetched = format!("a modified line transferred from another core over {what}");
                clocked(facts, cycles_of(cycles, fetched, "published figures"))
            }
            Cluster::Ns(ns) => between(ns, "two cores that share a last-level cache"),
        },
        Some(Distance::SameSocket) => between(socket, "two last-level caches of one socket"),
        Some(Distance::OtherSocket) => between(remote, "two sockets"),
        None => {
            let near = siblings().range.low;
            return between(range(near, socket.likely, remote.high), "CPUs of unknown topology");
        }
    };
    if !is_guest(site) {
        return law;
    }
    // No Arm core of a server has siblings.
    let near = match site.host.cpu.arch {
        Arch::X86_64 => siblings().range.low,
        Arch::Aarch64 => law.range.low,
    };
    let below = (law.range.low / near).max(1.0);
    let above = (socket.high / law.range.high).max(1.0);
    let why = "the CPUs of a virtual machine may be siblings of one core, or on two dies";
    law.widened(below, above, why).counting(Condition::Hypervisor)
}

/// What a hand-over takes in a guest whose CPUs are shown under one cache and are in two complexes:
/// hosts do not tell, and two guests of one kind can differ.
pub fn in_two_complexes(site: &Site, distance: Option<Distance>) -> Option<Range> {
    let fabric = fabric(site);
    let may_be = is_guest(site) && fabric == Fabric::Complexes;
    (may_be && distance == Some(Distance::SharedLlc)).then(|| fabric.costs(site).socket)
}

/// Whether earlier figures say anything about a distance: only what runs at the core's clock.
pub fn follows_core_clock(site: &Site, distance: Option<Distance>) -> bool {
    match distance {
        Some(Distance::SmtSibling) => true,
        Some(Distance::SharedLlc) => matches!(fabric(site).costs(site).cluster, Cluster::Cycles(_)),
        _ => false,
    }
}

/// What carries lines here, by the design of the cores and how many share a cache.
fn fabric(site: &Site) -> Fabric {
    let cpu = &site.host.cpu;
    if cpu.arch == Arch::Aarch64 {
        let is_cluster = (2..=CLUSTER_CPUS_MAX).contains(&sharing(site));
        return if is_cluster { Fabric::ArmClusters } else { Fabric::ArmMesh };
    }
    let has_tiles = cpu.has("amx_tile");
    let core = core(site);
    let is_among = |first: Core, last: Core| (first..=last).contains(&core);
    match core {
        _ if is_among(Core::Zen, Core::Zen5c) => Fabric::Complexes,
        // Of other makers, of Intel's before Nehalem and of those that the tables lack nothing is known.
        _ if !is_among(Core::Nehalem, Core::LionCove)
            && !is_among(Core::Silvermont, Core::Skymont) =>
        {
            Fabric::Any
        }
        _ if has_tiles => Fabric::Tiles,
        Core::SkylakeServer => Fabric::Mesh,
        Core::SunnyCove if is_large(site) => Fabric::Mesh,
        _ if is_large(site) => Fabric::Rings,
        // A guest shows a few CPUs of a chip of unknown size.
        _ if is_guest(site) => Fabric::Any,
        _ => Fabric::Ring,
    }
}

/// Whether an Intel chip without tiles is one of the larger ones: a server's by its model, or it
/// has a second socket, or more CPUs of one class under a cache than a ring carries.
fn is_large(site: &Site) -> bool {
    let cpu = &site.host.cpu;
    let platform = cpu.microarchitecture.platform.as_deref().unwrap_or_default();
    platform.ends_with("-EP")
        || platform.ends_with("-SP")
        || count(site, |cpu| cpu.package) > 1
        || cpu.classes.len() <= 1 && sharing(site) > RING_CPUS_MAX
}

/// CPUs under the last-level cache of the measuring CPU.
fn sharing(site: &Site) -> usize {
    let cpus = &site.host.cpu.cpus;
    let first = site.cpus.first();
    let own = first.and_then(|id| cpus.iter().find(|cpu| cpu.id == *id)?.llc_group);
    own.map_or(0, |_| cpus.iter().filter(|cpu| cpu.llc_group == own).count())
}

#[cfg(test)]
mod tests {
    use super::{Fabric, fabric, follows_core_clock, in_two_complexes, transfer};
    use crate::Facts;
    use bench::experiment::fixtures::recorded;
    use host::{Core, Distance};
    use record::event::Condition;

    #[test]
    fn published_figures_of_other_machines_lie_inside() {
        let epyc = recorded("epyc-7763-2s");
        assert_eq!(fabric(&epyc), Fabric::Complexes);
        let ring = recorded("alder-lake-hybrid");
        assert_eq!(fabric(&ring), Fabric::Ring);
        let arm = recorded("graviton3");
        for (site, distance, ns) in [
            // core-to-core-latency: EPYC 7R13 and 7773X, the same chips as this one.
            (&epyc, Distance::SmtSibling, 9.8),
            (&epyc, Distance::SharedLlc, 23.0),
            (&epyc, Distance::SameSocket, 107.0),
            (&epyc, Distance::OtherSocket, 197.0),
            (&ring, Distance::SmtSibling, 4.3),
            (&ring, Distance::SharedLlc, 35.0),
            (&arm, Distance::SameSocket, 46.0),
        ] {
            let range = transfer(Facts::prior(site), Some(distance)).range;
            assert!(range.low <= ns && ns <= range.high, "{distance:?}: {ns} outside {range:?}");
            assert!(range.high <= 8.0 * range.low, "{distance:?}: {range:?}");
        }
        assert!(follows_core_clock(&epyc, Some(Distance::SharedLlc)));
        let mut mesh = epyc.clone();
        mesh.host.cpu.microarchitecture.core = Core::SkylakeServer;
        mesh.host.cpu.classes.clear();
        assert!(!follows_core_clock(&mesh, Some(Distance::SharedLlc)));
    }

    #[test]
    fn the_fabric_follows_what_shares_a_cache_and_how_many_dies_there_are() {
        let mut hybrid = recorded("alder-lake-hybrid");
        let mut cpus = hybrid.host.cpu.cpus.clone();
        cpus.extend(cpus.clone());
        hybrid.host.cpu.cpus = cpus;
        assert_eq!(fabric(&hybrid), Fabric::Ring);
        let mut arm = recorded("graviton3");
        assert_eq!(fabric(&arm), Fabric::ArmMesh);
        for (index, cpu) in arm.host.cpu.cpus.iter_mut().enumerate() {
            cpu.llc_group = Some(index / 2);
        }
        assert_eq!(fabric(&arm), Fabric::ArmClusters);
        // Several dies of Zen in one package, and as many complexes of a later design on one hub.
        let mut epyc = recorded("epyc-7763-2s");
        let mut likely = |core| {
            epyc.host.cpu.microarchitecture.core = core;
            epyc.host.cpu.classes.clear();
            transfer(Facts::prior(&epyc), Some(Distance::SameSocket)).range.likely
        };
        assert!(likely(Core::Zen) > 1.5 * likely(Core::Zen3));
    }

    #[test]
    fn only_a_guest_of_complexes_may_show_two_of_them_as_one() {
        let mut site = recorded("epyc-7763-2s");
        let other = |site: &_, distance| in_two_complexes(site, Some(distance));
        assert_eq!(other(&site, Distance::SharedLlc), None, "bare");
        site.host.kernel.virtualisation.is_guest = Some(true);
        assert_eq!(other(&site, Distance::SameSocket), None);
        let apart = transfer(Facts::prior(&site), Some(Distance::SameSocket)).range.likely;
        assert_eq!(other(&site, Distance::SharedLlc).map(|range| range.likely), Some(apart));
        assert_eq!(other(&recorded("vm-granite-rapids"), Distance::SharedLlc), None, "a mesh");
    }

    #[test]
    fn a_guest_widens_and_counts_the_hypervisor() {
        let mut site = recorded("vm-granite-rapids");
        let guest = transfer(Facts::prior(&site), Some(Distance::SharedLlc));
        let conditions = guest.clone().prediction().conditions;
        assert!(conditions.contains(&Condition::Hypervisor), "{conditions:?}");
        site.host.kernel.virtualisation.is_guest = Some(false);
        let bare = transfer(Facts::prior(&site), Some(Distance::SharedLlc));
        assert!(guest.range.low < bare.range.low && guest.range.high > bare.range.high);
        assert_eq!(guest.range.likely, bare.range.likely);
    }
}
