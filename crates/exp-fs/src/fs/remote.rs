//! What does it cost to read a file on a remote file system?
//!
//! ## Question
//!
//! How long does a block of a remote file take: past the client's cache, through it, and from it?
//! How much of that is network and server, and how much the client?
//!
//! ## Method
//!
//! Nothing is measured unless `path` is set, to one of two things.
//!
//! A directory of a mounted remote file system (NFS, SMB, Ceph, or a FUSE program such as SSHFS;
//! `path=/mnt/share`). plumb reads its type and options from the mount table and from statfs(2) and
//! records them with every figure. The mount ID of the opened file (/proc/self/fdinfo) must be that
//! of the mount, so a link that leads elsewhere is refused. The run creates a work directory there
//! and removes it at the end. It holds one file per size: incompressible data, unique per block,
//! synced. Blocks of 4 KiB are read one after another (pread(2)), sequentially or in random order,
//! until the case's time is over. Each read is timed by itself, and the contents of the last blocks
//! are checked after each pass. The modes are those of fs.read:
//!
//! - `direct`: O_DIRECT, which bypasses the client's page cache; if a first direct read leaves
//!   anything in it, O_DIRECT is faked. `direct_sync` adds O_SYNC.
//! - `cold`: through the page cache. Before each pass the file is evicted (opened anew,
//!   POSIX_FADV_DONTNEED), and none of its pages may be cached (cachestat(2), else mincore(2)).
//!   `cold_no_readahead` adds POSIX_FADV_RANDOM.
//! - `cached`: from the client's page cache, which holds the whole file.
//!
//! A file of an NFS server (`path=nfs://server/export/file?version=4`), which libnfs reads inside
//! the process without a mount and without a local cache: `mode=library`. The file must exist and
//! is only read: with `size=whole` completely, but at most its first 256 MiB, else its first `size`
//! bytes. plumb waits at most 5 s for each reply, and opening needs several: version 4 connects and
//! mounts; version 3 asks the port mapper, the mount server and the server in turn, and is tried
//! after version 4 unless that got no reply. The system's resolver looks up the server's name and
//! has separate time-outs (resolv.conf(5)). A round that shows no sign of life is ended, whatever
//! it waits for. URL arguments that enable caches (`readahead`, `pagecache`, `dircache`) are
//! refused.
//!
//! A file on an SMB server (`path=smb://[user@]server[:port]/share/file`), which libsmbclient reads
//! in the same way. The library signs and encrypts as its configuration says (`client signing` and
//! `client smb encrypt` in smb.conf(5)). Without a user in the URL a guest reads. The password of a
//! user is the environment variable `PASSWD`, as for smbclient(1); plumb does not record it.
//!
//! For NFS mounts the kernel counts each operation (/proc/self/mountstats). `rpc_rtt` is the mean
//! time from sending a READ to its reply (network and server), `rpc_queue` the time before sending,
//! `rpc_execute` the total, and `rpc_client` (execute less rtt) the client's own time. The counters
//! hold whole milliseconds for all reads together, so below ten milliseconds plumb reports no
//! figure. The bytes that the server sent are compared with those requested (`cache_share`).
//! TCP_INFO of the library's socket gives its round trip, `tcp_rtt_ns` and `tcp_min_rtt_ns`, and the
//! received bytes.
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
//! - `size`: size of the file; `whole` for a file on a server.
//! - `placement`: where the reading thread runs: `free` (the scheduler places it; migrations are
//!   expected), `interrupt` (the CPU that handles the interrupts of the interface to the server) or
//!   `other` (another CPU).
//! - `path`: an absolute path of a directory, or a URL; `none`: nothing is measured.
//!
//! ## Reading the result
//!
//! `latency` has a distribution: for sequential reads through the cache most reads hit readahead,
//! and some wait for it. `latency_per_block` is the time of a pass divided by its blocks, `iops`
//! and `bandwidth` its inverse: R0, R1 and R2 report these. `cpu` is the reading thread's own time,
//! including the library, and excludes kernel threads, interrupts and a FUSE program. `direct` in random
//! order is the round trip with nothing to hide it. `rpc_rtt` divided by `latency` is the part that
//! this machine cannot influence.
//!
//! ## Pitfalls
//!
//! The server's cache is invisible. The server has just received the data, and answers from memory
//! unless its memory is smaller than the file. To measure its disk, read a file that is not in its
//! memory (`nfs://`, `smb://`), or one larger than its memory. FUSE programs keep caches that the client can
//! neither empty nor count. Attributes and locks are requested at opening, outside the timed part.
//! TCP_INFO's smoothed round trip runs from a request to its acknowledgement. A quick reply carries
//! the acknowledgement, so the figure then includes the server's work; the smallest value is closer
//! to the network's. A local path is refused, because fs.read measures it; so are devices and
//! special files. If the server of a hard mount vanishes, its readers hang in the kernel: the case
//! fails when its time is over, and the run goes on. R1 reads over a 100 Mbit/s USB adapter, R2
//! over a shared radio channel with signing: both are figures of their links.
//!
//! ## Sources
//!
//! [R0] "remote file read time" (NFS, 128 KiB to 3 MiB), [R1] table XVII (NFS), [R2] 7.3 (SMB);
//! [nfsiostat] (mountstats); [linux] Documentation/filesystems/nfs, net/sunrpc/stats.c; [man]
//! open(2) on O_DIRECT and NFS, nfs(5) on close-to-open, tcp(7); [libnfs]; [samba].

mod library;
mod mounted;
mod passes;
mod target;

use super::file::BLOCK_BYTES;
use super::offered::{Offered, cost};
use crate::fs::prelude::*;
use laws::fs::Mode;
use laws::fs::remote::{self as law, Client, Reading};
use target::{Target, Url};

