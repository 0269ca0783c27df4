//! `plumb agent` at the command line: keys, what cannot be meant, and its end. What sessions and
//! other clients do to it is in tests/agent.

use crate::plumb::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// An agent that listens at a free port of loopback, and its address.
fn listening(here: &Here) -> (Child, String) {
    here.ends(0, &["agent", "--new-key", "key"]);
    let args = ["agent", "--listen", "0", "--key-file", "key"];
    let mut agent = here.command(&args).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(agent.stderr.as_mut().unwrap());
    said.read_line(&mut line).unwrap();
    let at = line.trim().strip_prefix("plumb agent: listening at ");
    let at = at.unwrap_or_else(|| panic!("{line}")).to_owned();
    (agent, at)
}

#[test]
fn a_new_key_is_for_its_owner_alone_and_overwrites_nothing() {
    let here = Here::new();
    let answer = here.ends(0, &["agent", "--new-key", "key"]);
    let mode = fs::metadata(here.path("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = fs::read_to_string(here.path("key")).unwrap();
    assert_eq!(key.trim().len(), 64);
    assert!(!answer.err.contains(key.trim()) && answer.out.is_empty());
    here.ends(2, &["agent", "--new-key", "key"]);
    assert_eq!(fs::read_to_string(here.path("key")).unwrap(), key);
}

#[test]
fn what_cannot_be_meant_is_told_with_what_to_type() {
    let here = Here::new();
    here.plumb(&["agent", "--new-key", "key"]);
    fs::write(here.path("short"), "0123").unwrap();
    mode(here.path("short"), 0o600);
    let listen = |more: &[&'static str]| [&["agent", "--listen", "0"], more].concat();
    for (args, code, part) in [
        (listen(&[]), 2, "--new-key FILE"),
        (listen(&["--key-file", "none"]), 2, "--new-key none"),
        (listen(&["--key-file", "short"]), 2, "64 hexadecimal digits"),
        (listen(&["--key-file", "key", "--cpu", "99999"]), 2, "usable here"),
        (listen(&["--key-file", "key", "--data", "192.0.2.1"]), 2, "no address 192.0.2.1"),
        (listen(&["--key-file", "key", "--data", "0.0.0.0"]), 2, "wildcard address"),
        (listen(&["--new-key", "other"]), 2, "cannot be used with"),
        (vec!["agent", "--listen", "here:1"], 2, "10.1.2.3:7411"),
        (
            vec!["agent", "--listen", "192.0.2.1:1", "--key-file", "key"],
            3,
            "cannot listen at 192.0.2.1:1",
        ),
        (vec!["agent", "--key-file", "key"], 2, "--listen"),
        // Nobody speaks.
        (vec!["agent"], 3, "no session said hello"),
    ] {
        let answer = here.plumb(&args);
        assert_eq!(answer.code, Some(code), "{args:?}: {answer:?}");
        assert!(answer.err.contains(part), "{args:?}: {answer:?}");
    }
    assert!(!here.path("other").exists());
}

/// What authenticates the session started the agent; its frames have limits all the same.
#[test]
fn what_speaks_otherwise_on_standard_input_is_refused() {
    let here = Here::new();
    let hello = session::agent::handshake::hello(session::agent::handshake::Role::Session);
    for (bytes, words) in [
        (b"Welcome to this host\n".to_vec(), "Welcome"),
        ([&hello[..], &[255, 255, 255, 127]].concat(), "exceeds the limit"),
        ([&hello[..], &[4, 0, 0, 0], b"nope"].concat(), "cannot parse a message"),
        ([&hello[..], &[4, 0, 0]].concat(), "closed"),
    ] {
        let mut command = here.command(&["agent"]);
        let mut agent = command.stdin(Stdio::piped()).spawn().unwrap();
        agent.stdin.take().unwrap().write_all(&bytes).unwrap();
        let answer = ended_with(3, agent);
        assert!(answer.err.contains(words), "no `{words}`: {answer:?}");
    }
}

#[test]
fn a_signal_ends_it_cleanly_whatever_it_waits_for() {
    for (name, held) in [("TERM", 0), ("INT", 3)] {
        let here = Here::new();
        let (agent, at) = listening(&here);
        // Some are in the handshake.
        let clients: Vec<TcpStream> = (0..held).map(|_| TcpStream::connect(&at).unwrap()).collect();
        for mut client in &clients {
            client.write_all(b"PLUMBS").unwrap();
        }
        signal(name, agent.id());
        ended_with(0, agent);
    }
    // On standard input nobody has said hello.
    let here = Here::new();
    let mut command = here.command(&["agent"]);
    let mut agent = command.stdin(Stdio::piped()).spawn().unwrap();
    let _held = agent.stdin.take();
    let mut hello = [0; 8];
    agent.stdout.as_mut().unwrap().read_exact(&mut hello).unwrap();
    assert_eq!(hello[..6], *b"PLUMBA");
    signal("TERM", agent.id());
    ended_with(0, agent);
}
