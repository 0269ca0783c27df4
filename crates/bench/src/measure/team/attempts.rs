//! Windows again where others had the CPUs: by that counter, never by the rate that was reached.

use super::window::{Member, NeverTogether, Shared};
use crate::measure::width::Stretch;
use anyhow::{Result, bail};
use metal::process::rusage_self;
use stats::width::is_alone;
use std::time::Instant;

/// Attempts at a window in which all members work, in a rehearsal and else: a busy machine may take
/// a CPU away for the whole of a short one.
const ATTEMPTS: [usize; 2] = [10, 3];
/// Share of their lives that threads with CPUs of their own are on them, start and end included; an
/// attempt with less is made again.
const HAD_SHARE: f64 = 0.93;
/// Share of the window asked for in which all members should have worked.
const OVERLAP_SHARE: f64 = 0.9;
/// Relative difference of a member's clocks before and after above which it has none.
const MOVED: f64 = 0.01;
/// Least window of several members in a rehearsal, which has to work on busy machines too.
pub const REHEARSAL_NS: f64 = 5e6;

/// A window, and how far its members had their CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct BestWindow {
    pub shared: Shared,
    /// Share of their lives that they were on a CPU, at most 1.
    pub share: f64,
}

impl BestWindow {
    /// Units per second in the median steps of all members together, where they may be added up:
    /// they had their CPUs and worked at the same time. A quota, steal or other load leaves most
    /// steps of each as they are, and their sum would be a rate that the machine never reached.
    pub fn steady_rate(&self) -> Option<f64> {
        let members = &self.shared.members;
        let together = self.share >= HAD_SHARE && self.shared.overlap >= OVERLAP_SHARE;
        (members.len() == 1 || together)
            .then(|| members.iter().map(|member| member.steady_rate).sum())
            .flatten()
    }

    /// What a reader must know where the members had their CPUs too little.
    pub fn note(&self) -> Option<String> {
        (self.share < HAD_SHARE).then(|| {
            format!(
                "the threads had their CPUs only {:.0} % of the time: others used them",
                100.0 * self.share
            )
        })
    }
}

impl Shared {
    /// Stretches of all members, which begin together and are about as long, added up.
    pub fn stretches(&self) -> Vec<Stretch> {
        let fewest = self.members.iter().map(|member| member.stretches.len());
        let sum = |at: usize| {
            let of_each = self.members.iter().map(|member| member.stretches[at]);
            of_each.reduce(|sum, one| Stretch {
                rate: sum.rate + one.rate,
                width: sum.width.min(one.width),
            })
        };
        (0..fewest.min().unwrap_or(0)).filter_map(sum).collect()
    }

    /// What a reader must know of the window.
    pub fn notes(&self) -> Vec<String> {
        let apart = (self.overlap < OVERLAP_SHARE).then(|| {
            format!(
                "all threads ran at the same time in only {:.0} % of the window",
                100.0 * self.overlap
            )
        });
        let clock = self.kernel_clock.then(|| {
            "timed by the kernel's clock: the counters of the CPUs are too far apart".to_owned()
        });
        apart.into_iter().chain(clock).collect()
    }
}

impl Member {
    /// The member's core clock: the mean of before and after where they agree. A chain beside a
    /// sibling, on a CPU that several threads use or on a core that others had (a stretch below
    /// `level`, that of a core that is alone) may be delayed, never hastened: then the faster, or
    /// the one there is.
    pub fn core_hz(&self, has_siblings: bool, level: Option<f64>) -> Option<f64> {
        match (self.core_hz_before, self.core_hz_after) {
            (Some(before), Some(after)) if (after / before - 1.0).abs() <= MOVED => {
                Some(f64::midpoint(before, after))
            }
            (before, after) if has_siblings || self.was_shared(level) => {
                before.into_iter().chain(after).reduce(f64::max)
            }
            _ => None,
        }
    }

    /// Whether others had half of its core in any of its stretches.
    fn was_shared(&self, level: Option<f64>) -> bool {
        level.is_some_and(|level| {
            let mut stretches = self.stretches.iter();
            stretches.any(|stretch| !is_alone(stretch.width, level))
        })
    }
}

