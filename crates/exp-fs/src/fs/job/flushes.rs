//! What the device counted around a case's syncs, and how much of that can be theirs.

use crate::fs::offered::text_at;
use crate::fs::prelude::*;
use bench::device::{Written, device_written, process_written_bytes};

/// Name among a case's facts of the bytes that the kind of file system writes beside the data of a
/// sync, at most.
pub(in crate::fs) const BESIDE: &str = "beside_bytes_most";

pub(in crate::fs) struct Count<'case> {
    case: &'case Case,
    device: Option<Written>,
    process: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fs) struct Counted {
    pub(in crate::fs) requests_each: f64,
    pub(in crate::fs) bytes_each: f64,
    /// `None` where they are not counted.
    pub(in crate::fs) flushes_each: Option<f64>,
    bytes: f64,
    /// What this process gave to write, in bytes; `None` where the kernel does not count it.
    process: Option<f64>,
    /// What all syncs may have added to that, in bytes; `None` where no law says so.
    beside: Option<f64>,
}

impl Count<'_> {
    /// Reads the counters of the device that the case names.
    pub(in crate::fs) fn begin(case: &Case) -> Count<'_> {
        Count { case, device: device_of(case), process: process_written_bytes() }
    }

    /// Reads them again; `None` where no device counts.
    pub(in crate::fs) fn end(self, syncs: usize) -> Option<Counted> {
        let (before, after) = self.device.zip(device_of(self.case))?;
        let own = self.process.zip(process_written_bytes());
        let since = |before: u64, after: u64| after as f64 - before as f64;
        let flushes = before.flushes.zip(after.flushes);
        let beside = self.case.int(BESIDE);
        let (syncs, bytes) = (syncs as f64, since(before.bytes, after.bytes));
        Some(Counted {
            requests_each: since(before.requests, after.requests) / syncs,
            bytes_each: bytes / syncs,
            flushes_each: flushes.map(|(before, after)| since(before, after) / syncs),
            bytes,
            process: own.map(|(before, after)| since(before, after)),
            beside: beside.map(|bytes| bytes as f64 * syncs),
        })
    }
}

fn device_of(case: &Case) -> Option<Written> {
    device_written(text_at(case, "device_number")?, text_at(case, "disk_number"))
}

impl Counted {
    /// Records the counts with the figure that is derived from them, and a note if others wrote as
    /// well.
    pub(in crate::fs) fn describe(&self, samples: &mut Samples) {
        samples.set_quantities([("device_bytes", Some(self.bytes)), ("own_bytes", self.process)]);
        samples.notes.extend(self.others());
    }

    /// Whether the device wrote more than the syncs and what the file system adds to them.
    fn others(&self) -> Option<String> {
        let (own, beside) = self.process.zip(self.beside)?;
        let bytes = |bytes: f64| render(bytes, Unit::B);
        (self.bytes > own + beside).then(|| {
            format!(
                "the device wrote {}; this process wrote {}, and the file system adds at most {} \
                 for that many syncs, so this figure includes other processes' writes",
                bytes(self.bytes),
                bytes(own),
                bytes(beside)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BESIDE, Count, Counted};
    use bench::prelude::*;

    #[test]
    fn what_others_wrote_is_told_with_what_was_own() {
        const PAGE: f64 = 4096.0;
        let counted = |pages: f64, own: Option<f64>, beside: Option<f64>| Counted {
            requests_each: 3.0,
            bytes_each: pages * PAGE / 8.0,
            flushes_each: Some(1.0),
            bytes: pages * PAGE,
            process: own,
            beside,
        };
        // A page for each, and at most 12 blocks of the journal.
        let quiet = counted(24.0, Some(8.0 * PAGE), Some(96.0 * PAGE));
        assert_eq!(quiet.others(), None);
        let note = counted(256.0, Some(8.0 * PAGE), Some(96.0 * PAGE)).others();
        let note = note.expect("a database writes");
        for part in ["wrote 1 MiB", "this process wrote 32 KiB", "at most 384 KiB"] {
            assert!(note.contains(part), "{note}");
        }
        // Uncounted or unbounded writes prove nothing.
        assert_eq!(counted(256.0, None, Some(0.0)).others(), None);
        assert_eq!(counted(256.0, Some(0.0), None).others(), None);
    }

    #[test]
    fn without_a_device_there_is_nothing_to_count() {
        let mut case = Case::new(CaseId::new());
        assert_eq!(Count::begin(&case).end(8), None);
        case.at.insert(BESIDE.to_owned(), 4096_u64.into());
        case.at.insert("device_number".to_owned(), "0:0".into());
        assert_eq!(Count::begin(&case).end(8), None);
    }
}
