//! A relay between a session and its agent that the test controls: it keeps what the session said,
//! and cuts the connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A relay. It goes on until the test ends.
pub struct Relay {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

/// What came through.
#[derive(Default)]
struct Seen {
    /// Both ends of all connections.
    streams: Vec<TcpStream>,
    /// What the session of each said.
    said: Vec<Vec<u8>>,
}

impl Relay {
    pub fn to(agent: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let relay = Relay { address, seen: Arc::clone(&seen) };
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(agent) else { continue };
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.streams.extend([&near, &far].map(|end| end.try_clone().unwrap()));
                    seen.said.push(Vec::new());
                    seen.said.len() - 1
                };
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let of_session = Arc::clone(&seen);
                thread::spawn(move || {
                    pump(from, to, |bytes| {
                        of_session.lock().unwrap().said[number].extend_from_slice(bytes);
                    });
                });
                thread::spawn(move || pump(far, near, |_| {}));
            }
        });
        relay
    }

    /// Cuts all connections that there are.
    pub fn cut(&self) {
        for stream in self.seen.lock().unwrap().streams.drain(..) {
            // It may be over.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// What the session of the first connection said.
    pub fn first_said(&self) -> Vec<u8> {
        self.seen.lock().unwrap().said[0].clone()
    }

    /// Connections so far.
    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().said.len()
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        keep(&bytes[..read]);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
