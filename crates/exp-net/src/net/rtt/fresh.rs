//! Each exchange on a connection of its own: socket, connect, a message and its echo.

use super::echo::{Ask, FarCounts, limit_ns};
use crate::net::place::{self, Usage, thread_cpu_ns as cpu_ns};
use crate::net::wire::timed::{Echoed, Messages, Plan, Ran, Socket, is_same, stamp};
use crate::net::wire::{
    Acceptor, Call, Dialer, Line, PATIENCE, PREAMBLE_BYTES, Purpose, completed, unix_address,
};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::{Clock, FarEnd};
use laws::net::rtt::{Exchange, Protocol};
use metal::deadline::Deadline;
use metal::socket::{Wait, incoming_cpu};
use metal::{clock, sleep};
use socket2::{SockAddr, Type};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const MOST: usize = 1000;
/// Not timed: they find everything cold.
const WARM_UP: usize = 4;
/// How often the acceptor checks that the near end is still there; and a stranger that sends
/// nothing in this time is dropped, because the near end waits behind it.
const LOOK: Duration = Duration::from_millis(100);
/// And against another host, whose message may have to be sent again.
const LOOK_FAR: Duration = Duration::from_secs(2);
/// Where in a message, after its preamble, its number is, and what is no number: the near end has
/// enough.
const NUMBER_AT: usize = PREAMBLE_BYTES;
const ENOUGH: u64 = u64::MAX;

/// Exchanges with the UNIX socket of a name, or with the acceptor.
pub(super) fn run(
    dialer: &mut Dialer,
    name: Option<&str>,
    of: &Exchange,
    plan: &Plan,
    clock: Clock,
) -> Result<Ran> {
    let to = name.map_or_else(|| Ok(dialer.address.into()), unix_address)?;
    let mut messages = Messages::one_by_one(usize::try_from(of.message)?, true);
    let mut ran = Ran { ticks: vec![1; MOST], ..Ran::default() };
    ran.ticks.clear();
    let (mut until, mut before_ns) = (u64::MAX, 0);
    // Every exchange begins before the window's end: one that is interrupted took its limit. A
    // time-out of the socket's own would be a timer at each wait.
    let limit = Duration::from_nanos(limit_ns(of) as u64);
    let deadline = Deadline::after(WARM_UP as u32 * limit).context("a deadline")?;
    let again = || bail!("an exchange did not complete within {limit:?}");
    let is_back = |sent: &[u8], back: &[u8]| {
        ensure!(
            is_same(&sent[NUMBER_AT..], &back[NUMBER_AT..]),
            "the reply differs from the message"
        );
        Ok(true)
    };
    for number in 0..WARM_UP + MOST {
        if number == WARM_UP {
            let window = Duration::from_nanos(plan.window_ns as u64);
            deadline.put_off(window + limit).context("a deadline")?;
            before_ns = cpu_ns();
            until = clock.start() + clock.ticks(plan.window_ns);
        }
        if clock.start() >= until {
            break;
        }
        if let Some(pause_ns) = plan.pause_ns {
            let at_ns = clock::monotonic_ns() + pause_ns as u64;
            sleep::until(clock::Clock::MONOTONIC, at_ns).context("pausing")?;
        }
        say(messages.outgoing(), &dialer.preamble(), number as u64);
        let start = clock.start();
        let socket = connect(&to)?;
        messages.exchange(&socket, Wait::Block, is_back, again)?;
        let ticks = clock.end().saturating_sub(start);
        ran.sent += 1;
        if number >= WARM_UP {
            ran.ticks.push(ticks);
            ran.timed += 1;
        }
        ran.softirq_cpu = socket.softirq_cpu();
        abort(&socket, of.protocol)?;
    }
    ran.cpu_ns = cpu_ns() - before_ns;
    // So that the far end need not wait for the end of its patience.
    say(messages.outgoing(), &dialer.preamble(), ENOUGH);
    deadline.put_off(limit).context("a deadline")?;
    messages.send(&connect(&to)?, &mut { again })?;
    Ok(ran)
}

/// A message that begins with its preamble and goes on with its number.
fn say(message: &mut [u8], preamble: &[u8], number: u64) {
    message[..NUMBER_AT].copy_from_slice(preamble);
    stamp(&mut message[NUMBER_AT..], number);
}

/// A connected socket: nothing but socket(2) and connect(2).
fn connect(to: &SockAddr) -> Result<Socket> {
    let socket = socket2::Socket::new(to.domain(), Type::STREAM, None).context("a socket")?;
    let connected = completed(socket.connect(to)).context("connecting")?;
    connected.context("the far end did not accept a connection in time")?;
    Ok(socket.into())
}

