//! `plumb trend`: figures over the stored runs of a machine.

mod fail_on;

use crate::cmd::fail_on::parse;
use crate::cmd::rendered::{Format, Shown};
use crate::cmd::{Failure, output, stored, usage};
use analysis::trend::{Chance, Over, RunPoint, TrendRun, Trends, trends_by};
use catalogue::find;
use record::key::{Key, Value};
use record::metric::Metric;
use record::order::InOrder;
use record::quantity::parse_integer;
use record::unit::Unit;
use report::{build, counted, html, markdown, terminal, trend};
use session::select::{glob, nearest, parted};
use session::store::Store;
use session::store::summary::{About, Facts, State, Stored};
use std::collections::{BTreeMap, HashMap};

/// Shows figures over the stored runs of one machine, and where their level shifted.
///
/// Runs that were killed are left out until they are resumed: they have few rounds. Name one figure
/// to see its value in each run; shifts are searched from eight runs on.
///
/// A rule of `--fail-on` is met by a figure whose last shift is in its direction and of its size, if
/// the search without the last run finds that shift too.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Figures: a family, an experiment, some of its cases (os.syscall:call=getpid), or a key as
    /// reports print it [default: all]
    #[arg(default_value = "*", hide_default_value = true)]
    key: String,
    /// Only this metric
    metric: Option<String>,
    /// Take the machine (and build profile of plumb) of this run
    #[arg(long, value_name = "RUN", default_value = "last")]
    like: String,
    /// Only the runs of this name and its repeats (`plumb run --name NAME --repeat N`)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Exit with 1 if the level of a figure has shifted as this rule says: slower, faster, changed or
    /// never; `slower:5%` for shifts of at least 5 %; `slower:5%@memory` for these figures alone
    /// (selectors as in `plumb run`); may be repeated
    #[arg(long, value_name = "RULE")]
    fail_on: Vec<String>,
    #[command(flatten)]
    shown: Shown,
}

const EXIT_CODES: &str = "\
Exit codes: 0 no rule of --fail-on is met; 1 one is met, as long as the figure is at its new level; 2 usage \
error, or no figure of a rule; 3 failure; 5 undecided: no figure of a rule has nine runs yet.

  plumb trend --fail-on slower:5%               any figure that got worse by 5 % or more
  plumb trend os --fail-on slower:5% -o /dev/null
                                                for a timer (plumb-watch.timer; docs/guide/watching.md)";

/// A key with its metric's unit, direction and class.
type Found = (Key, About);

struct Point {
    value: f64,
    ci: Option<(f64, f64)>,
    cycles: Option<f64>,
}

/// A figure by the name of the run.
type Points = BTreeMap<String, Point>;

struct Known {
    /// Runs that can be read, oldest first.
    runs: Vec<(String, Facts)>,
    /// Their figures in the order of keys; those that are not asked for have no points.
    figures: Vec<(Found, Points)>,
}

impl Known {
    fn new(stored: Vec<Stored>, wanted: &Wanted) -> Self {
        let mut runs = Vec::new();
        let mut figures: HashMap<Found, Points> = HashMap::new();
        for Stored { name, state, .. } in stored {
            let State::Readable(content) = state else { continue };
            for row in content.figures {
                let is_wanted = wanted.admits(&row.key);
                let points = figures.entry((row.key, row.about)).or_default();
                if is_wanted {
                    let point = Point { value: row.value, ci: row.ci, cycles: row.cycles };
                    points.insert(name.clone(), point);
                }
            }
            runs.push((name, content.facts));
        }
        let mut figures: Vec<(Found, Points)> = figures.into_iter().collect();
        figures.order_by(|one, other| one.0.0.cmp(&other.0.0));
        Known { runs, figures }
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        self.figures.iter().map(|((key, _), _)| key)
    }
}

