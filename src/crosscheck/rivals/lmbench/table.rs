//! The programs of lmbench that something of plumb's stands beside.

use crate::analysis;
use crate::crosscheck::{Goal, Statistic};
use crate::experiment::Preset;
use anyhow::{Context, Result};
use record::run::Run;
use record::unit::Unit;

/// In arguments, for what the machine decides: a file, a directory, bytes.
pub(super) const VALUE: &str = "{}";

/// A program with what it is asked, and what of plumb's stands beside it.
pub(super) struct Entry {
    /// The pairing's name.
    pub name: &'static str,
    /// The least preset that has it.
    pub from: Preset,
    /// The program.
    pub program: &'static str,
    /// Its arguments after the number of repetitions.
    pub args: &'static [&'static str],
    /// Its interval is not shorter than this, whatever it is told, in seconds.
    pub interval_s: f64,
    /// The interval that it is told, in seconds.
    pub enough_s: f64,
    /// Whether it ends with a status (some leave `main` without one).
    pub has_status: bool,
    /// What must be there.
    pub needs: Needs,
    /// plumb's experiment.
    pub experiment: &'static str,
    /// What it is set to; of [`Needs::Arrays`], nothing.
    pub set: &'static [(&'static str, &'static str)],
    /// What is compared.
    pub rows: &'static [Figure],
}

/// What a program needs.
#[derive(Clone, Copy)]
pub(super) enum Needs {
    Nothing,
    /// A file in the directory for files.
    File,
    /// A directory in memory.
    Memory,
    /// Its own server, which listens at a port that is fixed.
    Listener {
        port: u16,
    },
    /// As many bytes as plumb's arrays of these kernels have, divided by its shares.
    Arrays {
        ops: &'static [&'static str],
        shares: u64,
    },
}

/// A row of the table.
pub(super) struct Figure {
    pub name: &'static str,
    /// Words; a number is one.
    pub case: &'static [(&'static str, &'static str)],
    pub metric: &'static str,
    pub statistic: Statistic,
    pub times: f64,
    pub unit: Unit,
    pub what: &'static str,
    pub goal: Goal,
    pub difference: &'static str,
}

/// What most entries are.
const PLAIN: Entry = Entry {
    name: "",
    from: Preset::Standard,
    program: "",
    args: &[],
    interval_s: 0.0,
    enough_s: super::ENOUGH_S,
    has_status: true,
    needs: Needs::Nothing,
    experiment: "",
    set: &[],
    rows: &[],
};

/// A latency that should agree.
const TIME: Figure = Figure {
    name: "",
    case: &[],
    metric: "latency",
    statistic: Statistic::Value,
    times: 1.0,
    unit: Unit::Ns,
    what: "",
    goal: Goal::Agree,
    difference: "",
};

/// A rate that should be reached.
const RATE: Figure = Figure {
    metric: "bandwidth",
    unit: Unit::BPerS,
    goal: Goal::AtLeast,
    ..TIME
};

const SYSCALL: Entry = Entry {
    program: "lat_syscall",
    experiment: "os.syscall",
    ..PLAIN
};

const CALLED: &str = "lmbench calls through the C library in a counted loop, which it does not take off, and takes \
                      the median of intervals of 0.1 s with every interruption in them; plumb calls by the \
                      instruction, n against 2n";

