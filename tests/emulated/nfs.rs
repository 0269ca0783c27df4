//! A machine whose kernel mounts NFS 4.2 from a server beside its emulator: what its own
//! counters say of plumb's reads.

use crate::guest::{self, Machine};
use crate::{ip, part, taker};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const SCRIPT: &str = "
cd /modules; while read module; do insmod ./$module || echo \"no $module\"; done < order; cd /
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
mkdir -p /mnt/far
mount -t nfs4 -o vers=4.2,addr=10.0.2.2,clientaddr=10.0.2.15,noresvport 10.0.2.2:/exp /mnt/far
plumb run fs.remote --preset rehearsal --set fs.remote.path=/mnt/far --set fs.remote.mode=direct,cold,cached \
  --set fs.remote.size=1MiB --out /tmp/record > /tmp/report 2>&1
echo \"run=$?\"
plumb run fs.remote --preset thorough --budget 8s --set fs.remote.path=/mnt/far --set fs.remote.mode=direct \
  --set fs.remote.pattern=random --set fs.remote.size=1MiB --set fs.remote.placement=free,interrupt,other \
  --out /tmp/longer > /tmp/report2 2>&1
echo \"longer=$?\"; cat /tmp/report2
echo '[report'; cat /tmp/report; echo 'report]'
echo '[record'; cat /tmp/record; echo 'record]'
echo '[longer'; cat /tmp/longer; echo 'longer]'
echo '[left'; ls /mnt/far; echo 'left]'
umount /mnt/far
for file in /proc/irq/*/effective_affinity_list; do echo \"$file $(cat $file)\"; done > /tmp/lines
echo '[interrupts'; cat /proc/interrupts /tmp/lines; echo 'interrupts]'
";

/// A server in a network namespace of its own, on whose loopback it listens.
struct Server {
    namespace: String,
    child: Child,
    dir: TempDir,
}

impl Server {
    fn start() -> Server {
        let namespace = format!("plumb-emulated-{}", std::process::id());
        ip(&["netns", "add", &namespace]);
        ip(&["-n", &namespace, "link", "set", "lo", "up"]);
        let dir = tempfile::tempdir().unwrap();
        for name in ["export", "recovery"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let at = dir.path().display().to_string();
        let configuration = format!(
            "NFS_KRB5 {{ Active_krb5 = false; }}\n\
             NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = 2049; Enable_NLM = false; \
             Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; }}\n\
             NFSv4 {{ Grace_Period = 1; Lease_Lifetime = 10; RecoveryRoot = {at}/recovery; \
             Minor_Versions = 0,1,2; Only_Numeric_Owners = true; }}\n\
             EXPORT {{ Export_Id = 1; Path = {at}/export; Pseudo = /exp; Access_Type = RW; \
             Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; \
             FSAL {{ Name = VFS; }} }}\n"
        );
        let file = dir.path().join("ganesha.conf");
        fs::write(&file, configuration).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &namespace, "ganesha.nfsd", "-F", "-f"])
            .arg(&file)
            .args(["-L", "/dev/stderr", "-p"])
            .arg(dir.path().join("pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("scripts/test installs iproute2");
        let server = Server { namespace, child, dir };
        server.wait();
        server
    }

    /// Until it listens.
    fn wait(&self) {
        let begin = Instant::now();
        loop {
            let mut knock = Command::new("ip");
            knock.args(["netns", "exec", &self.namespace, "bash", "-c"]);
            knock.arg("exec 3<>/dev/tcp/127.0.0.1/2049");
            if knock.stderr(Stdio::null()).status().unwrap().success() {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "the server does not listen: {}",
                fs::read_to_string(self.dir.path().join("log")).unwrap()
            );
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

/// The events of a record.
fn events(console: &str, name: &str) -> Vec<Value> {
    part(console, name)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn samples<'run>(events: &'run [Value], metric: &'static str) -> impl Iterator<Item = &'run Value> {
    let samples = events.iter().filter(|event| event["event"] == "samples");
    samples.filter(move |event| event["metric"] == metric)
}

/// The mean times of reads stand where the kernel's milliseconds resolve them, and nowhere else: of
/// how many direct cases they do.
fn check_times(events: &[Value]) -> usize {
    let of = |metric, like: &Value| -> Option<f64> {
        let mut of = samples(events, metric)
            .filter(|one| one["case"] == like["case"] && one["round"] == like["round"]);
        of.next().map(|one| one["values"][0].as_f64().unwrap())
    };
    let mut resolved = 0;
    for one in samples(events, "latency").filter(|one| one["case"]["mode"] == "direct") {
        let quantity = |name: &str| one["quantities"][name].as_f64().unwrap();
        let (sum_ns, reads) = (quantity("nfs_rtt_sum_ns"), quantity("nfs_reads"));
        let rtt_ns = of("rpc_rtt", one);
        assert_eq!(rtt_ns.is_some(), sum_ns >= 1e7, "{one}");
        let Some(rtt_ns) = rtt_ns else { continue };
        resolved += 1;
        assert!((rtt_ns - sum_ns / reads).abs() < 1.0, "{rtt_ns} {one}");
        assert!(of("rpc_execute", one).unwrap() >= rtt_ns, "{one}");
    }
    resolved
}

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_kernels_nfs_client_counts_what_plumb_reads() {
    let server = Server::start();
    let machine = Machine::with_card(&server.namespace);
    let console = guest::run(&machine, SCRIPT);
    println!("{}", part(&console, "report"));
    assert!(console.contains("run=0\n"), "{console}");
    let events = events(&console, "record");
    let of = |metric| samples(&events, metric);
    assert_eq!(of("latency").count(), 6);
    for one in of("latency") {
        let quantity = |name: &str| one["quantities"][name].as_f64().unwrap();
        let (asked, came) = (quantity("asked_bytes"), quantity("server_bytes"));
        match one["case"]["mode"].as_str().unwrap() {
            // From the client's memory: the server was not asked.
            "cached" => assert_eq!((came, quantity("nfs_reads")), (0.0, 0.0), "{one}"),
            // Each block is a request.
            "direct" => {
                assert_eq!(came, asked, "{one}");
                assert_eq!(quantity("nfs_reads"), asked / 4096.0, "{one}");
                assert_eq!(quantity("cache_share"), 0.0);
            }
            _ => assert!(came >= asked && quantity("nfs_reads") >= 1.0, "{one}"),
        }
        assert_eq!(quantity("nfs_errors"), 0.0);
    }
    check_times(&events);
    // However fast the server, the time of these cases is enough for the kernel's milliseconds.
    assert!(console.contains("longer=0\n"), "{console}");
    let longer = self::events(&console, "longer");
    assert!(check_times(&longer) > 0);
    // The server is behind a card that interrupts one CPU.
    let taker = taker(part(&console, "interrupts"));
    for (place, cpu) in [("interrupt", taker), ("other", 1 - taker)] {
        let mut all = samples(&longer, "latency");
        assert!(all.any(|one| one["case"]["placement"] == place));
        let mut predicted = longer.iter().filter(|one| one["event"] == "prediction");
        let told = predicted.find(|one| one["case"]["placement"] == place);
        assert_eq!(told.unwrap()["at"]["cpu"], cpu);
    }
    let facts = part(&console, "record");
    for fact in ["\"file_system\":\"nfs4\"", "vers=4.2", "\"server\":\"10.0.2.2\""] {
        assert!(facts.contains(fact), "{fact}");
    }
    assert_eq!(part(&console, "left"), "");
    let left = fs::read_dir(server.dir.path().join("export")).unwrap().count();
    assert_eq!(left, 0);
}
