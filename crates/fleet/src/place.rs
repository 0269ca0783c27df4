//! The place of a node in its sweep, as what started it says: its rank, and the hosts of all ranks.
//!
//! Nothing of an engine is linked or started here. Sources of the variables: `srun`(1), "Output
//! environment variables"; Kubernetes, "Indexed Job for Parallel Processing with Static Work
//! Assignment"; Open MPI's `mpirun`(1); the process management interfaces PMI-1 and PMIx as `srun --mpi`
//! sets them.

use crate::hosts::{List, address};
use crate::nodelist;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most nodes of a sweep.
pub const SIZE_MAX: u32 = 100_000;

/// What the command line says of the place; it comes before the environment.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub rank: Option<u32>,
    pub size: Option<u32>,
    /// Name of the headless Service of an Indexed Job.
    pub service: Option<String>,
    pub list: Option<List>,
    /// Name of this host; the kernel's, where neither this nor the engine has one.
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: u32,
    pub list: List,
    /// What started the node: slurm, kubernetes, mpi or options.
    pub starter: &'static str,
}

impl Place {
    /// This node's name in the list.
    pub fn host(&self) -> &str {
        &self.list.hosts[self.rank as usize]
    }
}

/// A starter by its variables; the first size that is set counts.
struct Launcher {
    starter: &'static str,
    rank: &'static str,
    size: &'static [&'static str],
}

const SLURM_SIZES: &[&str] = &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];

/// In this order: a launcher of MPI may itself be started by Slurm, whose ranks are then those of its
/// helpers.
const LAUNCHERS: [Launcher; 5] = [
    Launcher { starter: "kubernetes", rank: "JOB_COMPLETION_INDEX", size: &[] },
    Launcher { starter: "mpi", rank: "OMPI_COMM_WORLD_RANK", size: &["OMPI_COMM_WORLD_SIZE"] },
    Launcher { starter: "mpi", rank: "PMI_RANK", size: &["PMI_SIZE"] },
    Launcher { starter: "mpi", rank: "PMIX_RANK", size: SLURM_SIZES },
    Launcher { starter: "slurm", rank: "SLURM_PROCID", size: SLURM_SIZES },
];

/// The place of this node. Errors: neither options nor environment give one, or they contradict each
/// other; the message says what to type.
pub fn place(environment: &BTreeMap<String, String>, given: &Given) -> Result<Place> {
    let get =
        |name: &str| environment.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let number = |name: &str| -> Result<Option<u32>> {
        let Some(text) = get(name) else { return Ok(None) };
        let number = text.parse().with_context(|| format!("{name}={text} is not a number"))?;
        Ok(Some(number))
    };
    let launcher = LAUNCHERS.iter().find(|launcher| get(launcher.rank).is_some());
    let mut starter = launcher.map_or("options", |launcher| launcher.starter);
    let engine_rank = launcher.map(|launcher| number(launcher.rank)).transpose()?.flatten();
    // srun may set the variables of MPI as well.
    if engine_rank.is_some() && number("SLURM_PROCID")? == engine_rank {
        starter = "slurm";
    }
    let sizes = launcher.map_or(&[][..], |launcher| launcher.size);
    let size = sizes.iter().find_map(|name| number(name).transpose()).transpose()?;
    let size = given.size.or(size);
    let list = match (&given.list, get("SLURM_STEP_NODELIST"), starter) {
        (Some(list), ..) => list.clone(),
        (None, Some(nodes), "slurm") => List::new(nodelist::hosts(nodes)?),
        (None, None, "slurm") => bail!(
            "Slurm started no step here: start the nodes with srun, which the batch script does not \
             do by itself"
        ),
        (None, _, "kubernetes") => List::new(pods(&get, given, size)?),
        _ => bail!("which hosts take part is not known: type --hosts FILE, a host a line"),
    };
    let hosts = list.size();
    ensure!(hosts <= SIZE_MAX, "a sweep has at most {SIZE_MAX} nodes, and the list has {hosts}");
    if let Some(size) = size.filter(|size| *size != hosts) {
        bail!("the list has {hosts} hosts, but {size} nodes were started: start one on each");
    }
    let kernel = get("HOSTNAME");
    let name = given.name.as_deref().or_else(|| get("SLURMD_NODENAME")).or(kernel);
    let rank = given.rank.or_else(|| rank_by_name(&list, name)).or(engine_rank);
    let rank = rank.with_context(|| {
        let name = name.unwrap_or("this host");
        format!("{name} is not in the list of hosts: correct the list, or type --rank R")
    })?;
    let last = hosts - 1;
    ensure!(rank <= last, "rank {rank} does not exist: {hosts} hosts have the ranks 0 to {last}");
    Ok(Place { rank, list, starter })
}

