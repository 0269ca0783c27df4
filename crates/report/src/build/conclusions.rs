//! What the machine is good and bad at, beside the machines of published reports; and the report's
//! sources.

use crate::document::{Block, Cell, Row, Section, Table, Tone};
use crate::values::{self, counted};
use analysis::among::{Standing, standings};
use analysis::figure::Figure;
use analysis::gather::distinct;
use record::quantity::digits;
use record::run::Run;

/// Experiments that a sentence names.
const NAMED: usize = 4;

/// The conclusions; `None` where no published machine has any of the figures.
pub fn section(figures: &[Figure], published: &[Run]) -> Option<Section> {
    let standings = standings(figures, published);
    let figures: usize = standings.iter().map(|one| one.figures).sum();
    if standings.is_empty() {
        return None;
    }
    let machines = distinct(standings.iter().flat_map(|one| &one.machines).cloned());
    let beside = format!(
        "{} of this run and of {} have the same key: the operation is the same, the machines are from \
         2006 to 2015. The factor is the geometric mean over an experiment's figures, each against the \
         median of the machines that have it.",
        counted(figures, "figure"),
        counted(machines.len(), "published machine")
    );
    let blocks =
        [Block::text(sentences(&standings)), Block::text(beside), Block::Table(table(&standings))];
    let heading = "What this machine is good and bad at";
    Some(Section::new("conclusions", heading, blocks.map(Block::on_page).to_vec()))
}

fn sentences(standings: &[Standing]) -> String {
    let list = |some: Vec<&Standing>| -> String {
        let each = some.iter().map(|one| format!("{} ({})", one.experiment, times(one.factor)));
        each.collect::<Vec<_>>().join(", ")
    };
    let better = standings.iter().filter(|one| one.factor >= 1.0).count();
    let good = list(standings.iter().take(NAMED.min(better)).collect());
    let worse: Vec<&Standing> = standings.iter().rev().filter(|one| one.factor < 1.0).collect();
    let good = match good.is_empty() {
        true => "Good at: nothing; the published machines are better everywhere.".to_owned(),
        false => format!("Good at: {good}."),
    };
    let bad = match (worse.is_empty(), standings.last()) {
        (true, Some(last)) => format!(
            "Bad at: nothing; it is least ahead in {} ({}).",
            last.experiment,
            times(last.factor)
        ),
        _ => format!("Bad at: {}.", list(worse.into_iter().take(NAMED).collect())),
    };
    format!("{good} {bad}")
}

fn times(factor: f64) -> String {
    match factor >= 1.0 {
        true => format!("{}× better", digits(factor)),
        false => format!("{}× worse", digits(1.0 / factor)),
    }
}

fn table(standings: &[Standing]) -> Table {
    let rows = standings.iter().map(|one| {
        let example = &one.example;
        let plain = |value: f64| values::plain(value, example.unit);
        let others: Vec<String> = example
            .others
            .iter()
            .map(|(name, value)| format!("{} {}", plain(*value), short(name)))
            .collect();
        let tone = if one.factor >= 1.0 { Tone::Good } else { Tone::Warn };
        Row::of(vec![
            Cell::plain(&one.experiment),
            Cell::plain(one.figures.to_string()),
            Cell::toned(times(one.factor), tone),
            Cell::plain(example.label.replace(',', ", ")),
            Cell::plain(plain(example.value)),
            Cell::plain(others.join(", ")),
        ])
    });
    let headings =
        ["experiment", "#figures", "#factor", "typical figure", "#here", "published machines"];
    Table::new("Compared with the published machines, best first", &headings, rows)
}

/// A published machine without what all their names begin with.
fn short(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

/// What the report rests on.
pub fn sources(run: &Run, published: &[Run]) -> Section {
    let header = &run.header;
    let build = match header.build.is_empty() {
        true => String::new(),
        false => format!(", sources {}", header.build),
    };
    let pair = |name: &str, text: String| (name.to_owned(), text);
    let mut pairs = vec![
        pair("record", format!("{} (format {})", header.run, header.format)),
        pair(
            "program",
            format!("plumb {}{build}, {}, {}", header.plumb, header.rustc, header.target),
        ),
        pair(
            "method",
            "the section on method of this report; the manual of each experiment (`plumb explain ID`)".to_owned(),
        ),
        pair(
            "predictions",
            "recorded before the first sample of their case, each with its reason".to_owned(),
        ),
    ];
    let reports = published.iter().filter_map(|run| {
        let report = run.header.environment.get("report")?;
        Some((run.header.run.clone(), report.clone()))
    });
    pairs.extend(reports);
    Section::new("sources", "Sources", vec![Block::KeyValues(pairs).on_page()])
}

#[cfg(test)]
mod tests {
    use super::{section, sources};
    use crate::document::{Block, Section, Tone};
    use analysis::figure::Figure;
    use analysis::{figures, sample};
    use record::event::{Derived, Event};
    use record::run::Run;
    use std::collections::BTreeMap;

    /// A machine that prints one of the sample's figures, so many times as great.
    fn machine(figure: &Figure, factor: f64) -> Run {
        let mut run = Run::new(sample::header());
        run.header.run = "published/old".to_owned();
        run.header.environment.insert("report".to_owned(), "R9: a thesis".to_owned());
        run.push(Event::Derived(Derived {
            experiment: figure.experiment.clone(),
            case: figure.case.clone(),
            metric: figure.metric_name().to_owned(),
            value: factor * figure.value.expect("was measured"),
            ci: None,
            confidence: None,
            presence: 1.0,
            at: BTreeMap::new(),
            notes: Vec::new(),
        }));
        run
    }

    #[test]
    fn what_is_better_and_what_is_worse_is_concluded() {
        let run = sample::run();
        let all = figures(&run);
        let of = |id: &str| {
            let mut own = all.iter().filter(|one| one.experiment == id && one.value.is_some());
            own.next().expect("was measured")
        };
        let (call, ladder) = (of("os.syscall"), of("memory.latency"));
        let tones = |section: &Section| -> Vec<Tone> {
            let table = section.blocks.iter().find_map(|(_, block)| match block {
                Block::Table(table) => Some(table),
                _ => None,
            });
            table.expect("a table").rows.iter().map(|row| row.cells[2].tone).collect()
        };
        let published = [machine(call, 8.0), machine(ladder, 0.25)];
        let found = section(&all, &published).expect("both are shared");
        assert_eq!(tones(&found), [Tone::Good, Tone::Warn]);
        assert!(section(&all, &[]).is_none());
        let sources = sources(&run, &published);
        let Some((_, Block::KeyValues(pairs))) = sources.blocks.first() else {
            panic!("sources are named");
        };
        assert!(pairs.contains(&("published/old".to_owned(), "R9: a thesis".to_owned())));
    }
}
