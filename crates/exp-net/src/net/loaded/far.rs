//! The far end: answers round trips in one thread, beside the traffic's.

use super::traffic::{Counted, Traffic, Window};
use crate::net::ends::{Call, Door, Line, NO_PORTS, PATIENCE, Socket};
use crate::net::place::{only, pin_far, placed};
use crate::net::usage::Turns;
use anyhow::{Context, Result, bail, ensure};
use bench::measure::FarEnd;
use laws::net::Protocol;
use laws::net::loaded::{Beside, Direction};
use metal::socket::incoming_cpu;
use record::case::Case;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// More streams each way are not served.
const STREAMS_MAX: usize = 256;
/// Nor longer messages.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// A case that is over is looked for this often.
const LOOK: Duration = Duration::from_millis(100);

/// A stream that brings nothing for so long after its window is silent.
const FIRST_PIECE_TIME: Duration = Duration::from_secs(2);

/// Streams of the traffic up and down.
pub(super) fn streams(of: &Beside) -> [usize; 2] {
    let count = usize::try_from(of.streams).unwrap_or(usize::MAX);
    match of.direction {
        Direction::Up => [count, 0],
        Direction::Down => [0, count],
        Direction::Both => [count; 2],
    }
}

/// What the near end says in a case, in this order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// The traffic begins.
    Go,
    /// What is counted begins.
    Window,
    Stop,
}

/// What the far end says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// All connections are there.
    Ready,
    /// What it counted in the window.
    Counted(Counted),
}

/// Serves one case.
///
/// # Errors
/// A connection did not come, or the near end says something else.
pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let of: Beside = call.decode()?;
    let mut cpus = pin_far(far, &call.case, of.ends)?;
    let cpu = only(&cpus);
    let traffic_cpu = cpu.map(|cpu| traffic_cpu(far, &call.case, cpu));
    cpus.extend(traffic_cpu);
    far.use_cpus(&cpus);
    let [count_up, count_down] = streams(&of);
    ensure!(
        count_up.max(count_down) <= STREAMS_MAX && (1..=MESSAGE_BYTES_MAX).contains(&of.message),
        "{of:?} is more than is served"
    );
    let datagrams = match of.protocol {
        Protocol::Tcp => {
            call.line.tell(&NO_PORTS)?;
            Vec::new()
        }
        Protocol::Udp => door.sockets(far, &mut call.line, Protocol::Udp, 1)?,
    };
    // In the order in which the near end makes them: that of the round trips, those up, those down.
    let own = 1 - datagrams.len();
    let mut all = door.admit_all(own + count_up + count_down, Instant::now() + PATIENCE)?;
    let down = all.split_off(own + count_up);
    let up = all.split_off(own);
    let own = all.into_iter().map(Socket::Stream);
    let prober = datagrams.into_iter().chain(own).next().context("no socket for round trips")?;
    let answers = Answers::start(prober, usize::try_from(of.message)?, cpu)?;
    call.line.tell(&Told::Ready)?;
    let Said::Go = call.line.hear(PATIENCE)? else {
        bail!("the near end does not say that the traffic begins");
    };
    let turns = Turns::begin();
    let traffic = Traffic::start(down, up, traffic_cpu)?;
    let Said::Window = call.line.hear(PATIENCE)? else {
        bail!("the near end does not say that the window begins");
    };
    let window = Window::begin(&traffic, &cpus, far.clock());
    let Said::Stop = call.line.hear(PATIENCE)? else {
        bail!("the near end does not say that all ends");
    };
    let late = Instant::now() + FIRST_PIECE_TIME;
    while count_up > 0 && window.is_empty(&traffic) && Instant::now() < late {
        thread::sleep(Duration::from_millis(1));
    }
    let softirq_cpu = incoming_cpu(answers.socket.as_fd()).unwrap_or(None);
    call.line.tell(&Told::Counted(window.end(&traffic, softirq_cpu)))?;
    drop(traffic);
    if traffic_cpu.is_none() || cpu == traffic_cpu {
        far.planned_switches(turns.taken());
    }
    until_gone(&call.line)
}

/// The near end goes on with round trips until the queues are empty, and leaves.
fn until_gone(line: &Line) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while line.is_open() && Instant::now() < until {
        line.speaks(LOOK)?;
    }
    Ok(())
}

/// The CPU of the traffic's threads: on another host a second one of its own, if it has one.
fn traffic_cpu(far: &FarEnd, case: &Case, cpu: usize) -> usize {
    match far.order().far_address {
        None => placed(case, "far_traffic_cpu").unwrap_or(cpu),
        Some(_) => far.order().cpus.get(1).copied().unwrap_or(cpu),
    }
}

/// The thread that answers round trips, until this is dropped.
struct Answers {
    is_over: Arc<AtomicBool>,
    socket: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    fn start(prober: Socket, bytes: usize, cpu: Option<usize>) -> Result<Answers> {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        // Nothing waits with a time-out, which would cost a timer at each wait: the end is an end
        // of the socket's.
        let socket = prober.as_fd().try_clone_to_owned()?;
        SockRef::from(&socket).set_read_timeout(None)?;
        let work = move || {
            // Whoever made this thread is on that CPU: then this one is as well.
            cpu.map(metal::place::pin);
            let mut message = vec![0; bytes + 1];
            match prober {
                Socket::Stream(mut stream) => {
                    let message = &mut message[..bytes];
                    while stream.read_exact(message).is_ok() && stream.write_all(message).is_ok() {}
                }
                Socket::Datagram(socket) => {
                    while !over.load(Ordering::Relaxed) {
                        // What the kernel tells of lost answers is no end.
                        if let Ok(got) = socket.recv(&mut message)
                            && got == bytes
                        {
                            let _ = socket.send(&message[..got]);
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("answers".to_owned());
        let thread = thread.spawn(work).context("a thread for round trips")?;
        Ok(Answers { is_over, socket, thread: Some(thread) })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // One that is gone already needs no end.
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
