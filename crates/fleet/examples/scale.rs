//! Sweeps without processes, by their number of nodes: messages, time of the decisions, connections
//! and memory of rank 0. Usage: `scale NODES…`.

use fleet::drawn::Drawn;
use fleet::simulated::{measured, recipe, run, sweep};
use fleet::tree::depth;
use std::io::Write;
use std::time::Instant;

fn main() -> anyhow::Result<()> {
    let drawn = Drawn { seed: 1, figures: 4, ..Drawn::default() };
    let mut out = std::io::stdout();
    writeln!(out, "nodes  steps  depth  messages  measured  pairs  at_most  at_end  decisions_s")?;
    for size in std::env::args().skip(1) {
        let size: u32 = size.parse()?;
        let recipe = recipe(size, 1);
        let began = Instant::now();
        let outcome = run(&recipe, &drawn, &[], 1, None);
        let took_s = began.elapsed().as_secs_f64();
        let sweep = sweep(&outcome.events).ok_or_else(|| anyhow::anyhow!("no header"))?;
        anyhow::ensure!(outcome.is_over, "the sweep of {size} nodes did not end");
        writeln!(
            out,
            "{size:<6} {:<6} {:<6} {:<9} {:<9} {:<6} {:<8} {:<7} {took_s:.1}",
            recipe.header.steps,
            depth(size - 1),
            outcome.messages,
            measured(&sweep).len(),
            sweep.pairs.len() / 2,
            outcome.connections,
            outcome.connections_at_end,
        )?;
    }
    Ok(())
}
