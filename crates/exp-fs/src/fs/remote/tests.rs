use super::{CARD, EXPERIMENT};
use crate::fs::fixtures::{is_without_direct, place};
use crate::fs::prelude::*;
use bench::experiment::Peer;
use bench::experiment::fixtures::{self, bare_site};
use host::{Host, Root};
use record::event::Side;
use session::fixtures::{params, refused, rehearse_in};

/// A machine with an NFS mount over a card of 1 Gbit/s, an SSHFS mount through a gateway, and a
/// disk.
const MACHINE: &str = "== sys/class/net/eth0/mtu\n9000\n== sys/class/net/eth0/speed\n1000\n\
    == sys/class/net/eth0/device/vendor\n0x8086\n== sys/block/sda/size\n1000\n== sys/block/sda/dev\n8:0\n\
    == sys/block/sda/device/model\nX\n\
    == proc/net/route\n\
    eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
    eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
    == proc/self/mountinfo\n\
    22 1 8:0 / / rw - ext4 /dev/sda rw\n\
    24 22 0:50 / /far rw,noatime - nfs4 files:/exp rw,vers=4.2,hard,addr=10.0.0.2\n\
    25 22 0:51 / /ssh rw - fuse.sshfs me@192.168.7.7:/home rw,user_id=0\n\
    26 22 0:52 / /memory rw - tmpfs tmpfs rw\n\
    27 22 0:53 / /cluster rw - weird node1:/pool rw\n\
    28 22 0:54 / /odd rw - weird pool rw\n";

fn site() -> Site {
    Site { host: Host::read(&Root::tree(MACHINE)), ..bare_site() }
}

fn offer(path: &str, preset: Preset) -> Result<Offer, Skip> {
    let params = params(&CARD, preset, &[("path", path)]);
    EXPERIMENT.series(&site(), &params)
}

#[test]
fn nothing_is_measured_unless_something_remote_is_named() {
    for site in fixtures::sites() {
        let skip = refused(&EXPERIMENT, &site, Preset::Standard, &[]);
        assert!(skip.needed.expect("a way out").contains("--set fs.remote.path="));
    }
    for path in [
        "/home/me",
        "/memory/x",
        "/odd/x",
        "far/x",
        "/far/../home",
        "/dev/sda",
        "smb://me:secret@far/x/y",
        "nfs://far/x/y",
        "ftp://far/x",
    ] {
        let skip = offer(path, Preset::Standard).expect_err(path);
        assert!(!skip.reason.contains("secret"), "{}", skip.reason);
        if let Some((scheme, _)) = path.split_once("://") {
            let has = |part: &str| skip.reason.contains(part);
            assert!(has(&format!("{scheme}://")) && has("mount it"), "{}", skip.reason);
        }
        assert!(skip.needed.expect("a way out").contains("--set fs.remote.path="));
    }
}

#[test]
fn the_way_to_the_server_stands_with_each_case() {
    let offered = offer("/far/dir", Preset::Standard).expect("is remote");
    let series = &offered.series[0];
    assert_eq!(series.cases.len(), 24);
    assert_eq!(EXPERIMENT.files_below(series), Some(PathBuf::from("/far/dir")));
    assert!(EXPERIMENT.is_prepared(series));
    let at = &series.cases[0].at;
    for (name, value) in [
        ("file_system", Value::from("nfs4")),
        ("mount_options", Value::from("rw,noatime,vers=4.2,hard,addr=10.0.0.2")),
        ("mount_point", Value::from("/far")),
        ("source", Value::from("files:/exp")),
        ("server", Value::from("10.0.0.2")),
        ("interface", Value::from("eth0")),
        ("link", Value::from("wired")),
        ("link_bits_per_second", Value::from(1_000_000_000_u64)),
        ("mtu_bytes", Value::from(9000_u64)),
        ("gateway", Value::from(0_u64)),
    ] {
        assert_eq!(at.get(name), Some(&value), "{name}");
    }
    let ssh = offer("/ssh", Preset::Quick).expect("is remote");
    let at = &ssh.series[0].cases[0].at;
    assert_eq!(at["server"], Value::from("192.168.7.7"));
    assert_eq!(at["gateway"], Value::from(1_u64));
    assert_eq!(ssh.series[0].cases.len(), 4);
    // A file system that is in no list, but whose source names another machine.
    let cluster = offer("/cluster/x", Preset::Quick).expect("is remote");
    assert_eq!(cluster.series[0].cases[0].at["server"], Value::from("node1"));
}

