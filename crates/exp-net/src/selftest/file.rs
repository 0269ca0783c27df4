//! ## Question
//! Are files made once per stage, found by every round, and gone after the run?
//!
//! ## Method
//! `prepare` writes a file; each round times a read of the whole file.
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

use bench::experiment::contract::Files;
use bench::prelude::*;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

bench::experiment!(OneFile);

static CARD: Card = Card {
    id: "selftest.file",
    title: "A file that rounds only read",
    metrics: metrics! {
        "read" => Ns Lower Io: "one read of the file";
    },
    params: settings! {
        "size": Domain::bytes(BLOCK_BYTES as u64, 1 << 30), ["4KiB"; 3] => "size of the file";
    },
    needs: &[Need::Directory],
    ..Card::PLAIN
};

const NAME: &str = "selftest-file";
const BLOCK_BYTES: usize = 4096;

fn size(series: &Series) -> Result<u64> {
    series.setting("size").context("no size is set")
}

impl Experiment for OneFile {
    type Case = ();
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("file.rs");
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, _| Duration::from_millis(20);
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards { hangs: true, ..Hazards::NONE };
    const FILES: Option<Files> = Some(Files { make, cost: |_, _| Duration::ZERO, has: |_| true });

    fn cases(_: &Site, _: Preset) -> Vec<()> {
        vec![()]
    }

    fn law(facts: Facts, _: &(), _: &Case, _: &Metric) -> Option<Prediction> {
        facts.known.is_none().then(|| predicted(100.0, 3e3, 1e9, "system calls and a copy"))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let path = bench.order().directory()?.join(NAME);
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

fn make(series: &Series, dir: &Path, _: &mut dyn FnMut()) -> Result<Vec<PathBuf>> {
    let path = dir.join(NAME);
    let mut file = File::create_new(&path).context("cannot make the file")?;
    for _ in 0..size(series)?.div_ceil(BLOCK_BYTES as u64) {
        file.write_all(&[0x5a; BLOCK_BYTES]).context("cannot write the file")?;
    }
    file.sync_data().context("cannot sync the file")?;
    Ok(vec![path])
}
