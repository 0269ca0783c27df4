//! The contract: what an experiment is. Everything a user sees of one follows from its file.

mod card;
pub mod contract;
mod fields;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod known;
mod network;
pub mod placement;
mod view;

pub use card::{Card, Claim, Domain, Hazards, Need, Param, Role};
pub use fields::{Field, Fields, chosen, count, joined, once_each};
pub use known::{DerivedValue, Known};
pub use network::lacks_loopback;
pub use view::ViewCard;

use crate::fitted::Fitted;
use crate::link::RoundOrder;
use crate::measure::{Bench, FarEnd};
use crate::reason;
use crate::widths::Widths;
use anyhow::Result;
use host::Host;
use record::case::{Case, Series};
use record::event::{Absence, Bound, Prediction, Range};
use record::metric::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A family: a named list of experiments.
pub struct Family {
    /// Name, the first half of its experiments' ids.
    pub name: &'static str,
    pub about: &'static str,
    /// Shown and run only when named: experiments that exist to try the way through.
    pub hidden: bool,
    pub experiments: &'static [&'static dyn AnyExperiment],
}

/// Families, in the order in which a user sees them.
pub type Catalogue = &'static [&'static Family];

pub fn find(catalogue: Catalogue, id: &str) -> Option<&'static dyn AnyExperiment> {
    let mut all = catalogue.iter().flat_map(|family| family.experiments);
    all.find(|experiment| experiment.card().id == id).copied()
}

/// Declares a family: its modules and its list from one line per experiment. Each module is a
/// file that exports `EXPERIMENT`.
#[macro_export]
macro_rules! family {
    ($name:literal, $about:literal, hidden: $hidden:literal, [$($module:ident),* $(,)?]) => {
        $(pub mod $module;)*
        pub static FAMILY: $crate::experiment::Family = $crate::experiment::Family {
            name: $name,
            about: $about,
            hidden: $hidden,
            experiments: &[$(&$module::EXPERIMENT),*],
        };
    };
}

/// Rounds at which looks come: the first gives an interval, each other a tighter one.
const LOOKS: [u32; 6] = [6, 9, 12, 15, 17, 20];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// Seconds, one round of the smallest parameters: proves the way, its figures mean nothing.
    Rehearsal,
    /// A run takes about a minute.
    Quick,
    /// A run takes about six minutes.
    Standard,
    /// About 90 minutes: everything listed.
    Thorough,
}

impl Preset {
    /// Rounds at which looks come (METHOD §3).
    pub fn looks(self) -> &'static [u32] {
        match self {
            Preset::Rehearsal => &[1],
            Preset::Quick => &LOOKS[..2],
            Preset::Standard => &LOOKS[..3],
            Preset::Thorough => &LOOKS,
        }
    }

    /// The look from which on the stop rule is asked: the last of the next smaller preset, so that
    /// a larger one never has fewer rounds. Not at six rounds: one chance more to stop on an
    /// interval that is narrow by luck takes the coverage of those that stop below what METHOD §3
    /// asks for.
    pub fn asked_from(self) -> u32 {
        match self {
            Preset::Rehearsal => 1,
            Preset::Quick | Preset::Standard => 9,
            Preset::Thorough => 12,
        }
    }

    /// Rounds that the cases of the quick preset have before widths decide, so that a larger preset
    /// is the more precise of the same figure, though its rounds lie further apart.
    pub fn ahead_until(self) -> u32 {
        match self {
            Preset::Rehearsal | Preset::Quick => self.asked_from(),
            Preset::Standard => 15,
            Preset::Thorough => 17,
        }
    }

    pub fn larger(self) -> Option<Preset> {
        [Preset::Quick, Preset::Standard, Preset::Thorough].get(self as usize).copied()
    }

    pub fn name(self) -> &'static str {
        ["rehearsal", "quick", "standard", "thorough"][self as usize]
    }
}

