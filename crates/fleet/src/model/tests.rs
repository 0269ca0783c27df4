//! The model on small sweeps drawn here: what it finds, and what changes nothing.

use super::{At, Charge, Judgement, Known, LOOKS, Role, Suspects, Verdict, judge, suspects};
use crate::matchings::{isolated, matchings, steps_for};
use crate::read::Sweep;
use crate::sweep::{Estimate, FLEET_FORMAT, Figure, Header, Node, Pair, Purpose};
use fastrand::Rng;
use proptest::prelude::*;
use record::key::{CaseId, Key};
use record::metric::{Better, Kind};
use record::unit::Unit;
use std::collections::BTreeMap;

/// Before phase 4.
const FIRST: Known = Known { looks: 0, steps: u32::MAX };

fn key(of: &str) -> Key {
    Key::new(of, &CaseId::new(), "value")
}

/// A fleet: what is wrong with a node (figure or end of pairs) and with a path, as factors.
struct Fleet {
    size: u32,
    seed: u64,
    /// How many times slower a node is in `core` figures.
    core: fn(u32) -> f64,
    /// How many times less a path carries.
    path: fn(u32, u32) -> f64,
    /// The metrics of pairs, and how much each scatters from pair to pair, as a log.
    pairs: &'static [(&'static str, f64)],
    /// How many times more the rounds of a node scatter.
    scatter: fn(u32) -> f64,
    /// What the nodes are made of.
    hardware: fn(u32) -> &'static str,
    /// Unit of everything: values are multiplied by it.
    scale: f64,
    rank: fn(u32) -> u32,
}

const HEALTHY: Fleet = Fleet {
    size: 16,
    seed: 1,
    core: |_| 1.0,
    path: |_, _| 1.0,
    pairs: &[("value", 0.03)],
    scatter: |_| 1.0,
    hardware: |_| "A",
    scale: 1.0,
    rank: |rank| rank,
};

impl Fleet {
    fn estimate(&self, value: f64, scatter: f64, noise: f64, rng: &mut Rng) -> Estimate {
        // Sum of twelve uniforms: nearly normal.
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let value = self.scale * value * (noise * normal).exp();
        let ci = Some((value * (1.0 - 0.004), value * 1.004));
        Estimate { value, ci, rounds: 6, scatter: Some(scatter * 0.01 * (1.0 + 0.1 * rng.f64())) }
    }

    fn sweep(&self) -> Sweep {
        let mut rng = Rng::with_seed(self.seed);
        let header = Header { format: FLEET_FORMAT, size: self.size, ..Header::default() };
        let mut sweep = Sweep::new(header);
        for rank in 0..self.size {
            let node = Node {
                rank: (self.rank)(rank),
                name: format!("n{rank}"),
                stratum: BTreeMap::from([("cpu".to_owned(), (self.hardware)(rank).to_owned())]),
                ..Node::default()
            };
            sweep.nodes.insert(node.rank, node);
            self.alone(&mut sweep, rank, 0, &mut rng);
        }
        let ranks: Vec<u32> = (0..self.size).collect();
        let steps = matchings(&ranks, steps_for(self.size), self.seed, &|_, _| true);
        for (from, to) in steps.iter().flatten() {
            self.pair(&mut sweep, *from, *to, Purpose::Matching, &mut rng);
        }
        for (from, to) in isolated(&steps, 1) {
            self.pair(&mut sweep, from, to, Purpose::Isolated, &mut rng);
        }
        sweep
    }

    fn alone(&self, sweep: &mut Sweep, rank: u32, again: u32, rng: &mut Rng) {
        for (at, better) in
            [(1, Better::Lower), (2, Better::Higher), (3, Better::Lower), (4, Better::Higher)]
        {
            // The first two are the core's.
            let slower = if at <= 2 { (self.core)(rank) } else { 1.0 };
            let value = if better == Better::Lower { 100.0 * slower } else { 100.0 / slower };
            sweep.figures.push(Figure {
                rank: (self.rank)(rank),
                key: key(&format!("a.f{at}")),
                unit: Unit::Ns,
                better,
                kind: Kind::Hardware,
                estimate: self.estimate(value, (self.scatter)(rank), 0.01, rng),
                predicted: Some((self.scale * 50.0, self.scale * 110.0)),
                again,
            });
        }
    }

