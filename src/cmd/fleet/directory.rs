//! Directories of nodes' files for the commands that show them.

use crate::cmd::{Failure, output, usage};
use catalogue::FAMILIES;
use fleet::hosts::List;
use fleet::names::Titles;
use fleet::read::{Fleet, read};
use record::key::Key;
use std::path::{Path, PathBuf};

/// The files of a sweep, and the hosts that should have one.
#[derive(clap::Args)]
pub struct Directory {
    /// Directory with the nodes' files, *.jsonl
    dir: PathBuf,
    /// The list of hosts, where none of the first nodes left a file to name those without one
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
}

impl Directory {
    /// The fleet. Errors: the directory has no file of a sweep.
    pub fn read(&self) -> Result<Fleet, Failure> {
        let list = self.hosts.as_deref().map(list).transpose()?;
        open(&self.dir, list.map(|list| list.hosts))
    }
}

/// The list of hosts in a file. Errors: it cannot be read, or has a line of another form.
pub(super) fn list(path: &Path) -> Result<List, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!("cannot read the list of hosts {shown}: {error}"))
    })?;
    List::parse(&text).map_err(|error| Failure::Usage(format!("{shown}: {error:#}")))
}

/// A directory's fleet; what is wrong with its files is reported. Errors: it has none.
pub(super) fn open(dir: &Path, hosts: Option<Vec<String>>) -> Result<Fleet, Failure> {
    let fleet = read(dir, hosts).map_err(usage)?;
    if fleet.nodes.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has only steps of suspects; name the directory that has the sweep itself",
            dir.display()
        )));
    }
    for note in &fleet.notes {
        output::diagnose(&format!("plumb fleet: {note}"));
    }
    Ok(fleet)
}

/// What the figures of some sweeps are called: as the cards' key figures, where they are some.
pub(super) fn titles<'fleet>(fleets: impl IntoIterator<Item = &'fleet Fleet>) -> Titles {
    let keys = fleets.into_iter().flat_map(|fleet| fleet.figures.iter().map(|about| &about.key));
    Titles::from_keys(keys, card)
}

/// The place of a key figure among those of all cards, and what its card calls it.
fn card(key: &Key) -> Option<(usize, String)> {
    let cards = FAMILIES.iter().flat_map(|family| family.experiments).map(|one| one.card());
    let figures = cards.flat_map(|card| card.keys.iter().map(move |figure| (card.id, figure)));
    let mut places = figures.enumerate();
    let (place, (_, figure)) = places.find(|(_, (id, figure))| {
        *id == key.experiment && figure.metric == key.metric && figure.is_of(&key.case)
    })?;
    Some((place, format!("{} {}", figure.line, figure.name).trim_end().to_owned()))
}
