//! Both ends in one process, for these tests and for those of every experiment that has two.

mod fuzz;

use super::acceptor::PREAMBLE_TIME;
use super::line::framed;
use super::line::tests::{after, codes};
use super::{Acceptor, Dialer, PATIENCE, PREAMBLE_BYTES, Purpose, Refused, empty};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{calibrated, rehearsal};
use bench::link::frame::{receive, send};
use bench::link::{Done, Endpoint, FromWorker, ToWorker};
use bench::measure::FarEnd;
use bench::prelude::*;
use record::event::{Calibration, Samples};
use session::fixtures::{Rehearsed, here, offered};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Runs a far end in a thread, and `near` with where it listens in another; the session drains
/// after it.
pub fn with_far<R: Send>(
    order: &RoundOrder,
    serve: impl FnOnce(&mut FarEnd) -> Result<()> + Send,
    near: impl FnOnce(Endpoint) -> R + Send,
) -> (Result<()>, R) {
    let (mut session, worker) = UnixStream::pair().expect("sockets");
    std::thread::scope(|scope| {
        let far = scope.spawn(move || {
            let writer = worker.try_clone()?;
            let mut far = FarEnd::new(order.clone(), worker, writer)?;
            serve(&mut far)
        });
        let told = receive::<FromWorker>(&mut session).expect("the far end speaks");
        let Some(FromWorker::Listening(endpoint)) = told else {
            panic!("the far end said {told:?}");
        };
        let said = scope.spawn(move || near(endpoint)).join();
        // It may be gone: then it says why.
        let _ = send(&mut session, &ToWorker::Drain);
        let served = far.join().expect("the far end does not panic");
        (served, said.expect("the near end does not panic"))
    })
}

/// The orders of a rehearsal of what an experiment offers at a site.
pub fn orders(
    experiment: &dyn AnyExperiment,
    site: &Site,
    preset: Preset,
    set: &[(&str, &str)],
) -> Vec<RoundOrder> {
    let id = experiment.card().id;
    let offer = offered(experiment, site, preset, set);
    let calibration = calibration();
    let order = |series: Series| {
        let series = experiment.resolve(site, &Known::default(), series);
        let series = series.unwrap_or_else(|skip| panic!("{id}: {}", skip.reason));
        rehearsal(series, site.cpus.clone(), calibration.clone())
    };
    offer.series.into_iter().map(order).collect()
}

/// The same of this machine, where there is one.
pub fn only_order(
    experiment: &dyn AnyExperiment,
    preset: Preset,
    set: &[(&str, &str)],
) -> RoundOrder {
    let mut all = orders(experiment, &here(), preset, set);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

pub fn round(
    experiment: &'static dyn AnyExperiment,
    order: &RoundOrder,
    serve: impl FnOnce(&mut FarEnd) -> Result<()> + Send,
) -> (Vec<Samples>, Done) {
    let near = |far: Endpoint| {
        let order = RoundOrder { far: Some(far), ..order.clone() };
        let mut bench = Bench::new(order.clone()).expect("the CPU is allowed");
        let measured = bench::experiment::measure(experiment, &order.series, &mut bench);
        measured.map(|()| bench.finish().expect("nothing is sent"))
    };
    let (served, written) = with_far(order, serve, near);
    let label = order.series.label();
    served.unwrap_or_else(|error| panic!("far end of {label}: {error:#}"));
    let (samples, _, _, done) = written.unwrap_or_else(|error| panic!("{label}: {error:#}"));
    (samples, done)
}

/// One rehearsal of what a two-ended experiment offers on loopback.
pub fn rehearse_both(
    experiment: &'static dyn AnyExperiment,
    preset: Preset,
    set: &[(&str, &str)],
) -> Rehearsed {
    let mut rehearsed = Rehearsed { samples: Vec::new(), failed: Vec::new() };
    for order in orders(experiment, &here(), preset, set) {
        let serve = |far: &mut FarEnd| experiment.serve(&order.series, far);
        let (samples, done) = round(experiment, &order, serve);
        rehearsed.samples.extend(samples);
        let failed = done.failed.into_iter();
        rehearsed.failed.extend(failed.map(|failed| (failed.case, failed.reason)));
    }
    rehearsed
}

/// Holds that no case failed, and that each figure of those cases was recorded that is predicted.
/// The cases.
pub fn complete(experiment: &dyn AnyExperiment, rehearsed: &Rehearsed) -> Vec<CaseId> {
    assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
    let ids: BTreeSet<CaseId> = rehearsed.samples.iter().map(|one| one.case.clone()).collect();
    let site = here();
    for id in &ids {
        let case = Case::new(id.clone());
        let metrics = experiment.card().metrics.iter();
        for metric in metrics.filter(|metric| !metric.derived && !experiment.may_lack(metric)) {
            let prior = experiment.unscaled(&site, None, &case, metric);
            let is_told = prior.is_some_and(|prior| prior.range.is_some());
            let found = rehearsed.samples_of(id, &metric.name);
            assert_eq!(found.is_some(), is_told, "{id} {}", metric.name);
        }
    }
    ids.into_iter().collect()
}

/// Both ends of a stream over loopback.
pub fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    (near, listener.accept().expect("accepts").0)
}

