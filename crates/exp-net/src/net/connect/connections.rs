//! Which cases there are, and how many connections each may make.

use super::sources::most_in_round;
use super::talk::Listener;
use super::{BACKLOG, CARD};
use crate::net::place::{self, ONE_THREAD};
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use host::ports::Ports;
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeMap;

/// Fewer connections of a case in a round make no figure.
const CONNECTIONS_MIN: u64 = 6;
/// Connections of a case in a round by preset, those of the warm-up not among them.
const CONNECTIONS: [(Preset, u64); 4] = [
    (Preset::Rehearsal, CONNECTIONS_MIN),
    (Preset::Quick, 200),
    (Preset::Standard, 500),
    (Preset::Thorough, 2000),
];
/// Time that the connections of a case may take, in times of a case, by preset: what is over loopback needs
/// about half of it, what is far away has fewer connections.
const WINDOW_CASES: [(Preset, u64); 4] =
    [(Preset::Rehearsal, 50), (Preset::Quick, 2), (Preset::Standard, 6), (Preset::Thorough, 20)];
/// A warm-up takes at most this part of what a case may make.
const WARM_UP_PART: u64 = 3;
/// In a rehearsal it is as short as everything.
const WARM_UP_REHEARSAL: u64 = 2;
/// Linux' `somaxconn` where nothing is told, before version 5.4.
const QUEUE_DEFAULT: u64 = 128;
/// Connections that a full queue has: few, because each takes a system call.
pub(super) const FULL_BACKLOG: u64 = 8;

/// What would be measured against one far end.
///
/// # Errors
/// There are not enough ports, or what was chosen is not to be had here.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let far = site.far();
    if let Some(chosen) = params.chosen("far")
        && !chosen.iter().any(|value| value.text() == Some(far))
    {
        return Err(Skip::because(format!("the far end {far} was not chosen (net.connect.far)")));
    }
    let mut offer = Offer::default();
    let mut cases = Vec::new();
    for (ends, listener, closer) in points(site, params) {
        let mut id = CaseId::new().with("far", far).with("ends", ends).with("listener", listener);
        if let Some(closer) = closer {
            id = id.with("closer", closer);
        }
        match untold(site, ends, listener) {
            Some(skip) => offer.skipped.push((id, skip)),
            None => cases.push(Case::new(id)),
        }
    }
    if cases.is_empty() {
        let first = offer.skipped.into_iter().next();
        return Err(first.map_or_else(
            || Skip::because(format!("no ends that were chosen exist against {far}")),
            |(_, skip)| skip,
        ));
    }
    let bounds = Bounds::of(site, params, cases.len() as u64)?;
    for case in &mut cases {
        bounds.put(site, params, case);
    }
    let setting = |name: &str| {
        let value = params.get(name).first().cloned();
        Some((name.to_owned(), value?))
    };
    offer.series.push(Series {
        experiment: CARD.id.to_owned(),
        name: String::new(),
        order: Order::Shuffled,
        cases,
        settings: ["connections", "warm_up", "backlog"]
            .into_iter()
            .filter_map(setting)
            .collect::<BTreeMap<_, _>>(),
    });
    Ok(offer)
}

/// Ends, listener and who closes first, as chosen, else as the preset has them.
fn points(site: &Site, params: &Params) -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    let of = |name: &str, all: &[&'static str], auto: &[&'static str]| -> Vec<&'static str> {
        let chosen = params.chosen(name);
        let is_chosen = |symbol: &&&'static str| match chosen {
            Some(values) => values.iter().any(|value| value.text() == Some(**symbol)),
            None => auto.contains(*symbol),
        };
        all.iter().filter(is_chosen).copied().collect()
    };
    let present = place::present(site);
    let farthest = present.last().copied().into_iter().collect::<Vec<_>>();
    let whole = params.preset == Preset::Thorough;
    let short = matches!(params.preset, Preset::Quick);
    let all_ends = of("ends", &present, if short { &farthest } else { &present });
    let listeners = of(
        "listener",
        &["ready", "full", "refusing"],
        if whole { &["ready", "full", "refusing"] } else { &["ready"] },
    );
    let closers = of(
        "closer",
        &["client", "server"],
        if whole { &["client", "server"] } else { &["client"] },
    );
    let mut points = Vec::new();
    for listener in listeners {
        for ends in &all_ends {
            if listener == "ready" {
                points.extend(closers.iter().map(|closer| (*ends, listener, Some(*closer))));
            } else if params.chosen("ends").is_some() || farthest.contains(ends) {
                points.push((*ends, listener, None));
            }
        }
    }
    points
}