/// All of them: the three of a quick comparison first.
pub(super) static ENTRIES: &[Entry] = &[
    Entry {
        name: "syscall-null",
        from: Preset::Rehearsal,
        args: &["null"],
        set: &[("call", "getppid")],
        rows: &[Figure {
            case: &[("call", "getppid")],
            what: "Simple syscall",
            difference: CALLED,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "pipe",
        from: Preset::Quick,
        program: "lat_pipe",
        interval_s: 1.0,
        experiment: "os.ipc",
        set: &[("via", "pipe"), ("pair", "same"), ("size", "1B")],
        rows: &[Figure {
            metric: "round_trip",
            what: "Pipe latency",
            difference: "lmbench plays one second without pause and takes the mean, plumb short bursts of which \
                         it takes the median; plumb's receiver also checks and counts each message",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "memory-read",
        from: Preset::Quick,
        program: "bw_mem",
        args: &[VALUE, "frd"],
        needs: Needs::Arrays {
            ops: &["read"],
            shares: 1,
        },
        experiment: "memory.bandwidth",
        rows: &[Figure {
            case: &[("op", "read")],
            what: "bw_mem",
            difference: "lmbench sums 4-byte integers in C as its makefile compiles it (-O: no vectors), plumb \
                         loads by the widest vectors; MB are 10^6 bytes",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "syscall-read",
        args: &["read"],
        set: &[("call", "read_zero")],
        rows: &[Figure {
            case: &[("call", "read_zero")],
            what: "Simple read",
            difference: CALLED,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-write",
        from: Preset::Thorough,
        args: &["write"],
        set: &[("call", "write_null")],
        rows: &[Figure {
            case: &[("call", "write_null")],
            what: "Simple write",
            difference: CALLED,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-stat",
        args: &["stat", "/dev/null"],
        set: &[("call", "stat")],
        rows: &[Figure {
            case: &[("call", "stat")],
            what: "Simple stat",
            difference: CALLED,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-open",
        args: &["open", "/dev/null"],
        set: &[("call", "open,close")],
        rows: &[Figure {
            case: &[("call", "open")],
            statistic: Statistic::Own("open and close", |run, _| {
                Ok(value(run, ("call", "open"), "latency")?
                    + value(run, ("call", "close"), "latency")?)
            }),
            what: "Simple open/close",
            difference: "lmbench opens and closes one descriptor again and again, by the same number; plumb opens \
                         128 and closes them in one go, so that other descriptors and other memory are used \
                         each time",
            goal: Goal::Explained,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "signal-install",
        from: Preset::Thorough,
        program: "lat_sig",
        args: &["install"],
        experiment: "os.signal",
        set: &[("operation", "install")],
        rows: &[Figure {
            case: &[("operation", "install")],
            what: "Signal handler installation",
            goal: Goal::Explained,
            difference: "lmbench calls the C library's sigaction, which copies structures both ways, and asks for \
                         the old disposition as well",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "signal-catch",
        program: "lat_sig",
        args: &["catch"],
        experiment: "os.signal",
        set: &[("operation", "self_kill")],
        rows: &[Figure {
            case: &[("operation", "self_kill")],
            what: "Signal handler overhead",
            goal: Goal::Explained,
            difference: "lmbench takes off what kill(pid, 0) costs, which looks the process up and sends nothing, \
                         and signals once less than it counts; plumb has the whole of kill, delivery and return",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "procedure",
        from: Preset::Thorough,
        program: "lat_proc",
        args: &["procedure"],
        experiment: "cpu.call",
        set: &[
            ("call", "direct"),
            ("type", "i32"),
            ("frame", "registers"),
            ("arguments", "1"),
        ],
        rows: &[Figure {
            metric: "call",
            what: "Procedure call",
            goal: Goal::Explained,
            difference: "lmbench's procedure adds to a variable in memory, each call after the one before through \
                         the store buffer, and a counted loop calls it; plumb's callee uses its argument and no \
                         memory",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "operations",
        program: "lat_ops",
        enough_s: 0.01,
        experiment: "cpu.instruction",
        set: &[("instruction", "mul_i64,add_f64,mul_f64,div_f64")],
        rows: &[
            Figure {
                name: "integer multiplication",
                case: &[("instruction", "mul_i64")],
                what: "int64 mul",
                ..OPERATION
            },
            Figure {
                name: "addition",
                case: &[("instruction", "add_f64")],
                what: "double add",
                ..OPERATION
            },
            Figure {
                name: "multiplication",
                case: &[("instruction", "mul_f64")],
                what: "double mul",
                ..OPERATION
            },
            Figure {
                name: "division",
                case: &[("instruction", "div_f64")],
                what: "double div",
                goal: Goal::Explained,
                ..OPERATION
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "unix",
        program: "lat_unix",
        experiment: "os.ipc",
        set: &[("via", "socketpair"), ("pair", "same"), ("size", "1B")],
        rows: &[Figure {
            metric: "round_trip",
            what: "AF_UNIX sock stream latency",
            difference: "lmbench plays intervals of 0.1 s without pause, plumb short bursts of which it takes the \
                         median; plumb's receiver also checks and counts each message",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "switch",
        program: "lat_ctx",
        args: &["-s", "0", "2", "8"],
        experiment: "os.switch",
        set: &[("via", "ring"), ("size", "2,8"), ("working_set", "0")],
        rows: &[
            Figure {
                name: "2 processes",
                case: &[("size", "2")],
                what: "lat_ctx 2",
                ..SWITCH
            },
            Figure {
                name: "8 processes",
                case: &[("size", "8")],
                what: "lat_ctx 8",
                ..SWITCH
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "switch-64k",
        program: "lat_ctx",
        args: &["-s", "64", "8"],
        experiment: "os.switch",
        set: &[("via", "ring"), ("size", "8"), ("working_set", "64KiB")],
        rows: &[Figure {
            what: "lat_ctx 8",
            ..SWITCH
        }],
        ..PLAIN
    },
    Entry {
        name: "fork",
        program: "lat_proc",
        args: &["fork"],
        experiment: "os.process",
        set: &[("call", "fork"), ("resident", "64KiB"), ("pages", "base")],
        rows: &[Figure {
            metric: "in_sequence",
            what: "Process fork+exit",
            goal: Goal::Explained,
            difference: "lmbench's parent is a small program, plumb's a worker with more areas and page tables to \
                         copy; lmbench's child leaves by exit(3), which writes to pages that it shares and so \
                         copies them",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "tcp",
        program: "lat_tcp",
        args: &["-m", "1", "127.0.0.1"],
        interval_s: 2.0,
        needs: Needs::Listener { port: 31234 },
        experiment: "net.rtt",
        set: ECHO_TCP,
        rows: &[Figure {
            what: "TCP latency using 127.0.0.1",
            ..ECHO
        }],
        ..PLAIN
    },
    Entry {
        name: "udp",
        program: "lat_udp",
        args: &["-m", "4", "127.0.0.1"],
        interval_s: 1.0,
        // It takes -31238 for an unsigned number of 16 bits.
        needs: Needs::Listener { port: 34298 },
        experiment: "net.rtt",
        set: ECHO_UDP,
        rows: &[Figure {
            what: "UDP latency using 127.0.0.1",
            ..ECHO
        }],
        ..PLAIN
    },
    Entry {
        name: "connect",
        from: Preset::Thorough,
        program: "lat_connect",
        args: &["127.0.0.1"],
        // Longer, and the ports of this host are used up by what waits in TIME_WAIT.
        enough_s: 0.01,
        needs: Needs::Listener { port: 31237 },
        experiment: "net.connect",
        set: &[
            ("far", "loopback"),
            ("ends", "same_cpu"),
            ("listener", "ready"),
            ("closer", "client"),
        ],
        rows: &[Figure {
            metric: "socket_connect",
            statistic: Statistic::Own("socket, connect and close", |run, row| {
                let ends = ("ends", "same_cpu");
                Ok(value(run, ends, row.metric)? + value(run, ends, "client_close")?)
            }),
            what: "TCP/IP connection cost to 127.0.0.1",
            goal: Goal::Explained,
            difference: "lmbench's is a whole turn with what its server does meanwhile on the same CPU, and with \
                         connections whose first segment was dropped and sent again a second later; plumb has the \
                         three calls of the client, those answered at once",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "tcp-bandwidth",
        program: "bw_tcp",
        args: &["-m", "65536", "127.0.0.1"],
        has_status: false,
        needs: Needs::Listener { port: 31236 },
        experiment: "net.bandwidth",
        set: &[
            ("far", "loopback"),
            ("protocol", "tcp"),
            ("message", "64KiB"),
            ("ends", "same_cpu"),
            ("streams", "1"),
            ("direction", "down"),
            ("transfer", "steady"),
        ],
        rows: &[Figure {
            what: "bw_tcp",
            difference: "both ends on one CPU; lmbench's server sends one zeroed buffer and sets large socket \
                         buffers, plumb's buffers are the system's and its bytes change; MB are 10^6 bytes",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "pipe-bandwidth",
        program: "bw_pipe",
        args: &["-m", "65536"],
        interval_s: 2.0,
        experiment: "os.ipc",
        set: &[("via", "pipe"), ("pair", "same"), ("size", "64KiB")],
        rows: &[Figure {
            what: "Pipe bandwidth",
            ..STREAM
        }],
        ..PLAIN
    },
    Entry {
        name: "unix-bandwidth",
        from: Preset::Thorough,
        program: "bw_unix",
        experiment: "os.ipc",
        set: &[("via", "socketpair"), ("pair", "same"), ("size", "64KiB")],
        rows: &[Figure {
            what: "AF_UNIX sock stream bandwidth",
            ..STREAM
        }],
        ..PLAIN
    },
    Entry {
        name: "memory-copy",
        from: Preset::Thorough,
        program: "bw_mem",
        args: &[VALUE, "bcopy"],
        needs: Needs::Arrays {
            ops: &["copy"],
            shares: 2,
        },
        experiment: "memory.bandwidth",
        rows: &[Figure {
            case: &[("op", "copy")],
            times: 0.5,
            what: "bw_mem",
            goal: Goal::Explained,
            difference: "lmbench copies by the C library, which for such arrays may store past the caches where \
                         plumb's regular stores read each line first; it counts a copied byte once, and plumb's \
                         are halved here to match",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "stream",
        program: "stream",
        args: &["-M", VALUE],
        needs: Needs::Arrays {
            ops: &["copy", "scale", "triad"],
            shares: 1,
        },
        experiment: "memory.bandwidth",
        rows: &[
            Figure {
                name: "copy",
                case: &[("op", "copy")],
                what: "STREAM copy bandwidth",
                ..KERNEL
            },
            Figure {
                name: "scale",
                case: &[("op", "scale")],
                what: "STREAM scale bandwidth",
                ..KERNEL
            },
            Figure {
                name: "triad",
                case: &[("op", "triad")],
                what: "STREAM triad bandwidth",
                ..KERNEL
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "load-latency",
        program: "lat_mem_rd",
        args: &["1", "64"],
        experiment: "memory.latency",
        set: &[
            ("pattern", "forward"),
            ("stride", "64B"),
            ("load", "pointer"),
            ("pages", "base"),
            ("footprint", "16KiB,1MiB"),
        ],
        rows: &[
            Figure {
                name: "16 KiB",
                case: &[("footprint", "16384")],
                what: "lat_mem_rd 0.01562",
                difference: "lmbench walks forward in steps of 64 bytes and takes the fastest interval of 0.1 s, \
                             with a jump back to the loop after 100 loads",
                ..TIME
            },
            Figure {
                name: "1 MiB",
                case: &[("footprint", "1048576")],
                what: "lat_mem_rd 1.00000",
                goal: Goal::Explained,
                difference: "which physical pages each run is given decides what conflicts in the caches; lmbench \
                             takes the fastest interval of one allocation",
                ..TIME
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "page-fault",
        program: "lat_pagefault",
        args: &[VALUE],
        needs: Needs::File,
        experiment: "memory.fault",
        set: &[("fault", "file_around")],
        rows: &[Figure {
            statistic: Statistic::Own("latency over pages of a fault", |run, row| {
                let fault = ("fault", "file_around");
                Ok(value(run, fault, row.metric)? / value(run, fault, "pages_per_fault")?)
            }),
            what: "lat_pagefault",
            goal: Goal::Explained,
            difference: "lmbench touches the pages of a mapped file in random order and divides by all pages, \
                         though a fault maps its cached neighbours too (16 pages with most kernels), unmaps \
                         everything within the time and takes off an empty mapping's; plumb times faults in order, \
                         divided here by the pages that each mapped",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "file-read",
        from: Preset::Thorough,
        program: "bw_file_rd",
        args: &["8388608", "io_only", VALUE],
        needs: Needs::File,
        experiment: "fs.io",
        set: &[
            ("op", "read"),
            ("pattern", "sequential"),
            ("mode", "cached"),
            ("block", "64KiB"),
            ("engine", "psync"),
            ("depth", "1"),
            ("threads", "1"),
            ("size", "8MiB"),
        ],
        rows: &[Figure {
            what: "bw_file_rd",
            goal: Goal::Explained,
            difference: "lmbench sums what it has read, 64 KiB at a time, within the time; plumb only reads",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "files",
        from: Preset::Thorough,
        program: "lat_fs",
        args: &["-s", "1", VALUE],
        needs: Needs::Memory,
        experiment: "fs.metadata",
        set: &[("call", "create,unlink"), ("entries", "100")],
        rows: &[
            Figure {
                name: "create",
                case: &[("call", "create")],
                what: "lat_fs create",
                ..NAME
            },
            Figure {
                name: "remove",
                case: &[("call", "unlink")],
                what: "lat_fs delete",
                ..NAME
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "sleep",
        program: "lat_usleep",
        args: &["1000"],
        experiment: "noise.wakeup",
        set: &[
            ("spacing", "1ms"),
            ("load", "idle"),
            ("clock", "monotonic"),
            ("policy", "other"),
            ("slack", "default"),
            ("idle_states", "allowed"),
        ],
        rows: &[Figure {
            statistic: Statistic::MeanOfAll,
            what: "lat_usleep",
            goal: Goal::Explained,
            difference: "lmbench sleeps 1 ms from now again and again and takes the mean of a sleep, of which the \
                         millisecond is taken off here: the calls and the loop are in it; plumb sleeps until \
                         points of a grid, up to its first reading of the clock",
            ..TIME
        }],
        ..PLAIN
    },
];

const OPERATION: Figure = Figure {
    difference: "lmbench takes 10 to 20 dependent operations of C code from an interval of 10 ms, with whatever \
                 its compiler made of them, divided by how many it counts in its source; a division's time \
                 depends on its operands, which differ",
    ..TIME
};

const SWITCH: Figure = Figure {
    metric: "switch",
    goal: Goal::Explained,
    difference: "both take off what one process alone needs for its pipe and its sum, lmbench as the median of one \
                 run before, plumb in turn in the same window; lmbench's processes are under the normal policy, \
                 where a woken one may preempt its waker, plumb's under SCHED_BATCH, where it waits its turn. \
                 lmbench prints to 10 ns",
    ..TIME
};

const ECHO: Figure = Figure {
    metric: "round_trip",
    goal: Goal::AtMost,
    difference: "both ends on one CPU and blocking; lmbench plays one or two seconds without pause and takes the \
                 mean, plumb shorter bursts of which it takes the median",
    ..TIME
};

const ECHO_TCP: &[(&str, &str)] = &[
    ("far", "loopback"),
    ("protocol", "tcp"),
    ("message", "1B"),
    ("ends", "same_cpu"),
    ("connections", "1"),
    ("receiver", "blocking"),
    ("arrivals", "saturated"),
    ("exchange", "echo"),
];

const ECHO_UDP: &[(&str, &str)] = &[
    ("far", "loopback"),
    ("protocol", "udp"),
    ("message", "4B"),
    ("ends", "same_cpu"),
    ("connections", "1"),
    ("receiver", "blocking"),
    ("arrivals", "saturated"),
    ("exchange", "echo"),
];

const STREAM: Figure = Figure {
    difference: "64 KiB a call on one CPU; lmbench's writer never touches its buffer and its reader counts what it \
                 got, plumb's message changes and its receiver's answer is waited for; MB are 10^6 bytes",
    ..RATE
};

const KERNEL: Figure = Figure {
    statistic: Statistic::Best,
    difference: "both count as STREAM does and take the fastest, lmbench of its repetitions and plumb of its \
                 rounds; lmbench's loops are compiled with -O, without vectors, and walk three arrays in turn; \
                 its add, which is not compared, only sums one",
    ..RATE
};

const NAME: Figure = Figure {
    goal: Goal::Explained,
    difference: "lmbench makes files of one byte by creat, write and close of whole paths, 100 to a directory, in \
                 directories nested ever deeper; plumb makes empty ones beside 100 others and closes them outside \
                 of the time",
    ..TIME
};

/// The value of a case of plumb's run, which has one experiment.
fn value(run: &Run, (name, choice): (&str, &str), metric: &str) -> Result<f64> {
    let all = analysis::figures(run);
    let is_meant = |figure: &&analysis::figure::Figure| {
        let is_case = figure
            .case
            .get(name)
            .is_some_and(|value| value.to_string() == choice);
        is_case
            && figure
                .metric
                .as_ref()
                .is_some_and(|told| told.name == metric)
    };
    let found = all.iter().find(is_meant);
    found
        .and_then(|figure| figure.value)
        .with_context(|| format!("no {metric} of {name}={choice}"))
}
