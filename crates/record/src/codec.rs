//! Reading and writing records.

use crate::event::{Event, Header};
use crate::lines::Lines;
use crate::run::Run;
use crate::samples::Trace;
use crate::seal::{self, Damaged, Seal, Sealer};
use crate::sequence::{Sequence, damaged};
use crate::{FIRST_FORMAT, FORMAT};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::{self, BufRead, Write};
use thiserror::Error;

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The reader itself failed.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// The first line is no header.
    #[error("it is not a plumb record: its first line is not a header event")]
    NotARecord,
    #[error("it is empty: the run ended before its header was written")]
    Empty,
    /// Written by a later plumb.
    #[error("its format is {found}, this plumb reads formats up to {FORMAT}: use a newer plumb")]
    Newer { found: u64 },
    /// Written before the first release.
    #[error(
        "its format is {found}, of a development version of plumb; this plumb reads format {FIRST_FORMAT} and \
         later ones: measure again"
    )]
    Unreleased { found: u64 },
    /// A line without which the others are of no use.
    #[error("line {line} is damaged ({reason})")]
    Corrupt {
        /// Line number, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
}

/// A record that was read. What its run lost to damaged lines is in [`Run::damaged`].
#[derive(Debug)]
pub struct Recording {
    /// The run, up to the last whole line.
    pub run: Run,
    /// Length of the whole lines, in bytes: where a resume continues.
    pub whole_bytes: u64,
    /// Whether a torn last line was left out.
    pub torn: bool,
    /// What seals the lines that are appended.
    pub sealer: Sealer,
}

/// Longest line: the longest trace takes half of it. What is no record may have no line's end at all.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A record with more damaged lines is refused: no accident of a few digits.
const DAMAGED_MAX: usize = 1000;

/// Reads a record. A torn last line (a killed writer's) is left out and reported; so is each line
/// that does not match its checksum, does not parse, is there twice or of another record, and reading
/// goes on behind it. Errors: see [`ReadError`].
pub fn read(reader: impl BufRead) -> Result<Recording, ReadError> {
    read_changed(reader, &mut |line| Cow::Borrowed(line))
}

