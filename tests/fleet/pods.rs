//! The pods of a printed manifest, as processes of two hosts: their arguments and variables make a
//! whole sweep.

use crate::manifest::Manifest;
use crate::network::{Network, name, whole_events};
use crate::plumb::prelude::*;
use k8s_openapi::api::batch::v1::Job;

#[test]
fn the_pods_of_a_manifest_are_a_sweep() {
    let network = Network::new(2);
    let objects = ["fleet", "kubernetes", "-N2", "--image", "plumb:0.1.0", "--"];
    let sweep = [
        "--preset=rehearsal",
        "--pair=net.rtt:far=peer,protocol=tcp,message=64",
        "cpu.peak:op=fma,type=f64,threads=1",
    ];
    let printed = network.here.ends(0, &[&objects[..], &sweep].concat()).out;
    let manifest = Manifest::read(&printed);
    let job: Job = manifest.only("Job");
    let job = job.spec.unwrap();
    assert_eq!(job.completions, Some(2));
    let pod = job.template.spec.unwrap();
    // What the cluster's DNS knows by the headless Service.
    network.calls(1, &format!("plumb-0.{}", pod.subdomain.as_deref().unwrap()));
    let start = |host: usize| {
        let node = name(host);
        let data = network.here.path(&node);
        fs::create_dir(&data).unwrap();
        let started = manifest.started(&pod, &node, &[("data", &data)]);
        let index = (host - 1).to_string();
        let mut command = network.command(host, PLUMB);
        command.args(started.args).envs(started.env).current_dir(&data);
        // As Kubernetes sets them in the pods of an Indexed Job.
        command.env("HOSTNAME", format!("plumb-{index}")).env("JOB_COMPLETION_INDEX", index);
        command.spawn().unwrap()
    };
    let pods: Vec<_> = network.hosts().map(start).collect();
    for pod in pods {
        ended_with(0, pod);
    }
    let events = whole_events(&network.here.path("n1/plumb.jsonl"));
    assert_eq!(events[0]["starter"], "kubernetes");
    assert_eq!(events.last().unwrap()["event"], "end");
    for (rank, node) in [(0, "n1"), (1, "n2")] {
        let of = |event: &&Value| event["event"] == "node" && event["rank"] == rank;
        let own = events.iter().rfind(of).unwrap();
        assert_eq!((&own["name"], &own["labels"]["host"]), (&node.into(), &node.into()), "{own}");
        assert_eq!(own["labels"]["network"], "pod", "{own}");
        assert!(own["record"].is_string(), "{own}");
    }
    assert!(events.iter().any(|event| event["event"] == "pair"), "{events:?}");
}
