//! A real-time machine, one of whose CPUs has no tick while only one thread runs on it. Its kernel
//! traces noise itself, and what its tool says of that is read by the script that compares it with
//! plumb.

use crate::guest::{self, Machine};
use crate::plumb::prelude::*;
use crate::{events, part};
use std::io::Write;

/// CPU 3 is isolated and without tick, CPU 1 is like any other. The emulator passes the host's
/// counter through, which is constant and non-stop as far as the host's is, but does not say so on
/// its own.
const MACHINE: Machine = Machine {
    kernel: "vmlinuz-rt",
    kernel_line: "isolcpus=3 nohz_full=3 rcu_nocbs=3 tsc=reliable",
    hardware: "-cpu max,+invtsc,x-force-features=on -smp 4,sockets=1,cores=4,threads=1 -m 640M",
    programs: &["/usr/bin/rtla"],
    network: None,
};
/// The tracer has two periods of 1 s, in each of which it runs for 300 ms: CPUs 1 and 3 beside each
/// other are as many as the emulator may have to run on.
const SCRIPT: &str = "
mount -t tracefs tracefs /sys/kernel/tracing
echo \"tickless=$(cat /sys/devices/system/cpu/nohz_full)\"
TRACER='-d 2s -p 1000000 -r 300000 -c 1,3'
echo '[top'; rtla osnoise top -q $TRACER 2>&1; echo 'top]'
echo '[hist'; rtla osnoise hist $TRACER -b 10 -E 20 2>&1; echo 'hist]'
echo '[refused'; plumb plan noise.activity --cpu 3 2>&1; echo 'refused]'
taskset 0xf plumb run noise.activity noise.all --preset rehearsal --cpu 3,1 --set noise.activity.cpu=1,3 \
  --out /tmp/record.jsonl > /tmp/report 2> /tmp/errors
echo \"run=$?\"
cat /tmp/errors
echo '[report'; cat /tmp/report; echo 'report]'
echo '[record'; cat /tmp/record.jsonl; echo 'record]'
";

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_tickless_cpu_is_told_by_plumb_and_by_the_kernels_tracer() {
    let printed = guest::run(&MACHINE, SCRIPT);
    assert!(printed.contains("tickless=3\n"), "{printed}");
    let (top, hist) = (part(&printed, "top"), part(&printed, "hist"));
    println!("{top}{hist}");
    check_top(&read("top", top));
    check_hist(&read("hist", hist));
    // Isolation takes a CPU out of every process's mask: plumb says how it is had.
    let refused = part(&printed, "refused");
    assert!(refused.contains("CPU 3 is isolated"), "{refused}");
    assert!(refused.contains("`taskset -c 0-3 plumb"), "{refused}");

    assert!(printed.contains("run=0\n"), "{printed}");
    println!("{}", part(&printed, "report"));
    let record = part(&printed, "record");
    let events = events(&printed, "record");
    check_activity(&events);
    check_all(&events);
    println!("{}", check_beside(record, top, hist));
}

/// Every case was measured; on the CPU without tick that is said with the evidence, also where the
/// host's own tick, which stops the emulator, has the same period.
fn check_activity(events: &[Value]) {
    for cpu in [1, 3] {
        let case = json!({ "cpu": cpu });
        let lost = one(events, "noise.activity", &case, "lost");
        let share = lost["values"][0].as_f64().unwrap();
        assert!((0.0..1.0).contains(&share), "{lost}");
        // What was lost is what the gaps lost.
        check_lost(events, &case, share);
        let told: String = events
            .iter()
            .filter(|event| event["event"] == "samples" && event["case"] == case)
            .filter(|event| event["metric"] == "lost" || event["metric"] == "tick_period")
            .map(|samples| samples["notes"].to_string())
            .collect();
        let evidence = [
            "tickless: no tick (",
            "timer interrupts a second on CPU 3, not 250",
            "nohz_full lists CPU 3: 3",
        ];
        let is_said = evidence.iter().all(|words| told.contains(words));
        assert_eq!(is_said, cpu == 3, "{told}");
    }
}

/// The share of a case is that of the gaps that its list holds.
fn check_lost(events: &[Value], case: &Value, share: f64) {
    let of_case =
        |kind| events_of_kind(events, kind).into_iter().filter(|event| event["case"] == *case);
    let gaps = of_case("trace").find(|trace| trace["kind"] == "gaps").unwrap();
    assert_eq!(gaps["dropped"], 0, "{gaps}");
    let window_ns = of_case("samples")
        .find_map(|samples| samples["quantities"]["gaps_window_ns"].as_f64())
        .unwrap();
    let rows = gaps["rows"].as_array().unwrap();
    let sum_ns: f64 = rows.iter().map(|row| row[1].as_f64().unwrap()).sum();
    let off = (sum_ns / window_ns - share).abs();
    // Lists may be rounded, and a gap at the window's begin is in one of them whole.
    assert!(off <= 0.02 * share + 1e-4, "{share} {sum_ns} {window_ns}");
}

