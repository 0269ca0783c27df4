//! Turns that threads of one process take on a CPU that they share on purpose.

use metal::process;

/// Turns that threads of this process take on a CPU that they share: the scheduler's doing while a case
/// makes them contend on purpose, and no disturbance.
pub(super) struct Turns(u64);

impl Turns {
    /// Counts from here on.
    pub(super) fn begin() -> Turns {
        Turns(process::rusage_self().nivcsw)
    }

    /// Switches against a thread's will so far.
    pub(super) fn taken(&self) -> u64 {
        process::rusage_self().nivcsw.saturating_sub(self.0)
    }
}
