//! Laws of memory under load: a queue in front of it, between idle latency and peak bandwidth.

use super::bandwidth::{OPS, STORES, Transfer, bandwidth};
use super::measured::walk_ns;
use super::mlp::one_chain;
use super::{LINE, MEMORY};
use crate::cpu::is_guest;
use crate::{Law, around, inverse, product, range, scaled};
use bench::experiment::{Known, Site};
use record::event::Range;
use record::key::Value;

/// Share of a load's idle time for which it holds what others wait for (a bank, a channel).
const SERVICE: Range = range(0.0, 0.35, 1.5);
/// Share of the peak at which a load of 100 % keeps a memory busy. Loaders have a bounded number of
/// lines in flight, so the queue stays finite.
const BUSY: Range = range(0.0, 0.75, 0.88);
/// Loaders that fill a memory: fewer leave it partly idle.
const FILLING: f64 = 8.0;

/// A background load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background<'symbol> {
    /// `read`, `copy` or `write`.
    pub op: &'symbol str,
    /// Stores go past the caches.
    pub is_nontemporal: bool,
    /// Share of the most that the loaders reach, 0 to 1.
    pub share: f64,
    /// Cores that load.
    pub loaders: usize,
    /// Bytes that the chaser walks over.
    pub footprint: f64,
}

/// Latency of a random walk beside a load, in ns: M/D/1, whose mean wait is a half of a service
/// time x u / (1 - u).
pub fn loaded_latency(site: &Site, known: Option<&Known>, load: Background) -> Law {
    let idle = one_chain(site, known, load.footprint);
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
    let guest = match is_guest(site) {
        true => "; a virtual machine: the load is a part of what the memory serves",
        false => "",
    };
    Law::of(
        product(idle.range, factor),
        format!(
            "base hardware: a lone load {:.3} ns ({}); a queue of fixed service times (M/D/1) at \
             {:.0} % of what {} CPUs reach, up to {:.0} % busy{guest}; software: none",
            idle.range.likely,
            idle.because(),
            100.0 * load.share,
            load.loaders,
            100.0 * BUSY.high
        ),
    )
}

/// Bytes per second that memory moves beside the walk and with it.
///
/// # Errors
/// Why nothing can be said.
pub fn loaded_bandwidth(
    site: &Site,
    known: Option<&Known>,
    load: Background,
) -> Result<Law, String> {
    let walk = inverse(LINE * 1e9, loaded_latency(site, known, load).range);
    let (most, because) = most(site, known, load)?;
    let most = scaled(most, load.share);
    // Not in quadrature: the walk is small beside any load, and all there is without one.
    let range = range(walk.low + most.low, walk.likely + most.likely, walk.high + most.high);
    Ok(Law::of(
        range,
        format!(
            "base hardware: {:.0} % of {because}, and a line for each load of the walk; software: \
             with regular stores each line written is read before",
            100.0 * load.share
        ),
    ))
}

/// The most that the loaders move, in bytes per second on the bus: as `memory.bandwidth` found it, else
/// by its law.
///
/// # Errors
/// Why nothing can be said.
fn most(site: &Site, known: Option<&Known>, load: Background) -> Result<(Range, String), String> {
    let loaders = load.loaders as f64;
    if let Some(rate) = known.and_then(|known| measured(known, load, &threads(load))) {
        // Beside a chaser, which takes little, and in arrays of another size.
        let because = format!("memory.bandwidth's rate of {loaders} CPUs");
        return Ok((around(rate, 0.3), because));
    }
    let all = known.and_then(|known| measured(known, load, &Value::from("all")));
    if let Some(all) = all {
        let share = (loaders / site.cpus.len().max(1) as f64).min(1.0);
        let range = range(0.5 * share * all, all * share.sqrt(), 1.3 * all);
        return Ok((range, "memory.bandwidth's rate of all CPUs, less the chaser's".to_owned()));
    }
    let kernel = kernel(load);
    let law = bandwidth(site, known, kernel, MEMORY, &threads(load))?;
    let because = format!("what {loaders} CPUs move ({})", law.because());
    Ok((scaled(law.range, kernel.bus_ratio()), because))
}

