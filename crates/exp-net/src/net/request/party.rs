//! Both ends of a case. The near end's side: its connections, its loops, and what it writes down.
//! The far end: a server of one thread that sleeps until something is there, and answers each
//! request by itself.

use super::loops::{Account, Connection, INBOX_BYTES, Near, Trip, due};
use super::{longest_ns, window_ns};
use crate::net::place::{Usage, Used, near_cpus, pin_far};
use crate::net::wire::timed::{Messages, Socket, Taken};
use crate::net::wire::{Acceptor, Call, Dialer, Line, PATIENCE};
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::request::{Asked, Requests, Schedule};
use metal::readiness::Readiness;
use metal::socket::{Wait, incoming_cpu};
use serde::{Deserialize, Serialize};
use stats::quantile::median;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Requests before the first that counts.
const WARM_UP: usize = 64;
const REHEARSAL_WARM_UP: usize = 4;
/// A reply is waited for so many times as long as the median of the warm-up, at least.
const TIMEOUT_TRIPS: f64 = 10.0;
/// Time-outs of the warm-up, before any round trip is known, in ns.
const FIRST_TIMEOUT_NS: f64 = 2e9;
const CLOSED_LEAST: usize = 20;

pub(super) struct Party {
    near: Near,
    line: Line,
    cpus: Vec<usize>,
}

pub(super) struct Round {
    pub(super) account: Account,
    timeout_ns: f64,
    near: Used,
    far: Used,
    served: u64,
    /// Where the kernel handled the first connection's packets, at each end.
    softirq_cpus: [Option<usize>; 2],
}

impl Party {
    pub(super) fn new(
        bench: &Bench,
        case: &Case,
        of: &Requests,
        dialer: &mut Dialer,
    ) -> Result<Party> {
        let cpus = near_cpus(bench, case)?;
        let mut line = dialer.call(case, &())?;
        let sockets = dialer.sockets(&mut line, of.protocol, usize::try_from(of.connections)?)?;
        line.heed(FarAnswer::Ready)?;
        let bytes = usize::try_from(of.message)?;
        let connection = |socket| Connection::new(socket, bytes);
        let connections = sockets.into_iter().map(connection).collect::<Result<_>>()?;
        let clock = bench.order().clock();
        let near = Near { clock, connections, timeout: clock.ticks(FIRST_TIMEOUT_NS), first: 0 };
        Ok(Party { near, line, cpus })
    }

    /// Requests before those that count; from then on time-outs are known.
    pub(super) fn warm_up(&mut self, bench: &Bench, series: &Series) -> Result<()> {
        let least = match bench.order().rehearsal {
            true => REHEARSAL_WARM_UP,
            false => WARM_UP,
        };
        let trips = self.near.closed_loop(0.0, least)?;
        let timeout = self.near.timeout;
        let middle_ns = median(&Account::from_trips(self.near.clock, &trips, timeout)?.service.ns);
        let told_ns = series.setting("timeout").unwrap_or(0) as f64;
        let timeout_ns = told_ns.max(TIMEOUT_TRIPS * middle_ns.unwrap_or(0.0));
        self.near.timeout = self.near.clock.ticks(timeout_ns);
        Ok(())
    }

    /// Each connection's next request after the reply to its last.
    pub(super) fn closed_loop(&mut self, window_ns: u64) -> Result<Round> {
        let least = CLOSED_LEAST.min(window_ns as usize / 1000).max(4);
        self.counted(None, |near| near.closed_loop(window_ns as f64, least))
    }

