//! What took the CPU: evidence around a traced window, and the cause of each gap.
//!
//! A ladder, climbed as far as permissions go ([`Level`]); the figure says how far, and why not
//! further:
//!
//! - [`Level::Counters`]: what the kernel counts for everyone. Per CPU the rows of
//!   `/proc/interrupts` and `/proc/softirqs` and the steal of `/proc/stat`; per traced thread its
//!   involuntary switches and its run delay; the throttling of its control groups. Counters know
//!   how many and how long in total, not when: gaps are matched to them by count ([`By::Count`]).
//! - [`Level::Switches`]: perf events of the traced threads themselves (`context_switch`), which
//!   `perf_event_paranoid` 2 leaves to everyone. These gaps are known by time.
//! - [`Level::Tracepoints`]: the kernel's tracepoints of interrupts, soft interrupts and switches
//!   of the CPUs, by name and by time, read by a tracefs that is mounted for this process alone.
//!
//! By time ([`spans`]): the events become spans, an inner one taken out of the outer one, and a gap
//! belongs to the cause that took most of it. While another thread has the CPU, interrupts are that
//! thread's. What lies in no span goes to the cause that took most; a gap with a larger part
//! outside its spans, longer than [`spans::slack_ns`], is unattributed ([`Shares::beside`]). When
//! the ring is full nothing more is known: gaps from then on are unattributed, and those before it
//! stand for all ([`Evidence::shares`]). A quota shows as an idle CPU while the loop could run.
//! Where others used the CPU meanwhile, its counters take their part of the longest such gaps, by
//! count.
//!
//! By count ([`counts`]): never more gaps than the counter counted, and never more time. Where only
//! the first of a window's gaps are held, only their part of what was counted is theirs ([`Held`]).

mod counters;
mod counts;
mod evidence;
mod own;
mod spans;
#[cfg(test)]
mod tests;
mod tracing;
mod watch;

pub use evidence::{Evidence, OfCpu, RowCount, Shares, Throttling};
pub use own::PlumbThread;
pub use watch::{Rung, Watch, cost, ladder, thread_number};

use host::kernel::Virtualisation;
use laws::noise::Cause;

bench::symbols! {
    /// How far the evidence goes, lowest first.
    pub enum Level {
        Counters = "counters",
        /// And when the traced threads were switched out and in.
        Switches = "switches",
        Tracepoints = "tracepoints",
    }
}

impl Level {
    /// Its place on the ladder, from 0, and its name.
    pub fn title(self) -> String {
        format!("level {} ({})", self as u32, self.text())
    }
}

/// What an attribution rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Events at the time of the gap.
    Time,
    /// A counter that moved by as many in the whole window.
    Count,
    /// No cause is known though the evidence is whole: the kernel does not see it.
    Outside,
    /// No cause is known: evidence is missing, or the loop itself made the gap.
    Nothing,
}

/// Whose a gap is.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributed {
    pub cause: Cause,
    /// Its name: the handler, the vector, the soft interrupt or the thread; for an unattributed gap
    /// why it is so.
    pub who: String,
    pub by: By,
    /// What of the gap lies in no event, in ns, at [`Level::Tracepoints`] where events touch it:
    /// the way into the kernel and out of it, and the hypervisor's part of an interrupt.
    pub beside_ns: Option<f64>,
    /// What other causes took of the gap, in ns; the rest is `cause`'s.
    pub others: Vec<(Cause, f64)>,
}

/// Which part of a watched window some gaps are. Counters count all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The part of the window's gaps.
    pub gaps: f64,
    /// The part of the window's time, from its beginning.
    pub time: f64,
}

impl Held {
    pub const ALL: Held = Held { gaps: 1.0, time: 1.0 };
}

impl Attributed {
    fn new(cause: Cause, who: impl Into<String>, by: By) -> Attributed {
        let who = who.into();
        Attributed { cause, who, by, beside_ns: None, others: Vec::new() }
    }

    fn nobody(why: impl Into<String>) -> Attributed {
        Attributed::new(Cause::Unattributed, why, By::Nothing)
    }

    fn outside(why: impl Into<String>) -> Attributed {
        Attributed::new(Cause::Unattributed, why, By::Outside)
    }
}

/// What the unattributed share likely is on such a machine, for a table's row.
pub fn unattributed(machine: &Virtualisation) -> String {
    match (machine.is_guest, machine.hypervisor.as_deref()) {
        (Some(true), Some(hypervisor)) => {
            format!("unattributed (virtual machine: likely the hypervisor, {hypervisor})")
        }
        (Some(true), None) => "unattributed (virtual machine: likely the hypervisor)".to_owned(),
        (Some(false), _) => {
            "unattributed (firmware or hardware, if the evidence is whole)".to_owned()
        }
        (None, _) => "unattributed (hypervisor, firmware or hardware)".to_owned(),
    }
}
