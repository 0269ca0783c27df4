//! The answer first: how fast a machine is, whether the figures can be trusted, and what to look at.

use super::{lab_table, machine};
use crate::document::{Cell, Document, Table, Tone};
use crate::plain;
use crate::values::{self, counted, percent};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, findings};
use analysis::gather::distinct;
use analysis::health::health;
use analysis::keys::{KeyFigure, keys};
use analysis::quality::{Aspect, Grade, Quality, quality};
use analysis::score::score;
use record::event::{End, PredictionKind};
use record::note::NoteKind;
use record::run::Run;

/// A run on one screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Preset, duration and machine.
    pub title: String,
    /// How far the run can be trusted, and why; nothing of a run without rounds.
    pub quality: Option<Cell>,
    /// How good the predictions were, by where they come from.
    pub score: Vec<String>,
    /// Key figures in the order of the reports.
    pub keys: Table,
    /// What else a reader must know of some of them: the modes of their samples.
    pub notes: Vec<String>,
    /// What the mark of shared samples means, and what can be done; `None` where nothing has it.
    pub shared: Option<String>,
    /// In place of the table, how far a run came that ended before it had a key figure.
    pub so_far: Option<String>,
    /// The experiments in full, where there are so few that these take the table's place.
    pub experiments: Option<Document>,
    /// What to look at, worst first: the severity's tone and the sentence.
    pub look_at: Vec<Cell>,
}

/// Experiments that are shown whole in place of their key figures, if there are no more.
const WHOLE: usize = 3;

/// A run on one screen; of few experiments, these in full.
pub fn screen(run: &Run) -> Summary {
    let figures = figures(run);
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let measured = planned.filter(|planned| planned.skipped.is_none()).count();
    let keys = keys(run, &figures);
    let so_far = so_far(run, &figures, measured).filter(|_| keys.is_empty());
    let is_whole = so_far.is_none() && (measured <= WHOLE || keys.is_empty());
    let look_at = findings(run, &figures);
    let is_marked = is_whole || keys.iter().any(|key| !values::mark(key.figure).is_empty());
    let shared = health(run).shared.filter(|_| is_marked);
    let mut summary = Summary {
        title: title(run),
        quality: quality(run).map(|quality| quality_cell(&quality)),
        score: scores(&figures),
        shared: shared.and_then(|share| values::of_mark(&figures, share)),
        keys: Table { caption: String::new(), ..lab_table::of_keys(&keys) },
        notes: keys.iter().filter_map(note).collect(),
        so_far,
        experiments: is_whole.then(|| super::experiments(run, &figures)),
        look_at: look_at.iter().map(cell).collect(),
    };
    plain::summary(&mut summary);
    summary
}

/// `4 KiB written and synced: two modes: 64 % of the samples around 76.5 µs, …`.
fn note(key: &KeyFigure) -> Option<String> {
    let modes = key.figure.notes.first_of_kind(NoteKind::TwoModes)?;
    Some(format!("{}: {modes}", key.title))
}

/// How far a run of many experiments came that has not reached its end; `None` of others, whose
/// sections say as much.
fn so_far(run: &Run, figures: &[Figure], planned: usize) -> Option<String> {
    let has_ended = run.has_ended() || (1..=WHOLE).contains(&planned);
    let measured = figures.iter().filter(|figure| figure.value.is_some());
    let experiments = distinct(measured.clone().map(|figure| &figure.experiment)).len();
    let of = counted(planned, "experiment");
    (!has_ended).then(|| match (measured.count(), planned) {
        (0, 0) => "nothing yet".to_owned(),
        (0, _) => format!("nothing yet of {of}"),
        (some, _) => format!(
            "{} so far, of {experiments} of {of}; none is a key figure, and --full shows them",
            counted(some, "figure")
        ),
    })
}

fn cell(finding: &Finding) -> Cell {
    Cell::toned(finding.sentence(), Tone::from_severity(finding.severity))
}