bench::experiment!(Remote);

/// Sizes of files in KiB: R0's 128 KiB to 3 MiB, and 2^0 to 2^8 MiB.
const THOROUGH_KIB: [u64; 14] =
    [128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768, 65536, 131072, 262144];
/// Name of the series that reads without a mount.
const LIBRARY_SERIES: &str = "library";
/// A share of bytes that did not come from the server that is not worth a word.
const SHARE_UNTOLD: f64 = 0.01;
/// For stated costs: a link of which nothing is known, in bytes per s; opening, asking and making a
/// file cold in a case, and a worker's start and end, in ns.
const SLOW_LINK: u64 = 12_500_000;
const APPARATUS_NS: u64 = 15_000_000;
const WORKER_NS: f64 = 4e7;

symbols! {
    enum Size { Whole = "whole"; Bytes(4 << 10, 1 << 42, B) }
}

case! {
    /// A file and how it is read.
    pub struct Look {
        /// blocks in order, or each once in random order
        pattern: Pattern,
        /// how the file is read, as in fs.read; `library`: without a mount, for nfs:// and smb://
        mode: Mode,
        /// size of the file; `whole` for an existing file on a server, at most its first 256 MiB
        size: Size,
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
        &[PLACEMENT_PARAM],
        settings! {
            "path": Domain::Text, [target::NONE; 3] =>
                "directory of a mounted remote file system, nfs://server/export/file or \
                 smb://server/share/file";
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
        has: |series| series.name != LIBRARY_SERIES,
    });
    const FILES_BELOW: fn(&Series) -> Option<PathBuf> = |series| {
        let path = path(series)?;
        (series.name != LIBRARY_SERIES).then(|| PathBuf::from(path))
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

    /// Those of a directory, and those of a file of a server.
    fn cases(_: &Site, preset: Preset) -> Vec<Look> {
        let (modes, sizes_kib): (&[Mode], &[u64]) = match preset {
            Preset::Rehearsal => (&[Mode::Direct, Mode::Cold], &[128]),
            Preset::Quick => (&[Mode::Direct, Mode::Cold], &[1024]),
            Preset::Standard => (
                &[Mode::Direct, Mode::Cold, Mode::ColdNoReadahead, Mode::Cached],
                &[128, 3072, 65536],
            ),
            Preset::Thorough => (&Mode::BY_KERNEL, &THOROUGH_KIB),
        };
        let of_directory = modes
            .iter()
            .flat_map(|mode| sizes_kib.iter().map(move |kib| (*mode, Size::Bytes(kib << 10))));
        let ways: Vec<(Mode, Size)> = of_directory.chain([(Mode::Library, Size::Whole)]).collect();
        let of = |&pattern| ways.iter().map(move |&(mode, size)| Look { pattern, mode, size });
        Pattern::ALL.iter().flat_map(of).collect()
    }

    fn series(site: &Site, looks: Vec<Look>, params: &Params) -> Result<Offer, Skip> {
        let path = params.texts("path").first().copied().unwrap_or_default().to_owned();
        let target = target::of(site, &path)?;
        let is_file = matches!(target, Target::File(_));
        let mut at = BTreeMap::new();
        target.put(site, &mut at);
        // Parameters that the user did not choose follow the path.
        let (mode, size) = (params.chosen("mode").is_some(), params.chosen("size").is_some());
        let fits = |look: &&Look| {
            (mode || (look.mode == Mode::Library) == is_file)
                && (size || (look.size == Size::Whole) == is_file)
        };
        let mut offered = Offered::default();
        for look in looks.iter().filter(fits) {
            offered.push(Case { id: look.id(), at: at.clone() }, absent(is_file, look));
        }
        let settings = [("path".to_owned(), Value::from(path.as_str()))].gather();
        offered.series(&CARD, if is_file { LIBRARY_SERIES } else { "" }, settings)
    }

    fn resolve(_: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        // A series of a directory has no URL, and needs no library.
        let url = path(&series).and_then(|path| Url::parse(path).ok());
        if let Some(library) = url.as_ref().map(Url::library)
            && let Err(error) = (library.look)()
        {
            return Err(Skip::because(error.to_string()).needs(library.package));
        }
        Ok(series)
    }

    fn law(facts: Facts, look: &Look, at: &Case, metric: &Metric) -> Option<Prediction> {
        let way = target::way(at);
        let reading = Reading::of(look.mode, look.pattern);
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
        if series.name != LIBRARY_SERIES {
            bench.each_of::<Look>(series, |bench, case, look| mounted::time(case, look, bench));
            return Ok(());
        }
        let text = path(series).context("the path setting is missing")?;
        let url = Url::parse(text).map_err(|reason| anyhow!(reason))?;
        library::measure(series, bench, &url)
    }
}

fn path(series: &Series) -> Option<&str> {
    series.settings.get("path").and_then(Value::text)
}

fn absent(is_file: bool, look: &Look) -> Option<Skip> {
    let (why, needed) = match (is_file, look.mode, look.size) {
        (true, mode, _) if mode != Mode::Library => (
            "a file that is not mounted has no page cache and no open flags: only mode=library \
             reads it",
            "--set fs.remote.mode=library, or the path of a mounted directory",
        ),
        (false, Mode::Library, _) => (
            "mode=library reads a file on a server, but the path is a directory",
            "--set fs.remote.path=nfs://server/export/file, or smb://server/share/file",
        ),
        (false, _, Size::Whole) => (
            "plumb creates the files in a directory, so they need a size",
            "--set fs.remote.size=SIZE",
        ),
        _ => return None,
    };
    Some(Skip::because(why).needs(needed))
}

#[cfg(test)]
mod tests;
