//! What each figure is predicted to be, from the laws of reading.

use super::{BLOCK_BYTES, Mode, ground, size_of};
use crate::fs::file::{Ground, Kind};
use crate::fs::window;
use bench::experiment::{Known, Site, unknown};
use laws::fs::read::{self as law, Below, Read, Way};
use laws::{Law, inverse};
use record::case::Case;
use record::event::Prediction;
use record::metric::Metric;

/// The prediction of one figure of a case.
pub(super) fn of(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    let ground = site.dir.as_ref().map(|dir| ground(site, &dir.path));
    let below = Below {
        disk: ground.as_ref().and_then(|ground| ground.disk),
        is_plain: ground.as_ref().is_none_or(is_plain),
    };
    let random = case.text("pattern") == Some("random");
    let bytes = size_of(case).unwrap_or(1 << 20);
    if metric.derived {
        return law::readahead_gain(site, known, below, random, bytes).map(Law::prediction);
    }
    let Some(way) = case.text("mode").and_then(Mode::of).map(way_of) else {
        return known.is_none().then(|| unknown("unknown: no mode is named"));
    };
    let read = Read { random, way, bytes };
    let per_block = || law::block(site, known, below, read);
    let over =
        |scale: f64| per_block().map(|block| Law::of(inverse(scale, block.range), block.because()));
    let name = match window::in_law(case, &metric.name) {
        Ok(name) => name,
        Err(why) => return known.is_none().then(|| unknown(why)),
    };
    let estimate = match name {
        "latency_per_block" => per_block(),
        "latency" => law::single(site, known, below, read),
        "iops" => over(1e9),
        "bandwidth" => over(1e9 * BLOCK_BYTES as f64),
        "cpu" if known.is_none() || way == Way::Cached => law::cpu(site, known, read),
        _ => None,
    };
    match (estimate, &ground) {
        (Some(estimate), Some(ground)) if !below.is_plain => {
            Some(estimate.and(&ground.because).prediction())
        }
        (estimate, _) => estimate.map(Law::prediction),
    }
}

fn is_plain(ground: &Ground) -> bool {
    ground.kind == Kind::Device
}

fn way_of(mode: Mode) -> Way {
    match mode {
        Mode::Direct | Mode::DirectSync => Way::Direct,
        Mode::Cold { readahead: true } => Way::Ahead,
        Mode::Cold { readahead: false } => Way::Alone,
        Mode::Cached => Way::Cached,
    }
}
