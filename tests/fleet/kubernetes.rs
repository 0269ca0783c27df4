//! The manifest that plumb ships: against the schema that Kubernetes publishes, and its container's
//! arguments and variables as processes of two hosts.

use crate::network::{Network, name};
use crate::plumb::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};

const MANIFEST: &str = include_str!("../../packaging/fleet.yaml");
/// The tools from PyPI, which scripts/test installs.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python/bin/python");
const RELEASE: &str = "1.33";
/// Prints the objects of a manifest as JSON.
const OBJECTS: &str =
    "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";

fn python(args: &[&str], input: &str) -> Option<Output> {
    let found = Command::new(TOOLS).args(["-c", "import kubernetes_validate, yaml"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        skips::part("data-tool", "kubernetes-validate");
        return None;
    }
    let here = Here::new();
    fs::write(here.path("manifest.yaml"), input).unwrap();
    let mut command = here.other(TOOLS);
    command.args(args).stdin(File::open(here.path("manifest.yaml")).unwrap());
    Some(command.output().unwrap())
}

fn validated(manifest: &str) -> Option<Output> {
    let validate =
        ["-m", "kubernetes_validate", "--strict", "--kubernetes-version", RELEASE, "manifest.yaml"];
    python(&validate, manifest)
}

#[test]
fn the_manifest_is_what_kubernetes_takes() {
    let Some(valid) = validated(MANIFEST) else { return };
    assert!(valid.status.success(), "{valid:?}");
    for (field, wrong) in
        [("completionMode", "completionsMode"), ("completions: 16", "completions: many")]
    {
        let output = validated(&MANIFEST.replace(field, wrong)).unwrap();
        assert!(!output.status.success(), "{wrong}: {output:?}");
    }
}

#[test]
fn the_pods_of_the_manifest_are_a_sweep() {
    let Some(output) = python(&["-c", OBJECTS], MANIFEST) else { return };
    let objects: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let job = objects.iter().find(|object| object["kind"] == "Job").unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 10;
    let words = pod["containers"][0]["args"].as_array().unwrap().iter();
    let words: Vec<String> = words
        .map(|arg| match arg.as_str().unwrap() {
            "START" => start.to_string(),
            "16" => "2".to_owned(),
            "/data" => ".".to_owned(),
            arg => arg.to_owned(),
        })
        .collect();
    let network = Network::new(2);
    network.here.ends(0, "agent --new-key key");
    let key = fs::read_to_string(network.here.path("key")).unwrap();
    let service = pod["subdomain"].as_str().unwrap();
    let host_name = |host: usize| format!("plumb-{}.{service}", host - 1);
    // What the cluster's DNS knows by the headless Service.
    network.hosts().for_each(|host| network.calls(host, &host_name(host)));
    network.here.make_dir("out");
    let start = |host: usize| {
        let data = network.here.path(&name(host));
        fs::create_dir(&data).unwrap();
        let index = (host - 1).to_string();
        let mut command = network.command(host, "unshare");
        let script = "hostname plumb-$JOB_COMPLETION_INDEX; exec \"$@\"";
        command.args(["--uts", "sh", "-c", script, "sh", PLUMB]).args(&words);
        command.args(crate::local::LITTLE.words()).current_dir(&data);
        command.env("PLUMB_FLEET_KEY", key.trim()).env("TMPDIR", &data);
        command.env("PLUMB_LOCK", data.join("lock")).env("JOB_COMPLETION_INDEX", &index);
        // As `kubectl logs` collects it.
        let log = network.here.path(&format!("out/plumb-{index}.jsonl"));
        command.stdout(File::create(log).unwrap()).spawn().unwrap()
    };
    let pods: Vec<Child> = network.hosts().map(start).collect();
    pods.into_iter().for_each(|pod| _ = ended_with(0, pod));
    let report = network.here.ends(0, "fleet report out -f json").json();
    assert_eq!(report["nodes"], json!([host_name(1), host_name(2)]), "{report}");
    let said = (&report["starter"], &report["lost"]);
    assert_eq!(said, (&json!("kubernetes"), &json!([])), "{report}");
    let lines = network.here.ends(0, "fleet report out -f ndjson").json_lines();
    assert!(lines.iter().any(|line| line["phase"] == "pairs"), "{lines:?}");
}
