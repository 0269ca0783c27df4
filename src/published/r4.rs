//! R4: a Pentium E6300 under Linux 3.13, and a server with four nodes of Magny-Cours.

use super::table::{Printed, Report, TABLE, Table, row};

const WORK: &str = "Memon and Walpitagamage, first assignment of CSC 469, University of Toronto";
const DATED: &str = "11 February 2016";

pub(super) static E6300: Report = Report {
    name: "r4-e6300",
    report: "R4",
    work: WORK,
    dated: DATED,
    tree: include_str!("hosts/r4-e6300/tree.txt"),
    cpu: 0,
    counter_hz: Some(1_396_598_060.0),
    core_hz: Some(2.8e9),
    clocks: "core clock stated as 2.80 GHz; counter measured by the report at 1.3966 GHz, half of that: its nominal rate or a scaled clock, \
        which is not shown, and its appendix has 1.198 GHz; times were converted by the rate of the same run",
    own_times: "",
    environment: &[
        ("compiler", "C; which is not told"),
        ("cpu", "part A1 not told, part A2 pinned to CPU 0"),
        ("threshold", "1100 cycles, chosen by hand from two runs"),
        ("repetitions", "single runs of 30 and of 15 samples a process"),
    ],
    methods: &[
        ("clock.rate", "The counter before and after a sleep of 0.25 s, ten times, the mean."),
        (
            "noise.activity",
            "A loop reads the counter; a step above the threshold is an inactive period, and what lies between two of them an active one.",
        ),
        (
            "os.schedule",
            "Processes on one CPU run that loop each; their periods are laid on one line of time.",
        ),
    ],
    tables: &[TABLES],
    missing: &[
        ("noise.activity", "figure_1_5a", "the plot of 30 periods (its points are in Figure 1.5b)"),
        (
            "os.schedule",
            "figure_2_3a",
            "the plot of two processes' slices (its points are in Figure 2.3b)",
        ),
        ("os.schedule", "figure_2_3c", "the plot of three processes' slices"),
        ("os.schedule", "figure_2_3d", "the plot of five processes' slices"),
    ],
};

pub(super) static MAGNY_COURS: Report = Report {
    name: "r4-magny-cours",
    report: "R4",
    work: WORK,
    dated: DATED,
    tree: include_str!("hosts/r4-magny-cours/tree.txt"),
    cpu: 0,
    counter_hz: None,
    core_hz: None,
    clocks: "no clock is told; STREAM's rates are by the system's",
    own_times: "",
    environment: &[
        ("load", "a shared server in the middle of the day, fairly loaded"),
        ("compiler", "a STREAM that was given; its compiler is not told"),
        (
            "repetitions",
            "STREAM's best of 10 for each kernel, mean of four kernels, mean over the 12 CPUs of a node",
        ),
        ("free memory", "nodes 0, 2, 4, 6: 6352, 12338, 13966, 5363 MB"),
    ],
    methods: &[(
        "memory.numa",
        "STREAM on arrays four times the last cache under numactl, each CPU against each node's memory.",
    )],
    tables: &[NUMA],
    missing: &[],
};

const CLOCK: &str =
    "half of the stated 2.80 GHz: the counter's own rate or a scaled clock, which is not shown";
const THRESHOLD: &str = "the threshold of 1100 cycles was chosen by hand from two runs";

