//! One file per architecture with the same list of functions. The list below
//! is what the rest of the crate may call, so an architecture that lacks one
//! does not compile. Assembly is nowhere else.
//!
//! Timed code: every body here is what a figure times. No instruction and no memory operand may be
//! added to a turn, its head stays aligned, and a chain depends on itself; `tests` holds that.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

// Ticks of the counter, and what the machine says about its rate.
pub(crate) use machine::{
    counter_hz_hint, has_rdtscp, ticks_cpuid, ticks_end, ticks_fenced, ticks_raw, ticks_rdtscp,
    ticks_start,
};
// Timed bodies: `n` operations, exactly, in a loop that no compiler touched.
pub(crate) use machine::{
    CLOCK_READS, chain_add, chain_multiply, chain_rotate, chase_index, chase_pointer, chase_stored,
    clock_loop, independent, loop_empty, loop_unrolled, loop_volatile,
};
// Calls; those by type are generic over the number of arguments (0 to 12) and
// over whether the callee spills them.
pub(crate) use machine::{
    calls_f32, calls_f64, calls_i32, calls_i64, calls_indirect, calls_linkage, calls_structure,
};
// The sum of an array.
pub(crate) use machine::sum_lines;

// A line that two threads hand to each other.
pub(crate) use machine::{line_method, line_turns};
// Stores that fault, and the way past them.
pub(crate) use machine::{fault_stores, step_over};
// The unbroken reading of the counter.
pub(crate) use machine::gaps_turns;

// Single instructions: the table, the features it needs, and the branches that are guessed wrong.
pub(crate) use machine::{BRANCH_TEXT, INSTRUCTIONS, branches, has_feature};
// Chains of loads beside each other: a body for each count.
pub(crate) use machine::CHAINS;
// Arithmetic at full rate.
pub(crate) use machine::{peak_body, peak_chain};
// Loops that move the words of arrays.
pub(crate) use machine::{stream_code, stream_has_ahead};

/// The face of `system_call` for a number of arguments. All of plumb's own calls go through that
/// one function, so that the same call has one shape and one address wherever it is timed: what
/// follows the bare instruction in a loop is mispredicted at one address and not at another, by a
/// third of a short call (docs/notes/2026-11-22-crosscheck-os.md).
macro_rules! system_call {
    ($name:ident, [$($argument:ident)*], [$($none:literal)*]) => {
        /// A system call; returns the kernel's value, negative error numbers included.
        ///
        /// # Safety
        /// The arguments must be right for the call `number`.
        #[inline(always)]
        pub(crate) unsafe fn $name(number: i64 $(, $argument: usize)*) -> isize {
            // SAFETY: the caller answers for the arguments.
            unsafe { machine::system_call(number $(, $argument)* $(, $none)*) }
        }
    };
}

system_call!(syscall0, [], [0 0 0 0 0 0]);
system_call!(syscall1, [a], [0 0 0 0 0]);
system_call!(syscall2, [a b], [0 0 0 0]);
system_call!(syscall3, [a b c], [0 0 0]);
system_call!(syscall4, [a b c d], [0 0]);
system_call!(syscall6, [a b c d e f], []);

/// A timed body that is only repeated: returns what its documentation says.
pub(crate) type Loop = unsafe extern "C" fn(n: u64) -> u64;

/// `n` loads of each of several chains whose addresses stand in `at` before and after.
pub(crate) type ChainsTurns = unsafe extern "C" fn(n: u64, at: *mut u64);

/// Where an unbroken reading of the counter stands.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Reading {
    /// The counter at the last read.
    pub(crate) last: u64,
    /// Where the next pair goes: last read before, first read after.
    pub(crate) next: *mut u64,
    /// Where the room ends.
    pub(crate) end: *mut u64,
}

/// The last instruction of a procedure that a loop calls. The padding behind it puts the
/// procedure's start on a line of 64 bytes, wherever the build puts it: a naked function is alone
/// in its section, which is as aligned as anything in it. Builds whose callees began anywhere in a
/// line differed by 0.9 cycles a call (docs/notes/2026-11-25-house.md).
macro_rules! callee_end {
    ($last:literal) => {
        concat!($last, "\n.p2align 6")
    };
}
pub(crate) use callee_end;

/// The table of bodies by count, from one chain.
macro_rules! chains_table {
    ($turns:ident) => {
/// The bodies for 1, 2 … 32 chains.
        #[rustfmt::skip]
        pub(crate) static CHAINS: [ChainsTurns; crate::chains::MOST_CHAINS] = [
            $turns::<1>, $turns::<2>, $turns::<3>, $turns::<4>,
            $turns::<5>, $turns::<6>, $turns::<7>, $turns::<8>,
            $turns::<9>, $turns::<10>, $turns::<11>, $turns::<12>,
            $turns::<13>, $turns::<14>, $turns::<15>, $turns::<16>,
            $turns::<17>, $turns::<18>, $turns::<19>, $turns::<20>,
            $turns::<21>, $turns::<22>, $turns::<23>, $turns::<24>,
            $turns::<25>, $turns::<26>, $turns::<27>, $turns::<28>,
            $turns::<29>, $turns::<30>, $turns::<31>, $turns::<32>,
        ];
    };
}
pub(crate) use chains_table;

/// The reads that are instructions of an architecture, each with the name and the steps of its
/// loop, and those of every architecture.
macro_rules! clock_reads_table {
    ($($kind:ident $name:ident $step:expr;)*) => {
        $(clock_reads!($name, $step);)*

        /// The clock reads of this architecture.
        pub(crate) const CLOCK_READS: &[ClockRead] = &[
            $(ClockRead::$kind,)*
            ClockRead::ClockGettimeVdso,
            ClockRead::ClockGettimeSyscall,
            ClockRead::Time,
            ClockRead::Instant,
        ];

        /// The loop of a read that is an instruction here; none for the others.
        pub(crate) fn clock_loop(kind: ClockRead) -> Option<Loop> {
            match kind {
                $(ClockRead::$kind => Some($name),)*
                _ => None,
            }
        }
    };
}
pub(crate) use clock_reads_table;

/// A function that finds the code of an arithmetic kernel: rows of width, operation, element and
/// how its body is written; each body is a function of its own.
macro_rules! kernels_table {
    ($find:ident: $($width:ident $op:ident $element:ident $shape:ident!($($how:tt)*);)*) => {
        fn $find(kernel: Kernel) -> Option<Code> {
            match (kernel.width, kernel.op, kernel.element) {
                $((Width::$width, Op::$op, Type::$element) => {
                    $shape!(run, $($how)*);
                    Some(run)
                })*
                _ => None,
            }
        }
    };
}
pub(crate) use kernels_table;