/// What becomes of each line of a record before it is used.
pub type Change<'change> = dyn for<'line> FnMut(&'line [u8]) -> Cow<'line, [u8]> + 'change;

/// As [`read`], with lines that are changed after their checksums were compared.
pub fn read_changed(reader: impl BufRead, change: &mut Change<'_>) -> Result<Recording, ReadError> {
    let mut begun: Option<(Run, Sequence)> = None;
    let mut lines = Lines::new(reader, LINE_BYTES_MAX);
    let (mut count, mut used) = (0, 0);
    while let Some((place, line)) = lines.whole()? {
        match &mut begun {
            None => begun = Some(begin(line, &change(line))?),
            Some((run, sequence)) => {
                used += usize::from(take(run, sequence, place, line, &change(line))?);
            }
        }
        count = place;
    }
    if count > 1 && used == 0 {
        let reason = "and so are all lines after it: a copy or an editor changed the file";
        return Err(ReadError::Corrupt { line: 2, reason: reason.to_owned() });
    }
    match (begun, lines.torn()) {
        (Some(_), Some((line, text))) if text.len() as u64 == LINE_BYTES_MAX => {
            let reason = format!("it is longer than {LINE_BYTES_MAX} bytes");
            Err(ReadError::Corrupt { line, reason })
        }
        (Some((mut run, mut sequence)), torn) => {
            sequence.end(&mut run);
            let (whole_bytes, torn) = (lines.whole_bytes(), torn.is_some());
            Ok(Recording { run, whole_bytes, torn, sealer: sequence.sealer() })
        }
        (None, Some((_, line))) if !begins_header(line) => Err(ReadError::NotARecord),
        (None, _) => Err(ReadError::Empty),
    }
}

/// The run of a first line. A header that was changed and is still one is used: the figures of the
/// other lines hold.
fn begin(line: &[u8], changed: &[u8]) -> Result<(Run, Sequence), ReadError> {
    let seal = seal::check(line);
    let corrupt = |reason: String| ReadError::Corrupt { line: 1, reason };
    match check_header(line) {
        Err(ReadError::Newer { .. } | ReadError::Unreleased { .. }) if seal == Seal::Broken => {
            return Err(corrupt(CHANGED.to_owned()));
        }
        // What once was a line of a record.
        Err(ReadError::NotARecord) if begins_header(line) || seal != Seal::Absent => {
            return Err(corrupt(NO_HEADER.to_owned()));
        }
        checked => checked?,
    }
    let mut header: Header =
        serde_json::from_slice(changed).map_err(|error| corrupt(error.to_string()))?;
    header.complete();
    let sequence = Sequence::new(header.format, line);
    let mut run = Run::new(header);
    if seal != Seal::Intact {
        run.lose(Damaged::new(1, Some("header"), changed), false);
    }
    Ok((run, sequence))
}

/// Why a line counts as damaged that parses.
const CHANGED: &str = "it does not match its checksum";
/// Why a first line does.
const NO_HEADER: &str = "it is not the header that a record begins with";

/// Takes a later line into a run: whether it is used.
fn take(
    run: &mut Run,
    sequence: &mut Sequence,
    place: usize,
    line: &[u8],
    changed: &[u8],
) -> Result<bool, ReadError> {
    let corrupt = |reason: &str| ReadError::Corrupt { line: place, reason: reason.to_owned() };
    if named(line) == Some("header") && seal::check(line) == Seal::Intact {
        return Err(corrupt("the header of another record follows here"));
    }
    let counts = sequence.counts(run, place, line, changed);
    let event = counts.then(|| event(changed).ok());
    if let Some(Some(Event::Plan(plan))) = &event
        && let Some(excess) = plan.excess()
    {
        return Err(corrupt(&format!("no plumb plans {excess}")));
    }
    if let Some(None) = event {
        let (damaged, may_end_round) = damaged(place, changed);
        run.lose(damaged, may_end_round);
    }
    if run.damaged.len() > DAMAGED_MAX {
        return Err(corrupt("and so are a thousand lines before it"));
    }
    let event = event.flatten();
    let is_used = event.is_some();
    event.into_iter().for_each(|event| run.push(event));
    Ok(is_used)
}

/// Whether a first line is the beginning of a header as [`write`] writes it.
fn begins_header(line: &[u8]) -> bool {
    let start = br#"{"event":"header","#;
    let length = line.len().min(start.len());
    line[..length] == start[..length]
}

/// A trace, each of whose rows has a value for each column. Errors: what the parser says, or a row
/// that is shorter or longer.
fn trace(line: &[u8]) -> serde_json::Result<Trace> {
    let trace: Trace = serde_json::from_slice(line)?;
    let columns = trace.columns.len();
    match trace.rows.iter().position(|row| row.len() != columns) {
        Some(at) => {
            let values = trace.rows[at].len();
            let why = format!("row {at} has {values} values for {columns} columns");
            Err(serde_json::Error::custom(why))
        }
        None => Ok(trace),
    }
}

/// The event on a line. A line is read as what its name says: a tagged enum of serde's would first
/// make a tree of every number. Errors: what the parser says: no such event, or not as it should
/// be.
pub fn event(line: &[u8]) -> serde_json::Result<Event> {
    let name = match named(line) {
        // A second name is an error, as any second member is.
        Some(name) if !names_twice(line) => Cow::Borrowed(name),
        _ => serde_json::from_slice::<Named<'_>>(line)?.event,
    };
    Ok(match &*name {
        "header" => Event::Header(serde_json::from_slice(line)?),
        "plan" => Event::Plan(serde_json::from_slice(line)?),
        "prediction" => Event::Prediction(serde_json::from_slice(line)?),
        "round" => Event::Round(serde_json::from_slice(line)?),
        "samples" => Event::Samples(serde_json::from_slice(line)?),
        "histogram" => Event::Histogram(serde_json::from_slice(line)?),
        "trace" => Event::Trace(trace(line)?),
        "derived" => Event::Derived(serde_json::from_slice(line)?),
        "outcome" => Event::Outcome(serde_json::from_slice(line)?),
        "crosscheck" => Event::Crosscheck(serde_json::from_slice(line)?),
        "rival" => Event::Rival(serde_json::from_slice(line)?),
        "pairing" => Event::Pairing(serde_json::from_slice(line)?),
        "pair" => Event::Pair(serde_json::from_slice(line)?),
        "pairing_end" => Event::PairingEnd(serde_json::from_slice(line)?),
        "segment" => Event::Segment(serde_json::from_slice(line)?),
        "calibration" => Event::Calibration(serde_json::from_slice(line)?),
        "width" => Event::Width(serde_json::from_slice(line)?),
        "footer" => Event::Footer(serde_json::from_slice(line)?),
        _ => {
            return Err(serde_json::Error::custom(format!("unknown event `{name}`")));
        }
    })
}

/// What a line says that it is, wherever that stands in it.
#[derive(Deserialize)]
struct Named<'line> {
    #[serde(borrow)]
    event: Cow<'line, str>,
}