#[rustfmt::skip]
static TABLES: &[Table] = &[
    Table { source: "2.3, experiment 1", n: Some(10), experiment: "clock.rate", metric: "counter_frequency", printed: Printed::Hz,
        rows: &[row("", 1_396_598_060.0)], note: CLOCK, ..TABLE },
    Table { source: "2.3, experiments 2", n: Some(10), experiment: "clock.rate", metric: "counter_frequency", printed: Printed::Hz,
        rows: &[row("", 1_396_605_788.0).read("five_processes"), row("", 1_396_591_460.0).read("three_processes")], note: CLOCK, ..TABLE },
    Table { source: "4.1", statistic: "computed from an example (ours)", experiment: "clock.rate", metric: "counter_frequency", printed: Printed::Hz,
        rows: &[
            row("", 1_198_375_400.0).also("627514 cycles in 0.523649 ms").read("appendix_active"),
            row("", 1_198_324_600.0).also("11444 cycles in 0.009550 ms").read("appendix_inactive"),
        ],
        note: "the appendix' example is of another rate than the experiments", ..TABLE },
    Table { source: "1.3", statistic: "rounded", experiment: "noise.activity", metric: "read_to_read", case: "cpu=quietest",
        rows: &[row("", 300.0).read("lower_end"), row("", 400.0).read("upper_end")],
        note: "printed as 300 to 400 cycles; by a counter of 1.397 GHz on a processor of 2.80 GHz that is far more than two reads take, and a loop stands between them", ..TABLE },
    Table { source: "1.3", statistic: "chosen by hand", experiment: "noise.activity", metric: "threshold", case: "cpu=quietest",
        rows: &[row("", 1100.0).read("by_hand")], note: "between outliers at 700 to 900 and above 1500 cycles", ..TABLE },
    Table { source: "Figure 1.5b", statistic: "single period", experiment: "noise.activity", metric: "active", case: "cpu=quietest", varies: "sample", printed: Printed::Ms,
        rows: &[
            row("0", 1.438272).read("sample"), row("1", 3.957911).read("sample"), row("2", 3.993879).read("sample"), row("3", 3.994981).read("sample"), row("4", 1.650466).read("sample"),
            row("5", 2.310398).read("sample"), row("6", 3.999931).read("sample"), row("7", 3.998815).read("sample"), row("8", 3.995335).read("sample"), row("9", 3.998723).read("sample"),
            row("10", 3.998741).read("sample"), row("11", 3.999089).read("sample"), row("12", 3.999036).read("sample"), row("13", 3.998994).read("sample"), row("14", 3.998163).read("sample"),
            row("15", 3.997620).read("sample"), row("16", 3.998747).read("sample"), row("17", 3.997874).read("sample"), row("18", 3.998678).read("sample"), row("19", 3.998675).read("sample"),
            row("20", 3.997771).read("sample"), row("21", 3.998611).read("sample"), row("22", 3.998728).read("sample"), row("23", 3.997786).read("sample"), row("24", 3.998638).read("sample"),
            row("25", 3.998567).read("sample"), row("26", 3.997768).read("sample"), row("27", 3.998516).read("sample"), row("28", 3.998508).read("sample"), row("29", 3.997629).read("sample"),
        ],
        note: THRESHOLD, ..TABLE },
    Table { source: "Figure 1.5b", statistic: "single period", experiment: "noise.activity", metric: "gap", case: "cpu=quietest", varies: "sample", printed: Printed::Ms,
        rows: &[
            row("0", 0.041725).read("sample"), row("1", 0.005622).read("sample"), row("2", 0.004850).read("sample"), row("3", 0.030670).read("sample"), row("4", 0.008348).read("sample"),
            row("5", 0.001124).read("sample"), row("6", 0.000971).read("sample"), row("7", 0.003178).read("sample"), row("8", 0.001048).read("sample"), row("9", 0.000987).read("sample"),
            row("10", 0.001898).read("sample"), row("11", 0.000872).read("sample"), row("12", 0.000897).read("sample"), row("13", 0.001717).read("sample"), row("14", 0.000874).read("sample"),
            row("15", 0.000991).read("sample"), row("16", 0.001879).read("sample"), row("17", 0.000957).read("sample"), row("18", 0.000939).read("sample"), row("19", 0.001815).read("sample"),
            row("20", 0.000993).read("sample"), row("21", 0.000924).read("sample"), row("22", 0.001807).read("sample"), row("23", 0.000950).read("sample"), row("24", 0.000960).read("sample"),
            row("25", 0.001806).read("sample"), row("26", 0.001000).read("sample"), row("27", 0.000939).read("sample"), row("28", 0.001820).read("sample"), row("29", 0.000972).read("sample"),
        ],
        note: THRESHOLD, ..TABLE },
    Table { source: "Figure 1.5b", statistic: "median of 30 (ours)", n: Some(30), experiment: "noise.activity", metric: "active", case: "cpu=quietest", printed: Printed::Ms,
        rows: &[row("", 3.998512)], note: THRESHOLD, ..TABLE },
    Table { source: "Figure 1.5b", statistic: "median of 30 (ours)", n: Some(30), experiment: "noise.activity", metric: "gap", case: "cpu=quietest", printed: Printed::Ms,
        rows: &[row("", 0.001024)], note: THRESHOLD, ..TABLE },
    Table { source: "1.5, text", statistic: "read off the table", experiment: "noise.activity", metric: "tick_period", case: "cpu=quietest", printed: Printed::Ms,
        rows: &[row("", 4.0)], ..TABLE },
    Table { source: "1.5, text", statistic: "rounded", experiment: "noise.activity", metric: "gap", case: "cpu=quietest", printed: Printed::Us,
        rows: &[row("", 0.9).read("timer_least"), row("", 30.0).read("timer_most").note("the table's longest is 41.7 µs, in the first sample, which the plot leaves out")], ..TABLE },
    Table { source: "1.5, text", statistic: "rounded", experiment: "noise.activity", metric: "lost", case: "cpu=quietest", printed: Printed::Percent,
        rows: &[row("", 0.1)], note: "all gaps of the table together are 0.13 % of its time", ..TABLE },
    Table { source: "Figure 2.3b", statistic: "median of whole slices (ours)", n: Some(8), experiment: "os.schedule", metric: "slice", varies: "processes", printed: Printed::Ms,
        rows: &[row("2", 11.989691)], note: "the first and the last of ten left out; nobody told the scheduler's tunables", scored: true, ..TABLE },
    Table { source: "2.3, experiments 2", experiment: "os.schedule", metric: "slice", varies: "processes", printed: Printed::Ms,
        rows: &[row("3", 5.78204), row("5", 3.90898)],
        note: "first and last slices, which are cut, are in it; of three, two had 8 ms and one 4", scored: true, ..TABLE },
    Table { source: "Figure 2.3b", statistic: "median (ours)", n: Some(9), experiment: "os.schedule", metric: "switch", varies: "processes", printed: Printed::Ms,
        rows: &[row("2", 0.008706)], note: "from read to read, with a loop between two reads", scored: true, ..TABLE },
    Table { source: "2.3, experiment 1", experiment: "os.schedule", metric: "slice", varies: "processes", printed: Printed::Ms,
        rows: &[row("2", 11.17299).read("mean").note("first and last slices, which are cut, are in it; the text says about 11 ms")], ..TABLE },
    Table { source: "2.3, all experiments", experiment: "os.schedule", metric: "switch", varies: "processes", printed: Printed::Ms,
        rows: &[row("2", 0.02188).read("mean"), row("3", 0.01964).read("mean"), row("5", 0.02158).read("mean")],
        note: "ruled by the first run of each process, of 0.12 ms where it is listed", ..TABLE },
    Table { source: "Figure 2.3b", statistic: "single switch", experiment: "os.schedule", metric: "switch", case: "processes=2", varies: "event", printed: Printed::Ms,
        rows: &[
            row("1", 0.123379).read("event").note("the first run of a process"), row("2", 0.009041).read("event"), row("3", 0.010844).read("event"),
            row("4", 0.008661).read("event"), row("5", 0.008495).read("event"), row("6", 0.008706).read("event"),
            row("7", 0.010656).read("event"), row("8", 0.008676).read("event"), row("9", 0.008469).read("event"),
        ],
        note: "odd ones from process 2 to 1, even ones back", ..TABLE },
    Table { source: "Figure 2.3b", statistic: "single slice", experiment: "os.schedule", metric: "slice", case: "processes=2", varies: "event", printed: Printed::Ms,
        rows: &[
            row("1", 7.935217).read("event").note("cut by the beginning"), row("2", 11.876560).read("event"), row("3", 11.989067).read("event"),
            row("4", 11.988150).read("event"), row("5", 11.990447).read("event"), row("6", 11.990446).read("event"), row("7", 11.990425).read("event"),
            row("8", 11.988369).read("event"), row("9", 11.990315).read("event"), row("10", 6.912341).read("event").note("cut by the end"),
        ],
        note: "of the process before the switch", ..TABLE },
    Table { source: "2.4", statistic: "rounded", experiment: "os.schedule", metric: "slice", varies: "processes", printed: Printed::Ms,
        rows: &[row("3", 8.0).read("text_two_of_three"), row("3", 4.0).read("text_one_of_three"), row("5", 4.0).read("text")],
        note: "what the text reads off the plots", ..TABLE },
];

