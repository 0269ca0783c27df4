//! What a session that has the key gets.

use super::{
    GOES_ON, PATIENCE, ask, connect, hear, is_busy, open, options, order, welcome, with_agent,
    with_agent_that_waits,
};
use crate::agent::acceptor::Agent;
use crate::agent::clock::offset_s;
use crate::agent::handshake::{Greeting, Role};
use crate::agent::key::Key;
use crate::agent::message::{FromAgent, Open, ToAgent, printable};
use crate::agent::options::{Addresses, Options, site};
use crate::node::channel::Channel;
use bench::link::{FromWorker, RoundOrder, ToWorker};
use record::key::CaseId;
use std::net::Ipv4Addr;
use std::time::Duration;

fn say(channel: &mut Channel, message: &ToAgent) {
    channel.send(message, &GOES_ON).unwrap();
}

fn serve(round: u64, messages: u64) -> ToAgent {
    ordered(round, ToWorker::Serve(order(messages)))
}

fn drain(round: u64) -> ToAgent {
    ordered(round, ToWorker::Drain)
}

fn ordered(round: u64, order: ToWorker) -> ToAgent {
    ToAgent::Order { round, order: Box::new(order) }
}

/// The answer to an order: its round, and what the worker said, or why there is none.
fn answer(channel: &mut Channel) -> (u64, Result<FromWorker, String>) {
    match hear(channel).unwrap() {
        FromAgent::Event { round, event } => (round, Ok(*event)),
        FromAgent::Ended { round, reason } => (round, Err(reason)),
        other => panic!("{other:?}"),
    }
}

/// Also while a session is served, and to no other key.
#[test]
fn the_clock_is_given_to_clients_that_have_the_key() {
    with_agent(|stand, key| {
        stand.while_client(|at| {
            let _session = welcome(at, key);
            let offset = offset_s("127.0.0.1", at.port(), key, &GOES_ON).unwrap();
            assert!(offset.abs() < PATIENCE.as_secs_f64(), "{offset}");
            let other = Key::random().unwrap();
            assert!(offset_s("127.0.0.1", at.port(), &other, &GOES_ON).is_err());
        });
    });
}

#[test]
fn a_session_is_served_and_the_next_one_after_it() {
    with_agent(|stand, key| {
        for _ in 0..2 {
            stand.while_client(|at| {
                let (mut channel, answered) = ask(at, key, "near").unwrap();
                let FromAgent::Welcome(facts) = answered else { panic!("{answered:?}") };
                assert_eq!(facts.address, at.ip());
                assert_eq!(facts.calibration.cpu, facts.cpus[0]);
                assert_eq!(facts.interface.as_deref(), Some("lo"));
                assert!(!facts.environment.is_empty());
                for round in 1..4 {
                    say(&mut channel, &serve(round, 1));
                    let (of, listening) = answer(&mut channel);
                    let Ok(FromWorker::Listening(endpoint)) = listening else {
                        panic!("{listening:?}")
                    };
                    // Address, CPUs, directory and far end are the agent's own.
                    assert_eq!((of, &endpoint.addrs[0]), (round, &at.ip().to_string()));
                    assert_eq!(endpoint.token, format!("{:?} None None", facts.cpus));
                    say(&mut channel, &drain(round));
                    let (of, done) = answer(&mut channel);
                    assert!(of == round && matches!(done, Ok(FromWorker::Done(_))), "{done:?}");
                }
            });
            stand.turn_until(|listen| listen.client().is_none());
        }
        assert!(stand.has_said("a session of near") && stand.has_said("near ended"));
    });
}

#[test]
fn one_that_asks_meanwhile_is_told_who_is_served_until_when() {
    with_agent(|stand, key| {
        let first = stand.while_client(|at| welcome(at, key));
        for _ in 0..3 {
            let (_, answered) = stand.while_client(|at| ask(at, key, "other").unwrap());
            let FromAgent::Refused { reason } = answered else { panic!("{answered:?}") };
            let (_, until) = reason.split_once("busy until ").unwrap();
            let (until, by) = until.split_once(' ').unwrap();
            assert!(by.contains("run of near;"), "{reason}");
            let until = humantime::parse_rfc3339(until).unwrap();
            let left = until.duration_since(std::time::SystemTime::now()).unwrap();
            assert!((1..=60).contains(&left.as_secs()), "{left:?}");
        }
        // A session that dies says nothing: its connection ends.
        drop(first);
        stand.turn_until(|listen| listen.client().is_none());
        stand.while_client(|at| drop(welcome(at, key)));
    });
}

