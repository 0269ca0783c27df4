//! The sweep: sizes upwards, then between the two that have the knee between them.

use super::grown::{BLOCK_BYTES, Grown, Limits, Pass};
use super::sizes::{PASSES, STEP_BYTES, pass_limits};
use super::{Limit, Swept};
use crate::fs::file::Opened;
use crate::fs::job::{Account, OwnGroup, in_memory};
use crate::fs::offered::text_at;
use crate::fs::prelude::*;
use bench::measure::{Settled, settle};
use host::cgroup::GroupPlace;
use stats::ladder::Rung;
use stats::quantile::median;
use stats::step::step;

const BLOCK: f64 = BLOCK_BYTES as f64;
/// With fewer passes, the stretches of each are dealt out to so many blocks.
const DEALT: usize = 8;
/// Passes that are blocks by themselves.
const BLOCKS_MIN: usize = 6;
/// A sweep that takes so many times what it was given ends.
const OVERTIME: u32 = 4;
/// And takes at least this long before it does.
const LEAST_TIME: Duration = Duration::from_secs(20);

pub(super) struct Sweep {
    file: Grown,
    limit: Limit,
    case_ns: f64,
    pass_ns: f64,
    until: Instant,
    device: Option<String>,
    /// Whether the kernel counts here what a device gives to this process: for FUSE it does not
    /// count reads, so its count proves nothing.
    counts: bool,
    /// Where the group counts what it has in memory; `None` on the whole machine.
    stat: Option<PathBuf>,
    /// Cached bytes when nothing of the file was.
    baseline: u64,
    rungs: Vec<Rung>,
    settled: Settled,
    /// The group; the file's bytes are written outside.
    group: Option<OwnGroup>,
}

impl Sweep {
    pub(super) fn begin(series: &Series, bench: &mut Bench) -> Result<Sweep> {
        let first = series.cases.first().context("the sweep has no size")?;
        let limit = Swept::decode(first)?.limit;
        let time_ns = series.setting("time").context("the time setting is missing")? as f64;
        let (case_ns, pass_ns) = pass_limits(limit, time_ns, series.cases.len());
        let time = Duration::from_nanos(time_ns as u64);
        let until = Instant::now() + (time * OVERTIME).max(LEAST_TIME);
        let sizes = series.cases.iter().filter_map(|case| case.int("bytes"));
        let most = sizes.max().context("the sweep has no size")?;
        let dir = bench.order().directory()?.to_owned();
        let file = Grown::new(&dir, bench.order().seed, most)?;
        let settled = settle(&file.opened()?.file, time)?;
        let group = match limit {
            Limit::Group(bytes) => Some(OwnGroup::make(&place(series)?, &name(bench)?, bytes)?),
            Limit::Memory => None,
        };
        let of_group = group.as_ref().map(OwnGroup::stat);
        let stat = of_group.or_else(|| text_at(first, "memory_stat").map(PathBuf::from));
        Ok(Sweep {
            baseline: in_memory(stat.as_deref())?,
            file,
            limit,
            case_ns,
            pass_ns,
            until,
            device: text_at(first, "device_number").map(str::to_owned),
            // Until the first that is read in after it was evicted.
            counts: text_at(first, "ground") == Some("device"),
            stat,
            rungs: Vec::new(),
            settled,
            group,
        })
    }

    pub(super) fn case(&mut self, case: &Case, bench: &mut Bench) -> Result<()> {
        let bytes = match case.int("bytes") {
            Some(bytes) => bytes,
            None => self.between()?,
        };
        let block_ns = self.measure(case, bytes, bench)?;
        self.rungs.push(Rung { size: bytes as f64, value: block_ns });
        Ok(())
    }

    /// Removes the file, and then leaves the group: nothing stays charged to it.
    pub(super) fn end(self) {
        drop(self.file);
        drop(self.group);
    }

    /// The size in the middle of the two that have the knee between them.
    fn between(&self) -> Result<u64> {
        let step = step(&self.rungs).context(
            "nothing to bisect: the time per block never rises by half or more between two sizes",
        )?;
        let middle = (f64::midpoint(step.low, step.high) as u64) / STEP_BYTES * STEP_BYTES;
        ensure!(
            middle as f64 > step.low && (middle as f64) < step.high,
            "nothing to bisect: the knee is already known within {} bytes",
            step.high - step.low
        );
        Ok(middle)
    }