    fn pair(&self, sweep: &mut Sweep, from: u32, to: u32, purpose: Purpose, rng: &mut Rng) {
        let contention = if purpose == Purpose::Matching { 1.2 } else { 1.0 };
        let experiments = [("net.rtt", Better::Lower), ("net.bandwidth", Better::Higher)];
        for ((experiment, better), (metric, scatter)) in
            experiments.into_iter().flat_map(|of| self.pairs.iter().map(move |metric| (of, metric)))
        {
            let slower = contention * (self.path)(from, to);
            let value = if better == Better::Lower { 100.0 * slower } else { 100.0 / slower };
            sweep.pairs.push(Pair {
                step: 0,
                purpose,
                from: (self.rank)(from),
                to: (self.rank)(to),
                key: Key::new(experiment, &CaseId::new(), metric),
                unit: Unit::Ns,
                better,
                estimate: self.estimate(value, 1.0, *scatter, rng),
                predicted: None,
            });
        }
    }

    /// With phase 4, on ranks that were not renamed.
    fn judged(&self) -> Judgement {
        self.judged_after(self.sweep())
    }

    fn judged_after(&self, mut sweep: Sweep) -> Judgement {
        let mut rng = Rng::with_seed(self.seed + 1);
        for looks in 0..LOOKS.len() as u32 {
            let known = Known { looks, steps: u32::MAX };
            let Suspects { again, nodes, pairs } = suspects(&sweep, known);
            for node in nodes {
                for again in again.0..=again.1 {
                    self.alone(&mut sweep, node.rank, again, &mut rng);
                }
            }
            for pair in pairs {
                for _ in &pair.turns {
                    self.pair(&mut sweep, pair.from, pair.to, Purpose::Suspect, &mut rng);
                }
            }
        }
        judge(&sweep)
    }
}

/// Places and charges, each once.
fn charges(judgement: &Judgement) -> Vec<(At, Charge)> {
    let mut all: Vec<(At, Charge)> =
        judgement.verdicts.iter().map(|verdict| (verdict.at, verdict.charge)).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_slow_node_is_found_with_its_factor_and_nobody_else() {
    let judged = Fleet { core: |rank| if rank == 5 { 1.3 } else { 1.0 }, ..HEALTHY }.judged();
    assert_eq!(charges(&judged), [(At::Node(5), Charge::Slower)]);
    assert_eq!(judged.verdicts.len(), 2, "both figures of the core");
    for verdict in &judged.verdicts {
        assert!((1.2..1.4).contains(&verdict.factor), "{verdict:?}");
        assert!(verdict.interval.0 < 1.3 && 1.3 < verdict.interval.1, "{verdict:?}");
        let evidence = &verdict.evidence;
        assert_eq!((evidence.repetitions, evidence.peers), (3, 15));
        assert!(evidence.z > 5.0 && evidence.q <= 0.01, "{evidence:?}");
        assert!((evidence.peers_median / 100.0 - 1.0).abs() < 0.02, "{evidence:?}");
    }
}

/// The first seed that lets node 3 meet all of these.
fn seed_with(size: u32, others: &[u32]) -> u64 {
    let ranks: Vec<u32> = (0..size).collect();
    let meets = |seed: &u64| {
        let steps = matchings(&ranks, steps_for(size), *seed, &|_, _| true);
        let pairs: Vec<(u32, u32)> = steps.into_iter().flatten().collect();
        others.iter().all(|other| pairs.contains(&(3, *other)) || pairs.contains(&(*other, 3)))
    };
    (1..1000).find(meets).unwrap()
}

/// Two bad paths of one node are the node's; a path that was bad by chance the first time does not
/// hide another one of the same node.
#[test]
fn several_bad_paths_of_a_node_are_the_node_where_they_stay_bad() {
    let seed = seed_with(16, &[9, 12]);
    fn ends(from: u32, to: u32) -> (u32, u32) {
        (from.min(to), from.max(to))
    }
    let both = |from, to| if [(3, 9), (3, 12)].contains(&ends(from, to)) { 2.0 } else { 1.0 };
    let judged = Fleet { seed, path: both, ..HEALTHY }.judged();
    assert_eq!(charges(&judged), [(At::Node(3), Charge::Unstable)]);
    let is_by_links = |of: &Verdict| !of.subject.is_scatter && of.evidence.partners == [9, 12];
    assert!(judged.verdicts.iter().all(is_by_links), "{judged:?}");
    let one = |from, to| if ends(from, to) == (3, 9) { 2.0 } else { 1.0 };
    let fleet = Fleet { seed, path: one, ..HEALTHY };
    let mut sweep = fleet.sweep();
    for pair in sweep.pairs.iter_mut().filter(|pair| ends(pair.from, pair.to) == (3, 12)) {
        let value = pair.estimate.value;
        pair.estimate.value = if pair.better == Better::Lower { 3.0 * value } else { value / 3.0 };
    }
    let found = charges(&fleet.judged_after(sweep));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        matches!(found[0], (At::Link(3, 9) | At::Link(9, 3), Charge::DegradedLink)),
        "{found:?}"
    );
}

