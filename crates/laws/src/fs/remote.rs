//! Laws of files of another machine: what the client does, a round trip, what the server does, and the
//! bytes at the link's rate.
//!
//! Round trips by the kind of link are usual figures (ping on loopback prints 20 to 60 µs, between guests
//! and namespaces 30 to 300, through one switch 50 to 500 with the cards' coalescing, through Wi-Fi 1 to
//! 10 ms), TCP's on top. R1 measured 0.93 ms and 1.26 ms for a block over an adapter of 100 Mbit/s. What a
//! client and a server do per request was adjusted on user-space servers between namespaces, and is else
//! an estimate: nfsiostat of busy kernels' clients shows 20 to 100 µs more in `exe` than in `rtt`.

use crate::{Law, around, inverse, range};
use bench::experiment::{self, Known, Site};
use record::event::{Bound, Range, Side};
use std::net::IpAddr;

/// Bytes of a block.
const BLOCK_BYTES: f64 = 4096.0;
/// Bytes of a packet that are not payload: on the wire (preamble, Ethernet, gap), and of its MTU.
const WIRE_HEAD_BYTES: f64 = 38.0;
const MTU_HEAD_BYTES: f64 = 52.0;
/// A round trip in ns.
const LOOPBACK: Range = range(5e3, 2e4, 1.2e5);
const VIRTUAL: Range = range(5e3, 3e4, 4e5);
const WIRED: Range = range(3e4, 2e5, 2e6);
const FAST_WIRED: Range = range(1e4, 7e4, 1e6);
const WIRELESS: Range = range(8e5, 3e6, 2.5e7);
const UNKNOWN_LINK: Range = range(8e3, 2e5, 1e8);
/// A link is fast from so many bits per second on.
const FAST_BITS: u64 = 10_000_000_000;
/// Beyond a gateway the other end may be in the next room or on another continent.
const GATEWAY_HIGH_NS: f64 = 1.5e8;
/// Of a link that tells no rate: from 10 Mbit/s to what memory copies, in B/s.
const UNKNOWN_RATE: Range = range(1.2e6, 2e8, 2e10);
/// Between namespaces and guests bytes are copied, whatever rate their links claim, in B/s.
const COPIED_RATE: Range = range(8e7, 1.5e9, 2e10);
/// What a server takes for a request that its memory answers, in ns; and the worst disk behind it.
const SERVER_MEMORY: Range = range(2e3, 2e4, 2e5);
const SERVER_DISK_NS: f64 = 2.5e7;
/// A file that was there before may be on the server's disk or in its memory, in ns.
const SERVER_EXISTING: Range = range(2e3, 3e4, 2.5e7);
/// What a client does for a request, in ns.
const CLIENT_NFS: Range = range(1e4, 4e4, 3e5);
const CLIENT_SMB: Range = range(1.5e4, 6e4, 5e5);
/// Into the program and out of it, encryption included.
const CLIENT_FUSE: Range = range(2e4, 1.2e5, 1.5e6);
const CLIENT_LIBRARY: Range = range(2e3, 1e4, 1.5e5);
const CLIENT_OTHER: Range = range(3e3, 8e4, 1.5e6);
/// Part of a client's time that the reading thread itself is on a CPU.
const OWN_PART: Range = range(0.1, 0.5, 1.0);
/// A request that waits for nothing before it is sent, and one behind others that were read ahead.
const QUEUE_ALONE: Range = range(20.0, 4e3, 2e5);
const QUEUE_BEHIND: Range = range(20.0, 5e4, 2e7);
/// A system call and a copy of 4 KiB out of the page cache, in ns.
const COPY: Range = range(120.0, 700.0, 5e3);
/// Blocks that readahead has on their way: windows are 32 (128 KiB) to 256 (several MiB are split), small
/// files end before it has grown.
const AHEAD_BLOCKS: Range = range(4.0, 32.0, 256.0);

