//! Two hosts: network namespaces with addresses of their own, joined by a cable that can be slow,
//! long, lossy or cut. All of it has this process's number in its name and goes with its value.

use crate::namespace::{Namespace, output_of};
use crate::plumb::prelude::*;
use crate::relay::{Log, Relay};
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses; nobody outside of a lab sees them.
pub const NEAR: &str = "10.79.0.1";
pub const FAR: &str = "10.79.0.2";
/// The interface of each end.
const DEVICE: &str = "eth0";
/// Bytes of a packet: as on most networks.
pub const MTU: u32 = 1500;
/// No run of a test takes longer; none is expected to come near it.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Near,
    Far,
}

/// Both hosts, and a directory for all that is written.
pub struct Lab {
    name: String,
    relay: Option<Relay>,
    /// The near end's and the far end's.
    nets: [Namespace; 2],
    pub here: Here,
}

impl Lab {
    /// Joined by a veth pair, which takes what it is given.
    pub fn new() -> Lab {
        let lab = Lab::apart();
        lab.net(End::Near).join(DEVICE, lab.net(End::Far), DEVICE);
        lab.bring_up();
        lab
    }

    /// Joined by a cable that holds each frame so long.
    pub fn delayed(each_way: Duration) -> Lab {
        let mut lab = Lab::apart();
        let path = |end| Path::new("/run/netns").join(&lab.net(end).0);
        lab.relay = Some(Relay::start(&path(End::Near), &path(End::Far), DEVICE, each_way));
        lab.bring_up();
        lab
    }

