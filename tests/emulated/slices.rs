//! Debian's stable kernel, which has CFS before Linux 6.6 and EEVDF since: what the law of its
//! scheduler foretells of slices, and what they are.

use crate::guest::{self, Machine};
use crate::plumb::prelude::*;
use crate::{events, part};

const MACHINE: Machine = Machine {
    kernel_line: "tsc=reliable",
    hardware: "-cpu max,+invtsc,x-force-features=on -smp 2,sockets=1,cores=2,threads=1 -m 512M",
    ..Machine::PLAIN
};
/// First as any process sees the kernel, then with its tunables to be read.
const SCRIPT: &str = "
RUN='plumb run os.schedule --preset rehearsal --cpu 1 --set os.schedule.processes=2,3,5'
$RUN --out /tmp/untold.jsonl > /tmp/report 2> /tmp/errors
echo \"untold=$?\"
mount -t debugfs debugfs /sys/kernel/debug
$RUN --out /tmp/told.jsonl >> /tmp/report 2>> /tmp/errors
echo \"told=$?\"
cat /tmp/errors
echo \"latency=$(cat /sys/kernel/debug/sched/latency_ns 2>/dev/null)\"
echo '[report'; cat /tmp/report; echo 'report]'
echo '[untold'; cat /tmp/untold.jsonl; echo 'untold]'
echo '[told'; cat /tmp/told.jsonl; echo 'told]'
";
/// Processes at a time.
const CASES: [u64; 3] = [2, 3, 5];
/// The emulator's host may take its time in the middle of a slice: so far outside counts as inside.
const LATE: f64 = 0.1;
/// Boots of which one must be as foretold.
const BOOTS: usize = 3;

/// One case's slice: its interval and why, and the median.
struct Slice {
    low: f64,
    high: f64,
    because: String,
    median: f64,
}

fn slices(printed: &str, name: &str) -> Vec<Slice> {
    let events = events(printed, name);
    let of = |kind: &str, processes: u64| {
        let mut of = events_of_kind(&events, kind).into_iter();
        of.find(|one| one["metric"] == "slice" && one["case"]["processes"] == processes)
            .unwrap_or_else(|| panic!("{kind} of {processes}: {printed}"))
    };
    let case = |processes: &u64| {
        let prediction = of("prediction", *processes);
        let values = of("samples", *processes)["values"].as_array().unwrap();
        let mut values: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
        values.sort_by(f64::total_cmp);
        Slice {
            low: prediction["range"]["low"].as_f64().unwrap(),
            high: prediction["range"]["high"].as_f64().unwrap(),
            because: prediction["because"].to_string(),
            median: values[values.len() / 2],
        }
    };
    CASES.iter().map(case).collect()
}

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn slices_of_another_kernel_are_as_its_law_says() {
    // A host that keeps the emulator waiting most of the time cuts slices short: it may not do so
    // each time.
    let mut differ = Vec::new();
    while differ.len() < BOOTS {
        let boot = boot();
        println!("{}", boot.text);
        match boot.differs {
            Some(how) => differ.push(how),
            None => return,
        }
    }
    panic!("{}", differ.join("; "));
}

/// What one boot told, and in what its slices are not as foretold.
struct Boot {
    text: String,
    differs: Option<String>,
}

fn boot() -> Boot {
    let printed = guest::run(&MACHINE, SCRIPT);
    assert!(printed.contains("untold=0\n") && printed.contains("told=0\n"), "{printed}");
    let (mut told, mut differs) = (part(&printed, "report").to_owned(), None);
    // Two CPUs: twice 6 ms. EEVDF has none.
    let is_cfs = printed.contains("latency=12000000\n");
    assert!(is_cfs || printed.contains("latency=\n"), "{printed}");
    let scheduler = if is_cfs { "CFS" } else { "EEVDF" };
    let words = [("untold", "sched_rr_get_interval"), ("told", "12.000 ms")];
    for (name, words) in words {
        let found = slices(&printed, name);
        let mut inside = 0;
        for (slice, processes) in found.iter().zip(CASES) {
            told += &format!(
                "{name}, {processes} processes: {:.3} ms, foretold {:.3} to {:.3} ms\n",
                slice.median / 1e6,
                slice.low / 1e6,
                slice.high / 1e6
            );
            assert!(slice.because.contains(scheduler), "{}", slice.because);
            assert!(slice.because.contains(words) || !is_cfs, "{}", slice.because);
            let is_inside = (1.0 - LATE) * slice.low <= slice.median
                && slice.median <= (1.0 + LATE) * slice.high;
            inside += usize::from(is_inside);
        }
        if inside + 1 < CASES.len() {
            differs = Some(format!("{name}: {inside} inside"));
        }
        // CFS: the fewer processes, the longer.
        let (two, five) = (found[0].median, found[2].median);
        if is_cfs && two <= 1.5 * five {
            differs = Some(format!("{name}: {two} ns of two, {five} ns of five"));
        }
    }
    Boot { text: told, differs }
}
