//! What the machine is good and bad at, compared with other machines; and the report's sources.

use crate::document::{Block, Cell, Row, Section, Table, Tone};
use crate::values;
use analysis::among::{Example, Machine, Standing};
use analysis::names::around;
use record::order::{Gather, InOrder};
use record::quantity::digits;
use record::run::Run;
use std::collections::BTreeSet;

/// Closer factors are no difference between machines.
const EQUAL: f64 = 1.05;

/// Machines that a cell names beside a figure; of more it names the ends and the middle.
const SHOWN: usize = 4;

/// The conclusions; `None` where no other machine has any of the figures.
pub fn section(standings: &[Standing]) -> Option<Section> {
    let blocks = vec![Block::Table(table(standings)).on_page()];
    let heading = "What this machine is good and bad at";
    (!standings.is_empty()).then(|| Section::new("conclusions", heading, blocks))
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
        let shown = shown(example);
        let others = shown.iter().map(|(name, value)| format!("{} {}", plain(*value), short(name)));
        let mut text = others.collect::<Vec<_>>().join(", ");
        if shown.len() < example.others.len() {
            text = format!("least, median and most of {}: {text}", example.others.len());
        }
        let (factor, tone) = times(one.factor);
        Row::always_shown(vec![
            Cell::plain(&one.experiment),
            Cell::plain(one.figures.to_string()),
            Cell::toned(factor, tone),
            Cell::plain(example.label.replace(',', ", ")),
            Cell::plain(plain(example.value)),
            Cell::plain(text),
        ])
    });
    let headings =
        ["experiment", "#figures", "#factor", "typical figure", "#here", "other machines"];
    let caption = "Compared with the other machines that have the same figures, best first; the factor is \
        the geometric mean over an experiment's figures, each compared with the median of the machines";
    Table::new(caption, &headings, rows)
}

/// The machines that stand beside an example: all, or of many the least, the median and the most.
fn shown(example: &Example) -> Vec<&(String, f64)> {
    let mut others: Vec<_> = example.others.iter().collect();
    if others.len() > SHOWN {
        others.order_by(|(_, one), (_, other)| one.total_cmp(other));
        others = vec![others[0], others[(others.len() - 1) / 2], others[others.len() - 1]];
    }
    others
}

/// The name of a machine without its collection.
fn short(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

/// What the report rests on: of the other machines those that the conclusions name.
pub fn sources(run: &Run, standings: &[Standing], others: &[Machine]) -> Section {
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
    let named: BTreeSet<&str> = standings
        .iter()
        .flat_map(|one| shown(&one.example))
        .map(|(name, _)| name.as_str())
        .gather();
    let named = others.iter().filter(|machine| named.contains(machine.name.as_str()));
    pairs.extend(named.map(|machine| (machine.name.clone(), machine.source.clone())));
    Section::new("sources", "Sources", vec![Block::KeyValues(pairs).on_page()])
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, section, shown, sources};
    use crate::document::{Block, Section, Tone};
    use analysis::among::{Machine, standings};
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
        let beside = standings(&all, &published);
        let found = section(&beside).expect("both are shared");
        assert_eq!(tones(&found), [Tone::Good, Tone::Warn]);
        assert!(section(&[]).is_none());
        let sources = sources(&run, &beside, &published);
        let Some((_, Block::KeyValues(pairs))) = sources.blocks.first() else {
            panic!("sources are named");
        };
        assert!(pairs.contains(&("published/old".to_owned(), "R9: a thesis".to_owned())));
    }

    #[test]
    fn of_many_machines_the_ends_and_the_middle_are_named_and_have_their_sources() {
        let run = sample::run();
        let all = figures(&run);
        let call = all.iter().find(|one| one.experiment == "os.syscall" && one.value.is_some());
        let call = call.expect("was measured");
        let of = |at: u32| {
            let name = format!("sheet/{at}");
            Machine { name, ..machine(call, f64::from(at)) }
        };
        for (count, names) in [(SHOWN as u32, vec![3, 1, 4, 2]), (5, vec![1, 3, 5])] {
            let mut others: Vec<Machine> = [3, 1, 4, 2, 5].map(of).into();
            others.truncate(count as usize);
            let beside = standings(&all, &others);
            let named: Vec<String> = names.iter().map(|at| format!("sheet/{at}")).collect();
            let found: Vec<_> = shown(&beside[0].example).iter().map(|one| &one.0).collect();
            assert_eq!(found, named.iter().collect::<Vec<_>>());
            let sources = sources(&run, &beside, &others);
            let Some((_, Block::KeyValues(pairs))) = sources.blocks.first() else {
                panic!("sources are named");
            };
            let sheets = pairs.iter().filter(|(name, _)| name.starts_with("sheet/"));
            assert_eq!(sheets.count(), named.len());
        }
    }
}
