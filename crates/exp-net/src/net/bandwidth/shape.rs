//! What a case asks for, read from its parameters alike at both ends, and what the ends say to each other.

use crate::net::place::{OTHER_CPU, SAME_CPU, is_free};
use crate::net::usage::Used;
use anyhow::{Context, Result};
use record::case::Case;
use serde::{Deserialize, Serialize};
use stats::steady::Steady;
use std::time::Duration;

/// No call waits longer for the other end: one that says and takes nothing for so long is gone, or the way
/// to it is cut.
pub(super) const STALL: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 3 });
/// Nothing is streamed longer, however long it takes to settle.
pub(super) const RUN_MAX: Duration = Duration::from_secs(10);
/// A transfer of fixed size takes no longer, or its case fails.
pub(super) const TRANSFER_MAX: Duration = Duration::from_secs(15);
/// A datagram begins with its number where there is room.
pub(super) const NUMBER_BYTES: usize = 8;
/// The largest datagram by IPv4: 65,535 less both heads.
pub(super) const DATAGRAM_BYTES_MAX: u64 = 65_507;
/// A receiver of a stream offers room for so much at least: what small messages cost is the sender's to
/// tell.
const READ_BYTES: usize = 4 << 10;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The near end.
    Up,
    /// The far end.
    Down,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// As much as goes, until it has settled and for a while after.
    Steady,
    /// So many bytes, acknowledged, again and again.
    Fixed(u64),
    /// One message, which comes back whole, again and again.
    ThereAndBack,
    /// One message, which is read in one call once all of it is there.
    AlreadyThere,
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// What carries the bytes.
    pub(super) protocol: Protocol,
    /// Bytes that one call sends.
    pub(super) message: usize,
    /// Where both ends run.
    pub(super) ends: String,
    /// Streams, each with a thread of its own at each end.
    pub(super) streams: usize,
    /// Who sends.
    pub(super) direction: Direction,
    /// What is sent.
    pub(super) transfer: Transfer,
    /// The scheduler places the threads.
    pub(super) is_free: bool,
}

/// The names of transfers in cases.
pub(super) const STEADY: &str = "steady";
pub(super) const FIXED_16M: &str = "fixed_16M";
pub(super) const FIXED_1M: &str = "fixed_1M";
pub(super) const THERE_AND_BACK: &str = "there_and_back";
pub(super) const ALREADY_THERE: &str = "already_there";

impl Shape {
    /// The shape of a resolved case (before that, of all whose streams are a number).
    ///
    /// # Errors
    /// A parameter is missing, or none of those that there are.
    pub(super) fn of(case: &Case) -> Result<Shape> {
        let text = |name: &str| {
            let text = case.text(name);
            text.with_context(|| format!("{} has no {name}", case.id))
        };
        let int = |name: &str| {
            let int = case.int(name).and_then(|int| usize::try_from(int).ok());
            int.with_context(|| format!("{} has no number of {name}", case.id))
        };
        Ok(Shape {
            protocol: match text("protocol")? {
                "udp" => Protocol::Udp,
                _ => Protocol::Tcp,
            },
            message: int("message")?.max(1),
            ends: text("ends")?.to_owned(),
            streams: int("streams")?.max(1),
            direction: match text("direction")? {
                "down" => Direction::Down,
                _ => Direction::Up,
            },
            transfer: transfer(text("transfer")?)
                .with_context(|| format!("{}: no such transfer", case.id))?,
            is_free: is_free(case),
        })
    }

    /// The CPUs of one end's threads, one for each stream, from the CPUs that it may use. The ends of one
    /// stream are on neighbours in the list, or on one CPU; on two hosts each end has its own list.
    pub(super) fn cpus(&self, allowed: &[usize], is_near: bool) -> Vec<usize> {
        let count = allowed.len().max(1);
        let place = |stream: usize| match self.ends.as_str() {
            OTHER_CPU => 2 * stream + usize::from(!is_near),
            _ => stream,
        };
        let places = (0..self.streams).map(|stream| place(stream) % count);
        places.filter_map(|place| allowed.get(place).copied()).collect()
    }

    /// Whether several of the threads have to share a CPU.
    pub(super) fn shares_cpus(&self, allowed: usize) -> bool {
        match self.ends.as_str() {
            SAME_CPU => true,
            // The scheduler may put two on one CPU for a while.
            _ if self.is_free => self.streams > 1,
            OTHER_CPU => 2 * self.streams > allowed,
            _ => self.streams > allowed,
        }
    }

    /// Bytes of a receiver's buffer.
    pub(super) fn read_bytes(&self) -> usize {
        match (self.protocol, self.transfer) {
            (Protocol::Tcp, Transfer::Steady) => self.message.max(READ_BYTES),
            // One byte more than is expected, so that a longer datagram is seen as one.
            (Protocol::Udp, _) => self.message + 1,
            (Protocol::Tcp, _) => self.message,
        }
    }
}

/// What a name stands for.
pub(super) fn transfer(name: &str) -> Option<Transfer> {
    Some(match name {
        STEADY => Transfer::Steady,
        FIXED_16M => Transfer::Fixed(16 << 20),
        FIXED_1M => Transfer::Fixed(1 << 20),
        THERE_AND_BACK => Transfer::ThereAndBack,
        ALREADY_THERE => Transfer::AlreadyThere,
        _ => return None,
    })
}

