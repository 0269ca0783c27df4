//! One case of one round: warm-up, connections in chunks until their number or their time is over,
//! queues that are emptied, and the records.

use super::far::{Ask, LIMIT, SEQUENCE_MAX, Wish, limited};
use super::near::{Both, Events, OneThread, TwoEnds};
use super::opening::{Opener, Pending, reset, wait};
use super::sources::{NoPort, Sources, in_use};
use crate::net::place;
use crate::net::wire::{Dialer, Line, PATIENCE};
use bench::experiment::placement;
use bench::prelude::*;
use host::ports::Ports;
use laws::net::Ends;
use laws::net::connect::{Connections, Listener};
use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

/// Counters of two CPUs must agree to a hundredth of this window, or both ends read
/// CLOCK_MONOTONIC.
const WINDOW_NS: f64 = 10_000.0;
/// A chunk has so many connections at most, and at least two: one that is closed, and one whose FIN
/// is waited for.
const CHUNK: u64 = SEQUENCE_MAX;
/// A queue that is emptied as quickly as it goes has so many connections at most, and is filled so
/// often.
const QUEUE: u64 = 64;
const QUEUES: u64 = 4;
/// SYNs that a full queue drops: one after the other they would take a second each.
const DROPPED: usize = 3;
/// A SYN that is not answered within this time was dropped …
const SOON: Duration = Duration::from_millis(100);
/// … or within so many times what the first took.
const SOON_FACTOR: f64 = 5.0;
/// Connections beyond its backlog that a queue may take before it is full.
const SPARE: usize = 4;

pub(super) struct Round {
    pub(super) dialer: Dialer,
    pub(super) sources: Sources,
    pub(super) ports: Ports,
}

struct Plan<'case> {
    method: &'case Connections,
    connections: u64,
    warm_up: u64,
    /// What the preset or the user asked for.
    asked: u64,
    warm_up_asked: u64,
    backlog: u32,
    window: Duration,
}

impl Plan<'_> {
    fn new<'case>(of: &'case Connections, case: &Case) -> Result<Plan<'case>> {
        let at = |name: &str| {
            let value = case.int(name);
            value.with_context(|| format!("{} has no {name}", case.id))
        };
        Ok(Plan {
            method: of,
            connections: at("connections")?,
            warm_up: at("warm_up")?,
            asked: at("connections_asked")?,
            warm_up_asked: at("warm_up_asked")?,
            backlog: u32::try_from(at("backlog")?)?,
            window: Duration::from_nanos(at("window_ns")?),
        })
    }
}

pub(super) fn measure(
    bench: &mut Bench,
    case: &Case,
    of: &Connections,
    round: &mut Round,
) -> Result<()> {
    let plan = Plan::new(of, case)?;
    let near = place::near_cpus(bench, case)?;
    let far_address = round.dialer.address;
    let used = ports_left(round, &plan, far_address)?;
    let clock = clock(bench, case, &plan, &near)?;
    let is_one_clock = plan.method.ends != Ends::TwoHosts;
    if plan.method.ends == Ends::OneThread {
        let sources = &mut round.sources;
        let mut ends = OneThread::new(plan.backlog, plan.method.closer, |to| {
            Opener::new(clock, to, sources, LIMIT)
        })?;
        let gathered = gather(&mut ends, &plan)?;
        return record(bench, case, &plan, gathered, used);
    }
    let ask = Ask { backlog: plan.backlog, monotonic: clock == Clock::Monotonic };
    let mut line = round.dialer.call(case, &ask)?;
    let port: u16 = line.hear(PATIENCE)?;
    let to = SocketAddr::new(far_address.ip(), port);
    let Round { dialer, sources, .. } = round;
    let mut opener = Opener::new(clock, to, sources, LIMIT);
    match of.listener {
        Listener::Ready => {
            let pace = dialer.connect()?;
            // A far end that is silent for ever, as behind a cable that was cut, is waited for as
            // long.
            limited(&pace)?;
            let (line, closer) = (&mut line, plan.method.closer);
            let mut ends = TwoEnds { pace, dialer, line, opener, closer, is_one_clock };
            let gathered = gather(&mut ends, &plan)?;
            if plan.method.ends == Ends::SameCpu {
                bench.declare(Declared::Switches(8 * gathered.events.count));
            }
            record(bench, case, &plan, gathered, used)?;
        }
        Listener::Full => {
            let events = full(&mut opener, dialer, &mut line, &plan)?;
            record_opened(bench, case, &events, used)?;
        }
        Listener::Refusing => record_opened(bench, case, &refused(&mut opener, &plan)?, used)?,
    }
    line.tell(&Wish::End)
}

