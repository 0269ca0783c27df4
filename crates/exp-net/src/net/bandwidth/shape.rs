//! What a case asks for, read from its parameters alike at both ends; what its sockets must have,
//! so that there is a limit on every wait; what the ends say to each other; and which datagrams
//! came.

use crate::net::place::{Used, is_free, places};
use crate::net::wire::Socket;
use bench::prelude::*;
use laws::net::bandwidth::Bytes;
use laws::net::{Ends, Protocol};
use metal::backlog;
use record::order::Gather;
use serde::{Deserialize, Serialize};
use socket2::Domain;
use stats::steady::Steady;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

/// No call waits longer for the other end: one that says and takes nothing for so long is gone, or
/// the way to it is cut.
pub(super) const STALL: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 3 });
/// Nothing is streamed longer, however long it takes to settle.
pub(super) const RUN_MAX: Duration = Duration::from_secs(10);
/// A datagram begins with its number where there is room.
pub(super) const NUMBER_BYTES: usize = 8;
/// A receiver of a stream offers room for so much at least: the sender reports the cost of small
/// messages.
const READ_BYTES: usize = 4 << 10;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) bytes: Bytes,
    pub(super) message: usize,
    pub(super) streams: usize,
    pub(super) is_free: bool,
}

impl Shape {
    pub(super) fn new(bytes: Bytes, case: &Case) -> Result<Shape> {
        let streams = case.int("streams").context("the case was not resolved")?;
        Ok(Shape {
            message: usize::try_from(bytes.message)?.max(1),
            streams: usize::try_from(streams)?.max(1),
            is_free: is_free(case),
            bytes,
        })
    }

    /// The CPUs of one end's threads, one for each stream, from the CPUs that it may use. The ends
    /// of one stream are on neighbours in the list, or on one CPU; on two hosts each end has its
    /// own list.
    pub(super) fn cpus(&self, allowed: &[usize], is_near: bool) -> Vec<usize> {
        let count = allowed.len().max(1);
        let place = |stream: usize| match self.bytes.ends {
            Ends::OtherCpu => 2 * stream + usize::from(!is_near),
            _ => stream,
        };
        let places = (0..self.streams).map(|stream| place(stream) % count);
        places.filter_map(|place| allowed.get(place).copied()).collect()
    }

    /// Whether several of the threads have to share a CPU.
    pub(super) fn shares_cpus(&self, allowed: usize) -> bool {
        match self.bytes.ends {
            Ends::SameCpu => true,
            // The scheduler may put two on one CPU for a while.
            _ if self.is_free => self.streams > 1,
            Ends::OtherCpu => 2 * self.streams > allowed,
            _ => self.streams > allowed,
        }
    }

    /// The sockets of an end's streams, each with where its thread runs.
    pub(super) fn members<'socket>(
        &self,
        cpus: &[usize],
        sockets: &'socket [Socket],
    ) -> Vec<(Option<usize>, &'socket Socket)> {
        places(cpus, self.is_free).zip(sockets).collect()
    }

    /// Bytes of one transfer of fixed size: a message where it has none.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.bytes.transfer.fixed_bytes().unwrap_or(self.bytes.message)
    }

    /// Room for what a call of a steady stream's receiver takes.
    pub(super) fn read_bytes(&self) -> usize {
        match self.bytes.protocol {
            Protocol::Tcp => self.message.max(READ_BYTES),
            // One byte more than is expected, so that a longer datagram is seen as one.
            Protocol::Udp => self.message + 1,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    /// How long to stream at least, in ns.
    pub(super) run_ns: u64,
    /// Time from one datagram to the next, in ns; 0: as fast as it goes.
    pub(super) interval_ns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begun;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Enough;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) streams: Vec<u64>,
    /// Messages that it would not take.
    pub(super) refused: u64,
    /// From the first call to the end of the last, in ns.
    pub(super) elapsed_ns: u64,
    pub(super) used: Used,
    /// The largest send buffer of a stream at the end.
    pub(super) buffer_bytes: u64,
    /// The kernel's facts about the connections; none of datagrams.
    pub(super) connections: Option<Connections>,
    /// CPUs on which the kernel last handled what came to these sockets.
    pub(super) softirq_cpus: Vec<usize>,
}

