//! The one table of a figure's columns: what each is called in files and in tables for people, where
//! it stands in a serialised figure, and what a reader sees of it. Widths hide columns.

mod cells;

pub use cells::{by_factor, judged};

use crate::document::{self, Cell};
use crate::values;
use analysis::figure::Figure;
use cells::{likely, percentile, predicted, printed, share};
use record::key::Value;
use record::quantity::digits;
use serde_json::json;

/// A column of figures, in files and in tables for people.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name in files; of an interval or a range what the names of their ends begin with.
    pub name: &'static str,
    /// Where it stands in a serialised figure, as words of a JSON pointer.
    place: &'static str,
    pub kind: Kind,
    pub is_in_csv: bool,
    /// What it is, of one that is in JSON lines.
    pub about: Option<&'static str>,
    shown: Option<Shown>,
}

/// What stands in a column; quantities are in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Count,
    Flag,
    Texts,
    Case,
    Ends,
    Range,
}

#[derive(Clone, Copy)]
struct Shown {
    heading: &'static str,
    seen: Seen,
    /// Whether it is left out where no figure of the table has it.
    is_optional: bool,
    hidden_from: u8,
}

#[derive(Clone, Copy)]
enum Seen {
    Text(fn(&Figure) -> Option<String>),
    Cell(fn(&Figure) -> Cell),
}

impl Shown {
    fn cell(&self, figure: &Figure) -> Cell {
        match self.seen {
            Seen::Text(text) => Cell::optional(text(figure)),
            Seen::Cell(cell) => cell(figure),
        }
    }
}

