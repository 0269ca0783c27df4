use super::{NODE_NAME, Pods, Sweep, USER, sweep, yaml};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, PodSpec, Secret, Service};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

fn pods(host_network: bool) -> Pods {
    Pods {
        name: "plumb".to_owned(),
        namespace: Some("lab".to_owned()),
        image: "registry.example.com/plumb:0.1.0".to_owned(),
        node_selector: [("kubernetes.io/arch".to_owned(), "amd64".to_owned())].into(),
        memory: "4Gi".to_owned(),
        host_network,
    }
}

fn a_sweep(host_network: bool) -> Vec<Value> {
    sweep(&Sweep {
        pods: pods(host_network),
        nodes: 16,
        cpus: 4,
        port: 7412,
        deadline: Duration::from_secs(3600),
        key: "0a".repeat(32),
        claim: (!host_network).then(|| "records".to_owned()),
        options: ["--preset", "quick"].map(str::to_owned).into(),
    })
}

/// The objects as a reader of the printed text gets them.
fn read(objects: &[Value]) -> Vec<Value> {
    let text = yaml::documents("a comment: [", objects);
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(read, objects, "{text}");
    read
}

/// An object as its type of the API, with no field that the type does not know: those are lost when
/// it is written again.
#[track_caller]
fn typed<T: Serialize + DeserializeOwned>(object: &Value, kind: &str) -> T {
    assert_eq!(object["kind"], kind);
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), *object);
    typed
}

fn only(spec: &PodSpec) -> &Container {
    assert_eq!(spec.containers.len(), 1);
    &spec.containers[0]
}

fn variable<'c>(container: &'c Container, name: &str) -> Option<&'c str> {
    let all = container.env.as_ref().unwrap();
    all.iter().find(|one| one.name == name).unwrap().value.as_deref()
}

