//! Instances of clouds as machines: what the public data set sc-inspector-data of Spare Cores
//! (github.com/SpareCores/sc-inspector-data, CC BY-SA 4.0) states of one becomes a sheet. Its rows are
//! not in the repository: they come from a user's clone, or from a file with an instance a line.

mod describe;
mod measured;
#[cfg(test)]
pub mod tests;

use super::Sheet;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, Deserialize)]
pub struct Instance {
    /// Provider and instance type: `aws/m7i.large`.
    pub id: String,
    /// What lscpu prints, sizes of caches in bytes.
    pub lscpu: BTreeMap<String, String>,
    pub membench: Vec<Row>,
    pub membench_meta: Option<Meta>,
    /// stress-ng's stressors: operations a second by number of instances.
    #[serde(default)]
    pub stressng: BTreeMap<String, BTreeMap<String, f64>>,
    pub stressng_meta: Option<Meta>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "(u64, String, f64, f64, f64, u64)")]
pub struct Row {
    pub size_kib: u64,
    pub operation: String,
    /// Of all threads together; 0 in rows of latency.
    pub mib_per_s: f64,
    /// 0 in rows of bandwidth.
    pub latency_ns: f64,
    pub threads: u64,
}

impl From<(u64, String, f64, f64, f64, u64)> for Row {
    fn from(
        (size_kib, operation, mib_per_s, latency_ns, _deviation, threads): (
            u64,
            String,
            f64,
            f64,
            f64,
            u64,
        ),
    ) -> Row {
        Row { size_kib, operation, mib_per_s, latency_ns, threads }
    }
}

/// Where and when a tool ran.
#[derive(Clone, Debug, Deserialize)]
pub struct Meta {
    pub version: Option<String>,
    pub kernel_version: Option<String>,
    pub start: Option<String>,
}

/// The file of a folder of the data set.
const LSCPU: &str = "lscpu";
const MEMBENCH: &str = "membench";
const STRESSNG: &str = "stressng_benchmarks";

impl Instance {
    /// From a line of a file with an instance a line. Errors: what is wrong with it.
    #[cfg(test)]
    fn from_line(line: &str) -> Result<Instance, String> {
        serde_json::from_str(line).map_err(|error| format!("no instance: {error}"))
    }

    /// From a clone of the data set. Errors: a file is missing or has another form.
    pub fn from_clone(clone: &Path, id: &str) -> Result<Instance, String> {
        let folder = clone.join("data").join(id);
        if !folder.is_dir() {
            return Err(format!(
                "{} has no folder data/{id}: give the directory of a clone of sc-inspector-data, and \
                 an instance type as it names its folders, for example aws/m7i.large",
                clone.display()
            ));
        }
        let file = |tool: &str, name: &str| {
            let path = folder.join(tool).join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let meta = |tool: &str| serde_json::from_str(&file(tool, "meta.json").ok()?).ok();
        let stressng = match file(STRESSNG, "stdout") {
            Ok(text) => rates(&text).map_err(|why| format!("{STRESSNG}/stdout of {id}: {why}"))?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Instance {
            id: id.to_owned(),
            lscpu: printed(&file(LSCPU, "stdout")?)
                .map_err(|why| format!("{LSCPU}/stdout of {id}: {why}"))?,
            membench: table(&file(MEMBENCH, "stdout")?)
                .map_err(|why| format!("{MEMBENCH}/stdout of {id}: {why}"))?,
            membench_meta: meta(MEMBENCH),
            stressng,
            stressng_meta: meta(STRESSNG),
        })
    }

    /// The machine with its figures. Errors: what is missing or impossible.
    pub fn sheet(&self) -> Result<Sheet, String> {
        let host = describe::host(self)?;
        let figures = measured::figures(self, &host)?;
        let meta = self.stressng_meta.as_ref().or(self.membench_meta.as_ref());
        let date = meta.and_then(|meta| meta.start.as_deref()).and_then(|start| start.get(..10));
        let sheet = Sheet {
            source: format!(
                "sc-inspector-data by Spare Cores (github.com/SpareCores/sc-inspector-data, CC BY-SA \
                 4.0), data/{}, {}: lscpu, sc-membench, stress-ng",
                self.id,
                date.unwrap_or("undated"),
            ),
            cpus: host.cpu.usable(),
            host,
            figures,
            report: None,
        };
        sheet.checked().map_err(|(_, why)| why)
    }
}

/// Instances by the lines of a text. Errors: the number of a line, and what is wrong with it.
#[cfg(test)]
pub fn instances(text: &str) -> Result<Vec<Instance>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let all: Vec<Instance> = lines
        .map(|(nth, line)| {
            Instance::from_line(line).map_err(|why| format!("line {}: {why}", nth + 1))
        })
        .collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err("line 1: no instance; each line describes one as a JSON object".to_owned()),
        false => Ok(all),
    }
}

