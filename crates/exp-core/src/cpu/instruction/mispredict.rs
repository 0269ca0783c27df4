//! What a wrong guess of a conditional branch costs: random directions against alternating ones.

use bench::measure::Watch;
use bench::prelude::*;
use metal::instruction::{self as body, BRANCHES_PER_WORD};
use std::hint::black_box;

/// Words of the random table: 2 million directions, more than any predictor can keep.
const TABLE_WORDS: usize = 1 << 15;
/// Words of a batch: 8192 branches, half of them guessed wrong, about 20 µs.
const BATCH_WORDS: usize = 128;
/// Words before a batch, of its own kind, in which the predictor settles.
const SETTLE_WORDS: usize = 16;
/// Every second branch is taken: as many as of the random ones, in the same order always.
const ALTERNATING: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The directions of branches.
pub(super) struct Patterns {
    random: Vec<u64>,
    alternating: Vec<u64>,
    /// Where in the random table the next batch begins.
    next: usize,
}

impl Patterns {
    /// A random table from a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut source = fastrand::Rng::with_seed(seed);
        Patterns {
            random: (0..TABLE_WORDS).map(|_| source.u64(..)).collect(),
            alternating: vec![ALTERNATING; SETTLE_WORDS + BATCH_WORDS],
            next: 0,
        }
    }

    /// Times quartets of alternating, random, random, alternating for the case's time. The record
    /// has them as batches of k and 2k: a pair of batches differs by the wrong guesses of two.
    pub(super) fn measure(&mut self, case: &Case, metric: &str, bench: &mut Bench) -> Result<()> {
        let mut turn = |watch: &mut Watch| {
            let first_ns = watch.batch(self.batch(bench, false)?);
            let random_ns =
                watch.batch(self.batch(bench, true)?) + watch.batch(self.batch(bench, true)?);
            let alternating_ns = first_ns + watch.batch(self.batch(bench, false)?);
            Ok(Some((alternating_ns, random_ns)))
        };
        let quartets = bench.timer().repeat(&mut turn)?;
        let wrong = BATCH_WORDS as u64 * BRANCHES_PER_WORD / 2;
        let samples = bench.record(case, metric, Values::quartets(wrong, quartets))?;
        let text = body::BRANCH_TEXT.replace('\n', " ");
        samples.at.put("body", text);
        samples.notes.push(format!(
            "batches of k have {} branches of alternating directions, batches of 2k the same \
             number of random ones: k more mispredictions",
            BATCH_WORDS as u64 * BRANCHES_PER_WORD
        ));
        Ok(())
    }

    /// The length of a batch in ns.
    fn batch(&mut self, bench: &Bench, random: bool) -> Result<f64> {
        let words = SETTLE_WORDS + BATCH_WORDS;
        let table = if random {
            if self.next + words > self.random.len() {
                self.next = 0;
            }
            let from = self.next;
            self.next += words;
            &self.random[from..from + words]
        } else {
            &self.alternating[..]
        };
        let (settle, batch) = table.split_at(SETTLE_WORDS);
        black_box(body::Bench::branches(black_box(settle)));
        let batch = black_box(batch);
        let clock = bench.order().clock();
        let start = clock.start();
        let taken = body::Bench::branches(batch);
        let end = clock.end();
        let set: u32 = batch.iter().map(|word| word.count_ones()).sum();
        ensure!(taken == u64::from(set), "{taken} branches counted, {set} bits are set");
        Ok(clock.between_ns(start, end))
    }
}