/// The name of an event that stands first in its line, as [`write`] writes it.
pub fn named(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(br#"{"event":""#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_lowercase() && *byte != b'_')?;
    let name = rest[end..].starts_with(b"\"").then_some(&rest[..end])?;
    std::str::from_utf8(name).ok()
}

/// Whether a line has a member `event` again: a second name, or one of an inner object.
fn names_twice(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let behind = text.split("\"event\"").skip(2);
    behind.into_iter().any(|rest| rest.trim_start().starts_with(':'))
}

/// The first line must be a header of a known format; only `event` and `format` are looked at, so
/// that a newer header is refused as newer and not as corrupt.
fn check_header(line: &[u8]) -> Result<(), ReadError> {
    let header: serde_json::Value =
        serde_json::from_slice(line).map_err(|_| ReadError::NotARecord)?;
    if header.get("event").and_then(|event| event.as_str()) != Some("header") {
        return Err(ReadError::NotARecord);
    }
    match header.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(FORMAT) => Err(ReadError::Newer { found }),
        Some(found) if found < u64::from(FIRST_FORMAT) => Err(ReadError::Unreleased { found }),
        Some(_) => Ok(()),
        None => Err(ReadError::NotARecord),
    }
}

/// Appends one event as a line with its checksum and flushes it: what was measured survives the
/// writer. Errors: what the writer reports, or an event that would not come back the same: JSON has no
/// number that is not finite. Nothing is written then, so that the record stays readable, and the
/// sealer counts no line.
pub fn write(writer: &mut impl Write, sealer: &mut Sealer, event: &Event) -> io::Result<()> {
    write_text(writer, sealer, &EventText::new(event)?)
}

/// The text of an event as a record has it, without number and checksum. Who measured writes it, and
/// it stays as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventText(Box<RawValue>);

impl EventText {
    /// Errors: as [`write`], of an event that would not come back the same.
    pub fn new(event: &Event) -> io::Result<EventText> {
        let text = serde_json::value::to_raw_value(event)?;
        // A number that is not finite becomes `null`, which is also how an absent value is written.
        if text.get().contains("null")
            && self::event(text.get().as_bytes()).ok().as_ref() != Some(event)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a number in this event is not finite: {event:?}"),
            ));
        }
        Ok(EventText(text))
    }

    /// The event. Errors: the text is none.
    pub fn event(&self) -> Result<Event, serde_json::Error> {
        event(self.0.get().as_bytes())
    }
}

impl PartialEq for EventText {
    fn eq(&self, other: &EventText) -> bool {
        self.0.get() == other.0.get()
    }
}

/// As [`write`], of the text of an event. Errors: what the writer reports.
pub fn write_text(
    writer: &mut impl Write,
    sealer: &mut Sealer,
    text: &EventText,
) -> io::Result<()> {
    let mut line = text.0.get().as_bytes().to_vec();
    let mut next = *sealer;
    next.seal(&mut line);
    line.push(b'\n');
    writer.write_all(&line)?;
    *sealer = next;
    writer.flush()
}
