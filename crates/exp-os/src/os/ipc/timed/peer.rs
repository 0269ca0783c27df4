//! The other party: a child process that answers messages or counts them.

use super::party::Party;
use bench::measure::team::{Fault, Running, Seat, Team};
use bench::prelude::*;
use metal::deadline::Deadline;
use metal::process::rusage_thread;
use metal::{place, raw};
use std::io::{self, ErrorKind, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A case that takes longer has lost its other party.
const PATIENCE: Duration = Duration::from_secs(10);

/// The parent's words: what a message means, and the count at which the child reports.
const ORDER: usize = 0;
const TARGET: usize = 1;
/// Words of the child: bytes that it received to be counted, and how often it was switched against
/// its will until its last count was complete.
const RECEIVED: usize = 0;
const SWITCHED: usize = 1;
const PEER: usize = 0;

/// A message is to be sent back.
const ANSWER: u64 = 0;
const COUNT: u64 = 1;
/// This was the last message.
const STOP: u64 = 2;

/// Faults beside the system's errors.
const OTHER_LENGTH: u32 = 1;
const CHANGED: u32 = 2;
const ASTRAY: u32 = 3;

/// Steps of marks, none of them 0; a prime, so that no page's size is a multiple.
const MARKS: u8 = 251;

/// A message with its first and last byte marked: both change with every message.
struct Message {
    bytes: Box<[u8]>,
    mark: u8,
}

impl Message {
    fn new(bytes: usize) -> Message {
        let fill = |at: usize| (at % usize::from(MARKS)) as u8 + 1;
        Message { bytes: (0..bytes).map(fill).collect(), mark: 0 }
    }

    #[inline]
    fn advance(&mut self) {
        self.mark = self.mark % MARKS + 1;
    }

    #[inline]
    fn stamp(&mut self) {
        let last = self.bytes.len() - 1;
        self.bytes[0] = self.mark;
        self.bytes[last] = self.mark;
    }

    /// Whether the message that came in is the one expected.
    #[inline]
    fn is_whole(&self, mark: u8) -> bool {
        self.bytes[0] == mark && self.bytes[self.bytes.len() - 1] == mark
    }
}

/// The measuring party, and the child at the other end. Dropped early, the child is killed.
pub(in crate::os::ipc) struct Peer<P> {
    child: Running,
    mine: P,
    reports: PipeReader,
    out: Message,
    back: Message,
    counted: u64,
    /// Nothing waits longer than this.
    _deadline: Deadline,
}

impl<P: Party> Peer<P> {
    /// Forks the other party, which takes the second end to `cpu`; returns when it is there.
    pub(in crate::os::ipc) fn start(
        [mine, theirs]: [P; 2],
        bytes: usize,
        cpu: usize,
    ) -> Result<Peer<P>> {
        ensure!(bytes > 0, "a message of no bytes");
        let (reports, tell) = io::pipe().context("a pipe")?;
        // Only the child has its end then: its death ends the pipe.
        let theirs = [(theirs, tell, Message::new(bytes))];
        let child = Team::new([Some(cpu)])?.processes(theirs, |seat, (party, tell, message)| {
            let error = |error: io::Error| {
                error.raw_os_error().map_or(Fault::Body(OTHER_LENGTH), Fault::System)
            };
            answer(party, message, seat, tell, cpu).map_err(error)?
        });
        let mut peer = Peer {
            child: child.context("the other party")?,
            mine,
            reports,
            out: Message::new(bytes),
            back: Message::new(bytes),
            counted: 0,
            _deadline: Deadline::after(PATIENCE).context("a timer")?,
        };
        peer.wait_told()?;
        Ok(peer)
    }

    /// Sends `count` messages one after another; each comes back.
    #[inline]
    pub(in crate::os::ipc) fn round_trips(&mut self, count: u64) -> Result<()> {
        self.child.common(ORDER).store(ANSWER, Ordering::Release);
        for _ in 0..count {
            self.exchange().map_err(|error| self.lost(&error))?;
            ensure!(self.back.is_whole(self.out.mark), "a message came back changed");
        }
        Ok(())
    }

    #[inline]
    fn exchange(&mut self) -> io::Result<()> {
        self.out.advance();
        self.out.stamp();
        self.mine.send(&self.out.bytes)?;
        self.mine.receive(&mut self.back.bytes)
    }

    /// Sends `count` messages as fast as they are taken; ns from before the first is sent until the
    /// other party has confirmed that it received and counted the last.
    pub(in crate::os::ipc) fn deliver(&mut self, count: u64, clock: Clock) -> Result<f64> {
        let target = self.counted + count * self.out.bytes.len() as u64;
        self.child.common(TARGET).store(target, Ordering::Release);
        self.child.common(ORDER).store(COUNT, Ordering::Release);
        let start = clock.start();
        for _ in 0..count {
            self.out.advance();
            self.out.stamp();
            let sent = self.mine.send(&self.out.bytes);
            sent.map_err(|error| self.lost(&error))?;
        }
        self.wait_told()?;
        let end = clock.end();
        let received = self.child.word(PEER, RECEIVED).load(Ordering::Acquire);
        ensure!(received == target, "the other party received {received} bytes of {target}");
        self.counted = target;
        Ok(clock.between_ns(start, end))
    }

    /// How often either party was switched against its will until the last delivery ended.
    pub(in crate::os::ipc) fn switched(&self) -> u64 {
        rusage_thread().nivcsw + self.child.word(PEER, SWITCHED).load(Ordering::Acquire)
    }

    pub(in crate::os::ipc) fn stop(mut self) -> Result<()> {
        self.child.common(ORDER).store(STOP, Ordering::Release);
        self.out.advance();
        self.out.stamp();
        let sent = self.mine.send(&self.out.bytes);
        sent.map_err(|error| self.lost(&error))?;
        self.wait_told()?;
        self.child.end().map(drop).context("the other party")
    }

    /// Waits for the other party's message: that it is there, has its count, or ends.
    fn wait_told(&mut self) -> Result<()> {
        match raw::read(self.reports.as_fd(), &mut [0]) {
            Ok(1) => Ok(()),
            Ok(_) => Err(self.lost(&ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// What is known of a party that does not answer.
    #[cold]
    fn lost(&self, error: &io::Error) -> anyhow::Error {
        let theirs = match self.child.seat(PEER).fault() {
            None => String::new(),
            Some(Fault::Body(OTHER_LENGTH)) => ": it received a message of another length".into(),
            Some(Fault::Body(CHANGED)) => {
                ": it received a message that is not the one sent".to_owned()
            }
            Some(Fault::Body(_)) => ": it was not on its CPU at the end".to_owned(),
            Some(fault) => format!(": it {fault}"),
        };
        match error.kind() {
            ErrorKind::Interrupted => {
                anyhow!("the other party did not answer in {PATIENCE:?}{theirs}")
            }
            ErrorKind::UnexpectedEof => anyhow!("the other party ended{theirs}"),
            _ => anyhow!("the way to the other party: {error}{theirs}"),
        }
    }
}

/// The child's work until it gets the command to stop; its fault, if it has one.
fn answer<P: Party>(
    party: &mut P,
    message: &mut Message,
    seat: &Seat<'_>,
    tell: &PipeWriter,
    cpu: usize,
) -> io::Result<Result<(), Fault>> {
    let board = seat.team;
    let say = || raw::write(tell.as_fd(), &[1]);
    // Written here, so that its pages are this process's own and near its CPU.
    message.bytes.fill(MARKS);
    say()?;
    let mut received = 0;
    loop {
        party.receive(&mut message.bytes)?;
        message.advance();
        if !message.is_whole(message.mark) {
            return Ok(Err(Fault::Body(CHANGED)));
        }
        match board.common(ORDER).load(Ordering::Acquire) {
            ANSWER => party.send(&message.bytes)?,
            COUNT => {
                received += message.bytes.len() as u64;
                board.word(PEER, RECEIVED).store(received, Ordering::Release);
                if received == board.common(TARGET).load(Ordering::Acquire) {
                    board.word(PEER, SWITCHED).store(rusage_thread().nivcsw, Ordering::Release);
                    say()?;
                }
            }
            _ => break,
        }
    }
    if place::current_cpu() != cpu {
        return Ok(Err(Fault::Body(ASTRAY)));
    }
    say()?;
    Ok(Ok(()))
}
