//! Tables of designs of cores as text. The build script reads them with this module too.
//!
//! `[section]` begins a table. `Design Design = cells | note` is a row: a cell is a number, a range
//! (`low/likely/high`), three numbers that fall, or the name of a row above, whose first cell it is.

use std::collections::BTreeMap;

#[derive(Debug, PartialEq)]
pub struct Row {
    /// The designs, or a name.
    pub names: Vec<String>,
    pub cells: Vec<[f64; 3]>,
    pub note: String,
}

/// Rows by the name of their section.
pub type Tables = BTreeMap<String, Vec<Row>>;

/// The tables of a text. Errors: the line, and what is wrong in it.
pub fn read(text: &str) -> Result<Tables, String> {
    let mut tables = Tables::new();
    let mut section = String::new();
    for (nth, line) in text.lines().map(str::trim).enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let read = row(line, &tables, tables.get(&section).map_or(&[], Vec::as_slice));
            let row = read.map_err(|why| format!("{}: {why}", nth + 1))?;
            tables.entry(section.clone()).or_default().push(row);
        }
    }
    Ok(tables)
}

/// A row of a table, of which some stand above.
fn row(line: &str, tables: &Tables, above: &[Row]) -> Result<Row, String> {
    let (names, rest) = line.split_once('=').ok_or("a row is `Design Design = cells | note`")?;
    let (cells, note) = rest.split_once('|').unwrap_or((rest, ""));
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    let twice = names.iter().find(|name| above.iter().any(|row| row.names.contains(name)));
    if let Some(name) = twice {
        return Err(format!("{name} stands twice in its table"));
    }
    let read = |text| cell(text, tables).ok_or_else(|| format!("{text} is no cell"));
    let cells = cells.split_whitespace().map(read).collect::<Result<Vec<_>, _>>()?;
    let count = above.first().map_or(cells.len(), |first| first.cells.len());
    if count != cells.len() {
        return Err(format!("{} cells, not {count}", cells.len()));
    }
    Ok(Row { names, cells, note: note.trim().to_owned() })
}

fn cell(text: &str, tables: &Tables) -> Option<[f64; 3]> {
    let numbers: Option<Vec<f64>> = text.split('/').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([one]) => Some([*one; 3]),
        Some([a, b, c]) if a <= b && b <= c || a >= b && b >= c => Some([*a, *b, *c]),
        Some(_) => None,
        None => {
            let named = tables.values().flatten().find(|row| row.names == [text]);
            named.and_then(|row| row.cells.first().copied())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn cells_are_numbers_ranges_and_names() {
        let text = "# kinds\n[kinds]\nDDR = 1/2/3\n[x]\nZen Zen2 = 4 2/1/0.5 DDR | a note\n";
        let tables = read(text).expect("it is right");
        let row = &tables["x"][0];
        assert_eq!(row.cells, [[4.0; 3], [2.0, 1.0, 0.5], [1.0, 2.0, 3.0]]);
        assert_eq!((&*row.names, &*row.note), (&["Zen", "Zen2"].map(str::to_owned)[..], "a note"));
    }

    #[test]
    fn an_error_has_its_line() {
        for (row, what) in [
            ("Zen 4", "a row is"),
            ("Zen = 3/1/2", "3/1/2 is no cell"),
            ("Zen = 1/2", "1/2 is no cell"),
            ("Zen = DDR9", "DDR9 is no cell"),
            ("Zen = 1\nZen2 Zen = 2", "Zen stands twice"),
            ("Zen = 1\nZen2 = 2 3", "2 cells, not 1"),
        ] {
            let why = read(&format!("[x]\n{row}")).expect_err(row);
            let line = 1 + row.lines().count();
            assert!(why.starts_with(&format!("{line}: {what}")), "{row}: {why}");
        }
    }
}
