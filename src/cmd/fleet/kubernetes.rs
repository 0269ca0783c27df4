//! `plumb fleet kubernetes`: manifests for the objects of one namespace.

use crate::cmd::{Failure, output};
use fleet::kubernetes::{Pods, Sweep, sweep, valid, yaml};
use record::order::Gather;
use session::agent::key::Key;
use std::time::Duration;

/// Prints manifests for Kubernetes: a sweep as an Indexed Job
///
/// A sweep is a Job with one pod on each of N nodes, a headless Service by which the pods meet, and a
/// Secret with a new random key. The pods have whole CPUs (requests equal limits), no rights and a
/// read-only root. A pod that fails is not started again, and does not end the others.
#[derive(clap::Args)]
#[command(after_help = "\
  plumb fleet kubernetes -N 16 --image registry.example.com/plumb:0.1.0 > plumb.yaml
  kubectl apply -f plumb.yaml && kubectl wait --for=condition=complete --timeout=1h job/plumb
  plumb fleet kubernetes -N 16 --image IMAGE --host-network --name plumb-host -- --preset quick

The manifests contain the key of the sweep: print new ones for each sweep, and delete the objects with \
`kubectl delete -f plumb.yaml`. With --host-network the pods use the network of their nodes, without it that \
of pods: the figures of two sweeps, which have the label `network`, show what the pods' network costs.")]
pub struct Args {
    /// Number of nodes, with a pod on each
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    nodes: u32,
    /// Image whose entry point is plumb (packaging/Containerfile)
    #[arg(long, value_name = "IMAGE", value_parser = valid::image)]
    image: String,
    /// Name of the objects
    #[arg(long, value_name = "NAME", default_value = "plumb", value_parser = valid::label)]
    name: String,
    /// Namespace [default: the one that kubectl uses]
    #[arg(long, value_name = "NAME", value_parser = valid::label)]
    namespace: Option<String>,
    /// Label that the nodes must have, for example kubernetes.io/arch=amd64; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = valid::node_label)]
    node_selector: Vec<(String, String)>,
    /// Memory of each pod
    #[arg(long, value_name = "QUANTITY", default_value = "4Gi", value_parser = valid::memory)]
    memory: String,
    /// Use the network of the nodes instead of the network of pods
    #[arg(long)]
    host_network: bool,
    /// Whole CPUs of each pod
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus: u32,
    /// Port at which the nodes meet at the first one
    #[arg(long, value_name = "PORT", default_value_t = 7412, value_parser = clap::value_parser!(u16).range(1024..))]
    port: u16,
    /// Longest time of the sweep, after which Kubernetes ends it
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = time)]
    time: Duration,
    /// Claim of a persistent volume that keeps the records [default: they end with the pods]
    #[arg(long, value_name = "NAME", value_parser = valid::label)]
    claim: Option<String>,
    /// Options of `plumb fleet node`
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Longest time of a sweep.
const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if (Duration::from_secs(60)..=TIME_MAX).contains(&time) => Ok(time),
        Ok(_) => Err("type a duration from 1m to 7days, for example 1h".to_owned()),
        Err(error) => Err(format!("{error}: type a duration, for example 1h")),
    }
}

/// What a reader of the manifests should know.
const SWEEP: &str = "\
A sweep of plumb over the nodes of a cluster. The Secret below is the key of this sweep: treat the file as one.
The seccomp profile RuntimeDefault filters system calls: the figures of os.syscall include the filter.";
const HOST_NETWORK: &str = "A namespace that enforces the Pod Security Standards `baseline` or `restricted` refuses hostNetwork.";

/// Prints the manifests.
pub fn run(args: Args) -> Result<(), Failure> {
    let nodes = args.nodes;
    let pods = Pods {
        name: valid::name(&args.name, nodes)
            .map_err(|error| Failure::Usage(format!("--name {}: {error}", args.name)))?,
        namespace: args.namespace,
        image: args.image,
        node_selector: args.node_selector.into_iter().gather(),
        memory: args.memory,
        host_network: args.host_network,
    };
    let host_network = if args.host_network { HOST_NETWORK } else { "" };
    let key = Key::random()?.digits();
    let (cpus, port, deadline) = (args.cpus, args.port, args.time);
    let (claim, options) = (args.claim, args.options);
    let objects = sweep(&Sweep { pods, nodes, cpus, port, deadline, key, claim, options });
    Ok(output::print(&yaml::documents(&format!("{SWEEP}\n{host_network}"), &objects))?)
}
