//! What a crosscheck found: each row's values and ratio, and whether its goal is met (METHOD §7).

use crate::stats::interval::median_order;
use crate::stats::quantile::median;
use record::crosscheck::{Goal, Pair, Pairing, PairingEnd, Row};
use record::run::Run;

/// Pairs below which a goal is not judged.
pub(crate) const JUDGED_FROM: usize = 9;
/// How far the median of a ratio may lie beyond its limit.
const NEARLY: f64 = 0.02;
/// What "agree" means.
const AGREE: f64 = 0.05;

/// One row with what became of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared<'run> {
    /// The pairing it belongs to.
    pub(crate) pairing: &'run Pairing,
    /// What was compared.
    pub(crate) row: &'run Row,
    /// How the pairing ended; `None` where it was cut off.
    pub(crate) end: Option<&'run PairingEnd>,
    /// Median of plumb's values; `None` without a pair.
    pub(crate) ours: Option<f64>,
    /// Median of the rival's.
    pub(crate) theirs: Option<f64>,
    /// Ratios of the pairs, plumb's over the rival's.
    pub(crate) ratios: Vec<f64>,
    /// Their median.
    pub(crate) ratio: Option<f64>,
    /// Its interval of at least 95 %; `None` below six pairs.
    pub(crate) interval: Option<(f64, f64)>,
    /// Whether the goal is met.
    pub(crate) verdict: Verdict,
}

/// Whether a goal is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Missed,
    /// There is none: the difference explains the ratio.
    Explained,
    /// Too few pairs for a verdict.
    NotJudged,
    /// It was not compared: [`Compared::end`] says why.
    Absent,
}

/// All rows of a record's crosscheck, in its order.
pub(crate) fn rows(run: &Run) -> Vec<Compared<'_>> {
    let pairings = run.crosscheck.pairings.iter();
    pairings
        .flat_map(|pairing| of_pairing(run, pairing))
        .collect()
}

fn of_pairing<'run>(run: &'run Run, pairing: &'run Pairing) -> Vec<Compared<'run>> {
    let is_own = |rival: &str, name: &str| rival == pairing.rival && name == pairing.name;
    let pairs: Vec<&Pair> = run
        .crosscheck
        .pairs
        .iter()
        .filter(|pair| is_own(&pair.rival, &pair.pairing))
        .collect();
    let end = run
        .crosscheck
        .ends
        .iter()
        .find(|end| is_own(&end.rival, &end.pairing));
    let rows = pairing.rows.iter().enumerate();
    rows.map(|(at, row)| compared(pairing, row, at, &pairs, end))
        .collect()
}

fn compared<'run>(
    pairing: &'run Pairing,
    row: &'run Row,
    at: usize,
    pairs: &[&Pair],
    end: Option<&'run PairingEnd>,
) -> Compared<'run> {
    let both: Vec<(f64, f64)> = pairs
        .iter()
        .filter_map(|pair| Some((*pair.ours.get(at)?, *pair.theirs.get(at)?)))
        .collect();
    let ratios: Vec<f64> = both.iter().map(|(ours, theirs)| ours / theirs).collect();
    let interval = median_order(&ratios).map(|interval| (interval.low, interval.high));
    let ratio = median(&ratios);
    Compared {
        pairing,
        row,
        end,
        ours: median(&both.iter().map(|(ours, _)| *ours).collect::<Vec<_>>()),
        theirs: median(&both.iter().map(|(_, theirs)| *theirs).collect::<Vec<_>>()),
        verdict: verdict(row.goal, ratio, interval, ratios.len()),
        ratios,
        ratio,
        interval,
    }
}

fn verdict(goal: Goal, ratio: Option<f64>, interval: Option<(f64, f64)>, pairs: usize) -> Verdict {
    let Some(ratio) = ratio else {
        return Verdict::Absent;
    };
    if goal == Goal::Explained {
        return Verdict::Explained;
    }
    let Some((low, high)) = interval.filter(|_| pairs >= JUDGED_FROM) else {
        return Verdict::NotJudged;
    };
    let is_met = match goal {
        Goal::AtLeast => high >= 1.0 && ratio >= 1.0 - NEARLY,
        Goal::AtLeastNearly => high >= 0.95 && ratio >= 0.95 * (1.0 - NEARLY),
        Goal::AtMost => low <= 1.0 && ratio <= 1.0 + NEARLY,
        Goal::Agree => (ratio - 1.0).abs() <= AGREE,
        Goal::Explained => true,
    };
    match is_met {
        true => Verdict::Met,
        false => Verdict::Missed,
    }
}