/// The kernel's facts about a sender's connections, summed over the streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Connections {
    pub(super) congestion: String,
    /// Time with something to send, in µs.
    pub(super) busy_us: u64,
    /// The whole time by the ticks in which the kernel counts those, in µs; 0 if it reports none.
    pub(super) ticked_us: u64,
    pub(super) receive_window_us: u64,
    pub(super) send_buffer_us: u64,
    pub(super) retransmits: u64,
    pub(super) segments: u64,
    pub(super) segment_bytes: u64,
    /// The kernel's own estimate of what is delivered, in B/s.
    pub(super) delivery_rate: u64,
    pub(super) window_segments: u64,
    pub(super) least_rtt_us: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) calls: u64,
    pub(super) steady: Steady,
    pub(super) used: Used,
    /// The largest receive buffer of a stream at the end.
    pub(super) buffer_bytes: u64,
    /// Datagrams, by their numbers; none of streams.
    pub(super) datagrams: Option<Datagrams>,
    /// CPUs on which the kernel last handled what came to these sockets.
    pub(super) softirq_cpus: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Datagrams {
    /// Different ones that came.
    pub(super) unique: u64,
    pub(super) repeated: u64,
    /// Came after one with a higher number.
    pub(super) reordered: u64,
    pub(super) strange: u64,
    /// Dropped at the socket, because its buffer was full.
    pub(super) dropped: u64,
}

impl Datagrams {
    pub(super) fn add(&mut self, more: &Datagrams) {
        self.unique += more.unique;
        self.repeated += more.repeated;
        self.reordered += more.reordered;
        self.strange += more.strange;
        self.dropped += more.dropped;
    }
}

/// Numbers that are remembered below the highest.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = u64::BITS as u64;

/// Counts datagrams by their numbers, from 0 on.
pub(super) struct Numbers {
    /// One above the highest that came.
    next: u64,
    /// A bit for each number of the window below `next`, by the number's rest.
    came: Vec<u64>,
    pub(super) counts: Datagrams,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers {
            next: 0,
            came: vec![0; (WINDOW / WORD_BITS) as usize],
            counts: Datagrams::default(),
        }
    }

    /// One came; whether it is the first with its number. One so late that nothing is remembered of
    /// its number counts as repeated: what cannot be distinguished is no delivery.
    pub(super) fn count(&mut self, number: u64) -> bool {
        if number >= self.next {
            let jump = number - self.next + 1;
            if jump >= WINDOW {
                self.came.fill(0);
            } else {
                (self.next..=number).for_each(|passed| self.set(passed, false));
            }
            self.next = number + 1;
        } else {
            self.counts.reordered += 1;
            if self.next - number > WINDOW || self.has(number) {
                self.counts.repeated += 1;
                return false;
            }
        }
        self.set(number, true);
        self.counts.unique += 1;
        true
    }

    fn has(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.came[(at / WORD_BITS) as usize] & (1 << (at % WORD_BITS)) != 0
    }

    fn set(&mut self, number: u64, is: bool) {
        let at = number % WINDOW;
        let (word, bit) = ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS));
        match is {
            true => self.came[word] |= bit,
            false => self.came[word] &= !bit,
        }
    }
}

/// Sockets on which nothing waits longer than [`STALL`]. Nothing unacknowledged of a stream lives
/// longer; for datagrams the host reports refusals, and reading waits for `quiet`.
pub(super) fn limited(sockets: Vec<Socket>, quiet: Duration) -> Result<Vec<Socket>> {
    for socket in &sockets {
        let own = socket.options();
        own.set_write_timeout(Some(STALL))?;
        if socket.is_stream {
            own.set_read_timeout(Some(STALL))?;
            own.set_tcp_user_timeout(Some(STALL)).context("setting TCP_USER_TIMEOUT")?;
        } else {
            own.set_read_timeout(Some(quiet))?;
            let is_v6 = own.domain()? == Domain::IPV6;
            backlog::tell_refusals(socket.as_fd(), is_v6).context("setting IP_RECVERR")?;
        }
    }
    Ok(sockets)
}

