//! A crew at arithmetic, and the core clock while it is: what `cpu.peak` and `cpu.sustained` share.

use super::width::{Chains, clock_at_width};
use crate::experiment::Site;
use crate::host::{format_cpus, parse_cpus};
use crate::measure::{Bench, Clock, CoreClock, Member, NeverTogether, Shared, WrongResult};
use crate::predict::cpu::peak::{
    Arithmetic, chain_latency, distinct_cores, per_cycle, thread_count, thread_cpus,
};
use anyhow::{Context, Result, bail, ensure};
use metal::peak::{Kernel, Op, Peak, Type, Width};
use metal::process::rusage_self;
use record::case::Case;
use record::key::Value;
use std::time::Instant;

/// Length of a step, in ns: long beside a clock read and the check of the results, short beside the
/// time between two interrupts.
const STEP_NS: f64 = 50e3;
/// Instructions of the runs from which the length of a step is told, and how many runs.
const TRIAL: (u64, u32) = (50_000, 3);
/// Relative difference of a member's clocks before and after above which it has none.
const MOVED: f64 = 0.01;
/// Attempts at a window in which all members work, in a rehearsal and else: a busy machine may take a
/// CPU away for the whole of a short one.
const ATTEMPTS: [usize; 2] = [10, 3];
/// Share of their lives that threads with CPUs of their own are on them, start and end included; an
/// attempt with less is made again, by this counter and not by its rate.
const HAD_SHARE: f64 = 0.93;
/// Share of the window in which all threads must have worked for their median steps to be added up.
const OVERLAP_SHARE: f64 = 0.9;
/// Least window of several threads in a rehearsal, which has to work on busy machines too.
const REHEARSAL_NS: f64 = 5e6;
/// Share of the members whose clock must be known for the sum.
const KNOWN_SHARE: f64 = 0.75;

