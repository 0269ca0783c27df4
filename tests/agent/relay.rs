//! A relay between a session and its agent, whose connections the test cuts.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A relay. It goes on until the test ends.
pub struct Relay {
    pub address: SocketAddr,
    connections: Arc<Mutex<Connections>>,
}

#[derive(Default)]
struct Connections {
    count: usize,
    /// Both ends of those that were not cut.
    streams: Vec<TcpStream>,
}

impl Relay {
    pub fn to(agent: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Relay { address, connections: Arc::default() };
        let connections = Arc::clone(&relay.connections);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(agent) else { continue };
                let [near_copy, far_copy] = [&near, &far].map(|end| end.try_clone().unwrap());
                let ends = [&near, &far].map(|end| end.try_clone().unwrap());
                let mut connections = connections.lock().unwrap();
                connections.count += 1;
                connections.streams.extend(ends);
                thread::spawn(move || copy(near_copy, far_copy));
                thread::spawn(move || copy(far, near));
            }
        });
        relay
    }

    pub fn cut(&self) {
        for stream in self.connections.lock().unwrap().streams.drain(..) {
            // It may be over.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn count(&self) -> usize {
        self.connections.lock().unwrap().count
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // Either end may be cut.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
