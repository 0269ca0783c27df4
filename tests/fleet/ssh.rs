//! Real ssh to three addresses of this host: a plain loop, and pdsh, as docs/FLEET.md has them.

use crate::plumb::prelude::*;
use crate::sshd::Sshd;

const DOCS: &str = include_str!("../../docs/FLEET.md");
const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

/// The lines of a section's first block.
fn printed(section: &str) -> &'static str {
    let block = DOCS.split(section).nth(1).unwrap().split("```\n").nth(1);
    block.unwrap_or_else(|| panic!("docs/FLEET.md has no block in {section}"))
}

/// Runs the lines as printed, but for what is measured; they end with the report.
fn run(lines: &str) {
    let here = Here::new();
    let bin = here.path("ssh").display().to_string();
    let sshd = Sshd::start(&here, &HOSTS, &format!("PATH={bin}:/usr/bin:/bin"));
    here.ssh("ssh", "id", "known", &format!("-p {}", sshd.port));
    fs::write(here.path("hosts"), HOSTS.join("\n") + "\n").unwrap();
    // A host is called by the address at which it was reached, and has its own lock.
    let script = format!(
        "#!/bin/sh\nhost=$(echo $SSH_CONNECTION | cut -d' ' -f3)\n\
         PLUMB_LOCK={bin}/lock-$host exec {PLUMB} \"$@\" ${{host:+--name $host}}\n"
    );
    write_script(&here.path("ssh").join("plumb"), script);
    let lines = lines.replace("fleet run", &format!("fleet run {}", crate::local::LITTLE));
    let said = ends(0, here.with_ssh("ssh", "bash", &["-c", &lines])).out;
    assert!(said.contains("fewer than six are alike"), "{said}");
    let report = here.ends(0, "fleet report out -f json").json();
    assert_eq!(report["nodes"], json!(HOSTS), "{report}");
    assert_eq!((&report["lost"], &report["clocks"]), (&json!([]), &json!([])), "{report}");
}

#[test]
fn a_loop_over_ssh_is_a_sweep() {
    let lines = printed("## Three hosts with ssh");
    assert!(lines.lines().count() <= 6, "{lines}");
    run(lines);
}

#[test]
fn pdsh_starts_a_sweep() {
    if Command::new("pdsh").arg("-V").output().is_err() {
        return skips::part("program", "pdsh");
    }
    let lines = printed("## Three hosts with ssh");
    let pdsh = printed("## Other engines").lines().find(|line| line.starts_with("pdsh")).unwrap();
    let lines = lines.lines().map(|line| if line.starts_with("for ") { pdsh } else { line });
    run(&lines.collect::<Vec<&str>>().join("\n"));
}