    /// Requests by a schedule; shares are of `closed_rate` replies a second.
    pub(super) fn open_loop(
        &mut self,
        bench: &Bench,
        series: &Series,
        case: &Case,
        requests: &Requests,
        closed_rate: f64,
    ) -> Result<Round> {
        let rate = match requests.asked() {
            Asked::Closed => bail!("{} has no schedule", case.id),
            Asked::Share(share) => share * closed_rate,
            Asked::Rate(rate) => rate,
        };
        let window_ns = window_ns(series, bench.order().case_ns);
        let mut seed = DefaultHasher::new();
        (bench.order().seed, case.id.to_string()).hash(&mut seed);
        let due_ns = due(
            requests.schedule.unwrap_or(Schedule::Fixed),
            rate,
            window_ns as f64,
            longest_ns(window_ns) as f64,
            seed.finish(),
        )?;
        let stall = series.setting("stall").filter(|ns| *ns > 0);
        let stall = stall.map(|ns| Stall { before: due_ns.len() as u64 / 2, ns });
        let clock = self.near.clock;
        let due: Vec<u64> = due_ns.into_iter().map(|ns| clock.ticks(ns)).collect();
        self.counted(stall, |near| near.open_loop(&due))
    }

    /// A loop between the begin and the end of what both ends count.
    fn counted(
        &mut self,
        stall: Option<Stall>,
        run: impl FnOnce(&mut Near) -> Result<Vec<Trip>>,
    ) -> Result<Round> {
        self.line.tell(&Said::Begin(stall))?;
        self.line.heed(FarAnswer::Begun)?;
        let usage = Usage::begin(&self.cpus);
        let trips = run(&mut self.near)?;
        let near = usage.end();
        self.line.tell(&Said::End)?;
        let FarAnswer::Counted { served, used, softirq_cpu } = self.line.hear(PATIENCE)? else {
            bail!("the far end sent no counts");
        };
        Ok(Round {
            account: Account::from_trips(self.near.clock, &trips, self.near.timeout)?,
            timeout_ns: self.near.clock.ns(self.near.timeout),
            near,
            far: used,
            served,
            softirq_cpus: [
                self.near.connections.first().and_then(|first| first.socket.softirq_cpu()),
                softirq_cpu,
            ],
        })
    }
}

impl Round {
    pub(super) fn record(self, bench: &mut Bench, case: &Case, of: &Requests) -> Result<()> {
        let account = self.account;
        let limit = self.timeout_ns;
        let lost = account.lost();
        let replies = account.count - account.no_reply - account.never_sent;
        if of.asked() != Asked::Closed {
            bench.record(case, "response", account.response.values(limit))?;
            bench.record(case, "lateness", account.lateness.values(limit))?;
            let ratio = account.rate / account.asked;
            bench.record(case, "rate_ratio", Values::batches(account.count, vec![ratio]))?;
        }
        bench.record(case, "service", account.service.values(limit))?;
        let samples = bench.record(case, "rate", Values::batches(replies, vec![account.rate]))?;
        samples.set_quantities([
            ("asked_per_s", account.asked),
            ("requests", account.count as f64),
            ("never_sent", account.never_sent as f64),
            ("no_reply", account.no_reply as f64),
            ("served", self.served as f64),
            ("timeout_ns", limit),
        ]);
        bench.record(case, "lost", Values::batches(account.count, vec![lost]))?;
        let of_near = self.near.each_ns(replies);
        let samples = bench.record(case, "cpu_near", Values::batches(replies, vec![of_near]))?;
        self.near.describe(self.softirq_cpus[0], samples);
        let served = self.served;
        // A far end that served fewer requests than there are replies did not send them.
        ensure!(
            served >= replies,
            "{replies} replies arrived, but the far end counted only {served} requests"
        );
        let of_far = self.far.each_ns(served);
        let samples = bench.record(case, "cpu_far", Values::batches(served, vec![of_far]))?;
        self.far.describe(self.softirq_cpus[1], samples);
        Ok(())
    }
}

/// A near end that takes no reply for so long, several times, is gone.
const REPLY_TIME: Duration = Duration::from_secs(2);
/// No case has more connections.
const CONNECTIONS_MAX: u64 = 1024;
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// A stall of the server, to test how a measurement handles it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stall {
    /// Before the reply to the so many-th request, from 0.
    pub(super) before: u64,
    pub(super) ns: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Begin(Option<Stall>),
    End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FarAnswer {
    Ready,
    Begun,
    Counted {
        served: u64,
        used: Used,
        /// The CPU on which the kernel last handled a request of the first connection.
        softirq_cpu: Option<usize>,
    },
}

