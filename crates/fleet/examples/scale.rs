//! Sweeps without processes, by their number of nodes: messages, time of the decisions, connections
//! and memory of rank 0. Usage: `scale NODES…`.

use fleet::drawn::Drawn;
use fleet::recipe::{Limits, Recipe, loads, steps};
use fleet::simulated::{measured, run, sweep};
use fleet::sweep::{FLEET_FORMAT, Header};
use fleet::tree::depth;
use std::io::Write;
use std::time::Instant;

fn recipe(size: u32) -> Recipe {
    Recipe {
        header: Header {
            format: FLEET_FORMAT,
            id: "scale".to_owned(),
            started: String::new(),
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            size,
            preset: "rehearsal".to_owned(),
            selectors: Vec::new(),
            pair_selectors: Vec::new(),
            steps: steps(size, false, None),
            seed: 1,
            loads: loads(size, steps(size, false, None), [None; 3]),
            starter: "options".to_owned(),
            simulated: true,
        },
        limits: Limits { meet_s: 60.0, grace_s: 10.0, alone_s: 60.0, pair_s: 20.0, gather_s: 30.0 },
    }
}

fn main() -> anyhow::Result<()> {
    let drawn = Drawn { seed: 1, figures: 4, ..Drawn::default() };
    let mut out = std::io::stdout();
    writeln!(out, "nodes  steps  depth  messages  measured  pairs  at_most  at_end  decisions_s")?;
    for size in std::env::args().skip(1) {
        let size: u32 = size.parse()?;
        let recipe = recipe(size);
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
