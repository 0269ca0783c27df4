//! Ways of a token from one party to the next.

use anyhow::{Context, Result};
use bench::measure::team::STRIDE;
use laws::os::switch::Via;
use metal::memory::SharedWords;
use metal::raw::{self, Scope, eventfd, futex_wait, futex_wake};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that go through a pipe for a token, as with `perf bench sched pipe` and lat_ctx.
const PIPE_BYTES: usize = 4;
/// Bytes that an eventfd takes and gives.
const EVENT_BYTES: usize = 8;
/// After so many yields without effect, some milliseconds, the party checks whether its wait is
/// over.
const YIELDS: u32 = 1 << 14;

/// One party's two ends: where the token comes from and where it goes to.
///
/// Sending and receiving add no more to a system call than a loop in C does: they are inlined, and
/// they compare instead of jumping through a table. Just after the kernel, processors often
/// mispredict an indirect jump or a return. Two jumps and two returns cost about 15 ns per call on a
/// Zen 5 guest.
pub(in crate::os::switch) enum Ends {
    /// A pipe or an eventfd, and the bytes of a token: a write makes the next party's read return.
    File(OwnedFd, OwnedFd, usize),
    /// A word of one's own is set, and a wait on it ended.
    Futex(Words, Scope),
    /// A word of one's own is set, and the CPU left to whoever wants it.
    Yield(Words),
}

/// A party's words in shared memory.
pub(in crate::os::switch) struct Words {
    shared: Arc<SharedWords>,
    /// Set when the token comes.
    inbox: usize,
    /// The next party's inbox.
    outbox: usize,
    /// Set while the party that yields is to be blocked.
    rest: usize,
}

/// Ends of a circle: party i hands over to party i + 1, the last to the first.
pub(in crate::os::switch) fn circle(via: Via, size: usize, scope: Scope) -> Result<Vec<Ends>> {
    // One inbox for each, and a word to rest on.
    let shared = Arc::new(SharedWords::new(STRIDE * (size + 1))?);
    let words = |index: usize| Words {
        shared: Arc::clone(&shared),
        inbox: STRIDE * index,
        outbox: STRIDE * ((index + 1) % size),
        rest: STRIDE * size,
    };
    Ok(match via {
        Via::Futex => (0..size).map(|index| Ends::Futex(words(index), scope)).collect(),
        Via::Yield => (0..size).map(|index| Ends::Yield(words(index))).collect(),
        Via::Pipe | Via::Ring | Via::FirstRun => {
            files(size, PIPE_BYTES, || io::pipe().map(|(from, to)| (from.into(), to.into())))?
        }
        Via::Eventfd => files(size, EVENT_BYTES, || {
            let event = eventfd()?;
            Ok((event.try_clone()?, event))
        })?,
    })
}

/// Ends of files; `make` gives both ends of one file.
fn files(
    size: usize,
    bytes: usize,
    make: impl Fn() -> io::Result<(OwnedFd, OwnedFd)>,
) -> Result<Vec<Ends>> {
    let one = |index| make().with_context(|| format!("descriptors {} of {size}", index + 1));
    let made = (0..size).map(one).collect::<Result<Vec<_>>>()?;
    let (readers, mut writers): (Vec<OwnedFd>, Vec<OwnedFd>) = made.into_iter().unzip();
    writers.rotate_left(1);
    let both = readers.into_iter().zip(writers);
    Ok(both.map(|(from, to)| Ends::File(from, to, bytes)).collect())
}

impl Ends {
    #[inline(always)]
    pub(in crate::os::switch) fn send(&self) -> io::Result<()> {
        match self {
            Ends::File(_, to, bytes) => {
                let one = 1_u64.to_ne_bytes();
                whole(raw::write(to.as_fd(), &one[..*bytes])?, *bytes)
            }
            Ends::Futex(words, scope) => {
                words.set_outbox();
                futex_wake(words.half(words.outbox), 1, *scope).map(|_| ())
            }
            Ends::Yield(words) => {
                words.set_outbox();
                raw::sched_yield()
            }
        }
    }

    #[inline(always)]
    pub(in crate::os::switch) fn receive(&self) -> io::Result<()> {
        match self {
            Ends::File(from, _, bytes) => {
                let mut token = [0; EVENT_BYTES];
                whole(raw::read(from.as_fd(), &mut token[..*bytes])?, *bytes)
            }
            Ends::Futex(words, scope) => loop {
                // Also where the token is there already: the calls are the same in every hand-over.
                futex_wait(words.half(words.inbox), 0, *scope)?;
                if words.take_inbox() {
                    return Ok(());
                }
            },
            Ends::Yield(words) => {
                for _ in 0..YIELDS {
                    if words.take_inbox() {
                        return Ok(());
                    }
                    raw::sched_yield()?;
                }
                Err(io::ErrorKind::Interrupted.into())
            }
        }
    }

    /// Whether the parties would run on with nothing to do and must be put to rest.
    pub(in crate::os::switch) fn are_restless(&self) -> bool {
        matches!(self, Ends::Yield(_))
    }

    /// Hands the token over to a party that may rest. The wake-up may take the CPU from the caller
    /// or not; as the token is there before it, one switch does in either case.
    pub(in crate::os::switch) fn rouse_and_send(&self) -> io::Result<()> {
        let Ends::Yield(words) = self else {
            return self.send();
        };
        words.set_outbox();
        words.half(words.rest).store(0, Ordering::Release);
        futex_wake(words.half(words.rest), 1, Scope::Machine).map(|_| ())
    }

    /// Announces that the party which gets the command to rest is to do so until roused.
    pub(in crate::os::switch) fn before_rest(&self) {
        if let Ends::Yield(words) = self {
            words.half(words.rest).store(1, Ordering::Release);
        }
    }

    /// Hands the token over and rests, which gives the CPU away, until roused.
    pub(in crate::os::switch) fn send_and_rest(&self) -> io::Result<()> {
        let Ends::Yield(words) = self else {
            return self.send();
        };
        words.set_outbox();
        while words.half(words.rest).load(Ordering::Acquire) != 0 {
            match futex_wait(words.half(words.rest), 1, Scope::Machine) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Words {
    #[inline]
    fn half(&self, index: usize) -> &AtomicU32 {
        self.shared.low_half(index)
    }

    #[inline]
    fn set_outbox(&self) {
        self.half(self.outbox).store(1, Ordering::Release);
    }

    #[inline]
    fn take_inbox(&self) -> bool {
        let inbox = self.half(self.inbox);
        let there = inbox.load(Ordering::Acquire) != 0;
        if there {
            inbox.store(0, Ordering::Relaxed);
        }
        there
    }
}

fn whole(bytes: usize, expected: usize) -> io::Result<()> {
    match bytes == expected {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{bytes} of {expected} bytes of a token: the other party exited"),
        )),
    }
}
