//! Laws of what limits a sender, and of what is lost where.

use super::Flow;
use crate::experiment::Site;
use crate::predict::Estimate;
use crate::predict::net::{Kind, Way};

/// What limits a sender, as a share; or a share that is lost.
pub(crate) fn share(site: &Site, flow: &Flow, metric: &str) -> Option<Estimate> {
    let way = Way::of(site);
    let is_here = way.kind() == Kind::Loopback;
    let is_small = flow.message < 4096;
    let is_doubtful = matches!(way.kind(), Kind::Wireless | Kind::Unknown) || way.has_gateway;
    let (low, likely, high, why) = match metric {
        "busy" if is_small => (0.1, 0.95, 1.3, "a queue of small messages may run empty"),
        "busy" if is_here && flow.streams > 1 => (
            0.2,
            0.7,
            1.3,
            "streams that share CPUs run empty while others have their turns",
        ),
        "busy" => (
            0.6,
            1.0,
            1.3,
            "a sender that never waits for its program, in ticks",
        ),
        "receive_window_limited" => (
            0.0,
            if is_here { 0.1 } else { 0.01 },
            1.0,
            "where the receiver does not keep up or its buffer has not grown",
        ),
        "send_buffer_limited" => (
            0.0,
            0.02,
            1.0,
            "where the send buffer has not grown for the round trip",
        ),
        "retransmitted" if is_here => (
            0.0,
            1e-4,
            0.01,
            "loopback loses nothing, but a probe for what may be lost is sent again",
        ),
        "retransmitted" if is_doubtful => (0.0, 0.002, 0.3, "a way that may lose segments"),
        "retransmitted" => (0.0, 1e-4, 0.1, "queues that overflow until the window fits"),
        "loss_path" if is_here => (0.0, 0.0, 0.02, "loopback: the sender's call delivers"),
        "loss_path" => (0.0, 0.01, 0.98, "whatever the way does not carry"),
        "loss_sender" if is_here => (0.0, 0.0, 0.02, "loopback has no queue to be full"),
        "loss_sender" => (
            0.0,
            0.0,
            0.98,
            "where the device's queue is full and the sender does not wait for it",
        ),
        "loss_receiver" if flow.interval_ns > 0 => (0.0, 0.0, 0.9, "a paced sender"),
        "loss_receiver" | "loss" if flow.is_same_cpu => (
            0.0,
            0.5,
            0.99,
            "the sender fills the receiver's buffer before it gives the CPU away",
        ),
        "loss_receiver" => (0.0, 0.03, 0.95, "a sender that outruns its receiver"),
        "loss" => (0.0, 0.05, 0.99, "sender, way and receiver together"),
        _ => return None,
    };
    let from = if is_here {
        "loopback: memory copies, no link".to_owned()
    } else {
        way.name()
    };
    Some(Estimate::new(
        low,
        likely,
        high,
        format!("base hardware: {from}; software: {why}"),
    ))
}