/// In order of the files.
pub const COLUMNS: &[Column] = &[
    text("experiment").line("Experiment, for example memory.latency"),
    text("params").only_line("Parameters of the case, as name=value joined by commas"),
    text("case").place("params"),
    column("case", Kind::Case).only_line("The same as an object"),
    text("at"),
    text("metric").line("Name of the metric; null where a whole case or experiment is absent"),
    text("unit").line("Unit of all quantities of the figure"),
    text("better").line("Direction of improvement: lower, higher or none"),
    text("kind").line("Class of the metric: hardware, os or io"),
    text("outcome").line("How the figure ended: measured, skipped or failed"),
    text("reason").line("Why it was skipped or failed"),
    text("needed"),
    number("value").line("What was measured: the median of round values").always(
        0,
        "#measured",
        Seen::Text(values::value),
    ),
    column("ci", Kind::Ends).line("Interval of the value").always(
        5,
        "#interval",
        Seen::Text(values::interval),
    ),
    number("confidence"),
    text("interval"),
    text("condition"),
    number("shared").shown(13, "#shared", values::shared),
    number("as_found").place("as_found/value").shown(13, "#as found", values::as_found),
    column("as_found", Kind::Ends).place("as_found/ci"),
    number("as_found_confidence").place("as_found/confidence"),
    count("as_found_used").place("as_found/used"),
    count("alone_rounds").place("alone/rounds").shown(12, "#core alone", values::basis),
    count("alone_samples").place("alone/samples"),
    count("alone_stretches").place("alone/stretches"),
    number("cycles").line("The value in core cycles").shown(6, "#cycles", values::of_cycles),
    column("predicted", Kind::Range)
        .place("prediction")
        .line("What was predicted before it was measured")
        .always(0, "#predicted", Seen::Cell(predicted)),
    column("beside", Kind::Range)
        .place("prediction/beside")
        .line("What was to be expected beside a neighbour that used the core (null if none did)"),
    text("predicted_because").place("prediction/because"),
    column("hardware", Kind::Range)
        .place("prediction/shares/hardware")
        .line("Share of base hardware in the prediction (null if unknown)")
        .shown(8, "#base hardware", |figure| share(figure, |of| of.hardware)),
    column("software", Kind::Range)
        .place("prediction/shares/software")
        .line("Share of software overhead in the prediction (null if unknown)")
        .shown(8, "#software overhead", |figure| share(figure, |of| of.software)),
    text("verdict")
        .line("The value against this prediction, or what was to be expected beside a neighbour")
        .always(0, "verdict", Seen::Cell(judged)),
    column("derived", Kind::Range).place("derived_prediction"),
    column("derived_beside", Kind::Range).place("derived_prediction/beside"),
    text("derived_because").place("derived_prediction/because"),
    column("derived_hardware", Kind::Range).place("derived_prediction/shares/hardware"),
    column("derived_software", Kind::Range).place("derived_prediction/shares/software"),
    text("derived_verdict"),
    number("bound").place("prediction/bound"),
    text("bound_side").place("prediction/bound_rule/side"),
    text("bound_rule").place("prediction/bound_rule/rule"),
    column("bound_warns_only", Kind::Flag).place("prediction/bound_rule/warns_only"),
    number("derived_bound").place("derived_prediction/bound"),
    text("derived_bound_side").place("derived_prediction/bound_rule/side"),
    text("derived_bound_rule").place("derived_prediction/bound_rule/rule"),
    column("derived_bound_warns_only", Kind::Flag)
        .place("derived_prediction/bound_rule/warns_only"),
    text("of").place("stats/of"),
    count("rounds").place("stats/rounds"),
    count("rounds").place("stats/used").only_line("Rounds that the value uses"),
    count("disturbed").place("stats/disturbed").shown(9, "#disturbed", values::disturbed),
    count("used").place("stats/used").shown(4, "#trials", values::trials),
    count("samples").place("stats/samples").line("Samples in them"),
    count("censored").place("stats/censored"),
    column("at_least", Kind::Texts).place("stats/at_least"),
    number("mean").place("stats/mean").line("Mean of the samples").shown(11, "#mean", values::mean),
    number("stddev").place("stats/stddev").line("Standard deviation of the samples").shown(
        3,
        "#sd",
        values::deviation,
    ),
    number("min").place("stats/min").line("Smallest sample"),
    number("p50")
        .place("stats/p50")
        .line("Median of the samples")
        .shown(10, "#p50", |figure| percentile(figure, "p50", |stats| stats.p50)),
    number("p90")
        .place("stats/p90")
        .shown(10, "#p90", |figure| percentile(figure, "p90", |stats| stats.p90)),
    number("p99").place("stats/p99").line("99th percentile of the samples").shown(
        7,
        "#p99",
        |figure| percentile(figure, "p99", |stats| stats.p99),
    ),
    number("max")
        .place("stats/max")
        .line("Largest sample")
        .shown(9, "#max", |figure| percentile(figure, "max", |stats| stats.max)),
    count("outliers").place("stats/outliers"),
    number("mean_without_outliers").place("stats/mean_without_outliers"),
    count("modes").place("stats/modes"),
    number("best_round").place("stats/best_round"),
    number("median_all").place("stats/median_all"),
    number("median_undisturbed").place("stats/median_undisturbed"),
    text("key"),
    column("notes", Kind::Texts).line("Caveats"),
    column("unsourced", Kind::Flag).place("prediction/unsourced"),
    column("derived_unsourced", Kind::Flag).place("derived_prediction/unsourced"),
    number("ratio")
        .line("The value over the best guess before the run, else over that from earlier figures")
        .shown(2, "#ratio", |figure| figure.ratio.map(digits)),
    text("plumb"),
    text("run"),
    seen("estimate").place("prediction/likely").shown(1, "#estimate", likely),
    // What a published report prints.
    seen("table").shown(0, "table", |figure| printed(figure, "source")),
    seen("printed").shown(0, "#printed", |figure| printed(figure, "printed")),
    seen("printed_also").shown(2, "#also printed", |figure| printed(figure, "printed_also")),
    seen("deviation").shown(1, "#deviation", |figure| printed(figure, "deviation_printed")),
    seen("n").shown(1, "#trials", |figure| figure.at.get("n").map(Value::to_string)),
    seen("estimate_printed").shown(0, "#estimate", |figure| printed(figure, "estimate_printed")),
];

/// The form of every table of figures: the lab report's columns, and percentiles of events.
pub const TABLE: &str = "hardware software estimate predicted value ci ratio mean stddev used \
    disturbed alone_rounds p50 p90 p99 max cycles verdict as_found shared";

/// Those of them that a summary has, whose rows are of many experiments.
pub const SUMMARY: &str =
    "hardware software estimate predicted value ci ratio stddev used cycles verdict";

/// What a report prints, in its own units, beside the value in ours.
pub const PRINTED: &str = "table printed printed_also deviation n estimate_printed value ratio";

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, place: name, kind, is_in_csv: true, about: None, shown: None }
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text)
}

const fn number(name: &'static str) -> Column {
    column(name, Kind::Number)
}

const fn count(name: &'static str) -> Column {
    column(name, Kind::Count)
}

const fn seen(name: &'static str) -> Column {
    Column { is_in_csv: false, ..text(name) }
}

impl Column {
    const fn place(self, place: &'static str) -> Column {
        Column { place, ..self }
    }