/// All CPUs together, and each: together they lose more than the one that loses least, and less
/// than the one that loses most.
fn check_all(events: &[Value]) {
    let share = |cpu: Value| {
        let lost = one(events, "noise.all", &json!({ "cpu": cpu }), "lost");
        lost["values"][0].as_f64().unwrap()
    };
    let (all, first, other) = (share(json!("all")), share(json!(1)), share(json!(3)));
    let mean = f64::midpoint(first, other);
    assert!(first.min(other) <= all && all <= first.max(other), "{all}: {first} {other}");
    assert!((all - mean).abs() <= 0.1 * mean, "{all}: {first} {other}");
    for cpu in [json!("all"), json!(1), json!(3)] {
        let lost = one(events, "noise.all", &json!({ "cpu": cpu }), "lost");
        let share = lost["values"][0].as_f64().unwrap();
        assert!((0.0..1.0).contains(&share), "{lost}");
    }
}

/// The only samples of a metric.
fn one<'run>(events: &'run [Value], experiment: &str, case: &Value, metric: &str) -> &'run Value {
    let mut found = samples_of(events, metric);
    found.retain(|one| one["series"].as_str().unwrap().starts_with(experiment));
    found.retain(|one| one["case"] == *case);
    assert_eq!(found.len(), 1, "{experiment} {case} {metric}: {found:?}");
    found[0]
}

/// The script lays plumb's figures and the tool's of the same CPUs beside each other: what it says.
fn check_beside(record: &str, top: &str, hist: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/agree/noise");
    let mut python = Command::new("python3");
    python.args([script, "osnoise", "--from"]);
    for (name, content) in [("record", record), ("top", top), ("hist", hist)] {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        python.arg(path);
    }
    let told = python.output().expect("scripts/test installs python3");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let begins = ["plumb, CPU 1:", "rtla, CPU 1:", "plumb, CPU 3:", "rtla, CPU 3:"];
    assert_eq!(lines.len(), begins.len(), "{text}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{text}");
        assert!(line.contains(" s, noise ") && line.contains("%, "), "{text}");
    }
    text
}

/// The tool's output as `scripts/agree/noise` reads it.
fn read(form: &str, output: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/agree/osnoise_output.py");
    let mut python = Command::new("python3")
        .args([script, form])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("scripts/test installs python3");
    let mut input = python.stdin.take().unwrap();
    input.write_all(output.as_bytes()).unwrap();
    drop(input);
    let told = python.wait_with_output().unwrap();
    assert!(told.status.success(), "{output}");
    serde_json::from_slice(&told.stdout).unwrap()
}

/// The table has the CPUs asked for, and its columns agree with each other.
fn check_top(table: &Value) {
    let cpus: Vec<&String> = table.as_object().unwrap().keys().collect();
    assert_eq!(cpus, ["1", "3"]);
    for row in table.as_object().unwrap().values() {
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let (runtime, noise) = (figure("runtime_us"), figure("noise_us"));
        assert!(figure("periods") >= 1.0, "{row}");
        // A period's run ends with the first read after 300 ms: late by what is noise then.
        let late = runtime - 300_000.0 * figure("periods");
        assert!(late >= -1.0, "{row}");
        assert!(late <= figure("periods") * (figure("max_single_us") + 1000.0), "{row}");
        assert!(noise <= runtime, "{row}");
        let available = 100.0 * (runtime - noise) / runtime;
        assert!((figure("available_percent") - available).abs() < 0.001, "{row}");
        assert!(figure("max_noise_us") <= noise, "{row}");
        assert!(figure("max_single_us") <= figure("max_noise_us"), "{row}");
        for kind in ["hardware", "nmi", "softirq", "thread"] {
            assert!(figure(kind) >= 0.0, "{row}");
        }
    }
    // Its own columns say which CPU has a tick. HZ is 250 and 300 ms of every period are watched,
    // but a busy host lets the emulator miss many.
    let interrupts = |cpu: &str| table[cpu]["irq"].as_f64().unwrap();
    let periods = table["1"]["periods"].as_f64().unwrap();
    assert!(interrupts("1") >= periods, "{table}");
    assert!(interrupts("3") < interrupts("1"), "{table}");
}

/// What the buckets hold is what was counted, and the means and ends lie in order.
fn check_hist(rows: &Value) {
    let cpus: Vec<&String> = rows.as_object().unwrap().keys().collect();
    assert_eq!(cpus, ["1", "3"]);
    for row in rows.as_object().unwrap().values() {
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let buckets = row["buckets"].as_object().unwrap();
        assert!(!buckets.is_empty(), "{row}");
        let held: f64 = buckets.values().map(|count| count.as_f64().unwrap()).sum();
        assert_eq!(held + figure("over"), figure("count"), "{row}");
        assert!(figure("min") <= figure("avg"), "{row}");
        assert!(figure("avg") <= figure("max"), "{row}");
    }
}
