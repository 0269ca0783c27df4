//! The wall clock of an agent's host beside this host's.
//!
//! One message there and one back: the offset is uncertain by half of their round trip.

use super::connection::listening;
use super::key::Key;
use super::message::{FromAgent, ToAgent};
use anyhow::{Context, Result, bail};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Seconds by which this host's wall clock is changed for plumb. Tests set it: namespaces share a clock.
const OFFSET: &str = "PLUMB_CLOCK_OFFSET_S";
/// An agent answers within this time after the handshake.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The wall clock, in seconds since 1970.
pub fn wall_s() -> f64 {
    let offset = std::env::var(OFFSET).ok().and_then(|text| text.parse::<f64>().ok());
    UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64()) + offset.unwrap_or(0.0)
}

/// The wall clock of a listening agent's host minus this host's, in seconds. Errors: the agent cannot
/// be reached, or has another key.
pub fn offset_s(host: &str, port: u16, key: &Key, stop: &AtomicBool) -> Result<f64> {
    let (mut channel, _) = listening(host, port, key, stop)?;
    let before = wall_s();
    channel.send(&ToAgent::Clock, stop)?;
    let answer = channel.receive(Instant::now() + ANSWER_TIME, stop)?;
    let now = wall_s();
    match answer.context("the agent did not give its time")? {
        FromAgent::Clock { wall_s } => Ok(wall_s - f64::midpoint(before, now)),
        _ => bail!("the agent did not give its time"),
    }
}
