//! The job script of a sweep: a batch script for `sbatch`.
//!
//! Its options are those of Slurm's manual pages `sbatch`(1), `srun`(1) and `sbcast`(1).

use super::JobArgs;
use session::agent::ssh::quoted;
use std::fmt::Write as _;
use std::time::Duration;

/// After its time a node is asked to end; so long later it is killed.
const KILL_AFTER_S: u64 = 10;
/// Time of the job beyond that of its nodes: copies before them, the report after them.
const AROUND: Duration = Duration::from_mins(2);

/// Where a step's tasks end without ending the others.
const STEP: &str = "--ntasks-per-node=1 --cpu-bind=none --mpi=none --no-kill --kill-on-bad-exit=0 \
                    --wait=0";

/// The script of a job on so many nodes: the plumb binary where it is submitted, which is copied to
/// the nodes; the record, in which the job's number stands for `%j`; the options for each node.
pub fn script(
    job: &JobArgs,
    nodes: u32,
    plumb: &str,
    out: &str,
    options: impl Iterator<Item = String>,
) -> String {
    let mut text = format!(
        "#!/bin/bash\n# Made by plumb {}. Submit it with: sbatch THIS_FILE\n",
        env!("CARGO_PKG_VERSION")
    );
    for option in head(job, nodes) {
        let _ = writeln!(text, "#SBATCH {option}");
    }
    let sweep: String = options.map(|word| format!(" {}", quoted(&word))).collect();
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
        out = quoted(out),
        plumb = quoted(plumb),
        scratch = quoted(&job.scratch),
        limit = job.time.as_secs(),
    );
    text
}

/// Options in the script's head: of the whole nodes, and so that the job survives a lost node.
fn head(job: &JobArgs, nodes: u32) -> Vec<String> {
    let minutes = (job.time + AROUND).as_secs().div_ceil(60);
    let own = [
        "--job-name=plumb-fleet".to_owned(),
        format!("--nodes={nodes}"),
        "--ntasks-per-node=1".to_owned(),
        "--exclusive".to_owned(),
        "--mem=0".to_owned(),
        format!("--time={minutes}"),
        "--no-kill".to_owned(),
        "--no-requeue".to_owned(),
        "--output=plumb-fleet-%j.log".to_owned(),
    ];
    // The last one counts.
    own.into_iter().chain(job.sbatch.iter().cloned()).collect()
}
