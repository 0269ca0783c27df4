//! What each preset takes of an experiment's parameters at a site, from the cases that it offers
//! there.

use bench::experiment::{
    AnyExperiment, Domain, FAR, LOOPBACK, Param, Params, Preset, Role, Site, Unit,
};
use record::key::Value;
use record::order::InOrder;
use record::quantity::render_bytes;

use crate::params::Settings;

/// So many numbers are listed; of more the first and the last are.
const LISTED: usize = 12;

/// The values of each parameter in a preset, as a user would type them; none where it has no case
/// with it here.
pub fn of_preset(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
) -> Vec<(&'static Param, Option<String>)> {
    let params = Settings::default().params(experiment.card(), preset);
    let offer = experiment.series(site, &params).unwrap_or_default();
    let text = |param: &'static Param| {
        let values = values(param, &params, &offer);
        (param, (!values.is_empty()).then(|| listed(&values, param)))
    };
    experiment.card().params.iter().map(text).collect()
}

/// The values of each parameter in quick, standard and thorough.
pub fn defaults(
    experiment: &dyn AnyExperiment,
    site: &Site,
) -> Vec<(&'static Param, [Option<String>; 3])> {
    let [quick, standard, thorough] = [Preset::Quick, Preset::Standard, Preset::Thorough]
        .map(|preset| of_preset(experiment, site, preset));
    let later = standard.into_iter().zip(thorough);
    let all = quick.into_iter().zip(later);
    all.map(|((param, quick), ((_, standard), (_, thorough)))| (param, [quick, standard, thorough]))
        .collect()
}

/// The distinct values, in the order of the cases.
fn values(param: &Param, params: &Params, offer: &bench::experiment::Offer) -> Vec<Value> {
    let stated = params.chosen(param.name).unwrap_or_default().to_vec();
    if param.name == FAR {
        return vec![LOOPBACK.into()];
    }
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    let skipped = offer.skipped.iter().map(|(id, _)| id);
    let ids = cases.map(|case| &case.id).chain(skipped);
    let settings = offer.series.iter().map(|series| &series.settings);
    let found: Vec<&Value> = match param.role {
        Role::Case => ids.filter_map(|id| id.get(param.name)).collect(),
        Role::Setting => settings.filter_map(|all| all.get(param.name)).collect(),
    };
    let mut distinct: Vec<Value> = Vec::new();
    for value in found {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    if distinct.iter().all(|value| value.int().is_some()) {
        distinct.order();
    }
    match (distinct.is_empty(), param.role) {
        (false, _) => distinct,
        // A setting that no series has, because the machine decides it later.
        (true, Role::Setting) => params.get(param.name).to_vec(),
        (true, Role::Case) => stated,
    }
}

fn listed(values: &[Value], param: &Param) -> String {
    let text = |value: &Value| match (value, param.domain.unit()) {
        (Value::Int(bytes), Some(Unit::B)) => exact_bytes(*bytes),
        (Value::Int(ns), Some(Unit::Ns)) => {
            let time = std::time::Duration::from_nanos(*ns);
            humantime::format_duration(time).to_string()
        }
        _ => value.to_string(),
    };
    let is_all = matches!(param.domain, Domain::Symbols(all) if all.len() == values.len());
    match values {
        _ if is_all && values.len() > 2 => "all".to_owned(),
        [first @ Value::Int(_), .., last] if values.len() > LISTED => {
            format!("{} values from {} to {}", values.len(), text(first), text(last))
        }
        _ => values.iter().map(text).collect::<Vec<_>>().join(","),
    }
}

/// A size as a user would type it.
fn exact_bytes(bytes: u64) -> String {
    let unit =
        [1 << 40, 1 << 30, 1 << 20, 1 << 10].into_iter().find(|unit| bytes.is_multiple_of(*unit));
    match unit.filter(|_| bytes > 0) {
        Some(_) => render_bytes(bytes as f64).replace(' ', ""),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::defaults;
    use bench::experiment::fixtures::recorded;

    #[test]
    fn what_the_machine_decides_is_told_by_its_cases() {
        let site = recorded("vm-granite-rapids");
        let experiment = catalogue::find("os.signal").expect("in the catalogue");
        let all = defaults(experiment, &site);
        let [quick, standard, thorough] = &all[0].1;
        assert_eq!(quick.as_deref(), Some("install,catch,self_kill,fault"));
        assert_eq!(standard, thorough);
        let levels = catalogue::find("memory.latency").expect("in the catalogue");
        let all = defaults(levels, &site);
        let footprint = all.iter().find(|(param, _)| param.name == "footprint");
        let [quick, ..] = &footprint.expect("a parameter").1;
        assert!(quick.as_ref().is_some_and(|text| text != "auto"), "{quick:?}");
        let pool = defaults(catalogue::find("os.syscall").expect("there"), &site);
        assert_eq!(pool[1].1[0].as_deref(), Some("64"));
    }
}
