//! Experiments on clocks, the core and memory.
#![forbid(unsafe_code)]

pub mod clock;
pub mod cpu;
pub mod memory;
