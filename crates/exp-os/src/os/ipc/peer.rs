//! The other party: a child process that answers messages or counts them.

use super::party::Party;
use anyhow::{Context, Result, anyhow, ensure};
use bench::measure::Clock;
use metal::deadline::Deadline;
use metal::memory::{SharedWords, WORDS_PER_LINE};
use metal::process::Child;
use metal::process::rusage_thread;
use metal::{place, raw};
use std::io::{self, ErrorKind, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A case that takes longer has lost its other party.
const PATIENCE: Duration = Duration::from_secs(10);

/// Words that the two share. What the parent writes: what a message means …
const ORDER: usize = 0;
/// … and the count of bytes at which the child tells.
const TARGET: usize = 1;
/// What the child writes, on lines of its own: bytes that it received to be counted …
const RECEIVED: usize = 2 * WORDS_PER_LINE;
/// … and the fault that ended it: the system's number of an error, or one of those below.
const ERROR: usize = RECEIVED + 1;
/// … and how often it was switched against its will until its last count was complete.
const SWITCHED: usize = RECEIVED + 2;
const WORDS: usize = 4 * WORDS_PER_LINE;

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

/// Marks go round in so many steps, none of them 0; 251 is prime, so that no ring's or page's size
/// is a multiple.
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

    /// The mark of the next message.
    #[inline]
    fn advance(&mut self) {
        self.mark = self.mark % MARKS + 1;
    }

    /// Marks the message that goes out.
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
pub(super) struct Peer<P> {
    child: Child,
    mine: P,
    board: SharedWords,
    told: PipeReader,
    out: Message,
    back: Message,
    counted: u64,
    /// Nothing waits longer than this.
    _deadline: Deadline,
}

impl<P: Party> Peer<P> {
    /// Forks the other party, which takes the second end to `cpu`; returns when it is there.
    ///
    /// # Errors
    /// No process may be made, or it may not run on `cpu`.
    pub(super) fn start([mine, theirs]: [P; 2], bytes: usize, cpu: usize) -> Result<Peer<P>> {
        ensure!(bytes > 0, "a message of no bytes");
        let board = SharedWords::new(WORDS).context("memory that two processes share")?;
        let (told, tell) = io::pipe().context("a pipe")?;
        let message = Message::new(bytes);
        // What moves into the child is closed here with the closure: its death ends the pipe.
        let shared = &board;
        let child = Child::fork(move || {
            let mut theirs = theirs;
            serve(&mut theirs, message, shared, &tell, cpu)
        })
        .map_err(host::refused::told)
        .context("the other party")?;
        let mut peer = Peer {
            child,
            mine,
            board,
            told,
            out: Message::new(bytes),
            back: Message::new(bytes),
            counted: 0,
            _deadline: Deadline::after(PATIENCE).context("a timer")?,
        };
        peer.wait_told()?;
        Ok(peer)
    }

    /// Sends `count` messages one after another, each of which comes back.
    ///
    /// # Errors
    /// The other party is gone, or a message came back changed.
    #[inline]
    pub(super) fn round_trips(&mut self, count: u64) -> Result<()> {
        self.board[ORDER].store(ANSWER, Ordering::Release);
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
    /// other party has told that it received, and counted, the last.
    ///
    /// # Errors
    /// The other party is gone, or counted other bytes than were sent.
    pub(super) fn deliver(&mut self, count: u64, clock: Clock) -> Result<f64> {
        let target = self.counted + count * self.out.bytes.len() as u64;
        self.board[TARGET].store(target, Ordering::Release);
        self.board[ORDER].store(COUNT, Ordering::Release);
        let start = clock.start();
        for _ in 0..count {
            self.out.advance();
            self.out.stamp();
            let sent = self.mine.send(&self.out.bytes);
            sent.map_err(|error| self.lost(&error))?;
        }
        self.wait_told()?;
        let end = clock.end();
        let received = self.board[RECEIVED].load(Ordering::Acquire);
        ensure!(received == target, "the other party received {received} bytes of {target}");
        self.counted = target;
        Ok(clock.between_ns(start, end))
    }

    /// How often either party was switched against its will until the last delivery ended.
    pub(super) fn switched(&self) -> u64 {
        rusage_thread().nivcsw + self.board[SWITCHED].load(Ordering::Acquire)
    }

    /// Ends the other party and checks how it ended.
    ///
    /// # Errors
    /// It was not on its CPU at the end, or ended otherwise than by its own exit.
    pub(super) fn stop(mut self) -> Result<()> {
        self.board[ORDER].store(STOP, Ordering::Release);
        self.out.advance();
        self.out.stamp();
        let sent = self.mine.send(&self.out.bytes);
        sent.map_err(|error| self.lost(&error))?;
        self.wait_told()?;
        self.child.succeed().context("the other party")
    }

    /// Waits until the other party tells: that it is there, has its count, or ends.
    fn wait_told(&mut self) -> Result<()> {
        match raw::read(self.told.as_fd(), &mut [0]) {
            Ok(1) => Ok(()),
            Ok(_) => Err(self.lost(&ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// What is known of a party that does not answer.
    #[cold]
    fn lost(&self, error: &io::Error) -> anyhow::Error {
        let theirs = match self.board[ERROR].load(Ordering::Acquire) {
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

/// The child: its exit status.
fn serve<P: Party>(
    party: &mut P,
    message: Message,
    board: &SharedWords,
    tell: &PipeWriter,
    cpu: usize,
) -> i32 {
    let fault = answer(party, message, board, tell, cpu).unwrap_or_else(|error| {
        let number = error.raw_os_error();
        number.map_or(OTHER_LENGTH, |number| number.unsigned_abs().into())
    });
    board[ERROR].store(fault, Ordering::Release);
    i32::from(fault != 0)
}

/// What the child does until it is told to stop; 0 or its fault.
fn answer<P: Party>(
    party: &mut P,
    mut message: Message,
    board: &SharedWords,
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
        match board[ORDER].load(Ordering::Acquire) {
            ANSWER => party.send(&message.bytes)?,
            COUNT => {
                received += message.bytes.len() as u64;
                board[RECEIVED].store(received, Ordering::Release);
                if received == board[TARGET].load(Ordering::Acquire) {
                    board[SWITCHED].store(rusage_thread().nivcsw, Ordering::Release);
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
