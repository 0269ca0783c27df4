//! Ports of this host.

use anyhow::{Context, Result};
use std::fs;
use std::net::{TcpListener, UdpSocket};

/// Ports that are free now, both for TCP and for UDP.
pub(super) fn free_ports() -> Result<[u16; 4]> {
    let free = || -> std::io::Result<_> {
        let stream = TcpListener::bind("127.0.0.1:0")?;
        let port = stream.local_addr()?.port();
        Ok((port, UdpSocket::bind(("127.0.0.1", port)), stream))
    };
    let mut held = Vec::new();
    let mut ports = [0; 4];
    for port in &mut ports {
        loop {
            let (found, datagrams, stream) = free().context("no free port on loopback")?;
            // Held in either case, so that another is given next.
            held.push((stream, datagrams.ok()));
            if held.last().is_some_and(|(_, datagrams)| datagrams.is_some()) {
                *port = found;
                break;
            }
        }
    }
    Ok(ports)
}

/// Whether a TCP socket listens, or a UDP one is open, at a port of this host.
pub(super) fn is_listening(port: u16) -> bool {
    let tables = [("tcp", true), ("tcp6", true), ("udp", false), ("udp6", false)];
    tables.iter().any(|(table, is_tcp)| {
        let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next(), fields.nth(1));
            let is_here = local
                .and_then(|local| local.rsplit_once(':'))
                .is_some_and(|(_, found)| u16::from_str_radix(found, 16) == Ok(port));
            is_here && (!is_tcp || state == Some("0A"))
        })
    })
}
