//! Which requests are measured where, and how long that takes.

use super::schedule::Arrivals;
use super::{ID, message};
use crate::net::place::{self, OTHER_CPU, TWO_HOSTS};
use anyhow::{Context, Result};
use bench::experiment::{FAR, Offer, Params, Preset, Site, Skip};
use laws::net::Transport;
use laws::net::request::{Load, Requests, closed_rate};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// The value of `load` for a closed loop.
pub(super) const CLOSED: &str = "closed";
/// A window of requests is so many case times.
const WINDOWS: u64 = 4;
/// The closed loop's, of which shares are taken, is so many.
const CLOSED_WINDOWS: u64 = 2;
/// Eight requests may take so long, or four windows.
const LONGEST_NS: u64 = 2_000_000_000;
/// Two workers, their connections and lines.
const ENDS_NS: u64 = 100_000_000;
/// Connections, warm-up and counts of a case.
const CASE_NS: u64 = 5_000_000;

/// What a case's name says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    /// What carries the requests.
    pub(super) transport: Transport,
    /// Bytes of each.
    pub(super) bytes: usize,
    /// Connections.
    pub(super) connections: usize,
    /// How they come; of a closed loop nothing.
    pub(super) arrivals: Option<Arrivals>,
    /// How many.
    pub(super) load: Load,
}

impl Shape {
    /// Of a case.
    pub(super) fn of(case: &CaseId) -> Option<Shape> {
        let arrivals = match case.text("schedule") {
            Some("poisson") => Some(Arrivals::Poisson),
            Some(_) => Some(Arrivals::Fixed),
            None => None,
        };
        let load = match (case.get("load"), case.int("rate")) {
            (_, Some(rate)) => Load::Rate(rate as f64),
            (Some(Value::Int(percent)), _) => Load::Share(*percent as f64 / 100.0),
            _ => Load::Closed,
        };
        Some(Shape {
            transport: match case.text("protocol")? {
                "udp" => Transport::Udp,
                _ => Transport::Tcp,
            },
            bytes: usize::try_from(case.int("message")?).ok()?,
            connections: usize::try_from(case.int("connections")?).ok()?,
            arrivals,
            load,
        })
    }

    /// As the law wants it.
    pub(super) fn requests(self, window_ns: u64) -> Requests {
        Requests {
            transport: self.transport,
            bytes: self.bytes as u64,
            connections: self.connections as u64,
            load: self.load,
            window_ns: window_ns as f64,
        }
    }

    /// What the closed loop's rate depends on.
    pub(super) fn of_closed(self) -> (bool, usize, usize) {
        let by_datagrams = self.transport == Transport::Udp;
        (by_datagrams, self.bytes, self.connections)
    }
}

/// Time in which requests are sent, in ns: the setting, else of the case time.
pub(super) fn window_ns(series: &Series, case_ns: u64) -> u64 {
    series.setting("time").unwrap_or(WINDOWS * case_ns)
}

/// That of a closed loop of which shares are taken.
pub(super) fn closed_window_ns(case_ns: u64) -> u64 {
    CLOSED_WINDOWS * case_ns
}

/// Time that eight requests may take, in ns.
pub(super) fn longest_ns(window_ns: u64) -> u64 {
    LONGEST_NS.max(4 * window_ns)
}

