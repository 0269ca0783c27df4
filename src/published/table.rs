//! The shape of the tables (`hosts/NAME/report.json`): what a report prints, in the units in which
//! it prints it.

use record::unit::Unit;
use serde::Deserialize;

/// A machine of a report, with all that the report prints of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// Name after `published/`.
    pub name: String,
    /// `R0` to `R4`.
    pub report: String,
    /// Its authors, and its purpose.
    pub work: String,
    /// When, if stated.
    pub dated: String,
    /// The machine, composed from the report and public data (see the head of the text).
    #[serde(skip)]
    pub tree: String,
    /// CPU that was measured on, if the report states it.
    pub cpu: usize,
    /// What the counter ticks at, whatever the core clock is held at; `None` if nothing is printed
    /// in ticks.
    pub counter_hz: Option<f64>,
    /// Core clock that the report states.
    pub core_hz: Option<f64>,
    /// Both clocks in a sentence.
    pub clocks: String,
    /// What must be known of times that it prints beside ticks, where its conversion is not ours.
    #[serde(default)]
    pub own_times: String,
    /// What the report states of its machine's parts, over the description from `tree` (RFC 7396).
    #[serde(default)]
    pub parts: serde_json::Value,
    /// Conditions that the report states, by name.
    pub environment: Vec<(String, String)>,
    /// How an experiment was done, in our words: (experiment, text).
    pub methods: Vec<(String, String)>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Pictures of time whose stretches the tables list.
    #[serde(default)]
    pub timelines: Vec<Timeline>,
    /// Orders in which processes first ran: (experiment, case, numbers).
    #[serde(default)]
    pub first_runs: Vec<(String, String, Vec<u64>)>,
    /// What the text file of the report does not contain: (experiment, symbol, what).
    pub missing: Vec<(String, String, String)>,
}

/// Stretches that came one after another, whose lengths tables list by number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeline {
    /// The tables' experiment.
    pub experiment: String,
    /// Their case.
    pub case: String,
    /// Their parameter that numbers the stretches.
    pub varies: String,
    /// Whose stretches take turns: of each metric one, then the next of each.
    pub turns: Vec<Turn>,
}

/// One of those that take turns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    /// The metric that has the lengths.
    pub metric: String,
    /// The lanes that its stretches are in, in turn.
    pub lanes: Vec<String>,
}

/// Rows of one table of a report that share all but a parameter and the figure.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    /// Where the figures stand.
    pub source: String,
    /// What each of them is: `mean`, `median`, `best`, …
    pub statistic: String,
    /// Number of repetitions, if stated.
    pub n: Option<u64>,
    /// Experiment and metric that are nearest.
    pub experiment: String,
    /// See `experiment`.
    pub metric: String,
    /// Parameters that every row has, as `name=value,…`, in any order.
    pub case: String,
    /// The parameter that differs.
    pub varies: String,
    /// Unit of figures, deviations and estimates.
    pub printed: Printed,
    /// Operations in one printed figure: 2 for a round trip whose half is the metric.
    pub of: f64,
    /// The rows.
    pub rows: Vec<Row>,
    /// What must be known of all of them.
    pub note: String,
    /// What is wrong with all of them.
    pub slip: String,
    /// What the report's own estimates rest on, in our words; `(ours)` where the ends are no
    /// printed numbers.
    pub because: String,
    /// The case of ours that is nearest to those that no case measures.
    pub nearest: Option<Nearest>,
    /// Whether the score of the laws has them.
    pub scored: bool,
}

/// What a table has where it says nothing else.
impl Default for Table {
    fn default() -> Table {
        Table {
            source: String::new(),
            statistic: "mean".to_owned(),
            n: None,
            experiment: String::new(),
            metric: String::new(),
            case: String::new(),
            varies: String::new(),
            printed: Printed::Ticks,
            of: 1.0,
            rows: Vec::new(),
            note: String::new(),
            slip: String::new(),
            because: String::new(),
            nearest: None,
            scored: false,
        }
    }
}

/// One figure with what stands beside it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Row {
    /// Value of the parameter that varies; empty where there is none.
    pub at: String,
    /// The figure as printed.
    pub figure: f64,
    /// Its standard deviation as printed, with further printings of it.
    pub deviation: String,
    /// The report's own estimate: low, likely, high, in the figure's unit.
    pub estimate: Option<[f64; 3]>,
    /// The estimate as printed, where that is not the figure's unit or not in it alone.
    pub estimate_printed: String,
    /// The same figure in other units, as printed.
    pub also: String,
    /// What must be known of it alone.
    pub note: String,
    /// What is wrong with it.
    pub slip: String,
    /// See [`Table::nearest`], of this one.
    pub nearest: Option<Nearest>,
    /// What stands for `{at}` in the nearest case, where that is not `at`.
    pub near: String,
    /// Symbol of `as_reported`: no case of the catalogue is what was measured, or it is a second
    /// reading of what another row has.
    pub reading: String,
}

