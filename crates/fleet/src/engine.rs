//! What an engine's environment says of the place of a node: Slurm, Kubernetes, and launchers of
//! MPI. Nothing of an engine is linked or started here.
//!
//! Sources of the variables: `srun`(1), "Output environment variables"; Kubernetes, "Indexed Job for
//! Parallel Processing with Static Work Assignment"; Open MPI's `mpirun`(1); the process management
//! interfaces PMI-1 and PMIx as `srun --mpi` sets them.

use crate::nodelist;
use crate::place::Place;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Port at which nodes meet where nothing else is said. Below what Linux gives to clients.
pub const MEET_PORT: u16 = 7412;
/// What a manifest or a job script may set, before the engine's own variables: the number of nodes,
/// where they meet (`HOST` or `HOST:PORT`), the name of the node, and its labels (`rack=r1,zone=b`).
pub const SIZE: &str = "PLUMB_FLEET_SIZE";
/// See [`SIZE`].
pub const MEET: &str = "PLUMB_FLEET_MEET";
/// See [`SIZE`].
pub const NAME: &str = "PLUMB_FLEET_NAME";
/// See [`SIZE`].
pub const LABELS: &str = "PLUMB_FLEET_LABELS";
/// Name of the headless Service of an Indexed Job, whose pod 0 is then the meeting point.
pub const SERVICE: &str = "PLUMB_FLEET_SERVICE";

/// A starter of nodes by its variables.
struct Launcher {
    starter: &'static str,
    rank: &'static str,
    /// The first one that is set counts.
    size: &'static [&'static str],
}

const SLURM_RANK: &str = "SLURM_PROCID";
const SLURM_SIZES: &[&str] = &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];

/// In this order: a launcher of MPI may itself be started by Slurm, whose ranks are then those of
/// its helpers.
const LAUNCHERS: [Launcher; 5] = [
    Launcher { starter: "kubernetes", rank: "JOB_COMPLETION_INDEX", size: &[] },
    Launcher { starter: "mpi", rank: "OMPI_COMM_WORLD_RANK", size: &["OMPI_COMM_WORLD_SIZE"] },
    Launcher { starter: "mpi", rank: "PMI_RANK", size: &["PMI_SIZE"] },
    Launcher { starter: "mpi", rank: "PMIX_RANK", size: SLURM_SIZES },
    Launcher { starter: "slurm", rank: SLURM_RANK, size: SLURM_SIZES },
];

/// The place that an environment gives; `None` where no engine started this process. What the engine
/// leaves open is 0 (the size) or empty (the meeting point), for options to fill in. Errors: a
/// variable that does not have the engine's form, or a batch script that runs on one node only.
pub fn place(environment: &BTreeMap<String, String>) -> Result<Option<Place>> {
    let get =
        |name: &str| environment.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let Some(launcher) = LAUNCHERS.iter().find(|launcher| get(launcher.rank).is_some()) else {
        return Ok(None);
    };
    let number = |name: &&str| {
        let text = get(name)?;
        Some(text.parse::<u32>().with_context(|| format!("{name}={text} is not a number")))
    };
    let rank = number(&launcher.rank).transpose()?.unwrap_or_default();
    let size = [SIZE].iter().chain(launcher.size).find_map(number).transpose()?.unwrap_or_default();
    // srun may set the variables of MPI as well.
    let is_slurm = number(&SLURM_RANK).transpose()? == Some(rank);
    let starter = if is_slurm { "slurm" } else { launcher.starter };
    if starter == "slurm" {
        ensure!(
            get("SLURM_STEP_NODELIST").is_some() || size <= 1,
            "this is the job's batch script, which Slurm starts on its first node only; start the \
             nodes with srun, as the script of `plumb fleet slurm` does"
        );
    }
    let name = match starter {
        "slurm" => get(NAME).or_else(|| get("SLURMD_NODENAME")),
        _ => get(NAME),
    };
    let mut labels = get(LABELS).map(labels).transpose()?.unwrap_or_default();
    if let Some(switch) = leaf_switch(get) {
        labels.entry("switch".to_owned()).or_insert(switch);
    }
    Ok(Some(Place {
        rank,
        size,
        meet: meet(get)?.unwrap_or_default(),
        starter: starter.to_owned(),
        name: name.map(str::to_owned),
        labels,
    }))
}

