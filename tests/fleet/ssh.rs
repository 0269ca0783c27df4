//! Real ssh: hosts that take part, and hosts that do not.

use crate::server::Servers;

#[test]
fn hosts_can_be_logged_into() {
    let servers = Servers::start(2);
    let said =
        servers.command("ssh").args(["n2", "hostname; echo $SSH_CONNECTION"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with("n2\n") && said.contains("10.80.0.3"), "{said}");
}
