//! Every way to reach an agent, over a cable of its own.

use crate::agents::{Agent, Recorded, url};
use crate::lab::{End, FAR, Lab};
use crate::plumb::prelude::*;

/// A run of one experiment has measured, and its header has the far end's facts.
#[track_caller]
fn is_whole(run: &Recorded, url: &str) {
    assert_eq!(run.answer.code, Some(0), "{:?}", run.answer);
    assert_eq!(run.ended("selftest.echo", "measured").len(), 1);
    let peers = run.header()["peers"].as_array().unwrap();
    let [peer] = &peers[..] else { panic!("{peers:?}") };
    assert_eq!(peer["name"], "peer");
    assert_eq!(peer["url"], url);
    assert_eq!(peer["address"], FAR);
    assert_eq!(peer["plumb"], run.header()["plumb"]);
    // One machine with two names: what belongs to the machine is the same, as each end read it.
    assert_eq!(peer["identity"], run.header()["identity"]);
    for facts in [&run.header()["environment"], &peer["environment"]] {
        assert!(facts.as_object().unwrap().len() > 3, "{facts}");
    }
    assert!(peer["calibration"]["counter_hz"].as_f64().unwrap() > 0.0);
    assert!(!peer["cpus"].as_array().unwrap().is_empty());
    for round in events_of_kind(&run.events, "round") {
        assert_eq!(round["status"], "ok", "{round}");
    }
    for samples in run.samples("received", &[]) {
        assert_eq!(samples["case"]["far"], "peer");
    }
}

#[test]
fn every_way_to_an_agent_measures() {
    let lab = Lab::new();
    let agent = Agent::start(&lab);
    is_whole(&lab.run("selftest.echo", &url(), ""), &url());
    agent.serves_and_leaves(&lab);
    // Any program that can start one elsewhere.
    let store = lab.dir(End::Far).join("store");
    let exec = format!(
        "exec:PLUMB_STORE='{}' nsenter --net=/run/netns/{}-far {PLUMB} agent --data {FAR}",
        store.display(),
        lab.name(),
    );
    is_whole(&lab.run("selftest.echo", &exec, ""), &exec);
    lab.is_left_clean();
    let (server, ssh) = serve_ssh(&lab);
    is_whole(&lab.run("selftest.echo", &ssh, ""), &ssh);
    drop(server);
    lab.is_left_clean();
}

/// A server of ssh at the far end with keys of its own, an `ssh` in front of the near end's that
/// knows them, and the URL of an agent there. The server ends what a client that is gone had
/// started.
pub fn serve_ssh(lab: &Lab) -> (Program, String) {
    let dir = lab.dir(End::Far).join("ssh");
    fs::create_dir(&dir).unwrap();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    for key in ["host", "id"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
            .status();
        assert!(made.unwrap().success());
    }
    fs::copy(path("id.pub"), path("auth")).unwrap();
    let server = format!(
        "Port 2222\nHostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin prohibit-password\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n\
         ClientAliveInterval 3\nClientAliveCountMax 2\n",
        path("host"),
        path("auth")
    );
    fs::write(path("sshd_config"), server).unwrap();
    let client = format!(
        "Host far-of-a-lab\nHostName {FAR}\nUser root\nIdentityFile {}\nIdentitiesOnly yes\n\
         StrictHostKeyChecking no\nUserKnownHostsFile {}\nLogLevel ERROR\n",
        path("id"),
        path("known")
    );
    fs::write(path("ssh_config"), client).unwrap();
    let own = lab.dir(End::Near).join("ssh");
    fs::create_dir(&own).unwrap();
    let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", path("ssh_config"));
    let ssh = own.join("ssh");
    // As Stranger's copy: what is still open for writing in a child of another test cannot be run.
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""])
        .args([ssh.to_str().unwrap(), &script])
        .status();
    assert!(written.unwrap().success());
    assert_eq!(fs::metadata(&ssh).unwrap().permissions().mode() & 0o777, 0o755);
    // Its place for what it gave up rights for: it wants one, empty, of root's.
    fs::create_dir_all("/run/sshd").unwrap();
    let server = lab.start(End::Far, "/usr/sbin/sshd", &["-D", "-e", "-f", &path("sshd_config")]);
    wait_for("a server of ssh", || {
        let listens = lab.in_net(End::Far, "ss", &["-Hltn", "sport = :2222"]);
        (!listens.is_empty()).then_some(())
    });
    let url = format!("ssh://far-of-a-lab:2222{}", PLUMB);
    (server, url)
}