    const fn line(self, about: &'static str) -> Column {
        Column { about: Some(about), ..self }
    }

    const fn only_line(self, about: &'static str) -> Column {
        Column { is_in_csv: false, ..self.line(about) }
    }

    const fn shown(
        self,
        hidden_from: u8,
        heading: &'static str,
        text: fn(&Figure) -> Option<String>,
    ) -> Column {
        let seen = Seen::Text(text);
        Column { shown: Some(Shown { heading, seen, is_optional: true, hidden_from }), ..self }
    }

    /// In every table that may have it.
    const fn always(self, hidden_from: u8, heading: &'static str, seen: Seen) -> Column {
        Column { shown: Some(Shown { heading, seen, is_optional: false, hidden_from }), ..self }
    }

    /// Its columns in a file: name, JSON pointer into a serialised figure, and what it is of a range.
    pub fn fields(&self) -> Vec<(String, String, &'static str)> {
        let Column { name, place, kind, .. } = self;
        let ends: &[(&str, &str, &str)] = match kind {
            Kind::Ends => &[("low", "0", ": lower end"), ("high", "1", ": upper end")],
            Kind::Range => &[
                ("low", "low", ": lower end"),
                ("likely", "likely", ": best guess"),
                ("high", "high", ": upper end"),
            ],
            _ => return vec![((*name).to_owned(), format!("/{place}"), "")],
        };
        let field = |(end, at, about): &(&str, &str, &'static str)| {
            (format!("{name}_{end}"), format!("/{place}/{at}"), *about)
        };
        ends.iter().map(field).collect()
    }
}

pub struct Layout(Vec<(&'static Column, Shown)>);

impl Layout {
    /// Those of the named columns that no table is without, or that some figure has.
    pub fn new(names: &str, figures: &[&Figure]) -> Layout {
        let named = names.split_whitespace().filter_map(|name| {
            let mut named = COLUMNS.iter().filter(|one| one.name == name);
            named.find_map(|one| Some((one, one.shown?)))
        });
        let has = |shown: &Shown| figures.iter().any(|of| shown.cell(of) != Cell::absent());
        Layout(named.filter(|(_, shown)| !shown.is_optional || has(shown)).collect())
    }

    pub fn heads(&self) -> impl Iterator<Item = document::Column> {
        self.0.iter().map(|(_, shown)| {
            let column = document::Column::list(&[shown.heading]).remove(0);
            document::Column { hidden_from: shown.hidden_from, ..column }
        })
    }

    pub fn cells(&self, figure: &Figure) -> impl Iterator<Item = Cell> {
        self.0.iter().map(|(_, shown)| shown.cell(figure))
    }

    /// The same with their numbers: of an interval or a range the lower end.
    pub fn sortable(&self, figure: &Figure) -> impl Iterator<Item = Cell> {
        let value = json!(figure);
        self.0.iter().map(move |(column, shown)| {
            let number = column.fields().first().and_then(|(_, at, _)| value.pointer(at)?.as_f64());
            Cell { number, ..shown.cell(figure) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Layout, PRINTED, SUMMARY, TABLE};
    use analysis::figure::Figure;
    use analysis::{figures, sample};

    #[test]
    fn a_column_that_no_figure_has_is_left_out() {
        let all = figures(&sample::run());
        let has = |figures: &[&Figure], heading: &str| {
            Layout::new(TABLE, figures).heads().any(|column| column.heading == heading)
        };
        let everything: Vec<&Figure> = all.iter().collect();
        for heading in ["estimate", "predicted", "measured", "ratio", "sd", "trials", "cycles"] {
            assert!(has(&everything, heading), "{heading}");
        }
        let batches: Vec<&Figure> = all
            .iter()
            .filter(|figure| {
                figure.stats.as_ref().is_some_and(|stats| stats.sample_kind != "event")
            })
            .collect();
        assert!(!batches.is_empty() && !has(&batches, "p99"));
        assert!(!has(&[], "sd") && has(&[], "verdict"));
    }

    #[test]
    fn each_name_of_a_layout_is_a_column_and_predictions_are_never_hidden() {
        for name in [TABLE, SUMMARY, PRINTED].iter().flat_map(|names| names.split_whitespace()) {
            let mut named = COLUMNS.iter().filter(|one| one.name == name);
            let hidden_from = named.find_map(|one| one.shown).expect(name).hidden_from;
            let is_kept = ["predicted", "value", "verdict", "table", "printed", "estimate_printed"];
            assert_eq!(hidden_from == 0, is_kept.contains(&name), "{name}");
        }
    }
}
