//! Findings about predictions that were missed, one for each cause; and what a run shows of a cause
//! by itself.
//!
//! A figure counts once, whichever of its predictions it missed, and only where its interval is
//! clear of them. Predictions promise nine figures in ten, so misses are findings where more than a
//! tenth of a group's figures missed, or one by far. A figure that is better than predicted is not
//! a finding, unless the reader can act on its cause; nor is what has a cause about which nothing
//! can be done.

use super::{Finding, Named, Severity, about, counted, shared, spread};
use crate::causes::{self, Cause, MOVED_CPUS, SHARED_CORE, THROTTLED};
use crate::facts::IS_GUEST;
use crate::figure::Figure;
use crate::gather::distinct;
use crate::health::health;
use crate::held;
use crate::keys::group_of;
use crate::misses::{self, Miss};
use crate::moved::moved;
use crate::names::around;
use crate::verdict::Verdict;
use record::quantity::{digits, render};
use record::run::Run;
use record::shown::range;
use record::unit::Unit;
use stats::modes::Mode;
use stats::quantile::median;
use std::collections::BTreeMap;

/// Share of a group's figures that may be worse than predicted.
const ALLOWED: f64 = 0.1;

/// Factor from which on a single miss counts, however few there are.
const FAR: f64 = 2.0;

/// Share of its groups' misses that a cause explains at least.
const PART: f64 = 0.25;

/// Shares of the samples, and of the time, from which on a shared core and a throttled group are
/// findings by themselves.
const SHARED: f64 = 0.05;
const THROTTLED_SHARE: f64 = 0.005;

/// Load above which other programs than plumb ran.
const OWN_LOAD: f64 = 1.5;

/// What the misses that no cause explains are called.
const UNEXPLAINED: &str = "unexplained";

pub(super) fn findings(run: &Run, figures: &[Figure], named: &Named) -> Vec<Finding> {
    let is_one = |miss: &Miss| miss.is_certain && miss.verdict != Verdict::Impossible;
    let missed: Vec<Miss> = figures.iter().filter_map(misses::of_figure).filter(is_one).collect();
    let (worse, better): (Vec<&Miss>, Vec<&Miss>) =
        missed.iter().partition(|miss| misses::is_worse(miss));
    // What lies at a limit is a finding of its own.
    let worse: Vec<&Miss> =
        worse.into_iter().filter(|miss| held::by(run, miss.figure).is_none()).collect();
    let (mut all, worse) = shared::findings(run, figures, worse);
    let (of_better, better) = shared::findings(run, figures, better);
    all.extend(of_better);
    let much = Much::from_misses(figures, &worse);
    let (by_cause, none) = causes::parted(run, &worse);
    let mut unexplained = much.only(none);
    all.extend(of_the_run(run));
    for (cause, own) in by_cause {
        let own = much.only(own);
        if !much.is_part_enough(&own) {
            unexplained.extend(own);
        } else if !cause.advice.is_empty() {
            // A cause that the reader cannot act on is not a finding.
            join(&mut all, cause, &own, named);
        }
    }
    let mut left: BTreeMap<usize, Vec<&Miss>> = BTreeMap::new();
    for miss in unexplained {
        left.entry(group_of(miss.figure)).or_default().push(miss);
    }
    all.extend(left.values().filter_map(|own| {
        let about = about(&figures_of(own));
        let text = format!(
            "{}; no recorded condition explains most of the difference",
            sentence(own, about, named)?
        );
        let finding = Finding::new(Severity::Note, UNEXPLAINED, text).about(about);
        Some(
            finding.so(
                "`plumb explain ID` shows the basis of a prediction, --format csv every figure",
            ),
        )
    }));
    let much = Much::from_misses(figures, &better);
    for (cause, own) in causes::parted(run, &better).0 {
        if !cause.advice.is_empty() {
            join(&mut all, cause, &much.only(own), named);
        }
    }
    all
}