/// A case that the far end answers with what it was asked.
fn case() -> Case {
    Case::new(CaseId::new().with("number", 1).with("kind", "some"))
}

pub(super) fn plain_order() -> RoundOrder {
    let series = Series::new("net.none", Order::Shuffled, vec![case()]);
    rehearsal(series, here().cpus, calibration())
}

fn calibration() -> Calibration {
    let cpu = here().cpus[0];
    std::thread::spawn(move || calibrated(cpu)).join().expect("does not panic")
}

pub fn dial(order: &RoundOrder, far: &Endpoint) -> Dialer {
    let order = RoundOrder { far: Some(far.clone()), ..order.clone() };
    Dialer::new(&Bench::new(order).expect("a bench")).expect("a way")
}

pub fn hold(
    order: &RoundOrder,
    serve: impl FnOnce(&mut FarEnd) -> Result<()> + Send,
    near: impl FnOnce(&Endpoint, &mut Dialer) -> Result<()> + Send,
) {
    let (served, said) = with_far(order, serve, |far| near(&far, &mut dial(order, &far)));
    said.expect("the near end works");
    served.expect("the far end drains");
}

/// Serves every line: echoes what is asked, then as many data connections of 4 bytes as it says.
fn echoes(far: &mut FarEnd) -> Result<()> {
    Acceptor::open(far)?.serve(far, |acceptor, _, call| {
        ensure!(call.ask != serde_json::json!("fail"), "asked to fail");
        call.line.tell(&call.ask)?;
        let connections: u64 = call.line.hear(PATIENCE)?;
        for _ in 0..connections {
            let (mut stream, number) = acceptor.admit(Instant::now() + PATIENCE)?;
            let mut said = [0; 4];
            stream.read_exact(&mut said)?;
            stream.write_all(&said)?;
            call.line.tell(&number)?;
        }
        Ok(())
    })
}

fn works(dialer: &mut Dialer) -> Result<()> {
    let mut line = dialer.call(&case(), &"hello")?;
    ensure!(line.hear::<String>(PATIENCE)? == "hello");
    line.tell(&1)?;
    let mut stream = dialer.connect()?;
    stream.write_all(b"abcd")?;
    let mut back = [0; 4];
    stream.read_exact(&mut back)?;
    ensure!(&back == b"abcd");
    let number: u32 = line.hear(PATIENCE)?;
    ensure!(number == dialer.next);
    Ok(())
}

#[test]
fn both_ends_find_each_other_case_by_case() {
    hold(&plain_order(), echoes, |_, dialer| (0..3).try_for_each(|_| works(dialer)));
}

#[test]
fn a_case_that_cannot_be_served_costs_itself_only() {
    hold(&plain_order(), echoes, |_, dialer| {
        let mut line = dialer.call(&case(), &"fail").expect("a line");
        let told = line.hear::<String>(PATIENCE).expect_err("refused");
        assert!(told.is::<Refused>(), "{told}");
        // A near end that leaves in the middle of its case, with a connection that will not be
        // served.
        let mut line = dialer.call(&case(), &"hello").expect("a line");
        let _left = dialer.connect().expect("a connection");
        line.tell(&"no number").expect("tells");
        drop(line);
        works(dialer)
    });
}

