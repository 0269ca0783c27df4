//! Nodes of another host: an agent there has workers that serve the far ends of rounds.
//!
//! A session reaches an agent over TCP, or over the standard input and output of a process that it
//! had started elsewhere. Both begin with a plain hello ([`handshake`]), which distinguishes
//! versions. Over TCP follows a Noise handshake with a shared key ([`key`]), after which all is
//! sealed ([`seal`]); what starts processes elsewhere (ssh) authenticates and encrypts itself. What
//! is said are messages ([`message`]) in a channel ([`crate::node::channel`]) with limits of size
//! and time. One [`acceptor`] lets sessions in, whichever way they come.
//!
//! The agent has one thread. During a round it waits in one poll(2) for the session and for its
//! worker.

pub mod acceptor;
mod check;
pub mod client;
pub mod clock;
mod connection;
pub mod handshake;
pub mod key;
pub mod message;
pub mod options;
pub mod reach;
pub mod seal;
mod server;
pub(crate) mod ssh;
pub mod url;

pub use connection::Reach;

#[cfg(test)]
pub mod tests;

/// Longest frame of an agent before it has let a session in, in bytes: its facts about its host.
const FACTS_BYTES_MAX: usize = 4 << 20;
/// And after that, in bytes: what a far end says of a round.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Longest frame of one that has the key and was not let in yet, in bytes.
const FIRST_BYTES_MAX: usize = 64 << 10;
/// Longest frame of a session that was let in, in bytes: an order of many cases.
const ORDER_BYTES_MAX: usize = 16 << 20;
