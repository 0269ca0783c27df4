//! Laws of interruptions: the timer tick, what it and other interrupts take, and how late a sleeper
//! wakes.

pub mod activity;
pub mod all;
pub mod wakeup;

use bench::experiment::Site;

bench::symbols! {
    /// What takes the CPU from a program that only runs, in the order in which tables show it.
    pub enum Cause {
        /// The timer's interrupt: the scheduler's tick, and timers that ran out.
        Timer = "timer",
        /// Another interrupt: a device's, or one from another CPU.
        Interrupt = "interrupt",
        /// A soft interrupt, after an interrupt or in a thread of its own.
        Softirq = "softirq",
        Thread = "thread",
        Plumb = "plumb",
        /// A quota of CPU time: the thread was ready and did not run.
        Throttled = "throttled",
        /// The hypervisor says that it ran something else.
        Steal = "steal",
        Unattributed = "unattributed",
    }
}

fn is_bare(site: &Site) -> bool {
    site.host.kernel.virtualisation.is_guest == Some(false)
}
