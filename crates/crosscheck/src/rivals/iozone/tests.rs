use super::{RIVAL, TABLE, parse};
use crate::tests::said;

const OLDER: &str = include_str!("../../testdata/iozone/3.471-direct.txt");
const NEWER: &str = include_str!("../../testdata/iozone/3.508-direct.txt");

fn table(text: &str) -> Vec<f64> {
    let row = text.lines().find(|line| line.trim().starts_with("16384"));
    let cells = row.expect("a table").split_whitespace().skip(2);
    cells.map(|cell| cell.parse().expect("a rate")).collect()
}

#[test]
fn the_reports_say_what_the_table_says() {
    for text in [OLDER, NEWER] {
        // The first is the first write.
        let table = table(text);
        assert_eq!(table.len(), 1 + TABLE[0].readings.len());
        for (report, kib_per_s) in TABLE[0].readings.iter().zip(&table[1..]) {
            assert_eq!(parse(&said(text), report.pattern), Ok(kib_per_s * 1024.0));
        }
    }
}

#[test]
fn anything_else_is_refused() {
    let title = TABLE[0].readings[1].pattern;
    let cut = OLDER.split_once("\"Reader report\"").expect("it has one").0;
    for broken in [
        "",
        "Excel output is below:",
        // Of two lengths, of another size.
        &OLDER.replace("\"4\"", "\"4\" \"8\""),
        &OLDER.replace("\"16384\"", "\"512\""),
        &format!("{cut}\"{title}\"\n\"4\"\n\"16384\""),
        &format!("{cut}\"{title}\"\n\"4\"\n\"16384\" x"),
    ] {
        parse(&said(broken), title).expect_err(broken);
    }
}

#[test]
fn the_version_is_its_revision() {
    assert_eq!((RIVAL.version)(&said(OLDER)), Some("3.471".to_owned()));
    let told =
        "       'Iozone' Filesystem Benchmark Program\n \n        Version $Revision: 3.508 $\n";
    assert_eq!((RIVAL.version)(&said(told)), Some("3.508".to_owned()));
    assert_eq!((RIVAL.version)(&said("iozone: command")), None);
}
