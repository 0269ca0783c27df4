//! What does it cost to read a file on a remote file system?
//!
//! ## Question
//!
//! How long does a block of a remote file take: past the client's cache, through it, and from it?
//! How much of that is network and server, and how much the client?
//!
//! ## Method
//!
//! Nothing is measured unless `path` is set to a directory of a mounted remote file system (NFS, SMB,
//! Ceph, or a FUSE program such as SSHFS; `path=/mnt/share`). plumb reads its type and options from
//! the mount table and from statfs(2) and records them with every figure. The mount ID of the opened
//! file (/proc/self/fdinfo) must be that of the mount, so a link that leads elsewhere is refused. The
//! run creates a work directory there and removes it at the end. It holds one file per size:
//! incompressible data, unique per block, synced. Blocks of 4 KiB are read one after another
//! (pread(2)), sequentially or in random order, in passes as fs.read's (the file, or its next 16
//! MiB) until the case's time is over. Each read is timed by itself, and the contents of the last
//! blocks are checked after each pass. The modes are those of fs.read:
//!
//! - `direct`: O_DIRECT, which bypasses the client's page cache; if a first direct read leaves
//!   anything in it, O_DIRECT is faked. `direct_sync` adds O_SYNC.
//! - `cold`: through the page cache. Before each pass the file is evicted (opened anew,
//!   POSIX_FADV_DONTNEED), and none of its pages may be cached (cachestat(2), else mincore(2)).
//!   `cold_no_readahead` adds POSIX_FADV_RANDOM.
//! - `cached`: from the client's page cache, before the passes and after: the whole file, or of one
//!   above 32 MiB another part of 32 MiB in each round (`span_bytes`).
//!
//! For NFS mounts the kernel counts each operation (/proc/self/mountstats). `rpc_rtt` is the mean
//! time from sending a READ to its reply (network and server), `rpc_queue` the time before sending,
//! `rpc_execute` the total, and `rpc_client` (execute less rtt) the client's own time. The counters
//! hold whole milliseconds for all reads together, so below ten milliseconds plumb reports no
//! figure. The bytes that the server sent are compared with those requested (`cache_share`).
//!
//! ## Prediction
//!
//! As in R1: the client's work, a round trip, the server's work, and the bytes at the link's rate.
//! The interface of the route to the server gives the link's kind, rate and MTU: 100 Mbit/s carry
//! at most 12.5 MB/s, 0.33 ms per block. Round trips are 8 to 120 µs on loopback, 10 to 400 µs
//! between namespaces and guests, 30 µs to 2 ms by wire in one building, 0.8 to 25 ms by radio, and
//! up to 100 ms through a gateway; `--set host.net.rtt=…` and `--set host.net.rate=…` give better
//! values. Sequential requests through the cache overlap, so only the transfer remains if the link
//! is the limit. Figures of the same run count as well: net.rtt and net.bandwidth to the same
//! machine, and fs.read for the work of a server like this machine.
//!
//! ## Parameters
//!
//! - `pattern`: blocks in order, or each once in random order.
//! - `mode`: see Method.
//! - `size`: size of the file.
//! - The scheduler places the reading thread on the CPUs of the run, which a case's `cpus` names;
//!   migrations are expected.
//! - `path`: an absolute path of a directory; `none`: nothing is measured. A URL (`nfs://`, `smb://`)
//!   is refused: mount the share, and give the directory.
//!
//! ## Reading the result
//!
//! `latency` has a distribution: for sequential reads through the cache most reads hit readahead,
//! and some wait for it. `latency_per_block` is the time of a pass divided by its blocks, `iops`
//! and `bandwidth` its inverse: R0, R1 and R2 report these. `cpu` is the reading thread's own time
//! and excludes kernel threads, interrupts and a FUSE program. `direct` in random
//! order is the round trip with nothing to hide it. `rpc_rtt` divided by `latency` is the part that
//! this machine cannot influence.
//!
//! ## Pitfalls
//!
//! The server's cache is invisible. The server has just received the data, and answers from memory
//! unless its memory is smaller than the file. To measure its disk, use a file larger than its memory
//! (`size`). FUSE programs keep caches that the client can
//! neither empty nor count. Attributes and locks are requested at opening, outside the timed part.
//! A local path is refused, because fs.read measures it; so are devices and
//! special files. If the server of a hard mount vanishes, its readers hang in the kernel: the case
//! fails when its time is over, and the run goes on. R1 reads over a 100 Mbit/s USB adapter, R2
//! over a shared radio channel with signing: both are figures of their links.
//!
//! ## Sources
//!
//! [R0] "remote file read time" (NFS, 128 KiB to 3 MiB), [R1] table XVII (NFS), [R2] 7.3 (SMB);
//! [nfsiostat] (mountstats); [linux] Documentation/filesystems/nfs, net/sunrpc/stats.c; [man]
//! open(2) on O_DIRECT and NFS, nfs(5) on close-to-open.

