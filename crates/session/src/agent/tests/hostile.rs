//! Nobody gets in without the key, nothing hangs, and the agent stays up.

use super::{GOES_ON, Stand, ask, connect, hear, is_busy, open, welcome, with_agent};
use crate::agent::acceptor::PENDING_MAX;
use crate::agent::handshake::{Greeting, HELLO_BYTES, Role, hello};
use crate::agent::key::Key;
use crate::agent::{FIRST_BYTES_MAX, ORDER_BYTES_MAX};
use crate::node::channel::{Channel, Lost};
use bench::link::frame::{FRAME_BYTES_MAX, encode};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// All that a client gets which says something to the agent and nothing more.
fn exchanged(at: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    // It may have closed by now.
    let _ = stream.write_all(said);
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut received);
    received
}

/// The agent serves who has the key, after whatever came before.
fn still_serves(stand: &mut Stand<'_>, key: &Key) {
    let session = stand.while_client(|at| welcome(at, key));
    assert_eq!(stand.listen.client(), Some("near"));
    drop(session);
    stand.turn_until(|listen| listen.client().is_none());
}

fn first_flight(key: &Key) -> (Greeting, Vec<u8>) {
    let mut greeting = Greeting::initiator(key).unwrap();
    let said = greeting.first();
    (greeting, said)
}

fn answered(stand: &mut Stand<'_>, mut stream: &TcpStream) -> Vec<u8> {
    let mut answered = vec![0; HELLO_BYTES + 2 + 48];
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    stand.while_client(|_| stream.read_exact(&mut answered).unwrap());
    answered
}

fn opening(greeting: &mut Greeting, answered: &[u8], host_name: &str) -> Vec<u8> {
    let greeted = greeting.feed(answered, &mut Vec::new()).unwrap().unwrap();
    let body = serde_json::to_vec(&open(host_name)).unwrap();
    greeted.seal.unwrap().sealed(&encode(&body, FRAME_BYTES_MAX).unwrap())
}

#[test]
fn another_key_and_none_are_not_let_in() {
    let other = Key::random().unwrap();
    with_agent(|stand, key| {
        let error = stand.while_client(|at| connect(at, &other).err().unwrap());
        assert!(format!("{error:#}").contains("different key"), "{error:#}");
        assert!(stand.has_said("rejected "), "{:?}", stand.said);
        // Without a handshake: what is said on standard streams.
        let frame = encode(&serde_json::to_vec(&open("near")).unwrap(), 1 << 16).unwrap();
        let plain = [&hello(Role::Session)[..], &frame].concat();
        let answered = stand.while_client(|at| exchanged(at, &plain));
        assert_eq!(answered, hello(Role::Agent));
        for said in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"", b"PLUM", &hello(Role::Agent)] {
            let answered = stand.while_client(|at| exchanged(at, said));
            assert!(answered.is_empty(), "{answered:?}");
        }
        still_serves(stand, key);
    });
}