/// Who asks the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The kernel's NFS.
    Nfs,
    /// The kernel's SMB.
    Smb,
    /// A program behind FUSE.
    Fuse,
    /// libnfs in the process.
    Library,
    /// Another one in the kernel.
    Other,
}

/// What leads to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The same machine.
    Loopback,
    /// A veth, a bridge, a tunnel.
    Virtual,
    /// A network card.
    Wired,
    /// A radio.
    Wireless,
    /// Nobody told the server's address, or its route.
    Unknown,
}

/// How a block is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each by itself, past the client's cache.
    Asked,
    /// Each by itself, through the client's cache, where it is not.
    Missed,
    /// In order, through the client's cache, which reads ahead.
    Ahead,
    /// From the client's cache.
    Cached,
}

/// What lies between the reader and the server.
#[derive(Clone, Copy, Debug)]
pub struct Way<'facts> {
    /// Who asks.
    pub client: Client,
    /// Its file system's type.
    pub file_system: &'facts str,
    /// What leads there.
    pub link: Link,
    /// The server's address, where it is known.
    pub server: Option<IpAddr>,
    /// Its interface.
    pub interface: Option<&'facts str>,
    /// Its rate, where the driver tells one.
    pub bits_per_second: Option<u64>,
    /// Its largest packet.
    pub mtu_bytes: Option<u64>,
    /// Whether another machine takes packets further.
    pub has_gateway: bool,
}

/// Whether figures of this run say anything of a reading.
pub fn is_known(site: &Site, known: &Known, way: &Way<'_>, reading: Reading) -> bool {
    match reading {
        Reading::Cached => local(known, &["cached"]).is_some(),
        _ => measured_rtt(site, known, way).is_some() || local(known, &["direct"]).is_some(),
    }
}

/// One block of 4 KiB on the average of a pass, in ns.
pub fn block(site: &Site, known: Option<&Known>, way: &Way<'_>, reading: Reading) -> Law {
    if reading == Reading::Cached {
        return cached(known);
    }
    let alone = alone(site, known, way);
    match reading {
        Reading::Asked | Reading::Cached => alone,
        Reading::Missed => {
            let copied = total(&[alone.range, COPY]);
            // What one miss brings may be more than a block: the next ones near it are there then.
            Law::of(range(copied.low / 32.0, copied.likely, copied.high), alone.because())
                .and("a miss may bring more than its own block (÷ 32)")
        }
        Reading::Ahead => {
            let transfer = transfer(site, known, way);
            let waits = range(
                alone.range.low / AHEAD_BLOCKS.high,
                alone.range.likely / AHEAD_BLOCKS.likely,
                alone.range.high / AHEAD_BLOCKS.low,
            );
            Law::of(
                total(&[waits, transfer.range, COPY]),
                format!(
                    "{}; read ahead in order: {} to {} blocks on their way at once",
                    alone.because(),
                    AHEAD_BLOCKS.low,
                    AHEAD_BLOCKS.high
                ),
            )
        }
    }
}

/// One read of 4 KiB as most of a pass's are, in ns: in order and through the cache most find what was read
/// ahead.
pub fn one_read(site: &Site, known: Option<&Known>, way: &Way<'_>, reading: Reading) -> Law {
    let mean = block(site, known, way, reading);
    match reading {
        Reading::Asked | Reading::Cached => mean,
        Reading::Missed | Reading::Ahead => Law::of(
            range(COPY.low, mean.range.likely.min(COPY.likely * 4.0), mean.range.high),
            mean.because(),
        )
        .and("most reads find what was read ahead, and are a copy"),
    }
}

/// From a request's sending to its answer: wire and server, in ns.
pub fn wire(site: &Site, known: Option<&Known>, way: &Way<'_>) -> Law {
    let trip = round_trip(site, known, way);
    let server = server(known, way);
    let transfer = transfer(site, known, way);
    Law::of(
        total(&[trip.range, server.range, transfer.range]),
        format!("{}; {}; {}", trip.because(), server.because(), transfer.because()),
    )
    .and("requests of larger blocks, as readahead makes, take longer")
    .widened(1.0, 8.0, "up to 8 times")
}