impl Row {
    /// How many printed numbers it holds: the figure, its other printings, deviations, the
    /// estimate.
    #[cfg(test)]
    pub(crate) fn printed_numbers(&self) -> usize {
        let listed = |text: &str| text.split(';').filter(|part| !part.is_empty()).count();
        let estimates = match &*self.estimate_printed {
            "" => usize::from(self.estimate.is_some()),
            printed => listed(printed),
        };
        1 + listed(&self.also) + listed(&self.deviation) + estimates
    }
}

/// The case of ours that is nearest to what a report measured, which is not the same measurement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nearest {
    /// Its experiment, where that is another than the table's.
    pub experiment: Option<String>,
    /// Its metric, where that is another than the table's.
    pub metric: Option<String>,
    /// Its parameters as `name=value,…`, `{at}` for the value that varies; without it those of the
    /// figure, and then the figure is a second reading of that.
    pub case: Option<String>,
    /// How the report's method differs, in a sentence.
    pub differs: String,
    /// What the difference does to the printed figure.
    pub moves: Moves,
}

/// What a difference in method does to the printed figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Moves {
    /// It is higher than ours would be.
    Up,
    /// It is lower.
    Down,
    /// That depends on what the report does not show.
    Either,
}

impl Moves {
    /// Its spelling.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Moves::Up => "up",
            Moves::Down => "down",
            Moves::Either => "either way",
        }
    }
}

/// A unit as printed. Sizes that are printed as GB are taken as powers of two, rates as powers of
/// ten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(crate) enum Printed {
    /// Ticks of the machine's counter, which the reports call cycles.
    Ticks,
    /// Times.
    Ns,
    /// See `Ns`.
    Us,
    /// See `Ns`.
    Ms,
    /// Time for a byte.
    NsPerByte,
    /// Rates of bytes.
    MbPerS,
    /// See `MbPerS`.
    GbPerS,
    /// See `MbPerS`.
    GbitPerS,
    /// See `MbPerS`.
    MbitPerS,
    /// See `MbPerS`.
    KbitPerS,
    /// Sizes.
    Bytes,
    /// See `Bytes`.
    Gb,
    /// Frequency.
    Hz,
    /// 10^9 operations a second.
    GOps,
    /// 10^9 floating-point operations a second.
    GFlops,
    /// A share in per cent.
    Percent,
    /// A ratio.
    Ratio,
}

impl Printed {
    /// Its spelling, the unit of the metrics that it becomes, and base units in one of it (ticks
    /// aside).
    const fn row(self) -> (&'static str, Unit, f64) {
        match self {
            Printed::Ticks => ("cycles", Unit::Ns, f64::NAN),
            Printed::Ns => ("ns", Unit::Ns, 1.0),
            Printed::Us => ("µs", Unit::Ns, 1e3),
            Printed::Ms => ("ms", Unit::Ns, 1e6),
            Printed::NsPerByte => ("ns/byte", Unit::NsPerB, 1.0),
            Printed::MbPerS => ("MB/s", Unit::BPerS, 1e6),
            Printed::GbPerS => ("GB/s", Unit::BPerS, 1e9),
            Printed::GbitPerS => ("Gbit/s", Unit::BPerS, 1e9 / 8.0),
            Printed::MbitPerS => ("Mbit/s", Unit::BPerS, 1e6 / 8.0),
            Printed::KbitPerS => ("kbit/s", Unit::BPerS, 1e3 / 8.0),
            Printed::Bytes => ("bytes", Unit::B, 1.0),
            Printed::Gb => ("GB", Unit::B, (1u64 << 30) as f64),
            Printed::Hz => ("Hz", Unit::Hz, 1.0),
            Printed::GOps => ("GOPS", Unit::OpPerS, 1e9),
            Printed::GFlops => ("GFLOPS", Unit::FlopPerS, 1e9),
            Printed::Percent => ("%", Unit::Ratio, 0.01),
            Printed::Ratio => ("", Unit::Ratio, 1.0),
        }
    }

    /// Its spelling.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    /// The unit of the metrics that it becomes.
    #[cfg(test)]
    pub(crate) fn unit(self) -> Unit {
        self.row().1
    }

    /// A printed value in that unit; `None` for ticks of an unknown counter.
    pub(crate) fn base(self, value: f64, counter_hz: Option<f64>) -> Option<f64> {
        match self {
            Printed::Ticks => counter_hz.map(|hz| value / hz * 1e9),
            _ => Some(value * self.row().2),
        }
    }

    /// How it was converted.
    pub(crate) fn conversion(self, counter_hz: Option<f64>) -> Option<String> {
        match self {
            Printed::Ticks => counter_hz.map(|hz| format!("ticks at {} GHz", hz / 1e9)),
            Printed::Gb => Some("GB taken as 2^30 bytes".to_owned()),
            Printed::MbPerS | Printed::GbPerS => Some("powers of ten".to_owned()),
            Printed::GbitPerS | Printed::MbitPerS | Printed::KbitPerS => {
                Some("powers of ten, 8 bits a byte".to_owned())
            }
            _ => None,
        }
    }
}