/// Ports that the host has in use towards a far end on the network; over loopback addresses rotate.
fn ports_left(round: &Round, plan: &Plan<'_>, far: SocketAddr) -> Result<Option<u64>> {
    if round.sources.rotate() {
        return Ok(None);
    }
    let (used, near) = in_use(far.ip())?;
    let wanted = plan.connections + plan.warm_up + QUEUES * QUEUE.min(plan.backlog.into());
    let all = round.ports.usable();
    if used + wanted > all {
        bail!(NoPort(format!(
            ": of {all} ports from {near} to {}, connections of the last minute still hold {used}, \
             and this case needs {wanted}",
            far.ip()
        )));
    }
    Ok(Some(used))
}

/// The clock of both ends: the counter where they can be compared at all.
fn clock(bench: &mut Bench, case: &Case, plan: &Plan<'_>, near: &[usize]) -> Result<Clock> {
    let far = placement::far_cpu(case).filter(|_| plan.method.ends != Ends::TwoHosts);
    let can_compare = match (far, near) {
        (Some(far), [near]) if far != *near => bench.offset(*near, far)?.allows(WINDOW_NS),
        _ => true,
    };
    Ok(if can_compare { bench.order().clock() } else { Clock::Monotonic })
}

struct Gathered {
    events: Events,
    /// Of each queue that was emptied: connections a second, and CPU time of each, in ns.
    rates: Vec<f64>,
    cpus_ns: Vec<f64>,
    queue: u64,
    warm_up: u64,
}

/// Connections until their number or their time is over, then queues.
fn gather(ends: &mut dyn Both, plan: &Plan<'_>) -> Result<Gathered> {
    let mut warm_up = Events::default();
    // What is slow is warm after fewer.
    chunks(ends, plan.warm_up, 0, plan.window / 4, &mut warm_up)?;
    let mut events = Events::default();
    let least = plan.connections.min(6);
    chunks(ends, plan.connections, least, plan.window, &mut events)?;
    let queue = QUEUE.min(plan.backlog.into()).max(2);
    let (mut rates, mut cpus_ns) = (Vec::new(), Vec::new());
    let until = Instant::now() + plan.window / 4;
    for number in 0..QUEUES {
        if number > 0 && Instant::now() > until {
            break;
        }
        if let Some(took) = ends.take(queue)? {
            rates.push(1e9 * queue as f64 / took.ns);
            cpus_ns.push(took.cpu_ns / queue as f64);
        }
    }
    ensure!(
        !rates.is_empty(),
        "foreign connections disturbed every measurement of the accept queue"
    );
    Ok(Gathered { events, rates, cpus_ns, queue, warm_up: warm_up.count })
}

/// Connections in chunks that grow, at least `least`.
fn chunks(
    ends: &mut dyn Both,
    most: u64,
    least: u64,
    window: Duration,
    events: &mut Events,
) -> Result<()> {
    let began = Instant::now();
    let mut chunk = 2;
    while events.count < most {
        let left = window.saturating_sub(began.elapsed());
        if left.is_zero() && events.count >= least {
            break;
        }
        let each = began.elapsed() / u32::try_from(events.count.max(1)).unwrap_or(1);
        let fit = match events.count {
            0 => chunk,
            _ => (left.as_nanos() / each.as_nanos().max(1)) as u64,
        };
        let count = chunk.min(fit.max(2)).min(most - events.count).max(1);
        ends.sequence(count, events)?;
        chunk = (2 * chunk).min(CHUNK);
    }
    Ok(())
}

/// Fills a queue without an acceptor, and begins some more connections: their SYNs are dropped.
/// Then the far end accepts, and those come with the SYN that is sent again.
fn full(
    opener: &mut Opener<'_>,
    dialer: &mut Dialer,
    line: &mut Line,
    plan: &Plan<'_>,
) -> Result<Events> {
    let mut events = Events::default();
    let mut held: Vec<Pending> = Vec::new();
    let mut dropped: Vec<Pending> = Vec::new();
    let mut soon = SOON;
    while dropped.len() < DROPPED {
        let most = plan.backlog as usize + SPARE;
        ensure!(
            held.len() <= most,
            "a queue of length {} took {} connections and is still not full",
            plan.backlog,
            held.len()
        );
        let pending = opener.begin()?;
        // Once it is full it stays so.
        let patience = match dropped.is_empty() {
            true => soon,
            false => Duration::ZERO,
        };
        match wait(opener, &pending, patience)? {
            Some(ns) => {
                soon = soon.max(Duration::from_nanos((SOON_FACTOR * ns) as u64));
                events.connect.push(ns);
                say(&pending, dialer)?;
                held.push(pending);
            }
            None => dropped.push(pending),
        }
    }
    let all = held.len() + dropped.len();
    line.tell(&Wish::Drain(all as u64))?;
    let until = Instant::now() + opener.limit;
    while !dropped.is_empty() {
        ensure!(
            Instant::now() < until,
            "{} of {DROPPED} connections with a dropped SYN did not complete within {:?}",
            dropped.len(),
            opener.limit
        );
        let mut waiting = Vec::new();
        for pending in dropped {
            match opener.arrived(&pending)? {
                Some(ns) => {
                    events.connect_late.push(ns);
                    say(&pending, dialer)?;
                    held.push(pending);
                }
                None => waiting.push(pending),
            }
        }
        dropped = waiting;
        std::thread::yield_now();
    }
    let _: u64 = line.hear(PATIENCE)?;
    for pending in &held {
        reset(&pending.socket)?;
    }
    events.count = all as u64;
    Ok(events)
}

