//! Figures of a published machine beside the nearest ones, in the formats for other tools.

use crate::compare_csv;
use analysis::compare::{Measured, compare};
use analysis::history::History;
use analysis::{figures, sample};
use record::key::CaseId;
use std::collections::BTreeMap;

#[test]
fn a_published_figure_and_the_nearest_one_are_a_row_whichever_run_is_the_base() {
    let (mut published, own) = (sample::run(), sample::run());
    published.header.options.preset = "published".into();
    published.header.run = "printed".into();
    let own_figures = figures(&own);
    let nearest = own_figures.iter().find(|one| one.value.is_some() && one.key().is_some());
    let nearest = nearest.unwrap();
    let label = nearest.label();
    let mut printed = figures(&published);
    printed.retain(|figure| figure.label() == label);
    printed[0].case = CaseId::new().with("as_reported", "by_hand");
    printed[0].value = Some(3.0);
    let differs = "counts the loop as well";
    for (name, text) in [
        ("nearest", &*label),
        ("nearest_differs", differs),
        ("nearest_moves", "up"),
        ("printed", "3 cycles"),
    ] {
        printed[0].at.insert(name.to_owned(), text.into());
    }
    for (side, other) in [("base", "new"), ("new", "base")] {
        let mut runs = [
            Measured { run: &published, figures: printed.clone() },
            Measured { run: &own, figures: own_figures.clone() },
        ];
        if side == "new" {
            runs.reverse();
        }
        let comparison = compare(&runs, &History::default()).unwrap();
        let text = compare_csv::render(&comparison);
        let rows = csv::Reader::from_reader(text.as_bytes())
            .into_deserialize()
            .collect::<Result<Vec<BTreeMap<String, String>>, _>>()
            .unwrap();
        let mut rows = rows.iter().filter(|row| row["outcome"] == "nearest");
        let (row, rest) = (rows.next().unwrap(), rows.next());
        assert!(rest.is_none());
        assert_eq!(
            (row["case"].as_str(), row["nearest"].as_str()),
            ("as_reported=by_hand", &*label)
        );
        assert_eq!(row["experiment"], nearest.experiment);
        assert_eq!(row["unit"], nearest.unit().text());
        assert_eq!(row[&format!("{side}_run")], "printed");
        assert_eq!(row[side].parse::<f64>(), Ok(3.0));
        assert_eq!(row[other].parse::<f64>().ok(), nearest.value);
        assert_eq!([&row["printed"], &row["differs"], &row["moves"]], ["3 cycles", differs, "up"]);
        // Nothing is judged.
        assert!([&row["ratio"], &row["p"], &row["direction"]].iter().all(|cell| cell.is_empty()));
    }
}