mod mounted;
mod target;

use super::file::BLOCK_BYTES;
use super::offered::{Offered, cost};
use crate::fs::prelude::*;
use laws::fs::remote::{self as law, Client, Reading};
use laws::fs::{Mode, READS};

bench::experiment!(Remote);

/// Sizes of files in KiB: R0's 128 KiB to 3 MiB, and 2^0 to 2^8 MiB.
const THOROUGH_KIB: [u64; 14] =
    [128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 65536, 131072, 262144];
/// For stated costs: a link of which nothing is known, in bytes per s; opening, asking and making a
/// file cold in a case, and a worker's start and end, in ns.
const SLOW_LINK: u64 = 12_500_000;
const APPARATUS_NS: u64 = 15_000_000;
const WORKER_NS: f64 = 4e7;

case! {
    /// A file and how it is read.
    pub struct Look {
        /// blocks in order, or each once in random order
        pattern: Pattern,
        /// how the file is read, as in fs.read
        mode: Mode = Domain::Symbols(&[
            "direct", "direct_sync", "cold", "cold_no_readahead", "cached",
        ]),
        /// size of the file
        size: u64 = Domain::bytes(4 << 10, 4 << 40),
    }
}

static CARD: Card = Card {
    id: "fs.remote",
    title: "Reading files on a remote file system",
    metrics: metrics! {
        "latency_per_block" => Ns Lower Io: "time of a pass divided by its blocks";
        "latency" => Ns Lower Io: "one read of 4 KiB";
        "bandwidth" => BPerS Higher Io: "bytes of a pass divided by its time";
        "iops" => OpPerS Higher Io: "reads of a pass divided by its time";
        "cpu" => NsPerOp Lower Io: "CPU time of the reading thread per read, user and system";
        "rpc_rtt" => Ns Lower Io: "NFS: from sending a READ to its reply (network and server)";
        "rpc_queue" => Ns Lower Io: "NFS: time a READ waits before it is sent";
        "rpc_execute" => Ns Lower Io: "NFS: whole life of a READ, from creation to completion";
        "rpc_client" => Ns Lower Io: "NFS: the client's own time per READ (execute less rtt)";
    },
    params: params![
        Look::PARAMS,
        settings! {
            "path": Domain::Text, [target::NONE; 3] =>
                "directory of a mounted remote file system";
        },
    ],
    after: &["fs.read", "net.rtt", "net.bandwidth"],
    views: &[ViewCard::line("size", "latency_per_block")
        .beside(&["bandwidth"])
        .log()
        .each(&["pattern"])],
    ..Card::PLAIN
};