/// The parameters of one experiment, defaults and `--set` applied and checked against the card.
#[derive(Clone, Debug)]
pub struct Params {
    pub preset: Preset,
    /// Every parameter's values; `auto` defaults are the one symbol `auto`.
    pub values: BTreeMap<&'static str, Vec<Value>>,
    /// The cases that a selector left, where it left only some; `None` before that is known.
    pub only: Option<BTreeSet<CaseId>>,
    /// Those of the quick preset, where this one is larger.
    pub quick: Option<Box<Params>>,
}

pub const FAR_PARAM: Param = Param {
    name: FAR,
    doc: "the far end: loopback (a second worker on this host), or the name of a --peer host \
          (`peer` if it has no name); default: all",
    domain: Domain::Name(&[LOOPBACK, "peer"]),
    defaults: ["auto", "auto", "auto"],
    role: Role::Case,
};

impl Params {
    /// The values of a parameter of the card; empty only for a name that the card lacks.
    pub fn get(&self, name: &str) -> &[Value] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// The values, unless the experiment is to choose them.
    pub fn chosen(&self, name: &str) -> Option<&[Value]> {
        let values = self.get(name);
        (!values.is_empty() && values != [Value::from("auto")]).then_some(values)
    }

    /// The settings of a card that have a value, which `auto` is not.
    pub fn settings(&self, card: &Card) -> BTreeMap<String, Value> {
        let settings = card.params.iter().filter(|param| param.role == Role::Setting);
        let of = |param: &Param| {
            let value = self.chosen(param.name)?.first()?;
            Some((param.name.to_owned(), value.clone()))
        };
        settings.filter_map(of).collect()
    }

    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.get(name).iter().filter_map(Value::text).collect()
    }

    pub fn ints(&self, name: &str) -> Vec<u64> {
        self.get(name).iter().filter_map(Value::int).collect()
    }
}

/// An experiment whose card has [`FAR`] is offered once for loopback and once for every peer
/// ([`Site::peer`]), and the cases of one series share its value ([`Site::far`]).
pub use record::key::{FAR, LOOPBACK};
/// What [`crate::case!`] and [`crate::symbols!`] name.
pub use record::{key::CaseId, key::Value, unit::Unit};

/// A far end on another host, as its agent described it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name in cases: `peer`, or what the user called it.
    pub name: String,
    /// The address by which its data connections are reached.
    pub address: IpAddr,
    pub host: Host,
    /// CPUs of its ends of rounds, the preferred one first.
    pub cpus: Vec<usize>,
    /// Its interface on the way back, by its own routes.
    pub interface: Option<String>,
}

/// What an experiment may know of where it would run.
#[derive(Clone, Debug)]
pub struct Site {
    pub host: Host,
    /// The far end of what is planned or predicted; none for loopback, and for what has no far end.
    pub peer: Option<Peer>,
    /// All far ends on other hosts that the run has.
    pub peers: Vec<Peer>,
    /// Facts of the directory for files.
    pub dir: Option<DirFacts>,
    /// CPUs to measure on, the quietest first.
    pub cpus: Vec<usize>,
    /// Memory that an experiment may touch, in bytes.
    pub memory_bytes: u64,
    /// Measuring time that each case of a round may take, in ns.
    pub case_ns: u64,
    pub fitted: &'static Fitted,
}

impl Site {
    /// The value of [`FAR`] for cases that are planned here.
    pub fn far(&self) -> &str {
        self.peer.as_ref().map_or(LOOPBACK, |peer| &peer.name)
    }

    /// The same site with another far end: a peer's name, or loopback for any other.
    #[must_use]
    pub fn toward(&self, far: &str) -> Site {
        let named = self.peers.iter().find(|peer| peer.name == far);
        Site { peer: named.cloned(), ..self.clone() }
    }

    /// The reason why io_uring cannot make a ring here. `None`: it can, or that is unknown.
    pub fn lacks_rings(&self) -> Option<Skip> {
        let kernel = &self.host.kernel;
        if kernel.numbers().is_some_and(|version| version < (5, 1)) {
            return Some(Skip::because("this kernel has no io_uring").needs("Linux 5.1"));
        }
        let why = "io_uring is forbidden here: by sysctl kernel.io_uring_disabled, by the seccomp \
                   profile of a container, or by a kernel of its own (gVisor)";
        let needed = "sysctl kernel.io_uring_disabled=0, or a profile that allows io_uring_setup";
        (kernel.has_rings == Some(false)).then(|| Skip::because(why).needs(needed))
    }
}

