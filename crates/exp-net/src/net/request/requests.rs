//! Which requests are measured where, and how long that takes.

use super::Request;
use crate::net::place;
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::{Fields, Params, Preset, Site, Skip, chosen};
use laws::net::request::{Asked, Load, Requests, Schedule, closed_rate};
use laws::net::{Ends, Protocol};
use record::case::{Case, Series};
use std::collections::BTreeSet;
use std::time::Duration;

/// A window of requests is so many case times.
const WINDOWS: u64 = 4;
/// Connections of the closed loop that shares refer to.
const CLOSED_WINDOWS: u64 = 2;
/// Eight requests may take so long, or four windows.
const LONGEST_NS: u64 = 2_000_000_000;
/// Two workers, their connections and lines.
const ENDS_NS: u64 = 100_000_000;
/// Connections, warm-up and counts of a case.
const CASE_NS: u64 = 5_000_000;

/// What the closed loop's rate depends on.
pub(super) fn of_closed(of: &Requests) -> (Protocol, u64, u64) {
    (of.protocol, of.message, of.connections)
}

/// Time in which requests are sent, in ns: the setting, else of the case time.
pub(super) fn window_ns(series: &Series, case_ns: u64) -> u64 {
    series.setting("time").unwrap_or(WINDOWS * case_ns)
}

/// That of the closed loop that shares refer to.
pub(super) fn closed_window_ns(case_ns: u64) -> u64 {
    CLOSED_WINDOWS * case_ns
}

/// Time that eight requests may take, in ns.
pub(super) fn longest_ns(window_ns: u64) -> u64 {
    LONGEST_NS.max(4 * window_ns)
}

/// The cases of a preset: loads of closed loops, and shares of what these reach.
pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Requests> {
    let ends = if site.peer.is_some() { Ends::TwoHosts } else { Ends::OtherCpu };
    let is_thorough = preset == Preset::Thorough;
    let shares: &[u64] = match preset {
        Preset::Rehearsal => &[50],
        Preset::Quick => return Vec::new(),
        Preset::Standard => &[10, 50, 90],
        Preset::Thorough => &[10, 50, 80, 90, 95, 120],
    };
    let schedules = if is_thorough { Schedule::ALL } else { &[Schedule::Fixed] };
    let protocols = if is_thorough { Protocol::ALL } else { &[Protocol::Tcp] };
    let counts: &[u64] = if is_thorough { &[1, 4, 16] } else { &[4] };
    let mut cases = Vec::new();
    for &protocol in protocols {
        for &connections in counts {
            let of = |load, schedule| Requests {
                protocol,
                message: 64,
                ends,
                connections,
                schedule,
                load: Some(load),
                rate: None,
            };
            cases.push(of(Load::Closed, None));
            for &percent in shares {
                let each = schedules.iter().map(|one| of(Load::Share(percent), Some(*one)));
                cases.extend(each);
            }
        }
    }
    cases
}

/// The rates that the user chose: in place of shares, or beside those that the user chose.
pub(super) fn with_rates(site: &Site, cases: Vec<Requests>, params: &Params) -> Vec<Requests> {
    let rates = params.ints("rate");
    if rates.is_empty() {
        return cases;
    }
    let base = match cases.is_empty() {
        true => chosen(Request::cases(site, Preset::Standard), params),
        false => cases.clone(),
    };
    let mut all = if params.chosen("load").is_some() { cases } else { Vec::new() };
    for case in base.iter().filter(|case| case.schedule.is_some()) {
        for rate in &rates {
            let case = Requests { load: None, rate: Some(*rate), ..case.clone() };
            if !all.contains(&case) {
                all.push(case);
            }
        }
    }
    all
}

/// Why a schedule cannot be kept there: its thread is awake all the time, and needs a CPU that the
/// far end does not.
pub(super) fn absent(site: &Site, case: &Requests) -> Option<Skip> {
    match (case.ends, &site.peer) {
        (Ends::OneThread | Ends::SameCpu, _) => Some(Skip::because(
            "the sender polls the clock, so a far end in the same thread or on the same CPU would \
             have to wait for a time slice",
        )),
        (Ends::OtherCpu, None) if site.cpus.len() < 2 => Some(
            Skip::because(
                "only one CPU: the sender polls the clock and leaves no CPU for the far end",
            )
            .needs("a second CPU, allowed and listed in --cpu, or a host with --peer"),
        ),
        (ends, _) => place::absent(site, ends),
    }
}

pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let window = window_ns(series, site.case_ns);
    let mut closed = BTreeSet::new();
    let mut total_ns = ENDS_NS;
    let of = |case: &Case| Requests::of(&case.id);
    for case in series.cases.iter().filter_map(of) {
        // Eight requests of a slow way, and the connections' own round trips.
        let rate = closed_rate(Facts::prior(site), &case).range.likely;
        let asked = match case.asked() {
            Asked::Closed => rate,
            Asked::Share(share) => share * rate,
            Asked::Rate(rate) => rate,
        };
        let least_ns = 1e9 * super::schedule::LEAST as f64 / asked;
        let set_up_ns = 5e9 * case.connections as f64 / rate;
        total_ns += CASE_NS + set_up_ns as u64;
        total_ns += (window as f64).max(least_ns).min(longest_ns(window) as f64) as u64;
        if case.asked() != Asked::Closed && closed.insert(of_closed(&case)) {
            total_ns += closed_window_ns(site.case_ns);
        }
    }
    Duration::from_nanos(total_ns)
}
