//! Records as the kernel writes them.

/// A record of a ring. Times are ns of `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A tracepoint was passed.
    Sample {
        time_ns: u64,
        /// The thread that passed it, by its number here; 0 for the idle thread and for one that
        /// this process's namespace does not know.
        tid: u32,
        /// The tracepoint's own record: its first two bytes are its number.
        raw: &'a [u8],
    },
    /// The watched thread was taken off its CPU, or given one.
    Switch {
        time_ns: u64,
        tid: u32,
        is_out: bool,
        /// Off though it could run (Linux 4.17).
        is_preempted: bool,
    },
    Lost {
        /// When the next one found room.
        time_ns: u64,
        count: u64,
    },
}

impl Record<'_> {
    /// When it was written; `None` for no time.
    pub(super) fn time_ns(&self) -> Option<u64> {
        let (Record::Sample { time_ns, .. }
        | Record::Switch { time_ns, .. }
        | Record::Lost { time_ns, .. }) = *self;
        (time_ns > 0).then_some(time_ns)
    }
}

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_SWITCH: u32 = 14;
/// Bits of a switch record's `misc`.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// The records in `bytes`, each with the offset of its end. Kinds that were not requested are left
/// out; what follows a record that is cut short is too.
pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = (usize, Record<'_>)> {
    let mut at = 0;
    let next = move || {
        let header = bytes.get(at..at + 8)?;
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let whole = bytes.get(at..at + length).filter(|_| length >= 8)?;
        at += length;
        Some((at, whole))
    };
    std::iter::from_fn(next).filter_map(|(end, whole)| Some((end, parse(whole)?)))
}

fn parse(whole: &[u8]) -> Option<Record<'_>> {
    let kind = word32(whole, 0)?;
    let misc = u16::from_ne_bytes([whole[4], whole[5]]);
    match kind {
        // Process, thread, time, length of the raw record, the record.
        PERF_RECORD_SAMPLE => {
            let length = word32(whole, 24)? as usize;
            Some(Record::Sample {
                tid: word32(whole, 12)?,
                time_ns: word64(whole, 16)?,
                raw: whole.get(28..28 + length)?,
            })
        }
        // Process, thread, time.
        PERF_RECORD_SWITCH => Some(Record::Switch {
            tid: word32(whole, 12)?,
            time_ns: word64(whole, 16)?,
            is_out: misc & SWITCH_OUT != 0,
            is_preempted: misc & SWITCH_OUT_PREEMPT != 0,
        }),
        // Event, count, process, thread, time.
        PERF_RECORD_LOST => {
            Some(Record::Lost { count: word64(whole, 16)?, time_ns: word64(whole, 32)? })
        }
        _ => None,
    }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}
