//! How long does a request take when requests arrive on a schedule, whether or not the last one was
//! answered?
//!
//! ## Question
//!
//! How long does a request take, from the time it was due, at a given number of requests per
//! second? How does that grow as the rate approaches the capacity of both ends?
//!
//! ## Method
//!
//! *Open loop.* All due times are drawn before the first request is sent: one period apart, or with
//! exponential gaps (Poisson). One thread sends due requests over several connections in turn and
//! receives replies. It never sleeps and never waits for a reply, so many requests can be in
//! flight. Replies are matched by number. The far end is a server of one thread that sleeps in
//! poll(2) until data arrives, and answers each request in a separate call with the same number of
//! bytes.
//!
//! Three times are recorded per request: due, sent, replied. `response` is from due to replied,
//! which is what a user experiences. `service` is from sent to replied. `lateness` is from due to
//! sent: the sender's own delay, which is part of `response` and which a clock started at sending
//! would miss. Requests without a reply in time, and those that the sender could not send in time,
//! are in the distributions as "at least the time-out"; percentiles among them are reported as "at
//! least".
//!
//! *Closed loop.* Shares refer to the rate of this round's own closed loop on the same number of
//! connections. In it each connection sends its next request when it has the reply to the last. It
//! runs once per round, before the first case that needs it. `load=closed` is that loop as a case.
//!
//! A case has fresh connections, on which at least 64 requests are exchanged first. It sends for
//! four case times (48 ms; thorough 100 ms), at least 8 requests. Rates count replies from the due
//! time of the first request to the last reply, less the shortest time of one request.
//!
//! ## Prediction
//!
//! Base hardware: the round trip to a far end on another host; on loopback: memory copies, no link.
//! Software: send and receive at both ends and the wake-up of the far end, or the round trip that
//! net.rtt measured. Requests that load brings while the far end is awake take no wake-up: what an
//! end does then is half of the round trip that net.rtt measured with a poller. The number of
//! connections divided by that time is the closed loop's rate, up to the capacity of the slower end's
//! CPU. Waiting grows with u / (1 - u); the variability of a server is unknown beforehand, so the
//! interval widens.
//!
//! ## Reading the result
//!
//! Compare `response` with `service`: if they differ, the sender could not keep the schedule, and
//! `lateness` shows by how much. `rate_ratio` is the achieved rate divided by the scheduled rate;
//! below 0.99 the figures describe the achieved rate, with a growing queue. `lost` is the share
//! without a reply in time. Read the tail (p99) at loads of 80 % and more. The closed loop's
//! `service` at its full rate is often better than the open loop's at 90 %, because it stops
//! sending while it waits.
//!
//! At small loads times are often longer than at medium ones: the far CPU sleeps between requests
//! and must be woken. `cpu_far` is the server's CPU time per request; `cpu_near` is the whole time
//! between two requests, because the near end never sleeps.
//!
//! ## Pitfalls
//!
//! Coordinated omission: a tool that waits for a reply, or starts its clock when it sends, leaves
//! out the requests that were due during a stall. Here a stall of 20 ms shows in every request that
//! was due in it (`--set net.request.stall=20ms`). Leaving lost replies out of percentiles makes
//! the worst case look best. Latency at a rate that was not achieved is not the latency of that
//! rate. Rates that the sender cannot pace show in `lateness`. A share is only as good as its
//! closed loop; both are from the same round. With 48 ms per round, requests at small rates are
//! few, and the tail needs all rounds.
//!
//! ## Sources
//!
//! [tene] and its wrk2; [open-closed]; [jain-art]; [sockperf] (`under-load`: sends to a grid,
//! starts its clock when it sends, leaves dropped replies out). No report has it.

