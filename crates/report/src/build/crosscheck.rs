//! The section of a crosscheck: a table for each rival, and a plot of all ratios.

use super::plots::axis;
use crate::document::{
    Audience, Block, Cell, Plot, Point, Remark, Row, Section, Series, Shape, Table, Tone,
};
use crate::values::{self, counted, shell};
use analysis::compare::conditions::settings;
use analysis::crosscheck::{
    AGREE, Beside, Bout, Compared, JUDGED_FROM, NEARLY_EQUAL, Verdict, count, rivals,
};
use analysis::findings::Severity;
use analysis::gather::{ends, gathered};
use analysis::names::{around, words};
use record::crosscheck::{DIR, FILES, Goal, MEMORY};
use record::quantity::render;
use record::run::Run;
use record::unit::Unit;

const ID: &str = "crosscheck";
/// So much beyond the outermost ratio the plot goes on, as a factor: goals without an end reach
/// there.
const BEYOND: f64 = 1.1;

pub fn section(run: &Run) -> Option<Section> {
    let all = rivals(run);
    if all.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::text(method(&all)).for_all()];
    let begun = Some(begun(run)).filter(|begun| !begun.is_empty());
    blocks.extend(begun.map(|begun| Block::Paragraph(begun).for_all()));
    blocks.extend(plot(&all).map(|plot| Block::Plot(plot).on_page()));
    for beside in all.iter().filter(|beside| !beside.bouts.is_empty()) {
        blocks.extend(of_rival(beside));
    }
    blocks.extend(without(&all).map(|table| Block::Table(table).for_all()));
    Some(Section::new(ID, "Beside other tools", blocks))
}

/// When it was made, and what was otherwise then than when the run began.
fn begun(run: &Run) -> String {
    let then = settings(&run.header.environment);
    let begun = run.crosscheck.begun.iter().map(|began| {
        let other: Vec<&str> = settings(&began.environment)
            .into_iter()
            .filter(|(name, value)| then.get(name) != Some(value))
            .map(|(name, _)| name)
            .collect();
        let other = around("; changed since the record began: ", &other.join(", "), "");
        format!(
            "Begun {} by plumb {}, {}, {} a comparison{other}.",
            began.started,
            began.plumb,
            began.preset,
            counted(began.pairs as usize, "turn"),
        )
    });
    begun.collect::<Vec<_>>().join(" ")
}

/// How the goals came out, in a few words; none without a crosscheck.
pub fn summary(run: &Run) -> Option<String> {
    let all = rivals(run);
    let rows = rows_of(&all);
    (!all.is_empty()).then(|| match rows.is_empty() {
        true => "no comparison with other tools".to_owned(),
        false => summary_text(&rows),
    })
}

fn rows_of<'run>(all: &[Beside<'run>]) -> Vec<Compared<'run>> {
    let bouts = all.iter().flat_map(|beside| &beside.bouts);
    bouts.flat_map(|bout| bout.rows.iter().cloned()).collect()
}

