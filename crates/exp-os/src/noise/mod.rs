//! Noise: what takes the CPU from a program, when, and for how long.

pub mod attribution;

bench::family!(
    "noise",
    "what takes the CPU away: interruptions of a program that only runs, on one CPU and on all, \
     and late wake-ups",
    hidden: false,
    [activity, all, wakeup]
);

mod moved;
pub mod trace;
