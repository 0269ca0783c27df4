//! How long a run takes, and how far it has come.

use crate::cmd::output;
use record::event::{Round, RoundStatus};
use record::run::Run;
use report::counted;
use session::Progress;
use session::plan::stated_eta;
use session::setup::Setup;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// The least part of the stated time that a fast machine took: what rounds cost is stated for a
/// slow one.
const FASTEST: f64 = 0.7;

/// Part of the expected time by which a run may pass it without a reason.
const LONGER: f64 = 0.15;

/// Less than this is not worth a word.
const LEAST: Duration = Duration::from_secs(2);

/// Time that a planned run takes from here on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    low: Duration,
    high: Duration,
}

impl Expected {
    pub(super) fn new(setup: &Setup, resumed: Option<&Run>) -> Expected {
        let (work, looks) = (&setup.planned.work, &setup.planned.plan.looks);
        let whole = stated_eta(work, looks, Duration::MAX);
        let high = Duration::from_secs_f64(setup.planned.plan.eta_s);
        Expected::without(whole.mul_f64(FASTEST).min(high), high, resumed)
    }

    /// What is left of these after the time that a resumed run took.
    fn without(low: Duration, high: Duration, resumed: Option<&Run>) -> Expected {
        let spent = resumed.map_or(Duration::ZERO, session::spent);
        Expected { low: low.saturating_sub(spent), high: high.saturating_sub(spent) }
    }

    /// Why the last segment of a run took clearly longer; `None` where it did not.
    pub(super) fn why_longer(self, run: &Run) -> Option<String> {
        let took = Duration::from_secs_f64(run.footer.as_ref()?.elapsed_s);
        if took <= self.high.mul_f64(1.0 + LONGER) + LEAST {
            return None;
        }
        let last = u32::try_from(run.segments.len()).unwrap_or(0);
        let rounds: Vec<&Round> = run.rounds.iter().filter(|round| round.segment == last).collect();
        let waited: f64 = rounds.iter().filter_map(|round| round.waited_s).sum();
        let is_void = |round: &&&Round| round.status != RoundStatus::Ok;
        let failed = rounds.iter().filter(is_void).count();
        let beside = rounds.iter().filter(|round| !round.others.is_empty()).count();
        let parts = [
            (waited >= 1.0).then(|| {
                let waited = duration(Duration::from_secs_f64(waited));
                format!("{waited} of waiting for a core that others used")
            }),
            (failed > 0).then(|| format!("{} failed", counted(failed, "round"))),
            (beside > 0).then(|| format!("{} beside another plumb", counted(beside, "round"))),
        ];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        // Waiting that is less than half of it is not the reason alone.
        let is_explained = waited >= 0.5 * (took - self.high).as_secs_f64();
        if !is_explained && failed + beside == 0 {
            parts.push("rounds take longer here than plumb states for them".to_owned());
        }
        Some(format!("the run took {} instead of {self}: {}", duration(took), parts.join(", ")))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = [self.low, self.high].map(duration);
        match low == high {
            true => out.write_str(&high),
            false => write!(out, "{low} to {high}"),
        }
    }
}

/// Shows progress: a bar on a terminal, elsewhere a line for each phase.
pub(super) struct Display {
    bar: Bar,
    /// Whether lines are printed, and the phase of the last one.
    lines: Option<Option<Option<usize>>>,
}

impl Display {
    pub(super) fn new(is_quiet: bool) -> Display {
        let bar = Bar::new(!is_quiet);
        let has_lines = !is_quiet && !bar.is_shown;
        Display { bar, lines: has_lines.then_some(None) }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if let Some(shown) = &mut self.lines {
            if *shown != Some(progress.stage) {
                output::diagnose(&format!("plumb: {}", phase(progress)));
            }
            *shown = Some(progress.stage);
        }
        let whole = (progress.elapsed + progress.left).as_secs_f64();
        let message = format!(
            "{} ({}), round {} of {}, {} left",
            progress.series,
            progress.cases,
            progress.round,
            progress.look,
            duration(progress.left)
        );
        self.bar.draw(progress.elapsed.as_secs_f64() / whole.max(1.0), &message);
    }

    pub(super) fn end(&self) {
        self.bar.clear();
    }
}