#[test]
fn half_a_path_is_a_link_and_half_a_node_is_a_node() {
    let judged = Fleet {
        size: 32,
        path: |from, to| if (from.min(to), from.max(to)) == (3, 9) { 2.0 } else { 1.0 },
        ..HEALTHY
    };
    let found = charges(&Fleet { seed: seed_with(32, &[9]), ..judged }.judged());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(matches!(found[0], (At::Link(3, 9) | At::Link(9, 3), Charge::DegradedLink)));
    let judged = Fleet { path: |from, _| if from == 3 { 2.0 } else { 1.0 }, ..HEALTHY }.judged();
    let found = charges(&judged);
    assert!(found.iter().all(|(at, _)| *at == At::Node(3)), "{found:?}");
    let sends =
        |verdict: &Verdict| verdict.subject.role == Role::Send && verdict.charge == Charge::Slower;
    assert!(judged.verdicts.iter().any(sends), "{:?}", judged.verdicts);
}

/// With few nodes both ends of a pair share one effect. A node that is bad at one end is bad in half of
/// its pairs: too few to accuse it, and too many to clear it.
#[test]
fn a_node_that_only_receives_badly_is_not_cleared_where_both_ends_share_an_effect() {
    let path = |_, to| if to == 3 { 4.0 } else { 1.0 };
    let judged = Fleet { size: 7, path, ..HEALTHY }.judged();
    let named = |of: &Verdict| of.at == At::Node(3) && of.subject.role == Role::Both;
    assert_eq!(judged.verdicts.iter().filter(|of| named(of)).count(), 2, "{:?}", judged.verdicts);
    assert!(judged.cleared.is_empty(), "{:?}", judged.cleared);
}

#[test]
fn pairs_that_scatter_hide_half_a_path_and_the_model_says_so() {
    let least = |pairs| -> Vec<f64> {
        let judged = judge(&Fleet { pairs, ..HEALTHY }.sweep());
        let links = judged.detectable_links.iter();
        links
            .map(|of| {
                assert_ne!(judged.subjects[of.subject].role, Role::Alone);
                of.factor
            })
            .collect()
    };
    let (quiet, noisy) = (least(HEALTHY.pairs), least(&[("value", 0.3)]));
    assert_eq!((quiet.len(), noisy.len()), (2, 2));
    assert!(quiet.iter().all(|factor| (1.25..2.0).contains(factor)), "{quiet:?}");
    assert!(noisy.iter().all(|factor| *factor > 2.0), "{noisy:?}");
}

/// Nothing is measured for a metric that stays open, once another one of the case has shown the end.
#[test]
fn an_end_that_is_shown_is_not_measured_again_for_a_noisier_metric_of_the_case() {
    let path = |from, to| if [from, to].contains(&3) { 2.0 } else { 1.0 };
    let pairs = &[("value", 0.03), ("cpu", 0.3)];
    let is_left = |seed| {
        let judged = Fleet { seed, path, pairs, ..HEALTHY }.judged();
        assert!(charges(&judged).contains(&(At::Node(3), Charge::Slower)), "seed {seed}");
        judged.verdicts.iter().any(|of| {
            let is_noisy = of.subject.key.metric == "cpu" && of.charge == Charge::Suspect;
            is_noisy && of.at == At::Node(3) && (1..LOOKS[3]).contains(&of.evidence.repetitions)
        })
    };
    assert!((1..30).any(is_left));
}

#[test]
fn scatter_is_a_charge_of_its_own() {
    let judged = Fleet { scatter: |rank| if rank == 2 { 9.0 } else { 1.0 }, ..HEALTHY }.judged();
    assert_eq!(charges(&judged), [(At::Node(2), Charge::Unstable)]);
    assert!(judged.verdicts.iter().all(|of| of.subject.is_scatter), "{:?}", judged.verdicts);
}

#[test]
fn without_a_second_measurement_it_is_a_suspect() {
    let fleet = Fleet { core: |rank| if rank == 5 { 1.3 } else { 1.0 }, ..HEALTHY };
    let judged = judge(&fleet.sweep());
    assert_eq!(charges(&judged), [(At::Node(5), Charge::Suspect)]);
    assert_eq!(judged.verdicts[0].evidence.repetitions, 0);
    // A node that is well the second time is cleared.
    let mut sweep = fleet.sweep();
    let mut rng = Rng::with_seed(9);
    for again in 1..=3 {
        HEALTHY.alone(&mut sweep, 5, again, &mut rng);
    }
    let judged = judge(&sweep);
    assert!(judged.verdicts.is_empty(), "{:?}", judged.verdicts);
    assert_eq!(judged.cleared.len(), 2);
}

