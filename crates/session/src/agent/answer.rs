//! The checks on an agent's messages. An agent has the key, and may still be old, broken or taken
//! over: its messages add nothing to what is measured, lead to no other address, steer no terminal,
//! and take no more memory than their frames have.

use super::channel::{ANSWER_BYTES_MAX, Channel, Lost};
use super::message::FromAgent;
use super::plain::plain;
use anyhow::{Result, bail};
use bench::link::{FromWorker, RoundOrder};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Waits for the next message, whose texts are plain ones; `None` where none has come by the
/// deadline. From an agent that welcomes it is taken only if it is the same plumb, and shorter
/// messages from then on. Errors: as [`Channel::receive`]; another plumb.
pub(super) fn receive(
    channel: &mut Channel,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<Option<FromAgent>> {
    let Some(body) = channel.receive_frame(deadline, stop)? else { return Ok(None) };
    let text = std::str::from_utf8(&body).map_err(|error| Lost::malformed(&error))?;
    // As every message is read, so that it is compiled once.
    let message =
        serde_json::from_slice(plain(text).as_bytes()).map_err(|error| Lost::malformed(&error))?;
    if let FromAgent::Welcome(facts) = &message {
        let ours = env!("CARGO_PKG_VERSION");
        if facts.plumb != ours {
            bail!(
                "the agent runs plumb {}, this is plumb {ours}: install the same version at both \
                 ends",
                super::message::printable(&facts.plumb)
            );
        }
        channel.set_limit(ANSWER_BYTES_MAX);
    }
    Ok(Some(message))
}

/// Checks that a worker's message is one that a far end may send, and that it listens at the agent's
/// address. Only the near end reports figures of a round. Errors: what is wrong with it.
pub(super) fn check(
    message: &FromWorker,
    order: &RoundOrder,
    address: IpAddr,
) -> Result<(), String> {
    let (what, series, round) = match message {
        FromWorker::Listening(endpoint) => {
            let is_at_agent = |text: &String| {
                let parsed: Option<SocketAddr> = text.parse().ok();
                parsed.is_some_and(|parsed| parsed.ip() == address)
            };
            return match endpoint.addrs.iter().find(|text| !is_at_agent(text)) {
                Some(text) => {
                    Err(format!("it says it listens at {text}, but its address is {address}"))
                }
                None => Ok(()),
            };
        }
        FromWorker::Done(_) | FromWorker::Failed(_) => return Ok(()),
        // No far end asks for more time: it has that of the near end.
        FromWorker::Alive(_) => return Err("it requested more time".to_owned()),
        FromWorker::Samples(samples) => ("samples", &samples.series, samples.round),
        FromWorker::Histogram(histogram) => ("a distribution", &histogram.series, histogram.round),
        FromWorker::Trace(trace) => ("a trace", &trace.series, trace.round),
        FromWorker::Calibrated(_)
        | FromWorker::Prepared(_)
        | FromWorker::TakesMemory(_)
        | FromWorker::MayHangIn(_) => {
            return Err(format!(
                "it sent a message in round {} of {} that a far end must not send",
                order.round,
                order.series.label()
            ));
        }
    };
    Err(format!(
        "it sent {what} of round {round} of {series}, but only the near end reports \
                 figures"
    ))
}
