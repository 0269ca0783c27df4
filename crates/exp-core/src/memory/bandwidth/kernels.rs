//! Which kernels are measured where: the cases of each preset, and why one cannot be measured here.

use super::sizes;
use crate::memory::reports;
use bench::experiment::Preset::{self, Quick, Rehearsal, Standard, Thorough};
use bench::prelude::*;
use host::Arch;
use laws::memory::Level::{self, FourTimes, L1, L2, Memory};
use laws::memory::described_levels;
use laws::memory::transfer::Access::{self, Every, First, Strided};
use laws::memory::transfer::Op::{self, Copy, Modify, Read, Triad, Write};
use laws::memory::transfer::Stores::{self, NonTemporal, Regular};
use laws::memory::transfer::Threads::{self, All, Number, Smt};
use laws::memory::transfer::Width::{self, Avx2, Avx512, Neon, Sse2, Vector, Word};
use laws::memory::transfer::{STREAM, Transfer, cpus_of};

/// Kernels of a preset: each operation at each level that there is, by each number of threads that
/// there are.
type Row =
    (Preset, &'static [Op], Stores, Access, &'static [Width], &'static [Level], &'static [Threads]);

const ONE: &[Threads] = &[Number(1)];
const SOME: &[Threads] = &[Number(2), Number(4), Number(16), Number(64), Smt];
#[rustfmt::skip]
const MORE: &[Threads] = &[
    Number(1), Number(2), Number(4), Number(8), Number(16), Number(32), Number(64), Number(128),
    Number(256), Number(512), All, Smt,
];
const BOTH: &[Threads] = &[Number(1), All];
const WIDEST: &[Width] = &[Vector];
const NARROWER: &[Width] = &[Word(4), Word(8), Neon, Sse2, Avx2, Avx512];

#[rustfmt::skip]
static ROWS: &[Row] = &[
    (Rehearsal, &[Read, Copy], Regular, Every, WIDEST, &[L1, L2, Memory], ONE),
    (Rehearsal, &[Triad], NonTemporal, Every, WIDEST, &[Memory], ONE),
    (Rehearsal, &[Write], Regular, First, &[Word(4)], &[Memory], ONE),
    (Rehearsal, &[Modify], Regular, Every, WIDEST, &[Memory], &[All]),
    (Quick, &[Read, Copy], Regular, Every, WIDEST, &[L1], ONE),
    (Quick, &[Read, Write, Copy], Regular, Every, WIDEST, &[Memory], ONE),
    (Quick, &[Read, Triad], Regular, Every, WIDEST, &[Memory], &[All]),
    (Standard, Op::ALL, Regular, Every, WIDEST, &[Memory], BOTH),
    (Standard, &[Write], NonTemporal, Every, WIDEST, &[Memory], BOTH),
    (Standard, &STREAM, NonTemporal, Every, WIDEST, &[Memory], ONE),
    (Standard, &[Copy, Triad], NonTemporal, Every, WIDEST, &[Memory], &[All]),
    (Standard, &[Read, Write, Copy], Regular, Every, WIDEST, &Level::CACHES, ONE),
    (Standard, &[Read, Write], Regular, Every, &[Word(8), Word(4)], &[Memory], ONE),
    (Standard, &[Read, Write], Regular, Strided, &[Word(4)], &[Memory], ONE),
    (Standard, &[Read, Write], Regular, First, &[Word(4)], &[FourTimes], ONE),
    (Standard, &STREAM, Regular, Every, WIDEST, &[FourTimes], ONE),
    (Standard, &[Read], Regular, Every, WIDEST, &[Memory], SOME),
    // Everything: each kernel by one thread and by all, the widest vectors by any number.
    (Thorough, Op::ALL, Regular, Every, WIDEST, Level::ALL, MORE),
    (Thorough, Op::ALL, NonTemporal, Every, WIDEST, &[Memory, FourTimes], MORE),
    (Thorough, Op::ALL, Regular, Every, NARROWER, Level::ALL, BOTH),
    (Thorough, Op::ALL, NonTemporal, Every, NARROWER, &[Memory, FourTimes], BOTH),
    (Thorough, Op::ALL, Regular, First, &[Word(4), Word(8)], Level::ALL, BOTH),
    (Thorough, Op::ALL, Regular, Strided, &[Word(4), Word(8)], Level::ALL, BOTH),
];

pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Transfer> {
    let cpus = site.cpus.len() as u64;
    let caches = described_levels(site);
    let mut cases = Vec::new();
    for &(_, ops, stores, access, widths, levels, threads) in
        ROWS.iter().filter(|row| row.0 == preset)
    {
        for &level in levels {
            for &width in widths {
                let by = |threads: Threads| {
                    move |op: &Op| Transfer { op: *op, stores, access, width, level, threads }
                };
                cases.extend(threads.iter().flat_map(|threads| ops.iter().map(by(*threads))));
            }
        }
    }
    let is_there = |case: &Transfer| {
        let has_level = case.level.is_memory() || caches.iter().any(|cache| cache.0 == case.level);
        let is_as_wide = |width| case.bytes(site) >= Transfer { width, ..case.clone() }.bytes(site);
        let is_named_twice = case.width.is_vector() && case.width != Vector && is_as_wide(Vector);
        let has_cpus = match case.threads {
            Number(count) => count == 1 || count < cpus,
            All | Smt => cpus > 1,
        };
        // What exists nowhere is no part of everything.
        let exists = preset != Thorough || contradiction(site, case).is_none();
        has_level && !is_named_twice && has_cpus && exists
    };
    cases.retain(is_there);
    cases
}

/// Why a kernel does not exist here, if it does not.
pub(super) fn contradiction(site: &Site, case: &Transfer) -> Option<String> {
    let is_past = case.stores == NonTemporal;
    if is_past && matches!(case.op, Read | Modify) {
        return Some(format!("{} has no non-temporal form", case.op.text()));
    }
    if let Some(reason) = reports::contradiction(case) {
        return Some(reason.to_owned());
    }
    let cpu = &site.host.cpu;
    let x86 = cpu.arch == Arch::X86_64;
    let is_here = match case.width {
        Sse2 => x86,
        Avx2 => x86 && cpu.has("avx2") && cpu.has("fma"),
        Avx512 => x86 && cpu.has("avx512f"),
        Neon => !x86,
        // Arm's non-temporal stores are pairs of registers.
        Word(_) => x86 || !is_past,
        Vector => true,
    };
    (!is_here).then(|| "this processor has no such instruction".to_owned())
}

/// Why a case cannot be measured at the site, if it cannot.
pub(super) fn absent(site: &Site, case: &Transfer, limit: u64) -> Option<Skip> {
    let cpus = site.cpus.len();
    let reason = match case.threads {
        _ if let Some(reason) = contradiction(site, case) => reason,
        _ if case.stores == NonTemporal && !case.level.is_memory() => {
            "non-temporal stores go to memory even if a cache could hold the arrays".to_owned()
        }
        Number(count) if count > cpus as u64 => {
            format!("{count} threads, and {cpus} CPUs to measure on")
        }
        threads if cpus_of(site, threads).is_empty() => {
            "no two of the CPUs to measure on are threads of one core".to_owned()
        }
        _ => return sizes::size_of_case(Facts::prior(site), case, limit).err(),
    };
    Some(Skip::because(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::experiment::fixtures::recorded;
    use laws::memory::transfer::{Access, Op, Stores};

    /// The processor at hand may lack what the recorded one has, never the other way round for what
    /// no x86-64 lacks.
    #[test]
    fn what_exists_is_what_the_instrument_has() {
        let site = recorded("vm-granite-rapids");
        for (op, stores) in Op::ALL.iter().flat_map(|op| Stores::ALL.iter().map(|of| (*op, *of))) {
            let widest = Transfer::widest(op, stores, Memory, Number(1));
            assert!(contradiction(&site, &widest).is_some() || widest.kernel().is_supported());
            for (access, width) in
                Access::ALL.iter().flat_map(|access| NARROWER.iter().map(|width| (*access, *width)))
            {
                let of = Transfer { access, width, ..widest.clone() };
                let exists = contradiction(&site, &of).is_none();
                let is_everywhere = matches!(width, Word(_) | Sse2);
                if cfg!(target_arch = "x86_64") && (!exists || is_everywhere) {
                    assert_eq!(of.kernel().is_supported(), exists, "{of:?}");
                }
            }
        }
    }
}
