//! What is wrong with figures that others published.

use super::{Finding, Named, Severity};
use crate::figure::Figure;
use crate::gather::gathered;
use record::key::Value;

pub(super) fn findings(figures: &[Figure], named: &Named) -> Vec<Finding> {
    let slips = figures.iter().filter_map(|figure| {
        let slip = figure.at.get("slip").and_then(Value::text)?;
        Some(((figure.experiment.as_str(), slip), figure))
    });
    let found = gathered(slips).into_iter().map(|((experiment, slip), figures)| {
        let text = format!("{}: {slip}", named.listed(&figures));
        Finding::new(Severity::Warning, "slip", text).about(experiment)
    });
    found.collect()
}
