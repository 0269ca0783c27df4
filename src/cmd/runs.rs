//! `plumb runs`: what is stored here.

use crate::cmd::{Failure, output};
use crate::store::{self, Store};
use record::event::End;

/// Lists the stored runs, oldest first.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> Result<(), Failure> {
    let store = Store::here();
    let names = store.names()?;
    let mut text = String::new();
    for name in &names {
        let about = match store::read(&store.path(name)) {
            Ok(recording) => {
                let run = recording.run;
                let end = match run.footer.as_ref().map(|footer| footer.end) {
                    Some(End::Complete) => "complete",
                    Some(End::Budget) => "ended by its budget",
                    Some(End::Interrupted) => "interrupted; resumable",
                    None => "killed or under way; resumable",
                };
                format!(
                    "{:<9} {} rounds, {end}",
                    run.header.options.preset,
                    run.rounds.len()
                )
            }
            Err(error) => format!("{error:#}"),
        };
        text.push_str(&format!("{name}  {about}\n"));
    }
    if names.is_empty() {
        output::diagnose("plumb: no run is stored yet; `plumb run` makes one");
    }
    Ok(output::print(&text)?)
}
