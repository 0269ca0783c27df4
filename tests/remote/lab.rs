//! Two network namespaces joined by a cable of software: a server in one, plumb in the other. All
//! of it has this process's number in its name and goes with its value.

use crate::plumb::{Ended, Here, Program, is, wait_within, whole_events};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The server's address; nobody outside of the namespaces sees it.
pub const SERVER: &str = "10.78.1.1";
const CLIENT: &str = "10.78.1.2";
/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The namespaces, a directory that the server exports, and one for everything else.
pub struct Lab {
    server_net: String,
    client_net: String,
    here: Here,
}

impl Lab {
    pub fn new() -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-remote-{}-{count}", std::process::id());
        let lab = Lab {
            server_net: format!("{name}-s"),
            client_net: format!("{name}-c"),
            here: Here::new(),
        };
        let (server, client) = (&lab.server_net, &lab.client_net);
        for net in [server, client] {
            ip(&["netns", "add", net]);
            ip(&["-n", net, "link", "set", "lo", "up"]);
        }
        ip(&[
            "-n", server, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
            client,
        ]);
        for (net, address) in [(server, SERVER), (client, CLIENT)] {
            ip(&["-n", net, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
            ip(&["-n", net, "link", "set", "eth0", "up"]);
        }
        fs::create_dir(lab.export()).unwrap();
        lab
    }

    /// What the server has.
    pub fn export(&self) -> PathBuf {
        self.path("export")
    }

    /// A path beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.here.path(name)
    }

    /// Starts a shell script in the server's namespace, with a `/run` of its own, and waits until
    /// somebody listens at `port`.
    pub fn serve(&self, name: &str, script: &str, port: u16) -> Program {
        let script = format!("mount -t tmpfs tmpfs /run; {script}");
        let program = self.start(&self.server_net, &script);
        let knock = format!("exec 3<>/dev/tcp/{SERVER}/{port}");
        wait_within(PATIENCE, name, || {
            let mut shell = Command::new("ip");
            shell.args(["netns", "exec", &self.client_net, "bash", "-c", &knock]);
            shell.stderr(Stdio::null()).status().unwrap().success().then_some(())
        });
        program
    }

    /// Starts a shell script in the client's namespace.
    pub fn client(&self, script: &str) -> Program {
        self.start(&self.client_net, script)
    }

    /// With all that it starts, in a process namespace of its own: it dies as a whole.
    fn start(&self, net: &str, script: &str) -> Program {
        let mut command = self.here.other("ip");
        command
            .args(["netns", "exec", net])
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["bash", "-c", script]);
        self.here.start(&mut command)
    }

    /// A run of plumb in the client's namespace: what it said.
    pub fn plumb(&self, arguments: &str) -> Ended {
        self.client(&plumb(arguments)).wait()
    }

    /// The records that were written so far.
    pub fn records(&self) -> Vec<PathBuf> {
        self.here.records()
    }

    /// Waits until a round of an experiment was recorded.
    pub fn wait_for_round(&self, experiment: &str) {
        let of_experiment = |series: &str| series.split('/').next() == Some(experiment);
        wait_within(PATIENCE, "a round", || {
            let mut events = self.records().into_iter().flat_map(|record| whole_events(&record));
            let is_it = events.any(|event| {
                is(&event, "round") && event["series"].as_str().is_some_and(of_experiment)
            });
            is_it.then_some(())
        });
    }
}

/// A command line of the built binary.
pub fn plumb(arguments: &str) -> String {
    format!("{} {arguments}", env!("CARGO_BIN_EXE_plumb"))
}

impl Program {
    /// Its end.
    pub fn wait(self) -> Ended {
        self.ended_within(2 * PATIENCE)
    }

    /// Holds it, and all that it started, without ending anything: its connections stay and nobody
    /// answers.
    pub fn hold(&self) {
        let mut all = vec![self.pid()];
        let mut at = 0;
        while at < all.len() {
            all.extend(children(all[at]));
            at += 1;
        }
        for process in &all[1..] {
            let status = Command::new("kill").args(["-STOP", &process.to_string()]).status();
            assert!(status.unwrap().success());
        }
    }
}

fn children(process: u32) -> Vec<u32> {
    let list = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

impl Drop for Lab {
    fn drop(&mut self) {
        for net in [&self.server_net, &self.client_net] {
            // What cannot be removed is told by the next test that wants the name.
            let _ = Command::new("ip").args(["netns", "del", net]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let Output { status, stderr, .. } =
        Command::new("ip").args(arguments).output().expect("scripts/test installs iproute2");
    assert!(
        status.success(),
        "ip {arguments:?} (namespaces need root): {}",
        String::from_utf8_lossy(&stderr)
    );
}
