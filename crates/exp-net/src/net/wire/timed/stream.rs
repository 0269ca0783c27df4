//! Both ends of a stream of bytes.

use super::Socket;
use anyhow::{Context, Result};
use metal::socket::Wait;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sends a buffer again and again until it is told to stop; `sent` hears how many bytes were taken
/// so far, `silent` of a call that moved nothing within the socket's time-out.
pub fn push(
    socket: &Socket,
    buffer: &[u8],
    stop: &AtomicBool,
    mut sent: impl FnMut(u64),
    silent: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut bytes = 0;
    while !stop.load(Ordering::Relaxed) {
        match socket.send(buffer).context("sending")? {
            Some(more) => {
                bytes += more as u64;
                sent(bytes);
            }
            None => silent()?,
        }
    }
    Ok(())
}

/// Receives to the end of the stream; `received` hears how many bytes came so far and says how the
/// next call waits, `silent` hears of a call that got nothing within the socket's time-out.
pub fn pull(
    socket: &Socket,
    buffer: &mut [u8],
    mut received: impl FnMut(u64) -> Result<Wait>,
    silent: impl Fn() -> Result<()>,
) -> Result<()> {
    let (mut bytes, mut wait) = (0, Wait::Block);
    loop {
        match socket.receive(buffer, wait).context("receiving")? {
            Some(0) => return Ok(()),
            Some(more) => {
                bytes += more as u64;
                wait = received(bytes)?;
            }
            None => silent()?,
        }
    }
}