/// What a crew reached.
pub(crate) struct Load {
    /// Operations per second of all threads over the whole window.
    pub rate: f64,
    /// The same in the median step of each thread, added up: without what interrupts and other work
    /// take now and then. None where threads share CPUs.
    pub steady_rate: Option<f64>,
    /// Core clock at the kernel's width, mean of the members, in Hz; none where it moved.
    pub core_hz: Option<f64>,
    /// That, times the cores.
    pub cores_hz: Option<f64>,
    /// Share of their lives that the threads were on a CPU.
    pub had: f64,
    /// Share of the window asked for in which all of them worked.
    pub overlap: f64,
    /// How many they were.
    pub threads: usize,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Load {
    /// The rate that the threads reached together, and why it is not that of their median steps
    /// where it might have been. Median steps of several threads are added up only if the threads had
    /// their CPUs and worked at the same time: a quota, steal or other load leaves most steps of each
    /// thread as they are, and their sum would be a rate that the machine never reached.
    pub(crate) fn rate_together(&self) -> (f64, Option<String>) {
        match self.steady_rate {
            None => (self.rate, None),
            Some(steady) if self.threads == 1 || self.is_undisturbed() => (steady, None),
            Some(_) => (
                self.rate,
                Some(
                    "the rate is that of the whole window: the threads did not all have their CPUs \
                     all the time (a quota, steal or other load)"
                        .to_owned(),
                ),
            ),
        }
    }

    fn is_undisturbed(&self) -> bool {
        self.had >= HAD_SHARE && self.overlap >= OVERLAP_SHARE
    }
}

/// Writes into a case what its symbols come to: threads, their CPUs, cores, and the operations per
/// cycle of a core that its design is known to do.
pub(crate) fn place(case: &mut Case, site: &Site, arithmetic: Arithmetic, threads: &Value) {
    let count = thread_count(site, threads);
    let cpus = thread_cpus(site, count);
    let cores = distinct_cores(site, &cpus);
    let at = &mut case.at;
    at.insert("thread_count".to_owned(), Value::Int(count as u64));
    at.insert("cpus".to_owned(), Value::Text(format_cpus(&cpus)));
    at.insert("cores".to_owned(), Value::Int(cores as u64));
    if let Some((operations, _)) = per_cycle(site, arithmetic, &cpus) {
        let text = format!("{operations:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
        at.insert("ops_per_cycle".to_owned(), Value::Text(text));
    }
    if let Some(cycles) = chain_latency(site, arithmetic, &cpus) {
        at.insert("chain_cycles".to_owned(), Value::Int(cycles));
    }
}

/// The operations per cycle of a core that the case's resolution tells.
pub(crate) fn ops_per_cycle(case: &Case) -> Option<f64> {
    case.at.get("ops_per_cycle")?.text()?.parse().ok()
}

/// The instrument's kernel of an instruction.
pub(crate) fn kernel(arithmetic: Arithmetic) -> Option<Kernel> {
    Some(Kernel {
        op: match arithmetic.op {
            "add" => Op::Add,
            "mul" => Op::Mul,
            "fma" => Op::Fma,
            _ => return None,
        },
        element: match arithmetic.element {
            "f32" => Type::F32,
            "f64" => Type::F64,
            "i32" => Type::I32,
            "i64" => Type::I64,
            _ => return None,
        },
        width: match arithmetic.width {
            "scalar" => Width::Scalar,
            "sse2" => Width::Sse2,
            "avx2" => Width::Avx2,
            "avx512" => Width::Avx512,
            "neon" => Width::Neon,
            _ => return None,
        },
    })
}

/// Runs a placed case's threads at the arithmetic for one shared window; `again` if others had the
/// CPUs in it, as often as [`ATTEMPTS`] says.
///
/// # Errors
/// The processor lacks the instruction, or in no attempt were the threads at work together; at once
/// where it computes other values than software does ([`WrongResult`]).
pub(crate) fn run(
    bench: &mut Bench,
    case: &Case,
    arithmetic: Arithmetic,
    window_ns: f64,
    again: bool,
) -> Result<Load> {
    let kernel = kernel(arithmetic).context("there is no such kernel")?;
    let cpus = case.at.get("cpus").and_then(Value::text).unwrap_or("");
    let cpus = parse_cpus(cpus);
    ensure!(!cpus.is_empty(), "the case was not given CPUs");
    let threads = case.int("thread_count").unwrap_or(1) as usize;
    let assigned: Vec<usize> = cpus.iter().copied().cycle().take(threads).collect();
    let clock = bench.clock();
    let rehearsal = bench.order().rehearsal;
    let window_ns = match rehearsal && threads > 1 {
        true => window_ns.max(REHEARSAL_NS),
        false => window_ns,
    };
    let crew = bench.crew(&assigned, window_ns)?;
    let is_crowded = threads > cpus.len();
    let switches = rusage_self().nivcsw;
    let chain_cycles = case.int("chain_cycles");
    let enlist = |_| {
        let peak =
            steps(kernel, clock).with_context(|| format!("this processor has no {kernel:?}"))?;
        let wrong = move |what| WrongResult(format!("{kernel:?} {what}"));
        ensure!(
            peak.is_right(),
            wrong("computes other values than software")
        );
        let (again, chains) = (peak.clone(), Chains::of(arithmetic, chain_cycles));
        let step = move || {
            ensure!(peak.run(), wrong("computed different values in two runs"));
            Ok(peak.operations())
        };
        let probe =
            move |core: &mut CoreClock| clock_at_width(core, clock, &again, chains.as_ref());
        Ok((step, probe))
    };
    let most = ATTEMPTS[usize::from(!rehearsal)];
    // Where threads share CPUs, waiting is the case.
    let share_wanted = match !again || is_crowded || rehearsal {
        true => 0.0,
        false => HAD_SHARE,
    };
    let (share, shared) = attempts(most, share_wanted, || {
        let (begin, before_ns) = (Instant::now(), cpu_time_ns());
        let shared = crew.run_probed(enlist)?;
        let had_ns = cpu_time_ns().saturating_sub(before_ns) as f64;
        let life_ns = begin.elapsed().as_nanos() as f64 * threads as f64;
        Ok((had_ns / life_ns, shared))
    })?;
    if is_crowded {
        // Members that share a CPU are switched by the scheduler: that is the case.
        bench.planned_switches(rusage_self().nivcsw.saturating_sub(switches));
    }
    let mut load = settle(bench, case, &shared, is_crowded);
    load.had = share.min(1.0);
    if !is_crowded && share < HAD_SHARE {
        load.notes.push(format!(
            "the threads had their CPUs {:.0} % of the time only: others used them",
            100.0 * share
        ));
    }
    Ok(load)
}

/// Attempts, each with the share of their lives that its threads were on a CPU, until one has at least
/// `share_wanted`, at most `most`; the one with the greatest share. An attempt in which the threads
/// were never together does not count; any other failure ends it.
pub(crate) fn attempts<T>(
    most: usize,
    share_wanted: f64,
    mut attempt: impl FnMut() -> Result<(f64, T)>,
) -> Result<(f64, T)> {
    let mut best: Option<(f64, T)> = None;
    let mut apart = None;
    for _ in 0..most {
        match attempt() {
            Ok((share, done)) => {
                if best.as_ref().is_none_or(|(have, _)| share > *have) {
                    best = Some((share, done));
                }
                if share >= share_wanted {
                    break;
                }
            }
            Err(error) if error.is::<NeverTogether>() => apart = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (best, apart) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error),
        (None, None) => bail!("no attempt was made"),
    }
}

/// The kernel in runs of about [`STEP_NS`].
fn steps(kernel: Kernel, clock: Clock) -> Option<Peak> {
    let trial = Peak::new(kernel, TRIAL.0)?;
    let lengths = (0..TRIAL.1).map(|_| {
        let start = clock.start();
        trial.run();
        clock.between_ns(start, clock.end())
    });
    let shortest_ns = lengths.fold(f64::INFINITY, f64::min).max(1.0);
    let instructions = trial.instructions() as f64 * STEP_NS / shortest_ns;
    Peak::new(kernel, instructions as u64)
}

/// CPU time of this process so far, ended threads included, in ns.
pub(crate) fn cpu_time_ns() -> u64 {
    let usage = rusage_self();
    usage.utime_ns + usage.stime_ns
}

/// The sum over members, and their clock.
fn settle(bench: &Bench, case: &Case, shared: &Shared, is_crowded: bool) -> Load {
    let cores = case.int("cores").unwrap_or(1) as f64;
    let is_shared = is_crowded || shared.members.len() as f64 > cores;
    let known: Vec<f64> = shared
        .members
        .iter()
        .filter_map(|member| member_hz(member, is_shared))
        .collect();
    let enough = known.len() as f64 >= KNOWN_SHARE * shared.members.len() as f64;
    let mut core_hz =
        (enough && !known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let mut notes = Vec::new();
    if core_hz.is_none() {
        notes.push(
            "no core clock at this width: it moved over the window, others used the CPU while it \
             was taken, or the cycles of its chain are not known on this core and not told by their \
             length"
                .to_owned(),
        );
        if bench.order().rehearsal {
            core_hz = Some(bench.calibration().core_hz);
        }
    }
    if shared.overlap < OVERLAP_SHARE {
        notes.push(format!(
            "all threads worked together in {:.0} % of the window only",
            100.0 * shared.overlap
        ));
    }
    if shared.kernel_clock {
        notes.push(
            "timed by the kernel's clock: the counters of the CPUs are too far apart".to_owned(),
        );
    }
    let steady = shared.members.iter().map(|member| member.steady_rate);
    Load {
        rate: shared.rate(),
        steady_rate: (!is_crowded).then(|| steady.sum()).flatten(),
        core_hz,
        cores_hz: core_hz.map(|hz| hz * cores),
        had: 1.0,
        overlap: shared.overlap,
        threads: shared.members.len(),
        notes,
    }
}

/// A member's clock: the mean of before and after where they agree. Beside a sibling or on a shared
/// CPU a chain may be delayed, never hastened: then the faster.
pub(crate) fn member_hz(member: &Member, is_shared: bool) -> Option<f64> {
    match (member.core_hz_before, member.core_hz_after) {
        (Some(before), Some(after)) if (after / before - 1.0).abs() <= MOVED => {
            Some(f64::midpoint(before, after))
        }
        (before, after) if is_shared => before.into_iter().chain(after).reduce(f64::max),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, attempts, kernel, member_hz, ops_per_cycle, place};
    use crate::experiments::tests::recorded;
    use crate::measure::{Member, NeverTogether, WrongResult};
    use crate::predict::cpu::peak::{Arithmetic, OPS, TYPES, WIDTHS};
    use record::case::Case;
    use record::key::{CaseId, Value};

    #[test]
    fn every_symbol_is_a_kernel() {
        for op in OPS {
            for element in TYPES {
                for width in WIDTHS {
                    let arithmetic = Arithmetic { op, element, width };
                    let kernel = kernel(arithmetic).expect("a kernel of the instrument");
                    let name = format!("{kernel:?}").to_lowercase();
                    for symbol in [op, element, width] {
                        assert!(name.contains(symbol), "{name}: {symbol}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_placed_case_tells_threads_cpus_cores_and_units() {
        let site = recorded("epyc-7763-2s");
        let chief = Arithmetic::chief(&site).unwrap();
        let mut case = Case::new(CaseId::new());
        place(&mut case, &site, chief, &Value::from("twice"));
        assert_eq!(case.int("thread_count"), Some(512));
        assert_eq!(case.int("cores"), Some(128));
        assert_eq!(ops_per_cycle(&case), Some(16.0));
        assert_eq!(case.int("chain_cycles"), Some(4), "a fused one on Zen 3");
        let hybrid = recorded("alder-lake-hybrid");
        let mut case = Case::new(CaseId::new());
        place(&mut case, &hybrid, chief, &Value::from("all"));
        assert_eq!(ops_per_cycle(&case), None, "two designs have no one number");
        assert_eq!(case.int("chain_cycles"), None);
    }

    #[test]
    fn attempts_end_at_the_first_good_one_and_keep_the_best_else() {
        let run = |shares: &[f64]| {
            let mut made = 0;
            let best = attempts(3, 0.9, || {
                made += 1;
                Ok((shares[made - 1], made))
            });
            (best.expect("none fails"), made)
        };
        assert_eq!(run(&[0.95, 0.99]), ((0.95, 1), 1));
        assert_eq!(run(&[0.5, 0.7, 0.6]), ((0.7, 2), 3));
    }

    #[test]
    fn only_threads_that_were_never_together_are_tried_again() {
        let apart = || anyhow::Error::from(NeverTogether { cpus: vec![0, 1] });
        let mut made = 0;
        let best = attempts(3, 0.9, || {
            made += 1;
            if made < 3 {
                Err(apart())
            } else {
                Ok((1.0, made))
            }
        });
        assert_eq!(best.expect("the third is good"), (1.0, 3));
        let none = attempts::<()>(3, 0.9, || Err(apart())).expect_err("none is good");
        assert!(none.is::<NeverTogether>());
        // A wrong value after a window that was disturbed, and before one that would be good.
        let mut made = 0;
        let wrong = attempts(3, 0.9, || {
            made += 1;
            match made {
                1 => Ok((0.5, ())),
                2 => Err(WrongResult("other values".to_owned()).into()),
                _ => Ok((1.0, ())),
            }
        });
        assert!(wrong.expect_err("it computed wrong").is::<WrongResult>());
        assert_eq!(made, 2);
    }

    #[test]
    fn median_steps_are_added_up_only_where_the_threads_had_their_cpus_together() {
        let load = |threads, had, overlap| Load {
            rate: 5.0,
            steady_rate: Some(10.0),
            core_hz: None,
            cores_hz: None,
            had,
            overlap,
            threads,
            notes: Vec::new(),
        };
        let told = |load: Load| {
            let (rate, note) = load.rate_together();
            (rate, note.is_some())
        };
        assert_eq!(told(load(2, 0.97, 0.95)), (10.0, false));
        // Half a CPU each by a quota; threads that ran one after the other.
        assert_eq!(told(load(2, 0.5, 0.95)), (5.0, true));
        assert_eq!(told(load(2, 0.97, 0.5)), (5.0, true));
        // What one core does does not depend on how long it may.
        assert_eq!(told(load(1, 0.5, 0.5)), (10.0, false));
        let crowded = Load {
            steady_rate: None,
            ..load(4, 0.5, 1.0)
        };
        assert_eq!(told(crowded), (5.0, false));
    }

    #[test]
    fn a_clock_that_moved_counts_only_beside_a_sibling() {
        let member = |before, after| Member {
            cpu: 0,
            units: 1.0,
            core_hz_before: before,
            core_hz_after: after,
            late_ns: 0.0,
            steady_rate: None,
        };
        let steady = member(Some(3.00e9), Some(3.02e9));
        assert_eq!(member_hz(&steady, false), Some(3.01e9));
        let moved = member(Some(3.0e9), Some(3.3e9));
        assert_eq!(member_hz(&moved, false), None);
        assert_eq!(member_hz(&moved, true), Some(3.3e9));
        assert_eq!(member_hz(&member(Some(3e9), None), false), None);
        assert_eq!(member_hz(&member(None, None), true), None);
    }
}