/// `first rounds, stage 2: 40s left`.
fn phase(progress: &Progress) -> String {
    let what = match progress.stage {
        Some(stage) => format!("first rounds, stage {}", stage + 1),
        None => "further rounds, the widest intervals first".to_owned(),
    };
    format!("{what}: {} left", duration(progress.left))
}

/// A bar with a message in the last line of a terminal; nothing where standard error is none. It is
/// drawn between rounds and never by a timer: no thread wakes while a round is timed.
pub(in crate::cmd) struct Bar {
    is_shown: bool,
}

impl Bar {
    pub(in crate::cmd) fn new(is_wanted: bool) -> Bar {
        Bar { is_shown: is_wanted && io::stderr().is_terminal() }
    }

    /// Draws it with a part from 0 to 1 that is done.
    pub(in crate::cmd) fn draw(&self, done: f64, message: &str) {
        let width = terminal_size::terminal_size_of(io::stderr());
        let width = width.map_or(80, |(width, _)| usize::from(width.0));
        self.write(&bar_line(done, message, width));
    }

    pub(in crate::cmd) fn clear(&self) {
        self.write("");
    }

    /// Replaces the line. One that cannot be written is not missed.
    fn write(&self, line: &str) {
        if self.is_shown {
            let mut out = io::stderr().lock();
            let _ = write!(out, "\r\u{1b}[K{line}").and_then(|()| out.flush());
        }
    }
}

/// `██████░░░░  60 % message`, cut where the terminal ends.
fn bar_line(done: f64, message: &str, width: usize) -> String {
    const LENGTH: usize = 24;
    let done = done.clamp(0.0, 1.0);
    let filled = (done * LENGTH as f64) as usize;
    let bar = "█".repeat(filled) + &"░".repeat(LENGTH - filled);
    let line = format!("{bar} {:>3.0} % {message}", 100.0 * done);
    line.chars().take(width.saturating_sub(1)).collect()
}

/// A time in whole seconds, rounded up.
pub fn duration(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64)).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Expected, Progress, RoundStatus, bar_line, phase};
    use analysis::sample;
    use std::time::Duration;

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_resumed_run_takes_only_the_time_that_is_left() {
        let mut run = sample::run();
        run.rounds.last_mut().expect("has rounds").at_s = 250.0;
        let left = |resumed| Expected::without(SECONDS(200), SECONDS(360), resumed).to_string();
        assert_eq!(left(None), "3m 20s to 6m");
        assert_eq!(left(Some(&run)), "0s to 1m 50s");
        assert_eq!(Expected::without(SECONDS(9), SECONDS(9), None).to_string(), "9s");
    }

    #[test]
    fn a_run_that_takes_longer_says_why() {
        let mut run = sample::run();
        run.footer.as_mut().expect("has one").elapsed_s = 362.0;
        let why = |run: &_, high| Expected { low: SECONDS(1), high: SECONDS(high) }.why_longer(run);
        assert_eq!(why(&run, 320), None);
        for round in &mut run.rounds {
            round.waited_s = Some(2.0);
        }
        let told = why(&run, 300).expect("it is longer");
        let begin = "the run took 6m 2s instead of 1s to 5m: 40s of waiting for a core that others \
                     used, 1 round";
        assert!(told.starts_with(begin), "{told}");
        // A wait of a second is no reason for a minute.
        run.rounds.iter_mut().for_each(|round| {
            (round.waited_s, round.status) = (Some(0.06), RoundStatus::Ok);
        });
        let told = why(&run, 300).expect("it is longer");
        assert!(told.ends_with("states for them"), "{told}");
    }

    #[test]
    fn a_bar_fits_into_its_line() {
        let half = format!("{}{}  50 % a", "█".repeat(12), "░".repeat(12));
        assert_eq!(bar_line(0.5, "a", 80), half);
        assert_eq!(bar_line(7.0, "a message", 33), format!("{} 100 % a", "█".repeat(24)));
    }

    #[test]
    fn a_phase_is_one_line() {
        let progress = |stage| Progress {
            stage,
            series: String::new(),
            cases: String::new(),
            round: 1,
            look: 6,
            left: SECONDS(40),
            elapsed: SECONDS(1),
        };
        for (stage, is_staged) in [(Some(1), true), (None, false)] {
            let text = phase(&progress(stage));
            assert!(text.contains("stage 2") == is_staged && text.ends_with("40s left"), "{text}");
        }
    }
}
