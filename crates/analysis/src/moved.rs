//! Whether the host moved the virtual CPUs between groups of cores while they were measured.
//!
//! A guest cannot see on which cores its CPUs run. But the time of a cache line between two of them
//! (cpu.core_to_core) depends on whether they share a last-level cache, by a factor of three to
//! five. If the rounds of one pair fall into two groups with nothing in between, the pair had two
//! distances: the hypervisor moved at least one of the CPUs.

use super::facts::IS_GUEST;
use super::gather::gathered;
use record::event::{Round, RoundStatus, Samples};
use record::key::CaseId;
use record::run::Run;
use stats::modes::{Mode, groups};
use stats::quantile::{median, sorted};

/// The evidence: series whose rounds show the distance of two CPUs, and the metric.
const SERIES: &str = "cpu.core_to_core/";
const METRIC: &str = "transfer";

/// How much farther apart two CPUs are in another place: more than noise, contention or the line's
/// home make of a round's median.
const FACTOR: f64 = 2.0;

/// Two distances of one pair of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The pair, as cpu.core_to_core names it.
    pub pair: CaseId,
    pub rounds: usize,
    /// The rounds in which the CPUs were near each other, in ns.
    pub near: Mode,
    /// Those in which they were farther apart.
    pub far: Mode,
}

impl Moved {
    /// The share of the rounds in the rarer place.
    pub fn share(&self) -> f64 {
        self.near.share.min(self.far.share)
    }
}

/// The clearest evidence that the host of a guest moved its CPUs: that of the pair with most
/// rounds. `None` for other machines, and where every pair kept its distance.
pub fn moved(run: &Run) -> Option<Moved> {
    if !IS_GUEST.holds(run, &[]) {
        return None;
    }
    let of_pairs = run.samples.iter().filter(|samples| {
        let is_first = samples.visit == 0 && samples.metric == METRIC;
        is_first && samples.series.starts_with(SERIES) && counts(run, samples)
    });
    let times = of_pairs.filter_map(|samples| {
        let of = (samples.series.as_str(), pair(&samples.case), samples.round);
        Some((of, median(&samples.raw.values())?))
    });
    // A disturbance lengthens one of a round's cases, a move all of one pair.
    let rounds = gathered(times).into_iter().map(|((series, pair, _), times)| {
        ((series, pair), times.into_iter().fold(f64::INFINITY, f64::min))
    });
    let pairs = gathered(rounds).into_iter().filter_map(|((_, pair), values)| {
        let [near, far] = groups(&sorted(&values), FACTOR)?;
        Some(Moved { pair, rounds: values.len(), near, far })
    });
    // Of equals the first.
    pairs.collect::<Vec<_>>().into_iter().rev().max_by_key(|pair| pair.rounds)
}

/// A case without which of the two CPUs is which.
fn pair(case: &CaseId) -> CaseId {
    match case.int("from").zip(case.int("to")) {
        Some((from, to)) => CaseId::new().with("from", from.min(to)).with("to", from.max(to)),
        None => CaseId(case.0.iter().filter(|(name, _)| name != "home").cloned().collect()),
    }
}

fn counts(run: &Run, samples: &Samples) -> bool {
    let is_it = |round: &Round| round.series == samples.series && round.n == samples.round;
    run.rounds.iter().any(|round| is_it(round) && round.status == RoundStatus::Ok)
}

#[cfg(test)]
mod tests {
    use super::moved;
    use crate::causes;
    use crate::figure::Figure;
    use crate::findings::findings;
    use crate::health::health;
    use crate::quality::{Aspect, Grade, quality};
    use crate::{figures, sample};
    use record::event::{Ending, Raw, Round, RoundStatus, Samples};
    use record::key::CaseId;
    use record::run::Run;

    const SERIES: &str = "cpu.core_to_core/matrix";

    /// The sample's run as a guest's that was `measured` without disturbance, with these times of a
    /// line in its rounds, in ns.
    fn run(times_ns: &[f64]) -> Run {
        both_ways(times_ns, times_ns)
    }

