//! Network namespaces: the hosts of tests. They need root; scripts/test installs iproute2.

use std::process::{Command, Output, Stdio};

/// A network namespace of this name, its loopback up; removed on drop.
pub struct Namespace(pub String);

impl Namespace {
    pub fn new(name: String) -> Namespace {
        ip(&["netns", "add", &name]);
        let namespace = Namespace(name);
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    #[track_caller]
    pub fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// Joins a new interface of its own to one of another namespace.
    #[track_caller]
    pub fn join(&self, device: &str, other: &Namespace, of_other: &str) {
        self.ip(&[
            "link", "add", device, "type", "veth", "peer", "name", of_other, "netns", &other.0,
        ]);
    }

    /// Gives an interface its address among 254, and brings it up.
    #[track_caller]
    pub fn bring_up(&self, device: &str, address: &str) {
        self.ip(&["addr", "add", &format!("{address}/24"), "dev", device]);
        self.ip(&["link", "set", device, "up"]);
    }

    #[track_caller]
    pub fn processes(&self) -> Vec<u32> {
        let pids = output_of(Command::new("ip").args(["netns", "pids", &self.0]));
        pids.lines().map(|line| line.trim().parse().unwrap()).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It goes with its last process, or the test that looks for what is left fails.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

#[track_caller]
fn ip(arguments: &[&str]) {
    output_of(Command::new("ip").args(arguments));
}

/// What a command that must succeed prints.
#[track_caller]
pub fn output_of(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("scripts/test installs it");
    let Output { status, stdout, stderr } = output;
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?} (namespaces need root): {said}");
    String::from_utf8(stdout).unwrap()
}
