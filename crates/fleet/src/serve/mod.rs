//! A node as a process: its connections, its children, its clock.

mod branch;
mod describe;
mod door;
mod extract;
mod hands;
mod options;
mod root;
mod uplink;

pub use branch::{Ended, node};
pub use options::Options;
pub use root::{Lead, lead};

use crate::wire::Hello;
use ::host::{Host, Outside, Root};
use door::Door;
use hands::Hands;
use metal::wait::{Want, any_unless};
use record::order::Gather;
use session::child::STOPPING;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A line for the user.
pub type Say<'a> = &'a dyn Fn(&str);

/// Longest wait without a look.
const LOOK: Duration = Duration::from_secs(60);

/// What a wait brought.
struct Ready {
    /// A signal came.
    stopped: bool,
    door: Vec<bool>,
    uplink: bool,
}

/// Waits for anything to happen, until a deadline.
fn wait(
    door: &Door,
    hands: Option<&Hands<'_>>,
    uplink: Option<Want<'_>>,
    until: Option<Instant>,
    stop: &AtomicBool,
) -> io::Result<Ready> {
    let mut wants = door.wants();
    let of_door = wants.len();
    let has_uplink = uplink.is_some();
    wants.extend(uplink);
    wants.extend(hands.map(Hands::wants).unwrap_or_default());
    let deadlines = [until, door.deadline(), hands.and_then(Hands::deadline)];
    let now = Instant::now();
    let next = deadlines.into_iter().flatten().min();
    let patience = next.map_or(LOOK, |next| next.saturating_duration_since(now).min(LOOK));
    let stopped = || stop.load(Ordering::Relaxed);
    match any_unless(&wants, Some(patience), &STOPPING, stopped) {
        Ok(ready) => Ok(Ready {
            stopped: stopped(),
            door: ready[..of_door].to_vec(),
            uplink: has_uplink && ready[of_door],
        }),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Ok(Ready { stopped: stopped(), door: vec![false; of_door], uplink: false })
        }
        Err(error) => Err(error),
    }
}

/// What a node says of itself.
fn hello(options: &Options, address: IpAddr, port: u16, instance: u64) -> Hello {
    let place = &options.place;
    let host = options.drawn.is_none().then(|| Host::read(&Root::live(Outside::live())));
    let name = match (&place.name, &host) {
        (Some(name), _) => name.clone(),
        (None, _) => host_name(),
    };
    let stratum = match &host {
        Some(host) => describe::stratum(host),
        None => [("cpu".to_owned(), "drawn".to_owned())].gather(),
    };
    Hello {
        rank: place.rank,
        size: place.size,
        instance,
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        name,
        // Nodes in containers of one kernel have the same; those that draw their figures need not take
        // turns.
        machine: match &host {
            Some(_) => host::place::Place::here().boot,
            None => place.rank.to_string(),
        },
        address,
        port,
        stratum,
        labels: place.labels.clone(),
        simulated: options.drawn.is_some(),
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The wall clock, in seconds since 1970.
fn wall_s() -> f64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0.0, |since| since.as_secs_f64())
}
