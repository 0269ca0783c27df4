//! Laws of memory under load: a queue between idle latency and peak bandwidth.

use super::bandwidth::bandwidth;
use super::measured::walk_ns;
use super::mlp::one_chain;
use super::transfer::{Op, Stores, Threads, Transfer};
use super::{LINE, Level};
use crate::cpu::is_guest;
use crate::{Facts, Law, around, end_by_end, inverse, range};
use bench::experiment::{Fields, Known, Site};
use record::event::Range;

/// Share of a load's idle time for which it holds what others wait for (a bank, a channel).
const SERVICE: Range = range(0.0, 0.35, 1.5);
/// Share of the peak at which a load of 100 % keeps a memory busy. Loaders have a bounded number of
/// lines in flight, so the queue stays finite.
const BUSY: Range = range(0.0, 0.75, 0.88);
/// Loaders that fill a memory: fewer leave it partly idle.
const FILLING: f64 = 8.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background {
    /// Read, copy or write.
    pub op: Op,
    pub stores: Stores,
    /// Share of the most that the loaders reach, 0 to 1.
    pub share: f64,
    pub loaders: usize,
    /// Bytes that the chaser walks over.
    pub footprint: f64,
}

impl Background {
    /// The loaders' kernel, by all of them.
    fn transfer(self) -> Transfer {
        let threads = Threads::Number(self.loaders as u64);
        Transfer::widest(self.op, self.stores, Level::Memory, threads)
    }
}

/// Latency of a random walk beside a load, in ns: M/D/1, whose mean wait is a half of a service
/// time x u / (1 - u).
pub fn loaded_latency(facts: Facts, load: Background) -> Law {
    let full = (load.loaders as f64 / FILLING).min(1.0);
    let wait = |service: f64, busy: f64| {
        let busy = busy * load.share;
        1.0 + 0.5 * service * busy / (1.0 - busy)
    };
    // In a guest or a machine of few CPUs the loaders may fill the memory, or be far from it.
    let factor = range(
        0.9 * wait(SERVICE.low, BUSY.low),
        wait(SERVICE.likely, BUSY.likely * full),
        1.05 * wait(SERVICE.high, BUSY.high),
    );
    let because = format!(
        "a queue with fixed service times (M/D/1) at {:.0} % of the bandwidth of {} CPUs, at most \
         {:.0} % busy",
        100.0 * load.share,
        load.loaders,
        100.0 * BUSY.high
    );
    one_chain(facts, load.footprint).by(factor).and(because)
}

/// Bytes per second that memory moves beside the walk and with it. Errors: why nothing can be said.
pub fn loaded_bandwidth(facts: Facts, load: Background) -> Result<Law, String> {
    let walk = inverse(LINE * 1e9, loaded_latency(facts, load).range);
    let percent = 100.0 * load.share;
    // Not in quadrature: the walk is small beside any load, and all there is without one.
    let with_walk = |most| end_by_end(walk, most, |walk, most| walk + most);
    let most = most(facts, load)?.times(load.share).reshaped(with_walk);
    Ok(most.and(format!("{percent:.0} % of that, plus one line per load of the walk")))
}

/// The most that the loaders move, in bytes per second on the bus: as `memory.bandwidth` found it,
/// else by its law. Errors: why nothing can be said.
fn most(facts: Facts, load: Background) -> Result<Law, String> {
    let loaders = load.loaders as f64;
    let transfer = load.transfer();
    if let Some(rate) = facts.known.and_then(|known| measured(known, &transfer)) {
        // Beside a chaser, which takes little, and in arrays of another size.
        let because = format!("bandwidth of {loaders} CPUs (measured by memory.bandwidth)");
        return Ok(Law::hardware(around(rate, 0.3), because));
    }
    let by_all = Transfer { threads: Threads::All, ..transfer.clone() };
    if let Some(all) = facts.known.and_then(|known| measured(known, &by_all)) {
        let share = (loaders / facts.site.cpus.len().max(1) as f64).min(1.0);
        let of = range(0.5 * share * all, all * share.sqrt(), 1.3 * all);
        let why = "bandwidth of all CPUs (measured by memory.bandwidth), less the chaser's";
        return Ok(Law::hardware(of, why));
    }
    Ok(bandwidth(facts, &transfer)?.times(transfer.bus_ratio()))
}

/// The bus rate that `memory.bandwidth` measured.
fn measured(known: &Known, of: &Transfer) -> Option<f64> {
    let case = of.id();
    let program = || known.get("memory.bandwidth", &case, "bandwidth");
    known
        .get("memory.bandwidth", &case, "bus_bandwidth")
        .or_else(|| Some(program()? * of.bus_ratio()))
}

/// Whether an earlier figure says something about a load.
pub fn is_known(known: &Known, load: Background) -> bool {
    let own = load.transfer();
    let by_all = Transfer { threads: Threads::All, ..own.clone() };
    walk_ns(known, load.footprint).is_some()
        || [own, by_all].iter().any(|of| measured(known, of).is_some())
}

/// How well a chaser beside idle loaders agrees with `memory.latency`: their ratio.
pub fn idle_agreement(site: &Site) -> Law {
    let share = if is_guest(site) { 0.3 } else { 0.12 };
    Law::hardware(around(1.0, share), "the same walk over the nearest footprint")
}

#[cfg(test)]
mod tests {
    use super::{Background, Op, Stores, Threads, Transfer, loaded_bandwidth, loaded_latency};
    use crate::Facts;
    use crate::memory::Level;
    use bench::experiment::fixtures::{known, sites};
    use bench::experiment::{Fields, Known};
    use record::key::{CaseId, Key};

    const READ: Background = Background {
        op: Op::Read,
        stores: Stores::Regular,
        share: 0.0,
        loaders: 7,
        footprint: 134_217_728.0,
    };

    #[test]
    fn earlier_figures_are_what_it_starts_from() {
        let site = &sites()[2];
        let walk = "pattern=random,load=pointer,pages=huge,footprint=134217728";
        let mut known = known(&[("memory.latency", walk, "latency", 100.0)]);
        let with = |known: &Known, load| {
            let facts = Facts { site, known: Some(known) };
            let rate = loaded_bandwidth(facts, load).expect("DRAM").range;
            (loaded_latency(facts, load).range, rate)
        };
        let (idle, _) = with(&known, READ);
        assert!((idle.likely - 100.0).abs() < 1.0, "{idle:?}");
        let of = |op, threads| Transfer::widest(op, Stores::Regular, Level::Memory, threads).id();
        let mut put = |case: CaseId, rate| {
            known.insert(Key::new("memory.bandwidth", &case, "bandwidth"), rate);
            known.clone()
        };
        let load = Background { share: 1.0, loaders: 1, ..READ };
        let (_, full) = with(&put(of(Op::Read, Threads::All), 20e9), load);
        assert!(full.high < 30e9 && full.low > 1e9, "{full:?}");
        // That of as many CPUs counts before that of all; stores' lines are read before.
        let write = Background { op: Op::Write, ..load };
        let (walk, full) = with(&put(of(Op::Write, Threads::Number(1)), 8e9), write);
        assert!((full.likely - 64e9 / walk.likely - 16e9).abs() < 1e3, "{full:?}");
    }
}
