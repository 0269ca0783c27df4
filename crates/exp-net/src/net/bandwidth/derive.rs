//! What cases should give, and what their figures are compared with.

use super::both::is_rate;
use super::combinations::streams_all;
use super::shape::{self, Transfer};
use crate::net::place::SAME_CPU;
use bench::experiment::{DerivedValue, FAR, Known, Site, bounded, unknown};
use laws::Law;
use laws::net::Transport;
use laws::net::bandwidth::{self as law, Flow};
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};

/// The flow of a case, resolved or not.
fn flow(site: &Site, case: &Case) -> Option<Flow> {
    let streams = case.id.get("streams")?;
    Some(Flow {
        transport: match case.text("protocol")? {
            "udp" => Transport::Udp,
            _ => Transport::Tcp,
        },
        message: case.id.int("message")?,
        is_same_cpu: case.text("ends")? == SAME_CPU,
        streams: streams.int().unwrap_or_else(|| streams_all(site)),
        is_up: case.text("direction")? == "up",
        transfer: match shape::transfer(case.text("transfer")?)? {
            Transfer::Steady => law::Transfer::Steady,
            Transfer::Fixed(bytes) => law::Transfer::Fixed(bytes),
            Transfer::ThereAndBack => law::Transfer::ThereAndBack,
            Transfer::AlreadyThere => law::Transfer::AlreadyThere,
        },
        interval_ns: case.at.get("interval_ns").and_then(Value::int).unwrap_or(0),
    })
}

/// Why a case has no such figure.
fn untold(flow: &Flow, metric: &str) -> Option<&'static str> {
    use law::Transfer::{AlreadyThere, Steady};
    let is_udp = flow.transport == Transport::Udp;
    match (metric, flow.transfer) {
        ("copy_rate", AlreadyThere) => None,
        ("copy_rate", _) => Some("of a message that is there already only"),
        (_, AlreadyThere) => Some("of a copy only its rate is told"),
        ("transfer_time", Steady) => Some("a steady stream has no end"),
        ("burst", Steady) | ("transfer_time" | "bandwidth" | "peak", _) => None,
        (name, _) if name.contains("cpu") => None,
        ("loss" | "loss_sender" | "loss_path" | "loss_receiver", Steady) if is_udp => None,
        (name, _) if name.starts_with("loss") => Some("of steady datagrams only"),
        ("efficiency", Steady) => None,
        (_, Steady) if !is_udp => None,
        _ => Some("of steady streams only"),
    }
}

/// The prediction of a metric of a case.
pub(super) fn predict(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &str,
) -> Option<Prediction> {
    let told = |why: &str| known.is_none().then(|| unknown(format!("unknown: {why}")));
    let Some(flow) = flow(site, case) else {
        return told("no such case");
    };
    if let Some(why) = untold(&flow, metric) {
        return told(why);
    }
    if flow.transfer == law::Transfer::Steady
        && matches!(metric, "bandwidth" | "burst")
        && is_rate(case) != (metric == "bandwidth")
    {
        return told("the window decides whether it is a rate or a burst");
    }
    if metric == "efficiency" {
        return match known {
            None => law::efficiency(site, &flow).map(Law::prediction),
            Some(_) => None,
        };
    }
    if let Some(estimate) = law::share(site, &flow, metric) {
        return known.is_none().then(|| estimate.prediction());
    }
    if known.is_some_and(|known| !law::adds(site, known)) {
        return None;
    }
    let near_sends = flow.is_up;
    let estimate = match metric {
        "bandwidth" | "burst" => law::bandwidth(site, known, &flow),
        "peak" => law::peak(site, known, &flow),
        "transfer_time" => law::transfer_time(site, known, &flow),
        "copy_rate" => law::copies(site, known, &flow),
        "cpu_near" => law::byte_cpu(site, known, &flow, near_sends),
        "cpu_far" => law::byte_cpu(site, known, &flow, !near_sends),
        "message_cpu_near" => law::message_cpu(site, known, &flow, near_sends),
        "message_cpu_far" => law::message_cpu(site, known, &flow, !near_sends),
        _ => return told("no such figure"),
    };
    let prediction = estimate.prediction();
    let bound = match metric {
        "bandwidth" => law::bound(site, &flow),
        _ => None,
    };
    Some(match bound {
        Some(bound) => bounded(prediction, bound),
        None => prediction,
    })
}

/// Steady transfers that there is something to compare with.
pub(super) fn derivable(site: &Site, series: &[Series]) -> Vec<CaseId> {
    let cases = series.iter().flat_map(|series| &series.cases);
    let comparable = |case: &&Case| {
        flow(site, case).is_some_and(|flow| {
            flow.transfer == law::Transfer::Steady && law::efficiency(site, &flow).is_some()
        })
    };
    cases.filter(comparable).map(|case| case.id.clone()).collect()
}

/// Efficiencies of all far ends' steady transfers.
pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let of_case = |(id, rate): (&CaseId, f64)| {
        let there = site.toward(id.text(FAR)?);
        let case = Case::new(id.clone());
        let flow = flow(&there, &case)?;
        if flow.transfer != law::Transfer::Steady {
            return None;
        }
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