#[test]
fn a_handshake_that_was_heard_cannot_be_said_again() {
    with_agent(|stand, key| {
        // All that a session with the key says, its opening included.
        let (mut initiator, mut said) = first_flight(key);
        let mut stream = TcpStream::connect(stand.address).unwrap();
        stream.write_all(&said).unwrap();
        let answered = answered(stand, &stream);
        drop(stream);
        said.extend(opening(&mut initiator, &answered, "near"));
        assert_eq!(answered[..HELLO_BYTES], hello(Role::Agent));
        let again = stand.while_client(|at| exchanged(at, &said));
        // It is answered with a fresh key, for which the third message is not sealed.
        assert_eq!(again.len(), answered.len());
        assert_ne!(again, answered);
        assert_eq!(stand.listen.client(), None);
        assert!(!stand.has_said("a session of"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}

#[test]
fn frames_over_the_limit_end_a_connection_before_they_are_held() {
    with_agent(|stand, key| {
        // Before a session is let in, and after.
        for is_let_in in [false, true] {
            let limit = if is_let_in { ORDER_BYTES_MAX } else { FIRST_BYTES_MAX };
            let lost = stand.while_client(|at| {
                let mut channel =
                    if is_let_in { welcome(at, key) } else { connect(at, key).unwrap() };
                let length = u32::try_from(limit + 1).unwrap().to_le_bytes();
                channel.send_raw(&length).unwrap();
                hear(&mut channel).err().unwrap()
            });
            assert!(matches!(lost.downcast_ref(), Some(Lost::Closed)), "{lost:#}");
            assert!(stand.has_said(&limit.to_string()), "{:?}", stand.said);
            stand.turn_until(|listen| listen.client().is_none() && listen.pending() == 0);
        }
        // What is in a frame must be a message, and the first one an opening.
        for said in [&b"{}"[..], b"\"Nothing\"", &[b'['; 60_000], b"\"End\"", b"\xff"] {
            stand.while_client(|at| {
                let mut channel = connect(at, key).unwrap();
                channel.send_raw(&encode(said, FRAME_BYTES_MAX).unwrap()).unwrap();
                assert!(hear(&mut channel).is_err());
            });
        }
        // Bytes that are not sealed.
        stand.while_client(|at| {
            let mut channel = welcome(at, key);
            let record = [&32_u16.to_le_bytes()[..], &[9; 32]].concat();
            channel.send_unsealed(&record).unwrap();
            assert!(hear(&mut channel).is_err());
        });
        stand.turn_until(|listen| listen.client().is_none());
        assert!(stand.has_said("failed its authentication"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}

#[test]
fn who_is_slow_is_let_go_when_its_time_is_over() {
    with_agent(|stand, key| {
        let (_, said) = first_flight(key);
        let mut silent = TcpStream::connect(stand.address).unwrap();
        let mut slow = TcpStream::connect(stand.address).unwrap();
        slow.set_nodelay(true).unwrap();
        stand.turn_until(|listen| listen.pending() == 2);
        for byte in &said[..20] {
            slow.write_all(&[*byte]).unwrap();
            stand.listen.turn(None).unwrap();
        }
        // However often it speaks.
        stand.listen.expire_pending();
        stand.turn_until(|listen| listen.pending() == 0);
        assert!(stand.has_said("in time"), "{:?}", stand.said);
        let mut rest = Vec::new();
        assert_eq!(silent.read_to_end(&mut rest).unwrap_or(0), 0);
        still_serves(stand, key);
    });
}

#[test]
fn silent_and_wrong_clients_keep_nobody_out_who_has_the_key() {
    with_agent(|stand, key| {
        let (_, wrong) = first_flight(&Key::random().unwrap());
        let (_, replayed) = first_flight(key);
        let mut held = Vec::new();
        for index in 0..3 * PENDING_MAX {
            let mut stream = TcpStream::connect(stand.address).unwrap();
            let _ = stream.write_all([&[], &wrong[..HELLO_BYTES], &wrong, &replayed][index % 4]);
            held.push(stream);
            stand.listen.turn(None).unwrap();
        }
        assert_eq!(stand.listen.pending(), PENDING_MAX);
        assert!(stand.has_said("other clients"), "{:?}", stand.said);
        assert_eq!(held[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
        // A client with the key does not wait until the time of another one is over.
        let session = stand.while_client(|at| welcome(at, key));
        // Further ones do not end its session.
        for _ in 0..=PENDING_MAX {
            held.push(TcpStream::connect(stand.address).unwrap());
        }
        let answered = stand.while_client(|at| ask(at, key, "other").unwrap().1);
        assert!(is_busy(&answered), "{answered:?}");
        drop(session);
        stand.turn_until(|listen| listen.client().is_none());
        still_serves(stand, key);
    });
}

#[test]
fn what_came_in_time_counts_though_the_agent_was_busy() {
    with_agent(|stand, key| {
        let mut waiting = connect_in_thread(stand, key);
        stand.turn_until(|listen| listen.pending() == 1);
        // Its opening lies there when the agent looks again, which is late.
        waiting.send(&open("late"), &GOES_ON).unwrap();
        stand.listen.expire_pending();
        stand.turn_until(|listen| listen.pending() == 0);
        assert_eq!(stand.listen.client(), Some("late"), "{:?}", stand.said);
    });
}

/// A session's connection after its handshake, which says nothing yet.
fn connect_in_thread(stand: &mut Stand<'_>, key: &Key) -> Channel {
    stand.while_client(|at| connect(at, key).unwrap())
}

#[test]
fn who_has_the_key_and_is_slow_is_let_go_as_well() {
    with_agent(|stand, key| {
        // Before it says what it wants: whole, and in pieces.
        for said in [&[][..], &[200, 0, 0, 0, b'{']] {
            let mut slow = connect_in_thread(stand, key);
            slow.send_raw(said).unwrap();
            stand.turn_until(|listen| listen.pending() == 1);
            stand.listen.expire_pending();
            stand.turn_until(|listen| listen.pending() == 0);
            assert!(stand.has_said("in time"), "{:?}", stand.said);
            assert!(hear(&mut slow).is_err());
        }
        // And in its session: a frame that comes byte by byte.
        let mut slow = stand.while_client(|at| welcome(at, key));
        for byte in [200, 0, 0, 0, b'{', b'"'] {
            slow.send_raw(&[byte]).unwrap();
            stand.listen.turn(None).unwrap();
            assert_eq!(stand.listen.client(), Some("near"));
        }
        stand.listen.expire_frame();
        slow.send_raw(b"E").unwrap();
        stand.turn_until(|listen| listen.client().is_none());
        assert!(stand.has_said("was incomplete"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}
