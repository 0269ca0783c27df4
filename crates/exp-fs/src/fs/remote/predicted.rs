//! What each figure is predicted to be, from the laws of remote files.

use super::LIBRARY_MODE;
use super::target::LIBRARY;
use crate::fs::file::{BLOCK_BYTES, Mode};
use bench::experiment::{Known, Site, bounded, unknown};
use laws::fs::remote::{self as law, Client, Link, Reading, Way};
use laws::{Law, inverse};
use record::case::Case;
use record::event::Prediction;
use record::key::Value;
use record::metric::Metric;

/// The prediction of one figure of a case.
pub(super) fn of(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    let way = way(case);
    let reading = reading(case);
    if known.is_some_and(|known| !law::is_known(site, known, &way, reading)) {
        return None;
    }
    let block = |reading| law::block(site, known, &way, reading);
    Some(match metric.name.as_ref() {
        "latency" => law::one_read(site, known, &way, reading).prediction(),
        "latency_per_block" => block(reading).prediction(),
        "bandwidth" => {
            let per_block = block(reading);
            let rate =
                Law::of(inverse(BLOCK_BYTES as f64 * 1e9, per_block.range), per_block.because());
            match law::link_bound(site, &way).filter(|_| reading != Reading::Cached) {
                Some(bound) => bounded(rate.prediction(), bound),
                None => rate.prediction(),
            }
        }
        "iops" => {
            let per_block = block(reading);
            Law::of(inverse(1e9, per_block.range), per_block.because()).prediction()
        }
        // What else this run measured says nothing of what a client does.
        "cpu" if known.is_some() && reading != Reading::Cached => return None,
        "cpu" => law::cpu(known, &way, reading).prediction(),
        _ if way.client != Client::Nfs => none(known, "only the kernel's NFS counts its reads")?,
        _ if reading == Reading::Cached => none(known, "a read from the cache asks no server")?,
        "rpc_rtt" => law::wire(site, known, &way).prediction(),
        "rpc_client" => law::client(&way).prediction(),
        "rpc_queue" => law::queue(reading).prediction(),
        "rpc_execute" => law::execute(site, known, &way, reading).prediction(),
        _ => none(known, "no law of it")?,
    })
}

/// The prior alone says why there is no such figure.
fn none(known: Option<&Known>, why: &str) -> Option<Prediction> {
    known.is_none().then(|| unknown(format!("unknown: {why}")))
}

/// What lies between this machine's reader and the server, as the case's facts say.
fn way(case: &Case) -> Way<'_> {
    let text = |name: &str| case.at.get(name).and_then(Value::text);
    let file_system = text("file_system").unwrap_or("an unknown file system");
    let client = match file_system {
        LIBRARY => Client::Library,
        fs if fs.starts_with("nfs") => Client::Nfs,
        fs if fs.starts_with("cifs") || fs.starts_with("smb") => Client::Smb,
        fs if fs.starts_with("fuse") => Client::Fuse,
        _ => Client::Other,
    };
    let link = match text("link") {
        Some("loopback") => Link::Loopback,
        Some("virtual") => Link::Virtual,
        Some("wired") => Link::Wired,
        Some("wireless") => Link::Wireless,
        _ => Link::Unknown,
    };
    Way {
        client,
        file_system,
        link,
        server: text("server").and_then(|server| server.parse().ok()),
        interface: text("interface"),
        bits_per_second: case.int("link_bits_per_second"),
        mtu_bytes: case.int("mtu_bytes"),
        has_gateway: case.int("gateway").is_some_and(|gateway| gateway != 0),
    }
}

fn reading(case: &Case) -> Reading {
    let in_order = case.text("pattern") == Some("sequential");
    match case.text("mode") {
        Some(LIBRARY_MODE) | None => Reading::Asked,
        Some(mode) => match Mode::of(mode) {
            Some(Mode::Cached) => Reading::Cached,
            Some(Mode::Cold { readahead: true }) if in_order => Reading::Ahead,
            Some(Mode::Cold { .. }) => Reading::Missed,
            _ => Reading::Asked,
        },
    }
}