/// A core that others used, a group that was throttled, and CPUs that the host moved, whatever they
/// explain.
fn of_the_run(run: &Run) -> Vec<Finding> {
    let health = health(run);
    let percent = |share: f64| format!("{} %", digits(share * 100.0));
    let shared = health.shared.filter(|share| *share > SHARED).map(|share| {
        let text = format!(
            "the core was shared during {} of the samples, by {}; where possible, figures use only \
             samples with the core alone",
            percent(share),
            neighbours(run)
        );
        (SHARED_CORE, text)
    });
    let throttled = health.throttled.filter(|share| *share > THROTTLED_SHARE).map(|share| {
        let text =
            format!("the control group's CPU quota throttled {} of the time", percent(share));
        (THROTTLED, text)
    });
    let moved = moved(run).map(|moved| {
        let mode = |of: &Mode| format!("{} in {}", render(of.centre, Unit::Ns), percent(of.share));
        let text = format!(
            "the host moved the virtual CPUs between groups of cores: a cache line between two of \
             them took {} and {} of {} rounds ({}); figures of the last-level cache and of several \
             CPUs mix both places",
            mode(&moved.near),
            mode(&moved.far),
            moved.rounds,
            moved.pair
        );
        (MOVED_CPUS, text)
    });
    let found = [shared, throttled, moved].into_iter().flatten();
    let warning = |(cause, text): (&'static str, String)| {
        let advice = causes::named(cause).map_or("", |cause| cause.advice);
        Finding::new(Severity::Warning, cause, text).so(advice)
    };
    found.map(warning).collect()
}

/// What may have used the core beside plumb: `another tenant, or this machine's own other CPUs: load
/// 14, by rustc, chromium`.
fn neighbours(run: &Run) -> String {
    let loads = run.rounds.iter().filter_map(|round| round.environment.get("load_1m").copied());
    let load = median(&loads.collect::<Vec<f64>>()).filter(|load| *load > OWN_LOAD);
    let programs = run.footer.iter().flat_map(|footer| &footer.programs);
    let programs = programs.cloned().collect::<Vec<_>>().join(", ");
    let parts =
        [load.map(|load| format!("load {}", factor(load))), Some(around("by ", &programs, ""))];
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    let own = around(": ", &parts.collect::<Vec<_>>().join(", "), "");
    match (IS_GUEST.holds(run, &[]), own.is_empty()) {
        (true, true) => "another tenant".to_owned(),
        (true, false) => format!("another tenant, or this machine's own other CPUs{own}"),
        (false, _) => format!("a program on its other hardware thread{own}"),
    }
}

/// Adds what a cause explains, to the run's own finding of it where there is one.
fn join(all: &mut Vec<Finding>, cause: &'static Cause, own: &[&Miss], named: &Named) {
    let about = about(&figures_of(own));
    let of_run = all.iter_mut().find(|finding| finding.cause == cause.name);
    let Some(told) = sentence(own, if of_run.is_some() { "run" } else { about }, named) else {
        return;
    };
    if let Some(of_run) = of_run {
        of_run.text = format!("{}; {told}", of_run.text);
        return;
    }
    let severity = match cause.fact.is_of_rounds() {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let text = format!("{told}; candidate cause: {}", cause.text);
    all.push(Finding::new(severity, cause.name, text).about(about).so(cause.advice));
}

fn figures_of<'run>(misses: &[&Miss<'run>]) -> Vec<&'run Figure> {
    misses.iter().map(|miss| miss.figure).collect()
}