fn summary_text(rows: &[Compared<'_>]) -> String {
    let met = count(rows, Verdict::Met);
    let judged = met + count(rows, Verdict::Missed);
    let mut parts = Vec::new();
    if judged > 0 {
        let goals = counted(judged, "goal");
        parts.push(format!("{met} of {goals} compared with other tools met"));
    }
    for (verdict, what) in [
        (Verdict::Undecided, "undecided (turns scatter)"),
        (Verdict::Explained, "explained by a difference in method"),
        (Verdict::NotJudged, "not judged"),
        (Verdict::Absent, "not compared"),
    ] {
        let count = count(rows, verdict);
        if count > 0 {
            let begin = match parts.is_empty() {
                true => format!("{} compared with other tools", counted(count, "figure")),
                false => count.to_string(),
            };
            parts.push(format!("{begin} {what}"));
        }
    }
    parts.join(", ")
}

fn method(all: &[Beside<'_>]) -> String {
    let rows = rows_of(all);
    let method = format!(
        "plumb and the other tool ran in turns (A B, B A, …), on the same CPUs and at the same \
         priority. The ratio of a turn is plumb's value over the tool's. Values and ratios are \
         medians over the turns. An interval (at least 95 %) needs six turns, a verdict \
         {JUDGED_FROM} turns. A goal that the median meets is undecided if the interval misses it \
         by more than 10 %. Where two figures differ by more than 5 %, the difference in method is \
         given."
    );
    match rows.is_empty() {
        true => "None of these tools was compared.".to_owned(),
        false => format!("{}. {method}", summary_text(&rows)),
    }
}

/// A rival: what it is, its rows, what explains them, what of it was not compared, and the
/// commands.
fn of_rival(beside: &Beside<'_>) -> Vec<(Audience, Block)> {
    let version = beside.rival.and_then(|rival| rival.version.as_deref());
    let heading = format!("{}{}", beside.name, around(" ", version.unwrap_or_default(), ""));
    let rows: Vec<&Compared> = beside.bouts.iter().flat_map(|bout| &bout.rows).collect();
    let mut blocks = vec![Block::Subheading(heading), Block::Table(table(beside, &rows))];
    let mut notes = differences(&rows);
    notes.extend(beside.bouts.iter().filter_map(disturbance));
    notes.extend(beside.bouts.iter().filter_map(lack));
    let lack_of_row = |row: &&Compared<'_>| {
        Some(Remark::new(Severity::Warning, row.name(), format!("{}.", row.lack.as_ref()?)))
    };
    notes.extend(rows.iter().filter_map(lack_of_row));
    blocks.extend(Block::notes(notes));
    let page = commands(beside).on_page();
    blocks.into_iter().map(Block::for_all).chain([page]).collect()
}

fn table(beside: &Beside<'_>, rows: &[&Compared<'_>]) -> Table {
    let about = beside.rival.map_or("", |rival| rival.about.as_str());
    let turns: Vec<usize> =
        rows.iter().map(|row| row.ratios.len()).filter(|turns| *turns > 0).collect();
    let turns = match (turns.iter().min(), turns.iter().max()) {
        (Some(least), Some(most)) if least == most => counted(*most, "turn"),
        (Some(least), Some(most)) => format!("{least} to {most} turns"),
        _ => "no turn".to_owned(),
    };
    let caption = format!("{}: {}{turns}", beside.name, around("", about, "; "));
    let theirs = format!("#{}", beside.name);
    let headings =
        ["compared", "plumb's figure", "#plumb", &theirs, "#ratio", "#interval", "goal", "verdict"];
    Table::new(caption, &headings, rows.iter().map(|row| Row::always_shown(cells(row))))
}

fn cells(compared: &Compared<'_>) -> Vec<Cell> {
    let value =
        |value: Option<f64>| Cell::optional(value.map(|value| render(value, compared.row.unit)));
    vec![
        Cell::plain(compared.name()),
        Cell::plain(figure(compared)),
        value(compared.ours),
        value(compared.theirs),
        Cell::optional(compared.ratio.map(values::ratio)),
        Cell::optional(compared.interval.map(values::ratios)),
        Cell::optional(goal(compared.row.goal)),
        verdict(compared),
    ]
}

/// `os.syscall call=getppid: latency (value)`.
fn figure(compared: &Compared<'_>) -> String {
    let row = compared.row;
    let case = row.case.to_string().replace(',', ", ");
    let case = around(" ", &case, "");
    format!("{}{case}: {} ({})", row.experiment, words(&row.metric), row.statistic)
}

/// What a ratio should be; nothing where it is explained.
pub fn goal(goal: Goal) -> Option<&'static str> {
    match goal {
        Goal::AtLeast => Some("≥ 1.00"),
        Goal::AtLeastNearly => Some("≥ 0.95"),
        Goal::AtMost => Some("≤ 1.00"),
        Goal::Agree => Some("within 5 %"),
        Goal::Explained => None,
    }
}

