//! Of system calls, signals, processes, messages, switches, sleeps, and the network on loopback.

use super::{SLEEP, entry, value};
use crate::table::Needs::{File, Hello, Listener};
use crate::table::{Entry, RATE, Reading, TIME};
use crate::{Goal, Statistic};
use bench::experiment::Preset::{Quick, Rehearsal, Standard, Thorough};

pub(super) static TABLE: &[Entry] = &[
    SYSCALL
        .named("syscall-null", Rehearsal)
        .asked("null", "call=getppid")
        .beside(&[TIME.in_case("call=getppid", "Simple syscall: {measured}").differs(CALLED)]),
    entry("lat_pipe", "os.ipc")
        .named("pipe", Quick)
        .asked("", "via=pipe pair=same size=1B")
        .interval(1.0)
        .beside(&[TIME
            .read("Pipe latency: {measured}")
            .metric("round_trip")
            .taken(Statistic::MeanOfRounds)
            .differs(
                "lmbench runs one second without pause and takes the mean; plumb takes the mean of \
                 short bursts in six rounds, and its receiver also checks and counts each message",
            )]),
    SYSCALL
        .named("syscall-read", Standard)
        .asked("read", "call=read_zero")
        .beside(&[TIME.in_case("call=read_zero", "Simple read: {measured}").differs(CALLED)]),
    SYSCALL
        .named("syscall-write", Thorough)
        .asked("write", "call=write_null")
        .beside(&[TIME.in_case("call=write_null", "Simple write: {measured}").differs(CALLED)]),
    SYSCALL
        .named("syscall-stat", Standard)
        .asked("stat /dev/null", "call=stat")
        .beside(&[TIME.in_case("call=stat", "Simple stat: {measured}").differs(CALLED)]),
    SYSCALL.named("syscall-open", Standard).asked("open /dev/null", "call=open,close").beside(&[
        TIME.in_case("call=open", "Simple open/close: {measured}")
            .taken(Statistic::Own("open and close", |run, _| {
                Ok(value(run, ("call", "open"), "latency")?
                    + value(run, ("call", "close"), "latency")?)
            }))
            .explained(
                "lmbench repeatedly opens and closes one descriptor, which always gets the same \
                 number; plumb opens 128 and then closes them, so that descriptors and memory \
                 differ each time",
            ),
    ]),
    SIGNAL.named("signal-install", Thorough).asked("install", "operation=install").beside(&[TIME
        .in_case("operation=install", "Signal handler installation: {measured}")
        .explained(
            "lmbench calls the C library's sigaction, which copies structures both ways and also \
             requests the old disposition",
        )]),
    SIGNAL.named("signal-catch", Standard).asked("catch", "operation=self_kill").beside(&[TIME
        .in_case("operation=self_kill", "Signal handler overhead: {measured}")
        .explained(
            "lmbench subtracts kill(pid, 0), which looks up the process and sends nothing, and \
             sends one signal less than it counts; plumb's figure is kill, delivery and return \
             together",
        )]),
    SIGNAL
        .named("signal-fault", Thorough)
        .asked("prot {value}", "operation=fault,self_kill,ignored")
        .needs(File)
        .beside(&[TIME
            .in_case("operation=fault", "Protection fault: {measured}")
            .taken(Statistic::Own("fault less what catching costs", |run, row| {
                let of = |operation| value(run, ("operation", operation), row.metric);
                Ok(of("fault")? - (of("self_kill")? - of("ignored")?))
            }))
            .explained(
                "lmbench subtracts its catch figure (kill with a handler less kill(pid, 0)) from a \
                 caught fault, and prints nothing if the result is not positive. Here plumb's \
                 self_kill less ignored, which looks up a thread instead of a process, is \
                 subtracted. lmbench's handler returns to the same store, plumb's to the next \
                 instruction",
            )]),
    entry("lat_unix", "os.ipc")
        .named("unix", Standard)
        .asked("", "via=socketpair pair=same size=1B")
        .beside(&[TIME
            .read("AF_UNIX sock stream latency: {measured}")
            .metric("round_trip")
            .taken(Statistic::MeanOfRounds)
            .differs(
                "lmbench runs intervals of 0.1 s without pause and takes the median of their \
                 means; plumb takes the mean of short bursts in six rounds, and its receiver also \
                 checks and counts each message",
            )]),
    SWITCHED
        .named("switch", Standard)
        .asked("-s 0 2 8 16", "via=ring size=2,8,16 working_set=0")
        .beside(SWITCHES),
    SWITCHED
        .named("switch-64k", Standard)
        .asked("-s 64 2 8 16", "via=ring size=2,8,16 working_set=64KiB")
        .beside(SWITCHES),
    SWITCHED
        .named("switch-16k", Thorough)
        .asked("-s 16 2 8 16", "via=ring size=2,8,16 working_set=16KiB")
        .beside(SWITCHES),
    PROCESS.named("fork", Standard).asked("fork", "call=fork resident=64KiB pages=base").beside(&[
        TIME.read("Process fork+exit: {measured}").metric("in_sequence").explained(
            "lmbench's parent is a small program; plumb's is a worker with more memory areas and \
             page tables to copy. lmbench's child leaves with exit(3), which writes to shared \
             pages and so copies them",
        ),
    ]),
    PROCESS
        .named("exec", Thorough)
        .asked("exec", "call=fork_exec_dynamic resident=64KiB pages=base")
        .needs(Hello)
        .beside(&[TIME.read("Process fork+execve: {measured}").metric("in_sequence").explained(
            "lmbench executes its `hello` through a symbolic link; hello writes a line to a closed \
             descriptor and leaves with the C library's exit. plumb executes a program that exits \
             as soon as its interpreter has mapped the C library",
        )]),
    PROCESS
        .named("shell", Thorough)
        .asked("shell", "call=sh resident=64KiB pages=base")
        .needs(Hello)
        .beside(&[TIME
            .read("Process fork+/bin/sh -c: {measured}")
            .metric("in_sequence")
            .explained(
                "lmbench's shell executes `hello`, a second program to load; plumb's shell exits \
             itself, and is started with posix_spawn instead of fork and execlp",
            )]),
    entry("lat_tcp", "net.rtt")
        .named("tcp", Standard)
        .asked("-m 1 127.0.0.1", ECHO_TCP)
        .interval(2.0)
        .needs(Listener { port: 31234 })
        .beside(&[ECHO.read("TCP latency using 127.0.0.1: {measured}")]),
    entry("lat_udp", "net.rtt")
        .named("udp", Standard)
        .asked("-m 4 127.0.0.1", ECHO_UDP)
        .interval(1.0)
        // It takes -31238 for an unsigned number of 16 bits.
        .needs(Listener { port: 34298 })
        .beside(&[ECHO.read("UDP latency using 127.0.0.1: {measured}")]),
    entry("lat_connect", "net.connect")
        .named("connect", Thorough)
        .asked("127.0.0.1", "far=loopback ends=same_cpu listener=ready closer=client")
        // Longer, and the ports of this host are used up by what waits in TIME_WAIT.
        .enough(0.01)
        .needs(Listener { port: 31237 })
        .beside(&[TIME
            .read("TCP/IP connection cost to 127.0.0.1: {measured}")
            .metric("socket_connect")
            .taken(Statistic::Own("socket, connect and close", |run, row| {
                let ends = ("ends", "same_cpu");
                Ok(value(run, ends, row.metric)? + value(run, ends, "client_close")?)
            }))
            .explained(
                "lmbench's figure is a whole turn, including its server's work on the same CPU and \
                 connections whose first segment was dropped and resent a second later; plumb \
                 times the client's three calls, of connections that were answered at once",
            )]),
    entry("bw_tcp", "net.bandwidth")
        .named("tcp-bandwidth", Standard)
        .asked(
            "-m 65536 127.0.0.1",
            "far=loopback protocol=tcp message=64KiB ends=same_cpu streams=1 direction=down \
             transfer=steady time=500ms",
        )
        .without_status()
        .needs(Listener { port: 31236 })
        .beside(&[RATE.read("{n} {measured}").differs(
            "both ends on one CPU. lmbench's server sends one zeroed buffer, sets large socket \
             buffers and leaves Nagle's algorithm on, which sends fewer packets (by 4 % in a C \
             program); plumb uses the system's socket buffers and changing bytes. MB are 10^6 \
             bytes",
        )]),
    entry("bw_pipe", "os.ipc")
        .named("pipe-bandwidth", Standard)
        .asked("-m 65536", "via=pipe pair=same size=64KiB")
        .interval(2.0)
        .beside(&[STREAM.read("Pipe bandwidth: {measured}")]),
    entry("bw_unix", "os.ipc")
        .named("unix-bandwidth", Thorough)
        .asked("", "via=socketpair pair=same size=64KiB")
        .beside(&[STREAM.read("AF_UNIX sock stream bandwidth: {measured}")]),
    entry("lat_usleep", "noise.wakeup")
        .named("sleep", Standard)
        .asked(
            "1000",
            "spacing=1ms load=idle clock=monotonic policy=other slack=default idle_states=allowed",
        )
        .beside(&[TIME.read(SLEEP).taken(Statistic::MeanOfAll).explained(
            "lmbench repeatedly sleeps 1 ms from now and reports the mean, including the calls and \
             the loop; the millisecond is subtracted here. plumb sleeps until points of a grid and \
             measures up to its first reading of the clock",
        )]),
];

