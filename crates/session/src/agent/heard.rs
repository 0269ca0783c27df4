//! What a session takes of what its agent says. It is let in by its key, and may still be old,
//! broken or somebody else's by now: it adds nothing to what is measured, leads to no other
//! address, steers no terminal, and takes no more memory than its frames have.

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
pub(super) fn message(
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

/// Checks that a worker's message is one that a far end has to say, and that its door is at the
/// agent's address. Figures of a round are the near end's alone. Errors: what it is else.
pub(super) fn check(
    message: &FromWorker,
    order: &RoundOrder,
    address: IpAddr,
) -> Result<(), String> {
    let (what, series, round) = match message {
        FromWorker::Listening(endpoint) => {
            let is_there = |told: &String| {
                let told: Option<SocketAddr> = told.parse().ok();
                told.is_some_and(|told| told.ip() == address)
            };
            return match endpoint.addrs.iter().find(|told| !is_there(told)) {
                Some(told) => Err(format!(
                    "it says it listens at {told}, but its address is \
                                           {address}"
                )),
                None => Ok(()),
            };
        }
        FromWorker::Done(_) | FromWorker::Failed(_) => return Ok(()),
        // No far end asks for more time: it has that of the near end.
        FromWorker::Alive(_) => return Err("it requested more time".to_owned()),
        FromWorker::Samples(samples) => ("samples", &samples.series, samples.round),
        FromWorker::Histogram(told) => ("a distribution", &told.series, told.round),
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