/// What the near end asks of the far end beside the case itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    /// How long to stream at least, in ns.
    pub(super) run_ns: u64,
    /// Time from one datagram to the next, in ns; 0: as fast as it goes.
    pub(super) interval_ns: u64,
}

/// The receiver is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begun;

/// The receiver has seen enough.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Enough;

/// What the sending end tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Bytes that the kernel took.
    pub(super) bytes: u64,
    /// Messages that it took.
    pub(super) messages: u64,
    /// Those by stream.
    pub(super) streams: Vec<u64>,
    /// Messages that it would not take.
    pub(super) refused: u64,
    /// From the first call to the end of the last, in ns.
    pub(super) elapsed_ns: u64,
    /// CPU time.
    pub(super) used: Used,
    /// The largest send buffer of a stream at the end.
    pub(super) buffer_bytes: u64,
    /// What the kernel tells of the connections; none of datagrams.
    pub(super) connections: Option<Connections>,
    /// CPUs on which the kernel last handled what came to these sockets.
    pub(super) softirq_cpus: Vec<usize>,
}

/// What the kernel tells of a sender's connections, summed over the streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Connections {
    /// How they meet congestion.
    pub(super) congestion: String,
    /// Time with something to send, in µs; none where the kernel does not tell.
    pub(super) busy_us: Option<u64>,
    /// The whole time by the ticks in which the kernel counts those, in µs.
    pub(super) ticked_us: u64,
    /// Of it, limited by the receiver's window.
    pub(super) receive_window_us: u64,
    /// Of it, limited by the send buffer.
    pub(super) send_buffer_us: u64,
    /// Segments sent again.
    pub(super) retransmits: u64,
    /// Segments sent.
    pub(super) segments: u64,
    /// Bytes of the largest segment.
    pub(super) segment_bytes: u64,
    /// The kernel's own estimate of what is delivered, in B/s.
    pub(super) delivery_rate: u64,
    /// Congestion windows, in segments.
    pub(super) window_segments: u64,
    /// Smallest round trip, in µs.
    pub(super) least_rtt_us: u64,
}

/// What the receiving end tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Received {
    /// All bytes that came.
    pub(super) bytes: u64,
    /// Calls that brought them.
    pub(super) calls: u64,
    /// The steady part.
    pub(super) steady: Steady,
    /// CPU time over all of it.
    pub(super) used: Used,
    /// The largest receive buffer of a stream at the end.
    pub(super) buffer_bytes: u64,
    /// Datagrams, by their numbers; none of streams.
    pub(super) datagrams: Option<Datagrams>,
    /// CPUs on which the kernel last handled what came to these sockets.
    pub(super) softirq_cpus: Vec<usize>,
}

/// What the numbers of datagrams tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Datagrams {
    /// Different ones that came.
    pub(super) unique: u64,
    /// Came more than once.
    pub(super) repeated: u64,
    /// Came after one with a higher number.
    pub(super) reordered: u64,
    /// Had another length.
    pub(super) strange: u64,
    /// Dropped at the socket, because its buffer was full.
    pub(super) dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::{Direction, Protocol, Shape, Transfer};
    use record::case::Case;
    use record::key::CaseId;

    fn shape(ends: &str, streams: u64) -> Shape {
        let id = CaseId::new()
            .with("protocol", "tcp")
            .with("message", 1024_u64)
            .with("ends", ends)
            .with("streams", streams)
            .with("direction", "down")
            .with("transfer", "fixed_16M");
        Shape::of(&Case::new(id)).expect("a shape")
    }

    #[test]
    fn a_case_tells_its_shape_and_one_with_a_part_missing_what_is_missing() {
        let shape = shape("other_cpu", 2);
        assert_eq!(shape.protocol, Protocol::Tcp);
        assert_eq!(shape.direction, Direction::Down);
        assert_eq!(shape.transfer, Transfer::Fixed(16 << 20));
        let error = Shape::of(&Case::new(CaseId::new())).expect_err("nothing is there");
        assert!(error.to_string().contains("protocol"), "{error}");
    }

    #[test]
    fn the_ends_of_a_stream_are_on_two_cpus_or_on_one() {
        let apart = shape("other_cpu", 3);
        for allowed in [vec![4, 5], vec![7, 8, 9], vec![0, 1, 2, 3, 4, 5, 6, 7]] {
            let (near, far) = (apart.cpus(&allowed, true), apart.cpus(&allowed, false));
            assert_eq!((near.len(), far.len()), (3, 3));
            assert_eq!((near[0], far[0]), (allowed[0], allowed[1]));
            for (near, far) in near.iter().zip(&far) {
                assert_ne!(near, far, "{allowed:?}");
            }
        }
        let same = shape("same_cpu", 3);
        assert_eq!(same.cpus(&[4, 5], true), [4, 5, 4]);
        assert_eq!(same.cpus(&[4, 5], false), [4, 5, 4]);
        assert!(same.shares_cpus(64) && !apart.shares_cpus(64) && apart.shares_cpus(4));
    }
}
