//! Real ssh: a plain loop, and pdsh, as docs/FLEET.md has them.

use crate::network::name;
use crate::plumb::prelude::*;
use crate::server::Servers;

const DOCS: &str = include_str!("../../docs/FLEET.md");

/// The lines of a section's first block.
fn printed(section: &str) -> &'static str {
    let block = DOCS.split(section).nth(1).unwrap().split("```\n").nth(1);
    block.unwrap_or_else(|| panic!("docs/FLEET.md has no block in {section}"))
}

/// Three hosts and the one where the user sits, with plumb and a directory that all see.
fn servers() -> Servers {
    let servers = Servers::start(3);
    let here = &servers.network.here;
    fs::write(here.path("hosts"), "n1\nn2\nn3\n").unwrap();
    for host in 0..=3 {
        // Hosts of one machine measure beside each other: each has its own lock.
        let bin = if host == 0 { "c0-bin".to_owned() } else { name(host) };
        let lock = here.path(&format!("{bin}/lock"));
        let script = format!("#!/bin/sh\nPLUMB_LOCK={} exec {PLUMB} \"$@\"\n", lock.display());
        write_script(&here.path(&format!("{bin}/plumb")), script);
    }
    servers
}

impl Servers {
    /// The lines as printed, but for what is measured; they end with the report.
    fn runs(&self, lines: &str) {
        let lines = lines.replace("fleet run", &format!("fleet run {}", crate::local::LITTLE));
        let here = &self.network.here;
        let mut shell = self.command("bash");
        shell.args(["-c", &lines]).current_dir(here.path(""));
        let said = ends(0, shell).out;
        assert!(said.contains("fewer than six are alike"), "{said}");
        let report = here.ends(0, &["fleet", "report", "out", "-f", "json"]).json();
        assert_eq!(report["nodes"], json!(["n1", "n2", "n3"]), "{report}");
        assert_eq!((&report["lost"], &report["clocks"]), (&json!([]), &json!([])), "{report}");
    }
}

#[test]
fn a_loop_over_ssh_is_a_sweep() {
    let lines = printed("## Three hosts with ssh");
    assert!(lines.lines().count() <= 6, "{lines}");
    servers().runs(lines);
}

#[test]
fn pdsh_starts_a_sweep() {
    if Command::new("pdsh").arg("-V").output().is_err() {
        return skips::part("program", "pdsh");
    }
    let lines = printed("## Three hosts with ssh");
    let pdsh = printed("## Other engines").lines().find(|line| line.starts_with("pdsh")).unwrap();
    let lines = lines.lines().map(|line| if line.starts_with("for ") { pdsh } else { line });
    servers().runs(&lines.collect::<Vec<&str>>().join("\n"));
}
