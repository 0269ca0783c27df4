//! Laws of files of another machine: what the client does, a round trip, what the server does, and
//! the bytes at the link's rate.
//!
//! Round trips by the kind of link are usual figures (ping on loopback prints 20 to 60 µs, between
//! guests and namespaces 30 to 300, through one switch 50 to 500 with the cards' coalescing,
//! through Wi-Fi 1 to 10 ms), TCP's on top. R1 measured 0.93 ms and 1.26 ms for a block over an
//! adapter of 100 Mbit/s. What a client and a server do per request was adjusted on user-space
//! servers between namespaces, and is else an estimate: nfsiostat of busy kernels' clients shows 20
//! to 100 µs more in `exe` than in `rtt`.

use super::{BLOCK_BYTES, Mode, Pattern, figures, middle, read_figures};
use crate::net::COPIED_RATE;
use crate::{Facts, Law, around, ceiling, end_by_end, inverse, range};
use bench::experiment::{self, Site};
use bench::symbols;
use record::event::{Bound, Range};
use record::key::CaseId;
use std::net::IpAddr;

/// Bytes of a packet that are not payload: on the wire (preamble, Ethernet, gap), and of its MTU.
const WIRE_HEAD_BYTES: f64 = 38.0;
const MTU_HEAD_BYTES: f64 = 52.0;
/// A link is fast from so many bits per second on.
const FAST_BITS: u64 = 10_000_000_000;
/// Beyond a gateway the other end may be in the next room or on another continent.
const GATEWAY_HIGH_NS: f64 = 1.5e8;
/// For a link that reports no rate: from 10 Mbit/s to what memory copies, in B/s.
const UNKNOWN_RATE: Range = range(1.2e6, 2e8, 2e10);
/// What a server takes for a request that its memory answers, in ns; and the worst disk behind it.
const SERVER_MEMORY: Range = range(2e3, 2e4, 2e5);
const SERVER_DISK_NS: f64 = 2.5e7;
/// Part of a client's time that the reading thread itself is on a CPU.
const OWN_PART: Range = range(0.1, 0.5, 1.0);
/// A request that waits for nothing before it is sent, and one behind others that were read ahead.
const QUEUE_ALONE: Range = range(20.0, 4e3, 2e5);
const QUEUE_BEHIND: Range = range(20.0, 5e4, 2e7);
/// A system call and a copy of 4 KiB out of the page cache, in ns.
const COPY: Range = range(120.0, 700.0, 5e3);
/// Blocks that readahead has on their way: windows are 32 (128 KiB) to 256 (several MiB are split),
/// small files end before it has grown.
const AHEAD_BLOCKS: Range = range(4.0, 32.0, 256.0);

/// The client of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Nfs,
    Smb,
    /// A program behind FUSE.
    Fuse,
    /// Another one in the kernel.
    Other,
}

symbols! {
    /// What leads to the server.
    pub enum Link {
        /// The same machine.
        Loopback = "loopback",
        /// A veth, a bridge, a tunnel.
        Virtual = "virtual",
        /// A network card.
        Wired = "wired",
        /// A radio.
        Wireless = "wireless",
        /// The server's address or its route is not known.
        Unknown = "unknown",
    }
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

impl Reading {
    pub fn for_mode(mode: Mode, pattern: Pattern) -> Reading {
        match mode {
            Mode::Cached => Reading::Cached,
            Mode::Cold if pattern == Pattern::Sequential => Reading::Ahead,
            Mode::Cold | Mode::ColdNoReadahead => Reading::Missed,
            _ => Reading::Asked,
        }
    }
}

/// What lies between the reader and the server.
#[derive(Clone, Copy, Debug)]
pub struct Way<'facts> {
    pub client: Client,
    pub file_system: &'facts str,
    pub link: Link,
    pub server: Option<IpAddr>,
    pub interface: Option<&'facts str>,
    /// Its rate, if the driver reports one.
    pub bits_per_second: Option<u64>,
    pub mtu_bytes: Option<u64>,
    /// Whether another machine takes packets further.
    pub has_gateway: bool,
}

