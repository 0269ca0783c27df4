//! A real Slurm: several nodes, what is planted in them, and what a sweep says of it.

use crate::cluster::Cluster;
use crate::network::Special;

/// The cluster itself: ranks, names, and jobs that run.
#[test]
fn a_cluster_runs_jobs() {
    let cluster = Cluster::start(3, |_| Special::default());
    let said = cluster.says(
        "srun",
        &[
            "-N3",
            "--ntasks-per-node=1",
            "sh",
            "-c",
            "echo $SLURM_PROCID $SLURMD_NODENAME $(hostname)",
        ],
    );
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 n1 n1", "1 n2 n2", "2 n3 n3"]);
}
