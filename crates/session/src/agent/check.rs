//! What a session may have served here: what this plumb has a far end of, within the domains of its
//! parameters and what this host has. How many cases, facts and letters an order has is bounded by its
//! frame ([`super::channel::FRAME_BYTES_MAX`]).

use crate::params::fits;
use bench::experiment::{AnyExperiment, Card, Domain, Param, Role, Site};
use bench::link::RoundOrder;
use record::case::Case;
use record::key::Value;
use record::quantity::render_bytes;
use record::unit::Unit;

/// Measuring time of a case, in ns.
const CASE_NS_MAX: u64 = 60_000_000_000;
/// And times that a case resolved to, in ns: some of those measuring times.
const FACT_NS_MAX: u64 = 60 * CASE_NS_MAX;
/// Each of so many streams or connections of a case has a buffer of a message.
const MESSAGE: &str = "message";
const OF_EACH: [&str; 2] = ["streams", "connections"];
/// The CPU of a far end, in what a case resolved to.
const FAR_CPU: &str = "far_cpu";

/// Checks an order against the catalogue and this host. Errors: why it is not served here.
pub fn check(
    order: &RoundOrder,
    experiment: Option<&'static dyn AnyExperiment>,
    site: &Site,
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
    if order.case_ns > CASE_NS_MAX {
        return Err(format!("{id}: {} ns of measuring for a case", order.case_ns));
    }
    let card = experiment.card();
    for (name, value) in &series.settings {
        parameter(card, name, value, Role::Setting, site)?;
    }
    series.cases.iter().try_for_each(|case| in_card(card, case, site))
}

fn in_card(card: &Card, case: &Case, site: &Site) -> Result<(), String> {
    let id = card.id;
    for (name, value) in &case.id.0 {
        parameter(card, name, value, Role::Case, site)?;
    }
    for (name, value) in &case.at {
        let is_size = name.contains("bytes");
        match value {
            Value::Int(bytes) if is_size => within_memory(id, name, *bytes, site)?,
            Value::Int(ns) if name.ends_with("_ns") && *ns > FACT_NS_MAX => {
                return Err(format!("{id}: {name} of {ns} ns"));
            }
            Value::Int(cpu) if name == FAR_CPU => {
                let is_here = usize::try_from(*cpu).is_ok_and(|cpu| site.cpus.contains(&cpu));
                if !is_here {
                    return Err(format!("{id}: the agent may not use CPU {cpu}"));
                }
            }
            // What a symbol or a setting resolved to is one of its values.
            Value::Int(int) if most(card, name).is_some_and(|most| *int > most) => {
                return Err(format!("{id}: `{name}={int}` is out of range"));
            }
            Value::Text(_) | Value::Int(_) => {}
        }
    }
    let count = OF_EACH.iter().filter_map(|name| case.int(name)).max();
    let bytes = case.int(MESSAGE).unwrap_or(0);
    within_memory(id, "buffers", bytes.saturating_mul(count.unwrap_or(1)), site)
}

/// The largest integer of a parameter that has some.
fn most(card: &Card, name: &str) -> Option<u64> {
    let param = card.params.iter().find(|param| param.name == name)?;
    match param.domain {
        Domain::Integer { high, .. } | Domain::Either(_, _, high, _) => Some(high),
        Domain::Symbols(_) | Domain::Text | Domain::Name(_) => None,
    }
}

fn parameter(
    card: &Card,
    name: &str,
    value: &Value,
    role: Role,
    site: &Site,
) -> Result<(), String> {
    let id = card.id;
    let has_name_and_role = |param: &&Param| param.name == name && param.role == role;
    let Some(param) = card.params.iter().find(has_name_and_role) else {
        return Err(format!("the agent's version of {id} has no parameter `{name}`"));
    };
    // A setting may be left to the experiment.
    let is_auto = value.text() == Some("auto") && param.defaults.contains(&"auto");
    if !fits(value, &param.domain) && !is_auto {
        return Err(format!("{id}: `{name}={value}` is out of range"));
    }
    match value {
        Value::Int(bytes) if param.domain.unit() == Some(Unit::B) => {
            within_memory(id, name, *bytes, site)
        }
        Value::Int(_) | Value::Text(_) => Ok(()),
    }
}

fn within_memory(id: &str, name: &str, bytes: u64, site: &Site) -> Result<(), String> {
    if bytes <= site.memory_bytes {
        return Ok(());
    }
    Err(format!(
        "{id}: {name} of {}, but only {} are available on the agent's host",
        render_bytes(bytes as f64),
        render_bytes(site.memory_bytes as f64)
    ))
}
