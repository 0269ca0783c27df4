//! The processor's description of itself, as raw values, so that a host can be
//! recorded and read again elsewhere.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Value of eax that was asked.
    pub leaf: u32,
    /// Value of ecx that was asked; 0 for leaves without subleaves.
    pub subleaf: u32,
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// All standard, hypervisor and extended leaves that describe the CPU which the
/// calling thread is on: identity, features, caches, TLBs, topology, counter
/// and clock rates. Pin first where CPUs differ. Empty on aarch64.
#[cfg(target_arch = "x86_64")]
pub fn leaves() -> Vec<Leaf> {
    x86_64::leaves(ask)
}

/// Empty: aarch64 describes itself in system registers, which the kernel publishes in sysfs.
#[cfg(target_arch = "aarch64")]
pub fn leaves() -> Vec<Leaf> {
    Vec::new()
}

/// Leaves that each CPU of a hybrid processor answers for itself, by CPU: 1Ah (Intel: type of
/// core), 80000026h (AMD: type of core). Empty where the CPUs do not differ by leaf 7 (Intel) or
/// 80000026h, so that this costs nothing on large servers. A thread that ends afterwards visits the
/// CPUs, and the caller stays where it may run; a CPU that refuses the thread has no answer.
#[cfg(target_arch = "x86_64")]
pub fn by_cpu(cpus: &[usize]) -> Vec<(usize, Vec<Leaf>)> {
    let own = leaves();
    let asked = x86_64::differing(&own);
    if asked.is_empty() {
        return Vec::new();
    }
    let visit = |cpu: usize| {
        crate::place::pin(cpu).ok()?;
        Some((cpu, asked.iter().map(|&leaf| ask(leaf, 0)).collect()))
    };
    std::thread::scope(|scope| {
        let visitor = std::thread::Builder::new()
            .spawn_scoped(scope, || cpus.iter().filter_map(|&cpu| visit(cpu)).collect());
        visitor.ok().and_then(|visitor| visitor.join().ok()).unwrap_or_default()
    })
}

