//! Findings of a crosscheck.

use super::{Finding, LISTED, Severity};
use crate::crosscheck::{Bout, Compared, Verdict, rivals, rows};
use crate::names::around;
use record::crosscheck::Goal;
use record::event::Ending;
use record::run::Run;

/// Every goal that was missed, and comparisons that failed or were cut off.
pub(super) fn findings(run: &Run) -> Vec<Finding> {
    let rows = rows(run);
    let missed = rows.iter().filter(|row| row.verdict == Verdict::Missed);
    let mut all: Vec<Finding> = missed
        .map(|row| Finding::new(Severity::Warning, "rival", miss(row)).about(&row.row.experiment))
        .collect();
    let rivals = rivals(run);
    let is_unfinished = |bout: &&Bout| {
        let outcome = bout.end.map(|end| end.outcome);
        !matches!(outcome, Some(Ending::Measured | Ending::Skipped))
    };
    let unfinished: Vec<String> = rivals
        .iter()
        .flat_map(|beside| &beside.bouts)
        .filter(is_unfinished)
        .map(|bout| format!("{} {}", bout.pairing.rival, bout.pairing.name))
        .collect();
    if !unfinished.is_empty() {
        let (named, more) = unfinished.split_at(unfinished.len().min(LISTED));
        let mut list = named.join(", ");
        if !more.is_empty() {
            list.push_str(&format!(" and {} more", more.len()));
        }
        let text = format!("comparisons with other tools failed or were cut off: {list}");
        all.push(Finding::new(Severity::Warning, "rival_unfinished", text));
    }
    all
}

fn miss(row: &Compared<'_>) -> String {
    let should = match row.row.goal {
        Goal::AtLeast => "at least 1.00 times",
        Goal::AtLeastNearly => "at least 0.95 times",
        Goal::AtMost => "at most 1.00 times",
        Goal::Agree => "within 5 % of",
        Goal::Explained => "as far as explained from",
    };
    let ratio = row.ratio.unwrap_or(f64::NAN);
    let interval =
        row.interval.map_or_else(String::new, |(low, high)| format!(" [{low:.3}, {high:.3}]"));
    let known = row.row.difference.trim().trim_end_matches('.');
    let known = around("; known: ", known, "");
    format!(
        "compared with {}, its {} ({}) is {ratio:.3}{interval} times the tool's, and should be \
         {should} it{known}",
        row.label(),
        row.row.metric.replace('_', " "),
        row.row.statistic,
    )
}

#[cfg(test)]
mod tests {
    use crate::crosscheck::sample::{added, run_of_plumb};
    use crate::findings::{Severity, findings};
    use crate::{figures, sample};

    #[test]
    fn a_missed_goal_is_a_finding_and_what_did_not_end_another() {
        for run in [run_of_plumb(), added()] {
            let found = findings(&run, &figures(&run));
            let beside: Vec<_> =
                found.iter().filter(|finding| finding.cause.starts_with("rival")).collect();
            let [missed, unfinished] = beside.as_slice() else { panic!("{beside:#?}") };
            assert_eq!(missed.about, "os.syscall");
            assert_eq!(missed.severity, Severity::Warning);
            for part in [
                "compared with perf sched-pipe",
                "1.300 [1.287, 1.313]",
                "at most 1.00",
                "perf counts interrupts",
            ] {
                assert!(missed.text.contains(part), "{part}: {}", missed.text);
            }
            let names = "stress-ng vfork, sysbench pthread";
            assert!(unfinished.text.ends_with(names), "{}", unfinished.text);
        }
        let run = sample::run();
        let found = findings(&run, &figures(&run));
        assert!(found.iter().all(|finding| !finding.cause.starts_with("rival")));
    }

    #[test]
    fn a_crosschecks_own_record_lacks_no_plan() {
        let run = run_of_plumb();
        let found = findings(&run, &figures(&run));
        assert_eq!(found.len(), 2, "{found:#?}");
    }
}
