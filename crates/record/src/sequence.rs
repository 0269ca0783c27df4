//! The lines of a record in their order: which are missing, there twice, or of another record.

use crate::codec::named;
use crate::run::Run;
use crate::seal::{self, Damaged, Seal, Sealer};
use std::collections::{BTreeMap, BTreeSet};

/// So many lines in a row that match no checksum are described one by one; more of them by their
/// number: no accident of a few digits.
const DESCRIBED_MAX: usize = 1000;
const NAMED_MAX: usize = 3;

/// The place in a record that its reader has reached.
pub(crate) struct Sequence {
    format: u32,
    is_numbered: bool,
    /// The header's checksum as it should be and as it stands there: damage changes one of them.
    headers: [u32; 2],
    /// Number of the last line of this record.
    last: u64,
    /// Lines behind it that match no checksum, each with whether it may have ended a round.
    unknown: Vec<(Damaged, bool)>,
    unknown_lines: u64,
    /// Place of the first line behind it with a number from before it, and how many there are.
    again: Option<(usize, u64)>,
    /// Place of the first line before which lines are missing.
    gap: Option<usize>,
}

impl Sequence {
    pub(crate) fn new(format: u32, header: &[u8]) -> Sequence {
        Sequence {
            format,
            is_numbered: format >= crate::NUMBERED_FORMAT,
            headers: seal::sums(header).unwrap_or_default(),
            last: 1,
            unknown: Vec::new(),
            unknown_lines: 0,
            again: None,
            gap: None,
        }
    }

    /// What seals the lines that are appended to the record.
    pub(crate) fn sealer(&self) -> Sealer {
        Sealer::after(self.format, self.headers[0], self.last)
    }

    /// The next line, at a place in the file: whether it counts. What is missing before it is lost.
    /// `shown` is what may be said of it.
    pub(crate) fn counts(
        &mut self,
        run: &mut Run,
        place: usize,
        line: &[u8],
        shown: &[u8],
    ) -> bool {
        let number = match self.is_numbered {
            true => seal::number(line, self.headers),
            false => {
                (seal::check(line) == Seal::Intact).then(|| self.last + self.unknown_lines + 1)
            }
        };
        match number {
            None => {
                self.unknown_lines += 1;
                if self.unknown.len() < DESCRIBED_MAX {
                    self.unknown.push(damaged(place, shown));
                }
                false
            }
            Some(number) if number <= self.last => {
                self.again.get_or_insert((place, 0)).1 += 1;
                false
            }
            Some(number) => {
                self.settle(run, place, number - self.last - 1);
                self.last = number;
                true
            }
        }
    }

    /// Loses what does not count since the last line of this record. So many numbers are missing
    /// behind that one: lines that match no checksum are of another record where none is.
    fn settle(&mut self, run: &mut Run, place: usize, missing: u64) {
        if let Some((line, count)) = self.again.take() {
            let lost = format!("nothing: {} with the numbers of earlier ones", lines(count));
            run.lose(Damaged { line, lost }, false);
        }
        let count = std::mem::take(&mut self.unknown_lines);
        let unknown = std::mem::take(&mut self.unknown);
        if let Some((Damaged { line, .. }, _)) = unknown.first()
            && (missing == 0 || count > unknown.len() as u64)
        {
            let lost = match missing {
                0 => format!("nothing: {} of another record", lines(count)),
                _ => format!("{} that are damaged or of another record", lines(count)),
            };
            run.lose(Damaged { line: *line, lost }, missing > 0);
        } else {
            unknown.into_iter().for_each(|(damaged, may_end)| run.lose(damaged, may_end));
        }
        if missing > count {
            let lost = format!("{} before it", lines(missing - count));
            run.lose(Damaged { line: place, lost }, true);
            self.gap.get_or_insert(place);
        }
    }

    /// At the end of the file: what else is lost, and what all that is missing costs.
    pub(crate) fn end(&mut self, run: &mut Run) {
        self.settle(run, 0, self.unknown_lines);
        let cost = self.gap.map(|line| (line, cost(run)));
        if let Some((line, cost)) = cost.filter(|(_, cost)| !cost.is_empty()) {
            let lost = format!("with the lines that are missing: {}", cost.join("; "));
            run.lose(Damaged { line, lost }, false);
        }
        run.damaged.sort_by_key(|damaged| damaged.line);
    }
}

/// A line that cannot be used, and whether it may have ended a round: without that event the samples
/// of a round do not count.
pub(crate) fn damaged(place: usize, line: &[u8]) -> (Damaged, bool) {
    let kind = named(line);
    let is_within_round = matches!(kind, Some("samples" | "histogram" | "trace"));
    (Damaged::new(place, kind, line), !is_within_round)
}

fn lines(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} line{plural}")
}

/// What missing lines held, as far as the others show it: the plan, rounds by the numbers between
/// others of their series, and cases of a run that has its end by their outcomes.
fn cost(run: &Run) -> Vec<String> {
    let mut cost = Vec::new();
    if run.plan.is_none() && !run.rounds.is_empty() {
        cost.push("the plan, and with it what is known of each figure".to_owned());
    }
    let mut series: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for round in &run.rounds {
        series.entry(&round.series).or_default().insert(round.n);
    }
    let lost = series.iter().flat_map(|(label, rounds)| {
        let last = rounds.last().copied().unwrap_or(0).min(rounds.len() as u32 + NAMED_MAX as u32);
        (1..last).filter(|n| !rounds.contains(n)).map(move |n| format!("round {n} of {label}"))
    });
    let lost: Vec<String> = lost.collect();
    cost.extend(lost.iter().take(NAMED_MAX).cloned());
    if lost.len() > NAMED_MAX {
        cost.push(format!("{} more rounds", lost.len() - NAMED_MAX));
    }
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let cases = planned.flat_map(|planned| {
        let cases = planned.series.iter().flat_map(|series| &series.cases);
        cases.filter(|case| run.outcome(&planned.id, case).is_none())
    });
    let cases = cases.count();
    if cases > 0 && run.footer.is_some() {
        cost.push(format!("how {cases} cases ended"));
    }
    cost
}
