//! Experiments that time the same operation run the same code. The table is one with
//! scripts/agree/same-operation, which compares their figures: selector and metric of both, by
//! tabs.

use crate::find;
use bench::experiment::fixtures::sites;
use bench::experiment::{Fields, Preset};
use exp_core::clock::read::Read;
use exp_os::os::syscall::{Call, Called};
use metal::kernel::ClockRead;
use record::case::Case;
use session::fixtures::params;

const TABLE: &str = include_str!("same_operation.tsv");

/// Two selectors with a metric each.
fn rows() -> Vec<[[&'static str; 2]; 2]> {
    let row = |line: &'static str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [one, of_one, other, of_other] = fields[..] else {
            panic!("{line} has {} fields", fields.len())
        };
        [[one, of_one], [other, of_other]]
    };
    TABLE.lines().map(row).collect()
}

/// Experiment and case of a selector, as standard offers it at some site.
fn case_of(selector: &str) -> (&str, Case) {
    let (id, filter) = selector.split_once(':').expect("an experiment and a case");
    let experiment = find(id).expect("it is in the catalogue");
    let offers = sites().into_iter().filter_map(|site| {
        let params = params(experiment.card(), Preset::Standard, &[]);
        experiment.series(&site, &params).ok()
    });
    let mut cases = offers.flat_map(|offer| offer.series).flat_map(|series| series.cases);
    let case = cases.find(|case| case.id.to_string() == filter);
    (id, case.unwrap_or_else(|| panic!("{selector} is offered nowhere")))
}

/// Where the code that a case times lies.
fn body(experiment: &str, case: &Case) -> Option<usize> {
    match experiment {
        "clock.read" => Some(*Read::from_id(&case.id)?.clock.row()),
        "os.syscall" => Called::from_id(&case.id)?.call.clock(),
        _ => None,
    }
    .and_then(ClockRead::body)
}

#[test]
fn the_same_operation_is_the_same_code() {
    for [one, other] in rows() {
        let bodies = [one, other].map(|[selector, metric]| {
            let (id, case) = case_of(selector);
            let card = find(id).expect("it is in the catalogue").card();
            assert!(card.metrics.iter().any(|known| known.name == metric), "{selector} {metric}");
            body(id, &case).unwrap_or_else(|| panic!("the code of {selector} is unknown"))
        });
        assert_eq!(bodies[0], bodies[1], "{} and {}", one[0], other[0]);
    }
}

/// What os.syscall says that clock.read measured too stands in the table.
#[test]
fn no_call_of_a_clock_lacks_its_row() {
    let rows = rows();
    for call in Call::ALL.iter().filter(|call| call.clock().is_some()) {
        let selector = format!("os.syscall:call={}", call.text());
        assert!(rows.iter().any(|[_, other]| other[0] == selector), "{selector}");
    }
}
