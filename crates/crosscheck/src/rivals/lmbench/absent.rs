//! What of the distribution nothing of plumb's is compared with, and why: `plumb crosscheck --list`
//! shows it.

/// A program, or what else it can be asked to do where it is compared, and the reason; in the order
/// of the alphabet.
pub(in crate::rivals) const NOT_COMPARED: &[(&str, &str)] = &[
    (
        "-P of every program",
        "runs several copies at once and reports the slowest; these comparisons run one process \
         per side",
    ),
    ("bw_file_rd -C", "reads a copy of the file for each of several processes: see -P"),
    ("bw_mmap_rd", "sums a mapping of cached pages: the same loads as bw_mem's read"),
    (
        "cache",
        "estimates cache sizes, for minutes; the kernel describes them, and memory.latency shows where they end",
    ),
    ("disk", "seeks on a raw device; plumb reads files"),
    ("enough", "prints the interval that lmbench would choose, not a measurement"),
    ("flushdisk", "empties caches of a disk: a tool"),
    ("hello", "the program that lat_proc executes"),
    (
        "lat_cmd",
        "its child never executes the command (it compares fork's result with the digit '0') and \
         forks again",
    ),
    ("lat_dram_page", "times open pages of memory chips; plumb has no such experiment"),
    ("lat_fcntl", "record locks of files; plumb has no such experiment"),
    (
        "lat_fifo",
        "its second process survives, because SIGTERM only sets a flag there, and writes to \
         standard error without end",
    ),
    ("lat_fs 4k, 10k", "files with data in them; plumb times the names alone"),
    (
        "lat_http",
        "fetches files from its own HTTP server by names on standard input; plumb has no HTTP",
    ),
    (
        "lat_mmap",
        "maps a file, writes one page per 16 KiB of its first tenth and unmaps it, all in one \
         figure; plumb times the mapping and the faults separately",
    ),
    (
        "lat_ops bit, add, mod, bogomflops",
        "the compiler folds integer additions (it prints 0.01 ns), bit operations come in threes, \
         a remainder is the division instruction, and the rest are mixtures",
    ),
    ("lat_pmake", "spreads compute-bound processes; plumb has no such experiment"),
    ("lat_rand", "the C library's random numbers, not the machine"),
    ("lat_rpc", "Sun RPC by way of the port mapper; plumb has no RPC"),
    ("lat_select", "select of many descriptors; plumb has epoll_wait with none ready"),
    ("lat_sem", "System V semaphores; plumb has futexes"),
    ("lat_syscall fstat", "plumb times stat on a path, but not fstat"),
    (
        "lat_unix_connect",
        "connects to the fixed name /tmp/af_unix; plumb does not time connections of UNIX sockets",
    ),
    (
        "lat_usleep -u, -r",
        "usleep is nanosleep in the C library; plumb's sleeper uses clock calls instead of select, \
         pselect, timers with a signal and real-time priority",
    ),
    ("line", "estimates the size of a cache line, which the kernel reports"),
    ("lmdd", "a dd with a clock; fio is compared instead"),
    ("lmhttp", "the server of lat_http, which is not compared"),
    (
        "loop_o",
        "prints the loop overhead that lmbench would subtract, not a measurement of the \
                machine",
    ),
    ("memsize", "finds how much memory can be used: a tool, not a measurement"),
    (
        "mhz",
        "estimates the core clock from the greatest common divisor of loops, and did not finish \
         within 40 s; perf stat is the better check of clock.rate",
    ),
    ("msleep", "sleeps for scripts: a tool"),
    (
        "par_mem",
        "parallel chains over a ladder of sizes, for minutes; plumb's memory.mlp measures main \
         memory only",
    ),
    (
        "par_ops",
        "parallelism of operations as a ratio to their latency; plumb prints both times, see ops",
    ),
    (
        "stream add, stream -v 2",
        "its add sums one array but counts three; the second version has fill, copy and sum (fwr, \
         fcp, frd in bw_mem) on arrays of a third of the given size, and a daxpy",
    ),
    (
        "timing_o",
        "prints the clock overhead that lmbench would subtract, not a measurement of the \
                  machine",
    ),
    ("tlb", "searches for the TLB's size on a ladder, for minutes, and gives up silently"),
];
