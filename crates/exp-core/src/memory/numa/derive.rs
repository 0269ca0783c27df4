//! Every pair over its row's local one, beside the firmware's distances.

use super::ID;
use super::node_pairs::Pair;
use bench::experiment::{DerivedValue, Known, Site};
use laws::memory::numa::distance;
use record::key::{CaseId, Value};

/// Measured metrics and the ratios that they give.
const RATIOS: [(&str, &str); 3] = [
    ("bandwidth", "bandwidth_ratio"),
    ("node_bandwidth", "node_bandwidth_ratio"),
    ("latency", "latency_ratio"),
];

/// The pairs that have a ratio: their row's local pair is measured too.
pub(super) fn cases(pairs: &[Pair]) -> Vec<CaseId> {
    let has_local = |pair: &Pair| pairs.contains(&local(*pair));
    let remote = pairs.iter().filter(|pair| !pair.is_local());
    remote.filter(|pair| has_local(pair)).map(|pair| pair.id()).collect()
}

/// The ratios of all pairs.
pub(super) fn derive(site: &Site, values: &Known) -> Vec<DerivedValue> {
    let mut found = Vec::new();
    for (metric, ratio) in RATIOS {
        for (case, value) in values.of(ID, metric) {
            let Some(pair) = Pair::of(case).filter(|pair| !pair.is_local()) else {
                continue;
            };
            let Some(own) = values.get(ID, &local(pair).id(), metric) else {
                continue;
            };
            let mut derived = DerivedValue::new(case.clone(), ratio, value / own);
            let of = |memory_node| distance(site, pair.cpu_node, memory_node);
            for (name, told) in
                [("distance", of(pair.memory_node)), ("local_distance", of(pair.cpu_node))]
            {
                if let Some(told) = told {
                    let told = Value::from(u64::from(told));
                    derived.at.insert(name.to_owned(), told);
                }
            }
            found.push(derived);
        }
    }
    found
}

fn local(pair: Pair) -> Pair {
    Pair { memory_node: pair.cpu_node, ..pair }
}