/// What the client does for a request, in ns.
pub fn client(way: &Way<'_>) -> Law {
    let what = match way.client {
        Client::Nfs => (CLIENT_NFS, "the kernel's NFS client"),
        Client::Smb => (CLIENT_SMB, "the kernel's SMB client"),
        Client::Fuse => (CLIENT_FUSE, "a program behind FUSE"),
        Client::Library => (CLIENT_LIBRARY, "libnfs in the process"),
        Client::Other => (CLIENT_OTHER, "the client"),
    };
    let (cost, name) = what;
    Law::of(
        cost,
        format!(
            "software: {name} ({}) takes {:.0} to {:.0} µs for a request",
            way.file_system,
            cost.low / 1e3,
            cost.high / 1e3
        ),
    )
}

/// CPU time of the reading thread for a block, in ns: of what the client does its own part, for threads of
/// the kernel or a program do the rest.
pub fn cpu(known: Option<&Known>, way: &Way<'_>, reading: Reading) -> Law {
    if reading == Reading::Cached {
        return cached(known);
    }
    let client = client(way);
    let part = range(
        OWN_PART.low * client.range.low,
        OWN_PART.likely * client.range.likely,
        OWN_PART.high * client.range.high,
    );
    let (ns, what) = match reading {
        // Requests for many blocks, shared by them.
        Reading::Ahead => (
            total(&[
                COPY,
                range(
                    part.low / AHEAD_BLOCKS.high,
                    part.likely / AHEAD_BLOCKS.likely,
                    part.high / AHEAD_BLOCKS.low,
                ),
            ]),
            "a copy, and a share of the client's work for what was read ahead",
        ),
        Reading::Missed => {
            let all = total(&[part, COPY]);
            (range(COPY.low, all.likely, all.high), "a copy, and the client's work for each miss")
        }
        Reading::Asked | Reading::Cached => (part, "the client's work for a request"),
    };
    Law::of(
        ns,
        format!("software: {what}, as far as the reading thread does it; {}", client.because()),
    )
}

/// A request's wait before it is sent, in ns.
pub fn queue(reading: Reading) -> Law {
    let (wait, why) = match reading {
        Reading::Ahead => (QUEUE_BEHIND, "behind requests that read ahead"),
        _ => (QUEUE_ALONE, "one request at a time finds its connection free"),
    };
    Law::of(wait, format!("software: {why}; the counter has milliseconds"))
}

/// A request from its making to its end, in ns.
pub fn execute(site: &Site, known: Option<&Known>, way: &Way<'_>, reading: Reading) -> Law {
    let (wire, client, queue) = (wire(site, known, way), client(way), queue(reading));
    Law::of(
        total(&[wire.range, client.range, queue.range]),
        format!("{}; {}; {}", wire.because(), client.because(), queue.because()),
    )
}

/// What a link's nominal rate allows at most, in B/s; nothing of links that copy memory.
pub fn link_bound(site: &Site, way: &Way<'_>) -> Option<Bound> {
    let given = site.host.given.value("net.rate");
    let bits = match way.link {
        Link::Wired | Link::Wireless => given.or(way.bits_per_second.map(|bits| bits as f64))?,
        _ => return None,
    };
    Some(Bound {
        side: Side::AtMost,
        constant: bits / 8.0,
        inputs: Vec::new(),
        uncertainty: 0.01,
        rule: format!("a link of {:.0} Mbit/s brings {:.1} MB/s", bits / 1e6, bits / 8e6),
        // Nominal, and the wireless one changes while it is used.
        warns_only: true,
    })
}

/// A block that is asked for by itself.
fn alone(site: &Site, known: Option<&Known>, way: &Way<'_>) -> Law {
    let client = client(way);
    let trip = round_trip(site, known, way);
    let server = server(known, way);
    let transfer = transfer(site, known, way);
    Law::of(
        total(&[client.range, trip.range, server.range, transfer.range]),
        format!(
            "base hardware: {}; {}; {}; {}",
            trip.because(),
            transfer.because(),
            server.because(),
            client.because()
        ),
    )
}