#[track_caller]
fn has_no_rights(spec: &PodSpec) {
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(spec.enable_service_links, Some(false));
    let pod = spec.security_context.as_ref().unwrap();
    assert_eq!(pod.run_as_non_root, Some(true));
    let user = Some(i64::from(USER));
    assert_eq!((pod.run_as_user, pod.run_as_group, pod.fs_group), (user, user, user));
    assert_eq!(pod.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
    let own = only(spec).security_context.as_ref().unwrap();
    assert_eq!(own.allow_privilege_escalation, Some(false));
    assert_eq!(own.read_only_root_filesystem, Some(true));
    assert_eq!(own.privileged, None);
    let capabilities = own.capabilities.as_ref().unwrap();
    assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(capabilities.add, None);
    assert_eq!((spec.host_pid, spec.host_ipc), (None, None));
}

#[test]
fn a_sweep_is_an_indexed_job_with_a_pod_on_each_node_and_whole_cpus() {
    let objects = read(&a_sweep(false));
    let job: Job = typed(&objects[2], "Job");
    assert_eq!(job.metadata.namespace.as_deref(), Some("lab"));
    let of_job = job.spec.as_ref().unwrap();
    assert_eq!(of_job.completion_mode.as_deref(), Some("Indexed"));
    assert_eq!((of_job.completions, of_job.parallelism), (Some(16), Some(16)));
    assert_eq!((of_job.backoff_limit_per_index, of_job.max_failed_indexes), (Some(0), None));
    assert_eq!(of_job.active_deadline_seconds, Some(3600));
    let labels = of_job.template.metadata.as_ref().unwrap().labels.as_ref().unwrap();
    let spec = of_job.template.spec.as_ref().unwrap();
    // Kubernetes allows a limit for each index with no other policy.
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    has_no_rights(spec);
    let affinity = spec.affinity.as_ref().unwrap().pod_anti_affinity.as_ref().unwrap();
    let apart = affinity.required_during_scheduling_ignored_during_execution.as_ref().unwrap();
    assert_eq!(apart[0].topology_key, "kubernetes.io/hostname");
    let selected = apart[0].label_selector.as_ref().unwrap().match_labels.as_ref().unwrap();
    assert!(selected.iter().all(|(name, value)| labels.get(name) == Some(value)));
    let container = only(spec);
    let resources = container.resources.as_ref().unwrap();
    let (requests, limits) = (resources.requests.as_ref(), resources.limits.as_ref());
    assert_eq!(requests, limits);
    assert_eq!(
        (&limits.unwrap()["cpu"].0, &limits.unwrap()["memory"].0),
        (&"4".to_owned(), &"4Gi".to_owned())
    );
    assert_eq!(spec.node_selector.as_ref().unwrap()["kubernetes.io/arch"], "amd64");
}

#[test]
fn pods_meet_by_the_headless_service_and_know_their_nodes() {
    let objects = read(&a_sweep(false));
    let service: Service = typed(&objects[1], "Service");
    let of_service = service.spec.as_ref().unwrap();
    assert_eq!(of_service.cluster_ip.as_deref(), Some("None"));
    assert_eq!(of_service.publish_not_ready_addresses, Some(true));
    let job: Job = typed(&objects[2], "Job");
    let template = &job.spec.as_ref().unwrap().template;
    let labels = template.metadata.as_ref().unwrap().labels.as_ref().unwrap();
    let selector = of_service.selector.as_ref().unwrap();
    assert!(selector.iter().all(|(name, value)| labels.get(name) == Some(value)));
    let spec = template.spec.as_ref().unwrap();
    assert_eq!(spec.subdomain, service.metadata.name);
    let container = only(spec);
    assert_eq!(variable(container, "PLUMB_FLEET_MEET"), Some("plumb-0.plumb:7412"));
    assert_eq!(variable(container, "PLUMB_FLEET_SIZE"), Some("16"));
    let all = container.env.as_ref().unwrap();
    let node = all.iter().position(|one| one.name == NODE_NAME).unwrap();
    let source = all[node].value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
    assert_eq!(source.field_path, "spec.nodeName");
    // A variable refers to those before it.
    assert_eq!(variable(container, "PLUMB_FLEET_NAME"), Some("$(PLUMB_NODE_NAME)"));
    for name in ["PLUMB_FLEET_NAME", "PLUMB_FLEET_LABELS"] {
        assert!(node < all.iter().position(|one| one.name == name).unwrap());
    }
}

#[test]
fn the_key_is_a_secret_and_the_records_have_a_claim() {
    let objects = read(&a_sweep(false));
    let secret: Secret = typed(&objects[0], "Secret");
    assert_eq!(secret.string_data.as_ref().unwrap()["PLUMB_FLEET_KEY"], "0a".repeat(32));
    let job: Job = typed(&objects[2], "Job");
    let spec = job.spec.unwrap().template.spec.unwrap();
    let all = only(&spec).env.as_ref().unwrap();
    let key = all.iter().find(|one| one.name == "PLUMB_FLEET_KEY").unwrap();
    let source = key.value_from.as_ref().unwrap().secret_key_ref.clone().unwrap();
    assert_eq!(
        (Some(&source.name), source.key.as_str()),
        (secret.metadata.name.as_ref(), "PLUMB_FLEET_KEY")
    );
    // The rest of the manifest does not have it.
    assert!(!objects[1..].iter().any(|object| object.to_string().contains("0a0a")));
    let args = only(&spec).args.as_ref().unwrap();
    let expected =
        ["fleet", "node", "--out", "/data/plumb.jsonl", "--records", "/data", "--preset", "quick"];
    assert_eq!(*args, expected);
    let claim = spec.volumes.as_ref().unwrap()[0].persistent_volume_claim.clone().unwrap();
    assert_eq!(claim.claim_name, "records");
}

#[test]
fn both_networks_are_measurable_and_labelled() {
    for (host_network, network) in [(true, "host"), (false, "pod")] {
        let objects = read(&a_sweep(host_network));
        let job: Job = typed(&objects[2], "Job");
        assert_eq!(job.metadata.labels.as_ref().unwrap()["plumb-network"], network);
        let spec = job.spec.unwrap().template.spec.unwrap();
        assert_eq!(spec.host_network.unwrap_or(false), host_network);
        let policy = host_network.then_some("ClusterFirstWithHostNet");
        assert_eq!(spec.dns_policy.as_deref(), policy);
        let labels = format!("network={network},host=$(PLUMB_NODE_NAME)");
        assert_eq!(variable(only(&spec), "PLUMB_FLEET_LABELS"), Some(labels.as_str()));
        has_no_rights(&spec);
    }
    let job: Job = typed(&a_sweep(true)[2], "Job");
    let volumes = job.spec.unwrap().template.spec.unwrap().volumes.unwrap();
    assert!(volumes[0].empty_dir.is_some(), "without a claim");
}

#[test]
fn a_field_that_the_api_does_not_know_is_seen() {
    let mut job = a_sweep(false).remove(2);
    job["spec"]["template"]["spec"]["hostNetwrok"] = true.into();
    let typed: Job = serde_json::from_value(job.clone()).unwrap();
    assert_ne!(serde_json::to_value(&typed).unwrap(), job);
}
