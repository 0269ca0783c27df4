use super::far::{ABOUT_TO_ACCEPT, ACCEPTED, Ask, LIMIT, SEQUENCE_MAX, Served, Wish};
use super::near::{Both, Events, TwoEnds};
use super::opening::{Opener, Unanswered, ended, wait};
use super::sources::Sources;
use super::{CARD, EXPERIMENT};
use crate::net::wire::tests::{complete, hold, only_order, orders, rehearse_both, round, shout};
use crate::net::wire::{Acceptor, Dialer, Line, PATIENCE, Refused, bound};
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Peer};
use bench::measure::FarEnd;
use bench::prelude::*;
use host::ports::Ports;
use laws::net::connect::Closer;
use session::fixtures::{check, here, offered, params};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

const PRESETS: [Preset; 4] = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];

fn with_peer(site: &Site, address: &str) -> Site {
    let peer = Peer {
        name: "other".to_owned(),
        address: address.parse().unwrap(),
        host: site.host.clone(),
        cpus: vec![0],
        interface: None,
    };
    Site { peer: Some(peer.clone()), peers: vec![peer], ..site.clone() }
}

#[test]
fn a_preset_leaves_half_of_the_ports_to_a_peer_and_says_where_there_are_too_few() {
    let mut site = with_peer(&recorded("vm-granite-rapids"), "192.0.2.7");
    site.host.net.ports.range = Some((40_000, 44_095));
    for preset in PRESETS {
        let offer = offered(&EXPERIMENT, &site, preset, &[]);
        let cases = offer.series.iter().flat_map(|series| &series.cases);
        let of = |case: &Case| case.int("connections").unwrap() + case.int("warm_up").unwrap();
        let in_round: u64 = cases.map(of).sum();
        let rounds = u64::from(*preset.looks().last().unwrap());
        assert!(in_round > 0 && in_round * rounds <= 2048, "{preset:?}");
    }
    site.host.net.ports.range = Some((40_000, 40_063));
    let skip = EXPERIMENT.series(&site, &params(&CARD, Preset::Standard, &[])).unwrap_err();
    assert!(skip.needed.is_some());
    // Over loopback the same range is enough: sources rotate.
    site.peer = None;
    check(&EXPERIMENT, &site, Preset::Thorough);
}

#[test]
fn what_cannot_be_is_skipped_with_its_reason() {
    let site = recorded("vm-granite-rapids");
    let set = [("ends", "one_thread,same_cpu"), ("listener", "full")];
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
    assert_eq!(offer.series[0].cases.len(), 1);
    assert_eq!(offer.skipped[0].0.text("ends"), Some("one_thread"));
}

#[test]
fn both_ends_measure_all_that_is_predicted() {
    let rehearsed = rehearse_both(
        &EXPERIMENT,
        Preset::Rehearsal,
        &[("closer", "client,server"), ("connections", "12")],
    );
    let ends = here().cpus.len().min(2) + 1;
    let ids = complete(&EXPERIMENT, &rehearsed);
    assert_eq!(ids.len(), 2 * ends);
    // No figure of a connection is zero, and none below.
    let values = rehearsed.samples.iter().flat_map(|samples| samples.raw.samples());
    assert!(values.into_iter().all(|value| value > 0.0));
    for id in ids {
        let of = |metric: &str| rehearsed.samples_of(&id, metric).unwrap().raw.samples();
        // Half of the connections are closed, of the others the FIN is waited for.
        assert_eq!(of("connect").len(), 12, "{id}");
        assert_eq!(of("accepted").len(), 12, "{id}");
        for metric in ["client_close", "client_fin", "server_close", "server_fin"] {
            assert_eq!(of(metric).len(), 6, "{id} {metric}");
        }
        let pairs = of("connect").into_iter().zip(of("socket_connect"));
        assert!(pairs.into_iter().all(|(part, whole)| part < whole), "{id}");
        let connect = rehearsed.samples_of(&id, "connect").unwrap();
        assert_eq!(connect.quantities["late_share"], 0.0);
        if id.text("ends") == Some("one_thread") {
            let pairs = of("connect").into_iter().zip(of("accepted"));
            assert!(pairs.into_iter().all(|(part, whole)| part < whole), "{id}");
        }
    }
}

