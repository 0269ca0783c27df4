//! What a session takes of what its agent says. It is let in by its key, and may still be old, broken or
//! somebody else's by now: it adds nothing to other rounds, leads to no other address, and steers no terminal.

use super::channel::{Channel, Lost};
use super::message::FromAgent;
use crate::link::{FromWorker, RoundOrder};
use anyhow::Result;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Longest text that is taken, in characters: a kernel's command line is shorter.
const TEXT_MAX: usize = 16 << 10;

/// Waits for the next message, whose texts are plain ones; `None` where none has come by the deadline.
///
/// # Errors
/// As [`Channel::receive`].
pub(super) fn message(
    channel: &mut Channel,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<Option<FromAgent>> {
    let Some(mut value) = channel.receive::<Value>(deadline, stop)? else {
        return Ok(None);
    };
    plain(&mut value);
    let message = serde_json::from_value(value);
    Ok(Some(
        message.map_err(|error| Lost::Malformed(error.to_string()))?,
    ))
}

/// Checks that a worker's message is of the round that was ordered, and that its door is at the agent's
/// address.
///
/// # Errors
/// What it is else.
pub(super) fn check(
    message: &FromWorker,
    order: &RoundOrder,
    address: IpAddr,
) -> Result<(), String> {
    let of = match message {
        FromWorker::Samples(samples) => Some((&samples.series, samples.round)),
        FromWorker::Histogram(histogram) => Some((&histogram.series, histogram.round)),
        FromWorker::Trace(trace) => Some((&trace.series, trace.round)),
        _ => None,
    };
    if let Some((series, round)) = of
        && (*series != order.series.label() || round != order.round)
    {
        return Err(format!(
            "it told of round {round} of {series}, which was not ordered"
        ));
    }
    let endpoint = match message {
        FromWorker::Listening(endpoint) => endpoint,
        // No far end asks for more time: it has that of the near end.
        FromWorker::Alive(_) => return Err("it asked for more time".to_owned()),
        _ => return Ok(()),
    };
    let is_there = |told: &String| {
        let told: Option<SocketAddr> = told.parse().ok();
        told.is_some_and(|told| told.ip() == address)
    };
    match endpoint.addrs.iter().find(|told| !is_there(told)) {
        Some(told) => Err(format!("it listens at {told}, and is reached at {address}")),
        None => Ok(()),
    }
}

/// Cuts texts that are too long, and takes control characters out of all.
fn plain(value: &mut Value) {
    match value {
        Value::String(text) => {
            if text.chars().any(char::is_control) || text.len() > TEXT_MAX {
                let shown = |c: char| if c.is_control() { ' ' } else { c };
                *text = text.chars().take(TEXT_MAX).map(shown).collect();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        Value::Object(values) => values.values_mut().for_each(plain),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::plain;
    use serde_json::json;

    #[test]
    fn texts_steer_no_terminal() {
        let mut value = json!({"a": ["x\u{1b}[2Jy\nz", 1.5, null], "b": {"c": "plain µ"}});
        plain(&mut value);
        assert_eq!(
            value,
            json!({"a": ["x [2Jy z", 1.5, null], "b": {"c": "plain µ"}})
        );
        let mut long = json!("µ".repeat(super::TEXT_MAX + 1));
        plain(&mut long);
        assert_eq!(long, json!("µ".repeat(super::TEXT_MAX)));
    }
}