    fn apart() -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-net-{}-{count}", std::process::id());
        let here = Here::new();
        let nets = [End::Near, End::Far].map(|end| {
            here.make_dir(end.dir());
            Namespace::new(format!("{name}-{}", end.dir()))
        });
        Lab { name, relay: None, nets, here }
    }

    fn bring_up(&self) {
        for (end, address) in [(End::Near, NEAR), (End::Far, FAR)] {
            self.net(end).ip(&["link", "set", DEVICE, "mtu", &MTU.to_string()]);
            self.net(end).bring_up(DEVICE, address);
            // Nobody asks who has an address in the middle of a case.
            self.resolve(end);
        }
    }

    /// Tells an end the other's link address, once both have one.
    fn resolve(&self, end: End) {
        if end == End::Near {
            return;
        }
        for (end, other, address) in [(End::Near, End::Far, FAR), (End::Far, End::Near, NEAR)] {
            let mac = self.in_net(other, "cat", &["/sys/class/net/eth0/address"]);
            let mac = mac.trim();
            self.net(end).ip(&["neigh", "replace", address, "lladdr", mac, "dev", DEVICE]);
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn net(&self, end: End) -> &Namespace {
        &self.nets[end as usize]
    }

    pub fn dir(&self, end: End) -> PathBuf {
        self.here.path(end.dir())
    }

    /// Lets out so many bits a second of whole frames, in both directions, with at most
    /// `burst_bytes` at once.
    pub fn shape(&self, bits_per_s: u64, burst_bytes: u64) {
        self.shape_by(bits_per_s, burst_bytes, &["latency", "50ms"]);
    }

    fn shape_by(&self, bits_per_s: u64, burst_bytes: u64, more: &[&str]) {
        for end in [End::Near, End::Far] {
            // One that fills the cable and keeps it full, whatever this host prefers.
            let reno = "echo reno >/proc/sys/net/ipv4/tcp_congestion_control";
            self.in_net(end, "sh", &["-c", reno]);
            let (rate, burst) = (format!("{bits_per_s}bit"), format!("{burst_bytes}b"));
            let shaped = ["qdisc", "replace", "dev", DEVICE, "root", "tbf"];
            let bucket = ["rate", &rate, "burst", &burst];
            self.in_net(end, "tc", &[&shaped[..], &bucket, more].concat());
        }
    }

    /// As [`Lab::shape`], and what goes at once goes by a rate of its own.
    pub fn shape_with_peak(&self, bits_per_s: u64, burst_bytes: u64, peak_bits_per_s: u64) {
        let peak = format!("{peak_bits_per_s}bit");
        self.shape_by(
            bits_per_s,
            burst_bytes,
            // A queue that is never full: what is lost at its end is another matter.
            &["latency", "2s", "peakrate", &peak, "mtu", "65536"],
        );
    }

    /// Bytes of a packet at most, at both ends.
    pub fn packets(&self, mtu: u32) {
        for end in [End::Near, End::Far] {
            self.net(end).ip(&["link", "set", DEVICE, "mtu", &mtu.to_string()]);
        }
    }

    /// Pulls the plug at the far end.
    pub fn cut(&self) {
        self.net(End::Far).ip(&["link", "set", DEVICE, "down"]);
    }

    pub fn mend(&self) {
        self.net(End::Far).ip(&["link", "set", DEVICE, "up"]);
        self.resolve(End::Far);
    }

    pub fn filter(&self, end: End, rules: &str) {
        let file = self.dir(end).join("rules.nft");
        fs::write(&file, rules).unwrap();
        self.in_net(end, "nft", &["-f", file.to_str().unwrap()]);
    }

    /// Packets that a named counter of the table `inet lab` has counted.
    pub fn counted(&self, end: End, counter: &str) -> u64 {
        let text = self.in_net(end, "nft", &["list", "counter", "inet", "lab", counter]);
        let mut words = text.split_whitespace();
        words.find(|word| *word == "packets").unwrap();
        words.next().unwrap().parse().unwrap()
    }

    /// The stamps of the relay.
    pub fn log(&self) -> &Log {
        &self.relay.as_ref().expect("the cable is a relay").log
    }

    /// A program at an end, with a store and a place for files of its own; it dies with the thread
    /// that starts it. Its process is the program itself.
    pub fn command(&self, end: End, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.here.other("ip");
        let dir = self.dir(end);
        // A program of the test's own goes before the system's.
        let path =
            format!("{}:{}", dir.join("ssh").display(), std::env::var("PATH").unwrap_or_default());
        command
            .env("PATH", path)
            .env("PLUMB_STORE", dir.join("store"))
            .env("TMPDIR", &dir)
            .current_dir(&dir)
            .args(["netns", "exec", &self.net(end).0])
            .args(["setpriv", "--pdeathsig", "KILL", "--", program])
            .args(arguments);
        command
    }

    /// What a program says that must end well.
    pub fn in_net(&self, end: End, program: &str, arguments: &[&str]) -> String {
        output_of(&mut self.command(end, program, arguments))
    }

    pub fn start(&self, end: End, program: &str, arguments: &[&str]) -> Program {
        self.here.start(&mut self.command(end, program, arguments))
    }

    /// The records of the near end's store, the last one last.
    pub fn records(&self) -> Vec<PathBuf> {
        records(&self.dir(End::Near).join("store"))
    }

    pub fn processes(&self, end: End) -> Vec<u32> {
        self.net(end).processes()
    }

    /// Waits until no program is left at either end, and sees that none has left a file but its
    /// records.
    #[track_caller]
    pub fn is_left_clean(&self) {
        wait_for("the end of all programs", || {
            let mut ends = [End::Near, End::Far].into_iter();
            ends.all(|end| self.processes(end).is_empty()).then_some(())
        });
        for end in [End::Near, End::Far] {
            let is_known = |name: &String| {
                ["store", "rules.nft", "key", "ssh", "plumb"].contains(&name.as_str())
            };
            let mut left = names(&self.dir(end));
            left.retain(|name| !is_known(name));
            assert!(left.is_empty(), "{end:?}: {left:?}");
            let store = self.dir(end).join("store");
            let mut stored = names(&store);
            stored.retain(|name| !name.ends_with(".jsonl") && name != "journal");
            stored.extend(names(&store.join("journal")));
            assert!(stored.is_empty(), "{end:?}: {stored:?}");
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for end in [End::Near, End::Far] {
            // The other end of a cable goes with the first; a relay's reading ends with its
            // interface.
            let mut unplug = Command::new("ip");
            let _ = unplug.args(["-n", &self.net(end).0, "link", "del", DEVICE]).output();
        }
        self.relay = None;
    }
}

impl End {
    fn dir(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }
}
