//! Nobody gets in without the key, nothing hangs, and the agent stays up.

use super::{GOES_ON, Stand, ask, connect, hear, open, welcome, with_agent};
use crate::agent::channel::{Channel, FIRST_FRAME_BYTES_MAX, FRAME_BYTES_MAX, Lost};
use crate::agent::frame::encode;
use crate::agent::handshake::{HELLO_BYTES, Initiator, Refusal, Role, VERSION, hello};
use crate::agent::key::Key;
use crate::agent::listen::WAITING_MAX;
use crate::agent::message::{FromAgent, ToAgent};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// All that a client gets which says something to the agent and nothing more.
fn heard(at: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    // It may have closed by now.
    let _ = stream.write_all(said);
    let _ = stream.shutdown(Shutdown::Write);
    let mut heard = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut heard);
    heard
}

/// The agent serves who has the key, after whatever came before.
fn still_serves(stand: &mut Stand<'_>, key: &Key) {
    let session = stand.while_client(|at| welcome(at, key));
    assert_eq!(stand.listen.served_by(), Some("near"));
    drop(session);
    stand.turn_until(|listen| listen.served_by().is_none());
}

/// What a session says in a handshake: its first flight.
fn first_flight(key: &Key) -> (Initiator, Vec<u8>) {
    let mut said = Vec::new();
    let initiator = Initiator::new(key, &mut said).unwrap();
    (initiator, said)
}

/// What an agent answers to a first flight.
fn answered(stand: &mut Stand<'_>, mut stream: &TcpStream) -> Vec<u8> {
    let mut answered = vec![0; HELLO_BYTES + 2 + 48];
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    stand.while_client(|_| stream.read_exact(&mut answered).unwrap());
    answered
}