#[test]
fn a_session_that_is_silent_for_longer_than_it_expected_makes_room() {
    let ToAgent::Open(mut short) = open("silent") else { panic!("an opening") };
    short.expected_s = 0.0;
    with_agent_that_waits(Duration::from_secs(2), |stand, key| {
        let mut silent = stand.while_client(|at| {
            let mut channel = connect(at, key).unwrap();
            say(&mut channel, &ToAgent::Open(short));
            assert!(matches!(hear(&mut channel), Ok(FromAgent::Welcome(_))));
            say(&mut channel, &serve(1, 1));
            assert!(answer(&mut channel).1.is_ok());
            channel
        });
        // It would be served for ever: its connection is alive, and its round waits for a drain.
        stand.turn_until(|agent| agent.client().is_none());
        let next = stand.while_client(|at| welcome(at, key));
        assert_eq!(stand.listen.client(), Some("near"));
        assert!(stand.has_said("was silent"), "{:?}", stand.said);
        assert!(hear(&mut silent).is_err());
        // The next one expects to take a minute, and has it.
        let (_, answered) = stand.while_client(|at| ask(at, key, "other").unwrap());
        assert!(is_busy(&answered), "{answered:?}");
        drop(next);
    });
}

/// One that is frozen says no word more: its seat is free once the time that it named is over.
#[test]
fn a_session_that_says_it_lives_is_held_to_the_time_that_it_names() {
    with_agent_that_waits(Duration::ZERO, |stand, key| {
        let mut first = stand.while_client(|at| welcome(at, key));
        let mut alive = |within_s| say(&mut first, &ToAgent::Alive { within_s });
        for (within_s, waits) in [(3600.0, true), (-1.0, false)] {
            alive(within_s);
            let (_, answered) = stand.while_client(|at| {
                std::thread::sleep(Duration::from_millis(50));
                ask(at, key, "other").unwrap()
            });
            assert_eq!(is_busy(&answered), waits, "{answered:?}");
        }
        assert_eq!(stand.listen.client(), Some("other"));
    });
}

#[test]
fn a_worker_that_hangs_never_makes_the_agent_wait() {
    with_agent(|stand, key| {
        let mut session = stand.while_client(|at| {
            let mut channel = welcome(at, key);
            say(&mut channel, &serve(1, 15));
            channel
        });
        // It has begun to say something, and never goes on. Others are answered all the same.
        for _ in 0..3 {
            let (_, answered) = stand.while_client(|at| ask(at, key, "other").unwrap());
            assert!(is_busy(&answered), "{answered:?}");
        }
        // The session goes on with another one.
        let session = stand.while_client(move |_| {
            say(&mut session, &serve(2, 1));
            assert!(answer(&mut session).1.is_ok());
            say(&mut session, &serve(3, 15));
            session
        });
        drop(session);
        stand.turn_until(|listen| listen.client().is_none());
        stand.while_client(|at| drop(welcome(at, key)));
    });
}

#[test]
fn an_agent_on_pipes_ends_when_its_session_is_silent_for_too_long() {
    let (far_in, near_out) = std::io::pipe().unwrap();
    let (near_in, far_out) = std::io::pipe().unwrap();
    let ToAgent::Open(mut short) = open("asleep") else { panic!("an opening") };
    short.expected_s = 0.0;
    let session = std::thread::spawn(move || {
        let (reader, writer) = (near_in.into(), near_out.into());
        let greeting = Greeting::plain(Role::Session);
        let mut channel = Channel::new(reader, writer, 1 << 20).greeting(greeting);
        channel.greet(PATIENCE, &GOES_ON).unwrap();
        say(&mut channel, &ToAgent::Open(short));
        // A cable was cut: it neither says anything nor closes.
        while hear(&mut channel).is_ok() {}
        channel
    });
    let options = options(Duration::from_millis(100), &|_| {});
    let local = Some(Ipv4Addr::LOCALHOST.into());
    let addresses = Addresses { local, remote: local };
    let mut agent = Agent::on_pipes(&options, far_in.into(), far_out.into(), addresses);
    agent.serve().expect_err("it is silent");
    drop(agent);
    drop(session.join().unwrap());
    // Of which address it would be no use to tell a session.
    let data = Some("fe80::1".parse().unwrap());
    let refusal = site(&Options { data, ..options }).expect_err("of one link");
    assert!(refusal.to_string().contains("another address"), "{refusal:#}");
}

