//! Laws of interruptions: the timer tick, what it and other interrupts take, and how late a sleeper
//! wakes.

pub(crate) mod activity;
pub(crate) mod all;
pub(crate) mod wakeup;
