//! Records of sweeps for the commands that show them.

use crate::cmd::{Failure, stored, usage};
use catalogue::FAMILIES;
use fleet::read::{Sweep, read};
use fleet::report::names::Titles;
use record::key::Key;
use session::store::file;
use std::path::Path;

/// The sweep of a record; what is damaged in it is reported.
/// Errors: there is no such file, or it is no record of a sweep.
pub(super) fn open(path: &Path) -> Result<Sweep, Failure> {
    let file = file::reader(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot open {}: {error}; name the record of a sweep, which `plumb fleet run` and \
             `plumb fleet node` of rank 0 write",
            path.display()
        ))
    })?;
    let sweep =
        read(file).map_err(|error| usage(anyhow::anyhow!("{}: {error}", path.display())))?;
    stored::report_damage(path, &sweep.damaged);
    Ok(sweep)
}

/// What the figures of some sweeps are called: as the cards' key figures, where they are some.
pub(super) fn titles<'sweep>(sweeps: impl IntoIterator<Item = &'sweep Sweep>) -> Titles {
    let keys = sweeps.into_iter().flat_map(|sweep| {
        let figures = sweep.figures.iter().map(|figure| &figure.key);
        figures.chain(sweep.pairs.iter().map(|pair| &pair.key))
    });
    Titles::of(keys, card)
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
