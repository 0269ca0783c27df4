//! The job script of a sweep: a batch script for `sbatch`.
//!
//! Its options are those of Slurm's manual pages `sbatch`(1), `srun`(1) and `sbcast`(1).

use session::agent::ssh::quoted;
use std::fmt::Write as _;
use std::time::Duration;

/// After its time a node is asked to end; so long later it is killed.
const KILL_AFTER_S: u64 = 10;
/// Time of the job beyond that of its nodes: copies before them, the report after them.
const AROUND: Duration = Duration::from_mins(2);

/// What a job script is made from.
pub struct Job {
    /// Number of nodes.
    pub nodes: u32,
    /// Longest time of a node; the job's is a little longer.
    pub limit: Duration,
    /// Name of the plumb binary where the script is submitted, which is copied to the nodes.
    pub plumb: String,
    /// Directory that every node has for itself, for the copy.
    pub scratch: String,
    /// The record; the job's number stands for `%j` in it.
    pub out: String,
    /// Options for `sbatch`, as the user types them.
    pub sbatch: Vec<String>,
    /// Options of the sweep, for each node.
    pub sweep: Vec<String>,
}

/// Where a step's tasks end without ending the others.
const STEP: &str = "--ntasks-per-node=1 --cpu-bind=none --mpi=none --no-kill --kill-on-bad-exit=0 \
                    --wait=0";

impl Job {
    /// The script.
    pub fn script(&self) -> String {
        let mut text = format!(
            "#!/bin/bash\n# Made by plumb {}. Submit it with: sbatch THIS_FILE\n",
            env!("CARGO_PKG_VERSION")
        );
        for option in self.options() {
            let _ = writeln!(text, "#SBATCH {option}");
        }
        let sweep: String = self.sweep.iter().map(|word| format!(" {}", quoted(word))).collect();
        let _ = write!(
            text,
            r#"
set -u
umask 077
plumb={plumb}
out={out}
out=${{out//%j/$SLURM_JOB_ID}}
step="srun --nodes=$SLURM_JOB_NUM_NODES {STEP}"

if [ ! -x "$plumb" ]; then
  echo "plumb: $plumb is not on this node; name a path on a shared file system with --plumb" >&2
  exit 1
fi

# The nodes prove to each other that they have this secret. It is removed with the job.
key=$PWD/.plumb-fleet-$SLURM_JOB_ID.key
trap 'rm -f "$key"' EXIT
"$plumb" agent --new-key "$key" || exit

# Each node gets copies of the binary and of the secret, which it removes at its end.
copy={scratch}/plumb-fleet-$SLURM_JOB_ID
if $step mkdir -m 700 "$copy" && sbcast --preserve "$plumb" "$copy/plumb" && sbcast --preserve "$key" "$copy/key"
then
  node=$copy/plumb secret=$copy/key
else
  echo "plumb: sbcast does not work here; all nodes use $plumb and $key, which must be on a file system that they share" >&2
  node=$plumb secret=$key
fi

# A node that dies or takes too long ends by itself; the others go on.
$step bash -c '
  trap "rm -rf \"$0\"" EXIT
  timeout --kill-after={KILL_AFTER_S} {limit} "$@"
' "$copy" "$node" fleet node --key-file "$secret" --out "$out"{sweep}

"$plumb" fleet report "$out"
"#,
            out = quoted(&self.out),
            plumb = quoted(&self.plumb),
            scratch = quoted(&self.scratch),
            limit = self.limit.as_secs(),
        );
        text
    }

    /// Options in the script's head: of the whole nodes, and so that the job survives a lost node.
    fn options(&self) -> Vec<String> {
        let minutes = (self.limit + AROUND).as_secs().div_ceil(60);
        let own = [
            "--job-name=plumb-fleet".to_owned(),
            format!("--nodes={}", self.nodes),
            "--ntasks-per-node=1".to_owned(),
            "--exclusive".to_owned(),
            "--mem=0".to_owned(),
            format!("--time={minutes}"),
            "--no-kill".to_owned(),
            "--no-requeue".to_owned(),
            "--output=plumb-fleet-%j.log".to_owned(),
        ];
        // The last one counts.
        own.into_iter().chain(self.sbatch.iter().cloned()).collect()
    }
}