mod party;
mod timed;
use super::{foretold, tell};
use crate::net::place;
use crate::net::wire::{Acceptor, Dialer};
use bench::experiment::contract::one_series;
use bench::experiment::{FAR_PARAM, chosen};
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::request::{self as law, Asked, Load, Requests, Schedule, closed_rate};
use laws::net::{Ends, Protocol};
use party::Party;
use std::collections::BTreeSet;
use timed::loops;

bench::experiment!(Request);

static CARD: Card = Card {
    id: "net.request",
    title: "Requests on a schedule",
    metrics: metrics! {
        "response" => Ns Lower Os: "from the time a request was due to its reply";
        "service" => Ns Lower Os: "from sending a request to its reply";
        "lateness" => Ns Lower Os: "from the time a request was due until it was sent";
        "rate" => OpPerS Higher Os: "replies per second";
        "rate_ratio" => Ratio Higher Os:
            "replies per second divided by scheduled requests per second";
        "lost" => Ratio Lower Os: "share of requests without a reply in time";
        "cpu_near" => NsPerOp None Os: "CPU time of the near end, which never sleeps, per request";
        "cpu_far" => NsPerOp Lower Os: "CPU time of the far end per request";
    },
    params: params![
        &[FAR_PARAM],
        Requests::PARAMS,
        settings! {
            "timeout": Domain::ns(1_000_000, 60_000_000_000), ["200ms"; 3] =>
                "longest wait for a reply; also at most ten median times of the closed loop";
            "time": Domain::Either(&["auto"], 1_000_000, 600_000_000_000, Unit::Ns), ["auto"; 3] =>
                "duration of sending; auto: four case times";
            "stall": Domain::ns(0, 4_000_000_000), ["0"; 3] =>
                "length of one stall of the far end";
        },
    ],
    after: &["clock.rate", "os.syscall", "os.switch", "net.rtt"],
    views: &[
        ViewCard::curve("load", "rate", "response").log_y().each(&["far"]),
        ViewCard::line("load", "response").log_y().each(&["far"]),
    ],
    ..Card::PLAIN
};

