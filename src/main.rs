//! plumb measures what the operations of a machine cost, predicts every figure before it measures
//! it, and writes the result as a lab report.
#![forbid(unsafe_code)]

mod analysis;
mod cmd;
mod experiment;
mod experiments;
mod host;
mod link;
mod measure;
mod predict;
mod report;
mod session;
mod stats;
mod store;

fn main() -> std::process::ExitCode {
    cmd::main()
}
