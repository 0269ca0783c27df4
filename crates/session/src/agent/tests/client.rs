//! The session's side against an agent that says what the test has it say.

use super::{GOES_ON, PATIENCE, calibration, order};
use crate::agent::client::Remote;
use crate::agent::connection::{self, Connection, Reach};
use crate::agent::handshake::{Greeting, Role, hello};
use crate::agent::key::Key;
use crate::agent::message::{Facts, FromAgent, Open, ToAgent};
use crate::agent::seal::Seal;
use crate::agent::url::PeerUrl;
use crate::agent::{EVENT_BYTES_MAX, FACTS_BYTES_MAX, ORDER_BYTES_MAX};
use crate::node::Silent;
use crate::node::channel::{Channel, Lost};
use anyhow::Result;
use bench::link::frame::encode;
use bench::link::{Done, Endpoint, FromWorker, ToWorker};
use host::{Host, Root};
use record::codec::EventText;
use record::event::{Event, Raw, Samples};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// A peer whose agent answers each round's order so.
fn peer(answers: fn(u64) -> Vec<FromAgent>) -> Remote {
    peer_by("exec:false", answers)
}

/// One that is reached again by this URL once it is lost.
fn peer_by(url: &str, answers: fn(u64) -> Vec<FromAgent>) -> Remote {
    let (near_in, far_out) = std::io::pipe().unwrap();
    let (far_in, near_out) = std::io::pipe().unwrap();
    thread::spawn(move || -> Result<()> {
        let mut channel = greeted(far_in.into(), far_out.into(), Role::Agent);
        channel.set_limit(ORDER_BYTES_MAX);
        while let Some(message) = channel.receive(Instant::now() + PATIENCE, &GOES_ON)? {
            if let ToAgent::Order { round, .. } = message {
                for answer in answers(round) {
                    channel.send(&answer, &GOES_ON)?;
                }
            }
        }
        Ok(())
    });
    let channel = greeted(near_in.into(), near_out.into(), Role::Session);
    let url = PeerUrl::parse(&format!("b={url}")).unwrap();
    let reach = Reach { url, key: None, open: Open::default(), here: String::new() };
    Remote::over(reach, Connection { channel, carrier: None }, facts())
}

/// A channel over pipes after its greeting.
fn greeted(reader: OwnedFd, writer: OwnedFd, role: Role) -> Channel {
    let mut channel = Channel::new(reader, writer, FACTS_BYTES_MAX).greeting(Greeting::plain(role));
    channel.greet(PATIENCE, &GOES_ON).unwrap();
    channel
}

fn facts() -> Facts {
    Facts {
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        host: Host::read(&Root::tree("")),
        environment: Default::default(),
        cpus: vec![3, 2],
        calibration: calibration(3),
        address: Ipv4Addr::LOCALHOST.into(),
        interface: None,
    }
}

fn worker_message(round: u64, event: FromWorker) -> FromAgent {
    FromAgent::Event { round, event: Box::new(event) }
}

fn listening(address: &str) -> FromWorker {
    FromWorker::Listening(Endpoint { addrs: vec![address.to_owned()], token: "00".to_owned() })
}

fn samples(series: &str, round: u32) -> FromWorker {
    let raw = Raw::Event { values: vec![1.0] };
    let samples = Samples::new(series, round, Default::default(), "received", raw);
    FromWorker::Measured(EventText::new(&Event::Samples(samples)).unwrap())
}

/// What comes of a round: its messages up to the last or to an error.
fn round(remote: &Remote) -> Result<Vec<FromWorker>> {
    let mut worker = remote.start(&GOES_ON)?;
    worker.order(&ToWorker::Serve(order(5)))?;
    let mut heard = Vec::new();
    loop {
        let message = worker.next(Instant::now() + PATIENCE, &GOES_ON)?;
        let is_last = matches!(message, FromWorker::Done(_) | FromWorker::Failed(_));
        heard.push(message);
        if is_last {
            return Ok(heard);
        }
    }
}

fn refused(answers: fn(u64) -> Vec<FromAgent>, words: &str) {
    let error = format!("{:#}", round(&peer(answers)).expect_err(words));
    assert!(error.contains(words), "{error}");
    assert!(error.contains("b (exec:false)"), "{error}");
}

