//! The echo server of one connection.

use super::{Messages, Socket, Taken};
use crate::net::place::thread_cpu_ns as cpu_ns;
use anyhow::{Context, Result};
use metal::deadline::Deadline;
use metal::socket::Wait;
use std::time::Duration;

/// A polling end looks after so many polls whether it is to go on.
const TURNS_PER_LOOK: u32 = 1 << 14;
/// A near end that takes nothing back for this time, several times, is gone.
const SEND_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    pub messages: u64,
    /// CPU time of the thread from its first message to its end, in ns.
    pub cpu_ns: u64,
    /// The CPU on which packets arrived.
    pub softirq_cpu: Option<usize>,
}

/// Sends back what comes: of a stream each message whole, of datagrams each of so many bytes. An
/// end of the stream and an empty datagram are the near end's end; beside that, where nothing came
/// for `look_after`, `goes_on` is asked now and then.
pub fn echo(
    socket: &Socket,
    bytes: usize,
    wait: Wait,
    look_after: Duration,
    mut goes_on: impl FnMut() -> Result<bool>,
) -> Result<Echoed> {
    let mut messages = Messages::one_by_one(bytes, socket.is_stream);
    socket.options().set_read_timeout(None)?;
    socket.options().set_write_timeout(Some(SEND_TIME))?;
    // A time-out of the socket's own would cost a timer at each wait.
    let (deadline, turns_per_look) = match wait {
        Wait::Never => (None, TURNS_PER_LOOK),
        _ => (Some(Deadline::after(look_after).context("a deadline")?), 1),
    };
    let (mut count, mut turns) = (0, 0_u32);
    let mut first_ns = None;
    loop {
        let taken = messages.echo(socket, wait, || {
            first_ns.get_or_insert_with(cpu_ns);
            count += 1;
        })?;
        match taken {
            Taken::Bytes => continue,
            Taken::End => break,
            Taken::Nothing => turns = turns.wrapping_add(1),
        }
        if turns.is_multiple_of(turns_per_look) && !goes_on()? {
            break;
        }
    }
    drop(deadline);
    let cpu_ns = first_ns.map_or(0, |first| cpu_ns() - first);
    Ok(Echoed { messages: count, cpu_ns, softirq_cpu: socket.softirq_cpu() })
}