/// Windows of a team until in one its members had their CPUs (at least 93 % of their lives; with
/// `any` that does not count), three in all or ten in a rehearsal; the one in which they had most.
/// One in which they were never together does not count. Errors: any other failure of a window, at
/// once; or in none were they together.
pub fn best_window(
    rehearsal: bool,
    any: bool,
    mut run: impl FnMut() -> Result<Shared>,
) -> Result<BestWindow> {
    let wanted = if any || rehearsal { 0.0 } else { HAD_SHARE };
    let most = ATTEMPTS[usize::from(!rehearsal)];
    let (share, shared) = attempts(most, wanted, || {
        let (begin, before_ns) = (Instant::now(), cpu_time_ns());
        let shared = run()?;
        let had_ns = cpu_time_ns().saturating_sub(before_ns) as f64;
        let life_ns = begin.elapsed().as_nanos() as f64 * shared.members.len() as f64;
        Ok((had_ns / life_ns, shared))
    })?;
    Ok(BestWindow { shared, share: share.min(1.0) })
}

/// CPU time of this process so far, ended threads included, in ns.
fn cpu_time_ns() -> u64 {
    let usage = rusage_self();
    usage.utime_ns + usage.stime_ns
}

/// Attempts, each with the share of their lives that its threads were on a CPU, until one has at
/// least `wanted`, at most `most`; the one with the greatest share.
fn attempts<T>(
    most: usize,
    wanted: f64,
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
                if share >= wanted {
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

#[cfg(test)]
mod tests {
    use super::{BestWindow, attempts};
    use super::{Member, NeverTogether, Shared, Stretch};
    use crate::measure::WrongResult;

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
            if made < 3 { Err(apart()) } else { Ok((1.0, made)) }
        });
        assert_eq!(best.expect("a good one"), (1.0, 3));
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

    fn member(before: Option<f64>, after: Option<f64>) -> Member {
        Member {
            units: 1.0,
            core_hz_before: before,
            core_hz_after: after,
            steady_rate: Some(5.0),
            ..Member::default()
        }
    }

    #[test]
    fn a_clock_that_moved_counts_only_beside_others() {
        let steady = member(Some(3.00e9), Some(3.02e9));
        assert_eq!(steady.core_hz(false, None), Some(3.01e9));
        let moved = member(Some(3.0e9), Some(3.3e9));
        assert_eq!(moved.core_hz(false, None), None);
        assert_eq!(moved.core_hz(true, None), Some(3.3e9));
        assert_eq!(member(Some(3e9), None).core_hz(false, None), None);
        assert_eq!(member(None, None).core_hz(true, None), None);
    }

    #[test]
    fn a_core_that_others_had_in_a_stretch_has_the_faster_of_its_clocks() {
        let beside = |widths: &[f64], before, after| {
            let stretch = |width: &f64| Stretch { rate: 1.0, width: *width };
            let mut member = member(before, after);
            member.stretches = widths.iter().map(stretch).collect();
            member.core_hz(false, Some(4.0))
        };
        assert_eq!(beside(&[4.0, 2.1], Some(3e9), None), Some(3e9));
        assert_eq!(beside(&[4.0, 2.1], Some(3e9), Some(3.3e9)), Some(3.3e9));
        assert_eq!(beside(&[2.1], None, None), None);
        // Alone throughout: the clock moved, or is not known.
        assert_eq!(beside(&[4.0, 3.9], Some(3e9), Some(3.3e9)), None);
        assert_eq!(beside(&[4.0], Some(3e9), None), None);
    }

    #[test]
    fn median_steps_are_added_up_only_where_the_threads_had_their_cpus_together() {
        let steady = |threads, share, overlap| {
            let shared = Shared {
                window_ns: 1e6,
                overlap,
                kernel_clock: false,
                way: 0,
                members: vec![member(None, None); threads],
            };
            let had = BestWindow { shared, share };
            (had.steady_rate(), had.note().is_some(), had.shared.notes().len())
        };
        assert_eq!(steady(2, 0.97, 0.95), (Some(10.0), false, 0));
        // Half a CPU each by a quota; threads that ran one after the other.
        assert_eq!(steady(2, 0.5, 0.95), (None, true, 0));
        assert_eq!(steady(2, 0.97, 0.5), (None, false, 1));
        // What one core does does not depend on how long it may.
        assert_eq!(steady(1, 0.5, 0.95), (Some(5.0), true, 0));
    }
}
