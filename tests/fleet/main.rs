//! The built binary on many hosts: network namespaces behind one switch, started by a real Slurm and
//! by real ssh. Needs root; scripts/test installs the programs.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cluster;
#[path = "../harness/manifest.rs"]
mod manifest;
#[path = "../harness/namespace.rs"]
mod namespace;
mod network;
mod node;
#[expect(dead_code, reason = "the other binary's tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod pods;
mod server;
mod slurm;
mod ssh;
mod time;
