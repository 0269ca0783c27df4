//! A TCP connection to a name, with a time limit on each step, that a signal ends.

use crate::node::{Interrupted, wait};
use anyhow::{Context, Error, Result, anyhow, ensure};
use metal::process::{Patience, within};
use metal::wait::Want;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const RESOLVE_TIME: Duration = Duration::from_secs(10);
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ADDRESSES_MAX: usize = 4;

/// Connects to the first address of a host at which an agent answers. Errors: the host is unknown, no
/// address answers, with the way out; [`Interrupted`].
pub fn tcp(host: &str, port: u16, stop: &AtomicBool) -> Result<TcpStream> {
    let mut failure = None;
    for address in resolved(host, port, stop)?.into_iter().take(ADDRESSES_MAX) {
        match connected(address, stop) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow!("{host} has no address")))
}

/// Addresses of a host, with a port. A child asks for them: what answers for names may take long, and would not
/// hear of an interruption. Errors: the host is unknown; [`Interrupted`].
fn resolved(host: &str, port: u16, stop: &AtomicBool) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let answer = within(Patience::unless(RESOLVE_TIME, stop), |_| {
        let found =
            (host, port).to_socket_addrs().map_err(|error| io::Error::other(error.to_string()))?;
        let texts: Vec<String> = found.map(|address| address.to_string()).collect();
        Ok(texts.join("\n").into_bytes())
    });
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => Error::new(Interrupted),
        _ => anyhow!(
            "cannot resolve the host {host}: {error}; type its address, or correct the name"
        ),
    })?;
    let text = String::from_utf8(answer).context("the resolver's answer is not text")?;
    text.lines()
        .map(|line| line.parse().context("the resolver's answer is not an address"))
        .collect()
}

fn connected(address: SocketAddr, stop: &AtomicBool) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .with_context(|| format!("cannot make a socket for {address}"))?;
    socket.set_nonblocking(true)?;
    let deadline = Instant::now() + CONNECT_TIME;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(metal::raw::IN_PROGRESS) => {
            ensure!(
                ready(&[Want::Writable(socket.as_fd())], deadline, stop)?,
                "no answer from {address} within {} s: is the host up, and can this host reach it \
                 (routes, firewalls)?",
                CONNECT_TIME.as_secs()
            );
            if let Some(error) = socket.take_error()? {
                return Err(refusal(address, &error));
            }
        }
        Err(error) => return Err(refusal(address, &error)),
    }
    Ok(socket.into())
}

/// Waits for a time. Errors: [`Interrupted`].
pub fn pause(time: Duration, stop: &AtomicBool) -> Result<()> {
    ready(&[], Instant::now() + time, stop).map(|_| ())
}

/// Whether what is wanted is there before the deadline.
fn ready(wants: &[Want<'_>], deadline: Instant, stop: &AtomicBool) -> Result<bool> {
    Ok(wait("a connection", wants, Some(deadline), stop)?.contains(&true))
}

/// Why there is no connection, with the way out.
fn refusal(address: SocketAddr, error: &io::Error) -> Error {
    let way_out = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!(
                "nothing listens on that port: start `plumb agent --listen {address} --key-file FILE` \
                 on that host"
            )
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "this host has no route to it".to_owned()
        }
        _ => "is the host up?".to_owned(),
    };
    anyhow!("cannot connect to {address}: {error}; {way_out}")
}
