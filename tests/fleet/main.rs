//! The built binary on many hosts: over loopback, and in network namespaces behind one switch, started
//! by a real Slurm, real ssh and launchers. Needs root; scripts/test installs the programs.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cluster;
mod kubernetes;
mod local;
#[expect(dead_code, reason = "the other labs use the rest")]
#[path = "../harness/namespace.rs"]
mod namespace;
mod network;
#[expect(dead_code, reason = "the other binary's tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod slurm;
mod ssh;
#[expect(dead_code, reason = "the agent's tests use the rest")]
#[path = "../harness/sshd.rs"]
mod sshd;