    /// Measures and records a size; the median time of a block, in ns.
    fn measure(&mut self, case: &Case, bytes: u64, bench: &mut Bench) -> Result<f64> {
        let before = self.file.bytes;
        self.resize(bytes, bench)?;
        let opened = self.file.opened()?;
        let mut quantities = BTreeMap::new();
        let whole = Limits { most_ns: f64::INFINITY, until: self.until };
        // What was just written stands in memory as if it had been read in, unless something of the
        // file had no room: then earlier sizes would be remembered.
        let is_fresh =
            self.limit == Limit::Memory && before < bytes && self.file.residency(bytes)? >= 1.0;
        if !is_fresh {
            opened.make_cold(0, 0)?;
            self.baseline = in_memory(self.stat.as_deref())?;
            let account = Account::begin(self.device.as_deref());
            let fill = self.file.pass(&opened, bytes, whole, bench)?;
            self.counts = shows(fill.bytes, account.end(fill.bytes).by_device());
            let rate = fill.bytes as f64 / fill.ns * 1e9;
            quantities.put("first_read_bytes_per_s", rate);
        }
        let residency = self.file.residency(bytes)?;
        let growth = in_memory(self.stat.as_deref())? as f64 - self.baseline as f64;
        let (passes, given) = self.passes(&opened, bytes, bench)?;
        self.settled.write(&mut quantities);
        let mut notes: Vec<String> = self.settled.note().into_iter().collect();
        let least = passes.iter().map(|pass| pass.bytes).min().unwrap_or(0);
        if least < bytes {
            notes.push(format!(
                "the second read stopped after {:.0} s, at {:.0} % of the file",
                self.pass_ns / 1e9,
                100.0 * least as f64 / bytes as f64
            ));
        }
        let read = passes.iter().map(|pass| pass.bytes).sum::<u64>() as f64;
        let missed = given.filter(|_| self.counts).map(|given| given as f64 / read);
        if missed.is_none() {
            notes.push(NOT_COUNTED.to_owned());
        }
        quantities.put("passes", passes.len() as f64);
        quantities.put("file_bytes", bytes as f64);
        let (blocks, how) = blocks_of(&passes);
        notes.extend(how);
        let scales: [fn(f64) -> f64; 3] = [|ns| ns, |ns| ns / BLOCK, |ns| BLOCK / ns * 1e9];
        let metrics = ["latency_per_block", "latency_per_byte", "bandwidth"];
        for (metric, of) in metrics.into_iter().zip(scales) {
            let values = blocks.iter().map(|ns| of(*ns)).collect();
            let samples = bench.record(case, metric, Values::blocks(values))?;
            samples.quantities.extend(quantities.clone());
            // Beside the first alone.
            samples.notes.extend(std::mem::take(&mut notes));
        }
        let once = [
            ("residency", Some(residency)),
            ("missed", missed),
            ("cache_growth", Some(growth)),
            ("file", Some(bytes as f64)),
        ];
        for (metric, value) in once {
            if let Some(value) = value {
                bench.record(case, metric, Values::block(value))?;
            }
        }
        median(&blocks).context("a pass has stretches")
    }

    /// Has the file this size. In a small group writes wait for the group's dirty pages, and a page
    /// stays charged to the group that read it first: it is written outside, and evicted before the
    /// group is entered.
    fn resize(&mut self, bytes: u64, bench: &mut Bench) -> Result<()> {
        let Some(group) = &self.group else {
            return self.file.resize(bytes, self.until, bench);
        };
        group.leave()?;
        self.file.resize(bytes, self.until, bench)?;
        self.file.opened()?.make_cold(0, 0)?;
        group.enter()
    }