/// The loaders' kernel.
fn kernel(load: Background) -> Transfer {
    let op = OPS.iter().find(|op| **op == load.op);
    let stores = STORES[usize::from(load.is_nontemporal)];
    Transfer::widest(op.copied().unwrap_or("read"), stores)
}

fn threads(load: Background) -> Value {
    Value::from(load.loaders as u64)
}

/// The bus rate that `memory.bandwidth` measured for this load with some threads.
fn measured(known: &Known, load: Background, threads: &Value) -> Option<f64> {
    let kernel = kernel(load);
    let case = kernel.case(MEMORY, threads);
    let program = || known.get("memory.bandwidth", &case, "bandwidth");
    known
        .get("memory.bandwidth", &case, "bus_bandwidth")
        .or_else(|| Some(program()? * kernel.bus_ratio()))
}

/// Whether an earlier figure says something about a load.
pub fn is_known(known: &Known, load: Background) -> bool {
    let rates = [threads(load), Value::from("all")];
    walk_ns(known, load.footprint).is_some()
        || rates.iter().any(|threads| measured(known, load, threads).is_some())
}

/// How well a chaser beside idle loaders agrees with `memory.latency`: their ratio.
pub fn idle_agreement(site: &Site) -> Law {
    let share = if is_guest(site) { 0.3 } else { 0.12 };
    let Range { low, likely, high } = around(1.0, share);
    Law::new(
        low,
        likely,
        high,
        "base hardware: the same walk over the nearest footprint; software: none",
    )
}

#[cfg(test)]
mod tests {
    use super::{Background, loaded_bandwidth, loaded_latency};
    use bench::experiment::Known;
    use bench::experiment::fixtures::sites;
    use record::key::{CaseId, Key, Value};

    const READ: Background = Background {
        op: "read",
        is_nontemporal: false,
        share: 0.0,
        loaders: 7,
        footprint: 134_217_728.0,
    };

    #[test]
    fn latency_rises_with_the_load_and_bandwidth_too() {
        for site in sites() {
            let mut before = (0.0, 0.0);
            for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let load = Background { share, ..READ };
                let ns = loaded_latency(&site, None, load).range;
                let rate = loaded_bandwidth(&site, None, load).expect("DRAM").range;
                for range in [ns, rate] {
                    assert!(range.low <= range.likely && range.likely <= range.high, "{range:?}");
                }
                assert!(ns.likely > before.0 && rate.likely > before.1);
                before = (ns.likely, rate.likely);
            }
        }
    }

    #[test]
    fn earlier_figures_are_what_it_starts_from() {
        let site = &sites()[2];
        let mut known = Known::default();
        let ladder = CaseId::new()
            .with("pattern", "random")
            .with("load", "pointer")
            .with("pages", "huge")
            .with("footprint", 1_u64 << 27);
        known.insert(Key::new("memory.latency", &ladder, "latency"), 100.0);
        let idle = loaded_latency(site, Some(&known), READ).range;
        assert!((idle.likely - 100.0).abs() < 1.0, "{idle:?}");
        let rate = CaseId::new()
            .with("op", "read")
            .with("stores", "regular")
            .with("access", "every")
            .with("width", "vector")
            .with("level", "DRAM")
            .with("threads", "all");
        let key = Key::new("memory.bandwidth", &rate, "bandwidth");
        known.insert(key, 20e9);
        let load = Background { share: 1.0, loaders: 1, ..READ };
        let full = loaded_bandwidth(site, Some(&known), load).expect("DRAM").range;
        assert!(full.high < 30e9 && full.low > 1e9, "{full:?}");
        // That of as many CPUs counts before that of all; stores' lines are read before.
        let write = Background { op: "write", ..load };
        let rate = super::kernel(write).case("DRAM", &Value::from(1));
        known.insert(Key::new("memory.bandwidth", &rate, "bandwidth"), 8e9);
        let full = loaded_bandwidth(site, Some(&known), write).expect("DRAM");
        let walk = 64e9 / loaded_latency(site, Some(&known), write).range.likely;
        assert!((full.range.likely - walk - 16e9).abs() < 1e3, "{full:?}");
        assert!(full.because().contains("rate of 1 CPUs"), "{}", full.because());
    }
}