#[test]
fn a_round_is_what_its_own_worker_says() {
    let remote = peer(|round| {
        let failed =
            |round, name: &str| worker_message(round, FromWorker::Failed(vec![name.to_owned()]));
        vec![
            // Of a round that was given up.
            failed(round - 1, "earlier"),
            FromAgent::Ended { round: round - 1, reason: "earlier".to_owned() },
            worker_message(round, listening("127.0.0.1:7")),
            worker_message(round, FromWorker::Done(Done::default())),
        ]
    });
    for _ in 0..3 {
        let heard = round(&remote).unwrap();
        assert_eq!(heard, [listening("127.0.0.1:7"), FromWorker::Done(Done::default())]);
    }
    assert_eq!((remote.name(), remote.peer().cpus), ("b", vec![3, 2]));
}

#[test]
fn what_belongs_to_no_order_is_refused() {
    refused(
        |round| vec![worker_message(round, listening("10.9.8.7:22"))],
        "it listens at 10.9.8.7:22",
    );
    // Figures are the near end's, also those of this round.
    refused(|round| vec![worker_message(round, samples("selftest.echo", 1))], "only the near end");
    refused(
        |round| vec![worker_message(round, FromWorker::Prepared(Vec::new()))],
        "only the near end",
    );
    refused(|round| vec![worker_message(round, FromWorker::Alive(1.0))], "only the near end");
    refused(
        |round| {
            let reason = "no\u{1b}[2J memory".to_owned();
            vec![FromAgent::Ended { round, reason }]
        },
        "no [2J memory",
    );
    refused(|_| vec![FromAgent::Clock { wall_s: 0.0 }], "a new session");
}

/// What one end says over pipes after its hello, as bytes; the session's end of them.
fn saying(bytes: Vec<u8>) -> Connection {
    let (near_in, mut far_out) = std::io::pipe().unwrap();
    let (far_in, near_out) = std::io::pipe().unwrap();
    thread::spawn(move || {
        let _reads = far_in;
        far_out.write_all(&hello(Role::Agent)).unwrap();
        // Without end: until the session is gone.
        while far_out.write_all(&bytes).is_ok() {}
    });
    let channel = greeted(near_in.into(), near_out.into(), Role::Session);
    Connection { channel, carrier: None }
}

fn parsed(json: &str) -> Result<Option<FromAgent>> {
    let frame = encode(json.as_bytes(), EVENT_BYTES_MAX).unwrap();
    saying(frame).receive(Instant::now() + PATIENCE, &GOES_ON)
}

#[test]
fn what_an_agent_says_steers_no_terminal() {
    // An error repeats what could not be read.
    let error = parsed("{\"\\u001b[2J\u{202e}\":1}").expect_err("no message");
    let error = format!("{error:#}");
    assert!(error.contains("`[2J `") || error.contains("` [2J `"), "{error:?}");
    // Names as well as what they stand for.
    let mut done = Done::default();
    done.environment.insert("x\u{1b}[2J".to_owned(), 1.0);
    let json = serde_json::to_string(&worker_message(1, FromWorker::Done(done))).unwrap();
    let Ok(Some(FromAgent::Event { event, .. })) = parsed(&json) else { panic!("{json}") };
    let FromWorker::Done(done) = *event else { panic!("{event:?}") };
    assert_eq!(done.environment.into_keys().collect::<Vec<_>>(), ["x [2J"]);
}

fn shaken(stream: &mut TcpStream, key: &Key) -> Seal {
    let mut greeting = Greeting::responder(super::one(key));
    loop {
        let (mut bytes, mut out) = ([0; 1024], Vec::new());
        let read = stream.read(&mut bytes).unwrap();
        let fed = greeting.feed(&bytes[..read], &mut out);
        stream.write_all(&out).unwrap();
        if let Some(greeted) = fed.unwrap() {
            return greeted.seal.unwrap();
        }
    }
}