pub fn run(args: Args) -> Result<(), Failure> {
    let wanted = Wanted::parse(&args.key, args.metric.as_deref()).map_err(Failure::Usage)?;
    let rules = parse(&args.fail_on, &fail_on::WORDS).map_err(Failure::Usage)?;
    let store = Store::here();
    let mut all = stored::list(&store, |_| true)?;
    if let Some(name) = &args.name {
        all.retain(|stored| is_repeat(&stored.name, name));
    }
    let known = Known::new(all, &wanted);
    let like = like(&known, &store, &args.like)?;
    // A crosscheck measured nothing itself.
    let measured = known.runs.iter().filter(|(_, of)| !of.is_crosscheck());
    let (alike, other): (Vec<_>, Vec<_>) = measured.partition(|(_, of)| of.is_alike(like));
    if let Some(why) = other.last().and_then(|(_, of)| of.difference(like)) {
        output::diagnose(&format!(
            "plumb: {} of other machines or profiles left out (the last: {why}); --like RUN shows them",
            counted(other.len(), "run")
        ));
    }
    let alike = alike.into_iter();
    let (runs, killed): (Vec<_>, Vec<_>) = alike.partition(|(_, of)| of.end.is_some());
    if !killed.is_empty() {
        output::diagnose(&format!(
            "plumb: {} of this machine left out: killed before the end; `plumb run --resume RUN` continues one",
            counted(killed.len(), "run")
        ));
    }
    let figures: Vec<Over> = known
        .figures
        .iter()
        .map(|(found, points)| over(found, points, &runs))
        .filter(|over| !over.points.is_empty())
        .collect();
    if figures.is_empty() {
        return Err(Failure::Usage(nothing(&args.key, args.metric.as_deref(), &known)));
    }
    let mut chance = Chance::default();
    let found = trends_by(runs.iter().copied().map(run_of).collect(), figures, &mut chance);
    args.shown.place.write(&rendered(&args, &found, like))?;
    fail_on::judge(&found, &rules, &mut chance)
}

fn is_repeat(run: &str, name: &str) -> bool {
    let number = run.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    run == name || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn rendered(args: &Args, found: &Trends, like: &Facts) -> String {
    let what = match (&args.metric, args.key.as_str()) {
        (None, "*") => "all figures".to_owned(),
        (None, key) => key.to_owned(),
        (Some(metric), key) => format!("{key} {metric}"),
    };
    let machine = format!("machine {} ({} builds)", like.machine.key, like.profile);
    let document = || build::trend::build(found, &what, &machine);
    match args.shown.format {
        Format::Terminal => terminal::render(&document(), args.shown.place.look()),
        Format::Html => html::render(&document(), html::Print::Full),
        Format::Markdown => markdown::render(&document()),
        Format::Csv => trend::csv(found),
        Format::Json => trend::json(found),
    }
}

/// The run whose machine is meant.
fn like<'known>(known: &'known Known, store: &Store, name: &str) -> Result<&'known Facts, Failure> {
    if name == "last" {
        let mut runs = known.runs.iter().map(|(_, facts)| facts);
        let last = runs.rfind(|facts| !facts.is_crosscheck());
        return last.ok_or_else(|| {
            Failure::Usage("no run is stored yet; `plumb run` makes one".to_owned())
        });
    }
    let path = store.find(name).map_err(usage)?;
    let stored = store.name_of(&path);
    let of = known.runs.iter().find(|(name, _)| Some(name) == stored.as_ref());
    of.map(|(_, facts)| facts).ok_or_else(|| {
        Failure::Usage(format!("{name} is not a readable stored run; `plumb runs` lists them"))
    })
}

fn run_of((name, facts): &(String, Facts)) -> TrendRun {
    TrendRun {
        name: name.clone(),
        started: facts.started.clone(),
        environment: facts.environment.clone(),
    }
}

