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
    /// The pair's case in cpu.core_to_core.
    pub case: CaseId,
    /// Rounds that show it.
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
    let values =
        of_pairs.filter_map(|samples| Some((samples.case.clone(), median(&samples.raw.values())?)));
    let pairs = gathered(values).into_iter().filter_map(|(case, values)| {
        let [near, far] = groups(&sorted(&values), FACTOR)?;
        Some(Moved { case, rounds: values.len(), near, far })
    });
    // Of equals the first.
    pairs.collect::<Vec<_>>().into_iter().rev().max_by_key(|pair| pair.rounds)
}

fn counts(run: &Run, samples: &Samples) -> bool {
    let is_it = |round: &Round| round.series == samples.series && round.n == samples.round;
    run.rounds.iter().any(|round| is_it(round) && round.status == RoundStatus::Ok)
}

#[cfg(test)]
pub(crate) mod tests {
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
    pub(crate) fn run(times_ns: &[f64]) -> Run {
        let mut run = sample::run();
        for round in &mut run.rounds {
            round.disturbed.clear();
        }
        let (round, samples) = (run.rounds[0].clone(), run.samples[0].clone());
        for (n, ns) in (1..).zip(times_ns) {
            let series = SERIES.to_owned();
            run.rounds.push(Round {
                series: series.clone(),
                n,
                status: RoundStatus::Ok,
                ..round.clone()
            });
            let case = CaseId::new().with("from", 0_u64).with("to", 1_u64);
            let (raw, metric) = (Raw::Event { values: vec![*ns; 9] }, "transfer".to_owned());
            let own = Samples { series, case, metric, raw, round: n, visit: 0, ..samples.clone() };
            run.samples.push(own);
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
