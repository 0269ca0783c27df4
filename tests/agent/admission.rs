//! Who is served: clients that have the key and the same version. (Who is slow or comes second, and what else a
//! client may say is tested in crates/session/src/agent/tests.)

use crate::lab::{ECHO, Lab};
use crate::plumb::prelude::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// A version that no plumb has, and the bytes before the version in a hello.
const OTHER_VERSION: u16 = 99;
const SESSION_HELLO: &[u8] = b"PLUMBS";
const AGENT_HELLO: &[u8] = b"PLUMBA";

fn works(answer: &Ended) {
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

fn refused(answer: &Ended, words: &[&str]) {
    assert_eq!(answer.code, Some(3), "{answer:?}");
    for words in words {
        assert!(answer.said.contains(words), "no `{words}`: {answer:?}");
    }
}

/// Connects, sends these bytes and nothing more.
fn sends(agent: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(agent).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// What the agent sends until it closes the connection.
fn answer_of(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    answer
}

#[test]
fn the_wrong_key_no_key_and_one_that_others_may_read() {
    let lab = Lab::new();
    let (_agent, address) = lab.agent();
    let peer = format!("tcp://{address}");
    lab.new_key("other");
    fs::copy(lab.path("key"), lab.path("open")).unwrap();
    mode(lab.path("open"), 0o644);
    for (key, code, words) in [
        (Some("other"), 3, "different key"),
        (None, 2, "--key-file"),
        (Some("absent"), 2, "--new-key"),
        (Some("open"), 2, "chmod"),
        (Some("key"), 0, ""),
    ] {
        let key = key.map(|key| lab.text(key));
        let mut args = vec!["plan", ECHO[0], "--peer", &peer];
        args.extend(key.iter().flat_map(|key| ["--key-file", key.as_str()]));
        let answer = lab.plumb(&args);
        assert_eq!(answer.code, Some(code), "{answer:?}");
        assert!(answer.said.contains(words), "no `{words}`: {answer:?}");
    }
}

#[test]
fn both_ends_report_another_version_in_plain_text() {
    let lab = Lab::new();
    let other_hello = |role: &[u8]| [role, &OTHER_VERSION.to_le_bytes()].concat();
    // A session of another version receives the agent's hello.
    let (_agent, address) = lab.agent();
    let answer = answer_of(sends(address, &other_hello(SESSION_HELLO)));
    assert!(answer.starts_with(AGENT_HELLO) && answer.len() == 8, "{answer:?}");
    works(&lab.rehearse(address));
    // An agent of another version, that listens …
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap();
    let answers = other_hello(AGENT_HELLO);
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
