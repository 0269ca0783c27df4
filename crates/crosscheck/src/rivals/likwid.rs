//! likwid-bench: loops in assembly over arrays in each level of the hierarchy.

use crate::bandwidth::{Moves, huge_pages, team};
use crate::read::{line, version_behind};
use crate::{Conditions, Goal, Output, Pairing, Rival, Statistic, Theirs};
use bench::experiment::{Preset, Skip};
use host::{Arch, Host, format_cpus, parse_cpus};

pub static RIVAL: Rival = Rival::new("likwid-bench", &["likwid-bench"], pairings, parse)
    .about("bandwidth of loops in assembly, by level of the memory hierarchy")
    .package("likwid")
    .version(&["-v"], |said| version_behind(said, "likwid-bench -- Version "))
    // The first with `-W`, by which each thread touches its part first.
    .oldest("5.1");

/// Most bytes of one thread's arrays in main memory, as plumb's standard preset has them; of a
/// rehearsal.
const LIMIT: u64 = 256 << 20;
const LIMIT_REHEARSAL: u64 = 2 << 20;
/// Times over the arrays in a rehearsal; the program takes ten at least.
const TIMES_REHEARSAL: &str = "10";
/// Its arrays are cut to whole turns of its loops: by no more than this share of what they were to
/// have.
const CUT_MOST: f64 = 0.05;

#[derive(Clone, Copy)]
struct Loop {
    op: &'static str,
    stores: &'static str,
    level: &'static str,
    on_all: bool,
    from: Preset,
}

const fn one(op: &'static str, level: &'static str, from: Preset) -> Loop {
    Loop { op, stores: "regular", level, on_all: false, from }
}

const fn past(op: &'static str, from: Preset) -> Loop {
    Loop { stores: "nontemporal", ..one(op, "DRAM", from) }
}

const fn all(of: Loop) -> Loop {
    Loop { on_all: true, ..of }
}

const LOOPS: [Loop; 24] = [
    one("copy", "DRAM", Preset::Rehearsal),
    one("read", "L1", Preset::Quick),
    one("triad", "L2", Preset::Standard),
    past("write", Preset::Standard),
    all(one("triad", "DRAM", Preset::Standard)),
    one("write", "L1", Preset::Thorough),
    one("copy", "L1", Preset::Thorough),
    one("triad", "L1", Preset::Thorough),
    one("read", "L2", Preset::Thorough),
    one("write", "L2", Preset::Thorough),
    one("copy", "L2", Preset::Thorough),
    one("read", "L3", Preset::Thorough),
    one("write", "L3", Preset::Thorough),
    one("copy", "L3", Preset::Thorough),
    one("triad", "L3", Preset::Thorough),
    one("read", "DRAM", Preset::Thorough),
    one("write", "DRAM", Preset::Thorough),
    one("triad", "DRAM", Preset::Thorough),
    past("copy", Preset::Thorough),
    past("triad", Preset::Thorough),
    all(one("read", "DRAM", Preset::Thorough)),
    all(one("copy", "DRAM", Preset::Thorough)),
    all(past("write", Preset::Thorough)),
    all(past("copy", Preset::Thorough)),
];

const DIFFERENCE: &str = "likwid-bench's rate is the mean over one run of at least a second with \
                          one loop, including its first pass and interruptions. plumb's is the \
                          mean of its rounds, each in fresh memory, with the faster of two loops \
                          beyond the first cache (one prefetches; in main memory also loops with \
                          narrower vectors). In main memory likwid-bench has twice plumb's \
                          bytes, because its repeated passes would find part of a smaller array \
                          in the last cache";
const DIFFERENCE_L1: &str = "likwid-bench's rate is the mean over one run of at least a second, \
                             interruptions included; plumb's is the mean of its rounds. The \
                             arrays' offsets within their pages differ, which changes the rate of \
                             a first cache by some per cent";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let has_team = team(conditions).len() > 1;
    LOOPS
        .iter()
        .filter(|one| one.from <= conditions.preset)
        .filter(|one| !one.on_all || has_team)
        .map(|one| pairing(conditions, *one))
        .collect()
}

