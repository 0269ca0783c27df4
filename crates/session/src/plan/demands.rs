//! What a user chose must show in some case; else one line says what there is.

use super::Planned;
use crate::params::{RANGE_MOST, Settings};
use crate::select::Selection;
use crate::setup::Usage;
use bench::experiment::{Card, FAR, Family, LOOPBACK, Params, Role, Site, Skip};
use record::event::PlannedExperiment;
use record::key::{CaseId, Value};
use record::order::Gather;
use std::collections::BTreeSet;

/// An experiment has at most so many cases as a range has values: those that it has, or what is
/// chosen of its parameters asks for. Errors: more, with the way out.
pub(super) fn demand_few(card: &Card, params: &Params, cases: Option<usize>) -> Result<(), Usage> {
    let of_cases = card.params.iter().filter(|param| param.role == Role::Case);
    let chosen = of_cases.filter_map(|param| Some((param.name, params.chosen(param.name)?.len())));
    let chosen: Vec<(&str, usize)> = chosen.filter(|(_, values)| *values > 1).collect();
    let product = || chosen.iter().fold(1, |all: usize, (_, values)| all.saturating_mul(*values));
    let cases = cases.unwrap_or_else(product);
    if cases <= RANGE_MOST {
        return Ok(());
    }
    let values = chosen.iter().map(|(name, values)| format!("{name} has {values} values"));
    Err(Usage(format!(
        "{} would have {cases} cases, where {RANGE_MOST} are the most: {}; give fewer with --set \
         {}.PARAM=VALUES (a range takes a step: low..high/step)",
        card.id,
        values.collect::<Vec<_>>().join(", "),
        card.id
    )))
}

impl Planned {
    /// Skips what selectors that may find nothing have not found, with the reason; nothing where the
    /// whole experiment is skipped.
    pub(super) fn skip_unmet(
        &mut self,
        selection: &Selection,
        family: &Family,
        card: &'static Card,
        entry: &PlannedExperiment,
        site: &Site,
    ) {
        let own = self.skipped.iter().filter(|(of, ..)| of.id == card.id);
        if own.clone().any(|(_, case, _)| case.is_none()) {
            return;
        }
        let measured = entry.series.iter().flat_map(|series| &series.cases);
        let skipped = own.filter_map(|(_, case, _)| case.as_ref());
        let cases: Vec<CaseId> = measured.chain(&entry.derived).chain(skipped).cloned().collect();
        for case in selection.unmet(family, card, cases.iter()) {
            let is_afar = case.text(FAR).is_some_and(|far| far != LOOPBACK);
            let skip = match is_afar && site.peers.is_empty() {
                true => Skip::because("no far end on another host").needs("--peer ssh://HOST"),
                false => Skip::because("this preset has no such case on this machine")
                    .needs(format!("`plumb plan {}`, which shows those that there are", card.id)),
            };
            self.skipped.push((card, Some(case), skip));
        }
    }

    /// A value that was set is one of some case, measured or skipped, or nothing would show that it
    /// had no effect: the choices contradict each other, or the parameter belongs to none of the
    /// cases.
    pub(super) fn demand_set(
        &self,
        card: &Card,
        settings: &Settings,
        entry: &PlannedExperiment,
    ) -> Result<(), Usage> {
        let of_card = self.skipped.iter().filter(|(of, ..)| of.id == card.id);
        if entry.skipped.is_some() || of_card.clone().any(|(_, case, _)| case.is_none()) {
            return Ok(());
        }
        let skipped = of_card.filter_map(|(_, case, _)| case.as_ref());
        let cases = entry.series.iter().flat_map(|series| &series.cases);
        let all: Vec<&CaseId> = cases.chain(skipped).collect();
        let is_case = |name: &str| {
            let mut params = card.params.iter();
            name != FAR && params.any(|param| param.name == name && param.role == Role::Case)
        };
        for (name, values) in settings.set_of(card.id).filter(|(name, _)| is_case(name)) {
            let found: BTreeSet<Option<&Value>> = all.iter().map(|case| case.get(name)).gather();
            // Some experiments leave `none` out of the identity.
            let is_absent = |value: &Value| value.text() == Some("none") && found.contains(&None);
            let has = |value: &Value| found.contains(&Some(value)) || is_absent(value);
            let auto = Value::from("auto");
            let missing = values.iter().find(|value| **value != auto && !has(value));
            if let Some(value) = missing {
                let found: BTreeSet<String> =
                    found.iter().flatten().map(ToString::to_string).gather();
                let found: Vec<String> = found.into_iter().collect();
                return Err(Usage(format!(
                    "no case of {} has {name}={value} together with the other choices: {}",
                    card.id,
                    match found.is_empty() {
                        true => format!("none of its {} cases has `{name}`", all.len()),
                        false => format!("its cases have {}", found.join(", ")),
                    }
                )));
            }
        }
        Ok(())
    }
}
