//! Laws of what limits a sender, and of what is lost where.

use super::{Flow, carried, window, work};
use crate::net::{Kind, Way, least};
use crate::{Facts, Law, inverse, range, scaled};
use bench::experiment::Site;
use record::event::Range;

/// What limits a sender, as a share; or a share that is lost.
pub fn share(site: &Site, flow: &Flow, metric: &str) -> Option<Law> {
    let way = Way::for_site(site);
    let is_here = way.kind() == Kind::Loopback;
    let law = match metric {
        "busy" if flow.bytes.message < 4096 => {
            law_from_ends(0.1, 0.95, 1.3, "a queue of small messages may run empty")
        }
        "busy" if is_here && flow.streams > 1 => {
            law_from_ends(0.2, 0.7, 1.3, "streams share a CPU in turns")
        }
        "busy" => {
            law_from_ends(0.6, 1.0, 1.3, "the sender always has data; the kernel counts in ticks")
        }
        "receive_window_limited" => limited(site, &way, flow, true),
        "send_buffer_limited" => limited(site, &way, flow, false),
        "retransmitted" if is_here => {
            law_from_ends(0.0, 1e-4, 0.01, "TCP may retransmit a loss probe")
        }
        "retransmitted" if is_doubtful(&way) => {
            law_from_ends(0.0, 0.002, 0.3, "a path that may lose segments")
        }
        "retransmitted" => {
            law_from_ends(0.0, 1e-4, 0.1, "queues overflow until the congestion window fits")
        }
        "loss" | "loss_sender" | "loss_path" | "loss_receiver" => {
            let lost = Lost::for_flow(site, &way, flow);
            let share = match metric {
                "loss_sender" => lost.sender,
                "loss_path" => lost.path,
                "loss_receiver" => lost.receiver,
                _ => lost.all(),
            };
            Law::software(share, lost.because)
        }
        _ => return None,
    };
    Some(law.and(way.name()))
}

fn law_from_ends(low: f64, likely: f64, high: f64, why: &str) -> Law {
    Law::software(range(low, likely, high), why)
}

fn is_doubtful(way: &Way<'_>) -> bool {
    matches!(way.kind(), Kind::Wireless | Kind::Unknown) || way.has_gateway
}

/// Time in which the receiver's window, or the send buffer, held a sender back.
fn limited(site: &Site, way: &Way<'_>, flow: &Flow, by_receiver: bool) -> Law {
    if way.kind() == Kind::Loopback {
        return match by_receiver {
            true => law_from_ends(
                0.0,
                0.1,
                1.0,
                "a slow receiver, or a buffer that has not grown, limits",
            ),
            false => {
                law_from_ends(0.0, 0.0, 0.35, "segments are acknowledged within the sending call")
            }
        };
    }
    let link = carried(way, flow).range;
    let Some(window) = window::rate(site, way, flow) else {
        return law_from_ends(0.0, 0.02, 1.0, "the buffers' sizes are unknown");
    };
    if window.range.high < link.low {
        return law_from_ends(0.0, 0.5, 1.0, "the smaller socket buffer limits");
    }
    let is_slow = by_receiver && taken(site, flow).low < 2.0 * link.high;
    if window.range.low > 2.0 * link.high && !is_slow {
        return law_from_ends(0.0, 0.0, 0.25, "the socket buffers exceed what the path carries");
    }
    law_from_ends(0.0, 0.02, 1.0, "the socket buffers or a slow receiver may limit")
}

/// Bytes a second that the receiving ends take.
fn taken(site: &Site, flow: &Flow) -> Range {
    let work = work(Facts::prior(site), flow);
    let all = inverse(1e9 * flow.bytes.message as f64 * flow.streams as f64, work.receiver.range);
    match site.peer {
        // Another processor, and its driver beside.
        Some(_) => range(0.25 * all.low, 0.6 * all.likely, 2.0 * all.high),
        None => range(0.6 * all.low, all.likely, 1.4 * all.high),
    }
}

/// Shares of the datagrams that were tried.
struct Lost {
    sender: Range,
    path: Range,
    receiver: Range,
    because: String,
}

impl Lost {
    fn for_flow(site: &Site, way: &Way<'_>, flow: &Flow) -> Lost {
        let bytes = 1e9 * flow.bytes.message as f64 * flow.streams as f64;
        let tried = inverse(bytes, work(Facts::prior(site), flow).sender.range);
        let mut tried = range(0.5 * tried.low, tried.likely, 1.5 * tried.high);
        let paced = flow.interval_ns > 0;
        if paced {
            let rate = bytes / flow.interval_ns as f64;
            tried = least(tried, scaled(range(0.9, 1.0, 1.02), rate));
        }
        let none = range(0.0, 0.0, 0.02);
        let (sender, path, arrive, mut because) = if way.kind() == Kind::Loopback {
            let why = "loopback has no queue: the sending call delivers the datagram";
            (none, none, tried, why.to_owned())
        } else {
            let link = carried(way, flow).range;
            let over = beyond(tried, link, 0.02);
            let floor = if is_doubtful(way) { 0.3 } else { 0.02 };
            // The driver of a card at this end lets the sender wait; a shaper or a bridge drops,
            // with or without a report to the sender.
            let waits = way.kind() == Kind::Wired && !way.is_shaped();
            let (refused, path) = match waits {
                true => (0.1_f64.max(0.3 * over.high), beyond(least(tried, link), link, floor)),
                false => (over.high, range(0.0, over.likely, over.high.max(floor))),
            };
            let [sent, carried] = [tried, link].map(|of| of.likely / 1e6);
            let why = format!("{sent:.1} MB/s sent, {carried:.1} MB/s carried");
            (range(0.0, 0.0, refused), path, least(tried, link), why)
        };
        let takes = taken(site, flow);
        let receiver = match (flow.is_same_cpu(), paced) {
            (true, true) => beyond(arrive, takes, 0.3),
            (true, false) => range(0.0, 0.5, 0.99),
            (false, paced) => beyond(arrive, takes, if paced { 0.05 } else { 0.1 }),
        };
        because.push_str(&format!(", {:.1} MB/s read by the receiver", takes.likely / 1e6));
        if flow.is_same_cpu() {
            because.push_str(", once the sender yields the CPU");
        }
        Lost { sender, path, receiver, because }
    }

    /// All three after one another.
    fn all(&self) -> Range {
        let each = [self.sender, self.path, self.receiver];
        let kept = |of: fn(&Range) -> f64| each.iter().map(|lost| 1.0 - of(lost)).product::<f64>();
        range(
            1.0 - kept(|lost| lost.low),
            1.0 - kept(|lost| lost.likely),
            1.0 - kept(|lost| lost.high),
        )
    }
}

/// The share of what comes that is beyond what goes on; up to `floor` by chance, and for sure only
/// where even the least that comes is more than the most that goes on.
fn beyond(comes: Range, goes: Range, floor: f64) -> Range {
    let share = |comes: f64, goes: f64| (1.0 - goes / comes).max(0.0);
    let high = share(comes.high, goes.low).max(floor);
    range(0.5 * share(comes.low, goes.high), share(comes.likely, goes.likely).min(high), high)
}
