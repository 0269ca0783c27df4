//! ## Question
//! Are files made once per stage, found by every round, and gone after the run?
//!
//! ## Method
//! `prepare` writes a file; each round reads it and times a read of all of it.
//!
//! ## Prediction
//! A cached read: 100 ns to 1 s.
//!
//! ## Parameters
//! `size`: of the file.
//!
//! ## Reading the result
//! The directory is empty again after the run, however it ended.
//!
//! ## Pitfalls
//! The read comes from the page cache: it is no measurement of a disk.
//!
//! ## Sources
//! DESIGN §3, §6.

use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Need, Offer, Param, Params, Role, Site, Skip, predicted,
};
use bench::measure::Bench;
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::{Kind, Metric};
use record::unit::Unit;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The experiment.
pub struct OneFile;
/// For the family's list.
pub const EXPERIMENT: OneFile = OneFile;

static CARD: Card = Card {
    id: "selftest.file",
    title: "A file that rounds only read",
    metrics: &[Metric::time("read", "one read of the file", Kind::Io)],
    params: &[Param {
        name: "size",
        doc: "size of the file",
        domain: Domain::Integer { low: BLOCK_BYTES as u64, high: 1 << 30, unit: Unit::B },
        defaults: ["4KiB", "4KiB", "4KiB"],
        role: Role::Setting,
    }],
    needs: &[Need::Directory],
    ..Card::PLAIN
};

const NAME: &str = "selftest-file";
/// The file is written by so much.
const BLOCK_BYTES: usize = 4096;

fn size(series: &Series) -> Result<u64> {
    series.setting("size").context("no size is set")
}

impl Experiment for OneFile {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("file.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let size = params.get("size").first().cloned();
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Fixed,
                cases: vec![Case::new(CaseId::new())],
                settings: size.map(|size| ("size".to_owned(), size)).into_iter().collect(),
            }],
            ..Offer::default()
        })
    }

    fn round_cost(&self, _site: &Site, _series: &Series) -> Duration {
        Duration::from_millis(20)
    }

    fn predict(
        &self,
        _site: &Site,
        known: Option<&Known>,
        _case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        known.is_none().then(|| predicted(100.0, 3e3, 1e9, "system calls and a copy"))
    }

    fn prepare(&self, series: &Series, dir: &Path, _: &mut dyn FnMut()) -> Result<Vec<PathBuf>> {
        let path = dir.join(NAME);
        let mut file = File::create_new(&path).context("cannot make the file")?;
        for _ in 0..size(series)?.div_ceil(BLOCK_BYTES as u64) {
            file.write_all(&[0x5a; BLOCK_BYTES]).context("cannot write the file")?;
        }
        file.sync_data().context("cannot sync the file")?;
        Ok(vec![path])
    }

    fn is_prepared(&self, _series: &Series) -> bool {
        true
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.may_hang_in(&series.cases[0]);
        let path = bench.dir().context("no directory was given")?.join(NAME);
        let mut reads = Vec::new();
        for _ in 0..8 {
            let start = Instant::now();
            let bytes = std::fs::read(&path).context("the prepared file is gone")?;
            reads.push(start.elapsed().as_nanos() as f64);
            ensure!(
                bytes.len() as u64 == size(series)?.next_multiple_of(BLOCK_BYTES as u64),
                "the prepared file has {} bytes",
                bytes.len()
            );
        }
        bench.record(&series.cases[0], "read", reads)?;
        Ok(())
    }
}
