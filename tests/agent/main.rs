//! The built binary as agent and as session, on this host: who is served,
//! ends that die or are silent, and the ways by which an agent is reached. Figures mean nothing here;
//! who gets in, what is refused with which words, what ends, and what goes on are real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod admission;
mod deaths;
mod lab;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod relay;
mod resume;
#[path = "../harness/sshd.rs"]
mod sshd;
mod unprivileged;
mod ways;
