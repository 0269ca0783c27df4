//! An agent that listens, in the thread of the test, against clients of all kinds in others. Its
//! workers are threads, too.

mod client;
pub mod fuzz;
mod hostile;
mod session;

use super::acceptor::Agent;
use super::connection::listening;
use super::key::{Key, Keys, Named};
use super::message::{FromAgent, Open, ToAgent};
use super::options::{Options, SILENCE_MAX};
use crate::node::channel::Channel;
use crate::node::worker::Worker;
use anyhow::{Context, Result};
use bench::experiment::fixtures::rehearsal;
use bench::link::frame::{receive, send};
use bench::link::{Done, Endpoint, FromWorker, RoundOrder, ToWorker};
use record::case::{Case, Order, Series};
use record::event::Calibration;
use record::key::CaseId;
use std::cell::RefCell;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Nothing in a test that succeeds takes so long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The agent looks so often whether a client has come to its end.
const LOOK: Duration = Duration::from_millis(5);

static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Starts a worker that is a thread: it says of a calibration that its CPU is the one asked for,
/// serves a round by telling the order's address, seed and CPUs as an endpoint, and drains. It dies
/// in a round of case `messages=13`, sends more than a frame takes in one of `messages=14`, and
/// stops for ever in the middle of a frame in one of `messages=15`.
fn start_worker() -> Result<Worker> {
    let (mut orders, input) = std::io::pipe()?;
    let (answers, mut output) = std::io::pipe()?;
    std::thread::spawn(move || -> Result<()> {
        while let Some(order) = receive::<ToWorker>(&mut orders)? {
            match order {
                ToWorker::Calibrate(order) => {
                    send(&mut output, &FromWorker::Calibrated(calibration(order.cpu)))?;
                }
                ToWorker::Serve(order) => {
                    let messages = order.series.cases[0].int("messages");
                    let token = match messages {
                        Some(13) => return Ok(()),
                        Some(14) => "x".repeat(super::EVENT_BYTES_MAX),
                        Some(15) => {
                            output.write_all(&[9, 0])?;
                            loop {
                                std::thread::park();
                            }
                        }
                        _ => format!("{:?} {:?} {:?}", order.cpus, order.dir, order.far),
                    };
                    let endpoint = Endpoint {
                        addrs: order.far_address.iter().map(ToString::to_string).collect(),
                        token,
                    };
                    send(&mut output, &FromWorker::Listening(endpoint))?;
                }
                ToWorker::Drain => send(&mut output, &FromWorker::Done(Done::default()))?,
                other => panic!("an agent ordered {other:?}"),
            }
        }
        Ok(())
    });
    Ok(Worker::over(Channel::new(answers.into(), input.into(), 0)))
}

fn calibration(cpu: usize) -> Calibration {
    Calibration {
        source: "clock_gettime".to_owned(),
        counter_hz: 1e9,
        windows_hz: vec![1e9; 10],
        resolution_ns: 1.0,
        pair_cost_ns: 20.0,
        core_hz: 2e9,
        core_source: "chains".to_owned(),
        cpu,
        ..Calibration::default()
    }
}

fn one(key: &Key) -> Vec<Named> {
    vec![Named { key: key.clone(), name: String::new() }]
}

/// An agent that listens on loopback, and what it said.
struct Stand<'stand> {
    listen: Agent<'stand>,
    address: SocketAddr,
    said: &'stand RefCell<Vec<String>>,
}

fn options(silence: Duration, log: &dyn Fn(&str)) -> Options<'_> {
    Options {
        catalogue: catalogue::FAMILIES,
        cpus: None,
        data: None,
        silence,
        start_worker,
        log,
        stop: &GOES_ON,
    }
}

/// Has an agent listen with a new key, for `act`.
fn with_agent(act: impl FnOnce(&mut Stand<'_>, &Key)) {
    with_agent_that_waits(SILENCE_MAX, act);
}

/// The same, with a time of its own for sessions that say nothing.
fn with_agent_that_waits(silence: Duration, act: impl FnOnce(&mut Stand<'_>, &Key)) {
    let (said, key) = (RefCell::new(Vec::new()), Key::random().unwrap());
    let log = |line: &str| said.borrow_mut().push(line.to_owned());
    let options = options(silence, &log);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    key.write(&file).unwrap();
    let keys = Keys::open(&file).unwrap();
    let listen = Agent::listening(&options, keys, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = listen.address().unwrap();
    act(&mut Stand { listen, address, said: &said }, &key);
}

impl Stand<'_> {
    /// The agent turns while a client does something in a thread of its own.
    fn while_client<T: Send>(&mut self, client: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let at = self.address;
        std::thread::scope(|scope| {
            let client = scope.spawn(move || client(at));
            self.turn_until(|_| client.is_finished());
            client.join().unwrap()
        })
    }

    fn turn_until(&mut self, is_over: impl Fn(&Agent<'_>) -> bool) {
        let begun = Instant::now();
        while !is_over(&self.listen) {
            self.listen.turn(Some(LOOK)).unwrap();
            assert!(self.listen.pending() <= super::acceptor::PENDING_MAX);
            assert!(begun.elapsed() < PATIENCE, "said {:?}", self.said.borrow());
        }
    }

    fn has_said(&self, part: &str) -> bool {
        self.said.borrow().iter().any(|line| line.contains(part))
    }
}

fn open(host_name: &str) -> ToAgent {
    ToAgent::Open(Box::new(Open {
        session: fastrand::u64(..),
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        format: record::FORMAT,
        host_name: host_name.to_owned(),
        expected_s: 60.0,
        windows: 10,
        window_ns: 1000,
        near_address: None,
        cpus: None,
        token: None,
    }))
}

/// A session's connection, after its handshake.
fn connect(at: SocketAddr, key: &Key) -> Result<Channel> {
    listening(&at.ip().to_string(), at.port(), key, &GOES_ON).map(|(channel, _)| channel)
}

fn hear(channel: &mut Channel) -> Result<FromAgent> {
    channel.receive(Instant::now() + PATIENCE, &GOES_ON)?.context("the agent said nothing")
}

fn ask(at: SocketAddr, key: &Key, host_name: &str) -> Result<(Channel, FromAgent)> {
    let mut channel = connect(at, key)?;
    channel.send(&open(host_name), &GOES_ON)?;
    let answer = hear(&mut channel)?;
    Ok((channel, answer))
}

fn is_busy(answered: &FromAgent) -> bool {
    matches!(answered, FromAgent::Refused { reason } if reason.contains("is busy until"))
}

fn welcome(at: SocketAddr, key: &Key) -> Channel {
    match ask(at, key, "near") {
        Ok((channel, FromAgent::Welcome(_))) => channel,
        Ok((_, other)) => panic!("{other:?}"),
        Err(error) => panic!("{error:#}"),
    }
}

fn order(messages: u64) -> Box<RoundOrder> {
    let case = Case::new(CaseId::new().with("messages", messages));
    let series = Series::new("selftest.echo", Order::Fixed, vec![case]);
    Box::new(RoundOrder {
        dir: Some("/".into()),
        far_address: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        case_ns: 1000,
        ..rehearsal(series, vec![12345], calibration(12345))
    })
}
