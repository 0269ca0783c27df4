//! Manifests for Kubernetes, of one namespace: a sweep as an Indexed Job.
//!
//! Kubernetes starts, places and ends the nodes; the manifests only ask for what a measurement needs:
//! one pod on each node, whole CPUs that no other pod shares, and no rights. The fields are those of
//! batch/v1 Job, apps/v1 DaemonSet, core/v1 Service and Secret (Kubernetes API reference, 1.33 and
//! newer, in which `backoffLimitPerIndex` is stable); the tests read them as those types.

pub mod valid;
pub mod yaml;

use crate::engine::{LABELS, MEET, NAME, SERVICE, SIZE};
use crate::secret::VARIABLE as KEY;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of the variable that has the name of the node: pods that share a node are never a pair.
pub const NODE_NAME: &str = "PLUMB_NODE_NAME";
/// The user and group of the containers: the one that images without users take (`nobody` is shared).
pub const USER: u32 = 65_532;
/// Where a container keeps its records.
const DATA: &str = "/data";
/// The label of all objects of one sweep.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// Every node has its own value of this label.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What all pods have.
#[derive(Clone, Debug)]
pub struct Pods {
    /// Name of all objects: a DNS label (RFC 1035).
    pub name: String,
    /// Namespace; where absent, the one that `kubectl` uses.
    pub namespace: Option<String>,
    /// Image with plumb as its entry point.
    pub image: String,
    /// Labels that the nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Memory, as a quantity of Kubernetes.
    pub memory: String,
    /// Whether the pods use the network of their nodes instead of the one of pods.
    pub host_network: bool,
}

/// A sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Its pods.
    pub pods: Pods,
    /// Number of nodes.
    pub nodes: u32,
    /// Whole CPUs of each pod.
    pub cpus: u32,
    /// Port at which the nodes meet at the first one.
    pub port: u16,
    /// Time after which Kubernetes ends the sweep.
    pub deadline: Duration,
    /// The secret of the nodes, as a key file has it.
    pub key: String,
    /// A claim of a persistent volume that keeps the records; they end with the pods otherwise.
    pub claim: Option<String>,
    /// Options of `plumb fleet node`.
    pub options: Vec<String>,
}

/// The Secret, the headless Service and the Indexed Job of a sweep.
pub fn sweep(sweep: &Sweep) -> Vec<Value> {
    let pods = &sweep.pods;
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": pods.metadata(),
        "type": "Opaque",
        "stringData": {KEY: sweep.key},
    });
    // Nodes find the first one by its name before it is ready.
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pods.metadata(),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {INSTANCE: pods.name},
            "ports": [{"name": "meet", "port": sweep.port, "protocol": "TCP"}],
        },
    });
    let mut spec = pods.spec(sweep.container());
    for (name, value) in [
        ("restartPolicy", json!("Never")),
        // The pods of an Indexed Job have host names; with the Service's they have addresses.
        ("subdomain", json!(pods.name)),
        ("affinity", pods.one_a_node()),
        ("volumes", json!([data_volume(sweep.claim.as_deref())])),
    ] {
        spec[name] = value;
    }
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pods.metadata(),
        "spec": {
            "completionMode": "Indexed",
            "completions": sweep.nodes,
            "parallelism": sweep.nodes,
            // A node that fails costs its own figures: it is not started again in mid-sweep, and
            // the others go on.
            "backoffLimitPerIndex": 0,
            "activeDeadlineSeconds": sweep.deadline.as_secs(),
            "template": {"metadata": pods.pod_metadata(), "spec": spec},
        },
    });
    vec![secret, service, job]
}

impl Sweep {
    fn container(&self) -> Value {
        let pods = &self.pods;
        let mut args = vec!["fleet".to_owned(), "node".to_owned()];
        args.extend(["--out".to_owned(), format!("{DATA}/{}.jsonl", pods.name)]);
        args.extend(["--records".to_owned(), DATA.to_owned()]);
        args.extend_from_slice(&self.options);
        let meet = format!("{0}-0.{0}:{1}", pods.name, self.port);
        // Pods of one node, which have one value of `host`, are never a pair.
        let labels = format!("network={},host=$({NODE_NAME})", pods.network());
        // The files of a Secret belong to root, and a key file must belong to its reader.
        let key = json!({
            "name": KEY,
            "valueFrom": {"secretKeyRef": {"name": pods.name, "key": KEY}},
        });
        let mut container = pods.container(
            args,
            vec![
                variable(NAME, &format!("$({NODE_NAME})")),
                variable(SIZE, &self.nodes.to_string()),
                variable(MEET, &meet),
                variable(SERVICE, &pods.name),
                variable(LABELS, &labels),
                key,
            ],
        );
        // Requests that equal the limits, in whole CPUs, make the pod Guaranteed: a kubelet with
        // the static CPU manager gives it CPUs of its own.
        let resources = json!({"cpu": self.cpus.to_string(), "memory": pods.memory});
        container["resources"] = json!({"requests": resources, "limits": resources});
        container["volumeMounts"] = json!([
            {"name": "data", "mountPath": DATA},
        ]);
        container
    }
}

impl Pods {
    /// `host` or `pod`: whose network is measured.
    fn network(&self) -> &'static str {
        if self.host_network { "host" } else { "pod" }
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": "plumb",
            INSTANCE: self.name,
            "plumb-network": self.network(),
        })
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"name": self.name, "labels": self.labels()});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    fn pod_metadata(&self) -> Value {
        json!({"labels": self.labels()})
    }

    /// No two pods of this name on one node.
    fn one_a_node(&self) -> Value {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {INSTANCE: self.name}},
            "topologyKey": HOSTNAME,
        }]}})
    }

    /// A pod without rights, and without what it does not need of the cluster.
    fn spec(&self, container: Value) -> Value {
        let mut spec = json!({
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        });
        if self.host_network {
            spec["hostNetwork"] = json!(true);
            // Names of the cluster, as pods of its own network see them.
            spec["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        }
        if !self.node_selector.is_empty() {
            spec["nodeSelector"] = json!(self.node_selector);
        }
        spec
    }

    fn container(&self, args: Vec<String>, more: Vec<Value>) -> Value {
        // Later variables refer to the first.
        let node = json!({
            "name": NODE_NAME,
            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        });
        let own = [
            variable("HOME", DATA),
            variable("TMPDIR", DATA),
            variable("PLUMB_STORE", &format!("{DATA}/runs")),
        ];
        let env: Vec<Value> = std::iter::once(node).chain(own).chain(more).collect();
        json!({
            "name": "plumb",
            "image": self.image,
            "args": args,
            "env": env,
            "workingDir": DATA,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        })
    }
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn data_volume(claim: Option<&str>) -> Value {
    match claim {
        Some(claim) => json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}),
        None => json!({"name": "data", "emptyDir": {}}),
    }
}

#[cfg(test)]
mod tests;
