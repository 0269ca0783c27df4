//! A longer message never takes less time, on any recorded machine.

use super::frozen::with_peer;
use super::offer;
use crate::find;
use bench::experiment::{Preset, Site};
use record::case::Case;
use record::key::Value;
use session::fixtures::{site_of, trees};
use std::collections::BTreeSet;

/// With what the reports sent, what fits into a frame, and the largest datagram.
const SIZES: [u64; 13] = [1, 8, 56, 64, 256, 1024, 1448, 1500, 4096, 16384, 32768, 65000, 65507];

fn with_message(case: &Case, bytes: u64) -> Case {
    let mut case = case.clone();
    for (name, value) in case.id.0.iter_mut() {
        if name == "message" {
            *value = Value::from(bytes);
        }
    }
    case
}

#[test]
fn predictions_of_times_rise_with_the_message() {
    for (name, root) in trees() {
        let Ok(site) = site_of(&root, Preset::Standard) else { continue };
        let site = with_peer(site);
        for far in ["loopback", "peer"] {
            at_site(&name, &site.toward(far));
        }
    }
}

fn at_site(name: &str, site: &Site) {
    for (id, metric) in [("net.rtt", "round_trip"), ("net.bandwidth", "transfer_time")] {
        let experiment = find(id).expect("in the catalogue");
        let metric = experiment.card().metrics.iter().find(|one| one.name == metric);
        let metric = metric.expect("in the card");
        let offer = offer(experiment, site, Preset::Thorough);
        let cases = offer.into_iter().flat_map(|offer| offer.series).flat_map(|one| one.cases);
        let is_fixed = |case: &Case| {
            case.id.text("transfer").is_some_and(|transfer| transfer.starts_with("fixed"))
        };
        let mut seen = BTreeSet::new();
        for case in cases.filter(|case| case.id.int("message").is_some() && !is_fixed(case)) {
            if !seen.insert(with_message(&case, 1).id) {
                continue;
            }
            let range = |bytes: &u64| {
                experiment.predict(site, None, &with_message(&case, *bytes), metric)?.range
            };
            let ranges: Vec<_> = SIZES.iter().filter_map(range).collect();
            for pair in ranges.windows(2) {
                let rises = |end: fn(&record::event::Range) -> f64| {
                    end(&pair[1]) >= end(&pair[0]) * (1.0 - 1e-9)
                };
                let all = [rises(|of| of.low), rises(|of| of.likely), rises(|of| of.high)];
                assert_eq!(all, [true; 3], "{name}: {id} {}: {pair:?}", case.id);
            }
        }
    }
}
