//! HPC Challenge: of its parts HPL, which solves a dense system by OpenBLAS, and STREAM.
//!
//! It has no options: an input file sizes HPL's matrix, and by that all else. It runs all its parts
//! each time; what it found is in a file.

use crate::bandwidth::{Moves, STREAM_OPS, cases, huge_pages, team, threads};
use crate::sides::case_of;
use crate::{Conditions, Goal, Ours, Output, Pairing, Rival, Row, Theirs};
use bench::experiment::{Preset, Skip};
use record::unit::Unit;

// Asked for its version it would do all its work.
pub static RIVAL: Rival = Rival::new("hpcc", &["hpcc"], pairings, parse)
    .about("HPC Challenge: HPL (LINPACK by OpenBLAS) and STREAM, by MPI")
    .package("hpcc libopenblas0");

/// What it reads, and where it leaves what it found.
const INPUT_NAME: &str = "hpccinf.txt";
const ANSWER_NAME: &str = "hpccoutf.txt";
/// Bytes of STREAM's arrays: of all ranks together, and of each at least. One more equation and
/// hpcc's tables of random accesses, where it spends most of its time, are twice as large.
const STREAM_BYTES: u64 = 8 * 5792 * 5792;
const STREAM_RANK_LEAST: u64 = 40_000_000;
const STREAM_REHEARSAL: u64 = 1 << 20;
/// HPL's block sizes: its fastest depends on them, so each run tries all.
const BLOCKS: [u32; 4] = [64, 96, 128, 192];
/// The block size of an HPL that only runs along.
const BLOCK: [u32; 1] = [128];
/// Bytes that HPL, with all else of hpcc, takes for each of its matrix.
const TIMES_MATRIX: u64 = 3;

const STREAM_DIFFERENCE: &str = "STREAM's best of ten passes over the same arrays, in loops as \
                                 hpcc's compiler built them; plumb's best round, in windows of \
                                 several passes, each round in fresh memory. Array data in the \
                                 last cache survives from pass to pass of STREAM; plumb first \
                                 writes its arrays past the caches";
const STREAM_ALL_DIFFERENCE: &str = "the sum of the best of ten passes of each STREAM process; \
                                     these passes were not simultaneous, so the sum may exceed the \
                                     memory's actual bandwidth. plumb's best round, with all \
                                     threads at once. Array data in the last cache survives from \
                                     pass to pass of STREAM; plumb first writes its arrays past \
                                     the caches";
const HPL_DIFFERENCE: &str = "HPL's fastest of four block sizes, one solve each, with OpenBLAS; \
                              plumb's median of many solves with its own block sizes. Both count \
                              2/3 n^3 + 3/2 n^2 operations over factorisation and solution and \
                              check the same residual";
const HPL_ALL_DIFFERENCE: &str = "HPL's fastest of four block sizes and all process grids, one \
                                  solve each, with MPI processes of one OpenBLAS thread each, \
                                  which copy data that plumb's threads share; plumb's median of \
                                  many solves. Both count 2/3 n^3 + 3/2 n^2 operations over \
                                  factorisation and solution and check the same residual";

fn pairings(conditions: &Conditions) -> Vec<Pairing> {
    let one = &conditions.cpus[..1];
    let team = team(conditions);
    let of_team = |what: fn(&Conditions, &[usize]) -> Pairing| {
        (team.len() > 1).then(|| what(conditions, &team))
    };
    let mut all = vec![hpl(conditions, one)];
    match conditions.preset {
        Preset::Rehearsal => all.push(stream(conditions, one)),
        Preset::Quick => {}
        // A run takes half a minute, so STREAM has only the more telling one.
        Preset::Standard => {
            all.extend(of_team(hpl));
            all.push(of_team(stream).unwrap_or_else(|| stream(conditions, one)));
        }
        Preset::Thorough => {
            all.extend(of_team(hpl));
            all.push(stream(conditions, one));
            all.extend(of_team(stream));
        }
    }
    all
}

/// `hpl`, or `hpl-all` on several CPUs.
fn hpl(conditions: &Conditions, cpus: &[usize]) -> Pairing {
    let n: u64 = match (conditions.preset, cpus.len()) {
        (Preset::Rehearsal, _) => 100,
        (Preset::Quick, _) => 1000,
        (Preset::Standard, ..3) => 2000,
        (_, ..9) => 4000,
        (_, _) => 8000,
    };
    let set = format!("n={n} threads={}", threads(cpus));
    let preset = match (conditions.lengths(), n) {
        (Preset::Rehearsal, _) => Preset::Rehearsal,
        // A preset leaves out what takes long in it.
        (_, ..=1000) => Preset::Quick,
        (_, ..=2000) => Preset::Standard,
        _ => Preset::Thorough,
    };
    let ours = Ours { preset, ..conditions.ours("cpu.linpack", &set).on(cpus).within(30) };
    let grids = grids(cpus.len());
    let (difference, solves) = match cpus.len() {
        1 => (HPL_DIFFERENCE, BLOCKS.len()),
        _ => (HPL_ALL_DIFFERENCE, BLOCKS.len() * grids.len()),
    };
    let row = Row {
        case: case_of(&set, 1),
        goal: Goal::AtLeastNearly,
        ..Row::new("rate", Unit::FlopPerS, format!("HPL of {solves}"), difference)
    };
    let skip = cases(conditions, &ours).err().or_else(|| too_little(conditions, n));
    let theirs = theirs(conditions, cpus, input(n, &BLOCKS, &grids));
    Pairing::new(named("hpl", cpus), ours, theirs, [row]).unless(skip)
}

