//! The predictions of fs.sync: the laws of syncs, for a case on its site.

use crate::fs::file::ground;
use bench::experiment::{Known, Site, unknown};
use laws::Law;
use laws::fs::sync::{self, Call, Sync, Write};
use record::case::Case;
use record::event::Prediction;
use record::metric::Metric;

/// A metric of a case, in its unit.
pub(super) fn of(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    let sync = described(site, case);
    let Some(sync) = sync else {
        return Some(unknown(format!("unknown: no case {}", case.id)));
    };
    let counts = counts(site);
    let is_device = ["amplification", "flushes", "requests"].contains(&metric.name.as_ref());
    match known {
        // What is counted follows from the file system's kind, which no earlier figure tells.
        Some(_) if is_device => return None,
        Some(known) if !sync::is_known(known, sync) => return None,
        _ => {}
    }
    let estimate: Result<Law, &str> = match metric.name.as_ref() {
        "latency" => Ok(sync::latency(site, known, sync)),
        "iops" => Ok(sync::rate(site, known, sync)),
        "sync" => match sync.call {
            Call::Dsync | Call::DirectDsync => {
                Err("the write itself waits: there is no call after it")
            }
            _ => Ok(sync::alone(site, known, sync)),
        },
        _ if counts == Counts::Nothing => Err("no device is known that counts what it writes"),
        "amplification" if sync.write == Write::Nothing => Err("nothing is written"),
        "amplification" => Ok(sync::amplification(site, sync)),
        "flushes" if counts == Counts::NoFlushes => {
            Err("devices made of others (device mapper, md) count no flushes")
        }
        "flushes" => Ok(sync::flushes(site, sync)),
        _ => Ok(sync::requests(site, sync)),
    };
    Some(match estimate {
        Ok(estimate) => estimate.prediction(),
        Err(why) => unknown(format!("unknown: {why}")),
    })
}

/// One durable write, for stated costs, in ns.
pub(super) fn likely_ns(site: &Site, case: &Case) -> f64 {
    described(site, case).map_or(0.0, |sync| sync::latency(site, None, sync).range.likely)
}

/// Bytes that the file system writes beside the data of a sync, at most.
pub(super) fn beside_bytes(site: &Site, case: &Case) -> Option<u64> {
    described(site, case).map(|sync| sync::beside_most(sync) as u64)
}

/// What the device below tells.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    Nothing,
    NoFlushes,
    All,
}

fn counts(site: &Site) -> Counts {
    let Some(dir) = &site.dir else {
        return Counts::Nothing;
    };
    match ground(site, &dir.path).disk {
        None => Counts::Nothing,
        Some(disk) if disk.is_virtual => Counts::NoFlushes,
        Some(_) => Counts::All,
    }
}

fn described<'site>(site: &'site Site, case: &Case) -> Option<Sync<'site>> {
    let dir = site.dir.as_ref();
    Some(Sync {
        write: match case.text("write")? {
            "none" => Write::Nothing,
            "overwrite" => Write::Overwrite,
            "append" => Write::Append,
            "reserved" => Write::Reserved,
            "create" => Write::Create,
            _ => return None,
        },
        call: match case.text("call")? {
            "fsync" => Call::Fsync,
            "fdatasync" => Call::Fdatasync,
            "dsync" => Call::Dsync,
            "direct_dsync" => Call::DirectDsync,
            _ => return None,
        },
        block: case.int("block").unwrap_or(super::PAGE_BYTES),
        file_system: dir.map_or("", |dir| &dir.file_system),
        disk: dir.and_then(|dir| ground(site, &dir.path).disk),
    })
}
