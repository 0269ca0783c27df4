//! Figures of an instance as plumb's keys. Where a tool's operation is not plumb's, the figure is
//! divided by how many times plumb's it is, as the tool's source says; what that leaves open is the
//! figure's interval.

use super::{Instance, Row};
use crate::sheet::Datum;
use host::Host;
use host::cache::CacheKind;
use record::key::{CaseId, Value};
use record::unit::Unit;
use std::collections::BTreeMap;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A footprint is of a cache from so many times the one before it …
const BEYOND: u64 = 8;
/// … to this share of its bytes: below it, 16-byte nodes cost what lines do.
const WITHIN: (u64, u64) = (7, 8);
/// sc-membench takes base pages below the first, and huge pages from the second on.
const BASE_BELOW: u64 = 2 * MIB;
const HUGE_FROM: u64 = 4 * MIB;

/// Which of a stressor's rates counts.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    One,
    /// One instance whose parties keep every CPU busy.
    OneOnAll,
    /// As many instances as CPUs.
    All,
}

/// A stressor of stress-ng beside a case of plumb.
struct Stressor {
    name: &'static str,
    load: Load,
    experiment: &'static str,
    case: &'static [(&'static str, &'static str)],
    metric: &'static str,
    /// How many times plumb's figure an operation is, by stress-ng 0.20.01's source.
    times: f64,
    /// Whether only x86-64 has the calls of which the factor is made.
    only_x86: bool,
    difference: &'static str,
}

/// What the factors leave open, high over low: the range of a figure goes from its value over the
/// root of this to its value times that.
const OPEN: f64 = 2.0;

/// Two threads of a core do kernel work one and a half times as long as one alone.
const SHARED_CORE: f64 = 1.5;

const SYSCALL: Stressor = Stressor {
    name: "",
    load: Load::One,
    experiment: "os.syscall",
    case: &[],
    metric: "latency",
    times: 1.0,
    only_x86: false,
    difference: "",
};

/// Left out: `clone` (flags drawn by lot, half of its children share a memory of 128 MiB and half copy
/// it), `fault` (a turn creates, maps and removes a file), `eventfd` (each turn reads
/// /proc/self/fdinfo), `usersyscall` (signals).
const STRESSORS: [Stressor; 10] = [
    Stressor {
        name: "null",
        case: &[("call", "write_null")],
        times: 11.0,
        difference: "a turn is eleven calls on /dev/null: write, three lseek, fallocate, fdatasync, \
                     three fcntl, two ioctl",
        ..SYSCALL
    },
    Stressor {
        name: "x86syscall",
        case: &[("call", "getpid")],
        times: 1.15,
        only_x86: true,
        difference: "the mean of getcpu, geteuid, getgid, getpid, gettimeofday, getuid and time; two \
                     read the clock",
        ..SYSCALL
    },
    Stressor {
        name: "vdso",
        case: &[("call", "clock_gettime_vdso")],
        times: 0.5,
        only_x86: true,
        difference: "the mean of clock_gettime and gettimeofday, which read the counter, and of \
                     clock_getres, getcpu and time, which do not",
        ..SYSCALL
    },
    Stressor {
        name: "zero",
        case: &[("call", "read_zero")],
        times: 1.4,
        difference: "reads clear 4096 bytes, plumb's one",
        ..SYSCALL
    },
    Stressor {
        name: "context",
        experiment: "os.signal",
        case: &[("operation", "mask")],
        times: 1.5e3,
        difference: "a turn is a thousand swapcontext of the C library, which save and load \
                     registers beside the call that changes the mask",
        ..SYSCALL
    },
    Stressor {
        name: "fork",
        experiment: "os.process",
        case: &[("call", "fork"), ("resident", "1048576"), ("pages", "base")],
        metric: "in_sequence",
        times: 1.9,
        difference: "a parent of some 170 memory areas clears 125 KiB before each child, and half of \
                     the children make six calls; on another machine 2.2 and 2.4 times as long",
        ..SYSCALL
    },
    Stressor {
        name: "vfork",
        experiment: "os.process",
        case: &[("call", "vfork"), ("resident", "1048576"), ("pages", "base")],
        metric: "in_sequence",
        times: 1.3,
        difference: "the parent clears 125 KiB before each child",
        ..SYSCALL
    },
    Stressor {
        name: "pipe",
        experiment: "os.ipc",
        case: &[("via", "pipe"), ("pair", "near"), ("size", "4096")],
        metric: "bandwidth",
        difference: "the scheduler places the two processes, plumb pins them",
        ..SYSCALL
    },
    Stressor {
        name: "switch",
        load: Load::All,
        experiment: "os.switch",
        case: &[("via", "pipe"), ("parties", "processes"), ("pair", "same")],
        metric: "handover",
        times: 1.7,
        difference: "a pipe of one page in one direction: a write, a read and two switches, on CPUs \
                     that all are busy; two hand-overs have two writes and two reads",
        ..SYSCALL
    },
    Stressor {
        name: "yield",
        load: Load::OneOnAll,
        experiment: "os.switch",
        case: &[("via", "yield"), ("parties", "processes")],
        metric: "handover",
        times: 0.75,
        difference: "two processes on each CPU read the clock twice a yield, and count a yield that \
                     does not switch as one",
        ..SYSCALL
    },
];

