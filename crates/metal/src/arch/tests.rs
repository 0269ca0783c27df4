//! What the tests of both architectures compare with the machine code that they read: what a turn of
//! a stream's loop is to load and store, and the faces of the system call.

use crate::stream::{Access, Kernel, Op};
use std::collections::BTreeSet;

/// Bytes from a pointer: where, and how many.
pub(super) type Words = BTreeSet<(u64, usize)>;

/// What a turn is to do.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Traffic {
    /// By pointer: a, b, c.
    pub(super) loads: [Words; 3],
    pub(super) stores: Words,
    /// Bytes by which all pointers advance.
    pub(super) advance: u64,
}

impl Traffic {
    /// All words of so many units of a kernel, each once.
    pub(super) fn expected(kernel: Kernel, units: u64) -> Traffic {
        let (_, unit) = turn_units(kernel);
        let bytes = kernel.width.bytes();
        let in_unit = match kernel.access {
            Access::Every => 64 / bytes,
            Access::First | Access::Strided => 1,
        };
        let words: Words = (0..units)
            .flat_map(|at| (0..in_unit).map(move |word| (at * unit + (word * bytes) as u64, bytes)))
            .collect();
        let none = Words::new;
        let (loads, stores) = match kernel.op {
            Op::Read => ([words, none(), none()], none()),
            Op::Write => ([none(), none(), none()], words),
            Op::Modify => ([words.clone(), none(), none()], words),
            Op::Copy | Op::Scale => ([none(), words.clone(), none()], words),
            Op::Add | Op::Triad => ([none(), words.clone(), words.clone()], words),
        };
        Traffic { loads, stores, advance: units * unit }
    }

    pub(super) fn words(&self) -> usize {
        self.loads.iter().chain([&self.stores]).map(Words::len).max().unwrap_or(0)
    }

    /// Notes by how much a pointer advances: all do by the same.
    pub(super) fn advances(&mut self, by: u64, name: &str) {
        assert!(self.advance == 0 || self.advance == by, "{name}");
        self.advance = by;
    }
}

/// A turn's lines, or words apart, and the bytes between.
pub(super) fn turn_units(kernel: Kernel) -> (u64, u64) {
    match (kernel.access, kernel.op) {
        (Access::First, _) => (32, 64),
        (Access::Strided, _) => (8, 512),
        (Access::Every, _) if !kernel.width.is_vector() => (4, 64),
        (Access::Every, Op::Read) => (16, 64),
        (Access::Every, _) => (8, 64),
    }
}

/// Calls that are timed. Experiments that time the same one run the same code: their loops hold no
/// system call of their own, and each face has the one function's.
pub(super) fn system_call_faces() -> [(&'static str, *const ()); 5] {
    [
        ("getpid", crate::raw::getpid as _),
        ("getppid", crate::raw::getppid as _),
        ("clock_gettime", crate::raw::clock_gettime as _),
        ("sched_yield", crate::raw::sched_yield as _),
        ("pread64", crate::raw::pread64 as _),
    ]
}