/// Whether figures of this run say anything of a reading.
pub fn is_known(facts: Facts, way: &Way, reading: Reading) -> bool {
    match reading {
        Reading::Cached => local(facts, Mode::Cached).is_some(),
        _ => measured_rtt(facts, way).is_some() || local(facts, Mode::Direct).is_some(),
    }
}

/// Parts that go together: where machines, cards and links are fast, they are in all of them, so
/// that ends add to ends.
fn together<const PARTS: usize>(parts: [Law; PARTS]) -> Law {
    let add = |a, b| end_by_end(a, b, |a, b| a + b);
    let whole = parts.iter().map(|part| part.range).reduce(add);
    let sum = parts.into_iter().reduce(|sum, part| sum + part);
    let (sum, whole) = sum.zip(whole).expect("there are parts");
    sum.with_range(whole)
}

/// What is shared by the blocks that are read ahead.
fn shared(of: Range) -> Range {
    let Range { low, likely, high } = AHEAD_BLOCKS;
    range(of.low / high, of.likely / likely, of.high / low)
}

/// A copy of 4 KiB out of the page cache.
fn copy() -> Law {
    Law::software(COPY, "a system call, a page looked up locally and copied out")
}

/// One block of 4 KiB on the average of a pass, in ns.
pub fn block(facts: Facts, way: &Way, reading: Reading) -> Law {
    if reading == Reading::Cached {
        return cached(facts);
    }
    let alone =
        together([client(way), round_trip(facts, way), server(facts), transfer(facts, way)]);
    match reading {
        Reading::Asked | Reading::Cached => alone,
        Reading::Missed => {
            let mut law = together([alone, copy()]);
            // What one miss brings may be more than a block: the next ones near it are there then.
            law.range.low /= 32.0;
            law.and("a miss may fetch more than one block (÷ 32)")
        }
        Reading::Ahead => {
            let waits = shared(alone.range);
            let Range { low, high, .. } = AHEAD_BLOCKS;
            together([alone.with_range(waits), transfer(facts, way), copy()])
                .and(format!("sequential readahead: {low} to {high} blocks in flight"))
        }
    }
}

/// One read of 4 KiB as most of a pass's are, in ns: in order and through the cache most find what
/// was read ahead.
pub fn one_read(facts: Facts, way: &Way, reading: Reading) -> Law {
    let mean = block(facts, way, reading);
    match reading {
        Reading::Asked | Reading::Cached => mean,
        Reading::Missed | Reading::Ahead => {
            let Range { likely, high, .. } = mean.range;
            let of = range(COPY.low, likely.min(COPY.likely * 4.0), high);
            mean.with_range(of).and("most reads hit readahead and only copy")
        }
    }
}

/// From a request's sending to its answer: wire and server, in ns.
pub fn wire(facts: Facts, way: &Way) -> Law {
    let wire = together([round_trip(facts, way), server(facts), transfer(facts, way)]);
    wire.widened(1.0, 8.0, "requests for many blocks take up to 8 times as long")
}

/// What the client does for a request, in ns.
pub fn client(way: &Way) -> Law {
    let (cost, name) = match way.client {
        Client::Nfs => (range(1e4, 4e4, 3e5), "the kernel's NFS client"),
        Client::Smb => (range(1.5e4, 6e4, 5e5), "the kernel's SMB client"),
        // Into the program and out of it, encryption included.
        Client::Fuse => (range(2e4, 1.2e5, 1.5e6), "a program behind FUSE"),
        Client::Other => (range(3e3, 8e4, 1.5e6), "the client"),
    };
    Law::software(cost, format!("{name} ({})", way.file_system)).unsourced()
}