#[test]
fn a_full_queue_drops_the_syn_and_a_refusal_is_an_answer() {
    let rehearsed = rehearse_both(
        &EXPERIMENT,
        Preset::Rehearsal,
        &[("ends", "same_cpu"), ("listener", "full,refusing")],
    );
    let ids = complete(&EXPERIMENT, &rehearsed);
    assert_eq!(ids.len(), 2);
    for id in ids {
        let connect = rehearsed.samples_of(&id, "connect").unwrap();
        let late = rehearsed.samples_of(&id, "connect_late");
        match id.text("listener") {
            Some("full") => {
                let late = late.unwrap().raw.samples();
                assert_eq!(late.len(), 3);
                // Not before the kernel's timer; it may be a tick early by the clock.
                assert!(late.iter().all(|ns| *ns > 0.98e9), "{late:?}");
                let at_once = connect.raw.samples();
                assert!(at_once.iter().all(|ns| *ns < 0.98e9), "{at_once:?}");
                assert!(connect.quantities["late_share"] > 0.1);
                assert!(!connect.notes.is_empty());
            }
            _ => assert!(late.is_none()),
        }
    }
}

fn opener(to: SocketAddr, sources: &mut Sources, limit: Duration) -> Opener<'_> {
    Opener::new(Clock::Monotonic, to, sources, limit)
}

fn rotating() -> Sources {
    Sources::new(Ipv4Addr::LOCALHOST.into(), &Ports::default(), 1)
}

#[test]
fn a_syn_that_nobody_answers_fails_within_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    socket2::SockRef::from(&listener).listen(1).unwrap();
    let mut sources = rotating();
    let mut opener = opener(to, &mut sources, Duration::from_millis(300));
    // No server accepts: after so many its queue is full, and drops what comes.
    let mut held = Vec::new();
    while held.len() < 10 {
        let pending = opener.begin().unwrap();
        let there = wait(&opener, &pending, Duration::from_millis(50)).unwrap();
        held.push(pending);
        if there.is_none() {
            break;
        }
    }
    assert!((2..10).contains(&held.len()), "{}", held.len());
    let began = Instant::now();
    let error = opener.open().unwrap_err();
    assert!(error.is::<Unanswered>(), "{error:#}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_closed_port_refuses_and_says_so() {
    let closed = bound(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
    let to = closed.local_addr().unwrap().as_socket().unwrap();
    let mut sources = rotating();
    let mut opener = opener(to, &mut sources, Duration::from_secs(5));
    assert!(opener.refused().unwrap() > 0.0);
    let error = opener.open().unwrap_err();
    assert!(super::nobody_answers(&error));
    closed.listen(1).unwrap();
    assert!(opener.refused().is_err(), "somebody listens");
}

/// A far end that went silent, as one behind a cable that was cut.
#[test]
fn a_far_end_that_says_nothing_more_fails_the_case_within_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _silent = listener.accept().unwrap();
    super::far::limited(&near).unwrap();
    assert_eq!(near.read_timeout().unwrap(), Some(LIMIT));
    near.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let error = super::near::paced(&mut near, ACCEPTED).unwrap_err();
    assert!(error.root_cause().is::<std::io::Error>(), "{error:#}");
}

/// The far end of another host, by an address of this one: no source rotates, ports are counted,
/// and no clock is shared.
#[test]
fn against_a_peer_by_ipv6_every_figure_but_one_is_measured() {
    let address: IpAddr = "::1".parse().unwrap();
    if TcpListener::bind((address, 0)).is_err() {
        return skips::test("ipv6");
    }
    let site = with_peer(&here(), "::1");
    let set = [("listener", "ready,refusing"), ("connections", "12")];
    let order = orders(&EXPERIMENT, &site, Preset::Rehearsal, &set).remove(0);
    let order = RoundOrder { far_address: Some(address), ..order };
    let serve = |far: &mut FarEnd| EXPERIMENT.serve(&order.series, far);
    let (samples, done) = round(&EXPERIMENT, &order, serve);
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    let of = |metric: &str, listener: &str| {
        let mut all = samples.iter();
        all.find(|of| of.metric == metric && of.case.text("listener") == Some(listener))
    };
    for metric in CARD.metrics {
        let lacks = ["accepted", "connect_late"].contains(&&*metric.name);
        assert_eq!(of(&metric.name, "ready").is_none(), lacks, "{}", metric.name);
    }
    let connect = of("connect", "ready").unwrap();
    assert!(connect.quantities.contains_key("ports_in_use"));
    assert!(of("connect", "refusing").is_some());
}

/// IPv6 has one loopback address: its source is the kernel's.
#[test]
fn connections_go_over_ipv6_too() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return skips::test("ipv6");
    };
    let to = listener.local_addr().unwrap();
    let mut sources = Sources::new(to.ip(), &Ports::default(), 1);
    assert!(!sources.rotate());
    let opened = opener(to, &mut sources, Duration::from_secs(5)).open().unwrap();
    let (_, from) = listener.accept().unwrap();
    assert_eq!(from, opened.stream.local_addr().unwrap());
    let (used, near) = super::sources::in_use(to.ip()).unwrap();
    assert!(near == to.ip() && used >= 2, "{used} from {near}");
}

const ASK: Ask = Ask { backlog: 64, monotonic: true };