/// What a session says after that answer: its second flight, and its opening.
fn second_flight(initiator: &mut Initiator, answered: &[u8], host_name: &str) -> Vec<u8> {
    let mut said = Vec::new();
    let mut secured = initiator.feed(answered, &mut said).unwrap().unwrap();
    let body = serde_json::to_vec(&open(host_name)).unwrap();
    secured.seal.seal(&encode(&body, FRAME_BYTES_MAX).unwrap(), &mut said);
    said
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
        let answered = stand.while_client(|at| heard(at, &plain));
        assert_eq!(answered, hello(Role::Agent));
        for said in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"", b"PLUM", &hello(Role::Agent)] {
            let answered = stand.while_client(|at| heard(at, said));
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
        let mut stream = TcpStream::connect(stand.at).unwrap();
        stream.write_all(&said).unwrap();
        let answered = answered(stand, &stream);
        drop(stream);
        said.extend(second_flight(&mut initiator, &answered, "near"));
        assert_eq!(answered[..HELLO_BYTES], hello(Role::Agent));
        let again = stand.while_client(|at| heard(at, &said));
        // It was heard before, and gets no answer.
        assert_eq!(again, hello(Role::Agent));
        assert_eq!(stand.listen.served_by(), None);
        assert!(!stand.has_said("a session of"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}

#[test]
fn truncated_handshakes_and_random_bytes_end_where_they_end() {
    let mut rng = fastrand::Rng::with_seed(7);
    with_agent(|stand, key| {
        let (_, said) = first_flight(key);
        for cut in 0..=said.len() {
            let answered = stand.while_client(|at| heard(at, &said[..cut]));
            let expected = match cut {
                0..HELLO_BYTES => 0,
                _ if cut < said.len() => HELLO_BYTES,
                _ => HELLO_BYTES + 2 + 48,
            };
            assert_eq!(answered.len(), expected, "cut at {cut}");
        }
        for _ in 0..50 {
            let mut noise: Vec<u8> = (0..rng.usize(0..5000)).map(|_| rng.u8(..)).collect();
            if rng.bool() {
                noise.splice(..0, hello(Role::Session));
            }
            let answered = stand.while_client(|at| heard(at, &noise));
            assert!(answered.len() <= HELLO_BYTES, "{answered:?}");
        }
        stand.turn_until(|listen| listen.waiting() == 0);
        still_serves(stand, key);
    });
}

#[test]
fn another_version_is_told_in_plain() {
    with_agent(|stand, key| {
        let (_, mut said) = first_flight(key);
        said[6..HELLO_BYTES].copy_from_slice(&(VERSION + 1).to_le_bytes());
        let answered = stand.while_client(|at| heard(at, &said));
        assert_eq!(answered, hello(Role::Agent));
        assert!(stand.has_said("same version"), "{:?}", stand.said);
        // And the other way round: what a session makes of an agent's.
        let (mut initiator, _) = first_flight(key);
        let mut newer = hello(Role::Agent);
        newer[6] += 1;
        let refusal = initiator.feed(&newer, &mut Vec::new()).err();
        assert_eq!(refusal, Some(Refusal::OtherVersion(VERSION + 1)));
        still_serves(stand, key);
    });
}

#[test]
fn frames_over_the_limit_end_a_connection_before_they_are_held() {
    with_agent(|stand, key| {
        // Before a session is let in, and after.
        for is_let_in in [false, true] {
            let limit = if is_let_in { FRAME_BYTES_MAX } else { FIRST_FRAME_BYTES_MAX };
            let lost = stand.while_client(|at| {
                let mut channel =
                    if is_let_in { welcome(at, key) } else { connect(at, key).unwrap() };
                let length = u32::try_from(limit + 1).unwrap().to_le_bytes();
                channel.send_raw(&length).unwrap();
                hear(&mut channel).err().unwrap()
            });
            assert!(matches!(lost.downcast_ref(), Some(Lost::Closed)), "{lost:#}");
            assert!(stand.has_said(&limit.to_string()), "{:?}", stand.said);
            stand.turn_until(|listen| listen.served_by().is_none() && listen.waiting() == 0);
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
        stand.turn_until(|listen| listen.served_by().is_none());
        assert!(stand.has_said("failed its authentication"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}

#[test]
fn who_is_slow_is_let_go_when_its_time_is_over() {
    with_agent(|stand, key| {
        let (_, said) = first_flight(key);
        let mut silent = TcpStream::connect(stand.at).unwrap();
        let mut slow = TcpStream::connect(stand.at).unwrap();
        slow.set_nodelay(true).unwrap();
        stand.turn_until(|listen| listen.waiting() == 2);
        for byte in &said[..20] {
            slow.write_all(&[*byte]).unwrap();
            assert!(stand.listen.turn(None).unwrap());
        }
        // However often it speaks.
        stand.listen.time_passes();
        stand.turn_until(|listen| listen.waiting() == 0);
        assert!(stand.has_said("in time"), "{:?}", stand.said);
        let mut rest = Vec::new();
        assert_eq!(silent.read_to_end(&mut rest).unwrap_or(0), 0);
        still_serves(stand, key);
    });
}

#[test]
fn a_thousand_connections_at_once_keep_nobody_out_who_has_the_key() {
    with_agent(|stand, key| {
        let (_, said) = first_flight(&Key::random().unwrap());
        let mut held = Vec::new();
        for at in 0..1000 {
            let mut stream = TcpStream::connect(stand.at).unwrap();
            // Some say nothing, some hello, some have another key.
            let _ = stream.write_all(&said[..[0, HELLO_BYTES, said.len()][at % 3]]);
            held.push(stream);
            if at % 100 == 0 {
                assert!(stand.listen.turn(None).unwrap());
            }
        }
        // The others still wait in the kernel.
        let mut session = stand.while_client(|at| welcome(at, key));
        assert!(stand.listen.waiting() <= WAITING_MAX);
        // A line a second, and not one for each.
        assert!(stand.has_said("rejected "), "{:?}", stand.said);
        assert!(stand.said.borrow().len() < 100, "{:?}", stand.said);
        // And they do not end the session that is served.
        for _ in 0..50 {
            held.push(TcpStream::connect(stand.at).unwrap());
        }
        let answered = stand.while_client(|at| ask(at, key, "other").unwrap().1);
        assert!(matches!(answered, FromAgent::Busy { .. }), "{answered:?}");
        session.send(&ToAgent::End, &GOES_ON).unwrap();
        stand.turn_until(|listen| listen.served_by().is_none());
        drop(held);
        still_serves(stand, key);
    });
}

#[test]
fn handshakes_that_are_repeated_take_nobodys_place() {
    with_agent(|stand, key| {
        // Somebody listened to a session.
        let (_, overheard) = first_flight(key);
        let mut earlier = TcpStream::connect(stand.at).unwrap();
        earlier.write_all(&overheard).unwrap();
        answered(stand, &earlier);
        // Another one is on its way: its third message takes its time.
        let (mut initiator, said) = first_flight(key);
        let mut honest = TcpStream::connect(stand.at).unwrap();
        honest.write_all(&said).unwrap();
        let answered = answered(stand, &honest);
        let mut replays = Vec::new();
        for at in 0..4 * WAITING_MAX {
            let mut replay = TcpStream::connect(stand.at).unwrap();
            replay.write_all([&overheard, &said][at % 2]).unwrap();
            replays.push(replay);
            assert!(stand.listen.turn(None).unwrap());
        }
        honest.write_all(&second_flight(&mut initiator, &answered, "honest")).unwrap();
        stand.turn_until(|listen| listen.served_by() == Some("honest"));
    });
}

#[test]
fn what_came_in_time_counts_though_the_agent_was_busy() {
    with_agent(|stand, key| {
        let mut waiting = connect_in_thread(stand, key);
        stand.turn_until(|listen| listen.waiting() == 1);
        // Its opening lies there when the agent looks again, which is late.
        waiting.send(&open("late"), &GOES_ON).unwrap();
        stand.listen.time_passes();
        stand.turn_until(|listen| listen.waiting() == 0);
        assert_eq!(stand.listen.served_by(), Some("late"), "{:?}", stand.said);
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
            stand.turn_until(|listen| listen.waiting() == 1);
            stand.listen.time_passes();
            stand.turn_until(|listen| listen.waiting() == 0);
            assert!(stand.has_said("in time"), "{:?}", stand.said);
            assert!(hear(&mut slow).is_err());
        }
        // And in its session: a frame that comes byte by byte.
        let mut slow = stand.while_client(|at| welcome(at, key));
        for byte in [200, 0, 0, 0, b'{', b'"'] {
            slow.send_raw(&[byte]).unwrap();
            assert!(stand.listen.turn(None).unwrap());
            assert_eq!(stand.listen.served_by(), Some("near"));
        }
        stand.listen.frame_time_passes();
        slow.send_raw(b"E").unwrap();
        stand.turn_until(|listen| listen.served_by().is_none());
        assert!(stand.has_said("was incomplete"), "{:?}", stand.said);
        still_serves(stand, key);
    });
}

#[test]
fn who_came_further_is_kept_for_who_came_less_far() {
    with_agent(|stand, key| {
        // The oldest of all, and with the key.
        let (mut initiator, said) = first_flight(key);
        let mut keyed = TcpStream::connect(stand.at).unwrap();
        keyed.write_all(&said).unwrap();
        stand.turn_until(|listen| listen.waiting() == 1);
        let answered = answered(stand, &keyed);
        let mut strangers = Vec::new();
        for _ in 0..3 * WAITING_MAX {
            strangers.push(TcpStream::connect(stand.at).unwrap());
            assert!(stand.listen.turn(None).unwrap());
        }
        assert_eq!(stand.listen.waiting(), WAITING_MAX);
        keyed.write_all(&second_flight(&mut initiator, &answered, "patient")).unwrap();
        stand.turn_until(|listen| listen.served_by() == Some("patient"));
    });
}