/// What lscpu printed, as lines or as JSON. Errors: it is neither.
fn printed(text: &str) -> Result<BTreeMap<String, String>, String> {
    #[derive(Deserialize)]
    struct Field {
        field: String,
        data: Option<String>,
        #[serde(default)]
        children: Vec<Field>,
    }
    #[derive(Deserialize)]
    struct All {
        lscpu: Vec<Field>,
    }
    fn flat(fields: Vec<Field>, found: &mut BTreeMap<String, String>) {
        for Field { field, data, children } in fields {
            let name = field.trim().trim_end_matches(':').to_owned();
            found.extend(data.map(|data| (name, data)));
            flat(children, found);
        }
    }
    let mut found = BTreeMap::new();
    if text.trim_start().starts_with('{') {
        let all: All = serde_json::from_str(text).map_err(|error| error.to_string())?;
        flat(all.lscpu, &mut found);
    } else {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        found.extend(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())));
    }
    match found.contains_key("Architecture") {
        true => Ok(found),
        false => Err("lscpu states no architecture".to_owned()),
    }
}

/// sc-membench's table. Errors: the line that is none of it.
fn table(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().enumerate();
    let header = lines.next().map(|(_, line)| line).unwrap_or_default();
    let column = |name: &str| {
        let found = header.split(',').position(|column| column == name);
        found.ok_or_else(|| format!("line 1: no column {name}; versions 1.1 and 1.2 have it"))
    };
    let names =
        ["size_kb", "operation", "bandwidth_mb_s", "latency_ns", "latency_stddev_ns", "threads"];
    let columns: Vec<usize> = names.into_iter().map(column).collect::<Result<_, _>>()?;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |nth: usize| cells.get(*columns.get(nth)?).copied();
        let number = |nth: usize| cell(nth)?.parse::<f64>().ok();
        Some(Row {
            size_kib: cell(0)?.parse().ok()?,
            operation: cell(1)?.to_owned(),
            mib_per_s: number(2)?,
            latency_ns: number(3)?,
            threads: cell(5)?.parse().ok()?,
        })
    };
    lines
        .map(|(nth, line)| row(line).ok_or_else(|| format!("line {}: no row: {line}", nth + 1)))
        .collect()
}

/// The rates of the stressors. Errors: the text has another form.
fn rates(text: &str) -> Result<BTreeMap<String, BTreeMap<String, f64>>, String> {
    #[derive(Deserialize)]
    struct Rate {
        bogo_ops_per_sec: f64,
    }
    #[derive(Deserialize)]
    struct All {
        stressors: BTreeMap<String, BTreeMap<String, Option<Rate>>>,
    }
    let all: All = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let known = |rates: BTreeMap<String, Option<Rate>>| {
        let rates = rates.into_iter();
        rates.filter_map(|(count, rate)| Some((count, rate?.bogo_ops_per_sec))).collect()
    };
    Ok(all.stressors.into_iter().map(|(name, rates)| (name, known(rates))).collect())
}