#[test]
fn what_an_agent_says_without_end_is_not_heard_without_end() {
    // Sealed records of nothing: no frame ever begins.
    let key = Key::random().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let agent = thread::spawn({
        let key = key.clone();
        move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seal = shaken(&mut stream, &key);
            // Until the session is gone.
            loop {
                let mut out = Vec::new();
                (0..100).for_each(|_| seal.record(&[], &mut out));
                if stream.write_all(&out).is_err() {
                    return;
                }
            }
        }
    });
    let (mut channel, _) = connection::listening("127.0.0.1", at.port(), &key, &GOES_ON).unwrap();
    for patience_ms in [0, 50] {
        let deadline = Instant::now() + Duration::from_millis(patience_ms);
        let none = channel.receive::<FromAgent>(deadline, &GOES_ON);
        assert!(matches!(none, Ok(None)), "{none:?}");
    }
    drop(channel);
    agent.join().unwrap();
    // And messages of other rounds.
    let remote = peer(|round| {
        let reason = "earlier".to_owned();
        let round = round - 1;
        vec![FromAgent::Ended { round, reason }; 10_000]
    });
    let mut worker = remote.start(&GOES_ON).unwrap();
    worker.order(&ToWorker::Serve(order(5))).unwrap();
    let error = worker.next(Instant::now(), &GOES_ON).expect_err("it says nothing of it");
    assert!(error.chain().any(|cause| cause.is::<Silent>()), "{error:#}");
}

#[test]
fn another_plumb_is_no_agent_of_this_one() {
    let mut facts = facts();
    facts.plumb = "9.9\u{1b}[2J".to_owned();
    let welcome = serde_json::to_vec(&FromAgent::Welcome(Box::new(facts))).unwrap();
    let mut connection = saying(encode(&welcome, FACTS_BYTES_MAX).unwrap());
    let error = connection.welcomed(&Open::default(), &GOES_ON).expect_err("another plumb");
    let error = format!("{error:#}");
    assert!(error.contains("plumb 9.9 [2J, ") && error.contains("same version"), "{error}");
}

/// The largest of the hosts that are known has room, and what follows has less.
#[test]
fn an_agent_tells_of_its_host_once() {
    for site in bench::experiment::fixtures::sites() {
        let facts = Facts { host: site.host, ..facts() };
        let json = serde_json::to_string(&FromAgent::Welcome(Box::new(facts))).unwrap();
        assert!(json.len() < FACTS_BYTES_MAX / 8, "{} bytes", json.len());
    }
    let welcome = serde_json::to_vec(&FromAgent::Welcome(Box::new(facts()))).unwrap();
    let long = u32::try_from(EVENT_BYTES_MAX + 1).unwrap().to_le_bytes();
    let frame = encode(&welcome, FACTS_BYTES_MAX).unwrap();
    let mut connection = saying([&frame[..], &long].concat());
    connection.welcomed(&Open::default(), &GOES_ON).unwrap();
    let late = Instant::now() + PATIENCE;
    let lost = connection.receive(late, &GOES_ON).expect_err("too long");
    assert!(matches!(lost.downcast_ref(), Some(Lost::TooLong(_))), "{lost:#}");
}

#[test]
fn a_worker_that_is_silent_is_told_from_one_that_is_gone() {
    let remote = peer(|_| Vec::new());
    let mut worker = remote.start(&GOES_ON).unwrap();
    worker.order(&ToWorker::Serve(order(5))).unwrap();
    let soon = Instant::now() + Duration::from_millis(10);
    let error = worker.next(soon, &GOES_ON).expect_err("it says nothing");
    assert!(error.chain().any(|cause| cause.is::<Silent>()), "{error:#}");
    drop(worker);
    // A short look at it leaves the connection as it is.
    assert!(remote.start(&GOES_ON).is_ok());
}

#[test]
fn one_that_is_gone_is_left_alone_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let tries = dir.path().join("tries");
    let url = format!("exec:echo >>'{}'; false", tries.display());
    let remote = peer_by(&url, |_| panic!("the agent dies"));
    let error = round(&remote).expect_err("it is gone");
    assert!(error.chain().any(|cause| cause.is::<Lost>()), "{error:#}");
    let why = || {
        let error = remote.start(&GOES_ON).err().expect("it stays away");
        error.to_string()
    };
    let first = why();
    assert_eq!(first, why());
    // A session that takes no time has none to wait in.
    assert_eq!(fs::read(&tries).unwrap(), b"\n");
}
