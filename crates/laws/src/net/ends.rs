//! Where both ends of an experiment run, and what carries their messages.

use super::{Transport, Waking};
use bench::experiment::{Domain, Site};
use bench::symbols;

symbols! {
    /// Where both ends run.
    pub enum Ends {
        /// One thread holds both sockets.
        OneThread = "one_thread",
        /// Two processes on one CPU.
        SameCpu = "same_cpu",
        /// Two processes on two CPUs of a host.
        OtherCpu = "other_cpu",
        /// Two processes on two hosts.
        TwoHosts = "two_hosts",
    }
}
symbols! {
    /// What carries messages.
    pub enum Protocol { Tcp = "tcp", Udp = "udp" }
}

impl Protocol {
    /// What its packets look like.
    pub fn transport(self) -> Transport {
        match self {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
        }
    }
}

impl Ends {
    /// The domain where one thread cannot be both.
    pub const TWO: Domain = Domain::Symbols(&["same_cpu", "other_cpu", "two_hosts"]);

    pub fn present(site: &Site) -> Vec<Ends> {
        match (&site.peer, site.cpus.len()) {
            (Some(_), _) => vec![Ends::TwoHosts],
            (None, 0 | 1) => vec![Ends::OneThread, Ends::SameCpu],
            (None, _) => vec![Ends::OneThread, Ends::SameCpu, Ends::OtherCpu],
        }
    }

    /// The CPUs of both ends, the near one's first; none where a site does not allow them.
    pub fn cpus(self, site: &Site) -> Option<[usize; 2]> {
        let near = *site.cpus.first()?;
        let far = match (self, &site.peer) {
            (Ends::OneThread | Ends::SameCpu, None) => near,
            (Ends::OtherCpu, None) => *site.cpus.get(1)?,
            (Ends::TwoHosts, Some(peer)) => peer.cpus.first().copied().unwrap_or(0),
            _ => return None,
        };
        Some([near, far])
    }

    pub fn waking(self) -> Waking {
        match self {
            Ends::OneThread => Waking::Nobody,
            Ends::SameCpu => Waking::Same,
            Ends::OtherCpu => Waking::Other,
            Ends::TwoHosts => Waking::Interrupt,
        }
    }

    /// CPUs of the threads of one end, a thread for each connection: pairs of CPUs one after
    /// another where both ends are on two CPUs of this host, else the end's CPUs in turn.
    pub fn spread(self, cpus: &[usize], is_near: bool, connections: u64) -> Vec<usize> {
        let of = |at: usize| cpus.get(at % cpus.len().max(1)).copied().unwrap_or(0);
        (0..usize::try_from(connections).unwrap_or(1))
            .map(|number| match self {
                Ends::OtherCpu => {
                    let whole_pairs = (cpus.len() / 2).max(1);
                    of(2 * (number % whole_pairs) + usize::from(!is_near))
                }
                _ => of(number),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Ends;
    use bench::experiment::fixtures::joined::joined;
    use bench::experiment::fixtures::sites;

    #[test]
    fn every_site_has_places_for_both_ends() {
        for site in sites() {
            for ends in Ends::present(&site) {
                let [near, far] = ends.cpus(&site).expect("is present");
                assert_eq!(near == far, ends != Ends::OtherCpu);
                assert!(site.cpus.contains(&far));
            }
            assert_eq!(Ends::present(&site).contains(&Ends::OtherCpu), site.cpus.len() > 1);
        }
        let mut site = joined("", "");
        if let Some(peer) = &mut site.peer {
            peer.cpus = vec![5, 6];
        }
        assert_eq!(Ends::present(&site), [Ends::TwoHosts]);
        assert_eq!(Ends::TwoHosts.cpus(&site).expect("a peer")[1], 5);
        assert_eq!(Ends::SameCpu.cpus(&site), None);
    }

    #[test]
    fn each_connection_has_a_pair_of_cpus_as_far_as_there_are_some() {
        let here = [4, 7, 9, 2, 5];
        for (cpus, ends, is_near, count, expected) in [
            (&here[..], Ends::OtherCpu, true, 3, &[4, 9, 4][..]),
            (&here, Ends::OtherCpu, false, 3, &[7, 2, 7]),
            (&here, Ends::SameCpu, true, 2, &[4, 7]),
            (&here, Ends::SameCpu, false, 2, &[4, 7]),
            (&here[..2], Ends::OtherCpu, false, 4, &[7; 4]),
            (&here[..1], Ends::TwoHosts, false, 2, &[4; 2]),
        ] {
            assert_eq!(ends.spread(cpus, is_near, count), expected, "{ends:?}");
        }
    }
}
