//! What the machine is good and bad at, compared with other machines; and the report's sources.

use crate::document::{Block, Cell, Row, Section, Table, Tone};
use crate::values::{self, counted};
use analysis::among::{Machine, Standing, standings};
use analysis::figure::Figure;
use analysis::gather::distinct;
use analysis::names::around;
use record::quantity::digits;
use record::run::Run;

/// Closer factors are no difference between machines.
const EQUAL: f64 = 1.05;

/// Experiments that a sentence names.
const NAMED: usize = 4;

/// The conclusions; `None` where no other machine has any of the figures.
pub fn section(figures: &[Figure], others: &[Machine]) -> Option<Section> {
    let standings = standings(figures, others);
    let figures: usize = standings.iter().map(|one| one.figures).sum();
    if standings.is_empty() {
        return None;
    }
    let machines = distinct(standings.iter().flat_map(|one| &one.machines).cloned());
    let beside = format!(
        "{} of this run and of {} have the same key, so the operation is the same. The machines of \
         published reports are from 2006 to 2015; plumb measured the others (Sources). The factor is \
         the geometric mean over an experiment's figures, each compared with the median of the \
         machines that have it.",
        counted(figures, "figure"),
        counted(machines.len(), "other machine")
    );
    let blocks =
        [Block::text(sentences(&standings)), Block::text(beside), Block::Table(table(&standings))];
    let heading = "What this machine is good and bad at";
    Some(Section::new("conclusions", heading, blocks.map(Block::on_page).to_vec()))
}

fn sentences(standings: &[Standing]) -> String {
    let list = |some: Vec<&Standing>| -> String {
        let each = some.iter().map(|one| format!("{} ({})", one.experiment, times(one.factor).0));
        each.collect::<Vec<_>>().join(", ")
    };
    let better = standings.iter().filter(|one| one.factor >= EQUAL).count();
    let good = list(standings.iter().take(NAMED.min(better)).collect());
    let worse: Vec<&Standing> =
        standings.iter().rev().filter(|one| one.factor <= EQUAL.recip()).collect();
    let good = match good.is_empty() {
        true => "Good at: nothing; the other machines are as good or better everywhere.".to_owned(),
        false => format!("Good at: {good}."),
    };
    let bad = match (worse.is_empty(), standings.last()) {
        (true, Some(last)) => format!(
            "Bad at: nothing; it is least ahead in {} ({}).",
            last.experiment,
            times(last.factor).0
        ),
        _ => format!("Bad at: {}.", list(worse.into_iter().take(NAMED).collect())),
    };
    format!("{good} {bad}")
}

/// How many times better or worse, and what that is.
fn times(factor: f64) -> (String, Tone) {
    match factor {
        EQUAL.. => (format!("{}× better", digits(factor)), Tone::Good),
        _ if factor > EQUAL.recip() => ("equal within 5 %".to_owned(), Tone::Plain),
        _ => (format!("{}× worse", digits(factor.recip())), Tone::Warn),
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
        let (factor, tone) = times(one.factor);
        Row::of(vec![
            Cell::plain(&one.experiment),
            Cell::plain(one.figures.to_string()),
            Cell::toned(factor, tone),
            Cell::plain(example.label.replace(',', ", ")),
            Cell::plain(plain(example.value)),
            Cell::plain(others.join(", ")),
        ])
    });
    let headings =
        ["experiment", "#figures", "#factor", "typical figure", "#here", "other machines"];
    Table::new("Compared with the other machines, best first", &headings, rows)
}

/// The name of a machine without its collection.
fn short(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

/// What the report rests on.
pub fn sources(run: &Run, others: &[Machine]) -> Section {
    let header = &run.header;
    let build = around(", sources ", &header.build, "");
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
    pairs.extend(others.iter().map(|machine| (machine.name.clone(), machine.source.clone())));
    Section::new("sources", "Sources", vec![Block::KeyValues(pairs).on_page()])
}

#[cfg(test)]
mod tests {
    use super::{section, sources};
    use crate::document::{Block, Section, Tone};
    use analysis::among::Machine;
    use analysis::figure::Figure;
    use analysis::{figures, sample};
    use std::collections::BTreeMap;

    /// A machine that has one of the sample's figures, so many times as great.
    fn machine(figure: &Figure, factor: f64) -> Machine {
        let (key, value) = (figure.key().expect("a key"), figure.value.expect("was measured"));
        Machine {
            name: "published/old".to_owned(),
            source: "R9: a thesis".to_owned(),
            values: BTreeMap::from([(key, factor * value)]),
        }
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
            let table = crate::tests::tables([section]).next();
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
