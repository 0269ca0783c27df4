//! A team at arithmetic, and the core clock while it is: what `cpu.peak` and `cpu.sustained` share.

use super::width::{Chains, clock_at_width};
use bench::measure::{BestWindow, REHEARSAL_NS, best_window};
use bench::prelude::*;
use host::{format_cpus, parse_cpus};
use laws::cpu::peak::{
    Arithmetic, Threads, chain_latency, design_of, distinct_cores, per_cycle, thread_cpus,
};
use metal::peak::{Kernel, Peak};
use metal::process::rusage_self;

/// Length of a step, in ns: long beside a clock read and the check of the results, short beside the
/// time between two interrupts.
const STEP_NS: f64 = 50e3;
/// Instructions of the runs that determine the length of a step, and the number of runs.
const TRIAL: (u64, u32) = (50_000, 3);
/// Share of the members whose clock must be known for the sum.
const KNOWN_SHARE: f64 = 0.75;

/// What a team reached.
pub struct Load {
    /// What its members did.
    pub window: BestWindow,
    /// Whether threads share CPUs.
    pub is_crowded: bool,
    /// Core clock at the kernel's width, mean of the members, in Hz; none where it moved.
    pub core_hz: Option<f64>,
    /// The core clock times the number of cores.
    pub cores_hz: Option<f64>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Writes into a case what its symbols come to: threads, their CPUs, cores, and the operations per
/// cycle of a core that its design is known to do.
pub fn place(case: &mut Case, site: &Site, arithmetic: Arithmetic, threads: Threads) {
    let count = threads.count(site);
    let cpus = thread_cpus(site, count);
    place_threads(case, site, count, &cpus);
    let at = &mut case.at;
    if let Some((operations, _)) = per_cycle(site, arithmetic, &cpus) {
        let text = format!("{operations:.4}");
        at.put("ops_per_cycle", text.trim_end_matches('0').trim_end_matches('.'));
    }
    at.put_known("chain_cycles", chain_latency(site, arithmetic, &cpus));
}

/// Writes into a case on which CPUs its threads run, and of how many cores these are.
pub fn place_threads(case: &mut Case, site: &Site, count: usize, cpus: &[usize]) {
    tell_designs(case, site, cpus);
    case.at.put("thread_count", count as u64);
    case.at.put("cpus", format_cpus(cpus));
    case.at.put("cores", distinct_cores(site, cpus) as u64);
}

pub fn cpus_of(case: &Case) -> Vec<usize> {
    case.at.get("cpus").and_then(Value::text).map(parse_cpus).unwrap_or_default()
}

/// The operations per cycle of a core, from the case's resolution.
pub fn ops_per_cycle(case: &Case) -> Option<f64> {
    case.at.get("ops_per_cycle")?.text()?.parse().ok()
}

/// Runs a placed case's threads at the arithmetic for one shared window; with `again` another one
/// if others had the CPUs in it ([`best_window`]), and with readings of the width probe in it.
/// Errors: the processor lacks the instruction, or in no attempt were the threads at work together;
/// at once where it computes different values than software does ([`WrongResult`]).
pub fn run(
    bench: &mut Bench,
    case: &Case,
    arithmetic: Arithmetic,
    window_ns: f64,
    again: bool,
) -> Result<Load> {
    let kernel = arithmetic.kernel();
    let cpus = cpus_of(case);
    ensure!(!cpus.is_empty(), "the case was not given CPUs");
    let threads = case.int("thread_count").unwrap_or(1) as usize;
    let assigned: Vec<usize> = cpus.iter().copied().cycle().take(threads).collect();
    let clock = bench.order().clock();
    let rehearsal = bench.order().rehearsal;
    let is_crowded = threads > cpus.len();
    // Threads that share a CPU begin one after another, each when the scheduler comes to it.
    let turns = (2 * threads.div_ceil(cpus.len()) - 1) as f64;
    let window_ns =
        if rehearsal && threads > 1 { window_ns.max(turns * REHEARSAL_NS) } else { window_ns };
    let team = bench.team(&assigned, window_ns)?.watched(again && is_probed(case));
    let switches = rusage_self().nivcsw;
    let chain_cycles = case.int("chain_cycles");
    let enlist = |_| {
        let peak =
            steps(kernel, clock).with_context(|| format!("this processor has no {kernel:?}"))?;
        let wrong = move |what| WrongResult(format!("{kernel:?} {what}"));
        ensure!(peak.is_right(), wrong("computes different values than software"));
        let (again, chains) = (peak.clone(), Chains::at_width(arithmetic, chain_cycles));
        let step = move || {
            ensure!(peak.run(), wrong("computed different values in two runs"));
            Ok(peak.operations())
        };
        let probe = move |core: &mut CoreClock| {
            let work = || {
                again.run();
            };
            clock_at_width(core, clock, work, chains.as_ref())
        };
        Ok((step, probe))
    };
    // Where threads share CPUs, waiting is the case.
    let window = best_window(rehearsal, !again || is_crowded, || team.run_probed(enlist))?;
    if is_crowded {
        // Members that share a CPU are switched by the scheduler: that is the case.
        bench.declare(Declared::Switches(rusage_self().nivcsw.saturating_sub(switches)));
    }
    Ok(settle(bench, case, window, is_crowded))
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

/// The sum over members, and their clock.
fn settle(bench: &Bench, case: &Case, window: BestWindow, is_crowded: bool) -> Load {
    let shared = &window.shared;
    let cores = case.int("cores").unwrap_or(1) as f64;
    let is_shared = is_crowded || shared.members.len() as f64 > cores;
    let known: Vec<f64> = shared
        .members
        .iter()
        .filter_map(|member| member.core_hz(is_shared, bench.order().level_alone()))
        .collect();
    let enough = known.len() as f64 >= KNOWN_SHARE * shared.members.len() as f64;
    let mut core_hz =
        (enough && !known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let mut notes = Vec::new();
    if core_hz.is_none() {
        notes.push(
            "no core clock at this width: it moved during the window, other programs used the CPU, \
             or the cycles of its chain are unknown on this core"
                .to_owned(),
        );
        if bench.order().rehearsal {
            core_hz = Some(bench.order().calibration.core_hz);
        }
    }
    notes.extend(shared.notes());
    if !is_crowded {
        notes.extend(window.note());
    }
    Load { core_hz, cores_hz: core_hz.map(|hz| hz * cores), window, is_crowded, notes }
}

/// What a placed case says where its cores are not all of the design that the probe's level was
/// learnt on.
const OTHER_DESIGN: &str = "other_design";

/// Says in a case whether its cores are of the design of the CPU that the run was calibrated on.
fn tell_designs(case: &mut Case, site: &Site, cpus: &[usize]) {
    let calibrated = site.cpus.first().into_iter();
    let all: Vec<usize> = calibrated.chain(cpus).copied().collect();
    if design_of(site, &all).is_none() {
        case.at.put(OTHER_DESIGN, "yes");
    }
}

/// Whether the width probe can be used for a placed case. Each thread needs a core for itself, or
/// the probe would see the case's own threads as neighbours; and the cores must be of the design
/// whose level is known.
pub fn is_probed(case: &Case) -> bool {
    let cores = case.int("cores").zip(case.int("thread_count"));
    cores.is_some_and(|(cores, threads)| cores >= threads) && !case.at.contains_key(OTHER_DESIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::experiment::fixtures::recorded;

    #[test]
    fn a_placed_case_tells_threads_cpus_cores_and_units() {
        let site = recorded("epyc-7763-2s");
        let chief = Arithmetic::chief(&site).unwrap();
        let mut case = Case::new(CaseId::new());
        place(&mut case, &site, chief, Threads::Twice);
        assert_eq!(case.int("thread_count"), Some(512));
        assert_eq!(case.int("cores"), Some(128));
        assert_eq!(ops_per_cycle(&case), Some(16.0));
        assert_eq!(case.int("chain_cycles"), Some(4), "a fused one on Zen 3");
        assert!(!is_probed(&case), "two threads a core");
        place(&mut case, &site, chief, Threads::Number(2));
        assert!(is_probed(&case), "one thread a core");
        let hybrid = recorded("alder-lake-hybrid");
        let mut case = Case::new(CaseId::new());
        place(&mut case, &hybrid, chief, Threads::All);
        assert_eq!(ops_per_cycle(&case), None, "two designs have no one number");
        assert_eq!(case.int("chain_cycles"), None);
        assert!(!is_probed(&case), "their levels of the width probe differ");
    }
}