/// How many figures missed, by how much, and the worst of them; `None` without any.
fn sentence(misses: &[&Miss], about: &str, named: &Named) -> Option<String> {
    let mut sorted: Vec<Miss> = misses.iter().map(|miss| **miss).collect();
    misses::sort(&mut sorted);
    let worst = sorted.first()?;
    let factors: Vec<f64> = sorted.iter().filter_map(|miss| miss.factor).collect();
    let by = match (factors.last(), factors.first()) {
        (Some(least), Some(most)) if factor(*least) != factor(*most) => {
            format!("{} to {} times ", factor(*least), factor(*most))
        }
        (Some(one), _) => format!("{} times ", factor(*one)),
        _ => String::new(),
    };
    let verdicts: Vec<Verdict> = sorted.iter().map(|miss| miss.verdict).collect();
    let (how, than) = match verdicts[0] {
        first if verdicts.iter().any(|other| *other != first) => ("off", "what was predicted"),
        Verdict::Slower => ("slower than", "predicted"),
        Verdict::Faster => ("faster than", "predicted"),
        Verdict::Above | Verdict::Impossible | Verdict::Within | Verdict::Unpredicted => {
            ("above", "prediction")
        }
        Verdict::Below => ("below", "prediction"),
    };
    let (most, whose) = match (sorted.len(), about) {
        (1, _) => (": ", String::new()),
        (_, "run") => (", most of all ", format!(" ({})", spread(&figures_of(misses)))),
        _ => (", most of all ", String::new()),
    };
    Some(format!(
        "{} {by}{how} {than}{whose}{most}{} against {}",
        counted(sorted.len(), "is", "are"),
        named.name(worst.figure, about),
        range(&worst.range, worst.figure.shown_unit())
    ))
}

/// A factor as people compare: `1.04`, `1.3`, `12`.
pub(super) fn factor(factor: f64) -> String {
    match factor {
        ..1.1 => format!("{factor:.2}"),
        1.1..10.0 => format!("{factor:.1}"),
        _ => format!("{factor:.0}"),
    }
}

/// Misses and judged figures of each group of a summary.
struct Much(BTreeMap<usize, (usize, usize)>);

impl Much {
    fn from_misses(figures: &[Figure], missed: &[&Miss]) -> Much {
        let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for figure in figures.iter().filter(|figure| misses::is_judged(figure)) {
            counts.entry(group_of(figure)).or_default().1 += 1;
        }
        for miss in missed {
            counts.entry(group_of(miss.figure)).or_default().0 += 1;
        }
        Much(counts)
    }

    /// The misses of groups in which there are more than predictions allow, and those by far.
    fn only<'miss, 'run>(&self, misses: Vec<&'miss Miss<'run>>) -> Vec<&'miss Miss<'run>> {
        let is_much = |(missed, judged): &(usize, usize)| *missed as f64 > ALLOWED * *judged as f64;
        let counts =
            |miss: &&Miss| self.0.get(&group_of(miss.figure)).is_some_and(is_much) || is_far(miss);
        misses.into_iter().filter(counts).collect()
    }

    /// Whether what a cause explains is no small part of its groups' misses.
    fn is_part_enough(&self, own: &[&Miss]) -> bool {
        let groups = distinct(own.iter().map(|miss| group_of(miss.figure)));
        let missed = groups.iter().filter_map(|group| self.0.get(group)).map(|counts| counts.0);
        let missed: usize = missed.sum();
        own.iter().any(|miss| is_far(miss)) || own.len() as f64 >= PART * missed as f64
    }
}

fn is_far(miss: &Miss) -> bool {
    miss.factor.is_some_and(|factor| factor >= FAR)
}

#[cfg(test)]
mod tests {
    use super::neighbours;
    use crate::sample;
    use record::event::Event;

    #[test]
    fn a_shared_core_names_what_could_take_it() {
        let busy = |load: f64, programs: &[&str], is_guest: bool| {
            let mut run = sample::changed(|event| match event {
                Event::Round(round) => {
                    round.environment.insert("load_1m".to_owned(), load);
                }
                Event::Footer(footer) => {
                    footer.programs = programs.iter().map(|name| (*name).to_owned()).collect();
                }
                _ => {}
            });
            run.header.host["kernel"]["virtualisation"]["is_guest"] = is_guest.into();
            neighbours(&run)
        };
        assert_eq!(busy(1.1, &[], true), "another tenant");
        assert_eq!(
            busy(14.0, &["rustc", "chromium"], true),
            "another tenant, or this machine's own other CPUs: load 14, by rustc, chromium"
        );
        assert!(busy(2.5, &[], false).ends_with("hardware thread: load 2.5"));
    }
}