/// `plumb standard · 6 min 4 s · AMD EPYC, 2 vCPU KVM, …`.
pub(super) fn title(run: &Run) -> String {
    // A footer knows the last segment alone.
    let segments = u32::try_from(run.segments.len()).unwrap_or(0);
    let earlier: f64 = (0..segments).map(|segment| run.segment_s(segment)).sum();
    let elapsed = run.footer.as_ref().map_or_else(String::new, |footer| {
        let seconds = (earlier + footer.elapsed_s).round() as u64;
        match seconds / 60 {
            0 => format!(" · {seconds} s"),
            minutes => format!(" · {minutes} min {} s", seconds % 60),
        }
    });
    format!("plumb {}{elapsed} · {}", run.header.options.preset, machine::in_a_line(run))
}

/// `before the run: 92 % of 1,644 figures fell into their predicted ranges (2.2 % were not
/// predictable)`, and the same from earlier figures.
pub(super) fn scores(figures: &[Figure]) -> Vec<String> {
    let sources = [
        ("before the run", PredictionKind::Prior),
        ("from earlier figures", PredictionKind::Derived),
    ];
    let sentence = |(from, kind)| {
        let all = score(figures, kind).all;
        let [inside, unpredicted] =
            [all.inside, all.unpredicted].map(|some| all.share(some).map(percent));
        Some(format!(
            "{from}: {} of {} fell into their predicted ranges ({} were not predictable)",
            inside?,
            counted(all.figures, "figure"),
            unpredicted?
        ))
    };
    sources.into_iter().filter_map(sentence).collect()
}

/// `fair: the core was shared 22 % of the time; …`.
pub(super) fn quality_cell(quality: &Quality) -> Cell {
    let aspects = quality.aspects.iter();
    // The first three are what a reader looks for; others where there is something of them.
    let shown = aspects.enumerate().filter(|(at, (.., grade))| *at < 3 || *grade > Grade::Good);
    let mut parts: Vec<String> = shown
        .map(|(_, (aspect, share, _))| {
            let share = two_digits(*share);
            match aspect {
                Aspect::Shared => format!("the core was shared {share} of the time"),
                Aspect::Steal => format!("steal {share}"),
                Aspect::Disturbed => format!("{share} of rounds disturbed"),
                Aspect::Throttled => format!("throttled {share} of the time"),
                Aspect::RunDelay => format!("other programs used the CPU {share} of the time"),
                Aspect::Moved => format!(
                    "the host moved the virtual CPUs between groups of cores ({share} of rounds)"
                ),
            }
        })
        .collect();
    parts.extend(
        match quality.end {
            Some(End::Complete) => None,
            Some(End::Budget) => Some(
                "the time budget ran out before the precision goal was \
                                       reached",
            ),
            Some(End::Interrupted) => Some("interrupted"),
            None => Some("the run is incomplete"),
        }
        .map(str::to_owned),
    );
    let tone = match quality.grade {
        Grade::Good => Tone::Good,
        Grade::Fair => Tone::Warn,
        Grade::Poor => Tone::Bad,
    };
    Cell::toned(format!("{}: {}", quality.grade.text(), parts.join(", ")), tone)
}

/// A number to two digits.
fn two(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = 1 - value.abs().log10().floor() as i32;
    let step = 10_f64.powi(-places);
    let places = usize::try_from(places).unwrap_or(0);
    format!("{:.places$}", (value / step).round() * step)
}

/// A share to two digits.
fn two_digits(share: f64) -> String {
    match share * 100.0 {
        ..0.05 => "0 %".to_owned(),
        percent => format!("{} %", two(percent)),
    }
}

#[cfg(test)]
mod tests {
    use analysis::sample;
    use record::event::Segment;

    #[test]
    fn the_time_of_a_resumed_run_is_that_of_all_its_segments() {
        let mut run = sample::run();
        assert!(super::title(&run).contains(" · 6 min 2 s · "));
        let rounds = run.rounds.len();
        run.rounds[rounds - 1].at_s = 62.0;
        run.segments.push(Segment {
            n: 1,
            started: String::new(),
            environment: Default::default(),
            calibration: Default::default(),
            peers: Vec::new(),
        });
        assert!(super::title(&run).contains(" · 7 min 4 s · "), "{}", super::title(&run));
    }
}
