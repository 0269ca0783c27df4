//! A report without a format: sections of blocks that every renderer shows in its own way.

use analysis::distribution::Density;
use analysis::findings::Severity;
use analysis::names::around;

/// A report; [`Document::new`] makes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Document {
    pub title: String,
    pub summary: String,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Unique in the document: `memory.latency`, `machine`.
    pub id: String,
    pub heading: String,
    pub blocks: Vec<(Audience, Block)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    /// Readers of a whole report: not the terminal.
    Page,
    /// Readers of the page, which unfolds long parts: neither the terminal nor Markdown.
    Screen,
    /// Readers of the page and of the terminal's whole report: not Markdown.
    Verbose,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Paragraph(String),
    /// A heading below the section's.
    Subheading(String),
    KeyValues(Vec<(String, String)>),
    Table(Table),
    /// Every figure: a table, which is searched and sorted where a format can, with how each row's
    /// figure spreads; as many as there are rows.
    Figures(Table, Vec<Option<Spread>>),
    Keys(Vec<Keys>),
    Plot(Plot),
    Grid(Grid),
    Notes(Vec<Remark>),
    Manual(String),
    Words(String),
    /// What most readers skip: shown when asked for, where a format can.
    Folded {
        summary: String,
        blocks: Vec<Block>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub severity: Severity,
    /// Its figures, experiment or tool; empty where it is about the whole.
    pub about: String,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading, with the unit where cells have none.
    pub heading: String,
    /// Whether cells are quantities, set flush right.
    pub is_number: bool,
    /// Which columns a narrow terminal hides first: the one of the greatest number. One of 0 is
    /// never hidden.
    pub hidden_from: u8,
}

/// A row; as many cells as there are columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// Left out where room is short: one of many rungs of a ladder.
    pub is_spare: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
    /// The number that it shows, in its base unit, of one that a reader sorts by.
    pub number: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    Muted,
}

impl Tone {
    pub fn from_severity(severity: Severity) -> Tone {
        match severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warn,
            Severity::Note => Tone::Muted,
        }
    }

    pub fn class(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Good => Some("good"),
            Tone::Warn => Some("warn"),
            Tone::Bad => Some("bad"),
            Tone::Muted => Some("muted"),
        }
    }
}

/// A table of figures, each with its place along an axis of its own or of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    pub title: String,
    pub table: Table,
    pub places: Vec<Place>,
    /// Whether they lie along one axis, and not each along its own.
    pub is_ladder: bool,
    /// Ticks of that one axis, by their place.
    pub ticks: Vec<(f64, String)>,
}

/// Where a figure lies along an axis from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub predicted: Option<(f64, f64)>,
}

/// How one figure's rounds and samples lie, in the figure's unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// Each round's value, and whether counters say that it was disturbed.
    pub rounds: Vec<(f64, bool)>,
    pub density: Density,
    /// Each mode's centre, with what a reader sees there; empty where there is but one.
    pub modes: Vec<(f64, String)>,
    pub predicted: Option<(f64, f64)>,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub unit: Option<record::unit::Unit>,
    /// What stands below the picture, in sentences.
    pub text: String,
}

/// A plot. Values are in base units; axes say how to label them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    pub markers: Vec<Marker>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub label: String,
    pub unit: Option<record::unit::Unit>,
    pub is_log: bool,
    /// What stands at 0, 1, 2 … of an axis of names; empty for one of quantities.
    pub names: Vec<String>,
}

/// A quantity by row and column, as coloured cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub title: String,
    /// What the rows are, and their names from above.
    pub rows: (String, Vec<String>),
    /// What the columns are, and their names from the left.
    pub columns: (String, Vec<String>),
    pub label: String,
    pub unit: record::unit::Unit,
    pub shades: Shades,
    /// Cells by row and column, in the unit; `None` where nothing was measured.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// What the colours of a matrix follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shades {
    /// The values, or their logarithms where the values are far apart.
    Values,
    /// How far a ratio is from 1, below it in another colour than above it.
    Ratios,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub shape: Shape,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Points joined by a line, with their intervals.
    Line,
    /// Single points with their intervals.
    Dots,
    /// Readings of a trace joined by a line: no table has them all.
    Trace,
    /// Horizontal bars, a named category each; along a logarithmic axis, which has no zero, marks.
    Bars,
    /// The intervals alone, as a band: what was predicted.
    Band,
    /// The intervals alone, a bar each: what was predicted, or beside bars what they should be. Of
    /// ratios: 1 is marked.
    Ranges,
    /// Stretches from a point's horizontal value to its vertical one, in a lane of the series' own.
    Spans,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Horizontal value; for bars the position.
    pub x: f64,
    /// Vertical value; for bars the length.
    pub y: f64,
    pub ends: Option<(f64, f64)>,
    /// Its tooltip; for bars the category.
    pub hover: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    pub x: f64,
    pub label: String,
    /// Found by this run, or stated by the machine.
    pub is_measured: bool,
}

