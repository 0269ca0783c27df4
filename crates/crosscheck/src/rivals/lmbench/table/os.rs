//! Of system calls, signals, processes, messages, switches, sleeps, and the network on loopback.

use super::{Entry, Figure, Needs, PLAIN, RATE, TIME, value};
use crate::{Goal, Statistic};
use bench::experiment::Preset;

/// The programs.
pub(super) static ENTRIES: &[Entry] = &[
    Entry {
        name: "syscall-null",
        from: Preset::Rehearsal,
        args: "null",
        set: "call=getppid",
        rows: &[Figure {
            case: "call=getppid",
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
        set: "via=pipe pair=same size=1B",
        rows: &[Figure {
            metric: "round_trip",
            what: "Pipe latency",
            statistic: Statistic::MeanOfRounds,
            difference: "lmbench runs one second without pause and takes the mean; plumb takes the \
                         mean of short bursts in six rounds, and its receiver also checks and \
                         counts each message",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "syscall-read",
        args: "read",
        set: "call=read_zero",
        rows: &[Figure { case: "call=read_zero", what: "Simple read", difference: CALLED, ..TIME }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-write",
        from: Preset::Thorough,
        args: "write",
        set: "call=write_null",
        rows: &[Figure {
            case: "call=write_null",
            what: "Simple write",
            difference: CALLED,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-stat",
        args: "stat /dev/null",
        set: "call=stat",
        rows: &[Figure { case: "call=stat", what: "Simple stat", difference: CALLED, ..TIME }],
        ..SYSCALL
    },
    Entry {
        name: "syscall-open",
        args: "open /dev/null",
        set: "call=open,close",
        rows: &[Figure {
            case: "call=open",
            statistic: Statistic::Own("open and close", |run, _| {
                Ok(value(run, ("call", "open"), "latency")?
                    + value(run, ("call", "close"), "latency")?)
            }),
            what: "Simple open/close",
            difference: "lmbench repeatedly opens and closes one descriptor, which always gets the \
                         same number; plumb opens 128 and then closes them, so that descriptors \
                         and memory differ each time",
            goal: Goal::Explained,
            ..TIME
        }],
        ..SYSCALL
    },
    Entry {
        name: "signal-install",
        from: Preset::Thorough,
        args: "install",
        set: "operation=install",
        rows: &[Figure {
            case: "operation=install",
            what: "Signal handler installation",
            goal: Goal::Explained,
            difference: "lmbench calls the C library's sigaction, which copies structures both \
                         ways and also requests the old disposition",
            ..TIME
        }],
        ..SIGNAL
    },
    Entry {
        name: "signal-catch",
        args: "catch",
        set: "operation=self_kill",
        rows: &[Figure {
            case: "operation=self_kill",
            what: "Signal handler overhead",
            goal: Goal::Explained,
            difference: "lmbench subtracts kill(pid, 0), which looks up the process and sends \
                         nothing, and sends one signal less than it counts; plumb's figure is \
                         kill, delivery and return together",
            ..TIME
        }],
        ..SIGNAL
    },
    Entry {
        name: "signal-fault",
        from: Preset::Thorough,
        args: "prot {}",
        needs: Needs::File,
        set: "operation=fault,self_kill,ignored",
        rows: &[Figure {
            case: "operation=fault",
            statistic: Statistic::Own("fault less what catching costs", |run, row| {
                let of = |operation| value(run, ("operation", operation), row.metric);
                Ok(of("fault")? - (of("self_kill")? - of("ignored")?))
            }),
            what: "Protection fault",
            goal: Goal::Explained,
            difference: "lmbench subtracts its catch figure (kill with a handler less kill(pid, \
                         0)) from a caught fault, and prints nothing if the result is not \
                         positive. Here plumb's self_kill less ignored, which looks up a thread \
                         instead of a process, is subtracted. lmbench's handler returns to the \
                         same store, plumb's to the next instruction",
            ..TIME
        }],
        ..SIGNAL
    },
    Entry {
        name: "unix",
        program: "lat_unix",
        experiment: "os.ipc",
        set: "via=socketpair pair=same size=1B",
        rows: &[Figure {
            metric: "round_trip",
            what: "AF_UNIX sock stream latency",
            statistic: Statistic::MeanOfRounds,
            difference: "lmbench runs intervals of 0.1 s without pause and takes the median of \
                         their means; plumb takes the mean of short bursts in six rounds, and its \
                         receiver also checks and counts each message",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "switch",
        args: "-s 0 2 8 16",
        set: "via=ring size=2,8,16 working_set=0",
        rows: SWITCHES,
        ..SWITCHED
    },
    Entry {
        name: "switch-64k",
        args: "-s 64 2 8 16",
        set: "via=ring size=2,8,16 working_set=64KiB",
        rows: SWITCHES,
        ..SWITCHED
    },
    Entry {
        name: "switch-16k",
        from: Preset::Thorough,
        args: "-s 16 2 8 16",
        set: "via=ring size=2,8,16 working_set=16KiB",
        rows: SWITCHES,
        ..SWITCHED
    },
    Entry {
        name: "fork",
        args: "fork",
        set: "call=fork resident=64KiB pages=base",
        rows: &[Figure {
            metric: "in_sequence",
            what: "Process fork+exit",
            goal: Goal::Explained,
            difference: "lmbench's parent is a small program; plumb's is a worker with more memory \
                         areas and page tables to copy. lmbench's child leaves with exit(3), which \
                         writes to shared pages and so copies them",
            ..TIME
        }],
        ..PROCESS
    },
    Entry {
        name: "exec",
        from: Preset::Thorough,
        args: "exec",
        needs: Needs::Hello,
        set: "call=fork_exec_dynamic resident=64KiB pages=base",
        rows: &[Figure {
            metric: "in_sequence",
            what: "Process fork+execve",
            goal: Goal::Explained,
            difference: "lmbench executes its `hello` through a symbolic link; hello writes a line \
                         to a closed descriptor and leaves with the C library's exit. plumb \
                         executes a program that exits as soon as its interpreter has mapped the C \
                         library",
            ..TIME
        }],
        ..PROCESS
    },
    Entry {
        name: "shell",
        from: Preset::Thorough,
        args: "shell",
        needs: Needs::Hello,
        set: "call=sh resident=64KiB pages=base",
        rows: &[Figure {
            metric: "in_sequence",
            what: "Process fork+/bin/sh -c",
            goal: Goal::Explained,
            difference: "lmbench's shell executes `hello`, a second program to load; plumb's shell \
                         exits itself, and is started with posix_spawn instead of fork and execlp",
            ..TIME
        }],
        ..PROCESS
    },
    Entry {
        name: "tcp",
        program: "lat_tcp",
        args: "-m 1 127.0.0.1",
        interval_s: 2.0,
        needs: Needs::Listener { port: 31234 },
        experiment: "net.rtt",
        set: ECHO_TCP,
        rows: &[Figure { what: "TCP latency using 127.0.0.1", ..ECHO }],
        ..PLAIN
    },
    Entry {
        name: "udp",
        program: "lat_udp",
        args: "-m 4 127.0.0.1",
        interval_s: 1.0,
        // It takes -31238 for an unsigned number of 16 bits.
        needs: Needs::Listener { port: 34298 },
        experiment: "net.rtt",
        set: ECHO_UDP,
        rows: &[Figure { what: "UDP latency using 127.0.0.1", ..ECHO }],
        ..PLAIN
    },
    Entry {
        name: "connect",
        from: Preset::Thorough,
        program: "lat_connect",
        args: "127.0.0.1",
        // Longer, and the ports of this host are used up by what waits in TIME_WAIT.
        enough_s: 0.01,
        needs: Needs::Listener { port: 31237 },
        experiment: "net.connect",
        set: "far=loopback ends=same_cpu listener=ready closer=client",
        rows: &[Figure {
            metric: "socket_connect",
            statistic: Statistic::Own("socket, connect and close", |run, row| {
                let ends = ("ends", "same_cpu");
                Ok(value(run, ends, row.metric)? + value(run, ends, "client_close")?)
            }),
            what: "TCP/IP connection cost to 127.0.0.1",
            goal: Goal::Explained,
            difference: "lmbench's figure is a whole turn, including its server's work on the same \
                         CPU and connections whose first segment was dropped and resent a second \
                         later; plumb times the client's three calls, of connections that were \
                         answered at once",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "tcp-bandwidth",
        program: "bw_tcp",
        args: "-m 65536 127.0.0.1",
        has_status: false,
        needs: Needs::Listener { port: 31236 },
        experiment: "net.bandwidth",
        set: "far=loopback protocol=tcp message=64KiB ends=same_cpu streams=1 direction=down transfer=steady time=500ms",
        rows: &[Figure {
            what: "bw_tcp",
            difference: "both ends on one CPU. lmbench's server sends one zeroed buffer, sets \
                         large socket buffers and leaves Nagle's algorithm on, which sends fewer \
                         packets (by 4 % in a C program); plumb uses the system's socket buffers \
                         and changing bytes. MB are 10^6 bytes",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "pipe-bandwidth",
        program: "bw_pipe",
        args: "-m 65536",
        interval_s: 2.0,
        experiment: "os.ipc",
        set: "via=pipe pair=same size=64KiB",
        rows: &[Figure { what: "Pipe bandwidth", ..STREAM }],
        ..PLAIN
    },
    Entry {
        name: "unix-bandwidth",
        from: Preset::Thorough,
        program: "bw_unix",
        experiment: "os.ipc",
        set: "via=socketpair pair=same size=64KiB",
        rows: &[Figure { what: "AF_UNIX sock stream bandwidth", ..STREAM }],
        ..PLAIN
    },
    Entry {
        name: "sleep",
        program: "lat_usleep",
        args: "1000",
        experiment: "noise.wakeup",
        set: "spacing=1ms load=idle clock=monotonic policy=other slack=default idle_states=allowed",
        rows: &[Figure {
            statistic: Statistic::MeanOfAll,
            what: "lat_usleep",
            goal: Goal::Explained,
            difference: "lmbench repeatedly sleeps 1 ms from now and reports the mean, including \
                         the calls and the loop; the millisecond is subtracted here. plumb sleeps \
                         until points of a grid and measures up to its first reading of the clock",
            ..TIME
        }],
        ..PLAIN
    },
];

const SWITCH: Figure = Figure {
    metric: "switch",
    goal: Goal::Explained,
    difference: "both subtract what one process alone needs for its pipe and its sum: lmbench the \
                 median of an earlier run, plumb alternately in the same window. lmbench's \
                 processes use the normal policy, where a woken process may preempt its waker; \
                 plumb's use SCHED_BATCH, where it waits. lmbench prints to 10 ns",
    ..TIME
};

/// As lmbench's own summary has them.
const SWITCHES: &[Figure] = &[
    Figure { name: "2 processes", case: "size=2", what: "lat_ctx 2", ..SWITCH },
    Figure { name: "8 processes", case: "size=8", what: "lat_ctx 8", ..SWITCH },
    Figure { name: "16 processes", case: "size=16", what: "lat_ctx 16", ..SWITCH },
];

const ECHO: Figure = Figure {
    metric: "round_trip",
    goal: Goal::AtMost,
    statistic: Statistic::MeanOfAll,
    difference: "both ends block on one CPU, and both tools report the mean; lmbench runs one or \
                 two seconds without pause, plumb shorter bursts in six processes",
    ..TIME
};

const ECHO_TCP: &str = "far=loopback protocol=tcp message=1B ends=same_cpu connections=1 receiver=blocking arrivals=saturated exchange=echo";

const ECHO_UDP: &str = "far=loopback protocol=udp message=4B ends=same_cpu connections=1 receiver=blocking arrivals=saturated exchange=echo";

const STREAM: Figure = Figure {
    difference: "64 KiB a call on one CPU. lmbench's writer never touches its buffer, and its \
                 reader counts the bytes; plumb's message changes, and the sender waits for the \
                 receiver's answer. MB are 10^6 bytes",
    ..RATE
};

const SYSCALL: Entry = Entry { program: "lat_syscall", experiment: "os.syscall", ..PLAIN };

const CALLED: &str = "lmbench calls through the C library in a counted loop, which it does not \
                      subtract, and takes the median of intervals of 0.1 s, interruptions \
                      included; plumb executes the system call instruction directly, n times \
                      against 2n";

const SIGNAL: Entry = Entry { program: "lat_sig", experiment: "os.signal", ..PLAIN };

const PROCESS: Entry = Entry { program: "lat_proc", experiment: "os.process", ..PLAIN };

const SWITCHED: Entry = Entry { program: "lat_ctx", experiment: "os.switch", ..PLAIN };
