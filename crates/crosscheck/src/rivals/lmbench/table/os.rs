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
            difference: "lmbench plays one second without pause and takes the mean, plumb the mean of short bursts \
                         of six rounds; plumb's receiver also checks and counts each message",
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
        args: "install",
        set: "operation=install",
        rows: &[Figure {
            case: "operation=install",
            what: "Signal handler installation",
            goal: Goal::Explained,
            difference: "lmbench calls the C library's sigaction, which copies structures both ways, and asks for \
                         the old disposition as well",
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
            difference: "lmbench takes off what kill(pid, 0) costs, which looks the process up and sends nothing, \
                         and signals once less than it counts; plumb has the whole of kill, delivery and return",
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
            difference: "lmbench takes off its catch (kill with a handler less kill(pid, 0)) from a fault that is \
                         caught, and prints nothing where no time is left; plumb's self_kill less ignored, which \
                         looks up a thread and not a process, is taken off here. lmbench's handler returns to the \
                         same store, plumb's behind it",
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
            difference: "lmbench plays intervals of 0.1 s without pause and takes the median of their means, plumb \
                         the mean of short bursts of six rounds; plumb's receiver also checks and counts each message",
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
            difference: "lmbench's parent is a small program, plumb's a worker with more areas and page tables to \
                         copy; lmbench's child leaves by exit(3), which writes to pages that it shares and so \
                         copies them",
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
            difference: "lmbench executes its `hello`, which writes a line to a descriptor that was closed before \
                         and leaves by the C library's exit, through a link to where it lies; plumb executes a \
                         program that exits as soon as its interpreter has mapped the C library",
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
            difference: "lmbench's shell executes its `hello`, a second program to be loaded; plumb's exits by \
                         itself, and is made by posix_spawn in place of fork and execlp",
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
        args: "-m 65536 127.0.0.1",
        has_status: false,
        needs: Needs::Listener { port: 31236 },
        experiment: "net.bandwidth",
        set: "far=loopback protocol=tcp message=64KiB ends=same_cpu streams=1 direction=down transfer=steady time=500ms",
        rows: &[Figure {
            what: "bw_tcp",
            difference: "both ends on one CPU; lmbench's server sends one zeroed buffer, sets large socket \
                         buffers and leaves Nagle's algorithm on, which sends fewer packets (by 4 % in a \
                         C program), plumb's buffers are the system's and its bytes change; MB are 10^6 \
                         bytes",
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
            difference: "lmbench sleeps 1 ms from now again and again and takes the mean of a sleep, of which the \
                         millisecond is taken off here: the calls and the loop are in it; plumb sleeps until \
                         points of a grid, up to its first reading of the clock",
            ..TIME
        }],
        ..PLAIN
    },
];

const SWITCH: Figure = Figure {
    metric: "switch",
    goal: Goal::Explained,
    difference: "both take off what one process alone needs for its pipe and its sum, lmbench as the median of one \
                 run before, plumb in turn in the same window; lmbench's processes are under the normal policy, \
                 where a woken one may preempt its waker, plumb's under SCHED_BATCH, where it waits its turn. \
                 lmbench prints to 10 ns",
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
    difference: "both ends on one CPU and blocking, and the mean on both sides; lmbench plays one or two seconds \
                 without pause, plumb shorter bursts in six processes",
    ..TIME
};

const ECHO_TCP: &str = "far=loopback protocol=tcp message=1B ends=same_cpu connections=1 receiver=blocking arrivals=saturated exchange=echo";

const ECHO_UDP: &str = "far=loopback protocol=udp message=4B ends=same_cpu connections=1 receiver=blocking arrivals=saturated exchange=echo";

const STREAM: Figure = Figure {
    difference: "64 KiB a call on one CPU; lmbench's writer never touches its buffer and its reader counts what it \
                 got, plumb's message changes and its receiver's answer is waited for; MB are 10^6 bytes",
    ..RATE
};

const SYSCALL: Entry = Entry { program: "lat_syscall", experiment: "os.syscall", ..PLAIN };

const CALLED: &str = "lmbench calls through the C library in a counted loop, which it does not take off, and takes \
                      the median of intervals of 0.1 s with every interruption in them; plumb calls its own \
                      function of that instruction, n times against 2n";

const SIGNAL: Entry = Entry { program: "lat_sig", experiment: "os.signal", ..PLAIN };

const PROCESS: Entry = Entry { program: "lat_proc", experiment: "os.process", ..PLAIN };

const SWITCHED: Entry = Entry { program: "lat_ctx", experiment: "os.switch", ..PLAIN };
