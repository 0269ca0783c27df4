//! What designs of cores take and do: `designs.rows`.

use crate::range;
use crate::rows::table::{Row, Tables, read};
use host::Core;
use record::event::Range;
use std::sync::LazyLock;

/// The build has read them.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    read(include_str!("designs.rows")).unwrap_or_else(|why| panic!("designs.rows:{why}"))
});

/// A design's row of a table, else the one of this name; and whether it is the design's own.
pub(crate) fn row(table: &str, core: Core, otherwise: &str) -> (&'static Row, bool) {
    let design = format!("{core:?}");
    let find = |name: &str| TABLES[table].iter().find(|row| row.names.iter().any(|it| it == name));
    let own = find(&design);
    let found = own.or_else(|| find(otherwise));
    (found.unwrap_or_else(|| panic!("designs.rows: [{table}] has no {otherwise}")), own.is_some())
}

/// The only cell of a design's row, else of `any`.
pub(crate) fn cell(table: &str, core: Core) -> Range {
    row(table, core, "any").0.range(0)
}

/// The rows of a table.
pub(crate) fn table(name: &str) -> &'static [Row] {
    &TABLES[name]
}

impl Row {
    pub(crate) fn range(&self, column: usize) -> Range {
        let [low, likely, high] = self.cells[column];
        range(low, likely, high)
    }

    /// All cells of a row of so many.
    pub(crate) fn ranges<const COLUMNS: usize>(&self) -> [Range; COLUMNS] {
        std::array::from_fn(|column| self.range(column))
    }
}

#[cfg(test)]
mod tests {
    use super::TABLES;
    use host::Core;

    #[test]
    fn ranges_rise() {
        for (table, rows) in TABLES.iter().filter(|(table, _)| *table != "memory.move") {
            let cells = rows.iter().flat_map(|row| &row.cells);
            assert!(cells.into_iter().all(|cell| cell.is_sorted()), "[{table}]");
        }
    }

    #[test]
    fn every_name_is_a_design_a_default_or_a_kind() {
        let designs: Vec<String> = Core::ALL.iter().map(|core| format!("{core:?}")).collect();
        for (table, rows) in TABLES.iter().filter(|(table, _)| !is_named(table)) {
            for name in rows.iter().flat_map(|row| &row.names) {
                let is_default = ["any", "any_arm", "old"].contains(&&**name);
                assert!(is_default || designs.contains(name), "[{table}] {name}");
            }
        }
    }

    /// Whether a table is of names that other rows have in their cells.
    fn is_named(table: &str) -> bool {
        ["memory.kinds", "memory.reached"].contains(&table)
    }
}