/// One of the server's sockets, and its messages.
struct Served {
    socket: Socket,
    messages: Messages,
}

/// Counts since the last [`Said::Begin`].
struct Count {
    usage: Usage,
    served: u64,
    stall: Option<Stall>,
}

pub(super) fn serve(acceptor: &mut Acceptor, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let of: Requests = call.decode()?;
    let cpus = pin_far(far, &call.case, of.ends)?;
    ensure!(
        (1..=CONNECTIONS_MAX).contains(&of.connections)
            && (1..=MESSAGE_BYTES_MAX).contains(&of.message),
        "{of:?} exceeds the far end's limits"
    );
    let (count, bytes) = (usize::try_from(of.connections)?, usize::try_from(of.message)?);
    let sockets = acceptor.sockets(far, &mut call.line, of.protocol, count)?;
    let mut all = Vec::new();
    for socket in sockets {
        socket.options().set_write_timeout(Some(REPLY_TIME))?;
        let messages = Messages::new(bytes, INBOX_BYTES);
        all.push(Served { socket, messages });
    }
    call.line.tell(&FarAnswer::Ready)?;
    run(&mut all, call, &cpus)
}

/// Until the line ends.
fn run(all: &mut [Served], call: &mut Call, cpus: &[usize]) -> Result<()> {
    let line = call.line.fd().try_clone_to_owned()?;
    let sockets: Vec<OwnedFd> = all
        .iter()
        .map(|served| Ok(served.socket.as_fd().try_clone_to_owned()?))
        .collect::<Result<_>>()?;
    let fds = sockets.iter().chain([&line]).map(AsFd::as_fd);
    let mut ready = Readiness::new(fds.collect::<Vec<BorrowedFd<'_>>>());
    let of_line = all.len();
    let mut count = Count { usage: Usage::begin(cpus), served: 0, stall: None };
    loop {
        if !ready.wait(PATIENCE)? {
            bail!("the near end sent nothing for {} s", PATIENCE.as_secs());
        }
        for (place, one) in all.iter_mut().enumerate() {
            if ready.is_ready(place) && !one.answer(&mut count)? {
                ready.forget(place);
            }
        }
        if !ready.is_ready(of_line) {
            continue;
        }
        if !call.line.is_open() {
            return Ok(());
        }
        match call.line.hear(PATIENCE)? {
            Said::Begin(stall) => {
                count = Count { usage: Usage::begin(cpus), served: 0, stall };
                call.line.tell(&FarAnswer::Begun)?;
            }
            Said::End => {
                let used = std::mem::replace(&mut count.usage, Usage::begin(cpus)).end();
                let served = count.served;
                let first = sockets.first().map(AsFd::as_fd);
                call.line.tell(&FarAnswer::Counted {
                    served,
                    used,
                    softirq_cpu: first.and_then(|fd| incoming_cpu(fd).unwrap_or(None)),
                })?;
            }
        }
    }
}

impl Served {
    /// Takes in what is there and answers each request; `false` where no more will come. One whose
    /// connection broke has left its case by itself and knows why.
    fn answer(&mut self, count: &mut Count) -> Result<bool> {
        match self.messages.echo(&self.socket, Wait::Block, || count.one_more()) {
            Err(error) if is_reset(&error) => Ok(false),
            taken => Ok(taken? != Taken::End),
        }
    }
}

fn is_reset(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

impl Count {
    fn one_more(&mut self) {
        if let Some(stall) = self.stall.filter(|stall| stall.before == self.served) {
            std::thread::sleep(Duration::from_nanos(stall.ns));
        }
        self.served += 1;
    }
}
