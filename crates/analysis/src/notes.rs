//! What a reader of a figure must know, in words.

use super::bound::BoundCheck;
use super::figure::{Figure, Stats};
use super::index::RoundSamples;
use record::event::{MEMORY_PROBE, Raw, Samples, Side};
use record::note::{Note, NoteKind, Notes, Number};
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
    notes.extend(disturbed(stats, metric.shown_unit()));
    if is_event && metric.unit.is_time() {
        notes.extend(at_resolution(run, stats, metric.unit));
    }
    notes.extend(censored(stats, metric.shown_unit()));
    notes.extend(modes(stats, metric.shown_unit()));
    notes.extend(voided(rounds));
    notes.extend(segments(figure));
    notes.extend(beside_memory(figure, rounds));
    if let Some(check) = figure.bound.as_ref().filter(|check| check.warns()) {
        notes.push(beyond(check, metric.shown_unit()).of_kind(NoteKind::Suspicious));
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

fn quantity(value: f64, unit: Unit) -> Number {
    Number::new(value, render(value, unit))
}

/// To so many places, with its sign of percent.
fn percent(share: f64) -> Number {
    Number::new(share, format!("{:.0} %", share * 100.0))
}

fn disturbed(stats: &Stats, unit: Unit) -> Option<Note> {
    let counts = [Number::count(stats.disturbed), Number::count(stats.rounds)];
    if stats.disturbed == 0 {
        return None;
    }
    if !stats.used_disturbed {
        // The median of all stands among the statistics.
        return Some(Note::formed("{} of {} rounds were disturbed and left out", counts));
    }
    let note = match stats.median_undisturbed {
        Some(median) => Note::formed(
            "disturbed: {} of {} rounds, too many to leave out; the undisturbed rounds alone give {}",
            [counts.as_slice(), &[quantity(median, unit)]].concat(),
        ),
        None => Note::formed(
            "disturbed: {} of {} rounds, too many to leave out; none was undisturbed",
            counts,
        ),
    };
    Some(note.of_kind(NoteKind::Disturbed))
}

fn censored(stats: &Stats, unit: Unit) -> Option<Note> {
    let form = "{} of {} events never ended (lost, timed out or never started) and count as longer \
                than all others: {} is at least {}; mean and deviation use the events that ended";
    let count = |count: u64| Number::new(count as f64, count.to_string());
    let among = Number { value: None, text: stats.at_least.join(", ") };
    let numbers = [count(stats.censored), count(stats.samples), among, quantity(stats.max, unit)];
    (stats.censored > 0).then(|| Note::formed(form, numbers))
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

fn modes(stats: &Stats, unit: Unit) -> Option<Note> {
    let [low, high] = stats.modes.as_slice() else {
        return None;
    };
    let numbers = [low, high].map(|mode| [percent(mode.share), quantity(mode.centre, unit)]);
    let form = "two modes: {} of the samples around {}, {} around {}";
    Some(Note::formed(form, numbers.concat()).of_kind(NoteKind::TwoModes))
}

fn voided(rounds: &[(RoundSamples, f64)]) -> Option<Note> {
    let (mut voids, mut kept) = (0_usize, 0_usize);
    for samples in rounds.iter().flat_map(|(round, _)| &round.samples) {
        if let Raw::Quartets { n, voids: void, .. } = &samples.raw {
            voids += usize::try_from(*void).unwrap_or(0);
            kept += n.len();
        }
    }
    let share = voids as f64 / (voids + kept).max(1) as f64;
    let numbers = [Number::count(voids), Number::count(voids + kept), percent(share)];
    let form = "{} of {} quartets ({}) are left out: they failed their own check";
    (share > VOIDED).then(|| Note::formed(form, numbers))
}

/// How far the printed values of the rounds follow what loads from main memory beside them took.
fn beside_memory(figure: &Figure, rounds: &[(RoundSamples, f64)]) -> Option<Note> {
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
    Some(Note::formed(
        "loads from main memory took {} to {} in the same rounds; the figure correlates with them \
         ({} over {} rounds)",
        [
            quantity(least, Unit::Ns),
            quantity(most, Unit::Ns),
            Number::new(follows, format!("{follows:.2}")),
            Number::count(pairs.len()),
        ],
    ))
}

fn segments(figure: &Figure) -> Option<Note> {
    let mut segments: Vec<u32> = figure.rounds.iter().map(|round| round.segment).collect();
    segments.dedup();
    let form = "measured in {} segments: the run was resumed between its rounds";
    (segments.len() > 1).then(|| Note::formed(form, [Number::count(segments.len())]))
}

/// What passing a bound means, with the rule.
pub fn beyond(check: &BoundCheck, unit: Unit) -> Note {
    let side = match check.rule.side {
        Side::AtMost => "above the physical limit",
        Side::AtLeast => "below the physical limit",
    };
    let limit = check.value.map_or("", |_| " ({})");
    let word = match (check.is_impossible(), check.rule.warns_only) {
        (true, _) => "impossible",
        (false, true) => "suspicious (the bound rests on a guess or a nominal rate)",
        (false, false) => "suspicious",
    };
    let form = format!(
        "{word}: {{}} of {{}} undisturbed rounds are {side}{limit}: {}, uncertain by {} %",
        check.rule.rule,
        digits(check.rule.uncertainty * 100.0)
    );
    let limit = check.value.map(|value| quantity(value, unit));
    let counts = [check.beyond, check.evaluated].map(Number::count).into_iter();
    Note::formed(form, counts.chain(limit).collect::<Vec<Number>>())
}
