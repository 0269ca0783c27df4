//! Of the processor, memory, page faults and files.

use super::{Entry, Figure, Needs, PLAIN, RATE, TIME, value};
use crate::{Goal, Statistic};
use bench::experiment::Preset;

/// The programs.
pub(super) static ENTRIES: &[Entry] = &[
    Entry {
        name: "memory-read",
        from: Preset::Quick,
        args: "{} frd",
        needs: Needs::Arrays { ops: &["read"], shares: 1 },
        rows: &[Figure {
            case: "op=read",
            what: "bw_mem",
            difference: "lmbench sums 4-byte integers in C, compiled without vectors (-O); plumb \
                         loads with the fastest vectors. MB are 10^6 bytes",
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "procedure",
        from: Preset::Thorough,
        program: "lat_proc",
        args: "procedure",
        experiment: "cpu.call",
        set: "call=direct type=i32 frame=registers arguments=1",
        rows: &[Figure {
            metric: "call",
            what: "Procedure call",
            goal: Goal::Explained,
            difference: "lmbench's procedure adds to a variable in memory, so each call waits for \
                         the previous one through the store buffer, and a counted loop calls it; \
                         plumb's callee uses its argument and no memory",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "operations",
        program: "lat_ops",
        enough_s: 0.01,
        experiment: "cpu.instruction",
        set: "instruction=mul_i64,div_u32,div_u64,add_f32x4,mul_f32x4,add_f64,mul_f64,div_f64",
        rows: &[
            Figure {
                name: "integer multiplication",
                case: "instruction=mul_i64",
                what: "int64 mul",
                ..OPERATION
            },
            Figure {
                name: "division of 32 bits",
                case: "instruction=div_u32",
                what: "integer div",
                goal: Goal::Explained,
                difference: SIGNED,
                ..TIME
            },
            Figure {
                name: "division of 64 bits",
                case: "instruction=div_u64",
                what: "int64 div",
                goal: Goal::Explained,
                difference: SIGNED,
                ..TIME
            },
            Figure {
                name: "addition of 32 bits",
                case: "instruction=add_f32x4",
                what: "float add",
                difference: SINGLE,
                ..TIME
            },
            Figure {
                name: "multiplication of 32 bits",
                case: "instruction=mul_f32x4",
                what: "float mul",
                difference: SINGLE,
                ..TIME
            },
            Figure {
                name: "addition",
                case: "instruction=add_f64",
                what: "double add",
                ..OPERATION
            },
            Figure {
                name: "multiplication",
                case: "instruction=mul_f64",
                what: "double mul",
                ..OPERATION
            },
            Figure {
                name: "division",
                case: "instruction=div_f64",
                what: "double div",
                goal: Goal::Explained,
                ..OPERATION
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "memory-copy",
        from: Preset::Thorough,
        args: "{} bcopy",
        needs: Needs::Arrays { ops: &["copy"], shares: 2 },
        rows: &[Figure {
            case: "op=copy",
            times: 0.5,
            what: "bw_mem",
            goal: Goal::Explained,
            difference: "lmbench copies with the C library, which may bypass the caches for such \
                         arrays, while plumb's regular stores read each line first; lmbench counts \
                         a copied byte once, so plumb's rate is halved here",
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-write",
        from: Preset::Thorough,
        args: "{} fwr",
        needs: Needs::Arrays { ops: &["write"], shares: 1 },
        rows: &[Figure {
            case: "op=write",
            what: "bw_mem",
            difference: "lmbench stores 4-byte integers in C, compiled without vectors (-O), \
                         backwards within each 512 bytes (a chain of assignments); plumb stores \
                         with the fastest vectors. MB are 10^6 bytes",
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-copy-words",
        from: Preset::Thorough,
        args: "{} fcp",
        needs: Needs::Arrays { ops: &["copy"], shares: 2 },
        rows: &[Figure {
            case: "op=copy",
            times: 0.5,
            what: "bw_mem",
            difference: "lmbench copies 4-byte integers in C, compiled without vectors (-O); plumb \
                         uses the fastest vectors. lmbench counts a copied byte once, so plumb's \
                         rate is halved here",
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-zero",
        from: Preset::Thorough,
        args: "{} bzero",
        needs: Needs::Arrays { ops: &["write"], shares: 1 },
        rows: &[Figure {
            case: "op=write",
            what: "bw_mem",
            goal: Goal::Explained,
            difference: "lmbench clears with the C library, which may use string instructions or \
                         bypass the caches for such arrays, while plumb's regular stores read each \
                         line first",
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-read-some",
        from: Preset::Thorough,
        args: "{} rd",
        needs: Needs::Arrays { ops: &["read"], shares: 1 },
        rows: &[Figure {
            case: "op=read",
            what: "bw_mem",
            goal: Goal::Explained,
            difference: SOME,
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-write-some",
        from: Preset::Thorough,
        args: "{} wr",
        needs: Needs::Arrays { ops: &["write"], shares: 1 },
        rows: &[Figure {
            case: "op=write",
            what: "bw_mem",
            goal: Goal::Explained,
            difference: SOME,
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-modify-some",
        from: Preset::Thorough,
        args: "{} rdwr",
        needs: Needs::Arrays { ops: &["modify"], shares: 1 },
        rows: &[Figure {
            case: "op=modify",
            times: 0.5,
            what: "bw_mem",
            goal: Goal::Explained,
            difference: SOME_TWICE,
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "memory-copy-some",
        from: Preset::Thorough,
        args: "{} cp",
        needs: Needs::Arrays { ops: &["copy"], shares: 2 },
        rows: &[Figure {
            case: "op=copy",
            times: 0.5,
            what: "bw_mem",
            goal: Goal::Explained,
            difference: SOME_TWICE,
            ..RATE
        }],
        ..MEMORY
    },
    Entry {
        name: "stream",
        program: "stream",
        args: "-M {}",
        needs: Needs::Arrays { ops: &["copy", "scale", "triad"], shares: 1 },
        experiment: "memory.bandwidth",
        rows: &[
            Figure { name: "copy", case: "op=copy", what: "STREAM copy bandwidth", ..KERNEL },
            Figure { name: "scale", case: "op=scale", what: "STREAM scale bandwidth", ..KERNEL },
            Figure { name: "triad", case: "op=triad", what: "STREAM triad bandwidth", ..KERNEL },
        ],
        ..PLAIN
    },
    Entry {
        name: "load-latency",
        program: "lat_mem_rd",
        args: "1 64",
        experiment: "memory.latency",
        set: "pattern=forward stride=64B load=pointer pages=base footprint=16KiB,1MiB",
        rows: &[
            Figure {
                name: "16 KiB",
                case: "footprint=16384",
                what: "lat_mem_rd 0.01562",
                difference: "lmbench walks forward in steps of 64 bytes and takes the fastest interval of 0.1 s, \
                             with a jump back to the loop after 100 loads",
                ..TIME
            },
            Figure {
                name: "1 MiB",
                case: "footprint=1048576",
                what: "lat_mem_rd 1.00000",
                goal: Goal::Explained,
                difference: "the physical pages of each run determine the conflicts in the caches; \
                             lmbench takes the fastest interval of one allocation",
                ..TIME
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "load-latency-random",
        from: Preset::Thorough,
        program: "lat_mem_rd",
        args: "-t 1 64",
        experiment: "memory.latency",
        set: "pattern=random load=pointer pages=base footprint=16KiB,1MiB slot=64B",
        rows: &[
            Figure {
                name: "16 KiB",
                case: "footprint=16384",
                what: "lat_mem_rd 0.01562",
                difference: THRASH,
                ..TIME
            },
            Figure {
                name: "1 MiB",
                case: "footprint=1048576",
                what: "lat_mem_rd 1.00000",
                goal: Goal::Explained,
                difference: THRASH,
                ..TIME
            },
        ],
        ..PLAIN
    },
    Entry {
        name: "page-fault",
        program: "lat_pagefault",
        args: "{}",
        needs: Needs::File,
        experiment: "memory.fault",
        set: "fault=file_around",
        rows: &[Figure {
            statistic: Statistic::Own("latency over pages of a fault", |run, row| {
                let fault = ("fault", "file_around");
                Ok(value(run, fault, row.metric)? / value(run, fault, "pages_per_fault")?)
            }),
            what: "lat_pagefault",
            goal: Goal::Explained,
            difference: "lmbench touches the pages of a mapped file in random order and divides by \
                         all pages, although a fault also maps cached neighbours (16 pages on most \
                         kernels). Its time includes the unmapping, less that of an empty mapping. \
                         plumb times faults in order; here they are divided by the pages that each \
                         mapped",
            ..TIME
        }],
        ..PLAIN
    },
    Entry {
        name: "file-read",
        from: Preset::Thorough,
        program: "bw_file_rd",
        args: "8388608 io_only {}",
        needs: Needs::File,
        experiment: "fs.io",
        set: READ_CACHED,
        rows: &[Figure {
            metric: "burst",
            what: "bw_file_rd",
            goal: Goal::Explained,
            difference: "lmbench sums what it has read, 64 KiB at a time, within the time; plumb only reads",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "file-open-read",
        from: Preset::Thorough,
        program: "bw_file_rd",
        args: "8388608 open2close {}",
        needs: Needs::File,
        experiment: "fs.io",
        set: READ_CACHED,
        rows: &[Figure {
            metric: "burst",
            what: "bw_file_rd",
            goal: Goal::Explained,
            difference: "lmbench opens the file, sums what it has read, 64 KiB at a time, and closes it, all within \
                         the time; plumb only reads",
            ..RATE
        }],
        ..PLAIN
    },
    Entry {
        name: "files",
        from: Preset::Thorough,
        program: "lat_fs",
        args: "-s 1 {}",
        needs: Needs::Memory,
        experiment: "fs.metadata",
        set: "call=create,unlink entries=100",
        rows: &[
            Figure { name: "create", case: "call=create", what: "lat_fs create", ..NAME },
            Figure { name: "remove", case: "call=unlink", what: "lat_fs delete", ..NAME },
        ],
        ..PLAIN
    },
];

/// Cached pages of a file, as bw_file_rd reads them.
const READ_CACHED: &str =
    "op=read pattern=sequential mode=cached block=64KiB engine=psync depth=1 threads=1 size=8MiB";

const SOME: &str = "lmbench touches 4 bytes in 16 and counts all 16, in C compiled without vectors \
                    (-O); plumb moves every byte with the fastest vectors. Both move every line";

const SOME_TWICE: &str = "lmbench touches 4 bytes in 16 and counts all 16, in C compiled without \
                          vectors (-O); plumb moves every byte with the fastest vectors. Both move \
                          every line. lmbench counts a copied byte once, so plumb's rate is halved \
                          here";

const THRASH: &str = "lmbench moves to another page with every load, through all pages in one \
                      repeated random order; plumb goes through all lines in one random order. The \
                      physical pages of each run determine the conflicts in the caches, and \
                      lmbench takes the fastest interval of one allocation";

const OPERATION: Figure = Figure {
    difference: "lmbench times 10 to 20 dependent operations in compiled C over an interval of 10 \
                 ms and divides by the number in its source. The time of a division depends on its \
                 operands, which differ",
    ..TIME
};

const SIGNED: &str = "lmbench's division is signed, plumb's unsigned. The time of a division \
                      depends on its operands: lmbench divides one number by the last quotient, \
                      plumb uses operands of full width";

const SINGLE: &str = "lmbench times scalar operations in compiled C over an interval of 10 ms; \
                      plumb times vectors of four, which take the same time on most cores";

const KERNEL: Figure = Figure {
    statistic: Statistic::Best,
    difference: "both count as STREAM does and take the fastest repetition (lmbench) or round \
                 (plumb). lmbench's loops are compiled with -O, without vectors, and walk three \
                 arrays in turn; its add, which is not compared, sums only one",
    ..RATE
};

const NAME: Figure = Figure {
    goal: Goal::Explained,
    difference: "lmbench creates files of one byte with creat, write and close on whole paths, 100 \
                 to a directory, in ever deeper directories; plumb creates empty files next to 100 \
                 others, and closing them is not timed",
    ..TIME
};

const MEMORY: Entry = Entry { program: "bw_mem", experiment: "memory.bandwidth", ..PLAIN };
