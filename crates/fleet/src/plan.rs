//! What a sweep costs before it runs: time, bytes and steps of each phase. Pure.

use crate::matchings::all_steps;
use crate::recipe::Recipe;
use crate::sweep::Stage;
use crate::tree::depth;

/// What one phase costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The phase.
    pub phase: Stage,
    /// Steps one after the other.
    pub steps: u32,
    /// Measurements over all nodes.
    pub measurements: u64,
    /// Expected time, in seconds; none where it follows from what is found.
    pub expected_s: Option<f64>,
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

/// What each phase costs.
pub fn costs(recipe: &Recipe, takes: &Takes) -> Vec<Cost> {
    let (nodes, limits) = (u64::from(recipe.header.size), recipe.limits);
    let (matched, isolated) = recipe.edges(&|_, _| true);
    let pairs: u64 = matched.iter().map(|step| step.len() as u64).sum();
    let repeated = isolated.len() as u32;
    let steps = matched.len() as u32 + repeated;
    let slack_s = limits.gather_s + limits.grace_s;
    let levels = f64::from(depth(recipe.header.size.saturating_sub(1)) + 1);
    let all_pairs = pairs + u64::from(repeated);
    let cost = |phase, steps, measurements, expected_s, at_most_s, bytes| Cost {
        phase,
        steps,
        measurements,
        expected_s,
        at_most_s,
        bytes,
    };
    let pair_at_most_s = limits.pair_s + limits.gather_s + 2.0 * slack_s;
    vec![
        cost(Stage::Meet, 1, 0, Some(JOIN_S * levels), limits.meet_s, nodes * HELLO_BYTES),
        cost(
            Stage::Alone,
            1,
            nodes,
            Some(takes.alone_s),
            limits.alone_s + slack_s,
            nodes * u64::from(takes.figures) * FIGURE_BYTES,
        ),
        cost(
            Stage::Pairs,
            steps,
            all_pairs,
            Some(f64::from(steps) * takes.pair_s),
            f64::from(steps) * pair_at_most_s,
            all_pairs * u64::from(takes.pair_figures) * FIGURE_BYTES,
        ),
        cost(Stage::Suspects, 0, 0, None, 0.0, 0),
        cost(Stage::Gather, 1, 0, Some(JOIN_S), slack_s, 0),
    ]
}

/// Whether every pair of nodes meets.
pub fn is_all_pairs(recipe: &Recipe) -> bool {
    recipe.header.steps >= all_steps(recipe.header.size)
}