/// Why a case is not to be had.
fn untold(_site: &Site, ends: &str, listener: &str) -> Option<Skip> {
    (ends == ONE_THREAD && listener != "ready").then(|| {
        Skip::because(format!(
            "one thread cannot connect while nobody accepts (listener={listener})"
        ))
        .needs("another value of net.connect.ends")
    })
}

/// How many connections the cases of a series may make.
struct Bounds {
    connections: u64,
    warm_up: u64,
    asked: u64,
    warm_up_asked: u64,
    in_round: u64,
}

impl Bounds {
    fn of(site: &Site, params: &Params, cases: u64) -> Result<Bounds, Skip> {
        let ports = &site.host.net.ports;
        let is_remote = site.peer.is_some();
        let rounds = params.preset.looks().last().copied().unwrap_or(1);
        let in_round = most_in_round(ports, is_remote, rounds);
        let each = in_round / cases.max(1);
        let auto = by_preset(&CONNECTIONS, params.preset);
        let asked = params.ints("connections").first().copied().unwrap_or(auto);
        let rehearsal = params.preset == Preset::Rehearsal;
        let warm_up_asked = match params.ints("warm_up").first().copied() {
            Some(count) if !rehearsal => count,
            _ => WARM_UP_REHEARSAL,
        };
        let warm_up = warm_up_asked.min(each / WARM_UP_PART);
        let connections = asked.min(each - warm_up);
        if connections < CONNECTIONS_MIN.min(asked) {
            return Err(few(ports, is_remote, rounds, cases));
        }
        Ok(Bounds { connections, warm_up, asked, warm_up_asked, in_round })
    }

    fn put(&self, site: &Site, params: &Params, case: &mut Case) {
        let far = site.peer.as_ref().map_or(&site.host, |peer| &peer.host);
        let queue_max = far.net.ports.queue_max;
        let asked = match Listener::of(case) {
            Some(Listener::Full) => FULL_BACKLOG,
            _ => params.ints("backlog").first().copied().unwrap_or(BACKLOG),
        };
        let ports = &site.host.net.ports;
        let mut at = |name: &str, value: u64| {
            case.at.insert(name.to_owned(), Value::Int(value));
        };
        at("connections", self.connections);
        at("warm_up", self.warm_up);
        at("connections_asked", self.asked);
        at("warm_up_asked", self.warm_up_asked);
        at("most_in_round", self.in_round);
        at("window_ns", site.case_ns * by_preset(&WINDOW_CASES, params.preset));
        at("ports", ports.usable());
        at("backlog", asked.min(queue_max.unwrap_or(QUEUE_DEFAULT)));
        if let Some(max) = queue_max {
            at("somaxconn", max);
        }
        if let Some(reuse) = ports.time_wait_reuse {
            at("tw_reuse", reuse);
        }
    }
}

fn by_preset(all: &[(Preset, u64)], preset: Preset) -> u64 {
    let found = all.iter().find(|(of, _)| *of == preset);
    found.map_or(0, |(_, value)| *value)
}

fn few(ports: &Ports, is_remote: bool, rounds: u32, cases: u64) -> Skip {
    let (what, way_out) = match is_remote {
        true => (
            format!("{} ports to connect from", ports.usable()),
            "sysctl -w net.ipv4.ip_local_port_range='1024 65535', or fewer cases",
        ),
        false => (
            "the table of connections in TIME_WAIT".to_owned(),
            "sysctl -w net.ipv4.tcp_max_tw_buckets=65536, or fewer cases",
        ),
    };
    Skip::because(format!(
        "half of {what} is too little for {cases} cases in {rounds} rounds: closed connections stay in \
         TIME_WAIT for 60 s"
    ))
    .needs(way_out)
}
