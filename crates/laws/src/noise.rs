//! Laws of interruptions: the timer tick, what it and other interrupts take, and how late a sleeper
//! wakes.

pub mod activity;
pub mod all;
pub mod wakeup;
