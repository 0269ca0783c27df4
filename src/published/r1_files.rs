//! R1's tables of the file system.

use super::table::{Printed, TABLE, Table, row};

#[rustfmt::skip]
pub(super) static TABLES: &[Table] = &[
    Table { source: "Size of File Cache, text", statistic: "read off a plot", experiment: "fs.cache_size", metric: "knee", case: "limit=memory", printed: Printed::Gb,
        rows: &[row("", 3.5)], note: "of 4 GB of RAM; free told the same; the summary has it as well", ..TABLE },
    Table { source: "Size of File Cache, text", statistic: "rounded", experiment: "fs.cache_size", metric: "latency_per_block", case: "limit=memory", printed: Printed::Us,
        rows: &[
            row("", 1.0).read("below_the_knee").note("said to be less"),
            row("", 9.0).read("above_the_knee").note("printed as 9 to 10"), row("", 10.0).read("above_the_knee_upper_end").note("printed as 9 to 10"),
        ], ..TABLE },
    Table { source: "Size of File Cache, text", statistic: "computed from 9 µs a block", experiment: "fs.cache_size", metric: "rate_above", case: "limit=memory", printed: Printed::MbPerS,
        rows: &[row("", 444.0).est(450.0)], because: "the disk's data sheet", ..TABLE },
    Table { source: "Table XV", experiment: "fs.read", metric: "latency_per_block", case: "pattern=sequential,mode=direct_sync", varies: "size",
        rows: &[
            row("1048576", 47532.06).also("0.03 ms").sd("251875.43 cycles; 0.16 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"), row("2097152", 28351.68).also("0.02 ms").sd("182189.11 cycles; 0.11 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"),
            row("4194304", 22877.98).also("0.01 ms").sd("133939.07 cycles; 0.08 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"), row("8388608", 21233.65).also("0.01 ms").sd("125802.63 cycles; 0.08 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"),
            row("16777216", 22342.32).also("0.01 ms").sd("138049.87 cycles; 0.09 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"), row("33554432", 22676.5).also("0.01 ms").sd("137301.71 cycles; 0.09 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"),
            row("67108864", 22019.51).also("0.01 ms").sd("132162.12 cycles; 0.08 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"), row("134217728", 24313.62).also("0.02 ms").sd("158732.27 cycles; 0.10 ms").est(13_888.89).est_printed("13888.89 cycles; 0.01 ms"),
        ],
        note: "their deviations are five to six times these means; one thread of Table XIX takes five times as long",
        because: "4 KB at 450 MB/s of the disk's data sheet, 0.01 ms", scored: true, ..TABLE },
    Table { source: "Table XVI, and XX for the largest", experiment: "fs.read", metric: "latency_per_block", case: "pattern=random,mode=direct_sync", varies: "size",
        rows: &[
            row("1048576", 282767.06).also("0.18 ms").sd("288316.96 cycles; 0.18 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms"), row("2097152", 263074.51).also("0.16 ms").sd("251677.41 cycles; 0.16 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms"),
            row("4194304", 248593.64).also("0.16 ms").sd("251473.22 cycles; 0.16 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms"), row("8388608", 248132.9).also("0.16 ms").sd("261733.64 cycles; 0.16 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms"),
            row("134217728", 255746.18).also("0.16 ms").sd("222838.36 cycles; 0.14 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms"),
        ],
        note: "the cells of 16 to 64 MB are garbled in the text",
        because: "13 MB/s at random by a public list, 0.30 ms", scored: true, ..TABLE },
    Table { source: "Table XVI", experiment: "fs.read", metric: "latency_per_block", case: "pattern=random,mode=direct_sync", varies: "size",
        rows: &[row("33554432", 258142.60).also("0.16 ms").sd("257959.04 cycles; 0.16 ms").est(480_769.23).est_printed("480769.23 cycles; 0.30 ms").read("garbled")
            .note("the cell is given to 32 MB by its place in the garbled text; those of 16 and 64 MB are lost but for the deviation of 64 MB, 222946.16 cycles or 0.14 ms")],
        because: "13 MB/s at random by a public list, 0.30 ms", ..TABLE },
    Table { source: "Table XVII", experiment: "fs.remote", metric: "latency_per_block", case: "pattern=sequential,mode=direct_sync", varies: "size",
        rows: &[
            row("1048576", 2_011_161.76).also("1.26 ms").sd("4463867.52 cycles; 2.79 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"), row("2097152", 2_041_930.84).also("1.28 ms").sd("5820507.81 cycles; 3.64 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"),
            row("4194304", 1_983_875.24).also("1.24 ms").sd("8063135.61 cycles; 5.04 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"), row("8388608", 2_228_949.08).also("1.39 ms").sd("9854997.99 cycles; 6.16 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"),
            row("16777216", 2_190_427.30).also("1.37 ms").sd("8636959.44 cycles; 5.40 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"), row("33554432", 2_142_221.94).also("1.34 ms").sd("8538765.72 cycles; 5.34 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"),
            row("67108864", 2_178_314.12).also("1.36 ms").sd("8738268.27 cycles; 5.46 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"), row("134217728", 2_281_115.90).also("1.43 ms").sd("8102417.27 cycles; 5.06 ms").est(513_888.89).est_printed("513888.89 cycles; 0.32 ms"),
        ],
        note: "NFS from a MacBook over an adapter of 100 Mbit/s; the deviations are two to four times these means",
        because: "0.01 ms of the disk and 0.31 ms for 4 KB at 12.5 MB/s, 0.32 ms", ..TABLE },
    Table { source: "Table XVIII", experiment: "fs.remote", metric: "latency_per_block", case: "pattern=random,mode=direct_sync", varies: "size",
        rows: &[
            row("1048576", 2_618_483.93).also("1.64 ms").sd("1296805.34 cycles; 0.81 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"), row("2097152", 2_643_743.85).also("1.65 ms").sd("1535277.00 cycles; 0.96 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"),
            row("4194304", 2_582_424.25).also("1.61 ms").sd("1752686.31 cycles; 1.10 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"), row("8388608", 2_559_437.90).also("1.60 ms").sd("2390581.31 cycles; 1.49 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"),
            row("16777216", 2_598_934.82).also("1.62 ms").sd("1300645.86 cycles; 0.81 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"), row("33554432", 2_636_123.22).also("1.65 ms").sd("2316360.07 cycles; 1.45 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"),
            row("67108864", 2_556_644.82).also("1.60 ms").sd("2151206.96 cycles; 1.34 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"), row("134217728", 2_562_594.39).also("1.60 ms").sd("1255458.21 cycles; 0.78 ms").est(980_769.23).est_printed("980769.23 cycles; 0.51 ms"),
        ],
        note: "NFS from a MacBook over an adapter of 100 Mbit/s; the estimate is printed as 0.51 ms, its cycles and the text are 0.61 ms",
        because: "0.30 ms of the disk and 0.31 ms for 4 KB at 12.5 MB/s, 0.61 ms", ..TABLE },
    Table { source: "Table XIX", experiment: "fs.contention", metric: "latency_all", case: "readers=threads,size=67108864,pattern=sequential", varies: "competitors",
        rows: &[
            row("0", 122976.0).also("0.08 ms").sd("38782 cycles; 0.02 ms").est(13_889.0).est_printed("13889 cycles; 0.01 ms"),
            row("1", 1642507.0).also("1.03 ms").sd("282539 cycles; 0.18 ms").est(152_778.0).est_printed("152778 cycles; 0.11 ms"), row("2", 2459464.0).also("1.54 ms").sd("201545 cycles; 0.13 ms").est(305_556.0).est_printed("305556 cycles; 0.22 ms"),
            row("3", 3277981.0).also("2.05 ms").sd("490441 cycles; 0.30 ms").est(458_334.0).est_printed("458334 cycles; 0.33 ms"), row("4", 4083048.0).also("2.55 ms").sd("481640 cycles; 0.47 ms").est(611_112.0).est_printed("611112 cycles; 0.44 ms"),
            row("5", 4884434.0).also("3.05 ms").sd("749999 cycles; 0.47 ms").est(763_890.0).est_printed("763890 cycles; 0.55 ms"), row("6", 5713302.0).also("3.57 ms").sd("992228 cycles; 0.62 ms").est(916_668.0).est_printed("916668 cycles; 0.66 ms"),
            row("7", 6494068.0).also("4.06 ms").sd("1468062 cycles; 0.92 ms").est(1_069_446.0).est_printed("1069446 cycles; 0.77 ms"), row("8", 7323234.0).also("4.58 ms").sd("1005475 cycles; 0.63 ms").est(1_222_224.0).est_printed("1222224 cycles; 0.88 ms"),
            row("9", 8135629.0).also("5.08 ms").sd("1272885 cycles; 0.80 ms").est(1_375_002.0).est_printed("1375002 cycles; 0.99 ms"), row("10", 8899627.0).also("5.56 ms").sd("2488483 cycles; 1.56 ms").est(1_527_780.0).est_printed("1527780 cycles; 1.10 ms"),
            row("11", 9782653.0).also("6.11 ms").sd("1216782 cycles; 0.76 ms").est(1_680_558.0).est_printed("1680558 cycles; 1.21 ms"), row("12", 10638220.0).also("6.65 ms").sd("1224988 cycles; 0.77 ms").est(1_833_336.0).est_printed("1833336 cycles; 1.32 ms"),
            row("13", 11376920.0).also("7.11 ms").sd("1692154 cycles; 1.06 ms").est(1_986_114.0).est_printed("1986114 cycles; 1.43 ms"), row("14", 12295930.0).also("7.68 ms").sd("1376607 cycles; 0.86 ms").est(2_138_892.0).est_printed("2138892 cycles; 1.54 ms"),
            row("15", 13001060.0).also("8.13 ms").sd("2775679 cycles; 1.73 ms").est(2_291_670.0).est_printed("2291670 cycles; 1.65 ms"),
        ],
        note: "two threads take thirteen times as long as one; the estimates in ms do not follow from those in cycles: 152,778 cycles are printed as 0.11 ms and are 0.095 at 0.625 ns, and so on",
        because: "0.01 ms for 4 KB at 450 MB/s, and for each further thread a seek of 0.1 ms and its share", scored: true, ..TABLE },
];
