//! Connections from accept(2) to the end of the handshake.

use super::handshake::{Refusal, Responder, Secured};
use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Bytes read at once from a connection in its handshake.
const READ_BYTES: usize = 1024;

/// A socket that listens at an address and does not block; the kernel queues at most `backlog`
/// connections. Errors: the address is not this host's, or taken.
pub fn listener(address: SocketAddr, backlog: i32) -> Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok::<Socket, io::Error>(socket)
    };
    Ok(listen().with_context(|| format!("cannot listen at {address}"))?.into())
}

/// The state of a handshake.
pub enum Admission {
    /// More bytes must arrive.
    Pending,
    /// The client has a key.
    Secured(Box<Secured>),
    /// The client speaks another protocol or has another key.
    Refused(Refusal),
    /// The connection is of no more use, and why.
    Closed(String),
}

/// Reads what has arrived and answers it.
pub fn advance(stream: &mut TcpStream, responder: &mut Responder) -> Admission {
    use io::ErrorKind::{Interrupted, WouldBlock};
    let mut bytes = [0; READ_BYTES];
    let read = match stream.read(&mut bytes) {
        Ok(0) => {
            return Admission::Closed("it closed the connection during the handshake".to_owned());
        }
        Ok(read) => read,
        Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => {
            return Admission::Pending;
        }
        Err(error) => return Admission::Closed(error.to_string()),
    };
    let mut out = Vec::new();
    let fed = responder.feed(&bytes[..read], &mut out);
    // The answers of a handshake fit the buffer of a new connection.
    if !out.is_empty() && !matches!(stream.write(&out), Ok(written) if written == out.len()) {
        return Admission::Closed("it does not read what is sent to it".to_owned());
    }
    match fed {
        Ok(None) => Admission::Pending,
        Ok(Some(secured)) => Admission::Secured(Box::new(secured)),
        Err(refusal) => Admission::Refused(refusal),
    }
}