impl Experiment for Remote {
    type Case = Look;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("remote.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    // Reads from the cache make no operation, and short ones too few for the counters.
    const MAY_LACK: &'static [&'static str] =
        &["rpc_rtt", "rpc_queue", "rpc_execute", "rpc_client"];
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| mounted::prepare(series, dir),
        cost: |_, _| Duration::ZERO,
        has: |_| true,
    });
    const FILES_BELOW: fn(&Series) -> Option<PathBuf> = |series| {
        let path = series.settings.get("path").and_then(Value::text)?;
        Some(PathBuf::from(path))
    };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        cost(WORKER_NS, series, |case| {
            let rate = case.int("link_bits_per_second").map_or(SLOW_LINK, |bits| bits / 8);
            // All of a cached file has to come first.
            let is_cached = case.text("mode") == Some(Mode::Cached.text());
            let fill = case.int("size").filter(|_| is_cached).unwrap_or(0) as f64;
            (site.case_ns + APPARATUS_NS) as f64 + fill * 1e9 / rate.max(1) as f64
        })
    };

    fn cases(_: &Site, preset: Preset) -> Vec<Look> {
        let (modes, sizes_kib): (&[Mode], &[u64]) = match preset {
            Preset::Rehearsal => (&[Mode::Direct, Mode::Cold], &[128]),
            Preset::Quick => (&[Mode::Direct, Mode::Cold], &[1024]),
            Preset::Standard => (
                &[Mode::Direct, Mode::Cold, Mode::ColdNoReadahead, Mode::Cached],
                &[128, 3072, 65536],
            ),
            Preset::Thorough => (&READS, &THOROUGH_KIB),
        };
        let ways = Pattern::ALL.iter().flat_map(|way| modes.iter().map(move |mode| (*way, *mode)));
        ways.flat_map(|(pattern, mode)| {
            sizes_kib.iter().map(move |kib| Look { pattern, mode, size: kib << 10 })
        })
        .collect()
    }

    fn series(site: &Site, looks: Vec<Look>, params: &Params) -> Result<Offer, Skip> {
        let path = params.texts("path").first().copied().unwrap_or_default().to_owned();
        let ground = target::remote_ground(site, &path)?;
        let mut at = BTreeMap::new();
        target::put(&ground, site, &mut at);
        let mut offered = Offered::default();
        for look in &looks {
            offered.push(Case { id: look.id(), at: at.clone() }, None);
        }
        let settings = [("path".to_owned(), Value::from(path.as_str()))].gather();
        offered.series(&CARD, "", settings)
    }

    fn law(facts: Facts, look: &Look, at: &Case, metric: &Metric) -> Option<Prediction> {
        let way = target::way(at);
        let reading = Reading::for_mode(look.mode, look.pattern);
        let is_prior = facts.known.is_none();
        if !is_prior && !law::is_known(facts, &way, reading) {
            return None;
        }
        let per_block = || law::block(facts, &way, reading);
        let law = match metric.name.as_ref() {
            "latency" => law::one_read(facts, &way, reading),
            "latency_per_block" => per_block(),
            "bandwidth" => {
                let bound = law::link_bound(facts.site, &way);
                let rate = per_block().inverse(BLOCK_BYTES as f64 * 1e9);
                rate.bounded(bound.filter(|_| reading != Reading::Cached))
            }
            "iops" => per_block().inverse(1e9),
            // What else this run measured says nothing of what a client does.
            "cpu" if !is_prior && reading != Reading::Cached => return None,
            "cpu" => law::cpu(facts, &way, reading),
            _ if way.client != Client::Nfs || reading == Reading::Cached => {
                // The prior alone says why there is no such figure.
                let why = match reading {
                    Reading::Cached => "unknown: a cached read sends no request to the server",
                    _ => "unknown: only the kernel's NFS client counts its READs",
                };
                return is_prior.then(|| unknown(why));
            }
            "rpc_rtt" => law::wire(facts, &way),
            "rpc_client" => law::client(&way),
            "rpc_queue" => law::queue(reading),
            _ => law::execute(facts, &way, reading),
        };
        Some(Law::prediction(law))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Look>(series, |bench, case, look| mounted::time(case, look, bench));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