/// What is known of the directory for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirFacts {
    pub path: PathBuf,
    /// File system type; empty if the mounts do not show it; `tmpfs` for an overlay that keeps its
    /// files in memory.
    pub file_system: String,
    /// Bytes that a run may write there in all: nine tenths of the free space of a directory that
    /// the user named, little of the one that a run takes by default.
    pub allowance_bytes: u64,
    /// What each selected experiment may write of it, in bytes; an experiment that is not listed has
    /// its share of all ([`crate::device::share`]).
    pub portions: Vec<(&'static str, u64)>,
}

/// Why an experiment or case is absent, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub reason: String,
    /// Way out, where there is one.
    pub needed: Option<String>,
}

impl Skip {
    /// A skip that nothing on this machine would help.
    pub fn because(reason: impl Into<String>) -> Self {
        Skip { reason: reason.into(), needed: None }
    }

    /// Adds what would help.
    #[must_use]
    pub fn needs(mut self, needed: impl Into<String>) -> Self {
        self.needed = Some(needed.into());
        self
    }
}

impl From<Skip> for Absence {
    fn from(skip: Skip) -> Self {
        Absence { reason: skip.reason, needed: skip.needed }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Offer {
    pub series: Vec<Series>,
    /// Cases that this site does not allow, each with its reason.
    pub skipped: Vec<(CaseId, Skip)>,
    /// Cases that the quick preset has too, where this one is larger.
    pub in_quick: BTreeSet<CaseId>,
}

impl Offer {
    /// The offer, where there is anything to measure in it. Errors: nothing is left: why not the
    /// first.
    pub fn or_reason(self) -> Result<Offer, Skip> {
        if !self.series.is_empty() {
            return Ok(self);
        }
        let first = self.skipped.into_iter().next();
        Err(first.map_or_else(|| Skip::because("nothing was requested"), |(_, skip)| skip))
    }
}

/// Bytes of the `//!` header of a source file.
pub const fn header_bytes(source: &str) -> usize {
    let text = source.as_bytes();
    let (mut at, mut end) = (0, 0);
    while at + 2 < text.len() && text[at] == b'/' && text[at + 1] == b'/' && text[at + 2] == b'!' {
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        at += 1;
        end = at;
    }
    if end < text.len() { end } else { text.len() }
}

/// So many first bytes of a text.
pub const fn first_bytes<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        bytes[at] = text.as_bytes()[at];
        at += 1;
    }
    bytes
}

/// The `//!` header of a source file beside the caller's, which is the only part of it that the
/// binary holds.
#[macro_export]
macro_rules! manual {
    ($file:literal) => {{
        use $crate::experiment::{first_bytes, header_bytes};
        const SOURCE: &str = include_str!($file);
        const HEADER: &[u8] = &first_bytes::<{ header_bytes(SOURCE) }>(SOURCE);
        match std::str::from_utf8(HEADER) {
            Ok(header) => header,
            Err(_) => panic!("a header ends with a line"),
        }
    }};
}

/// The `//!` header of a source file, as Markdown.
pub fn manual_of(source: &str) -> String {
    source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect()
}

/// An interval in the metric's unit, or the reason why nothing can be said.
pub fn predicted(low: f64, likely: f64, high: f64, because: impl Into<String>) -> Prediction {
    Prediction::new(Some(Range { low, likely, high }), because)
}

/// Nothing can be predicted, and why.
pub fn unknown(because: impl Into<String>) -> Prediction {
    Prediction::new(None, because)
}

/// Warm-up and core clock around the window of one case.
const CASE_OVERHEAD: Duration = Duration::from_millis(3);

/// Start of a worker, its calibration and its end.
const WORKER_OVERHEAD: Duration = Duration::from_millis(30);

/// The cost of a round whose cases each take the case time: what most experiments state.
pub fn shared_round_cost(site: &Site, series: &Series) -> Duration {
    windows_round_cost(site, series.cases.len())
}

