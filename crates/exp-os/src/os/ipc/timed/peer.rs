//! The other party: a child process that answers messages or counts them.

use super::party::Party;
use bench::measure::party::{Board, processes};
use bench::prelude::*;
use metal::deadline::Deadline;
use metal::process::{Child, rusage_thread};
use metal::{place, raw};
use std::io::{self, ErrorKind, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A case that takes longer has lost its other party.
const PATIENCE: Duration = Duration::from_secs(10);

/// The parent's words: what a message means, and the count at which the child reports.
const ORDER: usize = 0;
const TARGET: usize = 1;
/// Words of the child: bytes that it received to be counted, the fault that ended it (the system's
/// number of an error, or one of those below), and how often it was switched against its will until
/// its last count was complete.
const RECEIVED: usize = 0;
const ERROR: usize = 1;
const SWITCHED: usize = 2;
const PEER: usize = 0;

/// A message is to be sent back.
const ANSWER: u64 = 0;
/// A message is to be counted.
const COUNT: u64 = 1;
/// This was the last message.
const STOP: u64 = 2;

/// Faults beside the system's errors, as `ERROR` holds them.
const OTHER_LENGTH: u64 = 1 << 32;
const CHANGED: u64 = 2 << 32;
const ASTRAY: u64 = 3 << 32;

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
    child: Child,
    mine: P,
    board: Board,
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
        let board = Board::new(1)?;
        let (reports, tell) = io::pipe().context("a pipe")?;
        let mut message = Message::new(bytes);
        let mut theirs = Some(theirs);
        let child = processes(0..1, |_| match theirs.take() {
            Some(mut theirs) => serve(&mut theirs, &mut message, &board, &tell, cpu),
            None => 1,
        });
        // Only the child has these now: its death ends the pipe.
        drop((theirs, tell));
        let child = child.context("the other party")?.pop().context("the other party")?;
        let mut peer = Peer {
            child,
            mine,
            board,
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
        self.board.common(ORDER).store(ANSWER, Ordering::Release);
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
        self.board.common(TARGET).store(target, Ordering::Release);
        self.board.common(ORDER).store(COUNT, Ordering::Release);
        let start = clock.start();
        for _ in 0..count {
            self.out.advance();
            self.out.stamp();
            let sent = self.mine.send(&self.out.bytes);
            sent.map_err(|error| self.lost(&error))?;
        }
        self.wait_told()?;
        let end = clock.end();
        let received = self.board.word(PEER, RECEIVED).load(Ordering::Acquire);
        ensure!(received == target, "the other party received {received} bytes of {target}");
        self.counted = target;
        Ok(clock.between_ns(start, end))
    }

    /// How often either party was switched against its will until the last delivery ended.
    pub(in crate::os::ipc) fn switched(&self) -> u64 {
        rusage_thread().nivcsw + self.board.word(PEER, SWITCHED).load(Ordering::Acquire)
    }

    pub(in crate::os::ipc) fn stop(mut self) -> Result<()> {
        self.board.common(ORDER).store(STOP, Ordering::Release);
        self.out.advance();
        self.out.stamp();
        let sent = self.mine.send(&self.out.bytes);
        sent.map_err(|error| self.lost(&error))?;
        self.wait_told()?;
        self.child.succeed().context("the other party")
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
        let theirs = match self.board.word(PEER, ERROR).load(Ordering::Acquire) {
            0 => String::new(),
            OTHER_LENGTH => ": it received a message of another length".to_owned(),
            CHANGED => ": it received a message that is not the one sent".to_owned(),
            ASTRAY => ": it was not on its CPU at the end".to_owned(),
            number => format!(": {}", io::Error::from_raw_os_error(number as i32)),
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

fn serve<P: Party>(
    party: &mut P,
    message: &mut Message,
    board: &Board,
    tell: &PipeWriter,
    cpu: usize,
) -> i32 {
    let fault = answer(party, message, board, tell, cpu).unwrap_or_else(|error| {
        let number = error.raw_os_error();
        number.map_or(OTHER_LENGTH, |number| number.unsigned_abs().into())
    });
    board.word(PEER, ERROR).store(fault, Ordering::Release);
    i32::from(fault != 0)
}

/// The child's work until it gets the command to stop; 0 or its fault.
fn answer<P: Party>(
    party: &mut P,
    message: &mut Message,
    board: &Board,
    tell: &PipeWriter,
    cpu: usize,
) -> io::Result<u64> {
    let say = || raw::write(tell.as_fd(), &[1]);
    place::pin(cpu)?;
    // Written here, so that its pages are this process's own and near its CPU.
    message.bytes.fill(MARKS);
    say()?;
    let mut received = 0;
    loop {
        party.receive(&mut message.bytes)?;
        message.advance();
        if !message.is_whole(message.mark) {
            return Ok(CHANGED);
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
        return Ok(ASTRAY);
    }
    say()?;
    Ok(0)
}