fn pairing(conditions: &Conditions, one: Loop) -> Pairing {
    let cpus = match one.on_all {
        true => team(conditions),
        false => conditions.cpus[..1].to_vec(),
    };
    let moves = Moves {
        ops: &[one.op],
        stores: one.stores,
        level: one.level,
        cpus: &cpus,
        limit: conditions.rehearsed(LIMIT_REHEARSAL, LIMIT),
    };
    let kernel = kernel(&conditions.host, one.op, one.stores);
    let (footprint, skip) = match (moves.footprint(conditions), &kernel) {
        (Ok(bytes), Ok(_)) => (bytes, None),
        (Ok(bytes), Err(skip)) => (bytes, Some(skip.clone())),
        (Err(skip), _) => (0, Some(skip)),
    };
    let place = match one.on_all {
        // Each thread touches its own part first; with `-w` one thread touches all.
        true => "-W",
        false => "-w",
    };
    // likwid-bench passes over its arrays for at least a second. A last cache that receives the lines
    // evicted from the second then holds part of arrays four times its size. plumb's first passes
    // find nothing there. On a Zen 5 guest (32 MiB) likwid-bench copied 43 to 45 GB/s in 128 MiB, and
    // 38 to 41 GB/s in 256 and 384 MiB.
    let footprint = match one.level {
        "DRAM" => 2 * footprint,
        _ => footprint,
    };
    let group = format!("N:{footprint}B:{}", cpus.len());
    let seconds = conditions.whole_seconds().to_string();
    let length = conditions.rehearsed(["-i", TIMES_REHEARSAL], ["-s", &seconds]);
    let args = ["-t", kernel.as_deref().unwrap_or("none"), place, &group, length[0], length[1]];
    let difference = match one.level {
        "L1" => DIFFERENCE_L1,
        _ => DIFFERENCE,
    };
    let what = format!("{footprint} B on {}", format_cpus(&cpus));
    let row = moves.row(one.op, what, Statistic::MeanOfRounds, Goal::AtLeast, difference);
    let theirs = conditions.theirs("likwid-bench", &args).on(&cpus);
    let theirs = Theirs { environment: vec![huge_pages()], ..theirs };
    Pairing::new(name(one), moves.ours(conditions), theirs, [row]).unless(skip)
}

fn name(one: Loop) -> String {
    let past = match one.stores {
        "regular" => "",
        _ => "-nontemporal",
    };
    let all = if one.on_all { "-all" } else { "" };
    format!("{}-{}{past}{all}", one.level.to_lowercase(), one.op)
}

/// Its loop of the widest vectors; plumb's `vector` takes them too, in main memory unless narrower
/// ones are faster. Its `triad` has four arrays, the one of three is its `stream`; its `update`
/// stores what it loaded, unchanged, and is no `modify`.
fn kernel(host: &Host, op: &str, stores: &str) -> Result<String, Skip> {
    let is_past = stores == "nontemporal" && op != "read";
    let has = |feature: &str| host.cpu.has(feature);
    let width = match host.cpu.arch {
        Arch::X86_64 if has("avx512f") => "avx512",
        Arch::X86_64 if has("avx2") && has("fma") => "avx",
        Arch::X86_64 => "sse",
        Arch::Aarch64 => "neon",
    };
    let name = match op {
        "read" => "load",
        "write" => "store",
        "copy" => "copy",
        _ => "stream",
    };
    let past = if is_past { "_mem" } else { "" };
    let fused = match (op, width) {
        ("triad", "avx512") if !is_past => "_fma",
        ("triad", "avx") => "_fma",
        _ => "",
    };
    match (width, op, is_past) {
        // Pairs of general registers: 16 bytes, as a vector of NEON.
        ("neon", "copy", false) => Ok("copy_pair".to_owned()),
        ("neon", "copy", true) => Ok("copy_nt".to_owned()),
        ("neon", "triad", _) | ("neon", "write", true) => Err(Skip::because(format!(
            "likwid-bench has no loop of {op} by {stores} stores for this processor's vectors"
        ))),
        _ => Ok(format!("{name}{past}_{width}{fused}")),
    }
}

