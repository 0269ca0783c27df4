//! Pairs of sockets for tests, and a lock.

use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A TCP connection over loopback: the end that connected, and the other.
pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("connects");
    (near, listener.accept().expect("somebody connected").0)
}

/// A port of this machine at which no program answers.
pub(crate) fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    listener.local_addr().expect("it is bound").port()
}

/// Nothing is loaded while a child is forked: it would find the loader's lock held for ever.
pub(crate) fn loading() -> MutexGuard<'static, ()> {
    static LOADING: Mutex<()> = Mutex::new(());
    LOADING.lock().unwrap_or_else(PoisonError::into_inner)
}
