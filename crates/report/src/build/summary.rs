//! The answer first: how fast a machine is, whether the figures can be trusted, and what to look at.

use super::{lab_table, machine, remarks};
use crate::document::{Cell, Document, Remark, Table, Tone};
use crate::plain;
use crate::values::{self, counted};
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, Severity, findings};
use analysis::gather::{distinct, gathered};
use analysis::health::health;
use analysis::keys::{KeyFigure, keys};
use analysis::quality::{Aspect, Grade, Quality, quality};
use analysis::score::score;
use record::event::{End, PredictionKind};
use record::note::NoteKind;
use record::order::InOrder;
use record::run::Run;

#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub title: String,
    pub keys: Table,
    /// What else a reader must know of some of them: why they have no prediction or no interval, and
    /// the modes of their samples.
    pub notes: Vec<String>,
    /// What the mark of shared samples means, and what can be done; `None` where nothing has it.
    pub shared: Option<String>,
    /// In place of the table, how far a run came that ended before it had a key figure.
    pub so_far: Option<String>,
    /// The experiments in full, where there are so few that these take the table's place.
    pub experiments: Option<Document>,
    /// How far the run can be trusted, and why; nothing of a run without rounds.
    pub quality: Option<Cell>,
    /// What to look at, worst first: the severity's tone and the sentence.
    pub look_at: Vec<Cell>,
    pub score: Option<String>,
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
    let lacking = lacking(&keys).into_iter().map(|remark| remark.sentence());
    let mut summary = Summary {
        title: title(run),
        shared: shared.and_then(|share| values::of_mark(&figures, share)),
        keys: Table { caption: String::new(), ..lab_table::of_keys(&keys) },
        notes: lacking.chain(keys.iter().filter_map(modes)).collect(),
        so_far,
        experiments: is_whole.then(|| super::experiments(run, &figures)),
        quality: quality(run).map(|quality| quality_cell(&quality)),
        look_at: look_at.iter().map(cell).collect(),
        score: score_line(&figures),
    };
    plain::summary(&mut summary);
    summary
}

/// Why key figures have no prediction, or no interval: each reason once, with their titles.
pub(super) fn lacking(keys: &[KeyFigure]) -> Vec<Remark> {
    let reason = |figure| match remarks::no_prediction(figure) {
        None => remarks::no_interval(figure).map(str::to_owned),
        reason => reason,
    };
    let reasons = keys.iter().filter_map(|key| Some((reason(key.figure)?, key.title)));
    let remark = |(reason, titles): (String, Vec<&str>)| {
        Remark::new(Severity::Note, titles.join(", "), reason)
    };
    gathered(reasons).into_iter().map(remark).collect()
}

/// `4 KiB written and synced: two modes: 64 % of the samples around 76.5 µs, …`.
fn modes(key: &KeyFigure) -> Option<String> {
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
    format!("{} · {}", options(run), machine::in_a_line(run))
}

/// `plumb standard · 6 min 4 s`.
pub(super) fn options(run: &Run) -> String {
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
    format!("plumb {}{elapsed}", run.header.options.preset)
}

/// `92 % of 1710 figures fell into their predicted ranges, 45 had none`; `None` where nothing was
/// predicted before the run.
pub(super) fn score_line(figures: &[Figure]) -> Option<String> {
    let all = score(figures, PredictionKind::Prior).all;
    let inside = two_digits(all.share(all.inside)?);
    let none = match all.unpredicted {
        0 => String::new(),
        some => format!(", {some} had none"),
    };
    let count = counted(all.figures, "figure");
    Some(format!("{inside} of {count} fell into their predicted ranges{none}"))
}

/// Parts of a run's quality that its line has room for.
const QUALITY_PARTS: usize = 3;

/// Shares below this are printed as 0 %.
const LEAST_SHARE: f64 = 0.0005;