/// The unit in which people read a figure: shares of an experiment that this plumb has are in percent.
fn shown_unit(key: &Key, about: &About) -> Unit {
    let metrics = find(&key.experiment).map_or(&[][..], |experiment| experiment.card().metrics);
    let metric =
        metrics.iter().find(|metric| metric.name == key.metric && metric.unit == about.unit);
    metric.map_or(about.unit, Metric::shown_unit)
}

fn over((key, about): &Found, points: &Points, runs: &[&(String, Facts)]) -> Over {
    let found = || {
        let point = |(run, (name, _)): (usize, &&(String, Facts))| Some((run, points.get(name)?));
        runs.iter().enumerate().filter_map(point)
    };
    let over = Over {
        key: key.clone(),
        unit: shown_unit(key, about),
        better: about.better,
        kind: about.kind,
        points: found()
            .map(|(run, point)| RunPoint { run, value: point.value, ci: point.ci })
            .collect(),
    };
    match found().map(|(_, point)| point.cycles).collect::<Option<Vec<f64>>>() {
        Some(cycles) => over.in_cycles(&cycles),
        None => over,
    }
}

fn nothing(key: &str, metric: Option<&str>, known: &Known) -> String {
    let is_asked_for = Wanted::parse(key, None);
    let is_of_key = |key: &&Key| is_asked_for.as_ref().is_ok_and(|wanted| wanted.admits(key));
    let first = known.keys().find(is_of_key);
    if let (Some(metric), Some(first)) = (metric, first) {
        return format!(
            "no stored run of that machine has a metric `{metric}` of `{key}`; it has `{first}`"
        );
    }
    let pattern = key.split([':', ' ']).next().unwrap_or(key);
    let ids = known.keys().map(|key| key.experiment.as_str());
    let cases: Vec<String> =
        known.keys().filter(|key| key.experiment == pattern).map(Key::to_string).collect();
    match cases.first() {
        Some(first) => format!(
            "no stored run of that machine has a figure `{key}`; {pattern} has {}, for example `{first}`",
            counted(cases.len(), "figure")
        ),
        None => format!(
            "no stored run has a figure `{key}`{} `plumb list` shows the experiments, `plumb report` the keys",
            nearest(pattern, ids)
        ),
    }
}

#[derive(Debug, PartialEq)]
struct Wanted {
    /// The whole key, where it was typed as reports print it.
    text: String,
    pattern: String,
    filter: Vec<(String, Vec<String>)>,
    metric: Option<String>,
}

impl Wanted {
    /// Parses `id:filter metric`, the metric also as a word of its own.
    fn parse(key: &str, metric: Option<&str>) -> Result<Self, String> {
        let text = match metric {
            Some(metric) => format!("{key} {metric}"),
            None => key.to_owned(),
        };
        let (selector, metric) = match text.rsplit_once(' ') {
            Some((selector, metric)) => (selector, Some(metric.to_owned())),
            None => (text.as_str(), None),
        };
        let (pattern, rest) = parted(selector, ':');
        let rest = rest.unwrap_or_default();
        let mut filter: Vec<(String, Vec<String>)> = Vec::new();
        for token in rest.split([',', '|']).filter(|token| !token.is_empty()) {
            match (token.split_once('='), filter.last_mut()) {
                (Some((name, value)), _) => filter.push((name.to_owned(), vec![value.to_owned()])),
                (None, Some((_, values))) => values.push(token.to_owned()),
                (None, None) => {
                    return Err(format!(
                        "the filter `{rest}` does not start with a parameter: type for example {pattern}:PARAM={token}"
                    ));
                }
            }
        }
        Ok(Wanted { pattern: pattern.to_owned(), filter, metric, text })
    }

    fn admits(&self, key: &Key) -> bool {
        if key.to_string() == self.text {
            return true;
        }
        let family = key.experiment.split('.').next();
        let is_named =
            family == Some(self.pattern.as_str()) || glob(&self.pattern, &key.experiment);
        let passes = |(name, wanted): &(String, Vec<String>)| {
            let value = key.case.get(name);
            value.is_some_and(|value| wanted.iter().any(|wanted| admits(wanted, value)))
        };
        is_named
            && self.metric.as_ref().is_none_or(|metric| *metric == key.metric)
            && self.filter.iter().all(passes)
    }
}