/// Empty: the kernel publishes each CPU's registers in sysfs.
#[cfg(target_arch = "aarch64")]
pub fn by_cpu(_: &[usize]) -> Vec<(usize, Vec<Leaf>)> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
fn ask(leaf: u32, subleaf: u32) -> Leaf {
    let answer = std::arch::x86_64::__cpuid_count(leaf, subleaf);
    Leaf { leaf, subleaf, eax: answer.eax, ebx: answer.ebx, ecx: answer.ecx, edx: answer.edx }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::Leaf;

    const HYPERVISOR: u32 = 0x4000_0000;
    const EXTENDED: u32 = 0x8000_0000;
    /// The last leaves that are kept of each range, whatever is claimed.
    const LAST_STANDARD: u32 = 0x24;
    const LAST_HYPERVISOR: u32 = 0x10;
    /// A hypervisor that shows another's leaves has its own so much, or a multiple, further on.
    const HYPERVISOR_STEP: usize = 0x100;
    const LAST_HYPERVISOR_RANGE: u32 = 0x4000_ff00;
    const LAST_EXTENDED: u32 = 0x8000_0026;
    /// Bit of leaf 1's ecx that says that the hypervisor range exists.
    const HYPERVISOR_BIT: u32 = 1 << 31;
    /// The most leaves that a range can claim.
    const MOST_CLAIMED: u32 = 0xff;
    /// Subleaves that are asked at most where a list does not end.
    const MOST_SUBLEAVES: u32 = 64;

    /// The leaves of the processor that `ask` asks for a leaf and a subleaf.
    pub(super) fn leaves(ask: impl Fn(u32, u32) -> Leaf) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        range(&ask, &mut leaves, 0, LAST_STANDARD);
        if ask(1, 0).ecx & HYPERVISOR_BIT != 0 {
            for first in (HYPERVISOR..=LAST_HYPERVISOR_RANGE).step_by(HYPERVISOR_STEP) {
                range(&ask, &mut leaves, first, first + LAST_HYPERVISOR);
            }
        }
        range(&ask, &mut leaves, EXTENDED, LAST_EXTENDED);
        leaves
    }

    /// The leaves that a processor answers differently on its CPUs, by the bits that say so: EDX
    /// bit 15 of leaf 7 (hybrid), EAX bit 30 of 80000026h (types of core differ).
    pub(super) fn differing(leaves: &[Leaf]) -> Vec<u32> {
        let answer = |leaf| leaves.iter().find(move |one| (one.leaf, one.subleaf) == (leaf, 0));
        let intel = answer(7).filter(|one| one.edx >> 15 & 1 == 1).map(|_| 0x1a);
        let amd = answer(0x8000_0026).filter(|one| one.eax >> 30 & 1 == 1).map(|one| one.leaf);
        intel.into_iter().chain(amd).collect()
    }

    /// The leaves from `first` to the highest that it claims, at most `last`.
    fn range(ask: &impl Fn(u32, u32) -> Leaf, leaves: &mut Vec<Leaf>, first: u32, last: u32) {
        let highest = ask(first, 0).eax;
        // What has no such range answers anything: most often data of the last standard leaf.
        if highest < first || highest - first > MOST_CLAIMED {
            return;
        }
        for leaf in first..=highest.min(last) {
            for subleaf in 0..MOST_SUBLEAVES {
                let answer = ask(leaf, subleaf);
                leaves.push(answer);
                if !continues(answer, leaves) {
                    break;
                }
            }
        }
    }

    /// Whether a leaf has a subleaf after this answer. A list that ends with
    /// an empty entry keeps that entry, as its end.
    fn continues(answer: Leaf, leaves: &[Leaf]) -> bool {
        /// The number of the last subleaf is in eax of subleaf 0.
        fn counted(answer: Leaf, leaves: &[Leaf]) -> bool {
            let head = leaves.len() - 1 - answer.subleaf as usize;
            answer.subleaf < leaves[head].eax
        }
        match answer.leaf {
            // Caches: the type is in the low five bits.
            0x4 | 0x8000_001d => answer.eax & 0x1f != 0,
            // Topology: the type of the level.
            0xb | 0x1f | 0x8000_0026 => answer.ecx >> 8 & 0xff != 0,
            // Features and TLBs.
            0x7 | 0x14 | 0x17 | 0x18 | 0x1d | 0x20 => counted(answer, leaves),
            // Sizes of the register state; resource control.
            0xd | 0xf | 0x10 | 0x12 => answer.subleaf < 2,
            _ => false,
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_vendor_can_be_read_back() {
        let leaves = leaves();
        let first = leaves[0];
        let vendor: Vec<u8> =
            [first.ebx, first.edx, first.ecx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let vendor = String::from_utf8(vendor).unwrap();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        assert!(cpuinfo.contains(&vendor), "{vendor}");
    }

    #[test]
    fn no_leaf_is_asked_twice_and_lists_begin_at_zero() {
        let leaves = leaves();
        let asked: HashSet<_> = leaves.iter().map(|leaf| (leaf.leaf, leaf.subleaf)).collect();
        assert_eq!(asked.len(), leaves.len());
        for &(leaf, subleaf) in &asked {
            assert!(subleaf == 0 || asked.contains(&(leaf, subleaf - 1)));
        }
        assert!(asked.contains(&(0x8000_0000, 0)) && asked.contains(&(1, 0)));
    }

    #[test]
    fn caches_are_told_apart() {
        let caches: Vec<_> =
            leaves().into_iter().filter(|leaf| leaf.leaf == 4 && leaf.eax & 0x1f != 0).collect();
        let kinds: HashSet<_> = caches.iter().map(|cache| cache.eax & 0xff).collect();
        assert_eq!(kinds.len(), caches.len(), "level and type: {caches:x?}");
    }

    /// A processor with three caches, two levels of topology, two subleaves of
    /// features, and nothing else.
    fn small(hypervisor: bool) -> impl Fn(u32, u32) -> Leaf {
        move |leaf, subleaf| {
            let (eax, ecx) = match (leaf, subleaf) {
                (0, _) => (0xb, 0),
                (1, _) => (0, u32::from(hypervisor) << 31),
                (4, 0..3) => (subleaf + 1, 0),
                (7, 0) => (1, 0),
                (0xb, 0..2) => (0, (subleaf + 1) << 8),
                (0x4000_0000 | 0x4000_0700 | 0x4000_ff00, _) => (leaf + 1, 0),
                // Not a range: the answer of another leaf.
                (0x4000_0100, _) => (u32::MAX, 0),
                (0x8000_0000, _) => (0x8000_0001, 0),
                _ => (0, 0),
            };
            Leaf { leaf, subleaf, eax, ebx: 0, ecx, edx: 0 }
        }
    }

    #[test]
    fn only_a_processor_that_says_so_is_asked_on_each_cpu() {
        let one = |leaf, eax, edx| Leaf { leaf, subleaf: 0, eax, ebx: 0, ecx: 0, edx };
        let differing = x86_64::differing;
        assert_eq!(differing(&[one(7, 0, 1 << 15), one(0x1a, 0x2000_0001, 0)]), [0x1a]);
        assert_eq!(differing(&[one(0x8000_0026, 1 << 30, 0)]), [0x8000_0026]);
        assert!(differing(&[one(7, 1 << 15, 0), one(0x8000_0026, 0, 1 << 30)]).is_empty());
        let before = crate::place::allowed().unwrap();
        for (cpu, answers) in by_cpu(&before) {
            assert!(before.contains(&cpu) && !answers.is_empty());
        }
        assert_eq!(crate::place::allowed().unwrap(), before);
    }

    #[test]
    fn lists_end_where_the_processor_ends_them() {
        let count = |leaves: &[Leaf], leaf| leaves.iter().filter(|one| one.leaf == leaf).count();
        let leaves = x86_64::leaves(small(true));
        // The empty entry that ends a list is kept; a counted list has none.
        for (leaf, expected) in [(0, 1), (4, 4), (7, 2), (0xb, 3), (2, 1), (0xc, 0)] {
            assert_eq!(count(&leaves, leaf), expected, "leaf {leaf:#x}");
        }
        assert_eq!(count(&leaves, 0x4000_0001), 1);
        assert_eq!(count(&leaves, 0x4000_0002), 0);
        for (leaf, expected) in [(0x4000_0100, 0), (0x4000_0701, 1), (0x4000_ff01, 1)] {
            assert_eq!(count(&leaves, leaf), expected, "leaf {leaf:#x}");
        }
        assert_eq!(count(&leaves, 0x8000_0001), 1);
        assert_eq!(count(&leaves, 0x8000_0002), 0);
        let without = x86_64::leaves(small(false));
        assert_eq!(count(&without, 0x4000_0000), 0);
        assert_eq!(without.len() + 6, leaves.len());
    }
}
