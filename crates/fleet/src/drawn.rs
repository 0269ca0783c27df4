//! Figures that are drawn instead of measured, to try a sweep itself: many nodes on one machine,
//! faults at any moment. A sweep of such nodes says so in its header, and never mixes with others.

use crate::sweep::{Estimate, Figure};
use crate::wire::{OneTime, Order, Report};
use anyhow::{Context, Result};
use fastrand::Rng;
use host::fnv1a;
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// What is drawn: the contents of a JSON file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Drawn {
    /// Equal seeds give equal figures.
    pub seed: u64,
    /// Figures of a node.
    pub figures: u32,
    /// By how much figures scatter between nodes: standard deviation of the logarithm.
    pub scatter: f64,
    /// Nodes with a factor of their rates, by rank.
    pub slow: BTreeMap<String, f64>,
    /// Links with a factor of their rate, by `FROM-TO`; both directions.
    pub links: BTreeMap<String, f64>,
    /// How long a measurement takes, in seconds.
    pub takes_s: f64,
}

impl Default for Drawn {
    fn default() -> Self {
        let (slow, links) = (BTreeMap::new(), BTreeMap::new());
        Drawn { seed: 0, figures: 8, scatter: 0.01, slow, links, takes_s: 0.0 }
    }
}

/// Rounds of a drawn figure.
const ROUNDS: u32 = 6;

impl Drawn {
    /// Reads a file. Errors: it cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Drawn> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("--figures {shown}"))?;
        serde_json::from_str(&text).with_context(|| format!("--figures {shown}"))
    }

    /// How long a measurement takes.
    pub fn takes(&self) -> Duration {
        Duration::try_from_secs_f64(self.takes_s).unwrap_or_default()
    }

    /// The figures of a node.
    pub fn alone(&self, rank: u32, again: u32) -> Vec<Figure> {
        let slow = self.slow.get(&rank.to_string()).copied().unwrap_or(1.0);
        let figure = |number: u32| {
            let key = Key::new(
                "memory.bandwidth",
                &CaseId::new().with("drawn", u64::from(number)),
                "bandwidth",
            );
            let scale = 1e9 * f64::from(number + 1) * slow;
            let estimate = self.estimate(scale, &format!("node {rank} {number}"), again);
            Figure {
                rank,
                key,
                unit: Unit::BPerS,
                better: Better::Higher,
                kind: Kind::Hardware,
                estimate,
                predicted: Some((0.5e9 * f64::from(number + 1), 2e9 * f64::from(number + 1))),
                again,
            }
        };
        (0..self.figures).map(figure).collect()
    }

    /// The figures of a pair.
    pub fn pair(&self, step: u32, from: u32, to: u32) -> Vec<Figure> {
        let names = [format!("{from}-{to}"), format!("{to}-{from}")];
        let slow = names.iter().find_map(|name| self.links.get(name)).copied().unwrap_or(1.0);
        let case = CaseId::new().with("far", "peer");
        let rate = self.estimate(1e9 * slow, &format!("rate {from} {to}"), step);
        let time = self.estimate(5e4, &format!("time {from} {to}"), step);
        let figure = |id, metric, unit, better, estimate| Figure {
            rank: from,
            key: Key::new(id, &case, metric),
            unit,
            better,
            kind: Kind::Io,
            estimate,
            predicted: None,
            again: 0,
        };
        vec![
            figure("net.bandwidth", "bandwidth", Unit::BPerS, Better::Higher, rate),
            figure("net.rtt", "round_trip", Unit::Ns, Better::Lower, time),
        ]
    }

    /// What a node reports of an order; `None` of one that asks for no report.
    pub(crate) fn report(&self, rank: u32, order: u64, what: &Order) -> Option<Report> {
        Some(match what {
            Order::Alone { again, .. } => Report::Alone {
                order,
                figures: self.alone(rank, *again),
                absent: Vec::new(),
                record: "drawn".to_owned(),
            },
            Order::Listen { nears, .. } => {
                let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
                let doors = vec![(at, OneTime(String::new())); *nears as usize];
                Report::Listening { order, doors }
            }
            Order::Reach { step, far, .. } => {
                Report::Pair { order, figures: self.pair(*step, rank, *far) }
            }
            Order::Gather => Report::Gathered { order },
            Order::Rest | Order::Leave { .. } => return None,
        })
    }

    /// A value near `scale`: what `of` names has a deviation of its own, each time another small one.
    fn estimate(&self, scale: f64, of: &str, time: u32) -> Estimate {
        let own = Rng::with_seed(self.seed ^ fnv1a(of.as_bytes()));
        let now = Rng::with_seed(self.seed ^ fnv1a(format!("{of} {time}").as_bytes()));
        let log = self.scatter * (0.7 * normal(own) + 0.7 * normal(now));
        let value = scale * log.exp();
        let half = value * self.scatter;
        let ci = Some((value - half, value + half));
        Estimate { value, ci, rounds: ROUNDS, scatter: Some(self.scatter) }
    }
}

/// A standard normal deviate (Box and Muller 1958).
fn normal(mut rng: Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::Drawn;

    #[test]
    fn equal_seeds_give_equal_figures_and_planted_ones_stand_out() {
        let text = r#"{"seed":7,"slow":{"3":0.5},"links":{"1-2":0.1}}"#;
        let drawn: Drawn = serde_json::from_str(text).unwrap();
        assert_eq!(drawn.alone(1, 0), drawn.alone(1, 0));
        assert_ne!(drawn.alone(1, 0), drawn.alone(1, 1));
        let value = |rank| drawn.alone(rank, 0)[0].estimate.value;
        assert!(value(3) < 0.6 * value(1));
        let rate = |from, to| drawn.pair(0, from, to)[0].estimate.value;
        assert!(rate(2, 1) < 0.2 * rate(1, 3));
        assert!(serde_json::from_str::<Drawn>(r#"{"speed":1}"#).is_err());
    }
}