fn say(pending: &Pending, dialer: &mut Dialer) -> Result<()> {
    let token = dialer.preamble();
    // It fits into an empty buffer: nothing waits.
    (&pending.socket).write_all(&token).context("sending a token")
}

fn refused(opener: &mut Opener<'_>, plan: &Plan<'_>) -> Result<Events> {
    let mut events = Events::default();
    for _ in 0..plan.warm_up {
        opener.refused()?;
    }
    let began = Instant::now();
    while events.count < plan.connections {
        if began.elapsed() > plan.window && events.count >= 6 {
            break;
        }
        events.connect.push(opener.refused()?);
        events.count += 1;
    }
    Ok(events)
}

fn record_opened(bench: &mut Bench, case: &Case, events: &Events, used: Option<u64>) -> Result<()> {
    let samples = bench.record(case, "connect", events.connect.clone())?;
    let late = &events.connect_late;
    samples.set_quantities([("late_share", late.len() as f64 / events.count.max(1) as f64)]);
    samples.set_quantities(used.map(|used| ("ports_in_use", used as f64)));
    let Some(least_ns) = late.iter().copied().reduce(f64::min) else {
        return Ok(());
    };
    // Connections whose SYN was sent again are a mode of their own.
    samples.notes.push(format!(
        "late: {} of {} connections needed a retransmitted SYN and took at least {:.3} s; they \
         count only in connect_late",
        late.len(),
        events.count,
        least_ns / 1e9
    ));
    bench.record(case, "connect_late", late.clone())?;
    Ok(())
}

fn record(
    bench: &mut Bench,
    case: &Case,
    plan: &Plan<'_>,
    gathered: Gathered,
    used: Option<u64>,
) -> Result<()> {
    let events = &gathered.events;
    ensure!(
        !events.connect.is_empty(),
        "every SYN was retransmitted: the path loses packets, or the accept queue is full"
    );
    record_opened(bench, case, events, used)?;
    let lists = [
        ("socket_connect", &events.socket_connect),
        ("client_close", &events.client.close_ns),
        ("client_fin", &events.client.fin_ns),
        ("server_close", &events.server.close_ns),
        ("server_fin", &events.server.fin_ns),
        ("accepted", &events.accepted),
    ];
    // Two hosts have two clocks.
    let has = |metric| metric != "accepted" || plan.method.ends != Ends::TwoHosts;
    for (metric, values) in lists.into_iter().filter(|(metric, _)| has(*metric)) {
        bench.record(case, metric, values.clone())?;
    }
    let (count, warm_up) = (events.count, gathered.warm_up);
    let samples =
        bench.record(case, "accept_rate", Values::batches(gathered.queue, gathered.rates))?;
    if count < plan.asked || warm_up < plan.warm_up_asked {
        samples.notes.push(format!(
            "{count} connections after a warm-up of {warm_up}, instead of {} and {}: ports, the \
             TIME_WAIT table or the case's time allow no more",
            plan.asked, plan.warm_up_asked
        ));
    }
    samples.set_quantities([("warm_up_connections", warm_up as f64)]);
    bench.record(case, "accept_cpu", Values::batches(gathered.queue, gathered.cpus_ns))?;
    let ends = if plan.method.ends == Ends::OneThread { 1 } else { 2 };
    let of_ends = [("cpu_near", &events.client), ("cpu_far", &events.server)];
    for (metric, closes) in of_ends.into_iter().take(ends) {
        let count = closes.close_ns.len();
        ensure!(count > 0, "no connection was closed");
        let each_ns = closes.cpu_ns as f64 / count as f64;
        bench.record(case, metric, Values::batches(count as u64, vec![each_ns]))?;
    }
    Ok(())
}
