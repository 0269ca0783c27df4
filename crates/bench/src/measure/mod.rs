//! The timing core (METHOD §1, §2 and §4): what times, and what is known around it. No statistics
//! beyond what timing itself needs, no figures, no formats.
//!
//! A worker calls [`calibrate`] once per segment, then [`Bench::new`], the experiment's `measure`
//! and [`Bench::finish`] for each round; at the far end [`FarEnd`] in the same way.

mod bench;
mod book;
mod calibrate;
mod clock;
mod core_clock;
mod environment;
mod far;
mod heartbeat;
pub mod placed;
mod quartet;
mod steal;
mod storage;
mod surroundings;
pub mod team;
#[cfg(test)]
mod tests;
mod together;
mod values;
mod warp;
mod width;

pub use bench::{Bench, Declared, Outcome, Written, WrongResult};
pub use calibrate::{calibrate, raw_ns};
pub use clock::Clock;
pub use core_clock::{CoreClock, Windows};
pub use far::FarEnd;
pub use heartbeat::Heartbeat;
pub use quartet::{Quartet, Timer, Turns, abba, samples};
pub use stats::width::by_design;
pub use storage::{Settled, settle, unwritten};
pub use team::{
    BestWindow, Finally, NeverTogether, REHEARSAL_NS, Shared, Team, TeamWindow, best_window,
};
pub use together::{Gate, beside};
pub use values::Values;
pub use width::{Probe, Reading, Stretch, Watch, clock_step};
