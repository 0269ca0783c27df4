//! Where threads run that wait for a disk or an interface. The scheduler places them, as it places
//! the threads of other programs, and a case says on which CPUs. Devices with a queue for each CPU
//! interrupt the CPU that asked, so pinning would not mean the same on all machines.

use super::{Peer, Site};
use host::{Host, format_cpus};
use record::case::Case;
use record::key::Value;

impl Peer {
    /// It with other CPUs first than the near end uses, where it has the near end's identity: it is
    /// then that machine itself behind another address, or another guest of the same host, and
    /// CPUs of one number may be one CPU.
    #[must_use]
    pub fn apart(mut self, near: &Host, near_cpus: &[usize]) -> Peer {
        if self.host.identity.hash == near.identity.hash {
            keep_off(&mut self.cpus, &near_cpus[..near_cpus.len().min(OF_AN_END)]);
        }
        self
    }
}

/// CPUs that one end uses at most: that of its round trips, and that of its traffic.
const OF_AN_END: usize = 2;

/// Turns the CPUs until one is first that is not taken, or as far as there is none, not among the
/// first of those taken.
fn keep_off(cpus: &mut [usize], taken: &[usize]) {
    let off = |taken: &[usize]| cpus.iter().position(|cpu| !taken.contains(cpu));
    let first = (1..=taken.len()).rev().find_map(|count| off(&taken[..count]));
    cpus.rotate_left(first.unwrap_or(0));
}

/// The CPUs on which the scheduler places the threads of each end, by the names that a case's facts
/// have.
pub fn facts(site: &Site, has_far: bool) -> Vec<(String, Value)> {
    let named = |name: &str, cpus: &[usize]| {
        let mut all = cpus.to_vec();
        all.sort_unstable();
        (name.to_owned(), Value::from(format_cpus(&all)))
    };
    let Some(peer) = &site.peer else { return vec![named("cpus", &site.cpus)] };
    let mut all = vec![named("near_cpus", &site.cpus)];
    if has_far {
        all.push(named("far_cpus", &peer.cpus));
    }
    all
}

pub fn far_cpu(case: &Case) -> Option<usize> {
    usize::try_from(case.at.get("far_cpu")?.int()?).ok()
}

#[cfg(test)]
mod tests {
    use super::facts;
    use crate::experiment::fixtures::bare_site;
    use crate::experiment::{Peer, Site};
    use record::key::Value;

    fn toward_a_peer() -> Site {
        let here = Site { cpus: vec![2, 0, 1], ..bare_site() };
        let peer = Peer {
            name: "peer".to_owned(),
            address: "10.0.2.7".parse().expect("an address"),
            host: here.host.clone(),
            cpus: vec![3, 1],
            interface: None,
        };
        Site { peer: Some(peer), ..here }
    }

    #[test]
    fn a_case_says_on_which_cpus_its_threads_are() {
        let site = toward_a_peer();
        let fact = |name: &str, cpus: &str| (name.to_owned(), Value::from(cpus));
        assert_eq!(facts(&site, true), [fact("near_cpus", "0-2"), fact("far_cpus", "1,3")]);
        assert_eq!(facts(&site, false), [fact("near_cpus", "0-2")]);
        assert_eq!(facts(&Site { peer: None, ..site }, true), [fact("cpus", "0-2")]);
    }

    #[test]
    fn ends_on_one_machine_use_cpus_of_their_own_as_far_as_there_are_any() {
        let near = toward_a_peer();
        for (of_near, of_far, apart) in [
            (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..], &[2, 3, 0, 1][..]),
            (&[2, 3, 0, 1], &[0, 1, 2, 3], &[0, 1, 2, 3]),
            (&[0, 1, 2], &[0, 1, 2], &[2, 0, 1]),
            (&[1, 0], &[1, 0], &[0, 1]),
            (&[0], &[0, 1], &[1, 0]),
            (&[0], &[0], &[0]),
            (&[], &[0, 1], &[0, 1]),
        ] {
            let peer = near.peer.clone().expect("a peer");
            let peer = Peer { cpus: of_far.to_vec(), ..peer };
            assert_eq!(peer.apart(&near.host, of_near).cpus, apart, "{of_near:?} {of_far:?}");
        }
    }
}
