//! Nobody gets in without the key, whatever they say and however many they are, and who has it
//! does.

use crate::lab::{ECHO, Lab, PATIENCE, is_measuring, rounds, wait_for};
use crate::plumb::prelude::*;
use crate::relay::Relay;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// A hello of another version, and what stands before the version in any.
const OTHER_VERSION: u16 = 99;
const OF_SESSION: &[u8] = b"PLUMBS";
const OF_AGENT: &[u8] = b"PLUMBA";
/// Bytes of a handshake's message, the last of which never comes.
const SLOW_BYTES: usize = 48;

/// Says something to an agent, and hears what it answers until it closes the connection.
fn say(agent: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(agent).unwrap();
    // One that has heard enough closes early.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    answer
}

fn works(answer: &Ended) {
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

fn refused(answer: &Ended, words: &[&str]) {
    assert_eq!(answer.code, Some(3), "{answer:?}");
    // Well within its time.
    assert!(answer.took < Duration::from_secs(60), "{answer:?}");
    for words in words {
        assert!(answer.said.contains(words), "no `{words}`: {answer:?}");
    }
}

/// Peak of the memory that a process had, in bytes.
fn peak(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn the_wrong_key_no_key_and_one_that_others_may_read() {
    let lab = Lab::new();
    let (_agent, address) = lab.agent();
    let peer = format!("tcp://{address}");
    let with = |key: Option<&str>| {
        let key = key.map(|key| lab.text(key));
        let mut args = vec!["plan", ECHO[0], "--peer", &peer];
        args.extend(key.iter().flat_map(|key| ["--key-file", key.as_str()]));
        lab.plumb(&args)
    };
    lab.new_key("other");
    refused(&with(Some("other")), &["different key", &peer]);
    let none = with(None);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.said.contains("--key-file"), "{none:?}");
    let absent = with(Some("absent"));
    assert_eq!(absent.code, Some(2), "{absent:?}");
    assert!(absent.said.contains("--new-key"), "{absent:?}");
    fs::copy(lab.path("key"), lab.path("open")).unwrap();
    mode(lab.path("open"), 0o644);
    let open = with(Some("open"));
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(open.said.contains("chmod"), "{open:?}");
    works(&with(Some("key")));
}

#[test]
fn another_version_is_told_in_plain_at_both_ends() {
    let lab = Lab::new();
    let hello = |of: &[u8]| [of, &OTHER_VERSION.to_le_bytes()].concat();
    // A session of another version hears the agent's own.
    let (_agent, address) = lab.agent();
    let answer = say(address, &hello(OF_SESSION));
    assert!(answer.starts_with(OF_AGENT) && answer.len() == 8, "{answer:?}");
    works(&lab.rehearse(address));
    // An agent of another version, that listens …
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap();
    let answers = hello(OF_AGENT);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.write_all(&answers).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let words = ["version 99", "install the same version of plumb at both ends"];
    refused(&lab.plan(other), &words);
    // … and one that was started. That plumb ended it is not what happened.
    let records = lab.records().len();
    let peer = "exec:printf 'PLUMBA\\143\\000'; exec sleep 100";
    let started = lab.plumb(&["run", ECHO[0], "--preset", "quick", "--peer", peer]);
    refused(&started, &words);
    assert!(!started.said.contains("signal"), "{started:?}");
    assert_eq!(lab.records().len(), records);
}

#[test]
fn noise_cuts_and_what_was_heard_before() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let relay = Relay::to(address);
    works(&lab.plan(relay.address));
    let said = relay.first_said();
    assert!(said.starts_with(OF_SESSION) && said.len() > 100, "{said:?}");
    // All that a session said, once more: it is let go before it is one.
    let replayed = say(address, &said);
    assert!(replayed.len() < 100, "{} bytes", replayed.len());
    for cut in [1, 7, 8, 9, 20, 57, 58, 75] {
        assert!(say(address, &said[..cut]).len() < 100, "{cut}");
    }
    let mut random = fastrand::Rng::with_seed(7);
    for length in [1, 100, 10_000, 1_000_000] {
        let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        assert!(say(address, &noise).is_empty(), "{length}");
        // After a hello, and after a hello and the length of a first message.
        say(address, &[&said[..8], &noise].concat());
        say(address, &[&said[..10], &noise].concat());
    }
    assert!(peak(&agent) < 64 << 20);
    works(&lab.rehearse(address));
    assert!(!agent.said().contains('\u{fffd}'), "{}", agent.said());
}