/// Bytes of the largest buffer of a side, as the kernel counts them.
pub(super) fn buffer_bytes(
    sockets: &[Socket],
    side: fn(&socket2::Socket) -> io::Result<usize>,
) -> u64 {
    let size = |socket: &Socket| side(&socket.options()).ok();
    sockets.iter().filter_map(size).max().unwrap_or(0) as u64
}

/// The CPUs on which the kernel last handled what came to the sockets, each once.
pub(super) fn softirq_cpus(sockets: &[Socket]) -> Vec<usize> {
    let cpus: BTreeSet<usize> = sockets.iter().filter_map(Socket::softirq_cpu).gather();
    cpus.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{Numbers, Shape, WINDOW};
    use crate::net::bandwidth::shape::Datagrams;
    use bench::prelude::*;
    use laws::net::bandwidth::{Bytes, Direction, Streams, Transfer};
    use laws::net::{Ends, Protocol};

    fn shape(ends: Ends, streams: u64) -> Shape {
        let of = Bytes {
            protocol: Protocol::Tcp,
            message: 1024,
            ends,
            streams: Streams::Number(streams),
            direction: Direction::Down,
            transfer: Transfer::Fixed16M,
        };
        Shape::new(of.clone(), &Case::new(of.id())).expect("a shape")
    }

    #[test]
    fn a_case_must_be_resolved() {
        let of = Bytes { streams: Streams::All, ..shape(Ends::SameCpu, 1).bytes };
        let mut case = Case::new(of.id());
        assert!(Shape::new(of.clone(), &case).is_err());
        case.at.insert("streams".to_owned(), 3.into());
        assert_eq!(Shape::new(of, &case).expect("a shape").streams, 3);
    }

    #[test]
    fn the_ends_of_a_stream_are_on_two_cpus_or_on_one() {
        let apart = shape(Ends::OtherCpu, 3);
        for allowed in [vec![4, 5], vec![7, 8, 9], vec![0, 1, 2, 3, 4, 5, 6, 7]] {
            let (near, far) = (apart.cpus(&allowed, true), apart.cpus(&allowed, false));
            assert_eq!((near.len(), far.len()), (3, 3));
            assert_eq!((near[0], far[0]), (allowed[0], allowed[1]));
            for (near, far) in near.iter().zip(&far) {
                assert_ne!(near, far, "{allowed:?}");
            }
        }
        let same = shape(Ends::SameCpu, 3);
        assert_eq!(same.cpus(&[4, 5], true), [4, 5, 4]);
        assert_eq!(same.cpus(&[4, 5], false), [4, 5, 4]);
        assert!(same.shares_cpus(64) && !apart.shares_cpus(64) && apart.shares_cpus(4));
    }

    /// Each counts once with its number, however late, as long as that is remembered; what is lost
    /// leaves no trace of the numbers before.
    #[test]
    fn a_number_counts_once_whenever_it_comes() {
        let late = WINDOW + 3;
        for (numbers, unique, repeated, reordered) in [
            ((0..3 * WINDOW).collect::<Vec<u64>>(), 3 * WINDOW, 0, 0),
            (vec![0, 1, 4, 2, 3, 3, 5, 4], 6, 2, 4),
            // The places of 0 … are taken by numbers of the next window, and some of those did not
            // arrive.
            ((0..10).chain([late + 5, late]).collect(), 12, 0, 1),
            // All of the window passed at once.
            ((0..10).chain([9 * WINDOW, 9 * WINDOW - 5]).collect(), 12, 0, 1),
            // Older than what is remembered.
            ((1..=WINDOW + 1).chain([0]).collect(), WINDOW + 1, 1, 1),
        ] {
            let mut all = Numbers::new();
            for number in numbers {
                all.count(number);
            }
            let expected = Datagrams { unique, repeated, reordered, ..Datagrams::default() };
            assert_eq!(all.counts, expected);
        }
    }
}
