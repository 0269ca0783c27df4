//! The built binary as agent and as session, on this host: what strangers, the dead and the silent
//! do to either, and the ways by which an agent is reached. Figures mean nothing here; who gets in,
//! what is refused with which words, what ends, and what goes on are real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod deaths;
mod lab;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod relay;
mod resume;
mod ssh;
mod strangers;
mod unprivileged;
mod ways;