/// Whether hpcc has memory for a matrix of this order.
fn too_little(conditions: &Conditions, n: u64) -> Option<Skip> {
    let bytes = (8 * n * n).saturating_mul(TIMES_MATRIX);
    (bytes > conditions.memory_bytes)
        .then(|| Skip::because("too little memory").needs("more free memory"))
}

/// `stream`, or `stream-all` on several CPUs.
fn stream(conditions: &Conditions, cpus: &[usize]) -> Pairing {
    let ranks = cpus.len() as u64;
    let mut moves = Moves {
        ops: &STREAM_OPS,
        stores: "regular",
        level: "DRAM",
        cpus,
        limit: conditions
            .rehearsed(STREAM_REHEARSAL, (STREAM_BYTES / ranks).max(STREAM_RANK_LEAST)),
    };
    // STREAM's three arrays of all ranks together have the bytes of HPL's matrix.
    let (n, mut skip) = match moves.footprint(conditions) {
        Ok(bytes) => ((bytes / 8).isqrt(), None),
        Err(skip) => (1, Some(skip)),
    };
    let bytes = 8 * n * n;
    moves.limit = bytes / ranks;
    skip = skip.or_else(|| too_little(conditions, n));
    let (difference, goal) = match ranks {
        1 => (STREAM_DIFFERENCE, moves.goal_beside_passes(conditions)),
        _ => (STREAM_ALL_DIFFERENCE, Goal::Explained),
    };
    let grids = grids(cpus.len());
    Pairing::new(
        named("stream", cpus),
        moves.ours(conditions),
        theirs(conditions, cpus, input(n, &BLOCK, &grids[..1])),
        moves.rows(|op| format!("{op} of {ranks}"), goal, difference),
    )
    .unless(skip)
}

fn named(what: &str, cpus: &[usize]) -> String {
    match cpus.len() {
        1 => what.to_owned(),
        _ => format!("{what}-all"),
    }
}

/// All grids of so many processes: rows and columns.
fn grids(ranks: usize) -> Vec<(usize, usize)> {
    let rows = (1..=ranks).filter(|rows| ranks.is_multiple_of(*rows));
    rows.map(|rows| (rows, ranks / rows)).collect()
}

/// One process, or one pinned to each CPU.
fn theirs(conditions: &Conditions, cpus: &[usize], input: String) -> Theirs {
    let (program, args) = match cpus {
        [_] => ("hpcc", Vec::new()),
        _ => ("mpirun", ranks(cpus)),
    };
    Theirs {
        args,
        behind: vec!["hpcc", "taskset"],
        environment: environment(conditions),
        inputs: vec![(INPUT_NAME, input)],
        answer: Some(ANSWER_NAME),
        ..conditions.theirs(program, &[]).on(cpus).within(300)
    }
}

/// What each rank of mpirun runs: hpcc, pinned to the CPU of its number among the arguments.
const PINNED: &str = "shift ${OMPI_COMM_WORLD_LOCAL_RANK:-${PMI_RANK:?}}; exec taskset -c $1 hpcc";

/// mpirun's arguments. It pins differently from release to release, so it pins nothing, and each
/// rank pins itself. (A command line of a part for each rank ends Open MPI 5.0.7 by a segmentation
/// fault.)
fn ranks(cpus: &[usize]) -> Vec<String> {
    let count = cpus.len();
    let mut args: Vec<String> = vec!["--host".to_owned(), format!("localhost:{count}")];
    args.extend(["--bind-to", "none", "-n"].map(str::to_owned));
    args.push(count.to_string());
    args.extend(["sh", "-c", PINNED, "sh"].map(str::to_owned));
    args.extend(cpus.iter().map(usize::to_string));
    args
}

