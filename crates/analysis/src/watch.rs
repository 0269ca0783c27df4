//! Changes of a watched machine against its own history: shifts of level that two searches in a row
//! have found.
//!
//! A search after each rotation looks at the same runs again and again, so that a false shift will
//! turn up at some time. One search alone therefore reports nothing: the next one, which has one
//! more run of each figure, must find the same shift (same direction, and places that overlap).

use crate::trend::{Changed, Trend, Trends};
use record::key::Key;
use record::metric::Better;
use record::unit::Unit;
use serde::{Deserialize, Serialize};

/// A shift of a figure's level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The figure.
    #[serde(flatten)]
    pub key: Key,
    /// Unit of the levels.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Level before, in the unit.
    pub before: f64,
    /// Level after, in the unit.
    pub after: f64,
    /// Start of the first run at the new level, RFC 3339 in UTC.
    pub since: String,
    /// Starts of the first and the last run at which the new level may begin.
    pub place: (String, String),
    /// Entries of the environment that changed at that run and at no other: name, before, after.
    pub environment: Vec<(String, String, String)>,
    /// Whether the last search still found it.
    pub holds: bool,
}

/// What a change means for the user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The figure is worse.
    Worse,
    /// The figure is better.
    Better,
    /// The figure has no better direction.
    Neither,
}

impl Change {
    /// New level over old; `None` where one is not positive.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.after / self.before;
        (self.before > 0.0 && ratio > 0.0 && ratio.is_finite()).then_some(ratio)
    }

    /// What it means.
    pub fn effect(&self) -> Effect {
        match (self.better, self.after > self.before) {
            (Better::None, _) => Effect::Neither,
            (Better::Lower, true) | (Better::Higher, false) => Effect::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Effect::Better,
        }
    }

    /// Whether another search found the same.
    fn is_same(&self, other: &Change) -> bool {
        let rises = |change: &Change| change.after > change.before;
        // Times of one form sort as their text.
        let overlap = self.place.0 <= other.place.1 && other.place.0 <= self.place.1;
        self.key == other.key && rises(self) == rises(other) && overlap
    }
}

/// What the searches of a watch found so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Found by the last search alone.
    pub candidates: Vec<Change>,
    /// Found by two searches in a row, and reported.
    pub changes: Vec<Change>,
}

impl Seen {
    /// Takes what a new search found, and gives the changes that are to be reported now. Reported
    /// ones are kept as long as the runs reach back to them.
    pub fn search(&mut self, trends: &Trends) -> Vec<Change> {
        let found: Vec<Change> = trends
            .trends
            .iter()
            .flat_map(|trend| trend.shifts.iter().map(|shift| change(trends, trend, shift)))
            .collect();
        let oldest = trends.runs.iter().map(|run| run.started.as_str()).min().unwrap_or_default();
        self.changes.retain(|change| change.place.1.as_str() >= oldest);
        for change in &mut self.changes {
            match found.iter().find(|other| change.is_same(other)) {
                Some(other) => *change = other.clone(),
                None => change.holds = false,
            }
        }
        let is_known = |change: &Change, known: &[Change]| known.iter().any(|k| k.is_same(change));
        let unknown = found.into_iter().filter(|change| !is_known(change, &self.changes));
        let (confirmed, new): (Vec<Change>, Vec<Change>) =
            unknown.partition(|change| is_known(change, &self.candidates));
        self.candidates = new;
        self.changes.extend_from_slice(&confirmed);
        confirmed
    }
}

