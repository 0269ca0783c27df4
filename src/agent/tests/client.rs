//! The session's side against an agent that says what the test has it say.

use super::{GOES_ON, PATIENCE, calibration, order};
use crate::agent::channel::{Channel, Lost};
use crate::agent::client::Remote;
use crate::agent::handshake::Role;
use crate::agent::message::{Facts, FromAgent, ToAgent};
use crate::agent::url::PeerUrl;
use crate::host::{Host, Root};
use crate::link::{Done, Endpoint, FromWorker, ToWorker};
use crate::session::FarHost;
use crate::session::child::Silent;
use anyhow::Result;
use record::event::{Raw, Samples};
use std::fs;
use std::net::Ipv4Addr;
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
        let (reader, writer): (OwnedFd, OwnedFd) = (far_in.into(), far_out.into());
        let mut channel = Channel::over_pipes(reader, writer, Role::Agent, PATIENCE, &GOES_ON)?;
        while let Some(message) = channel.receive(Instant::now() + PATIENCE, &GOES_ON)? {
            if let ToAgent::Serve { round, .. } = message {
                for answer in answers(round) {
                    channel.send(&answer, &GOES_ON)?;
                }
            }
        }
        Ok(())
    });
    let (reader, writer) = (near_in.into(), near_out.into());
    let channel = Channel::over_pipes(reader, writer, Role::Session, PATIENCE, &GOES_ON).unwrap();
    let facts = Facts {
        plumb: "0.1.0".to_owned(),
        host: Host::read(&Root::tree("")),
        environment: Default::default(),
        cpus: vec![3, 2],
        calibration: calibration(3),
        address: Ipv4Addr::LOCALHOST.into(),
        interface: None,
    };
    let url = PeerUrl::parse(&format!("b={url}")).unwrap();
    Remote::over(url, channel, facts)
}

fn of_worker(round: u64, message: FromWorker) -> FromAgent {
    FromAgent::Worker {
        round,
        message: Box::new(message),
    }
}

fn listening(address: &str) -> FromWorker {
    FromWorker::Listening(Endpoint {
        addrs: vec![address.to_owned()],
        token: "00".to_owned(),
    })
}

fn samples(series: &str, round: u32) -> FromWorker {
    FromWorker::Samples(Samples {
        series: series.to_owned(),
        round,
        case: Default::default(),
        metric: "received".to_owned(),
        raw: Raw::Event { values: vec![1.0] },
        core_hz: None,
        quantities: Default::default(),
        at: Default::default(),
        notes: Vec::new(),
    })
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
    assert!(error.contains("the far end b (exec:false)"), "{error}");
}

#[test]
fn a_round_is_what_its_own_worker_says() {
    let remote = peer(|round| {
        let of = |round, name: &str| of_worker(round, FromWorker::Failed(vec![name.to_owned()]));
        vec![
            // Of a round that was given up.
            of(round - 1, "earlier"),
            FromAgent::Ended {
                round: round - 1,
                reason: "earlier".to_owned(),
            },
            of_worker(round, listening("127.0.0.1:7")),
            of_worker(round, samples("selftest.echo", 1)),
            of_worker(round, FromWorker::Done(Done::default())),
        ]
    });
    for _ in 0..3 {
        let heard = round(&remote).unwrap();
        assert_eq!(heard.len(), 3, "{heard:?}");
        assert_eq!(heard[1], samples("selftest.echo", 1));
    }
    assert_eq!((remote.name(), remote.peer().cpus), ("b", vec![3, 2]));
}

#[test]
fn what_belongs_to_no_order_is_refused() {
    refused(
        |round| vec![of_worker(round, listening("10.9.8.7:22"))],
        "it listens at 10.9.8.7:22",
    );
    refused(
        |round| vec![of_worker(round, samples("os.syscall", 1))],
        "round 1 of os.syscall",
    );
    refused(
        |round| vec![of_worker(round, samples("selftest.echo", 2))],
        "round 2 of selftest.echo",
    );
    refused(
        |round| vec![of_worker(round, FromWorker::Alive(1.0))],
        "more time",
    );
    refused(
        |round| {
            let reason = "no\u{1b}[2J memory".to_owned();
            vec![FromAgent::Ended { round, reason }]
        },
        "no [2J memory",
    );
    refused(
        |_| {
            let (until, by) = ("now".to_owned(), "me".to_owned());
            vec![FromAgent::Busy { until, by }]
        },
        "another conversation",
    );
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
    assert!(first.contains("cannot be had again"), "{first}");
    assert_eq!(first, why());
    // A session that takes no time has none to wait in.
    assert_eq!(fs::read(&tries).unwrap(), b"\n");
}
