//! What a sweep costs before it runs: time, bytes and steps of each phase. Pure.

use crate::matchings::{Edge, all_steps};
use crate::model::{LOOKS, Suspects};
use crate::recipe::Recipe;
use crate::sweep::{Purpose, Stage};
use crate::tree::depth;

/// What one phase costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The phase.
    pub phase: Stage,
    /// Why pairs are measured; absent for what a node does by itself.
    pub purpose: Option<Purpose>,
    /// Steps one after the other.
    pub steps: u32,
    /// Measurements over all nodes.
    pub measurements: u64,
    /// Expected time, in seconds: where nothing stands out, and where as much stands out as is
    /// measured again at most. Equal but for the suspects.
    pub expected_s: (f64, f64),
    /// It never takes longer, in seconds.
    pub at_most_s: f64,
    /// Bytes that reach rank 0.
    pub bytes: u64,
}

/// What parts of a sweep take, as far as the plan of one node knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Takes {
    /// A node by itself, in seconds.
    pub alone_s: f64,
    /// A pair, in seconds.
    pub pair_s: f64,
    /// Figures of a node by itself.
    pub figures: u32,
    /// Figures of a pair.
    pub pair_figures: u32,
}

/// A node joins in about this time: connections, handshakes and round trips at each level.
const JOIN_S: f64 = 0.5;
/// Bytes of a description, and of a figure.
const HELLO_BYTES: u64 = 1024;
const FIGURE_BYTES: u64 = 350;

/// The purposes of the pairs that a plan lists.
const PURPOSES: [Purpose; 5] =
    [Purpose::Matching, Purpose::Isolated, Purpose::Bisection, Purpose::Incast, Purpose::Outcast];

/// What each phase costs; that of the pairs by their purpose.
pub fn costs(recipe: &Recipe, takes: &Takes) -> Vec<Cost> {
    let (nodes, limits) = (u64::from(recipe.header.size), recipe.limits);
    let edges = recipe.edges(&|_, _| true, &|_| String::new());
    let slack_s = limits.gather_s + limits.grace_s;
    let levels = f64::from(depth(recipe.header.size.saturating_sub(1)) + 1);
    let cost = |phase, steps, measurements, expected_s, at_most_s, bytes| Cost {
        phase,
        purpose: None,
        steps,
        measurements,
        expected_s: (expected_s, expected_s),
        at_most_s,
        bytes,
    };
    let pair_at_most_s = limits.pair_s + limits.gather_s + 2.0 * slack_s;
    let pairs = |purpose: &Purpose| {
        let of = edges.iter().filter(|(of, _)| of == purpose);
        let steps = of.clone().count() as u32;
        let measurements: u64 = of.map(|(_, step)| step.len() as u64).sum();
        let [expected_s, at_most_s] =
            [takes.pair_s, pair_at_most_s].map(|each_s| f64::from(steps) * each_s);
        let bytes = measurements * u64::from(takes.pair_figures) * FIGURE_BYTES;
        let cost = cost(Stage::Pairs, steps, measurements, expected_s, at_most_s, bytes);
        Cost { purpose: Some(*purpose), ..cost }
    };
    let before = [
        cost(Stage::Meet, 1, 0, JOIN_S * levels, limits.meet_s, nodes * HELLO_BYTES),
        cost(
            Stage::Alone,
            1,
            nodes,
            takes.alone_s,
            limits.alone_s + slack_s,
            nodes * u64::from(takes.figures) * FIGURE_BYTES,
        ),
    ];
    let (again, turns) = again_at_most(&edges);
    let at_most = |alone_s: f64, pair_s: f64| again * alone_s + turns * pair_s;
    let suspects = Cost {
        expected_s: (0.0, at_most(takes.alone_s, takes.pair_s)),
        ..cost(Stage::Suspects, 0, 0, 0.0, at_most(limits.alone_s + slack_s, pair_at_most_s), 0)
    };
    let after = [suspects, cost(Stage::Gather, 1, 0, JOIN_S, slack_s, 0)];
    let pairs = PURPOSES.iter().map(pairs).filter(|cost| cost.steps > 0);
    before.into_iter().chain(pairs).chain(after).collect()
}

/// How often nodes are measured again at most, all at the same time, and turns of pairs: as many as
/// the looks allow, or each path that was measured, and its way back, as often as the last look asks
/// for.
fn again_at_most(edges: &[(Purpose, Vec<Edge>)]) -> (f64, f64) {
    let last = LOOKS.last().copied().unwrap_or(0);
    let matched = edges.iter().filter(|(of, _)| *of == Purpose::Matching);
    let met: u64 = matched.map(|(_, step)| 2 * step.len() as u64).sum();
    let turns = u64::from(Suspects::TURNS_MOST) * LOOKS.len() as u64;
    (f64::from(last), turns.min(met * u64::from(last)) as f64)
}

/// Whether every pair of nodes meets.
pub fn is_all_pairs(recipe: &Recipe) -> bool {
    recipe.header.steps >= all_steps(recipe.header.size)
}
