//! The way from a node to its parent.

use crate::wire::{Down, FRAME_BYTES_MAX, Hello, Up};
use anyhow::{Context, Error, Result, anyhow};
use session::agent::channel::{Channel, Lost};
use session::agent::handshake::Refusal;
use session::agent::key::Key;
use session::agent::message::printable;
use session::agent::reach;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A node that is let in hears it in this time.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Rank 0, or a parent, does not let this node in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotLetIn(pub String);

/// What became of a connection.
pub enum Joined {
    /// It takes part over this connection, in the sweep of this name and generation.
    Here(Box<Channel>, String, u64),
    /// It is to connect to its parent: its rank and where it listens.
    Move(u32, std::net::SocketAddr),
    /// It tries again after this time.
    Later(Duration),
}

/// Connects, and says hello as `hello` makes it for this end's address. Errors: [`NotLetIn`] where
/// trying again is of no use; the other end cannot be reached, or does not answer; interrupted.
pub fn join(
    (host, port): (&str, u16),
    key: &Key,
    hello: impl FnOnce(IpAddr) -> Hello,
    stop: &AtomicBool,
) -> Result<Joined> {
    let listens = |_| "plumb fleet node --rank 0".to_owned();
    let stream = reach::tcp(host, port, &listens, stop)?;
    let here = stream.local_addr().context("no own address")?.ip().to_canonical();
    let mut channel = Channel::over_tcp(stream, key, stop).map_err(refused)?;
    channel.set_limit(FRAME_BYTES_MAX);
    channel.send(&Up::Hello(Box::new(hello(here))), stop)?;
    let deadline = Instant::now() + ANSWER_TIME;
    loop {
        let heard: Option<Down> = channel.receive(deadline, stop)?;
        match heard.with_context(|| format!("{host}:{port} does not answer"))? {
            Down::Ping => channel.send(&Up::Pong { wall_s: super::wall_s() }, stop)?,
            Down::Refused { why } => return Err(NotLetIn(printable(&why)).into()),
            Down::Later { after_s } => {
                let after = Duration::try_from_secs_f64(after_s).unwrap_or_default();
                return Ok(Joined::Later(after.min(ANSWER_TIME)));
            }
            Down::Welcome { sweep, generation } => {
                return Ok(Joined::Here(Box::new(channel), sweep, generation));
            }
            Down::Move { to, at, .. } => return Ok(Joined::Move(to, at)),
            // Orders of before that were meant for this rank.
            Down::Orders(_) => {}
        }
    }
}

/// Why a handshake failed: another version or something that is no plumb stays so.
fn refused(error: Error) -> Error {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => NotLetIn(refusal.to_string()).into(),
        None => error,
    }
}

/// Whether the other end closed the connection during the handshake.
pub fn is_closed(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(Lost::Closed))
}

/// The sentence for a node whose handshakes are all closed.
pub fn other_secret(meet: &str) -> Error {
    anyhow!(
        "{meet} closes the connection during the handshake: this node has another secret, or \
         something else listens there; the output of rank 0 gives the reason"
    )
}
