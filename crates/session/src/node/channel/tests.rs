//! Channels over pipes: hello, messages, deadlines.

use super::{Channel, FRAME_BYTES_MAX, FRAME_TIME, Lost};
use crate::agent::handshake::{Greeting, HELLO_BYTES, Refusal, Role, VERSION, hello};
use crate::agent::message::ToAgent;
use crate::node::Interrupted;
use anyhow::{Context, Result};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

impl Channel {
    /// Seals and sends bytes that are no frame.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        let sealed = self.seal.as_mut().context("it is sealed")?.sealed(bytes);
        self.send_unsealed(&sealed)
    }

    /// The time of what has begun to arrive is over.
    pub(crate) fn expire_frame(&mut self) {
        self.begun = self.begun.and_then(|begun| begun.checked_sub(FRAME_TIME));
    }

    /// Sends bytes that nobody sealed.
    pub(crate) fn send_unsealed(&mut self, bytes: &[u8]) -> Result<()> {
        let stop = AtomicBool::new(false);
        self.write_all(bytes, Instant::now() + FRAME_TIME, &stop)
    }
}

const LONG: Duration = Duration::from_secs(20);

fn channel(said: &[u8]) -> (Result<Channel>, PipeWriter, PipeReader) {
    let (reader, mut to) = pipe().unwrap();
    let (from, writer) = pipe().unwrap();
    to.write_all(said).unwrap();
    let patience = if said.len() < HELLO_BYTES { Duration::from_millis(1) } else { LONG };
    (greeted(reader, writer, Role::Agent, patience), to, from)
}

fn greeted(
    reader: PipeReader,
    writer: PipeWriter,
    role: Role,
    patience: Duration,
) -> Result<Channel> {
    let channel = Channel::new(reader.into(), writer.into(), FRAME_BYTES_MAX);
    let mut channel = channel.greeting(Greeting::plain(role));
    channel.greet(patience, &AtomicBool::new(false)).map(|()| channel)
}

#[test]
fn pipes_carry_messages_of_any_length_both_ways() {
    let go_on = AtomicBool::new(false);
    let (near_reads, far_writes) = pipe().unwrap();
    let (far_reads, near_writes) = pipe().unwrap();
    let long = "x".repeat(1 << 20);
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let mut far = greeted(far_reads, far_writes, Role::Agent, LONG).unwrap();
            // More than a pipe holds: only whole once the other end reads.
            let text: String = far.receive(Instant::now() + LONG, &go_on).unwrap().unwrap();
            far.send(&text, &go_on).unwrap();
            // Its end is told apart from silence.
            far.receive::<String>(Instant::now() + LONG, &go_on).err().unwrap()
        });
        let mut near = greeted(near_reads, near_writes, Role::Session, LONG).unwrap();
        near.send(&long, &go_on).unwrap();
        let back: Option<String> = near.receive(Instant::now() + LONG, &go_on).unwrap();
        assert!(back == Some(long.clone()));
        let none: Option<String> = near.receive(Instant::now(), &go_on).unwrap();
        assert!(none.is_none());
        drop(near);
        let lost = far.join().unwrap();
        assert!(matches!(lost.downcast_ref(), Some(Lost::Closed)), "{lost:#}");
    });
}

#[test]
fn what_is_no_session_is_told_apart() {
    let mut newer = hello(Role::Session);
    newer[6] += 1;
    for (said, refusal) in [
        (&newer[..], Refusal::OtherVersion(VERSION + 1)),
        (b"Last login: yesterday\n", Refusal::NotPlumb("Last login: yesterday\n".to_owned())),
        // An agent that speaks with itself.
        (
            &hello(Role::Agent),
            Refusal::NotPlumb(format!("PLUMBA{}\0", char::from(VERSION.to_le_bytes()[0]))),
        ),
    ] {
        let (channel, _to, mut from) = channel(said);
        let error = channel.err().unwrap();
        let Some(Lost::Refused(found)) = error.downcast_ref() else { panic!("{error:#}") };
        assert_eq!(found, &refusal);
        let mut heard = [0; HELLO_BYTES];
        from.read_exact(&mut heard).unwrap();
        assert_eq!(heard, hello(Role::Agent));
    }
    let (silent, _to, _from) = channel(b"PLU");
    let error = silent.err().unwrap();
    assert!(error.to_string().contains("hello in time"), "{error:#}");
}

#[test]
fn a_frame_that_is_not_whole_in_its_time_ends_the_channel() {
    let go_on = AtomicBool::new(false);
    let (made, mut to, _from) = channel(&hello(Role::Session));
    let mut channel = made.unwrap();
    assert_eq!(channel.slow_at(), None);
    to.write_all(&[9, 0, 0, 0, b'1']).unwrap();
    let none: Option<ToAgent> =
        channel.receive(Instant::now() + Duration::from_millis(1), &go_on).unwrap();
    assert!(none.is_none());
    let begun = channel.begun.unwrap();
    // More bytes of it give it no more time.
    to.write_all(b"2").unwrap();
    channel.read_some().unwrap();
    assert_eq!(channel.begun, Some(begun));
    channel.begun = begun.checked_sub(FRAME_TIME);
    let lost = channel.receive::<ToAgent>(Instant::now() + LONG, &go_on);
    let lost = lost.err().unwrap();
    assert!(matches!(lost.downcast_ref(), Some(Lost::Slow)), "{lost:#}");
}

#[test]
fn a_signal_ends_a_wait() {
    let (made, _to, _from) = channel(&hello(Role::Session));
    let stop = AtomicBool::new(true);
    let interrupted = made.unwrap().receive::<ToAgent>(Instant::now() + LONG, &stop).err().unwrap();
    assert!(interrupted.downcast_ref::<Interrupted>().is_some());
}