/// The rank of a host by its address, or by its name or the part of that before the first dot.
fn rank_by_name(list: &List, name: Option<&str>) -> Option<u32> {
    fn short(name: &str) -> &str {
        let is_address = name.parse::<IpAddr>().is_ok();
        if is_address { name } else { name.split('.').next().unwrap_or_default() }
    }
    let name = short(name?);
    let is_it = |listed: &String| address(listed).is_ok_and(|(host, _)| short(host) == name);
    let places: Vec<u32> =
        (0..).zip(&list.hosts).filter(|(_, listed)| is_it(listed)).map(|(at, _)| at).collect();
    // Several entries of one host differ in their ports: the engine's rank says which one this is.
    <[u32; 1]>::try_from(places).ok().map(|[place]| place)
}

/// The pods of an Indexed Job, whose names in its Service are the job's, a hyphen and their index.
fn pods<'env>(
    get: &impl Fn(&str) -> Option<&'env str>,
    given: &Given,
    size: Option<u32>,
) -> Result<Vec<String>> {
    let size = size.context("type --size N, the number of the Job's completions")?;
    ensure!(size <= SIZE_MAX, "a sweep has at most {SIZE_MAX} nodes");
    let service = given.service.as_deref().context("type --service NAME, the headless Service")?;
    let pod = get("JOB_COMPLETION_INDEX")
        .zip(get("HOSTNAME"))
        .and_then(|(index, host)| host.strip_suffix(index)?.strip_suffix('-'));
    let job = pod.context("HOSTNAME is not that of an Indexed Job's pod: set no hostname there")?;
    Ok((0..size).map(|index| format!("{job}-{index}.{service}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{Given, place};
    use crate::hosts::List;
    use anyhow::Result;

    /// `starter rank host size` of variables, and of a list, the name of a Service or nothing.
    fn found(variables: &str, list: &str) -> Result<String> {
        let variables = variables.split_whitespace().filter_map(|one| one.split_once('='));
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut given = Given { rank: (list == "n[1-3]!2").then_some(2), ..Given::default() };
        match list.strip_prefix("service ") {
            Some(service) => (given.service, given.size) = (Some(service.to_owned()), Some(16)),
            None if list.is_empty() => {}
            None => given.list = Some(List::parse(list.trim_end_matches("!2"))?),
        }
        let place = place(&variables.collect(), &given)?;
        Ok(format!("{} {} {} {}", place.starter, place.rank, place.host(), place.list.size()))
    }

    #[test]
    fn each_engine_gives_rank_hosts_and_size() {
        let step = "SLURM_PROCID=2 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=4 SLURMD_NODENAME=n3 \
                    SLURM_JOB_NODELIST=n[0-8] SLURM_STEP_NODELIST=n[1-3,7]";
        let ports = "10.0.0.1:1\n10.0.0.1:2\n10.0.0.1:3\n";
        let ompi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 SLURM_PROCID=0 SLURM_NTASKS=1";
        for (variables, list, expected) in [
            (step, "", "slurm 2 n3 4"),
            // As srun --mpi=pmix sets them.
            (&format!("{step} PMIX_RANK=2 PMI_RANK=2 PMI_SIZE=4"), "", "slurm 2 n3 4"),
            (ompi, ports, "mpi 1 10.0.0.1:2 3"),
            ("PMI_RANK=1 PMI_SIZE=3", ports, "mpi 1 10.0.0.1:2 3"),
            ("PMIX_RANK=1", ports, "mpi 1 10.0.0.1:2 3"),
            (
                "JOB_COMPLETION_INDEX=12 HOSTNAME=plumb-12",
                "service sweep",
                "kubernetes 12 plumb-12.sweep 16",
            ),
            ("HOSTNAME=n2.example.org", "n[1-3]", "options 1 n2 3"),
            ("HOSTNAME=10.0.0.2", "10.0.0.1\n10.0.0.2\n", "options 1 10.0.0.2 2"),
            ("HOSTNAME=elsewhere", "n[1-3]!2", "options 2 n3 3"),
        ] {
            assert_eq!(found(variables, list).unwrap(), expected, "{variables}");
        }
    }

    #[test]
    fn what_does_not_fit_is_one_line() {
        for (variables, list, part) in [
            ("", "", "--hosts FILE"),
            ("HOSTNAME=x", "n[1-3]", "x is not in the list"),
            ("PMI_RANK=1 PMI_SIZE=4", "n[1-3]", "the list has 3 hosts, but 4 nodes"),
            ("PMI_RANK=three", "n[1-3]", "PMI_RANK=three"),
            ("PMI_RANK=7", "n[1-3]", "rank 7"),
            ("JOB_COMPLETION_INDEX=0 HOSTNAME=a-0", "", "--size N"),
            ("JOB_COMPLETION_INDEX=0 HOSTNAME=a", "service a", "set no hostname there"),
            ("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n[1", "", "n[1"),
            ("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_NODELIST=n[1-4]", "", "with srun"),
        ] {
            let error = format!("{:#}", found(variables, list).unwrap_err());
            assert!(error.contains(part) && error.lines().count() == 1, "{variables}: {error}");
        }
    }
}
