//! The place of one node in a sweep, as what started it says: its rank among how many, and where
//! they meet.

use anyhow::{Result, ensure};
use std::collections::BTreeMap;

/// Most nodes of a sweep.
pub const SIZE_MAX: u32 = 100_000;

/// A node's place in a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// 0 to size - 1.
    pub rank: u32,
    /// Number of nodes of the sweep.
    pub size: u32,
    /// Where they meet: `HOST:PORT` of rank 0.
    pub meet: String,
    /// What started the node: `slurm`, `kubernetes`, `mpi`, `ssh` or `options`.
    pub starter: String,
    /// Name of the node, as the engine calls it; the host name where absent.
    pub name: Option<String>,
    /// What the site says of the node: `rack`, `instance_type`, `zone`, `switch`, by name.
    pub labels: BTreeMap<String, String>,
}

impl Place {
    /// Checks that the place is one. Errors: no such rank, a size that no sweep has, or no meeting
    /// point.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (1..=SIZE_MAX).contains(&self.size),
            "a sweep has 1 to {SIZE_MAX} nodes, not {}: correct --size",
            self.size
        );
        ensure!(
            self.rank < self.size,
            "rank {} of {} nodes does not exist: ranks go from 0 to {}",
            self.rank,
            self.size,
            self.size - 1
        );
        self.meeting().map(drop)
    }

    /// Host and port of the meeting point. Errors: it is not `HOST:PORT`.
    pub fn meeting(&self) -> Result<(&str, u16)> {
        let parts = self.meet.rsplit_once(':').and_then(|(host, port)| {
            let host =
                host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
        });
        let way_out = "the meeting point is HOST:PORT of rank 0, for example 10.1.2.3:7412";
        parts.ok_or_else(|| anyhow::anyhow!("--meet {}: {way_out}", self.meet))
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    fn place(rank: u32, size: u32, meet: &str) -> Place {
        Place { rank, size, meet: meet.to_owned(), ..Place::default() }
    }

    #[test]
    fn a_place_is_a_rank_below_a_size_and_a_meeting_point() {
        assert_eq!(place(0, 1, "node0:7412").meeting().unwrap(), ("node0", 7412));
        assert_eq!(place(0, 1, "[fd00::1]:7412").meeting().unwrap(), ("fd00::1", 7412));
        assert!(place(3, 4, "10.0.0.1:1").check().is_ok());
        for (rank, size, meet) in [
            (4, 4, "a:1"),
            (0, 0, "a:1"),
            (0, 200_000, "a:1"),
            (0, 2, "a"),
            (0, 2, ":1"),
            (0, 2, "a:x"),
        ] {
            assert!(place(rank, size, meet).check().is_err(), "{rank} {size} {meet}");
        }
    }
}