const SWITCH: Reading = TIME.metric("switch").explained(
    "both subtract what one process alone needs for its pipe and its sum: lmbench the median of an \
     earlier run, plumb alternately in the same window. lmbench's processes use the normal policy, \
     where a woken process may preempt its waker; plumb's use SCHED_BATCH, where it waits. lmbench \
     prints to 10 ns",
);

/// The numbers of processes are those of lmbench's own summary.
const SWITCHES: &[Reading] = &[
    SWITCH.named("2 processes").in_case("size=2", "2 {x*1e3}"),
    SWITCH.named("8 processes").in_case("size=8", "8 {x*1e3}"),
    SWITCH.named("16 processes").in_case("size=16", "16 {x*1e3}"),
];

const ECHO: Reading =
    TIME.metric("round_trip").taken(Statistic::MeanOfAll).goal(Goal::AtMost).differs(
        "both ends block on one CPU, and both tools report the mean; lmbench runs one or two \
         seconds without pause, plumb shorter bursts in six processes",
    );

const ECHO_TCP: &str = "far=loopback protocol=tcp message=1B ends=same_cpu connections=1 \
    receiver=blocking arrivals=saturated exchange=echo";

const ECHO_UDP: &str = "far=loopback protocol=udp message=4B ends=same_cpu connections=1 \
    receiver=blocking arrivals=saturated exchange=echo";

const STREAM: Reading = RATE.differs(
    "64 KiB a call on one CPU. lmbench's writer never touches its buffer, and its reader counts \
     the bytes; plumb's message changes, and the sender waits for the receiver's answer. MB are \
     10^6 bytes",
);

const SYSCALL: Entry = entry("lat_syscall", "os.syscall");

const CALLED: &str = "lmbench calls through the C library in a counted loop, which it does not \
                      subtract, and takes the median of intervals of 0.1 s, interruptions \
                      included; plumb executes the system call instruction directly, n times \
                      against 2n";

const SIGNAL: Entry = entry("lat_sig", "os.signal");

const PROCESS: Entry = entry("lat_proc", "os.process");

const SWITCHED: Entry = entry("lat_ctx", "os.switch");