/// Open MPI's and OpenBLAS's wishes.
fn environment(conditions: &Conditions) -> Vec<(&'static str, String)> {
    let mut environment: Vec<(&'static str, String)> = [
        // Else it refuses root.
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
        ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // All ranks are on this host: they talk through memory.
        ("OMPI_MCA_btl", "^tcp"),
        ("OMP_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
        // It names its kernels then: by that it is known to be there.
        ("OPENBLAS_VERBOSE", "2"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    environment.push(huge_pages());
    environment.push(("TMPDIR", conditions.scratch.display().to_string()));
    if let Some(dir) = &conditions.in_memory {
        // The shared memory of ranks, in Open MPI 4 and 5.
        let dir = dir.display().to_string();
        environment.push(("OMPI_MCA_btl_vader_backing_directory", dir.clone()));
        environment.push(("OMPI_MCA_btl_sm_backing_directory", dir));
    }
    environment
}

/// hpcc's input: HPL with a matrix of n x n, in its usual way (see the tuning notes that come with
/// HPL).
fn input(n: u64, blocks: &[u32], grids: &[(usize, usize)]) -> String {
    let list = |values: Vec<String>| values.join(" ");
    let count = blocks.len();
    let blocks = list(blocks.iter().map(u32::to_string).collect());
    let rows = list(grids.iter().map(|(rows, _)| rows.to_string()).collect());
    let columns = list(grids.iter().map(|(_, columns)| columns.to_string()).collect());
    format!(
        "HPLinpack benchmark input file\nby plumb\nHPL.out output file\n8 device out\n\
         1 problem sizes\n{n} Ns\n{count} NBs\n{blocks} NBs\n0 PMAP\n\
         {} process grids\n{rows} Ps\n{columns} Qs\n16.0 threshold\n\
         1 panel fact\n2 PFACTs\n1 recursive stopping criterium\n4 NBMINs\n1 panels in recursion\n2 NDIVs\n\
         1 recursive panel fact.\n1 RFACTs\n1 broadcast\n1 BCASTs\n1 lookahead depth\n1 DEPTHs\n\
         2 SWAP\n64 swapping threshold\n0 L1\n0 U\n1 Equilibration\n8 memory alignment\n\
         ##### separator #####\n0 sizes for PTRANS\n1000 Ns\n0 blocking sizes for PTRANS\n64 NBs\n",
        grids.len()
    )
}

/// `HPL of SOLVES`: its best rate in flop/s; `KERNEL of RANKS`: STREAM's best of all ranks in B/s.
fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let (part, count) =
        what.split_once(" of ").ok_or_else(|| format!("`{what}` is not a part of hpcc"))?;
    let count: usize = count.parse().map_err(|_| format!("`{count}` is not a number"))?;
    if !said.answer.contains("HPC Challenge Benchmark version") {
        return Err(format!("no {ANSWER_NAME} of an HPC Challenge"));
    }
    match part {
        "HPL" => hpl_rate(said, count),
        op => stream_rate(&said.answer, op, count),
    }
}

fn hpl_rate(said: &Output, solves: usize) -> Result<f64, String> {
    if !said.stderr.lines().any(|line| line.starts_with("Core: ")) {
        return Err(
            "its BLAS is not OpenBLAS, with which HPL is compared: apt-get install libopenblas0"
                .to_owned(),
        );
    }
    // Its lines begin with the variant: W, R or C, and digits.
    let of = |line: &str| -> Option<f64> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [variant, _, _, _, _, _, rate]
                if variant.starts_with("WR") || variant.starts_with("WC") =>
            {
                rate.parse().ok()
            }
            _ => None,
        }
    };
    let rates: Vec<f64> = said.answer.lines().filter_map(of).collect();
    let checks = || said.answer.lines().filter(|line| line.starts_with("||Ax-b||"));
    let passed = checks().filter(|line| line.trim_end().ends_with("PASSED")).count();
    if passed < checks().count() {
        return Err("HPL's residual check failed".to_owned());
    }
    if rates.len() != solves || passed != solves {
        return Err(format!(
            "{} rates and {passed} checks of HPL instead of {solves}",
            rates.len()
        ));
    }
    Ok(1e9 * rates.into_iter().fold(0.0, f64::max))
}

fn stream_rate(answer: &str, op: &str, ranks: usize) -> Result<f64, String> {
    let value = |name: &str| -> Result<&str, String> {
        let mut lines = answer.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.map(str::trim).ok_or_else(|| format!("no line `{name}=`"))
    };
    let ran = value("CommWorldProcs")?;
    if ran != ranks.to_string() {
        return Err(format!("{ran} processes ran together instead of {ranks}"));
    }
    if !answer.lines().any(|line| line.starts_with("Solution Validates")) {
        return Err("STREAM's solution was not validated".to_owned());
    }
    let (first, rest) = op.split_at_checked(1).ok_or("no kernel of STREAM")?;
    let name = format!("StarSTREAM_{}{rest}", first.to_uppercase());
    let gb: f64 = value(&name)?.parse().map_err(|_| format!("{name} is not a number"))?;
    // The mean of the ranks', while all run.
    Ok(gb * 1e9 * ranks as f64)
}

#[cfg(test)]
mod tests;
