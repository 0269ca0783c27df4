//! What a crosscheck found: each row's values and ratio, and whether its goal is met (METHOD §7).
//!
//! The ratio of a turn is plumb's value over the rival's; the figure is the median of the turns'
//! ratios with its exact order-statistic interval. A rate is as good as the rival's where the
//! interval reaches 1.00 and the median is not more than 2 % short of it; times likewise from the
//! other side; "agree" is a median within 5 %. Where that holds, but the interval has ratios that
//! are 10 % or more off on the wrong side, it may hold by chance: turns that scatter so much decide
//! nothing (so of what is really that far off, at most one in fifty is called met in nine turns).
//! What is missed stays missed.

#[cfg(any(test, feature = "fixtures"))]
pub mod sample;
#[cfg(test)]
mod tests;

use record::crosscheck::{Goal, Load, Pair, Pairing, PairingEnd, Rival, Row};
use record::event::Ending;
use record::run::Run;
use stats::interval::{CONFIDENCE, Interval, median_order};
use stats::quantile::median;
use std::ops::RangeInclusive;

/// Pairs below which a goal is not judged.
pub const JUDGED_FROM: usize = 9;
/// Shares of the CPU time above which the hypervisor's or other programs' use is reported.
const STOLEN: f64 = 0.01;
const OTHERS: f64 = 0.05;
/// How far the median of a ratio may lie beyond its limit.
const NEARLY: f64 = 0.02;
pub const AGREE: RangeInclusive<f64> = 0.95..=1.05;
/// How far beyond its limit an interval may reach whose goal is met: twice what "agree" means.
const SCATTER: f64 = 0.10;
/// The least of a rate of work whose method is another.
pub const NEARLY_EQUAL: f64 = 0.95;

#[derive(Clone, Debug, PartialEq)]
pub struct Compared<'run> {
    pub pairing: &'run Pairing,
    pub row: &'run Row,
    /// How the pairing ended; `None` where it was cut off.
    pub end: Option<&'run PairingEnd>,
    /// Median of plumb's values; `None` without a pair.
    pub ours: Option<f64>,
    pub theirs: Option<f64>,
    /// Ratios of the pairs, plumb's over the rival's.
    pub ratios: Vec<f64>,
    pub ratio: Option<f64>,
    /// Its interval of at least 95 %; `None` below six pairs.
    pub interval: Option<(f64, f64)>,
    pub confidence: Option<f64>,
    pub verdict: Verdict,
    /// Why turns that were made have no ratio, in one line.
    pub lack: Option<String>,
}

