//! Hosts behind one switch: network namespaces, each with a cable to a bridge in one more, which is
//! host 0. All names have this process's number; everything goes with the value.

use crate::namespace::{Namespace, output_of};
use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// The interface of each host.
const DEVICE: &str = "eth0";
/// Where `ip netns exec` finds what a namespace has in /etc.
const ETC: &str = "/etc/netns";

/// The hosts, and a directory that all of them share.
pub struct Network {
    nets: Vec<Namespace>,
    pub here: Here,
}

impl Network {
    /// Host 0, called `c0`, and `n1` to so many.
    pub fn new(hosts: usize) -> Network {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if count == 0 {
            clean_up();
        }
        let net = |host| {
            let net = format!("{}-{count}-{}", own_name("fleet"), name(host));
            // By this directory the next test finds what one that is killed leaves.
            fs::create_dir_all(etc(&net)).unwrap();
            Namespace::new(net)
        };
        let network = Network { nets: (0..=hosts).map(net).collect(), here: Here::new() };
        (0..=hosts).for_each(|host| network.names(host));
        network.ip(0, &["link", "add", DEVICE, "type", "bridge"]);
        for host in 1..=hosts {
            network.nets[0].join(&port(host), &network.nets[host], DEVICE);
            network.ip(0, &["link", "set", &port(host), "master", DEVICE, "up"]);
        }
        for host in 0..=hosts {
            network.nets[host].bring_up(DEVICE, &address(host));
        }
        network
    }

    /// The files in /etc by which a host knows itself and the others.
    fn names(&self, host: usize) {
        let etc = etc(self.net(host));
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for host in 0..self.nets.len() {
            writeln!(hosts, "{} {}", address(host), name(host)).unwrap();
        }
        fs::write(etc.join("hosts"), hosts).unwrap();
        fs::write(etc.join("hostname"), name(host) + "\n").unwrap();
    }

    /// Gives a host one more name, which every host resolves.
    pub fn calls(&self, host: usize, name: &str) {
        for net in &self.nets {
            let file = etc(&net.0).join("hosts");
            let text = fs::read_to_string(&file).unwrap();
            fs::write(file, format!("{text}{} {name}\n", address(host))).unwrap();
        }
    }

    pub fn hosts(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.nets.len() - 1
    }

    fn net(&self, host: usize) -> &str {
        &self.nets[host].0
    }

    fn ip(&self, host: usize, arguments: &[&str]) {
        self.nets[host].ip(arguments);
    }

    /// Lets out so many bits a second at both ends of a host's cable.
    pub fn shape(&self, host: usize, bits_per_s: u64) {
        let rate = format!("{bits_per_s}bit");
        let burst = format!("{}b", (bits_per_s / 8 / 100).max(16_000));
        for (at, device) in [(host, DEVICE.to_owned()), (0, port(host))] {
            let shaped = ["qdisc", "replace", "dev", &device, "root", "tbf"];
            let bucket = ["rate", &rate, "burst", &burst, "latency", "50ms"];
            output_of(self.command(at, "tc").args([&shaped[..], &bucket].concat()));
        }
    }

    pub fn cut(&self, host: usize) {
        self.ip(0, &["link", "set", &port(host), "down"]);
    }

    /// Puts it back.
    pub fn mend(&self, host: usize) {
        self.ip(0, &["link", "set", &port(host), "up"]);
    }

    /// A program at a host; it dies with the thread that starts it. It sees the files and the
    /// processes of all hosts.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = self.here.other("setpriv");
        // What a node that is killed leaves there goes with the test.
        command.env("TMPDIR", self.here.path(""));
        command.args(["--pdeathsig", "KILL", "--", "ip", "netns", "exec", self.net(host)]);
        command.arg(program);
        command
    }

    /// Starts a host's first program, which has process numbers, mounts and a host name of its own:
    /// what it starts dies with it. /mnt is the host's own. Its processes are in the group.
    pub fn boot(&self, host: usize, group: Option<&Group>, program: &[&str]) -> Child {
        let own = self.here.path(&name(host));
        fs::create_dir_all(&own).unwrap();
        let inside = format!("hostname {}; mount --bind {} /mnt; ", name(host), own.display());
        let mut script = "set -e; ".to_owned();
        if let Some(group) = group {
            write!(script, "echo $$ >{}/cgroup.procs; ", group.0.display()).unwrap();
        }
        write!(
            script,
            "exec ip netns exec {} unshare --uts --pid --fork --kill-child --mount-proc bash -c \
             'set -e; {inside} set +e; trap \"exit 0\" TERM; \"$@\" & wait' \"$0\" \"$@\"",
            self.net(host)
        )
        .unwrap();
        let log = File::create(self.here.path(&format!("{}.log", name(host)))).unwrap();
        let mut command = self.here.other("setpriv");
        command.env("TMPDIR", self.here.path(""));
        command.args(["--pdeathsig", "KILL", "--", "bash", "-c", &script, &name(host)]);
        command.args(program).stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for net in &self.nets {
            let _ = fs::remove_dir_all(etc(&net.0));
        }
        // Other tests may have theirs there.
        let _ = fs::remove_dir(ETC);
    }
}

/// Removes what test processes that were killed left: their own processes died with them.
fn clean_up() {
    for etc in left(Path::new(ETC), "fleet") {
        drop(Namespace(etc.file_name().unwrap().to_str().unwrap().to_owned()));
        let _ = fs::remove_dir_all(etc);
    }
}

fn etc(net: &str) -> PathBuf {
    Path::new(ETC).join(net)
}

pub fn name(host: usize) -> String {
    if host == 0 { "c0".to_owned() } else { format!("n{host}") }
}

pub fn address(host: usize) -> String {
    format!("10.80.0.{}", host + 1)
}

/// The switch's end of a host's cable.
fn port(host: usize) -> String {
    format!("port{host}")
}
