//! Laws of cache coherence: what one hand-over of a modified line between two CPUs takes.
//!
//! Figures are halves of round trips of a compare-and-swap game, as N. Viennot's
//! core-to-core-latency prints them. Looked up in the tables of its README (commit 0dddf50), ns:
//! within one cache of Intel's ring 20 (Core i7-6700K), 21 (i9-9900K, i5-4590), 27 (i7-1165G7), 35
//! to 50 (i9-12900K); within Intel's larger server chips 44 (Xeon E5-2695 v4), 47 (8275CL), 48
//! (Gold 6242), 51 (8375C); within a CCX of AMD 16 to 18 (5900X, 5950X, 5700X), 23 to 25 (EPYC
//! 7R13, 3960X, 2700X, 1950X); between CCXs 68 (7950X), 84 to 94 (5900X, 2700X, 3960X), 107 and 115
//! (EPYC 7R13, 7773X), 154 (1950X); Arm 46 (Graviton3), 47 (Graviton2), 72 (Kunpeng 920), Apple's
//! M1 Pro 40 and, between clusters, 145; between sockets 108 to 136 (Intel), 197 (AMD); SMT
//! siblings 4.3 to 10, which at these parts' boost is 22 to 35 cycles. Chips after 2022 are not in
//! it: the ends of the meshes' interval (60 to 90 ns for Sapphire and Granite Rapids) are written
//! from memory.

use super::{clocked, core, cycles_of, is_guest};
use crate::{Facts, Law, range};
use bench::experiment::Site;
use host::{Arch, Core, Distance};
use record::event::{Condition, Range};

/// CPUs under one last-level cache beyond which Intel's chips are no small ring.
const RING_CPUS_MAX: usize = 24;
/// Between siblings the line stays in the first-level cache that they share: cycles of two locked
/// instructions.
const SIBLINGS: Range = range(18.0, 28.0, 45.0);

/// What carries lines between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fabric {
    /// Intel's ring, clocked with the cores or nearly so.
    Ring,
    /// Intel's larger chips: several rings, or a mesh on a clock of its own.
    Mesh,
    /// AMD's core complexes on an input/output die.
    Complexes,
    /// A mesh between Arm cores or clusters.
    ArmMesh,
    /// Unknown.
    Any,
}

/// What one hand-over takes in a fabric. The first is in cycles where its caches run at the core's
/// clock.
struct Costs {
    cluster: Cluster,
    /// One socket, no common cache, ns.
    socket: Range,
    /// Different sockets, ns.
    remote: Range,
    what: &'static str,
}

enum Cluster {
    Cycles(Range),
    Ns(Range),
}

impl Fabric {
    fn costs(self) -> Costs {
        match self {
            Fabric::Ring => Costs {
                cluster: Cluster::Cycles(range(72.0, 110.0, 220.0)),
                socket: range(30.0, 70.0, 130.0),
                remote: range(85.0, 125.0, 220.0),
                what: "Intel's ring",
            },
            Fabric::Mesh => Costs {
                cluster: Cluster::Ns(range(38.0, 56.0, 100.0)),
                socket: range(45.0, 80.0, 150.0),
                remote: range(95.0, 135.0, 240.0),
                what: "Intel's mesh or rings",
            },
            Fabric::Complexes => Costs {
                cluster: Cluster::Cycles(range(62.0, 88.0, 130.0)),
                socket: range(62.0, 95.0, 190.0),
                remote: range(140.0, 200.0, 330.0),
                what: "AMD's core complexes",
            },
            Fabric::ArmMesh => Costs {
                cluster: Cluster::Ns(range(28.0, 48.0, 95.0)),
                socket: range(35.0, 55.0, 150.0),
                remote: range(110.0, 190.0, 400.0),
                what: "a mesh of Arm cores",
            },
            Fabric::Any => Costs {
                cluster: Cluster::Ns(range(14.0, 45.0, 105.0)),
                socket: range(32.0, 85.0, 200.0),
                remote: range(85.0, 150.0, 400.0),
                what: "an unknown interconnect",
            },
        }
    }
}

/// One hand-over of a modified line, in ns: half of a round trip between two CPUs of a distance.
/// `None`: a distance that the kernel does not know.
pub fn transfer(facts: Facts, distance: Option<Distance>) -> Law {
    let site = facts.site;
    let Costs { cluster, socket, remote, what } = fabric(site).costs();
    let siblings = || {
        clocked(
            facts,
            cycles_of(
                SIBLINGS,
                "the line stays in the cache that both siblings share",
                "estimated",
            ),
        )
    };
    let between = |ns, whom| {
        Law::hardware(
            ns,
            format!("a modified line transferred between {whom} over {what} (published figures)"),
        )
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

/// Whether earlier figures say anything about a distance: only what runs at the core's clock.
pub fn follows_core_clock(site: &Site, distance: Option<Distance>) -> bool {
    match distance {
        Some(Distance::SmtSibling) => true,
        Some(Distance::SharedLlc) => {
            matches!(fabric(site).costs().cluster, Cluster::Cycles(_))
        }
        _ => false,
    }
}

/// What carries lines here, by the design of the cores and how many share a cache.
fn fabric(site: &Site) -> Fabric {
    let cpu = &site.host.cpu;
    if cpu.arch == Arch::Aarch64 {
        return Fabric::ArmMesh;
    }
    match core(site) {
        Core::Zen | Core::Zen2 | Core::Zen3 | Core::Zen4 | Core::Zen5 => Fabric::Complexes,
        Core::Unknown | Core::Core2 | Core::Bulldozer => Fabric::Any,
        Core::SkylakeServer => Fabric::Mesh,
        _ if is_large(site) => Fabric::Mesh,
        // A guest shows a few CPUs of a chip of unknown size.
        _ if is_guest(site) => Fabric::Any,
        _ => Fabric::Ring,
    }
}

/// Whether an Intel chip is one of the larger ones: it has tile registers, which no small one has,
/// or a second socket, or more CPUs under one cache than a ring carries.
fn is_large(site: &Site) -> bool {
    let cpu = &site.host.cpu;
    let sockets = cpu.cpus.iter().filter_map(|cpu| cpu.package).max();
    let group = |id: Option<usize>| {
        let sharing = cpu.cpus.iter().filter(|cpu| cpu.llc_group == id);
        id.map_or(0, |_| sharing.count())
    };
    let first = site.cpus.first();
    let own = first.and_then(|id| cpu.cpus.iter().find(|cpu| cpu.id == *id)?.llc_group);
    cpu.flags.iter().any(|flag| flag == "amx_tile")
        || sockets.is_some_and(|last| last > 0)
        || group(own) > RING_CPUS_MAX
}

#[cfg(test)]
mod tests {
    use super::{Fabric, fabric, follows_core_clock, transfer};
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