fn round_trip(site: &Site, known: Option<&Known>, way: &Way<'_>) -> Law {
    if let Some(ns) = known.and_then(|known| measured_rtt(site, known, way)) {
        return Law::of(
            around(ns, 1.0),
            format!("a round trip to it as net.rtt measured it, {:.0} µs", ns / 1e3),
        );
    }
    if let Some(ns) = site.host.given.value("net.rtt") {
        return Law::of(
            around(ns, 0.3),
            format!("a round trip of {:.0} µs was given (host.net.rtt)", ns / 1e3),
        );
    }
    let is_fast = way.bits_per_second.is_some_and(|bits| bits >= FAST_BITS);
    let (mut trip, what) = match way.link {
        Link::Loopback => (LOOPBACK, "loopback"),
        Link::Virtual => (VIRTUAL, "a virtual link"),
        Link::Wired if is_fast => (FAST_WIRED, "a wired link of 10 Gbit/s or more"),
        Link::Wired => (WIRED, "a wired link"),
        Link::Wireless => (WIRELESS, "a radio link"),
        Link::Unknown => (UNKNOWN_LINK, "a link of which nothing is known"),
    };
    let mut beyond = "";
    if way.has_gateway && way.link != Link::Loopback {
        trip.high = GATEWAY_HIGH_NS;
        beyond = ", and further through a gateway";
    }
    Law::of(
        trip,
        format!(
            "a round trip over {what}{}{beyond}: {:.0} to {:.0} µs",
            way.interface.map(|name| format!(" ({name})")).unwrap_or_default(),
            trip.low / 1e3,
            trip.high / 1e3
        ),
    )
}

/// A block's bytes at the link's rate, in ns.
fn transfer(site: &Site, known: Option<&Known>, way: &Way<'_>) -> Law {
    let mtu = way.mtu_bytes.unwrap_or(1500).max(576) as f64;
    let heads = (mtu + WIRE_HEAD_BYTES) / (mtu - MTU_HEAD_BYTES);
    let given = site.host.given.value("net.rate");
    let stated = given.or(way.bits_per_second.map(|bits| bits as f64));
    let (rate, what) = match (known.and_then(|known| measured_rate(site, known, way)), way.link) {
        (Some(rate), _) => {
            (around(rate, 0.5), format!("{:.1} MB/s as net.bandwidth measured it", rate / 1e6))
        }
        (None, Link::Loopback | Link::Virtual) => {
            (COPIED_RATE, "bytes that are copied in memory".to_owned())
        }
        (None, Link::Wired | Link::Wireless) if stated.is_some() => {
            let bytes = stated.unwrap_or_default() / 8.0 / heads;
            // A radio gives half of what it claims, and what lies beyond a gateway may be anything.
            let worst = match (way.link, way.has_gateway) {
                (Link::Wired, false) => 2.0,
                (_, false) => 10.0,
                (_, true) => 100.0,
            };
            (
                range(bytes / worst, bytes * 0.9, bytes),
                format!("{:.1} MB/s at most on the link", bytes / 1e6),
            )
        }
        _ => (UNKNOWN_RATE, "a link that tells no rate".to_owned()),
    };
    Law::of(inverse(BLOCK_BYTES * 1e9, rate), format!("4 KiB by {what}"))
}

/// What the server takes, in ns.
fn server(known: Option<&Known>, way: &Way<'_>) -> Law {
    let here = known.and_then(|known| local(known, &["cached"]).zip(local(known, &["direct"])));
    let is_existing = way.client == Client::Library;
    match (here, is_existing) {
        (Some((memory, disk)), _) => {
            let likely = if is_existing { disk } else { memory };
            let spread = range(memory.min(likely), likely, disk.max(likely) * 3.0);
            Law::of(
                total(&[SERVER_MEMORY, spread]),
                format!(
                    "a server as this machine: {:.1} µs of its memory to {:.0} µs of its disk, as fs.read \
                     measured them here",
                    memory / 1e3,
                    disk / 1e3
                ),
            )
        }
        (None, true) => Law::of(
            SERVER_EXISTING,
            "the server has the file in its memory or on its disk, up to 25 ms".to_owned(),
        ),
        (None, false) => Law::of(
            range(SERVER_MEMORY.low, SERVER_MEMORY.likely, SERVER_DISK_NS),
            "the server was given the file a moment ago: its memory answers in 3 to 200 µs, a \
                      small one's disk in up to 25 ms"
                .to_owned(),
        ),
    }
}

