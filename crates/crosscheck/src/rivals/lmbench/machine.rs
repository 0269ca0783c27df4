//! Of the processor, memory, page faults and files.

use super::{entry, value};
use crate::Goal::Explained;
use crate::Statistic;
use crate::table::Needs::{Arrays, File, Memory};
use crate::table::{Entry, RATE, Reading, TIME};
use bench::experiment::Preset::{Quick, Standard, Thorough};

pub(super) static TABLE: &[Entry] = &[
    MEMORY
        .named("memory-read", Quick)
        .asked("{value} frd", "")
        .needs(Arrays { ops: &["read"], shares: 1 })
        .beside(&[RATE.in_case("op=read", "{n} {x*1e6}").differs(
            "lmbench sums 4-byte integers in C, compiled without vectors (-O); plumb loads with \
             the fastest vectors. MB are 10^6 bytes",
        )]),
    entry("lat_proc", "cpu.call")
        .named("procedure", Thorough)
        .asked("procedure", "call=direct type=i32 frame=registers arguments=1")
        .beside(&[TIME.read("Procedure call: {measured}").metric("call").explained(
            "lmbench's procedure adds to a variable in memory, so each call waits for the previous \
             one through the store buffer, and a counted loop calls it; plumb's callee uses its \
             argument and no memory",
        )]),
    entry("lat_ops", "cpu.instruction")
        .named("operations", Standard)
        .asked(
            "",
            "instruction=mul_i64,div_u32,div_u64,add_f32x4,mul_f32x4,add_f64,mul_f64,div_f64",
        )
        .enough(0.01)
        .beside(&[
            OPERATION
                .named("integer multiplication")
                .in_case("instruction=mul_i64", "int64 mul: {measured}"),
            TIME.named("division of 32 bits")
                .in_case("instruction=div_u32", "integer div: {measured}")
                .explained(SIGNED),
            TIME.named("division of 64 bits")
                .in_case("instruction=div_u64", "int64 div: {measured}")
                .explained(SIGNED),
            TIME.named("addition of 32 bits")
                .in_case("instruction=add_f32x4", "float add: {measured}")
                .differs(SINGLE),
            TIME.named("multiplication of 32 bits")
                .in_case("instruction=mul_f32x4", "float mul: {measured}")
                .differs(SINGLE),
            OPERATION.named("addition").in_case("instruction=add_f64", "double add: {measured}"),
            OPERATION
                .named("multiplication")
                .in_case("instruction=mul_f64", "double mul: {measured}"),
            OPERATION
                .named("division")
                .in_case("instruction=div_f64", "double div: {measured}")
                .goal(Explained),
        ]),
    MEMORY
        .named("memory-copy", Thorough)
        .asked("{value} bcopy", "")
        .needs(Arrays { ops: &["copy"], shares: 2 })
        .beside(&[RATE.in_case("op=copy", "{n} {x*1e6}").times(0.5).explained(
            "lmbench copies with the C library, which may bypass the caches for such arrays, while \
             plumb's regular stores read each line first; lmbench counts a copied byte once, so \
             plumb's rate is halved here",
        )]),
    MEMORY
        .named("memory-write", Thorough)
        .asked("{value} fwr", "")
        .needs(Arrays { ops: &["write"], shares: 1 })
        .beside(&[RATE.in_case("op=write", "{n} {x*1e6}").differs(
            "lmbench stores 4-byte integers in C, compiled without vectors (-O), backwards within \
             each 512 bytes (a chain of assignments); plumb stores with the fastest vectors. MB \
             are 10^6 bytes",
        )]),
    MEMORY
        .named("memory-copy-words", Thorough)
        .asked("{value} fcp", "")
        .needs(Arrays { ops: &["copy"], shares: 2 })
        .beside(&[RATE.in_case("op=copy", "{n} {x*1e6}").times(0.5).differs(
            "lmbench copies 4-byte integers in C, compiled without vectors (-O); plumb uses the \
             fastest vectors. lmbench counts a copied byte once, so plumb's rate is halved here",
        )]),
    MEMORY
        .named("memory-zero", Thorough)
        .asked("{value} bzero", "")
        .needs(Arrays { ops: &["write"], shares: 1 })
        .beside(&[RATE.in_case("op=write", "{n} {x*1e6}").explained(
            "lmbench clears with the C library, which may use string instructions or bypass the \
             caches for such arrays, while plumb's regular stores read each line first",
        )]),
    MEMORY
        .named("memory-read-some", Thorough)
        .asked("{value} rd", "")
        .needs(Arrays { ops: &["read"], shares: 1 })
        .beside(&[RATE.in_case("op=read", "{n} {x*1e6}").explained(SOME)]),
    MEMORY
        .named("memory-write-some", Thorough)
        .asked("{value} wr", "")
        .needs(Arrays { ops: &["write"], shares: 1 })
        .beside(&[RATE.in_case("op=write", "{n} {x*1e6}").explained(SOME)]),
    MEMORY
        .named("memory-modify-some", Thorough)
        .asked("{value} rdwr", "")
        .needs(Arrays { ops: &["modify"], shares: 1 })
        .beside(&[RATE.in_case("op=modify", "{n} {x*1e6}").times(0.5).explained(SOME_TWICE)]),
    MEMORY
        .named("memory-copy-some", Thorough)
        .asked("{value} cp", "")
        .needs(Arrays { ops: &["copy"], shares: 2 })
        .beside(&[RATE.in_case("op=copy", "{n} {x*1e6}").times(0.5).explained(SOME_TWICE)]),
    entry("stream", "memory.bandwidth")
        .named("stream", Standard)
        .asked("-M {value}", "")
        .needs(Arrays { ops: &["copy", "scale", "triad"], shares: 1 })
        .beside(&[
            KERNEL.named("copy").in_case("op=copy", "STREAM copy bandwidth: {measured}"),
            KERNEL.named("scale").in_case("op=scale", "STREAM scale bandwidth: {measured}"),
            KERNEL.named("triad").in_case("op=triad", "STREAM triad bandwidth: {measured}"),
        ]),
    entry("lat_mem_rd", "memory.latency")
        .named("load-latency", Standard)
        .asked("1 64", "pattern=forward stride=64B load=pointer pages=base footprint=16KiB,1MiB")
        .beside(&[
            TIME.named("16 KiB").in_case("footprint=16384", "0.01562 {x}").differs(
                "lmbench walks forward in steps of 64 bytes and takes the fastest interval of 0.1 \
                 s, with a jump back to the loop after 100 loads",
            ),
            TIME.named("1 MiB").in_case("footprint=1048576", "1.00000 {x}").explained(
                "the physical pages of each run determine the conflicts in the caches; lmbench \
                 takes the fastest interval of one allocation",
            ),
        ]),
    entry("lat_mem_rd", "memory.latency")
        .named("load-latency-random", Thorough)
        .asked("-t 1 64", "pattern=random load=pointer pages=base footprint=16KiB,1MiB slot=64B")
        .beside(&[
            TIME.named("16 KiB").in_case("footprint=16384", "0.01562 {x}").differs(THRASH),
            TIME.named("1 MiB").in_case("footprint=1048576", "1.00000 {x}").explained(THRASH),
        ]),
    entry("lat_pagefault", "memory.fault")
        .named("page-fault", Standard)
        .asked("{value}", "fault=file_around")
        .needs(File)
        .beside(&[TIME
            .read("Pagefaults on {..} {measured}")
            .taken(Statistic::Own("latency over pages of a fault", |run, row| {
                let fault = ("fault", "file_around");
                Ok(value(run, fault, row.metric)? / value(run, fault, "pages_per_fault")?)
            }))
            .explained(
                "lmbench touches the pages of a mapped file in random order and divides by all \
                 pages, although a fault also maps cached neighbours (16 pages on most kernels). \
                 Its time includes the unmapping, less that of an empty mapping. plumb times \
                 faults in order; here they are divided by the pages that each mapped",
            )]),
    entry("bw_file_rd", "fs.io")
        .named("file-read", Thorough)
        .asked("8388608 io_only {value}", READ_CACHED)
        .needs(File)
        .beside(&[RATE.read("{n} {x*1e6}").metric("bandwidth").explained(
            "lmbench sums what it has read, 64 KiB at a time, within the time; plumb only reads",
        )]),
    entry("bw_file_rd", "fs.io")
        .named("file-open-read", Thorough)
        .asked("8388608 open2close {value}", READ_CACHED)
        .needs(File)
        .beside(&[RATE.read("{n} {x*1e6}").metric("bandwidth").explained(
            "lmbench opens the file, sums what it has read, 64 KiB at a time, and closes it, all \
             within the time; plumb only reads",
        )]),
    entry("lat_fs", "fs.metadata")
        .named("files", Thorough)
        .asked("-s 1 {value}", "call=create,unlink entries=100")
        .needs(Memory)
        .beside(&[
            NAME.named("create").in_case("call=create", "0k {n} {1e9/x} {n}"),
            NAME.named("remove").in_case("call=unlink", "0k {n} {n} {1e9/x}"),
        ]),
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

const OPERATION: Reading = TIME.differs(
    "lmbench times 10 to 20 dependent operations in compiled C over an interval of 10 ms and \
     divides by the number in its source. The time of a division depends on its operands, which \
     differ",
);

const SIGNED: &str = "lmbench's division is signed, plumb's unsigned. The time of a division \
                      depends on its operands: lmbench divides one number by the last quotient, \
                      plumb uses operands of full width";

const SINGLE: &str = "lmbench times scalar operations in compiled C over an interval of 10 ms; \
                      plumb times vectors of four, which take the same time on most cores";

const KERNEL: Reading = RATE.taken(Statistic::Best).differs(
    "both count as STREAM does and take the fastest repetition (lmbench) or round (plumb). \
     lmbench's loops are compiled with -O, without vectors, and walk three arrays in turn; its \
     add, which is not compared, sums only one",
);

const NAME: Reading = TIME.explained(
    "lmbench creates files of one byte with creat, write and close on whole paths, 100 to a \
     directory, in ever deeper directories; plumb creates empty files next to 100 others, and \
     closing them is not timed",
);

const MEMORY: Entry = entry("bw_mem", "memory.bandwidth");
