//! Sockets that stay open: the near end's, and the far end, where what comes is sent back.

use crate::net::place::{self, Usage, Used};
use crate::net::wire::timed::{Echoed, LOST_MOST_NS, Prober, echo, stream_limit_ns};
use crate::net::wire::{Acceptor, Call, Dialer, Line, PATIENCE, Socket};
use anyhow::{Context, Result, ensure};
use bench::measure::{Clock, FarEnd};
use laws::net::rtt::{Exchange, Protocol};
use metal::socket::Wait;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Type};
use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    /// How long it means to take, in ns.
    pub(super) window_ns: u64,
}

impl Ask {
    /// The same, within what any preset or setting has.
    pub(super) fn window(self) -> Duration {
        Duration::from_nanos(self.window_ns).min(WINDOW_MAX)
    }
}

/// A case takes no longer: sixty of the longest pauses, and more.
const WINDOW_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FarCounts {
    /// Messages that came, all connections together.
    pub(super) messages: u64,
    /// CPU time of its threads from their first message to their last, in ns.
    pub(super) cpu_ns: u64,
    pub(super) used: Used,
    pub(super) cpu: Option<usize>,
    /// The CPUs on which packets for its connections arrived.
    pub(super) softirq_cpus: BTreeSet<usize>,
}

impl FarCounts {
    pub(super) fn add(&mut self, more: Echoed) {
        self.messages += more.messages;
        self.cpu_ns += more.cpu_ns;
        self.softirq_cpus.extend(more.softirq_cpu);
    }
}

/// Until then, and as long as the near end means to take, it is not looked for.
const LOOK: Duration = Duration::from_millis(100);
/// A case may take so much longer than the near end meant to.
const GRACE: Duration = Duration::from_secs(5);

/// How long an exchange may take at most, in ns.
pub(super) fn limit_ns(of: &Exchange) -> f64 {
    match of.protocol {
        Protocol::Udp => LOST_MOST_NS,
        Protocol::Tcp | Protocol::Unix => stream_limit_ns(of.message),
    }
}

fn wait(of: &Exchange) -> Wait {
    if of.polls() { Wait::Never } else { Wait::Block }
}

pub(super) fn serve(
    acceptor: &mut Acceptor,
    far: &mut FarEnd,
    call: &mut Call,
    of: &Exchange,
) -> Result<()> {
    let pinned = place::pin_far(far, &call.case, of.ends)?;
    let window = call.ask::<Ask>()?.window();
    let cpus = of.ends.spread(&far.order().cpus, false, of.connections);
    far.use_cpus(&cpus);
    let (count, bytes) = (usize::try_from(of.connections)?, usize::try_from(of.message)?);
    let sockets = acceptor.sockets(far, &mut call.line, of.protocol, count)?;
    let limit = Duration::from_nanos(limit_ns(of) as u64);
    let until = Instant::now() + PATIENCE + GRACE + limit + window;
    let usage = Usage::begin(&cpus);
    call.line.tell(&"ready")?;
    let line = &call.line;
    // The near end has enough, or is gone.
    let goes_on = || {
        ensure!(Instant::now() < until, "the near end did not stop");
        Ok(line.is_quiet())
    };
    // Later than the near end means to take, look whether it is still there.
    let look_after = LOOK + 2 * window;
    let echo = |socket: &Socket| echo(socket, bytes, wait(of), look_after, goes_on);
    let places = place::places(&cpus, place::is_free(&call.case));
    let echoed = place::at_once(&sockets, places, Ok, echo)?;
    let mut told =
        FarCounts { used: usage.end(), cpu: place::only(&pinned), ..FarCounts::default() };
    echoed.into_iter().for_each(|one| told.add(one));
    // Every message is a switch to this end and one from it.
    far.planned_switches(2 * told.messages);
    call.line.tell(&told)
}

/// A connection both of whose ends this thread holds.
pub(super) fn alone(of: &Exchange, clock: Clock) -> Result<Prober> {
    let (near, far) = own_pair(of.protocol).context("two sockets of one thread")?;
    Prober::new(near, Some(far), of.message, Wait::Block, (clock, limit_ns(of)))
}

/// Two connected sockets on loopback, which accept only each other.
pub(super) fn own_pair(protocol: Protocol) -> Result<(Socket, Socket)> {
    match protocol {
        Protocol::Unix => {
            let (near, far) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
            Ok((near.into(), far.into()))
        }
        Protocol::Udp => {
            let bind = || UdpSocket::bind(("127.0.0.1", 0));
            let (near, far) = (bind()?, bind()?);
            near.connect(far.local_addr()?)?;
            far.connect(near.local_addr()?)?;
            Ok((near.into(), far.into()))
        }
        Protocol::Tcp => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            let address = near.local_addr()?;
            // Whoever else came first is dropped.
            let far = loop {
                let (far, from) = listener.accept()?;
                if from == address {
                    break far;
                }
            };
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            ensure!(near.nodelay()? && far.nodelay()?, "cannot set TCP_NODELAY");
            Ok((near.into(), far.into()))
        }
    }
}

/// All connections of a case, open at both ends.
pub(super) fn connect(
    dialer: &mut Dialer,
    line: &mut Line,
    of: &Exchange,
    clock: Clock,
) -> Result<Vec<Prober>> {
    let sockets = dialer.sockets(line, of.protocol, usize::try_from(of.connections)?)?;
    let limit_ns = limit_ns(of);
    let prober = |socket| Prober::new(socket, None, of.message, wait(of), (clock, limit_ns));
    sockets.into_iter().map(prober).collect()
}
