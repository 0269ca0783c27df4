//! `plumb report`.
use crate::cmd::Failure;
use record::run::Run;

/// Renders a stored run.
#[derive(clap::Args)]
pub struct Args {}

#[derive(Clone, Copy)]
pub enum Render {
    Terminal,
    Html,
    Json,
}

pub fn render(_: &Run, _: Render) -> anyhow::Result<String> {
    Ok(String::new())
}

pub fn run(_: Args) -> Result<(), Failure> {
    Ok(())
}
