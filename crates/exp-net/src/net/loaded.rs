//! How long does a round trip take while other traffic runs at full speed?
//!
//! ## Question
//!
//! How much longer is a small message's round trip while traffic runs up, down, or both ways, than
//! without traffic? How fast is that traffic, and how many bytes are queued ahead of the message?
//!
//! ## Method
//!
//! One thread sends a message, waits until it comes back, and sends the next; each round trip is an
//! event. It does so first alone (`idle_round_trip`), then while TCP streams send at full speed,
//! with one thread per stream at each end (`round_trip`). The traffic runs 20 ms, or 20 round
//! trips, before anything counts, so that its streams have grown; then four case times (48 ms;
//! thorough 100 ms) and at least 16 round trips. All connections are made beforehand, and are new
//! in every case.
//!
//! `bandwidth_up` and `bandwidth_down` are the bytes that the receiving end got in the same window,
//! divided by its own time. A round trip without a reply within `timeout` is in the distribution as
//! "at least" that; over TCP it fails the case. At the end the traffic's sockets are closed without
//! sending what they still hold, and the next case begins when a round trip is short again. The CPU
//! time is that of all threads of an end divided by the bytes moved in both directions.
//!
//! Traffic threads have separate CPUs if there are enough: on loopback the third and fourth of the
//! round's CPUs, with a peer the second at each end. Otherwise they share the CPUs of the round
//! trips, and the scheduler is part of the measurement (see `near_traffic_cpu`).
//!
//! ## Prediction
//!
//! Base hardware: the path between both ends, and the traffic's rate. Software: the round trip
//! alone by net.rtt's law, and the queue ahead of the message. On loopback there is no link, so the
//! wait is CPU contention, up to one scheduler time slice at each end. Otherwise it is the device's
//! queue (txqueuelen if known, 5 ms if net.core.default_qdisc keeps queues short), or the unknown
//! queue of a shaper or a router, at most the bytes that the traffic's sockets may have in flight,
//! divided by its rate. Hence the interval is wide.
//!
//! ## Reading the result
//!
//! `ratio` is `round_trip` divided by `idle_round_trip`. On a link it shows bufferbloat: 1 to 3 if
//! queues are kept short, tens to thousands if a shaper, a radio or a router queues everything that
//! sockets send. `queue` is bandwidth times the added time: the bytes queued ahead of the message.
//! It is given for one direction at a time, because with both the queue cannot be assigned to one.
//! A value below 0, or a ratio below 1, means that the traffic kept CPUs awake that would have
//! slept between two messages. On loopback the ratio describes the scheduler, and `queue` is the
//! bytes that the CPUs moved meanwhile, not bytes in a buffer.
//!
//! ## Pitfalls
//!
//! An idle round trip alone hides all of this, and is what most tools report. The next message is
//! sent when the last one is back (net.request sends on a schedule). Long round trips are therefore
//! fewer in the distribution than their share of the time, so upper percentiles are too low if a
//! queue comes and goes. A probe on the traffic's own connection measures its own socket buffer;
//! here the probe has a separate connection, which a fair queue (fq) serves first. Slow start, and
//! queues that are still filling, are not a steady state: on long paths `time` must be long as
//! well. The sender's rate is the rate into its own buffers (`sent_bytes_per_s`, recorded with the
//! figure). The queue of a hypervisor or a switch is as invisible as that of a router. Anything
//! that slows the traffic also lowers the rate in `queue`.
//!
//! ## Sources
//!
//! [bufferbloat]; [wifi]; [flent] (rrul: latency while loading both directions); [crusader]. No
//! report has it.

mod far;
mod near;
#[cfg(test)]
mod tests;

use super::{foretold, tell};
use crate::net::place;
use crate::net::wire::{Acceptor, Dialer};
use bench::experiment::contract::one_series;
use bench::experiment::{CaseId, FAR, FAR_PARAM, LOOPBACK};
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::loaded::{self as law, Beside, Direction};
use laws::net::{Ends, Protocol};
use near::Party;

