//! A kernel that mounts NFS 4.2: what its own counters say of plumb's reads.

use crate::namespace::Namespace;
use crate::plumb::prelude::*;
use crate::{Served, events, part};

pub const SCRIPT: &str = "
mkdir -p /mnt/far
mount -t nfs4 -o vers=4.2,addr=10.0.2.2,clientaddr=10.0.2.15,noresvport 10.0.2.2:/exp /mnt/far
plumb run fs.remote --preset rehearsal --set fs.remote.path=/mnt/far --set fs.remote.mode=direct,cold,cached \
  --set fs.remote.size=1MiB --out /tmp/nfs > /tmp/report 2>&1
echo \"nfs=$?\"; cat /tmp/report
plumb run fs.remote --preset thorough --budget 8s --set fs.remote.path=/mnt/far --set fs.remote.mode=direct \
  --set fs.remote.pattern=random --set fs.remote.size=1MiB --out /tmp/longer > /tmp/report 2>&1
echo \"longer=$?\"; cat /tmp/report
echo '[nfs'; cat /tmp/nfs; echo 'nfs]'
echo '[longer'; cat /tmp/longer; echo 'longer]'
echo '[left of nfs'; ls /mnt/far; echo 'left of nfs]'
umount /mnt/far
";

pub fn server(namespace: &Namespace) -> Served {
    Served::start(namespace, "nfs", 2049, |dir| {
        for name in ["export", "recovery"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        let at = dir.display();
        // In a container root lacks CAP_SYS_RESOURCE, which Ganesha 6 asks for unless it may do without.
        let configuration = format!(
            "NFS_KRB5 {{ Active_krb5 = false; }}\n\
             NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = 2049; Enable_NLM = false; \
             Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; \
             allow_set_io_flusher_fail = true; }}\n\
             NFSv4 {{ Grace_Period = 1; Lease_Lifetime = 10; RecoveryRoot = {at}/recovery; \
             Minor_Versions = 0,1,2; Only_Numeric_Owners = true; }}\n\
             EXPORT {{ Export_Id = 1; Path = {at}/export; Pseudo = /exp; Access_Type = RW; \
             Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; \
             FSAL {{ Name = VFS; }} }}\n"
        );
        fs::write(dir.join("ganesha.conf"), configuration).unwrap();
        let line = format!("ganesha.nfsd -F -f {at}/ganesha.conf -L /dev/stderr -p {at}/pid");
        line.split(' ').map(str::to_owned).collect()
    })
}

/// The mean times of reads stand where the kernel's milliseconds resolve them, and nowhere else: of
/// how many direct cases they do.
fn check_times(events: &[Value]) -> usize {
    let of = |metric, like: &Value| -> Option<f64> {
        let mut of = samples_of(events, metric).into_iter();
        let one = of.find(|one| one["case"] == like["case"] && one["round"] == like["round"])?;
        one["values"][0].as_f64()
    };
    let mut resolved = 0;
    let latencies = samples_of(events, "latency").into_iter();
    for one in latencies.filter(|one| one["case"]["mode"] == "direct") {
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

pub fn check(printed: &str, server: &Served) {
    assert!(printed.contains("nfs=0\n"), "{printed}");
    let events = events(printed, "nfs");
    let latencies = samples_of(&events, "latency");
    assert_eq!(latencies.len(), 6);
    for one in latencies {
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
    assert!(printed.contains("longer=0\n"), "{printed}");
    let longer = crate::events(printed, "longer");
    assert!(check_times(&longer) > 0);
    let facts = part(printed, "nfs");
    for fact in ["\"file_system\":\"nfs4\"", "vers=4.2", "\"server\":\"10.0.2.2\""] {
        assert!(facts.contains(fact), "{fact}");
    }
    assert_eq!(part(printed, "left of nfs"), "");
    assert!(names(&server.dir.path().join("export")).is_empty());
}
