//! What cases should give, and what their figures are compared with.

use super::ends::is_rate;
use bench::experiment::contract::Facts;
use bench::experiment::{CaseId, DerivedValue, FAR, Fields, Known, Site, unknown};
use laws::Law;
use laws::net::Protocol;
use laws::net::bandwidth::{self as law, Bytes, Direction, Flow, Transfer};
use record::case::{Case, Series};
use record::event::Prediction;

/// What the law sees of a case, resolved or not.
fn flow(site: &Site, of: &Bytes, at: &Case) -> Flow {
    let interval_ns = at.int("interval_ns").unwrap_or(0);
    Flow { streams: of.streams.at(site), interval_ns, of: of.clone() }
}

/// Why a case has no such figure.
fn untold(of: &Bytes, metric: &str) -> Option<&'static str> {
    use Transfer::{AlreadyThere, Steady};
    let is_udp = of.protocol == Protocol::Udp;
    match (metric, of.transfer) {
        ("copy_rate", AlreadyThere) => None,
        ("copy_rate", _) => Some("unknown: only for transfer=already_there"),
        (_, AlreadyThere) => Some("unknown: transfer=already_there only has a copy rate"),
        ("transfer_time", Steady) => Some("unknown: a steady stream has no transfer time"),
        ("burst", Steady) | ("transfer_time" | "bandwidth" | "peak", _) => None,
        (name, _) if name.contains("cpu") => None,
        ("loss" | "loss_sender" | "loss_path" | "loss_receiver", Steady) if is_udp => None,
        (name, _) if name.starts_with("loss") => {
            Some("unknown: only for steady streams of datagrams")
        }
        ("efficiency", Steady) => None,
        (_, Steady) if !is_udp => None,
        _ => Some("unknown: only for steady streams"),
    }
}

pub(super) fn law(facts: Facts, of: &Bytes, at: &Case, metric: &str) -> Option<Prediction> {
    let is_prior = facts.known.is_none();
    let of_window = matches!(metric, "bandwidth" | "burst") && of.transfer == Transfer::Steady;
    let why = match untold(of, metric) {
        None if of_window && is_rate(of, at) != (metric == "bandwidth") => {
            Some("unknown: the window length decides whether the figure is a rate or a burst")
        }
        why => why,
    };
    if let Some(why) = why {
        return is_prior.then(|| unknown(why));
    }
    let (site, flow) = (facts.site, flow(facts.site, of, at));
    if let Some(share) = law::share(site, &flow, metric) {
        return is_prior.then(|| share.prediction());
    }
    if !is_prior && !law::adds(facts) {
        return None;
    }
    let near_sends = of.direction == Direction::Up;
    let law = match metric {
        "bandwidth" => law::bandwidth(facts, &flow).bounded(law::bound(site, &flow)),
        "burst" => law::bandwidth(facts, &flow),
        "peak" => law::peak(facts, &flow),
        "transfer_time" => law::transfer_time(facts, &flow),
        "copy_rate" => law::copies(facts, &flow),
        "cpu_near" => law::byte_cpu(facts, &flow, near_sends),
        "cpu_far" => law::byte_cpu(facts, &flow, !near_sends),
        "message_cpu_near" => law::message_cpu(facts, &flow, near_sends),
        _ => law::message_cpu(facts, &flow, !near_sends),
    };
    Some(law.prediction())
}

/// The efficiency of a steady transfer, if there is a reference.
pub(super) fn efficiency(facts: Facts, id: &CaseId) -> Option<Prediction> {
    let of = Bytes::of(id).filter(|of| of.transfer == Transfer::Steady)?;
    if facts.known.is_some() {
        return None;
    }
    let flow = flow(facts.site, &of, &Case::new(id.clone()));
    law::efficiency(facts.site, &flow).map(Law::prediction)
}

pub(super) fn derivable(site: &Site, series: &[Series]) -> Vec<CaseId> {
    let ids = series.iter().flat_map(|series| &series.cases).map(|case| &case.id);
    ids.filter(|id| efficiency(Facts::prior(site), id).is_some()).cloned().collect()
}

pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let of_case = |(id, rate): (&CaseId, f64)| {
        let there = site.toward(id.text(FAR)?);
        let of = Bytes::of(id).filter(|of| of.transfer == Transfer::Steady)?;
        let flow = flow(&there, &of, &Case::new(id.clone()));
        let (over, what) = law::measure_of(&there, known, &flow)?;
        let mut value = DerivedValue::new(id.clone(), "efficiency", rate / over);
        value.notes.push(what);
        Some(value)
    };
    ["bandwidth", "burst"]
        .into_iter()
        .flat_map(|metric| values.of("net.bandwidth", metric))
        .filter_map(of_case)
        .collect()
}
