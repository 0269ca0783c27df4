//! Real ssh: a plain loop, and pdsh, as docs/FLEET.md has them.

use crate::plumb::prelude::*;
use crate::server::Servers;

/// Three hosts with plumb, the key, the list and a directory that all see.
fn servers() -> Servers {
    let servers = Servers::start(3);
    let here = &servers.network.here;
    here.ends(0, &["agent", "--new-key", "sweep.key"]);
    fs::write(here.path("hosts"), "n1\nn2\nn3\n").unwrap();
    here.make_dir("out");
    for host in servers.network.hosts() {
        // Hosts of one machine measure beside each other: each has its own lock.
        let lock = servers.path(host, "lock");
        servers.program(
            host,
            "plumb",
            &format!("#!/bin/sh\nPLUMB_LOCK={} exec {PLUMB} \"$@\"\n", lock.display()),
        );
    }
    servers
}

impl Servers {
    /// The line with the shared directory as the current one, and a sweep that measures little.
    fn runs(&self, line: &str) -> Answer {
        let here = self.network.here.path("");
        let line = line.replace("cd DIR", &format!("cd {}", here.display()));
        let line = line.replace("OPTIONS", crate::local::LITTLE);
        let mut shell = self.command("bash");
        shell.args(["-c", &line]).current_dir(&here);
        ends(0, shell)
    }

    #[track_caller]
    fn have_swept(&self) {
        let report = self.network.here.ends(0, &["fleet", "report", "out", "-f", "json"]).json();
        assert_eq!(report["nodes"], json!(["n1", "n2", "n3"]), "{report}");
        assert_eq!((&report["lost"], &report["clocks"]), (&json!([]), &json!([])), "{report}");
    }
}

#[test]
fn a_loop_over_ssh_is_a_sweep() {
    let servers = servers();
    servers.runs(
        "start=$(($(date +%s) + 15)); for host in $(cat hosts); do ssh $host \"cd DIR && plumb fleet run \
         --hosts hosts --key-file sweep.key --start-at $start --out out/%h.jsonl OPTIONS\" & done; wait",
    );
    servers.have_swept();
}

#[test]
fn pdsh_starts_a_sweep() {
    if Command::new("pdsh").arg("-V").output().is_err() {
        return skips::part("program", "pdsh");
    }
    let servers = servers();
    servers.runs(
        "pdsh -R ssh -w ^hosts \"cd DIR && plumb fleet run --hosts hosts --key-file sweep.key --start-at \
         $(($(date +%s) + 15)) --out out/%h.jsonl OPTIONS\"",
    );
    servers.have_swept();
}