/// Frames over the limit, and ones that say nothing, of one who was let in by ssh or the like.
#[test]
fn an_agent_on_standard_input_takes_no_oversize_frame() {
    let lab = Lab::new();
    let [low, high] = session::agent::handshake::VERSION.to_le_bytes();
    let hello = format!("printf 'PLUMBS\\{low:03o}\\{high:03o}'");
    for (frame, words) in [
        (r"printf '\377\377\377\177'", "exceeds the limit"),
        (r"printf '\004\000\000\000nope'", "cannot parse a message"),
        (r"printf '\004\000\000'", "closed"),
    ] {
        let line = format!("({hello}; {frame}) | '{}' agent", PLUMB);
        let answer = lab.start(lab.other("bash").args(["-c", &line])).ends(3);
        assert!(answer.said.contains(words), "{answer:?}");
    }
}

#[test]
fn a_thousand_connections_at_once() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    works(&lab.rehearse(address));
    let before = peak(&agent);
    let run = lab.start_echo(address, "quick");
    // They stay open, and most of them say nothing; the others a hello and the head of a record that
    // never comes.
    let port = address.port();
    let script = format!(
        "ulimit -n 4096; for i in {{1..1000}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{port}; \
         [ $((i % 3)) -gt 0 ] || printf 'PLUMBS\\001\\000\\060\\000' >&$fd; done; echo all open; sleep 100"
    );
    let crowd = lab.start(lab.other("bash").args(["-c", &script]));
    wait_for("the crowd", || crowd.said().contains("all open").then_some(()));
    works(&run.wait());
    let events = lab.events();
    assert_eq!((end(&events), rounds(&events).1.len()), ("complete", 0));
    // And while they are there another one comes through.
    works(&lab.rehearse(address));
    let grown = peak(&agent).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
    let open = fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap().count();
    assert!(open < 50, "{open} descriptors");
}

/// Says a hello of the right version, and then byte by byte a message that never is whole, until
/// the agent has closed the connection or `is_over`. Returns how long it was heard.
fn drip(agent: SocketAddr, is_over: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(agent).unwrap();
    let every = Duration::from_millis(50);
    stream.set_read_timeout(Some(every)).unwrap();
    let length = u16::try_from(SLOW_BYTES).unwrap().to_le_bytes();
    let said = [OF_SESSION, &[1, 0], &length].concat();
    let mut bytes = said.into_iter().chain(std::iter::repeat_n(7, SLOW_BYTES - 1));
    while !is_over() {
        if let Some(byte) = bytes.next()
            && stream.write_all(&[byte]).is_err()
        {
            break;
        }
        match stream.read(&mut [0; 64]) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    begin.elapsed()
}

/// Nobody else is there for whom there would have to be room.
#[test]
fn one_byte_at_a_time_is_let_go() {
    let lab = Lab::new();
    let (_agent, address) = lab.agent();
    let begin = Instant::now();
    let heard = drip(address, || begin.elapsed() > PATIENCE);
    assert!(heard < PATIENCE, "{heard:?}");
    works(&lab.rehearse(address));
}

#[test]
fn one_byte_at_a_time_from_many() {
    let lab = Lab::new();
    let (_agent, address) = lab.agent();
    let over = AtomicBool::new(false);
    let begun = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    begun.fetch_add(1, Ordering::Relaxed);
                    drip(address, || over.load(Ordering::Relaxed));
                }
            });
        }
        wait_for("the slow ones", || (begun.load(Ordering::Relaxed) >= 40).then_some(()));
        let answers = [lab.rehearse(address), lab.plan(address)];
        over.store(true, Ordering::Relaxed);
        answers.iter().for_each(works);
    });
}

#[test]
fn one_session_at_a_time() {
    let lab = Lab::new();
    let (_agent, address) = lab.agent();
    let first = lab.start_echo(address, "standard");
    is_measuring(&lab);
    refused(&lab.plan(address), &["busy until 20", "one session at a time"]);
    first.signal("INT");
    first.ends(4);
    works(&lab.plan(address));
}
