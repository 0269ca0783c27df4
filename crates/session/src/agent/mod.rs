//! The far end: authentication, listening, standard input and output; serves the rounds of a
//! session.
//!
//! A session reaches an agent over TCP, or over the standard input and output of a process that it
//! had started elsewhere. Both begin with a plain hello ([`handshake`]), which distinguishes
//! versions. Over TCP follows a Noise handshake with a shared key ([`key`]), after which all is
//! sealed ([`seal`]); what starts processes elsewhere (ssh) authenticates and encrypts itself. What
//! is said are messages ([`message`]) in frames ([`frame`]) with a limit of size and of time
//! ([`channel`]).
//!
//! The agent has one thread. During a round it waits in one poll(2) for the session and for its
//! worker.

pub mod admission;
mod answer;
pub mod channel;
mod check;
pub mod client;
pub mod clock;
mod connection;
pub mod frame;
pub mod handshake;
pub mod key;
pub mod listen;
pub mod message;
pub mod options;
mod plain;
pub mod reach;
pub mod seal;
pub mod server;
pub mod ssh;
pub mod stdio;
pub mod url;
pub mod worker_process;

#[cfg(test)]
pub mod tests;