    /// Reads repeatedly, and returns the bytes that the device delivered.
    fn passes(
        &self,
        opened: &Opened,
        bytes: u64,
        bench: &mut Bench,
    ) -> Result<(Vec<Pass>, Option<u64>)> {
        let limits = Limits { most_ns: self.pass_ns, until: self.until };
        let account = Account::begin(self.device.as_deref());
        let mut passes: Vec<Pass> = Vec::new();
        let mut spent = 0.0;
        while passes.is_empty() || spent < self.case_ns && passes.len() < PASSES as usize {
            let pass = self.file.pass(opened, bytes, limits, bench)?;
            spent += pass.ns;
            passes.push(pass);
        }
        let read = passes.iter().map(|pass| pass.bytes).sum();
        Ok((passes, account.end(read).by_device()))
    }
}

/// Why a size has no share that the device gave.
const NOT_COUNTED: &str = "the kernel does not count device reads here: reading an evicted file \
                           did not change this process's counter";
/// Share of what was evicted that a count must show.
const SHOWN: f64 = 0.5;

/// Whether what was counted while so many evicted bytes were read shows them.
fn shows(evicted_bytes: u64, counted: Option<u64>) -> bool {
    counted.is_some_and(|counted| counted as f64 >= SHOWN * evicted_bytes as f64)
}

fn place(series: &Series) -> Result<GroupPlace> {
    let text = |name: &str| {
        let value = series.settings.get(name).and_then(Value::text);
        value.map(str::to_owned).context("the control group setting is missing")
    };
    let version = series.setting("group_version");
    Ok(GroupPlace {
        version: u32::try_from(version.context("the control group setting is missing")?)?,
        parent: text("group_below")?,
        home: text("group_home")?,
    })
}

/// The group is named like the work directory: that name is in the journal.
fn name(bench: &Bench) -> Result<String> {
    let order = bench.order();
    let name = order.dir.as_deref().and_then(|dir| dir.file_name()?.to_str());
    Ok(name.context("the work directory has no name")?.to_owned())
}

/// The repetition's blocks: passes, or where they are few their stretches dealt out in turn, so
/// that each block has of every part of the file.
fn blocks_of(passes: &[Pass]) -> (Vec<f64>, Option<String>) {
    if passes.len() >= BLOCKS_MIN {
        return (passes.iter().map(Pass::block_ns).collect(), None);
    }
    let dealt = passes.iter().flat_map(|pass| {
        let count = DEALT.min(pass.stretches.len());
        (0..count).map(move |first| {
            let every = pass.stretches.iter().skip(first).step_by(count);
            every.clone().sum::<f64>() / every.count() as f64
        })
    });
    let count = match passes.len() {
        1 => "one pass".to_owned(),
        count => format!("{count} passes"),
    };
    let note = format!(
        "{count}: the interval covers stretches of the file, not the variation between passes"
    );
    (dealt.collect(), Some(note))
}

#[cfg(test)]
mod tests {
    use super::{Pass, blocks_of, shows};

    fn pass(stretches: Vec<f64>) -> Pass {
        let ns = stretches.iter().sum::<f64>();
        Pass { bytes: 4096 * stretches.len() as u64, stretches, ns }
    }

    #[test]
    fn a_count_that_saw_nothing_of_an_evicted_file_counts_nothing() {
        // FUSE: 20 MB read cold, and /proc/self/io stands still.
        assert!(!shows(20_000_000, Some(0)));
        assert!(!shows(20_000_000, None));
        assert!(shows(20_000_000, Some(20_971_520)));
    }

    #[test]
    fn six_passes_are_six_blocks_and_one_is_dealt_out_over_the_file() {
        let six: Vec<Pass> = (1..=6).map(|ns| pass(vec![f64::from(ns); 10])).collect();
        let (blocks, note) = blocks_of(&six);
        assert_eq!(blocks, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(note, None);
        // The first half is not in memory: every block has of both halves.
        let halves = (0..64).map(|at| if at < 32 { 9.0 } else { 1.0 }).collect();
        let (blocks, note) = blocks_of(&[pass(halves)]);
        assert_eq!(blocks, [5.0; 8]);
        assert!(note.is_some_and(|note| note.starts_with("one pass:")));
        let (blocks, _) = blocks_of(&[pass(vec![2.0])]);
        assert_eq!(blocks, [2.0]);
    }
}
