//! What a session may have served here: what this plumb has a far end of, within the domains of its
//! parameters. How many cases and facts an order has is bounded by its frame; memory that it takes
//! beyond what is there costs its worker, which the kernel ends first.

use crate::params::fits;
use bench::experiment::{AnyExperiment, Param, Role};
use bench::link::RoundOrder;

/// Checks an order against the catalogue. Errors: why it is not served here.
pub fn check(
    order: &RoundOrder,
    experiment: Option<&'static dyn AnyExperiment>,
) -> Result<(), String> {
    let series = &order.series;
    let id = &series.experiment;
    let Some(experiment) = experiment else {
        return Err(format!("the agent's plumb has no experiment `{id}`"));
    };
    if !experiment.two_ended() {
        return Err(format!("{id} has no far end"));
    }
    if series.cases.is_empty() {
        return Err(format!("{id}: 0 cases"));
    }
    let settings = series.settings.iter().map(|(name, value)| (Role::Setting, name, value));
    let cases = series.cases.iter().flat_map(|case| &case.id.0);
    let cases = cases.map(|(name, value)| (Role::Case, name, value));
    for (role, name, value) in settings.chain(cases) {
        let is_it = |param: &&Param| param.name == name && param.role == role;
        let Some(param) = experiment.card().params.iter().find(is_it) else {
            return Err(format!("the agent's version of {id} has no parameter `{name}`"));
        };
        // A setting may be left to the experiment.
        let is_auto = value.text() == Some("auto") && param.defaults.contains(&"auto");
        if !fits(value, &param.domain) && !is_auto {
            return Err(format!("{id}: `{name}={value}` is out of range"));
        }
    }
    Ok(())
}