bench::experiment!(Loaded);

/// Round trips that take longer never ended, where nothing else is set.
const TIMEOUT_NS: u64 = 2_000_000_000;
/// Two workers, their lines and connections.
const ENDS_NS: u64 = 100_000_000;
/// Connections, growth and emptying of a case.
const CASE_NS: u64 = 40_000_000;

static CARD: Card = Card {
    id: "net.loaded",
    title: "Round trips under load",
    metrics: metrics! {
        "idle_round_trip" => Ns Lower Os: "round trip without traffic, just before";
        "round_trip" => Ns Lower Os: "round trip while the traffic runs";
        "bandwidth_up" => BPerS Higher Os: "rate at which the far end receives the traffic";
        "bandwidth_down" => BPerS Higher Os:
            "rate at which the near end receives the traffic";
        "cpu_near" => NsPerB Lower Os: "CPU time of the near end per byte of the traffic";
        "cpu_far" => NsPerB Lower Os: "CPU time of the far end per byte of the traffic";
        "ratio" => derived Ratio Lower Os: "the round trip under load, divided by the one without \
                                            traffic";
        "queue" => derived B None Os:
            "bytes queued ahead of a message: the traffic's bandwidth times the added time";
    },
    params: params![
        &[FAR_PARAM],
        Beside::PARAMS,
        settings! {
            "time": Domain::Either(&["auto"], 1_000_000, 3_000_000_000, Unit::Ns), ["auto"; 3] =>
                "length of the window with traffic; auto: four case times";
            "timeout": Domain::ns(1_000_000, 4_000_000_000), ["2s"; 3] =>
                "a round trip that takes longer counts as lost";
        },
    ],
    after: &["clock.rate", "os.syscall", "os.switch", "net.rtt"],
    views: &[ViewCard::bars("round_trip").each(&["far"])],
    ..Card::PLAIN
};

impl Experiment for Loaded {
    type Case = Beside;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("loaded.rs");
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> =
        Some(|_, far| Acceptor::open(far)?.serve(far, far::serve));
    const PORTS: fn(&Site, &Beside) -> u64 =
        |_, case| 1 + far::streams(case).iter().sum::<usize>() as u64;
    const HAZARDS: fn(&RoundOrder) -> Hazards = |order| {
        let is_alone = |case: &Case| {
            let of_others = ["near_traffic_cpu", "far_traffic_cpu", "far_cpu"];
            of_others.iter().all(|name| case.int(name) != case.int("near_cpu"))
        };
        Hazards { run_delay: order.series.cases.iter().all(is_alone), ..Hazards::NONE }
    };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let window_ns = series.setting("time").unwrap_or(4 * site.case_ns);
        let of_case = |case: &Case| {
            let of = Beside::from_id(&case.id);
            let trip = of.map(|of| law::idle(Facts::prior(site), &of).range.likely);
            // Warm-up, idle ones, growth, and the least number beside the traffic where that is
            // longer.
            CASE_NS + site.case_ns + window_ns + (60.0 * trip.unwrap_or(0.0)) as u64
        };
        let total: u64 = series.cases.iter().map(of_case).sum();
        Duration::from_nanos(ENDS_NS + total)
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Beside> {
        let is_thorough = preset == Preset::Thorough;
        if preset == Preset::Quick {
            return Vec::new();
        }
        let all_ends: &[Ends] = match (&site.peer, site.cpus.len()) {
            (Some(_), _) => &[Ends::TwoHosts],
            (None, 0 | 1) => &[Ends::SameCpu],
            (None, _) if is_thorough => &[Ends::SameCpu, Ends::OtherCpu],
            (None, _) => &[Ends::OtherCpu],
        };
        let protocols = if is_thorough { Protocol::ALL } else { &[Protocol::Tcp] };
        let counts: &[u64] = if is_thorough { &[1, 4] } else { &[1] };
        let mut cases = Vec::new();
        for &ends in all_ends {
            for &protocol in protocols {
                for &streams in counts {
                    cases.extend(Direction::ALL.iter().map(|&direction| Beside {
                        protocol,
                        message: 64,
                        ends,
                        streams,
                        direction,
                    }));
                }
            }
        }
        cases
    }

