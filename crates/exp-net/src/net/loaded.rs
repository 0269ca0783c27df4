//! How long does a round trip take while others send as fast as they may?
//!
//! ## Question
//!
//! How much longer is a small message on its way there and back while traffic runs up, down, or both ways, than
//! with nothing beside it; how fast is that traffic; and how many bytes wait before the message?
//!
//! ## Method
//!
//! One thread sends a message, waits for it to come back, and sends the next; each round trip is an event. It
//! does so first alone (`idle_round_trip`), then while TCP streams send as fast as they may, each in
//! a thread of its own at each end (`round_trip`). The traffic runs 20 ms, or 20 round trips, before
//! anything counts, so that its streams have grown; then four case times (48 ms; thorough 100 ms) and at
//! least 16 round trips. All connections are made before, and are new in every case.
//!
//! `bandwidth_up` and `bandwidth_down` are what the receiving end got in the same window, over its own time.
//! A round trip without an answer within `timeout` is in the distribution as "at least" that; by TCP it fails
//! the case. At the end the traffic's sockets are closed without what they still hold, and the next case
//! begins when a round trip is short again. The CPU time is that of all threads of an end over the bytes
//! that both directions moved.
//!
//! Threads of the traffic have CPUs of their own where there are enough: on loopback the third and fourth of
//! the round's, with a peer the second at each end. Else they share those of the round trips, and what is
//! measured is the scheduler as well (`near_traffic_cpu` tells).
//!
//! ## Prediction
//!
//! Base hardware: what lies between both ends, and the traffic's rate. Software: the round trip alone as net.rtt's law has
//! it, and what waits before it: on loopback, where there is no link, CPU contention, up to a slice of
//! the scheduler at each end; else the queue of the device (txqueuelen where told, 5 ms where
//! net.core.default_qdisc keeps queues short), a shaper's or a router's of which nobody tells, at most what the
//! traffic's sockets may have on their way, over its rate. Hence wide.
//!
//! ## Parameters
//!
//! - `far`: the far end. `protocol`: `tcp` or `udp`, of the round trips. `message`: their bytes each way.
//! - `ends`: `same_cpu`, `other_cpu` on loopback, `two_hosts` with a peer.
//! - `streams`: of the traffic, each way.
//! - `direction`: of the traffic: `up` (this end sends), `down`, `both`.
//! - `placement`, with a peer: where the threads of both ends run: `free` (the scheduler places them, and their
//!   moves are planned), `interrupt` (on the CPU that takes the interrupts of the interface on the way; a far end
//!   whose host does not tell stays on its first), `other` (on another).
//! - `time` (setting): length of the window; auto: four case times.
//! - `timeout` (setting): round trips that take longer never ended.
//!
//! ## Reading the result
//!
//! `ratio` is `round_trip` over `idle_round_trip`. On a link it tells of bufferbloat: 1 to 3 where queues are
//! kept short, tens to thousands where a shaper, a radio or a router queues all that sockets send. `queue` is
//! bandwidth times the time added: the bytes that lay before the message. It is given for one direction at a time;
//! with both nobody can tell whose queue it was. Below 0, or a ratio below 1: the traffic kept CPUs
//! awake that would have slept between two messages. On loopback the ratio tells of the scheduler, and `queue`
//! is the bytes that the CPUs moved meanwhile, not bytes in any buffer.
//!
//! ## Pitfalls
//!
//! An idle round trip alone hides all of this, and is what most tools print. The next message is sent when
//! the last is back (net.request sends by a schedule): long round trips are fewer in the distribution than
//! their share of the time, so upper percentiles are too low where a queue comes and goes. A probe on the connection of the traffic
//! measures its own socket buffer; here it has one of its own, which a fair queue (fq) puts first. Slow start,
//! and queues that are still filling, belong to no steady state: with long ways `time` must be long as well. Rates of the sender
//! are rates into its own buffers (`sent_bytes_per_s` beside the figure). A hypervisor's or a switch's queue
//! is as invisible as a router's. What slows down the traffic slows down `queue`'s rate too.
//!
//! ## Sources
//!
//! J. Gettys, K. Nichols, "Bufferbloat: Dark Buffers in the Internet" (CACM 2012); T. Høiland-Jørgensen et al.,
//! "The Good, the Bad and the WiFi" (2016) and flent (rrul: latency while loading both directions); crusader. No
//! report has it.

mod far;
mod near;
#[cfg(test)]
mod tests;
mod traffic;