/// CPU time of the reading thread for a block, in ns: of what the client does its own part, for
/// threads of the kernel or a program do the rest.
pub fn cpu(facts: Facts, way: &Way, reading: Reading) -> Law {
    if reading == Reading::Cached {
        return cached(facts);
    }
    let own = |client: Range| end_by_end(OWN_PART, client, |own, client| own * client);
    let client = client(way);
    match reading {
        // Requests for many blocks, shared by them.
        Reading::Ahead => together([client.reshaped(|of| shared(own(of))), copy()])
            .and("many readahead blocks share one request's client work"),
        Reading::Missed => {
            let law = together([client.reshaped(own), copy()]);
            let mut law = law.and("the client's work for each miss");
            law.range.low = COPY.low;
            law
        }
        Reading::Asked | Reading::Cached => client.reshaped(own),
    }
    .and("only the reading thread's part")
}

/// A request's wait before it is sent, in ns.
pub fn queue(reading: Reading) -> Law {
    let (wait, why) = match reading {
        Reading::Ahead => (QUEUE_BEHIND, "waits behind readahead requests"),
        _ => (QUEUE_ALONE, "one request at a time: the connection is idle"),
    };
    Law::software(wait, why).and("the counter has a resolution of 1 ms")
}

/// A request from its making to its end, in ns.
pub fn execute(facts: Facts, way: &Way, reading: Reading) -> Law {
    together([wire(facts, way), client(way), queue(reading)])
}

/// What a link's nominal rate allows at most, in B/s; nothing of links that copy memory.
pub fn link_bound(site: &Site, way: &Way) -> Option<Bound> {
    let bits = match way.link {
        Link::Wired | Link::Wireless => stated_bits(site, way)?,
        _ => return None,
    };
    let rule = format!("a link of {:.0} Mbit/s carries {:.1} MB/s", bits / 1e6, bits / 8e6);
    Some(ceiling(bits / 8.0, 0.01, rule))
}

fn stated_bits(site: &Site, way: &Way) -> Option<f64> {
    site.host.given.value("net.rate").or(way.bits_per_second.map(|bits| bits as f64))
}

fn round_trip(facts: Facts, way: &Way) -> Law {
    let measured = measured_rtt(facts, way).map(|ns| (ns, 1.0, "measured by net.rtt"));
    let given = facts.site.host.given.value("net.rtt");
    let given = given.map(|ns| (ns, 0.3, "--set host.net.rtt"));
    if let Some((ns, share, from)) = measured.or(given) {
        let us = ns / 1e3;
        return Law::measured(ns, share, format!("a round trip takes {us:.0} µs ({from})"));
    }
    let is_fast = way.bits_per_second.is_some_and(|bits| bits >= FAST_BITS);
    let (mut trip, what) = match way.link {
        Link::Loopback => (range(5e3, 2e4, 1.2e5), "loopback"),
        Link::Virtual => (range(5e3, 3e4, 4e5), "a virtual link"),
        Link::Wired if is_fast => (range(1e4, 7e4, 1e6), "a wired link of 10 Gbit/s or more"),
        Link::Wired => (range(3e4, 2e5, 2e6), "a wired link"),
        Link::Wireless => (range(8e5, 3e6, 2.5e7), "a radio link"),
        Link::Unknown => (range(8e3, 2e5, 1e8), "an unknown link"),
    };
    let mut beyond = "";
    if way.has_gateway && way.link != Link::Loopback {
        trip.high = GATEWAY_HIGH_NS;
        beyond = ", beyond a gateway";
    }
    let name = way.interface.map(|name| format!(" ({name})")).unwrap_or_default();
    Law::hardware(trip, format!("a round trip over {what}{name}{beyond}")).unsourced()
}

/// A block's bytes at the link's rate, in ns.
fn transfer(facts: Facts, way: &Way) -> Law {
    let mtu = way.mtu_bytes.unwrap_or(1500).max(576) as f64;
    let heads = (mtu + WIRE_HEAD_BYTES) / (mtu - MTU_HEAD_BYTES);
    let (rate, what) = match (measured_rate(facts, way), way.link, stated_bits(facts.site, way)) {
        (Some(rate), ..) => (around(rate, 0.5), format!("{:.1} MB/s by net.bandwidth", rate / 1e6)),
        (_, Link::Loopback | Link::Virtual, _) => (COPIED_RATE, "memory copies".to_owned()),
        (_, Link::Wired | Link::Wireless, Some(bits)) => {
            let bytes = bits / 8.0 / heads;
            // A radio gives half of what it claims, and what lies beyond a gateway may be anything.
            let worst = match (way.link, way.has_gateway) {
                (Link::Wired, false) => 2.0,
                (_, false) => 10.0,
                (_, true) => 100.0,
            };
            let rate = range(bytes / worst, bytes * 0.9, bytes);
            (rate, format!("at most {:.1} MB/s on the link", bytes / 1e6))
        }
        _ => (UNKNOWN_RATE, "a link that reports no rate".to_owned()),
    };
    Law::hardware(inverse(BLOCK_BYTES * 1e9, rate), format!("4 KiB by {what}"))
}