fn verdict(compared: &Compared<'_>) -> Cell {
    let tone = match compared.verdict {
        Verdict::Met => Tone::Good,
        Verdict::Missed => Tone::Bad,
        Verdict::Explained => Tone::Plain,
        Verdict::Undecided | Verdict::NotJudged | Verdict::Absent => Tone::Muted,
    };
    let text = compared.verdict.text();
    match compared.verdict {
        Verdict::NotJudged => {
            let turns = counted(compared.ratios.len(), "turn");
            Cell::toned(format!("{text}: {turns}"), tone)
        }
        Verdict::Undecided => Cell::toned(format!("{text}: scatter"), tone),
        _ => Cell::toned(text, tone),
    }
}

/// What is known of the methods where figures disagree or were never meant to agree, each text
/// once.
fn differences(rows: &[&Compared<'_>]) -> Vec<Remark> {
    let texts =
        gathered(rows.iter().filter_map(|row| Some((difference(row)?, row.name())))).into_iter();
    let remark = |((severity, text), names): ((Severity, &str), Vec<String>)| {
        Remark::new(severity, names.join("; "), format!("{text}."))
    };
    texts.map(remark).collect()
}

/// How the methods differ, and how much that matters; nothing of figures that agree.
fn difference<'row>(row: &'row Compared<'_>) -> Option<(Severity, &'row str)> {
    let severity = match row.verdict {
        Verdict::Absent => return None,
        Verdict::Missed => Severity::Warning,
        Verdict::Explained => Severity::Note,
        _ if row.differs() => Severity::Note,
        Verdict::Met | Verdict::Undecided | Verdict::NotJudged => return None,
    };
    let text = match row.row.difference.trim() {
        "" => "no known difference in method",
        text => text.trim_end_matches('.'),
    };
    Some((severity, text))
}

/// What else had the CPUs in a pairing's turns.
fn disturbance(bout: &Bout<'_>) -> Option<Remark> {
    let text = bout.disturbance()?;
    Some(Remark::new(Severity::Note, &bout.pairing.name, format!("{text}.")))
}

