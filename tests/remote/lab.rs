//! Two network namespaces joined by a cable of software: a server in one, plumb in the other. All of it
//! has this process's number in its name and goes with its value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The server's address; nobody outside of the namespaces sees it.
pub const SERVER: &str = "10.78.1.1";
const CLIENT: &str = "10.78.1.2";
/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The namespaces, a directory that the server exports, and one for everything else.
pub struct Lab {
    server_net: String,
    client_net: String,
    dir: TempDir,
}

/// A program with all that it started, in a process namespace of its own: it dies as a whole.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Lab {
    pub fn new() -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-remote-{}-{count}", std::process::id());
        let lab = Lab {
            server_net: format!("{name}-s"),
            client_net: format!("{name}-c"),
            dir: tempfile::tempdir().unwrap(),
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
        self.dir.path().join(name)
    }

    /// Starts a shell script in the server's namespace, with a `/run` of its own, and waits until
    /// somebody listens at `port`.
    pub fn serve(&self, name: &str, script: &str, port: u16) -> Program {
        let script = format!("mount -t tmpfs tmpfs /run; {script}");
        let program = self.start(&self.server_net, name, &script);
        let begin = Instant::now();
        let knock = format!("exec 3<>/dev/tcp/{SERVER}/{port}");
        loop {
            let mut shell = Command::new("ip");
            shell.args(["netns", "exec", &self.client_net, "bash", "-c", &knock]);
            if shell.stderr(Stdio::null()).status().unwrap().success() {
                return program;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} does not listen:\n{}", program.said());
            sleep(Duration::from_millis(50));
        }
    }

    /// Starts a shell script in the client's namespace.
    pub fn client(&self, name: &str, script: &str) -> Program {
        let store = self.path("store");
        let script = format!("export PLUMB_STORE='{}'; {script}", store.display());
        self.start(&self.client_net, name, &script)
    }

    fn start(&self, net: &str, name: &str, script: &str) -> Program {
        let log = self.path(&format!("{name}.log"));
        let out = fs::File::create(&log).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", net])
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["bash", "-c", script])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .expect("scripts/test installs iproute2");
        Program { child, log }
    }

    /// A run of plumb in the client's namespace: what it said.
    pub fn plumb(&self, arguments: &str) -> (Option<i32>, String) {
        self.client("plumb", &plumb(arguments)).wait()
    }

    /// The records that were written so far.
    pub fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("store"));
        let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect()
    }

    /// Waits until the only record holds an event of this kind and experiment.
    pub fn wait_for_event(&self, kind: &str, experiment: &str) {
        let begin = Instant::now();
        let (kind, experiment) = (format!("\"event\":\"{kind}\""), format!("\"{experiment}"));
        loop {
            let records = self.records().into_iter();
            let mut texts = records.filter_map(|record| fs::read_to_string(record).ok());
            let is_there = texts.any(|text| {
                text.lines().any(|line| line.contains(&kind) && line.contains(&experiment))
            });
            if is_there {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no {kind} of {experiment}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// A command line of the built binary.
pub fn plumb(arguments: &str) -> String {
    format!("{} {arguments}", env!("CARGO_BIN_EXE_plumb"))
}

impl Program {
    /// What it said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.said());
            }
            assert!(
                begin.elapsed() < PATIENCE * 2,
                "not at its end after {:?}:\n{}",
                begin.elapsed(),
                self.said()
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Ends it and all that it started.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Holds it, and all that it started, without ending anything: its connections stay and nobody
    /// answers.
    pub fn hold(&self) {
        let mut all = vec![self.child.id()];
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

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
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

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