/// One case of two processes, a far end for it, and what `near` does with it.
fn against(
    serve: impl FnOnce(&mut FarEnd) -> Result<()> + Send,
    near: impl FnOnce(&mut Dialer, &Case) -> Result<()> + Send,
) {
    let set = [("ends", "same_cpu"), ("listener", "ready")];
    let order = only_order(&EXPERIMENT, Preset::Rehearsal, &set);
    hold(&order, serve, |_, dialer| near(dialer, &order.series.cases[0]));
}

/// The line of a case, and the port of its listener.
fn called(dialer: &mut Dialer, case: &Case) -> Result<(Line, SocketAddr)> {
    let mut line = dialer.call(case, &ASK)?;
    let port: u16 = line.hear(PATIENCE)?;
    let to = SocketAddr::new(dialer.address.ip(), port);
    Ok((line, to))
}

/// So many connections one after the other, by the near end's own loop.
fn sequence(dialer: &mut Dialer, line: &mut Line, to: SocketAddr, count: u64) -> Result<Events> {
    let mut sources = rotating();
    let mut ends = TwoEnds {
        pace: dialer.connect()?,
        opener: opener(to, &mut sources, LIMIT),
        dialer,
        line,
        closer: Some(Closer::Client),
        is_one_clock: true,
    };
    let mut events = Events::default();
    ends.sequence(count, &mut events).map(|()| events)
}

/// A far end that does as the near end wants, and takes its time to close.
fn slow_to_close(far: &mut FarEnd) -> Result<()> {
    Acceptor::open(far)?.serve(far, |acceptor, _, call| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        call.line.tell(&port)?;
        let (mut pace, _) = acceptor.admit(Instant::now() + LIMIT)?;
        let Wish::Sequence(count) = call.line.hear(LIMIT)? else {
            bail!("another wish");
        };
        for _ in 0..count {
            pace.write_all(&[ABOUT_TO_ACCEPT])?;
            let (mut stream, _) = listener.accept()?;
            pace.write_all(&[ACCEPTED])?;
            acceptor.check(&mut stream, Instant::now() + LIMIT)?;
            stream.write_all(b"h")?;
            ended(&mut stream)?;
            std::thread::sleep(Duration::from_millis(30));
        }
        call.line.tell(&Served { accepted: vec![u64::MAX; count as usize], ..Served::default() })
    })
}

#[test]
fn looking_for_an_acknowledgement_is_no_cpu_time_of_a_connection() {
    against(slow_to_close, |dialer, case| {
        let (mut line, to) = called(dialer, case)?;
        let events = sequence(dialer, &mut line, to, 6)?;
        let client = &events.client;
        ensure!(client.close_ns.len() == 3, "{client:?}");
        let each_ns = client.cpu_ns as f64 / 3.0;
        // It looked for the acknowledgement for tens of milliseconds, three times.
        ensure!(client.fin_ns.iter().all(|ns| *ns > 1e7), "{client:?}");
        ensure!((1.0..3e6).contains(&each_ns), "{each_ns} ns");
        Ok(())
    });
}

#[test]
fn silent_strangers_at_a_cases_own_port_cost_no_connection() {
    const STRANGERS: usize = 8;
    let serve = |far: &mut FarEnd| Acceptor::open(far)?.serve(far, super::far::serve);
    against(serve, |dialer, case| {
        let (mut line, to) = called(dialer, case)?;
        let said = [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[7; 28]].into_iter();
        let _strangers = shout(to, said.cycle().take(STRANGERS));
        let began = Instant::now();
        let events = sequence(dialer, &mut line, to, 6)?;
        ensure!(events.connect.len() == 6 && events.accepted.len() == 6);
        ensure!(began.elapsed() < LIMIT, "each was waited for");
        line.tell(&Wish::End)
    });
}

/// What a near end asks for by the line is within what the case can need.
#[test]
fn wishes_without_measure_are_refused() {
    let serve = |far: &mut FarEnd| Acceptor::open(far)?.serve(far, super::far::serve);
    against(serve, |dialer, case| {
        for wish in [
            Wish::Sequence(u64::MAX),
            Wish::Sequence(SEQUENCE_MAX + 1),
            Wish::Take(u64::MAX),
            Wish::Drain(1 << 40),
        ] {
            let (mut line, _) = called(dialer, case)?;
            let _pace = dialer.connect()?;
            line.tell(&wish)?;
            let Err(told) = line.hear::<Served>(PATIENCE) else {
                bail!("{wish:?} was served");
            };
            ensure!(told.is::<Refused>(), "{wish:?}: {told}");
        }
        // It is there for the next.
        let (mut line, to) = called(dialer, case)?;
        sequence(dialer, &mut line, to, 2).map(drop)
    });
}
