//! Pairs of sockets for tests.

use std::net::{TcpListener, TcpStream};

/// A TCP connection over loopback: the end that connected, and the other.
pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("connects");
    (near, listener.accept().expect("somebody connected").0)
}
