//! A long cable: what comes out of one TAP goes into the other so much later. Each frame is stamped
//! when it came in and when it was let out, so that there are times which plumb has not taken.

use crate::frames::{Frame, parse};
use metal::{place, tap};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Frames that are on the way in one direction; what does not fit is lost, as in a switch.
const QUEUE: usize = 8192;
/// More than any frame has.
const LONGEST: usize = 9216;
/// Above everything that is not a relay: its stamps are to be those of the frames.
const PRIORITY: i32 = 50;

/// The direction of a frame: up is from the near end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

/// A frame that went through.
#[derive(Clone, Debug)]
pub struct Passed {
    pub way: Way,
    pub frame: Frame,
    /// Since the relay's start.
    pub read_ns: f64,
    pub written_ns: f64,
}

/// What a relay knows of the frames that went through it so far.
#[derive(Clone, Default)]
pub struct Log {
    passed: Arc<Mutex<Vec<Passed>>>,
}

/// The threads of a relay. They end when their interfaces are deleted: the lab does that, and drops
/// this value then.
pub struct Relay {
    threads: Vec<JoinHandle<()>>,
    pub log: Log,
}

struct Held {
    frame: Vec<u8>,
    read: Instant,
}

impl Relay {
    /// Makes the interface `name` in both namespaces and joins them; both are still down.
    pub fn start(near: &Path, far: &Path, name: &str, delay: Duration) -> Relay {
        let name = CString::new(name).unwrap();
        let open = |net: &Path| {
            let net = File::open(net).unwrap();
            tap::open_in(&net, &name).expect("a TAP needs root and /dev/net/tun")
        };
        let (near, far) = (open(near), open(far));
        let log = Log::default();
        let start = Instant::now();
        let mut threads = Vec::new();
        for (way, from, to) in [(Way::Up, &near, &far), (Way::Down, &far, &near)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (send, receive) = sync_channel(QUEUE);
            threads.push(thread::spawn(move || take(from, &send)));
            let log = log.clone();
            threads.push(thread::spawn(move || {
                let_out(to, &receive, delay, |held, written| {
                    log.note(way, held, start, written);
                })
            }));
        }
        Relay { threads, log }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // One that has panicked has told so already.
            let _ = thread.join();
        }
    }
}

/// Reads frames until the interface is gone.
fn take(mut from: File, to: &SyncSender<Held>) {
    // Where it is not allowed the stamps are later, and still true.
    let _ = place::fifo(PRIORITY);
    let mut buffer = [0; LONGEST];
    while let Ok(length) = from.read(&mut buffer) {
        let read = Instant::now();
        let frame = buffer[..length].to_vec();
        // A full queue loses it.
        let _ = to.try_send(Held { frame, read });
    }
}

/// Lets frames out when their time has come, until no more are taken.
fn let_out(
    mut to: File,
    from: &Receiver<Held>,
    delay: Duration,
    mut note: impl FnMut(&Held, Instant),
) {
    let _ = place::fifo(PRIORITY);
    for held in from {
        thread::sleep((held.read + delay).saturating_duration_since(Instant::now()));
        let written = Instant::now();
        // An interface that is down takes nothing.
        if to.write(&held.frame).is_ok() {
            note(&held, written);
        }
    }
}

impl Log {
    fn note(&self, way: Way, held: &Held, start: Instant, written: Instant) {
        let Some(frame) = parse(&held.frame) else { return };
        let since = |at: Instant| (at - start).as_nanos() as f64;
        let passed = Passed { way, frame, read_ns: since(held.read), written_ns: since(written) };
        self.passed.lock().unwrap().push(passed);
    }

    /// What has gone through since the last call, in the order in which it was let out.
    pub fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut self.passed.lock().unwrap())
    }
}