/// What the server takes, in ns. It has just received the file, so its memory is likely.
fn server(facts: Facts) -> Law {
    match local(facts, Mode::Cached).zip(local(facts, Mode::Direct)) {
        Some((memory, disk)) => {
            let spread = range(memory, memory, disk.max(memory) * 3.0);
            let (memory, disk) = (memory / 1e3, disk / 1e3);
            let told =
                format!("as this machine: {memory:.1} to {disk:.0} µs (measured by fs.read)");
            Law::from_range(end_by_end(SERVER_MEMORY, spread, |a, b| a + b), told)
        }
        None => {
            let of = range(SERVER_MEMORY.low, SERVER_MEMORY.likely, SERVER_DISK_NS);
            Law::from_range(of, "the server answers from memory, or a small server from its disk")
        }
    }
}

fn cached(facts: Facts) -> Law {
    match local(facts, Mode::Cached) {
        Some(ns) => {
            let told = format!("a block of the page cache took {ns:.0} ns (measured by fs.read)");
            Law::new(ns / 2.0, ns * 1.05, ns * 3.0, told)
        }
        None => copy(),
    }
}

/// Median time of a block that fs.read took in the same run in a mode, in ns.
fn local(facts: Facts, mode: Mode) -> Option<f64> {
    middle(read_figures(facts, None, mode.text(), "latency_per_block").map(|(_, ns)| ns))
}

/// The round trip to the server, where one to it was measured, in ns: of small messages whose ends
/// wait for them on a connection that stays, as a client of files does.
fn measured_rtt(facts: Facts, way: &Way) -> Option<f64> {
    let found = figures(facts, "net.rtt", "round_trip");
    let is_it = |case: &CaseId| leads_there(facts.site, way, case) && is_like_a_request(case);
    middle(found.filter(|(case, _)| is_it(case)).map(|(_, ns)| ns))
}

/// Whether a round trip is of messages like requests: small ones, one at a time, whose ends sleep
/// meanwhile, on a connection that was there before.
fn is_like_a_request(case: &CaseId) -> bool {
    const SMALL_BYTES: u64 = 1024;
    let is = |name: &str, value: &str| case.text(name).is_none_or(|other| other == value);
    is("receiver", "blocking")
        && is("exchange", "echo")
        && case.int("message").is_none_or(|bytes| bytes <= SMALL_BYTES)
        && case.int("connections").is_none_or(|count| count == 1)
        && case.text("ends") != Some("one_thread")
}

/// What a stream to the server brought, where one was measured, in B/s.
fn measured_rate(facts: Facts, way: &Way) -> Option<f64> {
    let found = figures(facts, "net.bandwidth", "bandwidth");
    let found = found.filter(|(case, _)| leads_there(facts.site, way, case));
    found.map(|(_, rate)| rate).max_by(f64::total_cmp)
}

/// Whether a network figure is of the way to the server: of loopback for a server here, else of the
/// far end where that is the server; TCP's, which file systems use.
fn leads_there(site: &Site, way: &Way, case: &CaseId) -> bool {
    let has = |word: &str| case.0.iter().any(|(_, value)| value.text() == Some(word));
    if has("udp") || has("unix") {
        return false;
    }
    match way.link {
        Link::Loopback => has(experiment::LOOPBACK),
        _ => site.peers.iter().any(|peer| Some(peer.address) == way.server && has(&peer.name)),
    }
}

#[cfg(test)]
mod tests;