fn change(trends: &Trends, trend: &Trend, changed: &Changed) -> Change {
    let started = |index: usize| {
        let point = trend.over.points.get(index);
        point.map_or_else(String::new, |point| trends.runs[point.run].started.clone())
    };
    let shift = &changed.shift;
    Change {
        key: trend.over.key.clone(),
        unit: trend.over.unit,
        better: trend.over.better,
        before: shift.before,
        after: shift.after,
        since: started(shift.at),
        place: (started(shift.place.0), started(shift.place.1)),
        environment: changed.environment.clone(),
        holds: true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Seen};
    use crate::trend::{Chance, Over, RunPoint, TrendRun, Trends, trends_by};
    use record::key::{CaseId, Key};
    use record::metric::{Better, Kind};
    use record::unit::Unit;
    use stats::draw::Draw;

    /// Runs that are searched.
    const WINDOW: usize = 40;

    /// The runs of a watch, of which the last [`WINDOW`] are searched.
    struct Watched {
        values: Vec<Vec<f64>>,
        chance: Chance,
    }

    impl Watched {
        fn of(figures: usize) -> Watched {
            Watched { values: vec![Vec::new(); figures], chance: Chance::default() }
        }

        /// One more run of each figure, and a search.
        fn rotate(&mut self, value: impl Fn(usize) -> f64, draw: &mut Draw) -> Trends {
            for (figure, values) in self.values.iter_mut().enumerate() {
                values.push(value(figure) * f64::exp(0.02 * draw.normal()));
            }
            let count = self.values[0].len();
            let first = count.saturating_sub(WINDOW);
            let run = |index: usize| TrendRun {
                name: format!("{index:05}"),
                started: format!("2026-01-01T00:00:00Z-{index:05}"),
                environment: [("kernel".to_owned(), (index >= 20).to_string())].into(),
            };
            let over = |(figure, values): (usize, &Vec<f64>)| Over {
                key: Key::new("os.x", &CaseId::new().with("call", figure as u64), "latency"),
                unit: Unit::Ns,
                better: Better::Lower,
                kind: Kind::Hardware,
                points: (first..count)
                    .map(|run| RunPoint { run: run - first, value: values[run], ci: None })
                    .collect(),
            };
            let figures = self.values.iter().enumerate().map(over).collect();
            trends_by((first..count).map(run).collect(), figures, &mut self.chance)
        }
    }

    #[test]
    fn a_change_is_reported_once_and_forgotten_when_its_runs_are() {
        let mut draw = Draw::new(3);
        let (mut watched, mut seen) = (Watched::of(20), Seen::default());
        let mut reported = Vec::new();
        for run in 0..75 {
            let slower = |figure| if figure == 7 && run >= 20 { 100.0 } else { 80.0 };
            let found = watched.rotate(slower, &mut draw);
            reported.extend(seen.search(&found).into_iter().map(|change| (run, change)));
        }
        let [(run, change)] = reported.as_slice() else { panic!("{reported:?}") };
        assert!((22..30).contains(run), "{run}");
        assert_eq!(change.key.case.int("call"), Some(7));
        assert_eq!(change.effect(), Effect::Worse);
        assert!((change.ratio().unwrap_or(0.0) / 1.25 - 1.0).abs() < 0.05, "{change:?}");
        let kernel = ["kernel", "false", "true"].map(str::to_owned);
        assert_eq!(change.environment, [kernel.into()]);
        assert!(seen.changes.is_empty(), "{:?}", seen.changes);
    }

    #[test]
    fn what_one_search_alone_finds_is_not_reported() {
        let mut draw = Draw::new(4);
        let (mut watched, mut seen) = (Watched::of(1), Seen::default());
        for _ in 0..20 {
            let found = watched.rotate(|_| 80.0, &mut draw);
            assert_eq!(seen.search(&found), []);
        }
        let mut found = watched.rotate(|_| 80.0, &mut draw);
        found.trends[0].shifts = trends_with_a_shift();
        assert_eq!(seen.search(&found), []);
        assert_eq!(seen.candidates.len(), 1);
        found.trends[0].shifts.clear();
        assert_eq!(seen.search(&found), []);
        assert_eq!(seen, Seen::default());
    }

    fn trends_with_a_shift() -> Vec<crate::trend::Changed> {
        let mut draw = Draw::new(5);
        let mut watched = Watched::of(1);
        for run in 0..19 {
            watched.rotate(|_| if run < 10 { 80.0 } else { 120.0 }, &mut draw);
        }
        watched.rotate(|_| 120.0, &mut draw).trends.remove(0).shifts
    }

    #[test]
    fn an_unchanged_machine_is_rarely_accused() {
        let mut draw = Draw::new(6);
        let (mut watched, mut reports, mut rotations) = (Watched::of(30), 0, 0);
        for _ in 0..5 {
            watched.values = vec![Vec::new(); 30];
            let mut seen = Seen::default();
            for _ in 0..80 {
                reports += seen.search(&watched.rotate(|_| 80.0, &mut draw)).len();
                rotations += 1;
            }
        }
        println!("{reports} false reports in {rotations} rotations of 30 figures");
        assert!(reports <= 12, "{reports}");
    }
}