const AXES: &str = "the rates follow the memory's node and ignore the CPU's: the binding of the CPUs failed or the axes are exchanged, which is not shown; \
    digits that run together in the text are set apart by the ratios";

#[rustfmt::skip]
static NUMA: &[Table] = &[
    Table { source: "Figure 2, memory of node 0", statistic: "mean over CPUs and kernels of the best", n: Some(10), experiment: "memory.numa", metric: "bandwidth", case: "memory_node=0", varies: "cpu_node", printed: Printed::MbPerS,
        rows: &[row("0", 5400.69166), row("2", 5387.51041), row("4", 5382.5375), row("6", 5474.03333)], note: AXES, ..TABLE },
    Table { source: "Figure 2, memory of node 2", statistic: "mean over CPUs and kernels of the best", n: Some(10), experiment: "memory.numa", metric: "bandwidth", case: "memory_node=2", varies: "cpu_node", printed: Printed::MbPerS,
        rows: &[row("0", 3903.33125), row("2", 3897.19583), row("4", 3871.25625), row("6", 3931.1375)], note: AXES, ..TABLE },
    Table { source: "Figure 2, memory of node 4", statistic: "mean over CPUs and kernels of the best", n: Some(10), experiment: "memory.numa", metric: "bandwidth", case: "memory_node=4", varies: "cpu_node", printed: Printed::MbPerS,
        rows: &[row("0", 2488.09583), row("2", 2487.39791), row("4", 2489.65416), row("6", 2494.59791)], note: AXES, ..TABLE },
    Table { source: "Figure 2, memory of node 6", statistic: "mean over CPUs and kernels of the best", n: Some(10), experiment: "memory.numa", metric: "bandwidth", case: "memory_node=6", varies: "cpu_node", printed: Printed::MbPerS,
        rows: &[row("0", 2387.33541), row("2", 2386.0), row("4", 2388.10833), row("6", 2386.14375)], note: AXES, ..TABLE },
    Table { source: "Figure 2, ratios, memory of node 0", statistic: "ratio", experiment: "memory.numa", metric: "bandwidth_ratio", case: "memory_node=0", varies: "cpu_node", printed: Printed::Ratio,
        rows: &[row("0", 1.0).read("own_over_this"), row("2", 1.00244).est(1.6).read("own_over_this"), row("4", 1.00337).est(1.6).read("own_over_this"), row("6", 0.98660).est(1.6).read("own_over_this")], note: INVERSE, because: DISTANCE, ..TABLE },
    Table { source: "Figure 2, ratios, memory of node 2", statistic: "ratio", experiment: "memory.numa", metric: "bandwidth_ratio", case: "memory_node=2", varies: "cpu_node", printed: Printed::Ratio,
        rows: &[row("0", 0.99842).est(1.6).read("own_over_this"), row("2", 1.0).read("own_over_this"), row("4", 1.00670).est(1.6).read("own_over_this"), row("6", 0.99136).est(1.6).read("own_over_this")], note: INVERSE, because: DISTANCE, ..TABLE },
    Table { source: "Figure 2, ratios, memory of node 4", statistic: "ratio", experiment: "memory.numa", metric: "bandwidth_ratio", case: "memory_node=4", varies: "cpu_node", printed: Printed::Ratio,
        rows: &[row("0", 1.00062).est(1.6).read("own_over_this"), row("2", 1.00090).est(1.6).read("own_over_this"), row("4", 1.0).read("own_over_this"), row("6", 0.99801).est(1.6).read("own_over_this")], note: INVERSE, because: DISTANCE, ..TABLE },
    Table { source: "Figure 2, ratios, memory of node 6", statistic: "ratio", experiment: "memory.numa", metric: "bandwidth_ratio", case: "memory_node=6", varies: "cpu_node", printed: Printed::Ratio,
        rows: &[row("0", 0.99950).est(1.6).read("own_over_this"), row("2", 1.00006).est(1.6).read("own_over_this"), row("4", 0.99917).est(1.6).read("own_over_this"), row("6", 1.0).read("own_over_this")], note: INVERSE, because: DISTANCE, ..TABLE },
];

const INVERSE: &str = "the memory's own node's CPUs over these, the inverse of ours, which goes by the CPU's own memory";
const DISTANCE: &str = "16 over 10, the distances that the firmware gives";