/// Labels of a node: `name=value` with commas between them. Errors: one without a name or a value.
pub fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    text.split(',').map(str::trim).filter(|label| !label.is_empty()).map(label).collect()
}

/// One label, `name=value`. Errors: it lacks its name or its value.
pub fn label(text: &str) -> Result<(String, String)> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let (name, value) =
        parts.filter(|(name, value)| !name.is_empty() && !value.is_empty()).with_context(|| {
            format!("{text:?} is not a label: type NAME=VALUE, for example rack=r1")
        })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Where rank 0 is: as the script or the manifest says; the first host of the job's step; or the pod
/// with index 0.
fn meet<'env>(get: impl Fn(&str) -> Option<&'env str>) -> Result<Option<String>> {
    if let Some(meet) = get(MEET) {
        return Ok(Some(with_port(meet)));
    }
    let lists = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"].map(&get);
    if let Some(list) = lists.into_iter().flatten().next() {
        let first = nodelist::hosts(list)?.into_iter().next().unwrap_or_default();
        return Ok(Some(with_port(launcher(&first, lists[1], get).unwrap_or(&first))));
    }
    let pod = get("JOB_COMPLETION_INDEX").zip(get("HOSTNAME")).and_then(|(index, host)| {
        // The host name of an Indexed Job's pod is the job's, a hyphen, and the index.
        let job = host.strip_suffix(index)?.strip_suffix('-')?;
        Some(format!("{job}-0.{}:{MEET_PORT}", get(SERVICE)?))
    });
    Ok(pod)
}

/// The address of the step's first host, where Slurm says it: the batch script runs on the first host
/// of the job, and so does the srun that it starts. Not every site gives its nodes' names addresses.
fn launcher<'env>(
    first: &str,
    job: Option<&str>,
    get: impl Fn(&str) -> Option<&'env str>,
) -> Option<&'env str> {
    let is_same = job.and_then(|job| nodelist::hosts(job).ok()).is_some_and(|job| job[0] == first);
    let is_batch = is_same && get("ENVIRONMENT") == Some("BATCH");
    let address = get("SLURM_LAUNCH_NODE_IPADDR").filter(|_| is_batch)?;
    // A host may have its own name at loopback.
    let is_reached = address.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback());
    is_reached.then_some(address)
}

/// A host with [`MEET_PORT`] where it has no port.
fn with_port(host: &str) -> String {
    let is_bare_v6 = host.matches(':').count() > 1 && !host.starts_with('[');
    match host.rsplit_once(':') {
        _ if is_bare_v6 => format!("[{host}]:{MEET_PORT}"),
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{MEET_PORT}"),
    }
}

