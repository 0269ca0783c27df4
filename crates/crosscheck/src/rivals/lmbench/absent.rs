//! What of the distribution nothing of plumb's is compared with, and why: `plumb crosscheck --list`
//! shows it.

/// A program, or what else it can be asked to do where it is compared, and the reason; in the order
/// of the alphabet.
pub(in crate::rivals) const NOT_COMPARED: &[(&str, &str)] = &[
    (
        "-P of every program",
        "so many copies at once, whose time is that of the slowest; the sides of these comparisons are single",
    ),
    ("bw_file_rd -C", "reads a copy of the file for each of several processes: see -P"),
    (
        "bw_mmap_rd",
        "sums a mapping of cached pages: bw_mem's read by another way to the same pages",
    ),
    (
        "cache",
        "guesses sizes of caches, for minutes; the hwloc comparison has them from the kernel",
    ),
    ("disk", "seeks on a raw device; plumb reads files"),
    ("enough", "prints the interval that lmbench would choose: no measurement"),
    ("flushdisk", "empties caches of a disk: a tool"),
    ("hello", "the program that lat_proc executes"),
    (
        "lat_cmd",
        "its child never executes the command (it compares fork's answer with the digit '0'), and goes on to fork",
    ),
    ("lat_dram_page", "times open pages of memory chips; plumb has nothing of the kind"),
    ("lat_fcntl", "record locks of files; plumb has no experiment of them"),
    (
        "lat_fifo",
        "its second process outlives it, as SIGTERM only sets a flag in it, and fills standard error without end",
    ),
    ("lat_fs 4k, 10k", "files with data in them; plumb times the names alone"),
    (
        "lat_http",
        "fetches files from its own HTTP server by names on standard input; plumb has no HTTP",
    ),
    (
        "lat_mmap",
        "maps a file, writes one page in sixteen KiB of its first tenth and unmaps it, as one figure; plumb times the mapping and the faults apart",
    ),
    (
        "lat_ops bit, add, mod, bogomflops",
        "integer additions are folded by the compiler (0.01 ns are printed), bits come in threes; a remainder is the division's instruction; the last are mixtures",
    ),
    ("lat_pmake", "spreads compute-bound processes; plumb has no such experiment"),
    ("lat_rand", "the C library's random numbers, not the machine"),
    ("lat_rpc", "Sun RPC by way of the port mapper; plumb has no RPC"),
    ("lat_select", "select of many descriptors; plumb has epoll_wait with none ready"),
    ("lat_sem", "System V semaphores; plumb has futexes"),
    ("lat_syscall fstat", "plumb has stat by a path, and no call that tells of an open file"),
    (
        "lat_unix_connect",
        "connections by the fixed name /tmp/af_unix; plumb times none of UNIX sockets",
    ),
    (
        "lat_usleep -u, -r",
        "usleep is nanosleep in the C library; select, pselect, timers with a signal and real-time priority: plumb's sleeper has its own clock calls",
    ),
    ("line", "guesses the size of a cache line, which the kernel tells"),
    ("lmdd", "a dd with a clock; fio is compared instead"),
    ("lmhttp", "the server of lat_http, which is not compared"),
    ("loop_o", "prints what lmbench would take off for its loop: no measurement of the machine"),
    ("memsize", "tries how much memory can be touched: a tool"),
    (
        "mhz",
        "guesses the core clock from the greatest common divisor of loops: did not end within 40 s; perf stat is the better judge of clock.rate",
    ),
    ("msleep", "sleeps for scripts: a tool"),
    (
        "par_mem",
        "parallel chains over a ladder of sizes, for minutes; plumb's memory.mlp has main memory at once",
    ),
    (
        "par_ops",
        "parallelism of operations as a ratio to their latency; plumb prints both times, see ops",
    ),
    (
        "stream add, stream -v 2",
        "the add sums one array, counted as three; the second version is fill, copy, sum (bw_mem has them: fwr, fcp, frd) of arrays of a third of what it is told, and a daxpy",
    ),
    ("timing_o", "prints what lmbench would take off for its clock: no measurement of the machine"),
    ("tlb", "searches the TLB's size over a ladder, for minutes, and gives up silently"),
];