#[test]
fn what_is_shown_of_the_other_end_is_one_short_line() {
    assert_eq!(printable("a\x1b[2Jb\nc\u{9b}d"), "a [2Jb c d");
    assert_eq!(printable("größer"), "größer");
    assert_eq!(printable("a\u{202e}b\u{2067}\u{2028}c"), "a b  c");
    let long = printable(&"é".repeat(10_000));
    assert!(long.chars().count() < 400 && long.ends_with('…'), "{long}");
}

fn id(name: &str, value: u64) -> CaseId {
    CaseId::new().with(name, value)
}

#[test]
fn orders_that_this_host_has_no_place_for_are_refused_and_the_session_goes_on() {
    with_agent(|stand, key| {
        stand.while_client(|at| {
            let mut channel = welcome(at, key);
            type Change = fn(&mut RoundOrder);
            let bad: [(Change, &str); 6] = [
                (
                    |order| order.series.experiment = "net.nothing".into(),
                    "no experiment `net.nothing`",
                ),
                (|order| order.series.experiment = "clock.read".into(), "no far end"),
                (|order| order.series.cases.clear(), "0 cases"),
                (|of| of.series.cases[0].id = id("messages", 1_000_000_000), "out of range"),
                (|of| of.series.cases[0].id = id("nothing", 1), "no parameter `nothing`"),
                (
                    |order| drop(order.series.settings.insert("messages".into(), 1.into())),
                    "no parameter `messages`",
                ),
            ];
            for (round, (change, part)) in (1..).zip(bad) {
                let mut order = order(1);
                change(&mut order);
                say(&mut channel, &ordered(round, ToWorker::Serve(order)));
                let (of, refused) = answer(&mut channel);
                assert_eq!(of, round);
                let reason = refused.expect_err(part);
                assert!(reason.contains(part), "{reason}");
            }
            // A worker that dies, and one that says too much, cost their rounds.
            for (messages, part) in [(13, "the worker ended"), (14, "exceeds the limit")] {
                let round = 100 + messages;
                say(&mut channel, &serve(round, messages));
                let (of, ended) = answer(&mut channel);
                assert_eq!(of, round);
                let reason = ended.expect_err(part);
                assert!(reason.contains(part), "{reason}");
                // One that has ended is neither drained nor stopped.
                say(&mut channel, &drain(round));
                say(&mut channel, &ToAgent::Stop { round });
            }
            // One that is given up it is closed for the next one for the next, and answers no more.
            say(&mut channel, &serve(200, 1));
            assert_eq!(answer(&mut channel).0, 200);
            say(&mut channel, &ToAgent::Stop { round: 200 });
            say(&mut channel, &drain(200));
            say(&mut channel, &serve(201, 1));
            say(&mut channel, &serve(202, 1));
            say(&mut channel, &drain(202));
            let mut rounds = Vec::new();
            loop {
                let (round, said) = answer(&mut channel);
                rounds.push(round);
                if matches!(said, Ok(FromWorker::Done(_))) {
                    break;
                }
            }
            assert!(!rounds.contains(&200) && rounds.ends_with(&[202, 202]), "{rounds:?}");
        });
    });
}

#[test]
fn sessions_of_another_plumb_are_refused_with_what_to_do() {
    let ToAgent::Open(good) = open("near") else { panic!("an opening") };
    let changed = |change: fn(&mut Open)| {
        let mut open = good.clone();
        change(&mut open);
        open
    };
    let cases = [
        (changed(|open| open.plumb = "9.9\x1b[2J".to_owned()), "same version"),
        (changed(|open| open.format = u32::MAX), "same version"),
        (changed(|open| open.windows = u32::MAX), "at most"),
        (changed(|open| open.window_ns = u64::MAX), "at most"),
    ];
    with_agent(|stand, key| {
        for (open, part) in cases {
            let answered = stand.while_client(|at| {
                let mut channel = connect(at, key).unwrap();
                say(&mut channel, &ToAgent::Open(open));
                let answered = hear(&mut channel).unwrap();
                // Then it closes.
                assert!(hear(&mut channel).is_err());
                answered
            });
            let FromAgent::Refused { reason } = answered else { panic!("{answered:?}") };
            assert!(reason.contains(part), "{reason}");
            assert!(!reason.contains('\x1b'), "{reason:?}");
        }
        // Times that are none do no harm.
        for expected_s in [-1.0, 1e300] {
            let mut open = good.clone();
            open.expected_s = expected_s;
            let answered = stand.while_client(|at| {
                let mut channel = connect(at, key).unwrap();
                say(&mut channel, &ToAgent::Open(open));
                hear(&mut channel).unwrap()
            });
            assert!(matches!(answered, FromAgent::Welcome(_)), "{answered:?}");
            stand.turn_until(|listen| listen.client().is_none());
        }
    });
}