/// A pairing that has not all its turns.
fn lack(bout: &Bout<'_>) -> Option<Remark> {
    let is_skipped = bout.end.is_some_and(|end| end.outcome == record::event::Ending::Skipped);
    let severity = match is_skipped {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let text = bout.lack()?;
    let text = text.trim_end_matches('.');
    Some(Remark::new(severity, &bout.pairing.name, format!("{text}.")))
}

/// Both commands of every pairing, as they can be typed, with what the rival's needs.
fn commands(beside: &Beside<'_>) -> Block {
    let of_pairing = |bout: &Bout<'_>| {
        let pairing = bout.pairing;
        let mut all = vec![("plumb".to_owned(), shell(&pairing.ours))];
        let inputs = pairing.inputs.iter();
        all.extend(inputs.map(|(file, text)| (format!("{DIR}/{file}"), one_line(text))));
        let prepare = pairing.prepare.iter();
        all.extend(prepare.map(|one| ("before".to_owned(), shell(one))));
        let server = pairing.server.iter();
        all.extend(server.map(|one| ("far end".to_owned(), shell(one))));
        all.push((beside.name.to_owned(), shell(&pairing.theirs)));
        let name = &pairing.name;
        let named = all.into_iter();
        named.map(|(what, text)| (format!("{name}: {what}"), text)).collect::<Vec<_>>()
    };
    let dirs = format!(
        "The tool runs in its own directory, shown as {DIR}. {FILES} is a directory on the \
         measured file system, {MEMORY} one in memory. They exist only during the comparison."
    );
    Block::Folded {
        summary: format!("Commands beside {}", beside.name),
        blocks: vec![
            Block::Paragraph(dirs),
            Block::KeyValues(beside.bouts.iter().flat_map(of_pairing).collect()),
        ],
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ⏎ ")
}

/// Rivals without any comparison, with the reason and what would help; an empty list without any.
fn without(all: &[Beside<'_>]) -> Option<Table> {
    let rows: Vec<Row> = all
        .iter()
        .filter(|beside| beside.bouts.is_empty())
        .map(|beside| {
            let rival = beside.rival;
            let why = match rival.and_then(|rival| rival.absent.as_ref()) {
                Some(absent) => match &absent.needed {
                    Some(needed) => format!("{}; {needed}", absent.reason),
                    None => absent.reason.clone(),
                },
                None => "installed, but no comparison with it was selected".to_owned(),
            };
            let about = rival.map_or("", |rival| rival.about.as_str());
            Row::always_shown([beside.name, about, &why].map(Cell::plain).into())
        })
        .collect();
    let headings = ["tool", "what it is", "why not"];
    (!rows.is_empty()).then(|| Table::new("Tools that were not compared", &headings, rows))
}

/// All ratios that are quantities, with their intervals and what meets their goals; none for fewer
/// than two.
fn plot(all: &[Beside<'_>]) -> Option<Plot> {
    let rows = rows_of(all);
    let drawn: Vec<(&Compared, f64)> = rows
        .iter()
        .filter_map(|row| {
            let ratio = row.ratio.filter(|ratio| *ratio > 0.0)?;
            Some((row, ratio))
        })
        .collect();
    let points: Vec<Point> = drawn
        .iter()
        .copied()
        .enumerate()
        .map(|(at, (row, ratio))| Point {
            x: at as f64,
            y: ratio,
            ends: row.interval.filter(|(low, _)| *low > 0.0),
            hover: format!("{}: {}", name(row), hover(row, ratio)),
        })
        .collect();
    let mut y = axis("", None, false);
    y.names = drawn.iter().map(|(row, _)| name(row)).collect();
    let all = extent(&points);
    let goals = drawn
        .iter()
        .zip(&points)
        .filter_map(|((row, _), point)| {
            Some(Point {
                y: 1.0,
                ends: Some(asked(row.row.goal, all)?),
                hover: String::new(),
                ..*point
            })
        })
        .collect();
    (points.len() > 1).then(|| {
        Plot::new(
            "plumb's figures over those of other tools; grey: the goals",
            axis("plumb / other tool", Some(Unit::Ratio), true),
            y,
            vec![
                Series::new("goal", Shape::Ranges, goals),
                Series::new("ratio", Shape::Bars, points),
            ],
        )
    })
}

/// From below the least to above the greatest of the ratios, and of what may be a goal.
fn extent(points: &[Point]) -> (f64, f64) {
    let drawn = points.iter().map(|point| point.ends.unwrap_or((point.y, point.y)));
    let all = drawn.chain([(*AGREE.start(), *AGREE.end())]);
    let (low, high) = ends(all.flat_map(|(low, high)| [low, high]));
    (low / BEYOND, high * BEYOND)
}

/// The ratios that a goal asks for, within an extent; none where it is explained.
fn asked(goal: Goal, (low, high): (f64, f64)) -> Option<(f64, f64)> {
    match goal {
        Goal::AtLeast => Some((1.0, high)),
        Goal::AtLeastNearly => Some((NEARLY_EQUAL, high)),
        Goal::AtMost => Some((low, 1.0)),
        Goal::Agree => Some((*AGREE.start(), *AGREE.end())),
        Goal::Explained => None,
    }
}

/// What stands beside a mark of the plot.
fn name(row: &Compared<'_>) -> String {
    row.label().replace(": ", " ")
}

fn hover(row: &Compared<'_>, ratio: f64) -> String {
    let interval = around(" ", &row.interval.map(values::ratios).unwrap_or_default(), "");
    let goal = around(", goal ", goal(row.row.goal).unwrap_or_default(), "");
    let verdict = row.verdict.text();
    format!("{}{interval}{goal}: {verdict}", values::ratio(ratio))
}
