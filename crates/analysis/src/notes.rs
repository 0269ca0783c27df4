//! What a reader of a figure must know, in words.

use super::bound::BoundCheck;
use super::figure::{Figure, Stats};
use super::index::RoundSamples;
use record::event::{MEMORY_PROBE, Raw, Samples, Side};
use record::note::{Note, NoteKind, Notes};
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;
use stats::moments::correlation;

/// Percentiles of events within this many times resolution plus pair cost are the clock's.
const AT_RESOLUTION: f64 = 5.0;

/// Share of voided quartets that is worth a note.
const VOIDED: f64 = 0.01;

/// Loads from main memory beside the samples are held against the figure where so many rounds have
/// them.
const LEAST_PAIRS: usize = 6;

/// Notes that a measured figure's statistics give.
pub fn notes(run: &Run, figure: &Figure, rounds: &[(RoundSamples, f64)], is_event: bool) -> Notes {
    let Some((metric, stats)) = figure.metric.as_ref().zip(figure.stats.as_ref()) else {
        return Notes::default();
    };
    let mut notes = Notes::default();
    notes.extend(disturbed(stats, metric.unit));
    if is_event && metric.unit.is_time() {
        notes.extend(at_resolution(run, stats, metric.unit));
    }
    notes.extend(censored(stats, metric.unit));
    notes.extend(modes(stats, metric.unit).map(|text| Note::with_kind(NoteKind::TwoModes, text)));
    notes.extend(voided(rounds));
    notes.extend(segments(figure));
    notes.extend(beside_memory(figure, rounds));
    if let Some(check) = figure.bound.as_ref().filter(|check| check.warns()) {
        notes.push(Note::with_kind(NoteKind::Suspicious, beyond(check, metric.unit)));
    }
    notes.extend(figure.no_cycles.iter().map(|why| format!("no cycles: {why}")));
    notes
}

/// What the experiment itself noted, each once.
/// What says why a round has no core clock is left out: the figure's own note counts those.
pub fn notes_of_rounds(rounds: &[(RoundSamples, f64)]) -> Notes {
    let mut notes = Notes::default();
    for note in rounds.iter().flat_map(|(round, _)| &round.samples).flat_map(|of| &of.notes) {
        if note.kind != NoteKind::NoClock && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

fn disturbed(stats: &Stats, unit: Unit) -> Option<Note> {
    if stats.disturbed == 0 {
        return None;
    }
    if !stats.used_disturbed {
        // The median of all stands among the statistics.
        let text =
            format!("{} of {} rounds were disturbed and left out", stats.disturbed, stats.rounds);
        return Some(text.into());
    }
    let quiet = match stats.median_undisturbed {
        Some(median) => format!("the undisturbed rounds alone give {}", render(median, unit)),
        None => "none was undisturbed".to_owned(),
    };
    let text = format!(
        "disturbed: {} of {} rounds, too many to leave out; {quiet}",
        stats.disturbed, stats.rounds
    );
    Some(Note::with_kind(NoteKind::Disturbed, text))
}

fn censored(stats: &Stats, unit: Unit) -> Option<String> {
    let upto = render(stats.max, unit);
    (stats.censored > 0).then(|| {
        format!(
            "{} of {} events never ended (lost, timed out or never started) and count as longer \
             than all others: {} is at least {upto}; mean and deviation use the events that ended",
            stats.censored,
            stats.samples,
            stats.at_least.join(", ")
        )
    })
}

fn at_resolution(run: &Run, stats: &Stats, unit: Unit) -> Option<String> {
    let clock = &run.header.calibration;
    let grain_ns = clock.resolution_ns + clock.pair_cost_ns;
    let near: Vec<&str> =
        [("p50", stats.p50), ("p90", stats.p90), ("p99", stats.p99), ("max", stats.max)]
            .into_iter()
            .filter(|(_, value)| *value <= AT_RESOLUTION * grain_ns)
            .map(|(name, _)| name)
            .collect();
    (!near.is_empty()).then(|| {
        format!(
            "at resolution: {} are within 5x of the clock's resolution ({}) and pair cost ({})",
            near.join(", "),
            render(clock.resolution_ns, unit),
            render(clock.pair_cost_ns, unit)
        )
    })
}

fn modes(stats: &Stats, unit: Unit) -> Option<String> {
    let [low, high] = stats.modes.as_slice() else {
        return None;
    };
    Some(format!(
        "two modes: {:.0} % of the samples around {}, {:.0} % around {}",
        low.share * 100.0,
        render(low.centre, unit),
        high.share * 100.0,
        render(high.centre, unit)
    ))
}

fn voided(rounds: &[(RoundSamples, f64)]) -> Option<String> {
    let (mut voids, mut kept) = (0_u64, 0_u64);
    for samples in rounds.iter().flat_map(|(round, _)| &round.samples) {
        if let Raw::Quartets { n, voids: void, .. } = &samples.raw {
            voids += u64::from(*void);
            kept += n.len() as u64;
        }
    }
    let share = voids as f64 / (voids + kept).max(1) as f64;
    (share > VOIDED).then(|| {
        format!(
            "{voids} of {} quartets ({:.0} %) are left out: they failed their own check",
            voids + kept,
            share * 100.0
        )
    })
}

/// How far the printed values of the rounds follow what loads from main memory beside them took.
fn beside_memory(figure: &Figure, rounds: &[(RoundSamples, f64)]) -> Option<String> {
    let pair = |(round, _): &(RoundSamples, f64)| {
        let probed = |samples: &&Samples| samples.quantities.get(MEMORY_PROBE).copied();
        let probe_ns = round.samples.iter().find_map(probed)?;
        let n = round.round.n;
        let point = figure.rounds.iter().find(|point| point.n == n)?;
        Some((point.value, probe_ns))
    };
    let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(pair).collect();
    let follows = correlation(&pairs).filter(|_| pairs.len() >= LEAST_PAIRS)?;
    let least = pairs.iter().map(|pair| pair.1).reduce(f64::min)?;
    let most = pairs.iter().map(|pair| pair.1).reduce(f64::max)?;
    Some(format!(
        "loads from main memory took {} to {} in the same rounds; the figure correlates with them \
         ({follows:.2} over {} rounds)",
        render(least, Unit::Ns),
        render(most, Unit::Ns),
        pairs.len()
    ))
}

fn segments(figure: &Figure) -> Option<String> {
    let mut segments: Vec<u32> = figure.rounds.iter().map(|round| round.segment).collect();
    segments.dedup();
    (segments.len() > 1).then(|| {
        format!("measured in {} segments: the run was resumed between its rounds", segments.len())
    })
}

/// What passing a bound means, with the rule.
pub fn beyond(check: &BoundCheck, unit: Unit) -> String {
    let side = match check.rule.side {
        Side::AtMost => "above the physical limit",
        Side::AtLeast => "below the physical limit",
    };
    let limit = check.value.map_or_else(String::new, |value| format!(" ({})", render(value, unit)));
    let word = match (check.is_impossible(), check.rule.warns_only) {
        (true, _) => "impossible",
        (false, true) => "suspicious (the bound rests on a guess or a nominal rate)",
        (false, false) => "suspicious",
    };
    format!(
        "{word}: {} of {} undisturbed rounds are {side}{limit}: {}, uncertain by {} %",
        check.beyond,
        check.evaluated,
        check.rule.rule,
        digits(check.rule.uncertainty * 100.0)
    )
}
