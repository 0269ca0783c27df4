//! Two network namespaces joined by a cable of software: a server in one, plumb in the other. All
//! of it has this process's number in its name and goes with its value.

use crate::namespace::Namespace;
use crate::plumb::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's address; nobody outside of the namespaces sees it.
pub const SERVER: &str = "10.78.1.1";
const CLIENT: &str = "10.78.1.2";
/// No step of a test waits longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The namespaces, a directory that the server exports, and one for everything else.
pub struct Lab {
    server_net: Namespace,
    client_net: Namespace,
    here: Here,
}

impl Lab {
    pub fn new() -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-remote-{}-{count}", std::process::id());
        let lab = Lab {
            server_net: Namespace::new(format!("{name}-s")),
            client_net: Namespace::new(format!("{name}-c")),
            here: Here::new(),
        };
        lab.server_net.join("eth0", &lab.client_net, "eth0");
        for (net, address) in [(&lab.server_net, SERVER), (&lab.client_net, CLIENT)] {
            net.bring_up("eth0", address);
        }
        fs::create_dir(lab.export()).unwrap();
        lab
    }

    pub fn export(&self) -> PathBuf {
        self.path("export")
    }

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
            shell.args(["netns", "exec", &self.client_net.0, "bash", "-c", &knock]);
            shell.stderr(Stdio::null()).status().unwrap().success().then_some(())
        });
        program
    }

    /// Starts a shell script in the client's namespace.
    pub fn client(&self, script: &str) -> Program {
        self.start(&self.client_net, script)
    }

    /// With all that it starts, in a process namespace of its own: it dies as a whole.
    fn start(&self, net: &Namespace, script: &str) -> Program {
        let mut command = self.here.other("ip");
        command
            .args(["netns", "exec", &net.0])
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["bash", "-c", script]);
        self.here.start(&mut command)
    }

    /// A run of plumb in the client's namespace: what it said.
    pub fn plumb(&self, arguments: &str) -> Ended {
        self.client(&plumb(arguments)).wait()
    }

    pub fn records(&self) -> Vec<PathBuf> {
        self.here.records()
    }

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
    format!("{} {arguments}", PLUMB)
}

impl Program {
    pub fn wait(self) -> Ended {
        self.ended_within(2 * PATIENCE)
    }
}
