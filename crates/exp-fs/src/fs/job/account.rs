//! Where bytes came from and went to: what the kernel counted.

use crate::fs::prelude::*;
use bench::device::{
    device_read_bytes, device_written_bytes, process_read_bytes, process_written_bytes,
};
use record::note::Note;

/// A device counts what it has answered, the process what it asked for: so long it is waited for …
const ANSWER_MOST: Duration = Duration::from_secs(1);
/// … asked so often …
const ANSWER_EVERY: Duration = Duration::from_micros(500);
/// … and no longer once it has not counted anything for this: then another gave the rest.
const ANSWER_STILL: Duration = Duration::from_millis(40);
/// A share of bytes from no device that is not worth a word: blocks of metadata and their like.
const SHARE_UNTOLD: f64 = 0.01;

/// Counters before something was read or written.
pub(in crate::fs) struct Account {
    number: Option<String>,
    way: Way,
    process: Option<u64>,
    device: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Written,
}

/// What was asked for, and what the kernel says that devices gave or took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Moved {
    way: Way,
    pub(in crate::fs) asked: u64,
    /// What this process had devices read or write (/proc/self/io, all threads), readahead
    /// included; `None` where the kernel does not count it.
    pub(in crate::fs) process: Option<u64>,
    /// What the device below did for everybody (/proc/diskstats); `None` where none is known.
    pub(in crate::fs) device: Option<u64>,
}

impl Account {
    /// Begins to count reads of this process, and of the device `number` (`major:minor`) below.
    /// A forked child counts its own.
    pub(in crate::fs) fn begin(number: Option<&str>) -> Account {
        Account::for_way(Way::Read, number)
    }

    pub(in crate::fs) fn begin_writes(number: Option<&str>) -> Account {
        Account::for_way(Way::Written, number)
    }

    fn for_way(way: Way, number: Option<&str>) -> Account {
        let device = number.and_then(|number| way.device(number));
        Account { number: number.map(str::to_owned), way, device, process: way.process_bytes() }
    }

    /// Ends the count; `asked` bytes were to come from the device, or to go there. Waits for the
    /// device to have counted what the process was counted, while it counts, for at most a second.
    pub(in crate::fs) fn end(self, asked: u64) -> Moved {
        let since = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        let start = Instant::now();
        let mut last = (start, None);
        loop {
            let number = self.number.as_deref();
            let moved = Moved {
                way: self.way,
                asked,
                process: since(self.way.process_bytes(), self.process),
                device: since(number.and_then(|number| self.way.device(number)), self.device),
            };
            let expected = moved.process.unwrap_or(asked).min(asked);
            let is_behind = moved.device.is_some_and(|device| device < expected);
            let now = Instant::now();
            if last.1 != moved.device {
                last = (now, moved.device);
            }
            let is_still = now - last.0 > ANSWER_STILL;
            if !is_behind || is_still || now - start > ANSWER_MOST {
                return moved;
            }
            std::thread::sleep(ANSWER_EVERY);
        }
    }
}

impl Way {
    fn process_bytes(self) -> Option<u64> {
        match self {
            Way::Read => process_read_bytes(),
            Way::Written => process_written_bytes(),
        }
    }

    fn device(self, number: &str) -> Option<u64> {
        match self {
            Way::Read => device_read_bytes(number),
            Way::Written => device_written_bytes(number),
        }
    }
}

impl Moved {
    /// What the device gave or took at most: the least of what is counted; `None` if nothing counts
    /// them.
    pub(in crate::fs) fn by_device(&self) -> Option<u64> {
        [self.process, self.device].into_iter().flatten().min()
    }

    /// Share of the requested bytes that no device delivered or took; `None` if nothing counts
    /// them.
    pub(in crate::fs) fn cache_share(&self) -> Option<f64> {
        let missing = self.asked.saturating_sub(self.by_device()?);
        (self.asked > 0).then(|| missing as f64 / self.asked as f64)
    }

    /// Puts what was counted beside a case's figure, and a note of kind
    /// [`record::note::NoteKind::Cache`] where it does not add up.
    pub(in crate::fs) fn describe(&self, samples: &mut Samples) {
        let quantities = [
            ("asked_bytes", Some(self.asked as f64)),
            ("own_bytes", self.process.map(|bytes| bytes as f64)),
            ("device_bytes", self.device.map(|bytes| bytes as f64)),
            ("cache_share", self.cache_share()),
        ];
        samples.set_quantities(quantities);
        samples.notes.extend(self.note());
    }

    fn note(&self) -> Option<Note> {
        let Some(share) = self.cache_share() else {
            let what = "the device's reads and writes are not counted: /proc/self/io is missing \
                        and the device is unknown";
            return (self.asked > 0).then(|| what.into());
        };
        let (verb, given) = match self.way {
            Way::Read => ("read", "came from"),
            Way::Written => ("written", "reached"),
        };
        // Device work for ZFS and servers is charged to no process.
        let device = match self.device {
            Some(_) => "no device of this machine",
            None => "no device with counters",
        };
        (share > SHARE_UNTOLD).then(|| {
            Note::cache(format!(
                "cache: {:.0} % of {} {verb} {given} {device} (counted for the process: {}, for \
                 the device: {})",
                share * 100.0,
                render(self.asked as f64, Unit::B),
                bytes_text(self.process),
                bytes_text(self.device)
            ))
        })
    }
}

fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), |bytes| render(bytes as f64, Unit::B))
}

#[cfg(test)]
mod tests {
    use super::{Account, Moved, Way};

    fn moved(asked: u64, process: Option<u64>, device: Option<u64>) -> Moved {
        Moved { way: Way::Read, asked, process, device }
    }

    #[test]
    fn what_no_device_gave_is_the_cache_s() {
        // Read ahead, and others' reads: more is as good.
        assert_eq!(moved(4096, Some(8192), Some(1 << 20)).cache_share(), Some(0.0));
        assert_eq!(moved(4096, None, Some(1024)).cache_share(), Some(0.75));
        // The process was counted it, and its device did nothing: a cache below.
        let below = moved(1 << 20, Some(1 << 20), Some(0));
        assert_eq!(below.cache_share(), Some(1.0));
        let note = below.note().expect("it does not add up");
        assert!(note.starts_with("cache: 100 % of 1 MiB"), "{note}");
        assert!(note.contains("for the device: 0 B"), "{note}");
        // Others read as well, and this process did not.
        assert_eq!(moved(100, Some(0), Some(1 << 30)).cache_share(), Some(1.0));
    }

    #[test]
    fn what_nobody_counts_is_said() {
        let unknown = moved(4096, None, None);
        assert_eq!(unknown.cache_share(), None);
        assert!(unknown.note().expect("said").contains("are not counted"));
        assert_eq!(moved(0, None, None).note(), None);
        assert_eq!(moved(0, Some(0), Some(0)).cache_share(), None);
        assert_eq!(moved(1000, Some(995), None).note(), None);
    }

    #[test]
    fn what_is_in_memory_counts_as_from_no_device() {
        let account = Account::begin(Some("0:0"));
        let data = std::fs::read("/proc/self/status").expect("reads");
        let moved = account.end(data.len() as u64);
        assert_eq!(moved.device, None);
        assert!(self::moved(1 << 20, Some(0), None).note().is_some(), "it does not add up");
    }
}