/// The switch that the node is plugged into, where the site describes its network to Slurm
/// (topology/tree): the last one before the node in `SLURM_TOPOLOGY_ADDR`.
fn leaf_switch<'env>(get: impl Fn(&str) -> Option<&'env str>) -> Option<String> {
    let kinds = get("SLURM_TOPOLOGY_ADDR_PATTERN")?;
    let names = get("SLURM_TOPOLOGY_ADDR")?;
    let last = kinds.split('.').zip(names.split('.')).filter(|(kind, _)| *kind == "switch").last();
    last.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{labels, place};
    use crate::place::Place;
    use std::collections::BTreeMap;

    /// `A=1 B=2` as an environment.
    fn found(variables: &str) -> Option<Place> {
        place(&environment(variables)).unwrap()
    }

    fn environment(variables: &str) -> BTreeMap<String, String> {
        let variables = variables.split_whitespace().map(|one| one.split_once('=').unwrap());
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[track_caller]
    fn is(variables: &str, rank: u32, size: u32, meet: &str, starter: &str) -> Place {
        let place = found(variables).unwrap();
        let seen = (place.rank, place.size, place.meet.as_str(), place.starter.as_str());
        assert_eq!(seen, (rank, size, meet, starter), "{variables}");
        place
    }

    #[test]
    fn no_engine_is_no_place() {
        assert_eq!(found("PATH=/bin HOSTNAME=a PLUMB_FLEET_SIZE=3"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn slurm_gives_all() {
        let step = "SLURM_PROCID=2 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=4 SLURMD_NODENAME=n3 \
                    SLURM_JOB_NODELIST=n[0-8] SLURM_STEP_NODELIST=n[1-3,7] \
                    SLURM_LAUNCH_NODE_IPADDR=10.0.0.9 SLURM_JOB_ID=17";
        let place = is(step, 2, 4, "n1:7412", "slurm");
        assert_eq!(place.name.as_deref(), Some("n3"));
        assert!(place.labels.is_empty());
        // srun --mpi=pmix sets more.
        is(&format!("{step} PMIX_RANK=2 PMI_RANK=2 PMI_SIZE=4"), 2, 4, "n1:7412", "slurm");
        is(&format!("{step} PLUMB_FLEET_MEET=10.0.0.1"), 2, 4, "10.0.0.1:7412", "slurm");
        is(&format!("{step} PLUMB_FLEET_MEET=fd00::1"), 2, 4, "[fd00::1]:7412", "slurm");
    }

    #[test]
    fn a_batch_job_knows_the_address_of_its_first_node() {
        let step = "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n[1-2] ENVIRONMENT=BATCH";
        for (more, meet) in [
            ("SLURM_JOB_NODELIST=n[1-3] SLURM_LAUNCH_NODE_IPADDR=10.0.0.1", "10.0.0.1:7412"),
            ("SLURM_JOB_NODELIST=n[1-3] SLURM_LAUNCH_NODE_IPADDR=127.0.1.1", "n1:7412"),
            ("SLURM_JOB_NODELIST=n[0-3] SLURM_LAUNCH_NODE_IPADDR=10.0.0.9", "n1:7412"),
            ("SLURM_JOB_NODELIST=n[1-3]", "n1:7412"),
        ] {
            is(&format!("{step} {more}"), 1, 2, meet, "slurm");
        }
    }

    #[test]
    fn the_network_that_slurm_knows_gives_the_switch() {
        let place = found(
            "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n[1-2] \
             SLURM_TOPOLOGY_ADDR=s0.s[4-6].s8.n1 SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.switch.node \
             PLUMB_FLEET_LABELS=rack=r7",
        );
        let labels = place.unwrap().labels;
        assert_eq!(labels, environment("rack=r7 switch=s8"));
    }

    #[test]
    fn a_batch_script_is_not_a_step() {
        let batch = environment("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_NODELIST=n[1-4]");
        assert!(place(&batch).unwrap_err().to_string().contains("srun"));
    }

    #[test]
    fn ranks_of_mpi_go_before_those_of_its_helpers() {
        let inside = "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n[1-2] \
                      OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3";
        is(inside, 1, 3, "n1:7412", "mpi");
        is("PMI_RANK=1 PMI_SIZE=3", 1, 3, "", "mpi");
        is("PMIX_RANK=1 PLUMB_FLEET_SIZE=3 PLUMB_FLEET_MEET=h:99", 1, 3, "h:99", "mpi");
        is("PMIX_RANK=1", 1, 0, "", "mpi");
    }

    #[test]
    fn an_indexed_job_meets_at_its_first_pod() {
        let pod = "JOB_COMPLETION_INDEX=12 HOSTNAME=sweep-12 PLUMB_FLEET_SIZE=16";
        let place = is(
            &format!("{pod} PLUMB_FLEET_SERVICE=plumb PLUMB_FLEET_NAME=node-a"),
            12,
            16,
            "sweep-0.plumb:7412",
            "kubernetes",
        );
        assert_eq!(place.name.as_deref(), Some("node-a"));
        is(pod, 12, 16, "", "kubernetes");
    }

    #[test]
    fn what_has_another_form_is_refused() {
        for variables in [
            "SLURM_PROCID=x SLURM_NTASKS=2",
            "PMI_RANK=-1 PMI_SIZE=3",
            "PMI_RANK=1 PMI_SIZE=three",
            "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n[1",
            "JOB_COMPLETION_INDEX=0 PLUMB_FLEET_LABELS=rack",
        ] {
            assert!(place(&environment(variables)).is_err(), "{variables}");
        }
    }

    #[test]
    fn labels_have_names_and_values() {
        assert_eq!(labels("rack=r1, zone=b").unwrap(), environment("rack=r1 zone=b"));
        assert_eq!(labels("").unwrap(), BTreeMap::new());
        for bad in ["rack", "=r1", "rack="] {
            assert!(labels(bad).is_err(), "{bad}");
        }
    }
}