/// `fair: CPUs moved 27 %, disturbed rounds 14 %, core shared 4.2 %`: in one line of 71 letters, what
/// is worst first.
pub(super) fn quality_cell(quality: &Quality) -> Cell {
    // The first three are what a reader looks for; others where there is something of them.
    let mut shown: Vec<(Grade, String)> = quality
        .aspects
        .iter()
        .enumerate()
        .filter(|(at, (_, share, grade))| match grade {
            Grade::Good => *at < QUALITY_PARTS && *share >= LEAST_SHARE,
            _ => true,
        })
        .map(|(_, (aspect, share, grade))| {
            (*grade, format!("{} {}", word(*aspect), two_digits(*share)))
        })
        .collect();
    let end = match quality.end {
        Some(End::Complete) => None,
        Some(End::Budget) => Some((Grade::Fair, "budget ran out")),
        Some(End::Interrupted) => Some((Grade::Poor, "interrupted")),
        None => Some((Grade::Poor, "incomplete")),
    };
    shown.extend(end.map(|(grade, word)| (grade, word.to_owned())));
    shown.order_by_key(|(grade, _)| std::cmp::Reverse(*grade));
    shown.truncate(QUALITY_PARTS);
    let mut parts: Vec<String> = shown.into_iter().map(|(_, part)| part).collect();
    if parts.is_empty() {
        parts.push("nothing took the core".to_owned());
    }
    let tone = match quality.grade {
        Grade::Good => Tone::Good,
        Grade::Fair => Tone::Warn,
        Grade::Poor => Tone::Bad,
    };
    Cell::toned(format!("{}: {}", quality.grade.text(), parts.join(", ")), tone)
}

pub(super) fn word(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Shared => "core shared",
        Aspect::Steal => "steal",
        Aspect::Disturbed => "disturbed rounds",
        Aspect::Throttled => "throttled",
        Aspect::RunDelay => "other programs",
        Aspect::Moved => "CPUs moved",
    }
}

fn two(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = 1 - value.abs().log10().floor() as i32;
    let step = 10_f64.powi(-places);
    let places = usize::try_from(places).unwrap_or(0);
    format!("{:.places$}", (value / step).round() * step)
}

fn two_digits(share: f64) -> String {
    match share * 100.0 {
        ..0.05 => "0 %".to_owned(),
        percent => format!("{} %", two(percent)),
    }
}

#[cfg(test)]
mod tests {
    use super::quality_cell;
    use analysis::quality::{Aspect, Grade, Quality};
    use analysis::sample;
    use record::event::{End, Segment};

    /// Letters of a line of 80 behind its label.
    const LINE: usize = 71;

    #[test]
    fn quality_is_one_line_with_the_worst_first() {
        use Aspect::{Disturbed, Moved, RunDelay, Shared, Steal, Throttled};
        let cell = |grade, end, aspects: &[(Aspect, f64, Grade)]| {
            let text = quality_cell(&Quality { grade, end, aspects: aspects.to_vec() }).text;
            text.split([':', ',']).map(|part| part.trim().to_owned()).collect::<Vec<_>>()
        };
        let quiet = [(Shared, 0.0, Grade::Good), (Steal, 0.0002, Grade::Good)];
        let found = cell(Grade::Good, Some(End::Complete), &quiet);
        assert_eq!((found.len(), found[0].as_str()), (2, "good"));
        let aspects = [
            (Shared, 0.0419, Grade::Good),
            (Steal, 0.00623, Grade::Fair),
            (Disturbed, 0.1401, Grade::Good),
            (Throttled, 0.0123, Grade::Fair),
            (RunDelay, 0.0234, Grade::Fair),
            (Moved, 0.273, Grade::Poor),
        ];
        let found = cell(Grade::Poor, Some(End::Budget), &aspects);
        assert_eq!(found, ["poor", "CPUs moved 27 %", "steal 0.62 %", "throttled 1.2 %"]);
        let long = [
            (Shared, 0.00634, Grade::Fair),
            (Disturbed, 0.00851, Grade::Fair),
            (RunDelay, 0.0234, Grade::Fair),
        ];
        let found = cell(Grade::Fair, None, &long);
        let shares = ["core shared 0.63 %", "disturbed rounds 0.85 %"];
        assert_eq!(found[..2], ["fair", "incomplete"]);
        assert_eq!(found[2..], shares);
        let found = cell(Grade::Fair, Some(End::Complete), &long).join(", ");
        assert_eq!(found.chars().count(), LINE, "{found}");
    }

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