fn cached(known: Option<&Known>) -> Law {
    match known.and_then(|known| local(known, &["cached"])) {
        Some(ns) => Law::of(
            range(ns / 2.0, ns * 1.05, ns * 3.0),
            format!(
                "this machine's page cache, from which fs.read took {ns:.0} ns; the remote file system's \
                 own check of what it has"
            ),
        ),
        None => Law::of(
            COPY,
            "base hardware: a copy of 4 KiB; software: a system call and a page looked up in this \
                      machine's cache"
                .to_owned(),
        ),
    }
}

/// Median time of a block that fs.read took in the same run in one of these modes, in ns.
fn local(known: &Known, modes: &[&str]) -> Option<f64> {
    let of = known.of("fs.read", "latency_per_block");
    let of = of.filter(|(case, _)| case.text("mode").is_some_and(|mode| modes.contains(&mode)));
    middle(of.map(|(_, ns)| ns).collect())
}

/// The round trip to the server, where one to it was measured, in ns: of small messages whose ends wait for
/// them on a connection that stays, as a client of files does.
fn measured_rtt(site: &Site, known: &Known, way: &Way<'_>) -> Option<f64> {
    let names = ["latency", "rtt", "round_trip"];
    let found = names.iter().flat_map(|name| known.of("net.rtt", name));
    middle(
        found
            .filter(|(case, _)| leads_there(site, way, case) && is_like_a_request(case))
            .map(|(_, ns)| ns)
            .collect(),
    )
}

/// Whether a round trip is of messages like requests: small ones, one at a time, whose ends sleep meanwhile, on
/// a connection that was there before.
fn is_like_a_request(case: &record::key::CaseId) -> bool {
    const SMALL_BYTES: u64 = 1024;
    let is = |name: &str, value: &str| case.text(name).is_none_or(|other| other == value);
    is("receiver", "blocking")
        && is("exchange", "echo")
        && case.int("message").is_none_or(|bytes| bytes <= SMALL_BYTES)
        && case.int("connections").is_none_or(|count| count == 1)
        && case.text("ends") != Some("one_thread")
}

/// What a stream to the server brought, where one was measured, in B/s.
fn measured_rate(site: &Site, known: &Known, way: &Way<'_>) -> Option<f64> {
    let found = known.of("net.bandwidth", "bandwidth");
    let found = found.filter(|(case, _)| leads_there(site, way, case));
    found.map(|(_, rate)| rate).max_by(f64::total_cmp)
}

/// Whether a network figure is of the way to the server: of loopback for a server here, else of the far end
/// where that is the server; TCP's, which file systems use.
fn leads_there(site: &Site, way: &Way<'_>, case: &record::key::CaseId) -> bool {
    let has = |word: &str| case.0.iter().any(|(_, value)| value.text() == Some(word));
    if has("udp") || has("unix") {
        return false;
    }
    match way.link {
        Link::Loopback => has(experiment::LOOPBACK),
        _ => {
            let mut there = site.peers.iter().filter(|peer| Some(peer.address) == way.server);
            there.any(|peer| has(&peer.name))
        }
    }
}

/// The interval of parts that go together: where machines, cards and links are fast, they are in all of
/// them, so that ends add to ends.
fn total(parts: &[Range]) -> Range {
    let of = |end: fn(&Range) -> f64| parts.iter().map(end).sum();
    range(of(|part| part.low), of(|part| part.likely), of(|part| part.high))
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