/// Has a TCP connection end without the wait that would keep its port (TIME_WAIT); a UNIX one as
/// always.
fn abort(socket: &Socket, protocol: Protocol) -> Result<()> {
    if protocol == Protocol::Tcp {
        socket.options().set_linger(Some(Duration::ZERO))?;
    }
    Ok(())
}

pub(super) fn serve(
    acceptor: &mut Acceptor,
    far: &mut FarEnd,
    call: &mut Call,
    of: &Exchange,
) -> Result<()> {
    let cpus = place::pin_far(far, &call.case, of.ends)?;
    let window = call.ask::<Ask>()?.window();
    let (listener, name) = match of.protocol {
        Protocol::Unix => acceptor.listen_unix().map(|(listener, name)| (listener, Some(name)))?,
        // Another descriptor of the same socket.
        _ => (socket2::Socket::from(acceptor.listener.try_clone()?), None),
    };
    let limit = Duration::from_nanos(limit_ns(of) as u64);
    let until = Instant::now() + 2 * PATIENCE + limit + window;
    let look = match far.order().far_address {
        Some(_) => LOOK_FAR,
        None => LOOK,
    };
    // Connections inherit the time-out and TCP_NODELAY.
    listener.set_nonblocking(false)?;
    listener.set_read_timeout(Some(look))?;
    if of.protocol == Protocol::Tcp {
        listener.set_tcp_nodelay(true)?;
        ensure!(listener.tcp_nodelay()?, "cannot set TCP_NODELAY");
    }
    call.line.tell(&name)?;
    let usage = Usage::begin(&cpus);
    call.line.tell(&"ready")?;
    let accepted = accept_all(acceptor, &listener, of, &call.line, until);
    // The acceptor's own loop polls first and must never wait in accept.
    listener.set_nonblocking(true)?;
    let told = FarCounts { used: usage.end(), cpu: place::only(&cpus), ..accepted? };
    far.planned_switches(4 * told.messages);
    call.line.tell(&told)
}

fn accept_all(
    acceptor: &mut Acceptor,
    listener: &socket2::Socket,
    of: &Exchange,
    line: &Line,
    until: Instant,
) -> Result<FarCounts> {
    let mut message = vec![1; usize::try_from(of.message)?];
    let mut told = FarCounts::default();
    let mut first_ns = None;
    loop {
        let accepted = match listener.accept() {
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => None,
            accepted => completed(accepted).context("accepting")?,
        };
        match accepted {
            Some((mut socket, _)) => {
                first_ns.get_or_insert_with(cpu_ns);
                // TCP's inherits it.
                if of.protocol == Protocol::Unix {
                    socket.set_read_timeout(Some(LOOK))?;
                }
                match serve_one(acceptor, &mut socket, &mut message) {
                    Ok(ENOUGH) => break,
                    Ok(_) => {
                        let softirq_cpu = incoming_cpu(socket.as_fd()).unwrap_or(None);
                        told.add(Echoed { messages: 1, cpu_ns: 0, softirq_cpu });
                    }
                    // A stranger, or one that is gone: the near end knows what it has had.
                    Err(_) => {}
                }
            }
            None if !line.is_quiet() => break,
            None => {}
        }
        ensure!(Instant::now() < until, "the near end did not stop");
    }
    told.cpu_ns = first_ns.map_or(0, |first| cpu_ns() - first);
    Ok(told)
}

/// Reads a message, lets its preamble in, sends it back and waits for the end; its number.
fn serve_one(
    acceptor: &mut Acceptor,
    socket: &mut socket2::Socket,
    message: &mut [u8],
) -> Result<u64> {
    socket.read_exact(message).context("a stranger: no complete message arrived in time")?;
    let (preamble, rest) = message.split_at(PREAMBLE_BYTES);
    let token = acceptor.check_said(preamble, Purpose::Data)?;
    let number = rest.first_chunk::<8>().map_or(0, |number| u64::from_le_bytes(*number));
    if number == ENOUGH {
        return Ok(number);
    }
    socket.write_all(message).context("sending back")?;
    // While the near end has its time.
    acceptor.expect_after(token);
    // The near end closes first, so that no port waits here; it may reset.
    let _ = socket.read(&mut [0]);
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::connect;
    use socket2::SockAddr;
    use std::net::TcpListener;

    /// What is timed is socket(2) and connect(2), and no timer at each wait.
    #[test]
    fn a_fresh_connection_has_no_limits_of_its_own() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listens");
        let to = SockAddr::from(listener.local_addr().expect("an address"));
        let socket = connect(&to).expect("connects");
        assert_eq!(socket.options().read_timeout().expect("is told"), None);
        assert_eq!(socket.options().write_timeout().expect("is told"), None);
    }
}