    fn absent(site: &Site, case: &Beside, _: &Params) -> Option<Skip> {
        match case.ends {
            Ends::OneThread => Some(Skip::because("one thread would wait for its own reply")),
            ends => place::absent(site, ends),
        }
    }

    fn series(site: &Site, cases: Vec<Beside>, params: &Params) -> Result<Offer, Skip> {
        if cases.is_empty() {
            let why = "quick has no time for the streams to grow before the window";
            let way_out = "--preset standard, or --set net.loaded.direction=both";
            return Err(Skip::because(why).needs(way_out));
        }
        let mut offer = one_series::<Loaded>(site, cases, params);
        tell(&mut offer, "timeout", "timeout_ns", |_, _| true);
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        let mut series = place::place_all(site, series, |case: &Beside| case.ends);
        for case in series.cases.iter_mut().filter(|case| !place::is_free(case)) {
            let traffic = Beside::from_id(&case.id).and_then(|of| of.traffic_cpus(site));
            if let Some([near, far]) = traffic {
                case.at.put("near_traffic_cpu", near as u64);
                case.at.put("far_traffic_cpu", far as u64);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Beside, at: &Case, metric: &Metric) -> Option<Prediction> {
        let name = &*metric.name;
        let timeout_ns = at.int("timeout_ns").unwrap_or(TIMEOUT_NS) as f64;
        let law = match (name, case.direction) {
            ("bandwidth_up", Direction::Down) => Err("no traffic goes up"),
            ("bandwidth_down", Direction::Up) => Err("no traffic goes down"),
            ("idle_round_trip", _) => Ok(law::idle(facts, case)),
            ("round_trip", _) => Ok(law::beside(facts, case, timeout_ns)),
            ("bandwidth_up" | "bandwidth_down", _) => Ok(law::rate(facts.site, case)),
            _ => Ok(law::cpu_per_byte(facts.site, case)),
        };
        let is_of_trips = matches!(name, "idle_round_trip" | "round_trip");
        foretold(facts, || is_of_trips && law::adds(facts, case), law)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dialer = Dialer::new(bench)?;
        bench.each_of::<Beside>(series, |bench, case, of| {
            Party::new(bench, series, case, of, &mut dialer)?.measure(bench, series)
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        cases.map(|case| case.id.clone()).collect()
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        let (case, timeout_ns) = (Beside::from_id(id)?, TIMEOUT_NS as f64);
        if facts.known.is_some() {
            return None;
        }
        let law = match (&*metric.name, case.direction) {
            ("ratio", _) => law::ratio(facts.site, &case, timeout_ns),
            (_, Direction::Both) => return None,
            (_, _) => law::queue(facts.site, &case, timeout_ns),
        };
        Some(law.prediction())
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut found = Vec::new();
        for (id, beside_ns) in values.figures(CARD.id, "round_trip") {
            let get = |metric| values.get(CARD.id, id, metric);
            let Some(idle_ns) = get("idle_round_trip") else {
                continue;
            };
            if idle_ns > 0.0 {
                found.push(DerivedValue::new(id.clone(), "ratio", beside_ns / idle_ns));
            }
            let rate = match id.text("direction") {
                Some("up") => get("bandwidth_up"),
                Some("down") => get("bandwidth_down"),
                _ => None,
            };
            let bytes = rate.map(|rate| rate * (beside_ns - idle_ns) / 1e9);
            found.extend(bytes.map(|bytes| {
                let mut queue = DerivedValue::new(id.clone(), "queue", bytes);
                if id.text(FAR) == Some(LOOPBACK) {
                    let note = "loopback: the bytes that CPUs moved meanwhile, not the queue of a \
                                link";
                    queue.notes.push(note.to_owned());
                }
                queue
            }));
        }
        found
    }
}