    /// The same with other times on the way back.
    fn both_ways(there_ns: &[f64], back_ns: &[f64]) -> Run {
        let mut run = sample::run();
        for round in &mut run.rounds {
            round.disturbed.clear();
        }
        let (round, samples) = (run.rounds[0].clone(), run.samples[0].clone());
        for (n, (there, back)) in (1..).zip(there_ns.iter().zip(back_ns)) {
            let series = SERIES.to_owned();
            run.rounds.push(Round {
                series: series.clone(),
                n,
                status: RoundStatus::Ok,
                ..round.clone()
            });
            for (from, to, ns) in [(0_u64, 1_u64, there), (1, 0, back)] {
                let case = CaseId::new().with("from", from).with("to", to);
                let (raw, metric) = (Raw::Event { values: vec![*ns; 9] }, "transfer".to_owned());
                let series = series.clone();
                let own =
                    Samples { series, case, metric, raw, round: n, visit: 0, ..samples.clone() };
                run.samples.push(own);
            }
        }
        run
    }

    const KEPT: [f64; 6] = [43.0, 49.0, 52.0, 56.0, 58.0, 44.0];
    const MOVED: [f64; 8] = [25.0, 27.0, 122.0, 26.0, 28.0, 25.5, 121.0, 24.0];

    #[test]
    fn two_distances_of_one_pair_show_that_it_was_moved() {
        let found = moved(&run(&MOVED)).expect("two groups");
        assert_eq!((found.rounds, found.near.centre, found.far.centre), (8, 25.75, 121.5));
        assert_eq!((found.share(), found.far.share), (0.25, 0.25));
        assert_eq!(moved(&run(&KEPT)), None);
        assert_eq!(moved(&run(&MOVED[..3])), None, "one round is no group");
        assert_eq!(moved(&both_ways(&MOVED, &[26.0; 8])), None, "one way alone was disturbed");
        assert_eq!(moved(&sample::run()), None);
        // A round that does not count shows nothing, and no machine of its own moves its CPUs.
        let mut void = run(&MOVED);
        for round in void.rounds.iter_mut().filter(|round| round.series == SERIES && round.n == 3) {
            round.status = RoundStatus::Void("was moved".to_owned());
        }
        assert_eq!(moved(&void), None);
        let mut bare = run(&MOVED);
        bare.header.host["kernel"]["virtualisation"]["is_guest"] = false.into();
        assert_eq!(moved(&bare), None);
    }

    #[test]
    fn a_run_whose_cpus_were_moved_is_no_good_one_and_says_why() {
        let seen = |times: &[f64]| {
            let run = run(times);
            let quality = quality(&run).expect("has rounds");
            let aspect = quality.aspects.iter().find(|(aspect, ..)| *aspect == Aspect::Moved);
            let findings = findings(&run, &figures(&run));
            let count =
                findings.iter().filter(|finding| finding.cause == causes::MOVED_CPUS).count();
            (health(&run).moved, aspect.map(|(.., grade)| *grade), quality.grade, count)
        };
        assert_eq!(seen(&KEPT), (None, None, Grade::Good, 0));
        assert_eq!(seen(&MOVED), (Some(0.25), Some(Grade::Fair), Grade::Fair, 1));
    }

    #[test]
    fn what_depends_on_where_cpus_are_is_touched() {
        let touched = |experiment: &str, case: CaseId| {
            let figure =
                Figure { case, ..Figure::absent(experiment, Ending::Measured, String::new()) };
            causes::is_moved(&figure)
        };
        let case = |name: &str, value: &str| CaseId::new().with(name, value);
        for (experiment, case, expected) in [
            ("memory.latency", case("level", "L3"), true),
            ("memory.latency", case("level", "L1"), false),
            ("memory.bandwidth", case("threads", "all"), true),
            ("memory.bandwidth", CaseId::new().with("threads", 1_u64), false),
            ("os.ipc", case("pair", "llc"), true),
            ("os.ipc", case("pair", "same"), false),
            ("net.rtt", case("ends", "other_cpu"), true),
            ("cpu.core_to_core", CaseId::new().with("from", 0_u64), true),
            ("cpu.peak", case("threads", "all"), false),
        ] {
            assert_eq!(touched(experiment, case.clone()), expected, "{experiment} {case}");
        }
    }
}