#[test]
fn a_near_end_that_asks_for_what_was_not_ordered_ends_the_round() {
    let order = plain_order();
    let (served, _) = with_far(&order, echoes, |far| {
        let other = Case::new(CaseId::new().with("number", 2));
        let mut line = dial(&order, &far).call(&other, &1).expect("a line");
        line.hear::<u64>(PATIENCE).expect_err("is not served");
    });
    let told = served.expect_err("told").to_string();
    assert!(told.contains("number=2"), "{told}");
}

fn strangers(order: &RoundOrder, far: &Endpoint) -> Vec<TcpStream> {
    let mut dialer = dial(order, far);
    let wrong = Endpoint { token: "00".repeat(16), ..far.clone() };
    let mut random = fastrand::Rng::with_seed(7);
    let mut bytes = |count: usize| -> Vec<u8> { (0..count).map(|_| random.u8(..)).collect() };
    let of_wrong_token = dial(order, &wrong).preamble();
    let half = dialer.preamble()[..PREAMBLE_BYTES / 2].to_vec();
    let datagrams = dialer.datagram_preamble();
    let said = [
        of_wrong_token,
        half,
        datagrams,
        Vec::new(),
        bytes(PREAMBLE_BYTES),
        bytes(3),
        bytes(100_000),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
    ];
    shout(dialer.address, said)
}

/// Streams that say this, one each; they are to be kept, so that the silent ones stay.
pub fn shout(to: SocketAddr, said: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<TcpStream> {
    let say = |said: &[u8]| {
        let mut stream = TcpStream::connect(to).expect("the acceptor is open to all");
        // It may be dropped while it speaks.
        let _ = stream.write_all(said);
        stream
    };
    said.into_iter().map(|said| say(said.as_ref())).collect()
}

/// Whether the other side has closed a connection, which it may have reset.
fn is_dropped(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PREAMBLE_TIME + PATIENCE)).expect("a timeout");
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn strangers_are_dropped_and_end_nothing() {
    let order = plain_order();
    hold(&order, echoes, |far, right| {
        let before = strangers(&order, far);
        // Numbers that strangers() took from the same secret are not used again.
        right.next = 100;
        works(right)?;
        let mut line = right.call(&case(), &"hello")?;
        line.hear::<String>(PATIENCE)?;
        line.tell(&1)?;
        // In the middle of a case, while a connection is waited for.
        let between = strangers(&order, far);
        let mut stream = right.connect()?;
        stream.write_all(b"abcd")?;
        stream.read_exact(&mut [0; 4])?;
        line.hear::<u32>(PATIENCE)?;
        drop((stream, line));
        works(right)?;
        for mut stream in before.into_iter().chain(between) {
            ensure!(is_dropped(&mut stream), "a stranger is still let in");
        }
        works(right)
    });
}

#[test]
fn a_replayed_preamble_opens_nothing() {
    hold(&plain_order(), echoes, |_, right| {
        works(right)?;
        // What went over the wire so far: a line's preamble, and a data connection's.
        for (number, purpose) in [(1, Purpose::Line), (2, Purpose::Data)] {
            let heard = right.admission.preamble(purpose, number);
            let mut stranger = TcpStream::connect(right.address)?;
            stranger.write_all(&heard)?;
            ensure!(is_dropped(&mut stranger), "{purpose:?} was let in again");
        }
        works(right)
    });
}

#[test]
fn a_thousand_silent_strangers_keep_nobody_out() {
    const MANY: usize = 1000;
    hold(&plain_order(), echoes, |_, right| {
        let mut crowd = Vec::new();
        for _ in 0..MANY {
            // Where files run out, so many as there are.
            let Ok(stream) = TcpStream::connect_timeout(&right.address, PATIENCE) else {
                break;
            };
            crowd.push(stream);
        }
        ensure!(crowd.len() > MANY / 4, "a crowd of {} is none", crowd.len());
        works(right)?;
        works(right)
    });
}

