//! plumb measures what the operations of a machine cost, predicts every figure before it measures
//! it, and writes the result as a lab report.
#![forbid(unsafe_code)]

mod agent;
mod analysis;
mod cmd;
mod crosscheck;
mod experiment;
mod experiments;
#[expect(
    dead_code,
    reason = "facts are read whole; experiments to come use more"
)]
mod host;
mod link;
mod measure;
mod predict;
mod published;
mod report;
mod session;
mod stats;
mod store;

fn main() -> std::process::ExitCode {
    cmd::main()
}