impl Compared<'_> {
    /// Whether the values lie further apart than "agree" allows, whatever the goal.
    pub fn differs(&self) -> bool {
        self.ratio.is_some_and(|ratio| !AGREE.contains(&ratio))
    }

    /// What was compared, for a list of several rivals: `perf sched-pipe, threads`.
    pub fn label(&self) -> String {
        format!("{} {}", self.pairing.rival, self.name())
    }

    /// The same for a list of one rival's.
    pub fn name(&self) -> String {
        match self.row.name.as_str() {
            "" => self.pairing.name.clone(),
            row => format!("{}, {row}", self.pairing.name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Met,
    Missed,
    /// The median meets it, and the turns scatter so much that it may be chance.
    Undecided,
    /// There is none: the difference explains the ratio.
    Explained,
    /// Too few pairs for a verdict.
    NotJudged,
    /// It was not compared: [`Compared::end`] or [`Compared::lack`] says why.
    Absent,
}

impl Verdict {
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::Undecided => "undecided",
            Verdict::Explained => "explained",
            Verdict::NotJudged => "not judged",
            Verdict::Absent => "not compared",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bout<'run> {
    pub pairing: &'run Pairing,
    /// How it ended; `None` where it was cut off.
    pub end: Option<&'run PairingEnd>,
    pub turns: usize,
    /// What else had plumb's CPUs and the rival's, in all turns together.
    pub loads: [Load; 2],
    pub rows: Vec<Compared<'run>>,
}

impl Bout<'_> {
    /// Why it has not all its turns, in one line; `None` where it has.
    pub fn lack(&self) -> Option<String> {
        let after = match self.turns {
            0 => String::new(),
            1 => " after one turn".to_owned(),
            turns => format!(" after {turns} turns"),
        };
        let Some(end) = self.end else {
            return Some(format!("cut off{after}"));
        };
        let word = match end.outcome {
            Ending::Measured => return None,
            Ending::Skipped => "skipped",
            Ending::Failed => "failed",
        };
        let details = [&end.reason, &end.needed].into_iter().flatten();
        let details: Vec<&str> = details.map(String::as_str).collect();
        Some(match details.as_slice() {
            [] => format!("{word}{after}"),
            details => format!("{word}{after}: {}", details.join("; ")),
        })
    }

    /// What disturbed its turns, in one line; `None` where nothing notable did.
    pub fn disturbance(&self) -> Option<String> {
        let told = |what: &str, most: f64, of: fn(&Load) -> Option<f64>| {
            let share =
                |load: &Load| Some(of(load)? / load.cpu_s).filter(|share| share.is_finite());
            let [ours, theirs] = self.loads.each_ref().map(share);
            let is_notable = [ours, theirs].into_iter().flatten().any(|share| share > most);
            let percent = |share: Option<f64>| {
                share.map_or("?".to_owned(), |share| format!("{:.1}", share * 100.0))
            };
            is_notable.then(|| {
                let (ours, theirs) = (percent(ours), percent(theirs));
                format!(
                    "{what} {ours} % of the CPU time in plumb's turns, {theirs} % in the tool's"
                )
            })
        };
        let all = [
            told("the hypervisor took", STOLEN, |load| load.steal_s),
            told("other programs or the kernel used at least", OTHERS, |load| load.others_s),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Beside<'run> {
    pub name: &'run str,
    /// The rival; `None` if the record lacks it.
    pub rival: Option<&'run Rival>,
    pub bouts: Vec<Bout<'run>>,
}

pub fn rivals(run: &Run) -> Vec<Beside<'_>> {
    let crosscheck = &run.crosscheck;
    let mut all: Vec<Beside> = crosscheck
        .rivals
        .iter()
        .map(|rival| Beside { name: &rival.name, rival: Some(rival), bouts: Vec::new() })
        .collect();
    for pairing in &crosscheck.pairings {
        let bout = bout(run, pairing);
        match all.iter_mut().find(|beside| beside.name == pairing.rival) {
            Some(beside) => beside.bouts.push(bout),
            None => all.push(Beside { name: &pairing.rival, rival: None, bouts: vec![bout] }),
        }
    }
    all
}

pub fn rows(run: &Run) -> Vec<Compared<'_>> {
    let pairings = run.crosscheck.pairings.iter();
    pairings.flat_map(|pairing| bout(run, pairing).rows).collect()
}

pub fn count(rows: &[Compared<'_>], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

fn bout<'run>(run: &'run Run, pairing: &'run Pairing) -> Bout<'run> {
    let is_own = |rival: &str, name: &str| rival == pairing.rival && name == pairing.name;
    let pairs = run.crosscheck.pairs.iter();
    let pairs: Vec<&Pair> = pairs.filter(|pair| is_own(&pair.rival, &pair.pairing)).collect();
    let mut ends = run.crosscheck.ends.iter();
    let end = ends.rfind(|end| is_own(&end.rival, &end.pairing));
    let rows = pairing.rows.iter().enumerate();
    let together = |of: fn(&Pair) -> Option<Load>| {
        let loads = pairs.iter().filter_map(|pair| of(pair));
        let sum = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        loads.fold(Load::default(), |all, load| Load {
            cpu_s: all.cpu_s + load.cpu_s,
            steal_s: sum(all.steal_s, load.steal_s),
            others_s: sum(all.others_s, load.others_s),
        })
    };
    Bout {
        pairing,
        end,
        turns: pairs.len(),
        loads: [together(|pair| pair.ours_load), together(|pair| pair.theirs_load)],
        rows: rows.map(|(at, row)| compared(pairing, row, at, &pairs, end)).collect(),
    }
}

fn compared<'run>(
    pairing: &'run Pairing,
    row: &'run Row,
    position: usize,
    pairs: &[&Pair],
    end: Option<&'run PairingEnd>,
) -> Compared<'run> {
    // A turn that has no ratio says nothing: a value is missing, or the rival's is no quantity.
    let both: Vec<(f64, f64)> = pairs
        .iter()
        .filter_map(|pair| Some((*pair.ours.get(position)?, *pair.theirs.get(position)?)))
        .filter(|(ours, theirs)| ours.is_finite() && theirs.is_finite() && *theirs > 0.0)
        .collect();
    let ratios: Vec<f64> = both.iter().map(|(ours, theirs)| ours / theirs).collect();
    let interval = median_order(&ratios).filter(|interval| interval.confidence >= CONFIDENCE);
    let ratio = median(&ratios);
    Compared {
        pairing,
        row,
        end,
        lack: lack(pairing, position, pairs, both.len()),
        ours: median(&both.iter().map(|(ours, _)| *ours).collect::<Vec<_>>()),
        theirs: median(&both.iter().map(|(_, theirs)| *theirs).collect::<Vec<_>>()),
        verdict: verdict(row.goal, ratio, interval, ratios.len(), pairing.once),
        ratios,
        ratio,
        interval: interval.map(|interval| (interval.low, interval.high)),
        confidence: interval.map(|interval| interval.confidence),
    }
}

/// Why some turns have no ratio, where `compared` of them have one.
fn lack(pairing: &Pairing, at: usize, pairs: &[&Pair], compared: usize) -> Option<String> {
    let without = pairs.iter().find_map(|pair| {
        let (ours, theirs) = (pair.ours.get(at), pair.theirs.get(at));
        let is_theirs = theirs.is_none_or(|value| !value.is_finite() || *value <= 0.0);
        let (name, value) = if is_theirs { (&*pairing.rival, theirs) } else { ("plumb", ours) };
        let value = value.filter(|value| value.is_finite());
        match value {
            Some(_) if !is_theirs => None,
            Some(value) => Some(format!("{name} reported {value}")),
            None => Some(format!("{name} reported nothing")),
        }
    })?;
    Some(match compared {
        0 => format!("not compared: {without}"),
        _ => format!("{} of {} turns: {without}", pairs.len() - compared, pairs.len()),
    })
}

fn verdict(
    goal: Goal,
    ratio: Option<f64>,
    interval: Option<Interval>,
    pairs: usize,
    once: bool,
) -> Verdict {
    let Some(ratio) = ratio else {
        return Verdict::Absent;
    };
    if goal == Goal::Explained {
        return Verdict::Explained;
    }
    let ends = interval.filter(|_| pairs >= JUDGED_FROM);
    // What is no timing does not scatter.
    let ends = ends.map(|ends| (ends.low, ends.high)).or(once.then_some((ratio, ratio)));
    let Some((low, high)) = ends else {
        return Verdict::NotJudged;
    };
    // A time or a rate that is not positive is no better than the rival's, but wrong.
    let is_met = ratio > 0.0
        && match goal {
            Goal::AtLeast => high >= 1.0 && ratio >= 1.0 - NEARLY,
            Goal::AtLeastNearly => high >= NEARLY_EQUAL && ratio >= NEARLY_EQUAL * (1.0 - NEARLY),
            Goal::AtMost => low <= 1.0 && ratio <= 1.0 + NEARLY,
            Goal::Agree => AGREE.contains(&ratio),
            Goal::Explained => true,
        };
    let is_wrong = match goal {
        Goal::AtLeast => low < 1.0 - SCATTER,
        Goal::AtLeastNearly => low < NEARLY_EQUAL * (1.0 - SCATTER),
        Goal::AtMost => high > 1.0 + SCATTER,
        Goal::Agree => low < 1.0 - SCATTER || high > 1.0 + SCATTER,
        Goal::Explained => false,
    };
    match (is_met, is_wrong) {
        (false, _) => Verdict::Missed,
        (true, true) => Verdict::Undecided,
        (true, false) => Verdict::Met,
    }
}
