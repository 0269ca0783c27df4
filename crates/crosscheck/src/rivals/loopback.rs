//! Both ends of a rival on this host, on the CPUs where plumb's ends are.

use crate::table::{Entry, entry};
use crate::{Conditions, Pairing};
use bench::experiment::Skip;

/// A program at the near end, beside an experiment of the net family.
pub(super) const fn near_end(program: &'static str, experiment: &'static str) -> Entry {
    Entry { limit_s: 30, budget_s: 60, ..entry(program, experiment) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// The parameter `ends` of plumb's experiments.
    pub symbol: &'static str,
    pub near: usize,
    pub far: usize,
}

impl Ends {
    pub fn one_cpu(conditions: &Conditions) -> Ends {
        let cpu = conditions.cpus[0];
        Ends { symbol: "same_cpu", near: cpu, far: cpu }
    }

    /// Each on a CPU of its own; why not, where there is one only. plumb takes the CPUs of `--cpu`
    /// in the order of their numbers: the near end has the lower one.
    pub fn two_cpus(conditions: &Conditions) -> Result<Ends, Skip> {
        match conditions.cpus[..] {
            [one, other, ..] => {
                Ok(Ends { symbol: "other_cpu", near: one.min(other), far: one.max(other) })
            }
            _ => Err(Skip::because("one CPU to measure on, and the ends have one each")
                .needs("two CPUs: --cpu 0,1")),
        }
    }

    /// Both on one CPU, or on two; where there is one alone, why two are not available.
    pub fn chosen(conditions: &Conditions, on_one_cpu: bool) -> (Ends, Option<Skip>) {
        match Ends::two_cpus(conditions) {
            Ok(ends) if !on_one_cpu => (ends, None),
            two => (Ends::one_cpu(conditions), two.err().filter(|_| !on_one_cpu)),
        }
    }

    pub fn cpus(&self) -> Vec<usize> {
        let mut cpus = vec![self.near, self.far];
        cpus.dedup();
        cpus
    }

    /// The pairing with both sides' ends on these CPUs.
    pub fn place(&self, mut pairing: Pairing) -> Pairing {
        pairing.theirs.cpus = vec![self.near];
        if let Some(server) = &mut pairing.theirs.server {
            server.cpus = vec![self.far];
        }
        Pairing { ours: pairing.ours.on(&self.cpus()), ..pairing }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::Ends;
    use crate::{Conditions, Pairing, Rival};
    use bench::experiment::Preset;
    use bench::experiment::fixtures::{recorded, sites};
    use host::{format_cpus, parse_cpus};

    /// What both sides have on a recorded machine, with so many of its CPUs.
    pub fn conditions(machine: &str, cpus: usize, preset: Preset, version: &str) -> Conditions {
        let version = version.to_owned();
        Conditions { version, ..crate::tests::conditions(&recorded(machine), preset, cpus) }
    }

    /// Laws of a rival with two ends: of each pairing plumb's CPUs, as `--cpu` gives them to it,
    /// are those of the rival's ends, in their order, and what needs two CPUs is skipped where
    /// there is one. The pairings that can run, by the number of CPUs.
    pub fn check(rival: &Rival, version: &str) -> [Vec<Pairing>; 2] {
        let names = |pairings: &[Pairing]| -> Vec<String> {
            pairings.iter().map(|pairing| pairing.name.clone()).collect()
        };
        let of = |machine: &str, cpus, preset| {
            (rival.pairings)(&conditions(machine, cpus, preset, version))
        };
        for (machine, cpus) in [("epyc-7763-2s", 256), ("vm-granite-rapids", 2), ("graviton3", 1)] {
            let all = names(&of(machine, cpus, Preset::Standard));
            for preset in [Preset::Rehearsal, Preset::Quick] {
                let few = names(&of(machine, cpus, preset));
                assert!(!few.is_empty() && few.iter().all(|name| all.contains(name)));
                assert!(few.len() < all.len() || all.len() == 1);
            }
        }
        [1, 2].map(|cpus| {
            let mut pairings = of("epyc-7763-2s", cpus, Preset::Standard);
            pairings.retain(|pairing| pairing.skip.is_none());
            pairings.iter().for_each(on_the_same_cpus);
            pairings
        })
    }

    fn on_the_same_cpus(pairing: &Pairing) {
        let mut site = recorded("epyc-7763-2s");
        site.cpus = parse_cpus(&format_cpus(&pairing.ours.cpus));
        let theirs = &pairing.theirs;
        let Some(server) = &theirs.server else {
            assert_eq!(theirs.cpus, site.cpus, "{}", pairing.name);
            return;
        };
        let ends = pairing.ours.setting("ends").expect("an experiment with two ends");
        let ends = laws::net::Ends::ALL.iter().find(|of| of.text() == ends).expect("known");
        let [near, far] = ends.cpus(&site).expect("is present");
        assert_eq!((&theirs.cpus, &server.cpus), (&vec![near], &vec![far]));
    }

    #[test]
    fn the_near_end_has_the_lower_cpu_and_one_cpu_is_not_two() {
        let mut conditions = conditions("epyc-7763-2s", 256, Preset::Quick, "1");
        conditions.cpus = vec![9, 4, 7];
        let ends = Ends::two_cpus(&conditions).expect("two");
        assert_eq!((ends.near, ends.far, ends.cpus()), (4, 9, vec![4, 9]));
        assert_eq!(Ends::one_cpu(&conditions).cpus(), [9]);
        conditions.cpus.truncate(1);
        let skip = Ends::two_cpus(&conditions).expect_err("one");
        assert!(skip.needed.is_some());
        assert!(sites().len() > 2);
    }
}
