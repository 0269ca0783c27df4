//! What lmbench's programs print, nearly all of it on standard error: a line with a label and a
//! unit, or rows of numbers without either.

use crate::Output;
use crate::read::ZERO;

/// lmbench's MB.
const MB: f64 = 1e6;
/// What lat_usleep is asked to sleep, in ns.
const SLEEP_NS: f64 = 1e6;

/// A value in ns, B/s: `what` is the label of a line, or the program whose rows of numbers it means
/// and the row.
pub(super) fn parse(said: &Output, what: &str) -> Result<f64, String> {
    let mut words = what.split(' ');
    let (program, row) = (words.next().unwrap_or_default(), words.next());
    match program {
        // Processes, and microseconds of a switch; it leaves out what is not positive.
        "lat_ctx" => Ok(of_row(said, row, 2)?[1] * 1e3),
        // Footprint in MiB, and nanoseconds of a load.
        "lat_mem_rd" => Ok(of_row(said, row, 2)?[1]),
        // Megabytes, and megabytes a second.
        "bw_mem" | "bw_file_rd" => Ok(of_row(said, None, 2)?[1] * MB),
        // Megabytes, and megabytes a second with their unit.
        "bw_tcp" => {
            let rest = lines(said).filter_map(|line| line.strip_suffix(" MB/sec"));
            Ok(numbers_of(rest, None, 2)?[1] * MB)
        }
        // Kilobytes, files, and how many a second are made and removed.
        "lat_fs" => {
            let columns = of_fs(said)?;
            match row {
                Some("create") => Ok(1e9 / columns[0]),
                Some("delete") => Ok(1e9 / columns[1]),
                _ => Err(format!("lat_fs prints no {}", row.unwrap_or("such thing"))),
            }
        }
        // The label ends in the file's path.
        "lat_pagefault" => {
            let rest = lines(said).filter_map(|line| line.strip_prefix("Pagefaults on "));
            let rest = only(rest, || "no line `Pagefaults on …`".to_owned())?;
            let (_, value) = rest.rsplit_once(": ").ok_or("no value behind the file's path")?;
            measured("Pagefaults", value)
        }
        "lat_usleep" => Ok(labelled(said, "usleep 1000 microseconds")? - SLEEP_NS),
        _ => labelled(said, what),
    }
}

/// What the programs say, line by line: all results are on standard error.
fn lines(said: &Output) -> impl Iterator<Item = &str> {
    said.stderr.lines().map(str::trim)
}

/// The number behind a label, in ns or B/s by the unit that follows it; there must be one such
/// line.
fn labelled(said: &Output, label: &str) -> Result<f64, String> {
    let rest = lines(said).filter_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
    let rest = only(rest, || format!("no line `{label}: …`"))?;
    measured(label, rest)
}

/// A number and its unit, in ns or B/s.
fn measured(label: &str, text: &str) -> Result<f64, String> {
    let mut words = text.split_whitespace();
    let value = number(words.next().unwrap_or_default())?;
    let unit: Vec<&str> = words.collect();
    match unit.as_slice() {
        ["microseconds"] => Ok(value * 1e3),
        ["nanoseconds"] => Ok(value),
        ["MB/sec"] => Ok(value * MB),
        _ => Err(format!("{label} in an unknown unit: {:?}", unit.join(" "))),
    }
}

/// The row of so many numbers that begins with `first`; without it the only one.
fn of_row(said: &Output, first: Option<&str>, columns: usize) -> Result<Vec<f64>, String> {
    numbers_of(lines(said), first, columns)
}

fn numbers_of<'a>(
    lines: impl Iterator<Item = &'a str>,
    first: Option<&str>,
    columns: usize,
) -> Result<Vec<f64>, String> {
    let rows = lines.filter(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() == columns
            && words.iter().all(|word| number(word).is_ok())
            && first.is_none_or(|first| words[0] == first)
    });
    let row = only(rows, || match first {
        Some(first) => format!("no row of {columns} numbers begins with {first}"),
        None => format!("no row of {columns} numbers"),
    })?;
    row.split_whitespace().map(number).collect()
}

/// Files made and removed a second.
fn of_fs(said: &Output) -> Result<[f64; 2], String> {
    let rows = lines(said).filter(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() == 4 && words[0].ends_with('k')
    });
    let row = only(rows, || "no row of a size, files, creations and removals".to_owned())?;
    let values: Result<Vec<f64>, String> = row.split_whitespace().skip(2).map(number).collect();
    match values?.as_slice() {
        [made, removed] if *made > 0.0 && *removed > 0.0 => Ok([*made, *removed]),
        [0.0, _] | [_, 0.0] => Err(ZERO.to_owned()),
        _ => Err("lat_fs could not measure (-1)".to_owned()),
    }
}

fn only<'a>(
    mut found: impl Iterator<Item = &'a str>,
    missed: impl Fn() -> String,
) -> Result<&'a str, String> {
    let one = found.next().ok_or_else(&missed)?;
    match found.next() {
        None => Ok(one),
        Some(_) => Err(format!("several where one is expected: {one:?} and more")),
    }
}

fn number(word: &str) -> Result<f64, String> {
    let is_plain = word.chars().all(|letter| letter.is_ascii_digit() || "-.".contains(letter));
    let value = word.parse::<f64>().ok().filter(|value| is_plain && value.is_finite());
    value.ok_or_else(|| format!("{word:?} is not a number"))
}
