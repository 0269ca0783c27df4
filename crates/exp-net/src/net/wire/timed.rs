//! Calls on sockets, and the loops over them: messages there and back, and streams.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

mod echo;
mod messages;
mod prober;
mod socket;
mod stream;

pub use echo::{Echoed, echo};
pub use messages::{Messages, Taken, is_same, number, pattern, stamp};
pub use prober::{LOST_MOST_NS, Plan, Prober, Ran, probe_all, stream_limit_ns};
pub use socket::{Socket, completed};
pub use stream::{pull, push};