impl Experiment for Request {
    type Case = Requests;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("request.rs");
    const SHARES: &'static [&'static str] = &["lost"];
    /// The thread that keeps the schedule never sleeps: a thread that keeps it off its CPU
    /// disturbs.
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards { run_delay: true, ..Hazards::NONE };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let window = window_ns(series, site.case_ns);
        let mut closed = BTreeSet::new();
        let mut total_ns = ENDS_NS;
        let of = |case: &Case| Requests::from_id(&case.id);
        for case in series.cases.iter().filter_map(of) {
            // Eight requests of a slow way, and the connections' own round trips.
            let rate = closed_rate(Facts::prior(site), &case).range.likely;
            let asked = match case.asked() {
                Asked::Closed => rate,
                Asked::Share(share) => share * rate,
                Asked::Rate(rate) => rate,
            };
            let least_ns = 1e9 * loops::LEAST as f64 / asked;
            let set_up_ns = 5e9 * case.connections as f64 / rate;
            total_ns += CASE_NS + set_up_ns as u64;
            total_ns += (window as f64).max(least_ns).min(longest_ns(window) as f64) as u64;
            if case.asked() != Asked::Closed && closed.insert(of_closed(&case)) {
                total_ns += closed_window_ns(site.case_ns);
            }
        }
        Duration::from_nanos(total_ns)
    };
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> =
        Some(|_, far| Acceptor::open(far)?.serve(far, party::serve));
    const PORTS: fn(&Site, &Requests) -> u64 = |_, case| case.connections;

    /// The cases of a preset: loads of closed loops, and shares of what these reach.
    fn cases(site: &Site, preset: Preset) -> Vec<Requests> {
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

    /// A closed loop has no schedule.
    fn complete(case: Requests) -> Option<Requests> {
        match (case.load, case.schedule) {
            (Some(Load::Closed), _) => Some(Requests { schedule: None, ..case }),
            (_, None) => None,
            (_, Some(_)) => Some(case),
        }
    }

    /// The schedule's thread is awake all the time, and needs a CPU that the far end does not.
    fn absent(site: &Site, case: &Requests, _: &Params) -> Option<Skip> {
        match (case.ends, &site.peer) {
            (Ends::OneThread | Ends::SameCpu, _) => Some(Skip::because(
                "the sender polls the clock, so a far end in the same thread or on the same CPU \
                 would have to wait for a time slice",
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

    fn series(site: &Site, cases: Vec<Requests>, params: &Params) -> Result<Offer, Skip> {
        let cases = with_rates(site, cases, params);
        if cases.is_empty() {
            return Err(Skip::because("quick has too few rounds for tails and queues")
                .needs("--preset standard, or --set net.request.load=50"));
        }
        let mut offer = one_series::<Request>(site, cases, params);
        tell(&mut offer, "time", "window_ns", |_, _| true);
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        Ok(place::place_all(site, series, |case: &Requests| case.ends))
    }

    fn law(facts: Facts, case: &Requests, at: &Case, metric: &Metric) -> Option<Prediction> {
        let name = &*metric.name;
        let window_ns = at.int("window_ns").unwrap_or(4 * facts.site.case_ns) as f64;
        let law = match name {
            "response" | "lateness" | "rate_ratio" if case.asked() == Asked::Closed => {
                Err("in a closed loop no request is due before it is sent")
            }
            "response" => Ok(law::response(facts, case, window_ns)),
            "service" => Ok(law::service(facts, case, window_ns)),
            "lateness" => Ok(law::lateness(facts, case, window_ns)),
            "rate" => Ok(law::rate(facts, case)),
            "rate_ratio" => Ok(law::rate_ratio(facts, case)),
            "lost" => Ok(law::lost(facts.site, case)),
            "cpu_near" => Ok(law::cpu_near(facts, case)),
            _ => Ok(law::cpu_far(facts, case)),
        };
        let is_of_software = matches!(name, "lost" | "rate_ratio");
        foretold(facts, || !is_of_software && law::adds(facts, case), law)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dialer = Dialer::new(bench)?;
        // What the closed loops of this round reached, by all that they depend on.
        let mut closed = BTreeMap::new();
        bench.each_of::<Requests>(series, |bench, case, of| {
            let case_ns = bench.order().case_ns;
            let mut party = Party::new(bench, case, &of, &mut dialer)?;
            party.warm_up(bench, series)?;
            if of.asked() == Asked::Closed {
                let round = party.closed_loop(window_ns(series, case_ns))?;
                closed.insert(of_closed(&of), round.account.rate);
                return round.record(bench, case, &of);
            }
            let base = match (closed.get(&of_closed(&of)), of.asked()) {
                (_, Asked::Rate(_)) => 1.0,
                (Some(rate), _) => *rate,
                (None, _) => {
                    let window_ns = closed_window_ns(case_ns);
                    let rate = party.closed_loop(window_ns)?.account.rate;
                    closed.insert(of_closed(&of), rate);
                    rate
                }
            };
            party.open_loop(bench, series, case, &of, base)?.record(bench, case, &of)
        });
        Ok(())
    }
}

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
fn of_closed(of: &Requests) -> (Protocol, u64, u64) {
    (of.protocol, of.message, of.connections)
}

/// Time in which requests are sent, in ns: the setting, else of the case time.
fn window_ns(series: &Series, case_ns: u64) -> u64 {
    series.setting("time").unwrap_or(WINDOWS * case_ns)
}

fn closed_window_ns(case_ns: u64) -> u64 {
    CLOSED_WINDOWS * case_ns
}

fn longest_ns(window_ns: u64) -> u64 {
    LONGEST_NS.max(4 * window_ns)
}

/// The rates that the user chose: in place of shares, or beside those that the user chose.
fn with_rates(site: &Site, cases: Vec<Requests>, params: &Params) -> Vec<Requests> {
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

#[cfg(test)]
mod tests;