use crate::net::ends::{Dial, Door};
use crate::net::place::{self, OTHER_CPU, SAME_CPU, TWO_HOSTS};
use anyhow::Result;
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, FAR, FAR_PARAM, Known, Offer, Param, Params, Preset,
    Role, Site, Skip, ViewCard, unknown,
};
use bench::measure::{Bench, FarEnd};
use laws::Law;
use laws::net::Transport;
use laws::net::loaded::{self as law, Beside, Traffic};
use near::Party;
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Loaded = Loaded;

/// `net.loaded`.
pub struct Loaded;

const ID: &str = "net.loaded";
/// Round trips that take longer never ended, where nothing else is set.
const TIMEOUT_NS: u64 = 2_000_000_000;
/// Two workers, their lines and connections.
const ENDS_NS: u64 = 100_000_000;
/// Connections, growth and emptying of a case.
const CASE_NS: u64 = 40_000_000;

const fn os(name: &'static str, doc: &'static str, unit: Unit, better: Better) -> Metric {
    Metric::new(name, doc, unit, better, Kind::Os)
}

static CARD: Card = Card {
    id: ID,
    title: "Round trips beside traffic",
    metrics: &[
        os(
            "idle_round_trip",
            "there and back with nothing beside it, just before",
            Unit::Ns,
            Better::Lower,
        ),
        os("round_trip", "there and back beside the traffic", Unit::Ns, Better::Lower),
        os(
            "bandwidth_up",
            "traffic up that the far end received, over its time",
            Unit::BPerS,
            Better::Higher,
        ),
        os(
            "bandwidth_down",
            "traffic down that the near end received, over its time",
            Unit::BPerS,
            Better::Higher,
        ),
        os(
            "cpu_near",
            "CPU time of the near end per byte of the traffic",
            Unit::NsPerB,
            Better::Lower,
        ),
        os(
            "cpu_far",
            "CPU time of the far end per byte of the traffic",
            Unit::NsPerB,
            Better::Lower,
        ),
        Metric::derived(
            "ratio",
            "the round trip beside the traffic over the one without",
            Unit::Ratio,
            Better::Lower,
            Kind::Os,
        ),
        Metric::derived(
            "queue",
            "bytes in flight before a message: the traffic's bandwidth times the time it adds",
            Unit::B,
            Better::None,
            Kind::Os,
        ),
    ],
    params: &[
        FAR_PARAM,
        Param {
            name: "protocol",
            doc: "of the round trips; auto: tcp, in thorough both",
            domain: Domain::Symbols(&["auto", "tcp", "udp"]),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "message",
            doc: "bytes of a round trip each way; auto: 64",
            domain: Domain::Either(&["auto"], 1, 65_507, Unit::B),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        place::ENDS,
        Param {
            name: "streams",
            doc: "streams of the traffic each way; auto: 1, in thorough 1 and 4",
            domain: Domain::Either(&["auto"], 1, 128, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "direction",
            doc: "of the traffic; auto: up, down and both",
            domain: Domain::Symbols(&["auto", "up", "down", "both"]),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        PLACEMENT_PARAM,
        Param {
            name: "time",
            doc: "length of the window beside the traffic; auto: four case times",
            domain: Domain::Either(&["auto"], 1_000_000, 3_000_000_000, Unit::Ns),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
        Param {
            name: "timeout",
            doc: "round trips that take longer never ended",
            domain: Domain::Integer { low: 1_000_000, high: 4_000_000_000, unit: Unit::Ns },
            defaults: ["2s"; 3],
            role: Role::Setting,
        },
    ],
    after: &["clock.rate", "os.syscall", "os.switch", "net.rtt"],
    views: &[ViewCard::bars("round_trip").each(&["far"])],
    ..Card::PLAIN
};

/// Which way the traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From this end.
    Up,
    /// To this end.
    Down,
    /// Both at once.
    Both,
}

/// What a case's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    by_datagrams: bool,
    bytes: usize,
    streams: usize,
    way: Way,
}

impl Shape {
    fn of(case: &CaseId) -> Option<Shape> {
        Some(Shape {
            by_datagrams: case.text("protocol")? == "udp",
            bytes: usize::try_from(case.int("message")?).ok()?,
            streams: usize::try_from(case.int("streams")?).ok()?,
            way: match case.text("direction")? {
                "up" => Way::Up,
                "down" => Way::Down,
                _ => Way::Both,
            },
        })
    }
}

impl Experiment for Loaded {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("loaded.rs")
    }

    fn two_ended(&self) -> bool {
        true
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let named = ["protocol", "message", "ends", "streams", "direction"];
        if params.preset == Preset::Quick && named.iter().all(|name| params.chosen(name).is_none())
        {
            return Err(Skip::because(
                "streams must grow before anything counts, which quick has no time for",
            )
            .needs("--preset standard, or --set net.loaded.direction=both"));
        }
        let mut offer = Offer::default();
        let mut cases = Vec::new();
        for ends in ends(site, params) {
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
        let mut settings = BTreeMap::new();
        for name in ["time", "timeout"] {
            if let Some(value) = params.chosen(name).and_then(<[Value]>::first) {
                settings.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(&Value::Int(timeout)) = settings.get("timeout") {
            // For the law, which sees cases only.
            for case in &mut cases {
                let timeout = Value::Int(timeout);
                case.at.insert("timeout_ns".to_owned(), timeout);
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

    fn derivable(&self, _: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        cases.map(|case| case.id.clone()).collect()
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let window_ns = series.setting("time").unwrap_or(4 * site.case_ns);
        let of_case = |case: &Case| {
            let trip_ns =
                beside(site, case).map_or(0.0, |of| law::idle(site, None, of).range.likely);
            // Warm-up, idle ones, growth, and the least number beside the traffic where that is longer.
            CASE_NS + site.case_ns + window_ns + (60.0 * trip_ns) as u64
        };
        let total: u64 = series.cases.iter().map(of_case).sum();
        Duration::from_nanos(ENDS_NS + total)
    }

    fn resolve(&self, site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            place::place(site, case);
            let ends = case.text("ends").unwrap_or_default().to_owned();
            let Some(cpus) = place::cpus(site, &ends).filter(|_| !place::is_free(case)) else {
                continue;
            };
            let traffic = traffic_cpus(site, &ends, cpus);
            for (name, cpu) in ["near_traffic_cpu", "far_traffic_cpu"].into_iter().zip(traffic) {
                case.at.insert(name.to_owned(), Value::Int(cpu as u64));
            }
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let name = &*metric.name;
        let prior = |why: &str| known.is_none().then(|| unknown(format!("unknown: {why}")));
        let Some(of) = beside(site, case) else {
            return prior("no such case");
        };
        match (name, of.traffic) {
            ("bandwidth_up", Traffic::Down) => return prior("no traffic goes up"),
            ("bandwidth_down", Traffic::Up) => return prior("no traffic goes down"),
            ("queue", Traffic::Both) => return None,
            _ => {}
        }
        let is_of_trips = matches!(name, "idle_round_trip" | "round_trip");
        if known.is_some_and(|known| !is_of_trips || !law::adds(site, known, of)) {
            return None;
        }
        let estimate: Law = match name {
            "idle_round_trip" => law::idle(site, known, of),
            "round_trip" => law::beside(site, known, of),
            "bandwidth_up" | "bandwidth_down" => law::rate(site, of),
            "ratio" => law::ratio(site, of),
            "queue" => law::queue(site, of),
            _ => law::cpu_per_byte(site, of),
        };
        Some(estimate.prediction())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dial = Dial::new(bench)?;
        let is_alone = |case: &Case| {
            case.int("near_cpu") != case.int("near_traffic_cpu")
                && case.int("near_cpu") != case.int("far_traffic_cpu")
                && case.int("near_cpu") != case.int("far_cpu")
        };
        if series.cases.iter().all(is_alone) {
            bench.minds_run_delay();
        }
        bench.each(series, |bench, case| {
            Party::new(bench, series, case, &mut dial)?.measure(bench, series)
        });
        Ok(())
    }

    fn serve(&self, _: &Series, far: &mut FarEnd) -> Result<()> {
        Door::open(far)?.serve(far, far::serve)
    }

    fn derive(&self, _: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut found = Vec::new();
        for (id, beside_ns) in values.of(ID, "round_trip") {
            let Some(idle_ns) = values.get(ID, id, "idle_round_trip") else {
                continue;
            };
            if idle_ns > 0.0 {
                let ratio = beside_ns / idle_ns;
                found.push(DerivedValue::new(id.clone(), "ratio", ratio));
            }
            let rate = match id.text("direction") {
                Some("up") => values.get(ID, id, "bandwidth_up"),
                Some("down") => values.get(ID, id, "bandwidth_down"),
                _ => None,
            };
            if let Some(rate) = rate {
                let bytes = rate * (beside_ns - idle_ns) / 1e9;
                let mut queue = DerivedValue::new(id.clone(), "queue", bytes);
                if id.text(FAR) == Some(bench::experiment::LOOPBACK) {
                    queue.notes.push(
                        "loopback: bytes that CPUs moved meanwhile, in no link's queue".to_owned(),
                    );
                }
                found.push(queue);
            }
        }
        found
    }
}

/// Where both ends are to be.
fn ends<'a>(site: &Site, params: &'a Params) -> Vec<&'a str> {
    if params.chosen("ends").is_some() {
        return params.texts("ends");
    }
    match (&site.peer, site.cpus.len()) {
        (Some(_), _) => vec![TWO_HOSTS],
        (None, 0 | 1) => vec![SAME_CPU],
        (None, _) if params.preset == Preset::Thorough => vec![SAME_CPU, OTHER_CPU],
        (None, _) => vec![OTHER_CPU],
    }
}

/// Whether the ends can be there.
fn can_be(site: &Site, ends: &str) -> Result<(), Skip> {
    if ends != place::ONE_THREAD && place::present(site).contains(&ends) {
        return Ok(());
    }
    Err(match (ends, &site.peer) {
        (place::ONE_THREAD, _) => Skip::because("one thread waits for its own answer"),
        (OTHER_CPU, None) => {
            Skip::because("one CPU").needs("a second CPU, allowed and named by --cpu")
        }
        (TWO_HOSTS, _) => Skip::because("both ends are on this host").needs("a host by --peer"),
        _ => Skip::because("a far end on another host has no CPU of this one"),
    })
}

/// CPUs of the traffic's threads at both ends: such as nothing else of the case is on, where there are any.
fn traffic_cpus(site: &Site, ends: &str, [near, far]: [usize; 2]) -> [usize; 2] {
    match ends {
        OTHER_CPU => {
            [site.cpus.get(2).copied().unwrap_or(near), site.cpus.get(3).copied().unwrap_or(far)]
        }
        TWO_HOSTS => {
            let theirs = site.peer.as_ref().and_then(|peer| peer.cpus.get(1));
            [site.cpus.get(1).copied().unwrap_or(near), theirs.copied().unwrap_or(far)]
        }
        _ => [near, far],
    }
}

/// A case as the law wants it.
fn beside(site: &Site, case: &Case) -> Option<Beside> {
    let shape = Shape::of(&case.id)?;
    let ends = case.text("ends")?;
    let cpus = place::cpus(site, ends);
    let traffic = cpus.map(|cpus| traffic_cpus(site, ends, cpus));
    let is_apart =
        |(cpus, traffic): ([usize; 2], [usize; 2])| cpus[0] != traffic[0] && cpus[1] != traffic[1];
    Some(Beside {
        transport: match shape.by_datagrams {
            true => Transport::Udp,
            false => Transport::Tcp,
        },
        bytes: shape.bytes as u64,
        same_cpu: ends == SAME_CPU,
        has_own_cpus: cpus.zip(traffic).is_some_and(is_apart),
        traffic: match shape.way {
            Way::Up => Traffic::Up,
            Way::Down => Traffic::Down,
            Way::Both => Traffic::Both,
        },
        streams: shape.streams as u64,
        timeout_ns: case.int("timeout_ns").unwrap_or(TIMEOUT_NS) as f64,
    })
}

fn at(site: &Site, params: &Params, ends: &str) -> Vec<Case> {
    let is_thorough = params.preset == Preset::Thorough;
    let values = |name: &str, auto: Vec<Value>| params.chosen(name).map_or(auto, <[Value]>::to_vec);
    let symbols = |of: &[&str]| of.iter().map(|one| Value::from(*one)).collect::<Vec<_>>();
    let counts = |of: &[u64]| of.iter().map(|one| Value::from(*one)).collect::<Vec<_>>();
    let (protocols, streams) = match is_thorough {
        true => (symbols(&["tcp", "udp"]), counts(&[1, 4])),
        false => (symbols(&["tcp"]), counts(&[1])),
    };
    let mut cases = Vec::new();
    for protocol in values("protocol", protocols) {
        for bytes in values("message", counts(&[64])) {
            for count in values("streams", streams.clone()) {
                for direction in values("direction", symbols(&["up", "down", "both"])) {
                    let id = CaseId::new()
                        .with(FAR, site.far())
                        .with("protocol", protocol.clone())
                        .with("message", bytes.clone())
                        .with("ends", ends)
                        .with("streams", count.clone())
                        .with("direction", direction);
                    cases.push(Case::new(id));
                }
            }
        }
    }
    cases
}