#[test]
fn an_acceptor_waits_for_nobody_for_ever() {
    let order = plain_order();
    let serve = |far: &mut FarEnd| {
        let mut acceptor = Acceptor::open(far)?;
        let began = Instant::now();
        let soon = began + Duration::from_millis(20);
        acceptor.admit(soon).expect_err("nobody came");
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        acceptor.meet(&socket, soon).expect_err("nobody spoke");
        let (mut silent, _held) = UnixStream::pair()?;
        acceptor.check(&mut silent, soon).expect_err("said nothing");
        ensure!(began.elapsed() < PATIENCE);
        // The session drains although no near end ever called.
        ensure!(acceptor.next_call(far)?.is_none());
        Ok(())
    };
    let (served, ()) = with_far(&order, serve, |_| ());
    served.expect("drains");
}

#[test]
fn nothing_that_is_heard_steers_a_terminal() {
    let hear = |message: &serde_json::Value| {
        let (mut line, _near) = after(&framed(&codes(), true, 0, message.to_string().as_bytes()));
        let told = line.hear::<BTreeMap<String, String>>(PATIENCE);
        told.map_err(|error| format!("{error:#}"))
    };
    let bad = "x\u{1b}[2J\u{202e}y";
    let said = hear(&serde_json::json!({"Said": {bad: bad, "plain µ": "é"}})).expect("heard");
    let said: Vec<_> = said.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(said, [("plain µ", "é"), ("x [2J y", "x [2J y")]);
    for wrong in [
        serde_json::json!({"Refused": bad}),
        serde_json::json!({bad: 1}),
        serde_json::json!({"Said": {"a": [bad]}}),
        serde_json::json!({"Said": bad}),
    ] {
        let told = hear(&wrong).expect_err("is wrong");
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!told.contains(steers), "{told:?}");
        assert!(!told.contains("\\u{1b}"), "{told:?}");
    }
}

/// Lines whose other end does wrong.
#[test]
fn a_line_takes_only_whole_messages_in_time() {
    let hear = |said: &[u8], keep: bool| {
        let (mut line, other) = after(said);
        let held = keep.then_some(other);
        let told = line.hear::<u64>(Duration::from_millis(30));
        drop(held);
        told.map_err(|error| error.to_string())
    };
    let message = br#"{"Said":5}"#;
    let framed = |body: &[u8]| framed(&codes(), true, 0, body);
    assert_eq!(hear(&framed(message), false), Ok(5));
    let part = &framed(message)[..9];
    let (announced, none) = (u32::MAX.to_le_bytes(), framed(b"[1, 2"));
    let other = framed(br#"{"Said":"x"}"#);
    for (said, keep) in
        [(&announced[..], true), (part, true), (part, false), (&none, true), (&other, true)]
    {
        hear(said, keep).expect_err("is wrong");
    }
    let (mut line, other) = after(&[]);
    line.tell(&vec![0_u8; 70_000]).expect_err("is too long");
    assert!(line.is_open() && line.is_quiet());
    drop(other);
    let until = Instant::now() + PATIENCE;
    while line.is_open() {
        assert!(Instant::now() < until, "an end is not seen");
    }
    assert!(!line.is_quiet());
}

#[test]
fn datagrams_meet_and_strangers_datagrams_do_not() {
    let order = plain_order();
    let serve = |far: &mut FarEnd| {
        let mut acceptor = Acceptor::open(far)?;
        acceptor.serve(far, |acceptor, _, call| {
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            call.line.tell(&socket.local_addr()?.port())?;
            acceptor.meet(&socket, Instant::now() + PATIENCE)?;
            let mut said = [0; 100];
            let bytes = socket.recv(&mut said)?;
            socket.send(&said[..bytes])?;
            Ok(())
        })
    };
    hold(&order, serve, |_, right| {
        let mut line = right.call(&case(), &())?;
        let port: u16 = line.hear(PATIENCE)?;
        let stranger = UdpSocket::bind(("127.0.0.1", 0))?;
        let to = ("127.0.0.1", port);
        for said in [&b""[..], b"short", &[0; 28], &[7; 2000]] {
            stranger.send_to(said, to)?;
        }
        let replayed = right.datagram_preamble();
        let socket = right.meet(port)?;
        stranger.send_to(&replayed, to)?;
        stranger.send_to(b"also here", to)?;
        socket.send(b"right")?;
        let mut back = [0; 100];
        socket.set_read_timeout(Some(PATIENCE))?;
        let bytes = socket.recv(&mut back)?;
        ensure!(&back[..bytes] == b"right", "{:?}", &back[..bytes]);
        empty(&socket)?;
        Ok(())
    });
}
