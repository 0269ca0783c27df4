//! Which cases there are, and how many connections each may make.

use super::sources::most_in_round;
use super::{BACKLOG, Connect};
use bench::experiment::contract::one_series;
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use host::ports::Ports;
use laws::net::Ends;
use laws::net::connect::{Closer, Connections, Listener};
use record::case::Case;
use record::key::Value;

/// Fewer connections of a case in a round make no figure.
const CONNECTIONS_MIN: u64 = 6;
/// Connections of a case in a round by preset, those of the warm-up not among them.
const CONNECTIONS: [(Preset, u64); 4] = [
    (Preset::Rehearsal, CONNECTIONS_MIN),
    (Preset::Quick, 200),
    (Preset::Standard, 500),
    (Preset::Thorough, 2000),
];
/// Time that the connections of a case may take, in times of a case, by preset: cases over loopback
/// need about half of that, and cases to a peer get fewer connections.
const WINDOW_CASES: [(Preset, u64); 4] =
    [(Preset::Rehearsal, 50), (Preset::Quick, 2), (Preset::Standard, 6), (Preset::Thorough, 20)];
/// A warm-up takes at most this part of what a case may make.
const WARM_UP_PART: u64 = 3;
/// In a rehearsal it is as short as everything.
const WARM_UP_REHEARSAL: u64 = 2;
/// Linux's default `somaxconn` before version 5.4.
const QUEUE_DEFAULT: u64 = 128;
/// Connections that a full queue has: few, because each takes a system call.
pub(super) const FULL_BACKLOG: u64 = 8;

pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Connections> {
    let present = Ends::present(site);
    let farthest = present.last().copied();
    let is_whole = preset == Preset::Thorough;
    let closers = if is_whole { Closer::ALL } else { &[Closer::Client] };
    let ready =
        present.into_iter().filter(|ends| preset != Preset::Quick || Some(*ends) == farthest);
    let listener = Listener::Ready;
    let mut cases: Vec<Connections> = ready
        .flat_map(|ends| {
            closers.iter().map(move |closer| Connections { ends, listener, closer: Some(*closer) })
        })
        .collect();
    for listener in [Listener::Full, Listener::Refusing].into_iter().filter(|_| is_whole) {
        cases.extend(farthest.map(|ends| Connections { ends, listener, closer: None }));
    }
    cases
}

pub(super) fn offer(site: &Site, cases: Vec<Connections>, params: &Params) -> Result<Offer, Skip> {
    let mut offer = one_series::<Connect>(site, cases, params);
    for series in &mut offer.series {
        // As the runs before this one have it.
        series.settings.entry("connections".to_owned()).or_insert_with(|| "auto".into());
        let counts = counts(site, params, series.cases.len() as u64)?;
        for case in &mut series.cases {
            let of_case = counts.into_iter().chain(of_case(site, params, case));
            case.at.extend(of_case.map(|(name, count)| (name.to_owned(), Value::Int(count))));
        }
    }
    offer.or_reason()
}

/// How many connections each of so many cases may make.
fn counts(site: &Site, params: &Params, cases: u64) -> Result<[(&'static str, u64); 5], Skip> {
    let ports = &site.host.net.ports;
    let is_remote = site.peer.is_some();
    let rounds = params.preset.looks().last().copied().unwrap_or(1);
    let in_round = most_in_round(ports, is_remote, rounds);
    let each = in_round / cases.max(1);
    let auto = by_preset(&CONNECTIONS, params.preset);
    let asked = params.ints("connections").first().copied().unwrap_or(auto);
    let warm_up_asked = match params.ints("warm_up").first().copied() {
        Some(count) if params.preset != Preset::Rehearsal => count,
        _ => WARM_UP_REHEARSAL,
    };
    let warm_up = warm_up_asked.min(each / WARM_UP_PART);
    let connections = asked.min(each - warm_up);
    if connections < CONNECTIONS_MIN.min(asked) {
        return Err(few(ports, is_remote, rounds, cases));
    }
    Ok([
        ("connections", connections),
        ("warm_up", warm_up),
        ("connections_asked", asked),
        ("warm_up_asked", warm_up_asked),
        ("most_in_round", in_round),
    ])
}

/// What else bounds a case's connections, as far as it is known.
fn of_case(
    site: &Site,
    params: &Params,
    case: &Case,
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let far = site.peer.as_ref().map_or(&site.host, |peer| &peer.host);
    let queue_max = far.net.ports.queue_max;
    let asked = match case.text("listener") == Some(Listener::Full.text()) {
        true => FULL_BACKLOG,
        false => params.ints("backlog").first().copied().unwrap_or(BACKLOG),
    };
    let ports = &site.host.net.ports;
    let all = [
        ("window_ns", Some(site.case_ns * by_preset(&WINDOW_CASES, params.preset))),
        ("ports", Some(ports.usable())),
        ("backlog", Some(asked.min(queue_max.unwrap_or(QUEUE_DEFAULT)))),
        ("somaxconn", queue_max),
        ("tw_reuse", ports.time_wait_reuse),
    ];
    all.into_iter().filter_map(|(name, count)| Some((name, count?)))
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
        "half of {what} is too little for {cases} cases in {rounds} rounds: closed connections \
         stay in TIME_WAIT for 60 s"
    ))
    .needs(way_out)
}