#[test]
fn what_differs_by_hardware_is_no_fault() {
    let fleet = Fleet {
        size: 20,
        core: |rank| if rank % 2 == 0 { 1.5 } else { 1.0 },
        hardware: |rank| if rank % 2 == 0 { "old" } else { "new" },
        ..HEALTHY
    };
    let judged = fleet.judged();
    assert!(judged.verdicts.is_empty(), "{:?}", judged.verdicts);
    assert_eq!(judged.strata.len(), 2);
    assert_eq!(judged.strata[0].differs, ["cpu"]);
    // The old ones are worse than was predicted of them, as a whole.
    assert!(judged.below.iter().any(|below| below.is_whole && below.ranks.len() == 10));
}

#[test]
fn few_peers_leave_the_prediction_alone() {
    let judged =
        Fleet { size: 5, core: |rank| if rank == 1 { 3.0 } else { 1.0 }, ..HEALTHY }.judged();
    assert!(judged.verdicts.is_empty());
    assert!(judged.standings.iter().all(|standing| standing.z.is_none()));
    let below = &judged.below[0];
    assert_eq!((&below.ranks[..], below.is_whole, below.nodes), (&[1][..], false, 5));
    assert!(below.factor > 1.5, "{below:?}");
}

#[test]
fn a_third_of_bad_nodes_is_found_and_nearly_half_accuses_nobody_else() {
    let judged =
        Fleet { size: 60, core: |rank| if rank % 3 == 0 { 1.3 } else { 1.0 }, ..HEALTHY }.judged();
    let found = charges(&judged);
    assert_eq!(found.len(), 20, "{found:?}");
    let judged =
        Fleet { size: 60, core: |rank| if rank % 20 < 9 { 1.3 } else { 1.0 }, ..HEALTHY }.judged();
    let healthy = |at: &At| !matches!(at, At::Node(rank) if rank % 20 < 9);
    assert!(!charges(&judged).iter().any(|(at, _)| healthy(at)));
}

#[test]
fn an_empty_sweep_says_nothing() {
    let judged = judge(&Fleet { size: 0, ..HEALTHY }.sweep());
    assert!(judged.verdicts.is_empty() && judged.strata.is_empty());
    let mut sweep = Fleet { size: 8, ..HEALTHY }.sweep();
    sweep.nodes.clear();
    assert!(judge(&sweep).verdicts.is_empty());
    for value in [0.0, -1.0, f64::NAN] {
        let mut sweep = Fleet { size: 8, ..HEALTHY }.sweep();
        sweep.figures[0].estimate.value = value;
        let judged = judge(&sweep);
        assert_eq!(judged.untested.len(), 1);
        assert!(judged.standings.iter().all(|standing| standing.factor.is_finite()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn order_scale_and_names_change_nothing(seed in 0_u64..1000, scale in 1e-6_f64..1e6) {
        let fleet = Fleet { seed, core: |rank| if rank == 4 { 1.2 } else { 1.0 }, ..HEALTHY };
        let plain = suspects(&fleet.sweep(), FIRST);
        let mut sweep = fleet.sweep();
        Rng::with_seed(seed).shuffle(&mut sweep.figures);
        Rng::with_seed(seed).shuffle(&mut sweep.pairs);
        prop_assert_eq!(&suspects(&sweep, FIRST), &plain);
        let scaled = suspects(&Fleet { scale, ..fleet }.sweep(), FIRST);
        prop_assert_eq!(&scaled, &plain);
        let renamed = Fleet { seed, core: fleet.core, rank: |rank| 3 * rank + 7, ..HEALTHY };
        let renamed: Vec<u32> = suspects(&renamed.sweep(), FIRST).nodes.iter().map(|node| node.rank).collect();
        let plain: Vec<u32> = plain.nodes.iter().map(|node| 3 * node.rank + 7).collect();
        prop_assert_eq!(renamed, plain);
    }

    #[test]
    fn a_bad_node_never_accuses_its_partners(seed in 0_u64..10_000) {
        let path = |from: u32, to: u32| match from == 5 || to == 5 {
            true => 1.5 + f64::from((from * 7 + to) % 4),
            false => 1.0,
        };
        let judged = Fleet { size: 24, seed, path, ..HEALTHY }.judged();
        let mut healthy: Vec<u32> = judged
            .verdicts
            .iter()
            .filter(|verdict| verdict.charge != Charge::Suspect)
            .flat_map(|verdict| match verdict.at {
                At::Node(rank) => vec![rank],
                At::Link(from, to) => vec![from, to],
            })
            .filter(|rank| *rank != 5)
            .collect();
        healthy.sort_unstable();
        healthy.dedup();
        prop_assert!(healthy.len() <= 1, "{:?}", judged.verdicts);
    }
}
