//! Sentences that say all, none or a share, each with records for which it must not be printed: of
//! runs that missed, failed, were interrupted or rehearsed, and of published machines.

use super::{PLAIN, planned};
use crate::build::{build, compare, summary};
use crate::markdown;
use crate::terminal::{self, screen};
use analysis::compare::{Measured, compare as compared};
use analysis::history::History;
use analysis::{figures, sample};
use record::event::{End, Ending, Event, PUBLISHED, Raw, RoundStatus};
use record::key::CaseId;
use record::run::Run;

/// What is printed of a run: on the screen, in full, and in Markdown.
fn printed(run: &Run) -> String {
    let document = build(run);
    let screen = screen(&summary::screen(run), &[], PLAIN);
    plain(&[screen, terminal::render(&document, PLAIN), markdown::render(&document)].concat())
}

/// Of the second run beside the first.
fn beside(base: &Run, new: &Run) -> String {
    let runs = [base, new].map(|run| Measured { run, figures: figures(run) });
    let comparison = compared(&runs, &History::default()).expect("two runs");
    let document = compare::build(&comparison, true);
    plain(&[terminal::render(&document, PLAIN), markdown::render(&document)].concat())
}

/// Without the breaks of lines.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One round, as a rehearsal has: no figure has an interval.
fn rehearsed() -> Run {
    sample::kept(|event| match event {
        Event::Samples(samples) => samples.round == 1,
        Event::Round(round) => round.n == 1,
        Event::Derived(derived) => {
            (derived.ci, derived.confidence) = (None, None);
            true
        }
        _ => true,
    })
}

/// Ended by a signal before anything was measured.
fn interrupted() -> Run {
    sample::kept(|event| match event {
        Event::Samples(_) | Event::Round(_) | Event::Derived(_) | Event::Outcome(_) => false,
        Event::Footer(footer) => {
            footer.end = End::Interrupted;
            true
        }
        _ => true,
    })
}

fn void() -> Run {
    sample::kept(|event| match event {
        Event::Samples(_) | Event::Derived(_) => false,
        Event::Round(round) => {
            round.status = RoundStatus::Void("the file is gone".to_owned());
            true
        }
        Event::Outcome(outcome) => {
            outcome.outcome = Ending::Failed;
            true
        }
        _ => true,
    })
}

fn published() -> Run {
    let mut run = sample::run();
    run.header.options.preset = PUBLISHED.to_owned();
    run
}

/// Another machine's figures: half of the time, on another kernel.
fn faster() -> Run {
    let mut run = sample::changed(|event| {
        if let Event::Samples(samples) = event {
            halve(&mut samples.raw);
        }
    });
    run.header.environment.insert("kernel".to_owned(), "7.0".to_owned());
    run
}

fn halve(raw: &mut Raw) {
    let (one, other) = match raw {
        Raw::Event { values } | Raw::Batch { values, .. } => (values, None),
        Raw::Quartets { n, two_n, .. } => (n, Some(two_n)),
    };
    one.iter_mut().chain(other.into_iter().flatten()).for_each(|value| *value /= 2.0);
}

/// With an experiment of which nothing was measured, beside a case of it that was.
fn partly() -> Run {
    let mut run = sample::run();
    let case = CaseId::new().with("call", "lost");
    planned(&mut run, "os.syscall").series[0].cases.push(case.clone());
    let mut outcome = run.outcomes[0].clone();
    (outcome.experiment, outcome.case) = ("os.syscall".to_owned(), Some(case));
    (outcome.outcome, outcome.reason) = (Ending::Failed, Some("no such call".to_owned()));
    run.push(Event::Outcome(outcome));
    run
}

#[test]
fn what_a_report_says_of_all_figures_holds_of_all() {
    let runs = [
        ("measured", sample::run()),
        ("rehearsed", rehearsed()),
        ("interrupted", interrupted()),
        ("void", void()),
        ("published", published()),
        ("partly failed", partly()),
    ];
    let all = runs.map(|(name, run)| (name, printed(&run)));
    // A sentence, and the runs of which it is false.
    for (claim, falsely) in [
        ("Nothing to report.", &["measured", "interrupted", "void", "partly failed"][..]),
        (
            "predicted figures are in their range.",
            &["measured", "rehearsed", "interrupted", "void"],
        ),
        ("No predicted figure was measured.", &["measured", "rehearsed", "partly failed"]),
        ("No prediction could be scored.", &["measured", "rehearsed", "partly failed"]),
        ("Every figure of the run", &["interrupted", "void", "partly failed"]),
        ("The only miss", &["measured", "partly failed"]),
        ("none is a key figure", &["measured", "rehearsed", "partly failed"]),
        ("nothing yet of", &["measured", "rehearsed", "void", "partly failed"]),
        ("the core clock is unknown in every round", &["measured", "rehearsed"]),
        ("None of these tools was compared", &["measured", "partly failed"]),
        ("no comparison with other tools", &["measured", "partly failed"]),
    ] {
        for (name, text) in all.iter().filter(|(name, _)| falsely.contains(name)) {
            assert!(!text.contains(claim), "{name}: {claim}");
        }
    }
    // The reason of a lacking interval is there.
    assert!(all[1].1.contains("1 of 5 rounds"));
    assert!(all[2].1.contains("interrupted"));
}

#[test]
fn what_a_comparison_says_of_all_figures_holds_of_all() {
    let (run, faster, published) = (sample::run(), faster(), published());
    let (interrupted, rehearsed) = (interrupted(), rehearsed());
    let all = [
        ("faster", beside(&run, &faster)),
        ("published", beside(&published, &run)),
        ("two reports", beside(&published, &published)),
        ("interrupted", beside(&run, &interrupted)),
        ("rehearsed", beside(&run, &rehearsed)),
    ];
    for (claim, falsely) in [
        ("nothing that the records have", &["faster", "published", "interrupted", "rehearsed"][..]),
        ("equally quiet", &["two reports", "faster"]),
        ("none of", &["faster", "published", "two reports", "interrupted"]),
        ("could be tested, none changed", &["faster", "published", "interrupted"]),
        ("no figure could be tested", &["faster"]),
        ("no figure was tested", &["faster"]),
    ] {
        for (name, text) in all.iter().filter(|(name, _)| falsely.contains(name)) {
            assert!(!text.contains(claim), "{name}: {claim}");
        }
    }
}
