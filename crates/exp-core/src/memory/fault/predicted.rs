//! What each figure is predicted to be, from the laws of faults.

use super::MIB;
use bench::device;
use bench::experiment::{Known, Site, predicted, unknown};
use laws::Law;
use laws::memory::fault::{self as law, Major, Minor};
use record::case::Case;
use record::event::Prediction;
use record::metric::Metric;

/// The prediction of one figure of a case (of the whole experiment where it is derived).
pub(super) fn of(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    if metric.derived {
        return predict_derived(site, known, metric);
    }
    match (kind(case), case.text("fault")) {
        (Some(minor), _) => predict_minor(site, known, minor, metric),
        (None, Some("stress")) => predict_stress(known, metric),
        (None, Some("window")) => predict_window(site, known, case, metric),
        (None, Some(fault)) => predict_single(site, known, case, fault == "random", metric),
        (None, None) => Some(unknown("unknown: no fault is named")),
    }
}

fn kind(case: &Case) -> Option<Minor> {
    Some(match case.text("fault")? {
        "anonymous" => Minor::Anonymous,
        "zero" => Minor::Zero,
        "huge" => Minor::Huge,
        "file" => Minor::File,
        "file_around" => Minor::FileAround,
        "shared" => Minor::Shared,
        "copy" => Minor::Copy,
        "protect" => Minor::Protect,
        _ => return None,
    })
}

/// The prior alone says why there is no such figure.
fn none(known: Option<&Known>, why: &str) -> Option<Prediction> {
    known.is_none().then(|| unknown(format!("unknown: {why}")))
}

fn predict_minor(
    site: &Site,
    known: Option<&Known>,
    fault: Minor,
    metric: &Metric,
) -> Option<Prediction> {
    match metric.name.as_ref() {
        "latency" => {
            if known.is_some_and(|known| !law::is_known(known, fault)) {
                return None;
            }
            Some(law::minor(site, known, fault).prediction())
        }
        "pages_per_fault" if fault == Minor::FileAround => known
            .is_none()
            .then(|| law::pages_around(site).prediction()),
        "pages_per_fault" if fault == Minor::File => known.is_none().then(|| {
            predicted(
                0.95,
                1.0,
                1.02,
                "each page is a mapping of its own, so that a fault has nothing around it; a fault that \
                 is tried again counts twice",
            )
        }),
        _ => none(known, "a minor fault has no such figure"),
    }
}

fn predict_stress(known: Option<&Known>, metric: &Metric) -> Option<Prediction> {
    known.is_none().then(|| match metric.name.as_ref() {
        "latency" => predicted(
            300.0,
            1600.0,
            3e4,
            "base hardware: four exceptions among system calls; software: what the file system does at \
             the first write to a page, which is next to nothing in memory and a journal on a disk",
        ),
        _ => unknown("unknown: such a turn has no such figure"),
    })
}

fn predict_single(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    random: bool,
    metric: &Metric,
) -> Option<Prediction> {
    if known.is_some() {
        // No earlier figure tells of the device.
        return None;
    }
    let below = device::below(site).ok();
    let disk = below.as_ref().map(|below| below.disk);
    let readahead = case.text("readahead") != Some("off");
    let fault = Major { random, readahead };
    Some(match metric.name.as_ref() {
        "major_latency" => law::major(site, known, disk, fault).prediction(),
        "bytes_per_fault" => law::read_bytes(site, disk, readahead).prediction(),
        _ => return none(known, "a single major fault has no such figure"),
    })
}

fn predict_window(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    if known.is_some() {
        return None;
    }
    let below = device::below(site).ok();
    let disk = below.as_ref().map(|below| below.disk);
    let readahead = case.text("readahead") != Some("off");
    let bytes = case.int("window_bytes").unwrap_or(16 * MIB);
    let page = site.host.memory.page_bytes.unwrap_or(4096);
    let whole = law::window(site, known, disk, bytes, readahead);
    let per = |scale: f64| Law::of(laws::scaled(whole.range, scale), whole.because().clone());
    Some(match metric.name.as_ref() {
        "window" => per(1.0).prediction(),
        "per_page" => per(page as f64 / bytes as f64).prediction(),
        "bandwidth" => {
            Law::of(laws::inverse(bytes as f64 * 1e9, whole.range), whole.because()).prediction()
        }
        "pages_per_fault" => match readahead {
            true => law::pages_around(site).prediction(),
            false => {
                predicted(1.0, 1.0, 16.0, "without readahead each touch is a fault, or each folio")
            }
        },
        "bytes_per_fault" => law::window_bytes_per_fault(site, disk, bytes, readahead).prediction(),
        _ => return none(known, "a window has no such figure"),
    })
}

fn predict_derived(site: &Site, known: Option<&Known>, metric: &Metric) -> Option<Prediction> {
    match metric.name.as_ref() {
        "zeroing" if known.is_none_or(|known| law::is_known(known, Minor::Huge)) => {
            Some(law::zeroing(site, known).prediction())
        }
        "base_part" if known.is_none_or(|known| law::is_known(known, Minor::Anonymous)) => {
            Some(law::without_zeroing(site, known).prediction())
        }
        _ => None,
    }
}