/// The cost of a round of so many windows of the case time: cases that are timed once per metric.
pub fn windows_round_cost(site: &Site, windows: usize) -> Duration {
    let window = Duration::from_nanos(site.case_ns) + CASE_OVERHEAD;
    let windows = u32::try_from(windows).unwrap_or(u32::MAX);
    window.saturating_mul(windows).saturating_add(WORKER_OVERHEAD)
}

pub fn bounded(prediction: Prediction, bound: Bound) -> Prediction {
    Prediction { bound: Some(bound), ..prediction }
}

/// One round of a series. Errors: why the round does not count.
pub fn measure(experiment: &dyn AnyExperiment, series: &Series, bench: &mut Bench) -> Result<()> {
    bench.begin(experiment.hazards(bench.order()));
    experiment.measure(series, bench)
}

/// What the session sees of an experiment; [`contract::Experiment`], which an author writes, gives
/// it.
pub trait AnyExperiment: Sync {
    fn card(&self) -> &'static Card;

    fn manual(&self) -> String;

    /// What would be measured here. Pure; sizes stay symbolic. Errors: the reason why nothing of it
    /// can be measured here.
    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip>;

    /// Cases whose figures `derive` may yield from these series: those that a selection left. Pure.
    fn derivable(&self, site: &Site, series: &[Series]) -> Vec<CaseId>;

    fn round_cost(&self, site: &Site, series: &Series) -> Duration;

    /// Fixes sizes at the start of the stage, and says from what. Errors: the reason why the series
    /// cannot be measured after all.
    fn resolve(&self, site: &Site, known: &Known, series: Series) -> Result<Series, Skip>;

    /// What a metric of a case should be. Without `known` this is the prior, which every case has
    /// (an unknown says why); with it the derived prediction, `None` where earlier figures add
    /// nothing. Called for measured metrics of measured cases and derived metrics of derived ones.
    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let prediction = self.unscaled(site, known, case, metric)?;
        let (widths, id) = (Widths::fitted(), self.card().id);
        let prediction = widths.applied(site, id, metric, known.is_some(), prediction);
        Some(reason::with_arithmetic(prediction, metric.unit))
    }

    /// The same as wide as its law makes it, whatever other machines measured.
    fn unscaled(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction>;

    /// Whether a round may go without values of a measured metric that it has a prior of: the thing
    /// that the metric describes exists or not; its absence is a finding, not a failure.
    fn may_lack(&self, metric: &Metric) -> bool;

    fn is_share(&self, metric: &Metric) -> bool;

    /// Makes, once per stage, the files that rounds only read; calls `lives` often. Errors: why
    /// they could not be made.
    fn prepare(&self, series: &Series, dir: &Path, lives: &mut dyn FnMut())
    -> Result<Vec<PathBuf>>;

    /// A directory below which the run makes a work directory for this series alone, in the
    /// journal.
    fn files_below(&self, series: &Series) -> Option<PathBuf>;

    /// The directory of the control group in which rounds of a series make one of their own, named
    /// like their work directory; the run has its removal in the journal before it can be made.
    fn group_below(&self, site: &Site, series: &Series) -> Option<PathBuf>;

    /// Whether a series has files that are made before its rounds.
    fn is_prepared(&self, series: &Series) -> bool;

    /// Stated time that [`AnyExperiment::prepare`] takes on a slow device of the kind that is
    /// there.
    fn prepare_cost(&self, site: &Site, series: &Series) -> Duration;

    fn hazards(&self, order: &RoundOrder) -> Hazards;

    /// One round of the whole series, cases in the order given. Errors: why the round does not
    /// count.
    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()>;

    /// The far end of a two-ended experiment. Errors: why the round does not count.
    fn serve(&self, series: &Series, far: &mut FarEnd) -> Result<()>;

    /// Whether `measure` talks to a worker at a far end ([`AnyExperiment::serve`]).
    fn two_ended(&self) -> bool;

    /// Ports of IP that a round of a two-ended series uses; 0 for any other.
    fn ports(&self, site: &Site, series: &Series) -> u64;

    /// What the figures say together. `values` are this experiment's, `known` the earlier ones'.
    fn derive(&self, site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue>;
}
