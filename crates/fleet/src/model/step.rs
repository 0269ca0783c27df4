//! A step of suspects, ready to be looked up.

use super::first::between;
use super::signed;
use crate::fit::Between;
use crate::read::{Fleet, NodeFile};
use std::collections::{BTreeMap, HashMap};

pub(super) struct Step {
    /// The logarithm by figure and node, more is worse.
    pub alone: HashMap<(usize, usize), f64>,
    between: BTreeMap<usize, Vec<Between>>,
}

impl Step {
    pub fn all(fleet: &Fleet) -> Vec<Step> {
        fleet.steps.iter().map(|files| Step::new(fleet, files)).collect()
    }

    pub fn pairs(&self, figure: usize) -> &[Between] {
        self.between.get(&figure).map_or(&[], Vec::as_slice)
    }

    fn new(fleet: &Fleet, files: &[NodeFile]) -> Step {
        let places = fleet.places();
        let mut alone = HashMap::new();
        for file in files {
            let Some(node) = places.get(file.header.host.as_str()) else { continue };
            for value in &file.values {
                if let Some(x) = signed(value.value, fleet.figures[value.figure].better) {
                    alone.insert((value.figure, *node), x);
                }
            }
        }
        Step { alone, between: between(fleet, files, |_| true) }
    }
}