/// Its rate in B/s, where it ran on the CPUs and with the bytes that `what` names (`BYTES B on
/// CPUS`).
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let (bytes, cpus) =
        what.split_once(" B on ").ok_or_else(|| format!("`{what}` names no bytes and CPUs"))?;
    let wanted: f64 = bytes.parse().map_err(|_| format!("`{bytes}` is not a number of bytes"))?;
    let rate = line(said, "MByte/s: {x*1e6}")?;
    let got = line(said, "Size (Byte): {x}")?;
    if (got / wanted - 1.0).abs() > CUT_MOST {
        return Err(format!("its arrays had {got} B instead of {wanted}"));
    }
    let threads = said.stdout.lines().filter(|line| line.starts_with("Group: "));
    let mut ran: Vec<usize> = threads
        .filter_map(|line| {
            line.split_once("running on hwthread ")?.1.split(' ').next()?.parse().ok()
        })
        .collect();
    ran.sort_unstable();
    let mut asked = parse_cpus(cpus);
    asked.sort_unstable();
    if ran != asked {
        return Err(format!("its threads ran on CPUs {} instead of {cpus}", format_cpus(&ran)));
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::{LOOPS, RIVAL};
    use crate::bandwidth::tests::{check, conditions, everywhere};
    use crate::tests::{reads, refuses, text, versions};
    use bench::experiment::Preset;

    /// One thread over 22016 B on CPU 1, and two over 4718592 B.
    const LOAD: &str = "22016 B on 1";
    const STREAM: &str = "4718592 B on 0-1";

    #[test]
    fn rates_of_three_versions_are_read() {
        let told = [
            ("5.1.0-load.txt", LOAD, 382_977.10e6),
            ("5.1.0-stream-two-threads.txt", STREAM, 5_899.27e6),
            ("5.2.2-load.txt", LOAD, 71_923.54e6),
            ("5.2.2-stream-two-threads.txt", STREAM, 4_918.13e6),
            ("5.4.1-load.txt", LOAD, 407_805.43e6),
            ("5.4.1-stream-two-threads.txt", STREAM, 7_077.38e6),
        ];
        reads(&RIVAL, &told);
    }

    #[test]
    fn other_cpus_other_bytes_and_broken_texts_are_errors() {
        let load = text(&RIVAL, "5.2.2-load.txt");
        for what in ["22016 B on 0", "44032 B on 1", "all of it"] {
            refuses(&RIVAL, what, &[&load]);
        }
        refuses(&RIVAL, "4718592 B on 1", &[&text(&RIVAL, "5.2.2-stream-two-threads.txt")]);
        let cut = load.split_once("Group: ").expect("threads").0;
        refuses(&RIVAL, LOAD, &["", "MByte/s:\t\tfast", "MByte/s:\t\t12.0", cut]);
    }

    #[test]
    fn versions_are_read() {
        let told = [("likwid-bench -- Version 5.1.0\n", Some("5.1.0")), ("likwid", None)];
        versions(&RIVAL, &[], &told);
    }

    #[test]
    fn it_gets_the_bytes_that_plumb_resolves_everywhere() {
        for conditions in everywhere() {
            let pairings = (RIVAL.pairings)(&conditions);
            for (pairing, footprint) in pairings.iter().zip(check(&conditions, &pairings)) {
                let Some(footprint) = footprint else { continue };
                let times = if pairing.name.starts_with("dram") { 2 } else { 1 };
                let group = format!("N:{}B:{}", times * footprint, pairing.theirs.cpus.len());
                assert_eq!(pairing.theirs.args[3], group, "{}", pairing.name);
                assert_eq!(pairing.theirs.args[2] == "-W", pairing.theirs.cpus.len() > 1);
            }
        }
    }

    #[test]
    fn presets_have_what_they_are_to_have() {
        let names = |host: &str, cpus: usize, preset: Preset| -> Vec<String> {
            let conditions = conditions(host, cpus, preset);
            let pairings = (RIVAL.pairings)(&conditions);
            let runnable = pairings.into_iter().filter(|pairing| pairing.skip.is_none());
            runnable.map(|pairing| pairing.name).collect()
        };
        let vm = "vm-granite-rapids";
        assert_eq!(names(vm, 2, Preset::Rehearsal), ["dram-copy"]);
        assert_eq!(names(vm, 2, Preset::Quick), ["dram-copy", "l1-read"]);
        let standard =
            ["dram-copy", "l1-read", "l2-triad", "dram-write-nontemporal", "dram-triad-all"];
        assert_eq!(names(vm, 2, Preset::Standard), standard);
        assert_eq!(names(vm, 1, Preset::Standard), standard[..4]);
        assert_eq!(names("epyc-7763-2s", 256, Preset::Thorough).len(), LOOPS.len());
        // No triad of three arrays by NEON, no store past the caches of that alone.
        assert_eq!(names("graviton3", 2, Preset::Standard), ["dram-copy", "l1-read"]);
    }

    #[test]
    fn loops_are_those_of_the_widest_vectors_here() {
        let kernel = |host: &str, at: usize| {
            let pairings = (RIVAL.pairings)(&conditions(host, 1, Preset::Standard));
            pairings[at].theirs.args[1].clone()
        };
        assert_eq!(kernel("vm-granite-rapids", 2), "stream_avx512_fma");
        assert_eq!(kernel("epyc-7763-2s", 2), "stream_avx_fma");
        assert_eq!(kernel("epyc-7763-2s", 3), "store_mem_avx");
        assert_eq!(kernel("graviton3", 1), "load_neon");
    }
}
