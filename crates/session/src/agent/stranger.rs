//! Connections of those that have not proved a key yet.

use super::handshake::{Heard, Refusal, Responder, Secured};
use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Bytes taken from a stranger at once.
pub const STRANGER_BYTES: usize = 1024;

/// Listens at an address without waiting, with room for so many connections in the kernel. Errors:
/// the address is not this host's, or taken.
pub fn listener(at: SocketAddr, backlog: i32) -> Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok::<Socket, io::Error>(socket)
    };
    Ok(listen().with_context(|| format!("cannot listen at {at}"))?.into())
}

/// What a handshake has come to.
pub enum Shaken {
    /// More must arrive.
    Waits,
    /// It has the key.
    Secured(Box<Secured>),
    /// It is refused, and may hear this end's hello.
    Refused(Refusal),
    /// It is of no use to go on, and why.
    Gone(String),
}

/// Goes on with a handshake.
pub fn shake(stream: &mut TcpStream, responder: &mut Responder, heard: &mut Heard) -> Shaken {
    let mut bytes = [0; STRANGER_BYTES];
    let read = match stream.read(&mut bytes) {
        Ok(0) => return Shaken::Gone("it closed the connection during the handshake".to_owned()),
        Ok(read) => read,
        Err(error) if is_passing(&error) => return Shaken::Waits,
        Err(error) => return Shaken::Gone(error.to_string()),
    };
    let mut out = Vec::new();
    let fed = responder.feed(&bytes[..read], &mut out, heard);
    // What is said in a handshake fits what the kernel keeps for a new connection.
    if !out.is_empty() && !matches!(stream.write(&out), Ok(written) if written == out.len()) {
        return Shaken::Gone("it does not read what is sent to it".to_owned());
    }
    match fed {
        Ok(None) => Shaken::Waits,
        Ok(Some(secured)) => Shaken::Secured(Box::new(secured)),
        Err(refusal) => Shaken::Refused(refusal),
    }
}

/// Whether a socket only has nothing now.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}