impl Document {
    /// A report without control characters in its texts, whatever the record has in them.
    pub fn new(
        title: impl Into<String>,
        summary: impl Into<String>,
        sections: Vec<Section>,
    ) -> Document {
        let mut document = Document { title: title.into(), summary: summary.into(), sections };
        super::plain::document(&mut document);
        document
    }
}

impl Section {
    pub fn new(
        id: impl Into<String>,
        heading: impl Into<String>,
        blocks: Vec<(Audience, Block)>,
    ) -> Self {
        Section { id: id.into(), heading: heading.into(), blocks }
    }
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Block::Paragraph(text.into())
    }

    pub fn notes(notes: Vec<Remark>) -> Option<Self> {
        (!notes.is_empty()).then_some(Block::Notes(notes))
    }

    pub fn for_all(self) -> (Audience, Block) {
        (Audience::Everyone, self)
    }

    /// For readers of the page alone.
    pub fn on_screen(self) -> (Audience, Block) {
        (Audience::Screen, self)
    }

    pub fn on_page(self) -> (Audience, Block) {
        (Audience::Page, self)
    }
}

impl Remark {
    pub fn new(severity: Severity, about: impl Into<String>, text: impl Into<String>) -> Self {
        Remark { severity, about: about.into(), text: text.into() }
    }

    pub fn sentence(&self) -> String {
        format!("{}{}", around("", &self.about, ": "), self.text)
    }
}

impl Table {
    pub fn of_remarks(remarks: &[Remark]) -> Self {
        let row = |remark: &Remark| {
            let about = Some(remark.about.as_str()).filter(|about| !about.is_empty());
            let tone = Tone::from_severity(remark.severity);
            let severity = Cell::toned(remark.severity.text(), tone);
            Row::always_shown(vec![Cell::optional(about), severity, Cell::plain(&remark.text)])
        };
        Table::new("Remarks", &["about", "severity", "remark"], remarks.iter().map(row))
    }

    /// A table of plain columns; a heading that begins with `#` is one of quantities.
    pub fn new(
        caption: impl Into<String>,
        headings: &[&str],
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        let rows = rows.into_iter().collect();
        Table { caption: caption.into(), columns: Column::list(headings), rows }
    }

    /// The table with columns that a narrow terminal hides, the first named ones first.
    pub fn hiding(mut self, headings: &[&str]) -> Self {
        for (heading, hidden_from) in headings.iter().rev().zip(1..) {
            let mut columns = self.columns.iter_mut();
            if let Some(column) = columns.find(|column| column.heading == *heading) {
                column.hidden_from = hidden_from;
            }
        }
        self
    }
}

impl Plot {
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Plot { title: title.into(), x, y, series, markers: Vec::new() }
    }
}

impl Series {
    pub fn new(name: impl Into<String>, shape: Shape, points: Vec<Point>) -> Self {
        Series { name: name.into(), shape, points }
    }
}

impl Point {
    pub fn plain(x: f64, y: f64) -> Self {
        Point { x, y, ends: None, hover: String::new() }
    }
}

impl Column {
    pub fn text(heading: &str) -> Self {
        Column { heading: heading.to_owned(), is_number: false, hidden_from: 0 }
    }

    /// Columns by their headings; one that begins with `#` is of quantities.
    pub fn list(headings: &[&str]) -> Vec<Self> {
        let of = |heading: &&str| match heading.strip_prefix('#') {
            Some(heading) => Column::number(heading),
            None => Column::text(heading),
        };
        headings.iter().map(of).collect()
    }

    pub fn number(heading: &str) -> Self {
        Column { is_number: true, ..Column::text(heading) }
    }
}

impl Row {
    pub fn always_shown(cells: Vec<Cell>) -> Self {
        Row { cells, is_spare: false }
    }
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Self {
        Cell::toned(text, Tone::Plain)
    }

    pub fn absent() -> Self {
        Cell::toned("-", Tone::Muted)
    }

    /// A plain cell, or that of no value.
    pub fn optional(text: Option<impl Into<String>>) -> Self {
        text.map_or_else(Cell::absent, Cell::plain)
    }

    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone, number: None }
    }
}