#[test]
fn every_figure_has_a_prior_and_the_link_bounds_what_it_carries() {
    let site = site();
    for path in ["/far/dir", "/ssh", "/cluster"] {
        let offered = offer(path, Preset::Thorough).expect("is remote");
        for case in &offered.series[0].cases {
            for metric in CARD.metrics {
                let prior = EXPERIMENT.unscaled(&site, None, case, metric);
                let prior =
                    prior.unwrap_or_else(|| panic!("{path} {}: no {}", case.id, metric.name));
                let Some(range) = prior.range else {
                    assert!(metric.name.starts_with("rpc_"), "{path} {} {}", case.id, metric.name);
                    continue;
                };
                assert!(0.0 < range.low && range.low <= range.likely && range.likely <= range.high);
                let is_far = path == "/far/dir" || path == "/ssh";
                let is_cached = case.text("mode") == Some("cached");
                let is_bounded = metric.name == "bandwidth" && is_far && !is_cached;
                assert_eq!(prior.bound.is_some(), is_bounded, "{path} {}", case.id);
                if let Some(bound) = prior.bound {
                    assert_eq!((bound.side, bound.constant), (Side::AtMost, 125e6));
                }
            }
            // Nothing is known of this run: no derived prediction.
            let known = Known::default();
            let mut derived = CARD
                .metrics
                .iter()
                .map(|metric| EXPERIMENT.unscaled(&site, Some(&known), case, metric));
            assert!(derived.all(|prediction| prediction.is_none()));
        }
    }
}

/// The key is the one that net.rtt gives its figure.
#[test]
fn what_net_rtt_measured_to_the_server_is_in_every_request() {
    let peer = |address| Peer {
        name: "peer".to_owned(),
        address,
        host: Host::read(&Root::tree("")),
        cpus: vec![0],
        interface: None,
    };
    let of = "far=peer,protocol=tcp,message=64,ends=two_hosts,connections=1,receiver=blocking,\
              arrivals=saturated,exchange=echo";
    let offered = offer("/far/dir", Preset::Standard).expect("is remote");
    let asked = |case: &&Case| case.text("mode") == Some("direct");
    let case = offered.series[0].cases.iter().find(asked).expect("a direct read");
    for (server, is_it) in [("10.0.0.2", true), ("10.0.0.3", false)] {
        let peers = vec![peer(server.parse().expect("an address"))];
        let site = Site { peers, ..site() };
        for metric in ["latency", "bandwidth"] {
            let metric = CARD.metrics.iter().find(|of| of.name == metric).expect("a metric");
            let at = |trip_ns: f64| {
                let mut known = Known::default();
                known.insert(Key::new("net.rtt", &fixtures::case(of), "round_trip"), trip_ns);
                let told = EXPERIMENT.predict(&site, Some(&known), case, metric)?;
                Some(told.range.expect("it has one").likely)
            };
            let (near, away) = (at(2e5), at(2e7));
            assert_eq!((near.is_some(), away.is_some()), (is_it, is_it), "{server}");
            if let (Some(near), Some(away)) = (near, away) {
                let ratio = if metric.name == "bandwidth" { near / away } else { away / near };
                assert!((20.0..=100.0).contains(&ratio), "{near} {away}");
            }
        }
    }
}

/// This machine with the mount of its directory said to be of another machine: the whole way but
/// for the server.
#[test]
fn files_are_made_cold_read_and_checked() {
    let (dir, mut site) = place();
    let path = site.dir.as_ref().expect("named").path.display().to_string();
    let mut mount = site.host.block.mount_of(&path).expect("a mount").clone();
    if ["tmpfs", "ramfs"].contains(&mount.fs.as_str()) {
        return skips::test("memory-directory");
    }
    mount.source = "files:/exp".to_owned();
    mount.options = "rw,addr=10.0.0.2".to_owned();
    site.host.block.mounts = vec![mount];
    site.host.block.disks.clear();
    let set = [("path", path.as_str()), ("mode", "direct,cold,cold_no_readahead,cached")];
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &set);
    if is_without_direct(&dir, &rehearsed) {
        return;
    }
    let of =
        |metric: &str| rehearsed.samples.iter().filter(move |one| one.metric == metric).count();
    for metric in ["latency", "latency_per_block", "bandwidth", "iops", "cpu"] {
        assert_eq!(of(metric), 8, "{metric}");
    }
    let value = |metric: &str, case: &CaseId| {
        rehearsed.samples_of(case, metric).expect("each case has it").raw.samples()[0]
    };
    for one in rehearsed.samples.iter().filter(|one| one.metric == "cpu") {
        let of = |metric| value(metric, &one.case);
        // A thread is on a CPU for no longer than it takes; the clock around it starts a little
        // sooner.
        assert!(0.0 < of("cpu") && of("cpu") < 1.1 * of("latency_per_block") + 1e4);
        assert!((of("iops") * of("latency_per_block") / 1e9 - 1.0).abs() < 1e-6);
    }
    for one in rehearsed.samples.iter().filter(|one| one.metric == "latency") {
        let is_cached = one.case.text("mode") == Some("cached");
        let of_server = one.notes.iter().any(|note| note.contains("to the server"));
        assert_eq!(of_server, !is_cached, "{:?}", one.notes);
        assert!(one.quantities["statfs_magic"] > 0.0);
    }
}
