//! Figures of a published machine beside the nearest ones of a run, which are not the same
//! measurement: they stand side by side and are never judged.

use super::Measured;
use super::join::usable;
use crate::figure::Figure;
use record::key::Value;
use std::collections::HashMap;

/// A published figure and the nearest one of ours.
#[derive(Clone, Copy, Debug)]
pub struct Near<'a> {
    /// What the report prints.
    pub published: &'a Figure,
    /// What is nearest.
    pub figure: &'a Figure,
}

impl<'a> Near<'a> {
    /// How the report's method differs, as a clause without its subject.
    pub fn differs(&self) -> &'a str {
        text(self.published, "nearest_differs").unwrap_or_default()
    }

    /// Where that moves the printed figure: `up`, `down` or `either way`.
    pub fn moves(&self) -> &'a str {
        text(self.published, "nearest_moves").unwrap_or("either way")
    }

    /// The figure as the report prints it.
    pub fn printed(&self) -> &'a str {
        text(self.published, "printed").unwrap_or_default()
    }
}

/// Pairs of two runs; none unless one of them alone is a published machine.
pub(super) fn nearest<'a>(base: &'a Measured, new: &'a Measured) -> Vec<Near<'a>> {
    let (published, own) = match [base, new].map(|one| one.run.header.is_published()) {
        [true, false] => (base, new),
        [false, true] => (new, base),
        _ => return Vec::new(),
    };
    let usable_own = own.figures.iter().filter(|figure| usable(figure).is_some());
    let own: HashMap<String, &Figure> =
        usable_own.filter_map(|figure| Some((figure.key()?.to_string(), figure))).collect();
    let near = |published: &'a Figure| {
        let own = *own.get(text(published, "nearest")?)?;
        (own.key() != published.key()).then_some(Near { published, figure: own })
    };
    published.figures.iter().filter_map(near).collect()
}

fn text<'a>(figure: &'a Figure, name: &str) -> Option<&'a str> {
    figure.at.get(name).and_then(Value::text)
}