/// What is measured at a site.
///
/// # Errors
/// Nothing is, and why.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let named = ["protocol", "message", "connections", "schedule", "load", "rate"];
    if params.preset == Preset::Quick && named.iter().all(|name| params.chosen(name).is_none()) {
        return Err(Skip::because("tails and queues need more rounds than quick has")
            .needs("--preset standard, or --set net.request.load=50"));
    }
    let mut offer = Offer::default();
    let ends = match params.chosen("ends") {
        Some(_) => params.texts("ends"),
        None if site.peer.is_some() => vec![TWO_HOSTS],
        None => vec![OTHER_CPU],
    };
    let mut cases = Vec::new();
    for ends in ends {
        match can_be(site, ends) {
            Ok(()) => cases.extend(at(site, params, ends)),
            Err(skip) => {
                let id = CaseId::new().with(FAR, site.far()).with("ends", ends);
                offer.skipped.push((id, skip));
            }
        }
    }
    if cases.is_empty() {
        return Err(match offer.skipped.pop() {
            Some((_, skip)) => skip,
            None => Skip::because("no case is left"),
        });
    }
    let mut settings = std::collections::BTreeMap::new();
    for name in ["timeout", "stall", "time"] {
        if let Some(value) = params.chosen(name).and_then(<[Value]>::first) {
            settings.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(&Value::Int(window)) = settings.get("time") {
        // For the law, which sees cases only.
        for case in &mut cases {
            let window = Value::Int(window);
            case.at.insert("window_ns".to_owned(), window);
        }
    }
    offer.series.push(Series {
        experiment: ID.to_owned(),
        name: String::new(),
        order: Order::Shuffled,
        cases,
        settings,
    });
    Ok(offer)
}

/// Whether a schedule can be kept there: its thread is awake all the time, and needs a CPU that the far end
/// does not.
fn can_be(site: &Site, ends: &str) -> Result<(), Skip> {
    if matches!(ends, OTHER_CPU | TWO_HOSTS) && place::present(site).contains(&ends) {
        return Ok(());
    }
    Err(match (ends, &site.peer) {
        (OTHER_CPU, None) => Skip::because(
            "one CPU: the sender watches the clock all the time, and the far end would not run beside it",
        )
        .needs("a second CPU, allowed and named by --cpu, or a host by --peer"),
        (OTHER_CPU, Some(_)) => Skip::because("a far end on another host has no CPU of this one"),
        (TWO_HOSTS, _) => {
            Skip::because("both ends are on this host").needs("a host by --peer")
        }
        _ => Skip::because(
            "the sender watches the clock all the time: a far end in its thread or on its CPU would not run \
             in time, and its time slices would be measured",
        ),
    })
}

fn at(site: &Site, params: &Params, ends: &str) -> Vec<Case> {
    let is_thorough = params.preset == Preset::Thorough;
    let chosen = |name: &str| params.chosen(name).map(<[Value]>::to_vec);
    let symbols = |of: &[&str]| of.iter().map(|one| Value::from(*one)).collect::<Vec<_>>();
    let counts = |of: &[u64]| of.iter().map(|one| Value::from(*one)).collect::<Vec<_>>();
    let protocols = chosen("protocol").unwrap_or(match is_thorough {
        true => symbols(&["tcp", "udp"]),
        false => symbols(&["tcp"]),
    });
    let messages = chosen("message").unwrap_or(counts(&[64]));
    let connections = chosen("connections").unwrap_or(match is_thorough {
        true => counts(&[1, 4, 16]),
        false => counts(&[4]),
    });
    let schedules = chosen("schedule").unwrap_or(match is_thorough {
        true => symbols(&["fixed", "poisson"]),
        false => symbols(&["fixed"]),
    });
    let rates = chosen("rate").unwrap_or_default();
    let loads = chosen("load").unwrap_or(match params.preset {
        _ if !rates.is_empty() => Vec::new(),
        Preset::Rehearsal => [symbols(&[CLOSED]), counts(&[50])].concat(),
        Preset::Quick | Preset::Standard => [symbols(&[CLOSED]), counts(&[10, 50, 90])].concat(),
        Preset::Thorough => [symbols(&[CLOSED]), counts(&[10, 50, 80, 95, 120])].concat(),
    });
    let named = |name: &'static str| move |value: Value| (name, value);
    let loads = loads.into_iter().map(named("load"));
    let how_many: Vec<_> = loads.chain(rates.into_iter().map(named("rate"))).collect();
    let mut cases = Vec::new();
    let mut seen = BTreeSet::new();
    for protocol in &protocols {
        for bytes in &messages {
            for count in &connections {
                for (name, many) in &how_many {
                    for schedule in &schedules {
                        let mut id = CaseId::new()
                            .with(FAR, site.far())
                            .with("protocol", protocol.clone())
                            .with("message", bytes.clone())
                            .with("ends", ends)
                            .with("connections", count.clone());
                        // Nobody makes a schedule for a closed loop.
                        if many.text() != Some(CLOSED) {
                            id = id.with("schedule", schedule.clone());
                        }
                        let id = id.with(name, many.clone());
                        if seen.insert(id.to_string()) {
                            cases.push(Case::new(id));
                        }
                    }
                }
            }
        }
    }
    cases
}

/// The cost of a round.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let window = window_ns(series, site.case_ns);
    let mut closed = BTreeSet::new();
    let mut total_ns = ENDS_NS;
    for case in &series.cases {
        let Some(shape) = Shape::of(&case.id) else {
            continue;
        };
        // Eight requests of a slow way, and the connections' own round trips.
        let rate = closed_rate(site, None, shape.requests(window)).range.likely;
        let asked = match shape.load {
            Load::Closed => rate,
            Load::Share(share) => share * rate,
            Load::Rate(rate) => rate,
        };
        let least_ns = 1e9 * super::schedule::LEAST as f64 / asked;
        let set_up_ns = 5e9 * shape.connections as f64 / rate;
        total_ns += CASE_NS + set_up_ns as u64;
        total_ns += (window as f64).max(least_ns).min(longest_ns(window) as f64) as u64;
        if shape.load != Load::Closed && closed.insert(shape.of_closed()) {
            total_ns += closed_window_ns(site.case_ns);
        }
    }
    Duration::from_nanos(total_ns)
}

/// The shape of a case that is to be measured.
///
/// # Errors
/// A case that is none of this experiment.
pub(super) fn shape(case: &Case) -> Result<Shape> {
    let shape = Shape::of(&case.id).with_context(|| format!("no requests {}", case.id))?;
    anyhow::ensure!(
        shape.bytes >= message::LEAST_BYTES && shape.connections > 0,
        "{}: a message needs {} bytes, a case a connection",
        case.id,
        message::LEAST_BYTES
    );
    Ok(shape)
}