/// All figures. Errors: a value that is no number.
pub(super) fn figures(instance: &Instance, host: &Host) -> Result<Vec<Datum>, String> {
    let mut all = latencies(instance, host);
    all.extend(bandwidths(instance, host));
    let release = instance.stressng_meta.as_ref().and_then(|meta| meta.version.as_deref());
    // The factors are of one version's source.
    if release.is_some_and(|release| release.starts_with("0.20")) {
        all.extend(STRESSORS.iter().filter_map(|stressor| stressor.figure(instance, host)));
    }
    match all.iter().find(|figure| !(figure.value.is_finite() && figure.value > 0.0)) {
        Some(figure) => Err(format!("{}: {} is {}", instance.id, figure.key(), figure.value)),
        None => Ok(all),
    }
}

fn figure(
    experiment: &str,
    case: &[(&str, Value)],
    (metric, unit): (&str, Unit),
    value: f64,
) -> Datum {
    Datum {
        experiment: experiment.to_owned(),
        case: case.iter().fold(CaseId::new(), |all, (name, value)| all.with(name, value.clone())),
        metric: metric.to_owned(),
        unit,
        value,
        ci: None,
        alone: None,
        cycles: None,
        at: BTreeMap::new(),
        table: String::new(),
        notes: Vec::new(),
        estimate: None,
        scored: false,
    }
}

/// Random chains where nodes of 16 bytes cost what lines do.
fn latencies(instance: &Instance, host: &Host) -> Vec<Datum> {
    let data = host.cache.levels.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let sizes: Vec<u64> = data.map(|cache| cache.size_bytes).collect();
    let is_asked = |bytes: u64| {
        let mut pairs = sizes.windows(2);
        let (share, of) = WITHIN;
        pairs.any(|pair| bytes >= BEYOND * pair[0] && of * bytes <= share * pair[1])
    };
    let one = |row: &Row| {
        let bytes = row.size_kib * KIB;
        let pages = match bytes {
            ..BASE_BELOW => "base",
            HUGE_FROM.. => "huge",
            _ => return None,
        };
        (row.operation == "latency" && is_asked(bytes)).then(|| {
            let case = [
                ("pattern", Value::from("random")),
                ("load", Value::from("pointer")),
                ("pages", Value::from(pages)),
                ("footprint", Value::Int(bytes)),
            ];
            figure("memory.latency", &case, ("latency", Unit::Ns), row.latency_ns)
        })
    };
    instance.membench.iter().filter_map(one).collect()
}

/// Main memory on one node: of each operation the largest buffers of all threads, if they are well
/// beyond the last caches.
fn bandwidths(instance: &Instance, host: &Host) -> Vec<Datum> {
    let cpus = host.cpu.usable().len() as u64;
    let last = host.cache.levels.last();
    let last = last.map_or(0, |cache| cache.size_bytes * cache.shared_by.len() as u64);
    if host.numa.nodes.len() != 1 || last == 0 {
        return Vec::new();
    }
    // sc-membench counts a copied byte once, plumb both ways.
    let operations = [("read", 1.0), ("write", 1.0), ("copy", 2.0)];
    let one = |(operation, times): (&str, f64)| {
        let rows = instance.membench.iter();
        let rows = rows.filter(|row| row.operation == operation && row.threads == cpus);
        let row = rows.max_by_key(|row| row.size_kib)?;
        (row.size_kib * KIB * cpus >= BEYOND * last).then(|| {
            let case = [
                ("op", operation),
                ("stores", "regular"),
                ("access", "every"),
                ("width", "vector"),
                ("level", "DRAM"),
                ("threads", "all"),
            ];
            let case = case.map(|(name, value)| (name, Value::from(value)));
            let value = row.mib_per_s * times * MIB as f64;
            figure("memory.bandwidth", &case, ("bandwidth", Unit::BPerS), value)
        })
    };
    operations.into_iter().filter_map(one).collect()
}

impl Stressor {
    fn figure(&self, instance: &Instance, host: &Host) -> Option<Datum> {
        let is_x86 = host.cpu.arch == host::Arch::X86_64;
        let rates = instance.stressng.get(self.name).filter(|_| is_x86 || !self.only_x86)?;
        let cpus = host.cpu.usable().len();
        let rate = match self.load {
            Load::One | Load::OneOnAll => rates.get("1")?,
            Load::All => rates.get(&cpus.to_string())?,
        };
        let is_busy = self.load != Load::One;
        let shared = if is_busy && host.cpu.smt_active == Some(true) { SHARED_CORE } else { 1.0 };
        let parties = if is_busy { cpus as f64 } else { 1.0 };
        let pair = pair(host);
        let value = |(name, text): &(&'static str, &str)| match (*text, text.parse()) {
            ("near", _) => (*name, Value::from(pair)),
            (_, Ok(number)) => (*name, Value::Int(number)),
            (text, _) => (*name, Value::from(text)),
        };
        let case: Vec<(&str, Value)> = self.case.iter().map(value).collect();
        let (unit, found) = match self.metric {
            "bandwidth" => {
                let size = case.iter().find(|(name, _)| *name == "size");
                (Unit::BPerS, rate * size?.1.int()? as f64 * self.times)
            }
            _ => (Unit::Ns, 1e9 * parties / rate / shared / self.times),
        };
        let one = figure(self.experiment, &case, (self.metric, unit), found);
        let root = OPEN.sqrt();
        let note = format!("stress-ng's {}: {}", self.name, self.difference);
        Some(Datum { ci: Some((found / root, found * root)), notes: vec![note], ..one })
    }
}

/// The nearest pair of CPUs as a case names it, on one CPU itself.
fn pair(host: &Host) -> &'static str {
    let cpus = &host.cpu.cpus;
    let is_one_core = cpus.iter().all(|cpu| cpu.core == cpus.first().and_then(|first| first.core));
    match (cpus.len(), is_one_core) {
        (1, _) => "same",
        (_, true) => "smt",
        (_, false) => "llc",
    }
}
