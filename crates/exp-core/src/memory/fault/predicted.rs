//! What each figure is predicted to be, from the laws of faults.

use super::{Faulted, MIB, Readahead, Touch};
use bench::device;
use bench::prelude::*;
use laws::memory::fault::{self as law, Major};
use laws::{Law, range};

pub(super) fn predict(facts: Facts, of: &Faulted, at: &Case, metric: &str) -> Option<Prediction> {
    let law = match of.fault {
        fault if metric == "latency" && !fault.is_major() && fault != Touch::Stress => {
            let is_known = facts.known.is_none_or(|known| law::is_known(known, fault));
            return is_known.then(|| law::minor(facts, fault).prediction());
        }
        // No earlier figure describes how pages are found, or the device.
        _ if facts.known.is_some() => return None,
        Touch::FileAround if metric == "pages_per_fault" => law::pages_around(facts.site),
        Touch::File if metric == "pages_per_fault" => Law::software(
            range(0.95, 1.0, 1.02),
            "each page is a separate mapping, so that a fault does not map its neighbours; a \
             retried fault counts twice",
        ),
        Touch::Stress if metric == "latency" => {
            Law::new(300.0, 1600.0, 3e4, "four exceptions among system calls").and(
                "the file system's work at the first write to a page: almost nothing in memory, a \
                 journal on a disk",
            )
        }
        fault if fault.is_major() => match of_device(facts, of, at, metric) {
            Some(law) => law,
            None => {
                return Some(unknown(
                    "unknown: this kind of major fault does not have this \
                                         figure",
                ));
            }
        },
        _ => return Some(unknown("unknown: this kind of fault does not have this figure")),
    };
    Some(law.prediction())
}

fn of_device(facts: Facts, of: &Faulted, at: &Case, metric: &str) -> Option<Law> {
    let site = facts.site;
    let below = device::below(site).ok();
    let disk = below.as_ref().map(|below| below.disk);
    let readahead = of.readahead != Some(Readahead::Off);
    if of.fault != Touch::Window {
        let fault = Major { random: of.fault == Touch::Random, readahead };
        return match metric {
            "major_latency" => Some(law::major(facts, disk, fault)),
            "bytes_per_fault" => Some(law::read_bytes(site, disk, readahead)),
            _ => None,
        };
    }
    let bytes = at.int("window_bytes").unwrap_or(16 * MIB);
    let page = site.host.memory.page_bytes.unwrap_or(4096);
    let whole = || law::window(facts, disk, bytes, readahead);
    Some(match metric {
        "window" => whole(),
        "per_page" => whole().times(page as f64 / bytes as f64),
        "bandwidth" => whole().inverse(bytes as f64 * 1e9),
        "pages_per_fault" if readahead => law::pages_around(site),
        "pages_per_fault" => Law::software(
            range(1.0, 1.0, 16.0),
            "without readahead each touch is a fault, or each folio",
        ),
        "bytes_per_fault" => law::window_bytes_per_fault(site, disk, bytes, readahead),
        _ => return None,
    })
}

pub(super) fn of_derived(facts: Facts, metric: &str) -> Option<Prediction> {
    let (law, fault): (fn(Facts) -> Law, _) = match metric {
        "zeroing" => (law::zeroing, Touch::Huge),
        "base_part" => (law::without_zeroing, Touch::Anonymous),
        _ => return None,
    };
    let is_known = facts.known.is_none_or(|known| law::is_known(known, fault));
    is_known.then(|| law(facts).prediction())
}
