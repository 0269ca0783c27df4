//! A Slurm of its own: a controller on host 0, a daemon on each other one.

use crate::namespace::output_of;
use crate::network::{Network, address, name};
use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::fmt::Write as _;

/// Until all nodes are idle.
const START: Duration = Duration::from_secs(30);

pub struct Cluster {
    pub network: Network,
    munge: Child,
    daemons: Vec<Child>,
    /// Control groups by host; they are removed after the daemons have ended.
    pub groups: Vec<Group>,
}

impl Cluster {
    pub fn start(nodes: usize, groups: Vec<Group>) -> Cluster {
        let network = Network::new(nodes);
        let here = &network.here;
        for dir in ["state", "shared"] {
            here.make_dir(dir);
        }
        let munge = munge(&network);
        fs::write(here.path("slurm.conf"), configuration(&network)).unwrap();
        // What `ip netns exec` shows below /sys has no control groups, by which the plugin is found.
        fs::write(here.path("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let file = here.path("slurm.conf");
        let file = file.to_str().unwrap();
        let controller = ["slurmctld", "-D", "-i", "-f", file];
        let mut daemons = vec![network.boot(0, None, &controller)];
        for node in network.hosts() {
            here.make_dir(&format!("spool-{}", name(node)));
            daemons.push(network.boot(node, groups.get(node), &["slurmd", "-D", "-f", file]));
        }
        let cluster = Cluster { network, munge, daemons, groups };
        wait_within(START, "idle nodes", || {
            let idle = cluster.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"]).output();
            let idle = String::from_utf8(idle.unwrap().stdout).unwrap();
            (idle.trim() == nodes.to_string()).then_some(())
        });
        cluster
    }

    /// A program on the host where users log in, in the directory that all nodes share.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.network.command(0, program);
        command
            .env("SLURM_CONF", self.network.here.path("slurm.conf"))
            .current_dir(self.network.here.path("shared"))
            // What is measured on one node does not wait for the others: each has its own /mnt.
            .env("PLUMB_LOCK", "/mnt/plumb.lock");
        command
    }

    /// A file of the directory that all nodes share.
    pub fn path(&self, name: &str) -> PathBuf {
        self.network.here.path("shared").join(name)
    }

    /// What a program says there that must end well, within a minute.
    #[track_caller]
    pub fn says(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.command("timeout");
        output_of(command.args(["-k", "5", "60", program]).args(arguments))
    }

    pub fn kill(&mut self, node: usize) {
        let daemon = &mut self.daemons[node];
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The controller last: what waits for it would wait longer.
        for daemon in self.daemons.iter_mut().rev().chain([&mut self.munge]) {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// The service by which the daemons know each other, with a key of its own.
fn munge(network: &Network) -> Child {
    let here = &network.here;
    let mut key = here.other("sh");
    output_of(key.args(["-c", "umask 077; head -c 128 /dev/urandom >munge.key"]));
    let path =
        |kind: &str| format!("--{kind}-file={}", here.path(&format!("munge.{kind}")).display());
    let socket = here.path("munge.socket");
    let mut command = here.other("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "munged", "--foreground", "--force"]);
    command.args(["key", "pid", "log", "seed"].map(path));
    command.arg(format!("--socket={}", socket.display()));
    let munge = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let munge = munge.expect("scripts/test installs munge");
    wait_within(START, "munge", || socket.exists().then_some(()));
    munge
}

fn configuration(network: &Network) -> String {
    let here = network.here.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    let mut text = format!(
        "ClusterName=plumb
SlurmctldHost={}({})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge.socket
CredType=cred/munge
StateSaveLocation={here}/state
SlurmctldPidFile={here}/slurmctld.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdPidFile={here}/slurmd-%n.pid
SlurmdLogFile={here}/slurmd-%n.log
SlurmdSpoolDir={here}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SlurmdTimeout=300
KillWait=3
",
        name(0),
        address(0)
    );
    for node in network.hosts() {
        let (name, address) = (name(node), address(node));
        writeln!(text, "NodeName={name} NodeAddr={address} CPUs=2 RealMemory=2000 State=UNKNOWN")
            .unwrap();
    }
    let nodes = network.hosts().count();
    writeln!(text, "PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP")
        .unwrap();
    text
}