/// Whether a value is one that was typed: itself, or within `lo..hi`.
fn admits(wanted: &str, value: &Value) -> bool {
    let Value::Int(number) = value else {
        return value.text() == Some(wanted);
    };
    let end = |text: &str, open: u64| match text.is_empty() {
        true => Some(open),
        false => parse_integer(text).ok(),
    };
    match wanted.split_once("..") {
        Some((low, high)) => {
            let ends = end(low, 0).zip(end(high, u64::MAX));
            ends.is_some_and(|(low, high)| (low..=high).contains(number))
        }
        None => parse_integer(wanted).ok() == Some(*number),
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Wanted, nothing};
    use record::key::{CaseId, Key};
    use record::metric::{Better, Kind};
    use record::unit::Unit;
    use session::store::summary::About;

    fn check(text: &str, metric: Option<&str>, is_wanted: bool) {
        let case = CaseId::new().with("pattern", "random").with("footprint", 65536);
        let key = Key::new("memory.latency", &case, "latency");
        let wanted = Wanted::parse(text, metric).expect("it can be meant");
        assert_eq!(wanted.admits(&key), is_wanted, "{text} {metric:?}");
    }

    #[test]
    fn repeats_of_a_name_have_a_number_behind_it() {
        for (run, expected) in [
            ("tune", true),
            ("tune-2", true),
            ("tune-x", false),
            ("tuned", false),
            ("tune2", false),
        ] {
            assert_eq!(super::is_repeat(run, "tune"), expected, "{run}");
        }
    }

    #[test]
    fn keys_are_named_by_family_id_filter_metric_or_as_a_whole() {
        for text in [
            "*",
            "memory",
            "memory.latency",
            "memory.l*",
            "memory.latency:footprint=64KiB",
            "memory.latency:footprint=1KiB..1MiB,pattern=random|stride",
            "memory.latency latency",
            "memory.latency:pattern=random,footprint=65536 latency",
        ] {
            check(text, None, true);
        }
        check("memory.latency:pattern=random", Some("latency"), true);
        for text in [
            "os",
            "memory.latency:footprint=32KiB",
            "memory.latency:footprint=128KiB..",
            "memory.latency:level=L1",
            "memory.latency bandwidth",
        ] {
            check(text, None, false);
        }
        assert!(Wanted::parse("memory.latency:64KiB", None).is_err());
    }

    #[test]
    fn a_share_is_read_in_percent() {
        let about = About { unit: Unit::Ratio, better: Better::Lower, kind: Kind::Os };
        for (metric, unit) in [("loss", Unit::Percent), ("gone", Unit::Ratio)] {
            let key = Key::new("net.ping", &CaseId::new(), metric);
            assert_eq!(super::shown_unit(&key, &about), unit, "{metric}");
        }
    }

    #[test]
    fn a_metric_that_is_none_is_called_one_and_not_a_figure() {
        let about = About { unit: Unit::Ns, better: Better::Lower, kind: Kind::Hardware };
        let key = Key::new("os.syscall", &CaseId::new().with("call", "getpid"), "latency");
        let figures = vec![((key, about), super::Points::new())];
        let known = Known { runs: Vec::new(), figures };
        for key in ["os.syscall", "os", "os.syscall:call=getpid"] {
            let told = nothing(key, Some("latencyx"), &known);
            assert!(told.contains("has a metric `latencyx`"), "{told}");
            assert!(told.ends_with("`os.syscall:call=getpid latency`"), "{told}");
        }
        assert!(nothing("os.nosuch", None, &known).contains("a figure `os.nosuch`"));
    }
}
