//! One round against one memory node: its memory, the threads that use it, and what verifies both.

use super::Pair;
use super::node_pairs::{CACHES, Sizes};
use crate::memory::arrays::{Arrays, take_quickest};
use crate::memory::{locked, unless_without_room, unlocked};
use bench::measure::placed::{Placed, place_huge_or_base, verify_node};
use bench::measure::{NeverTogether, REHEARSAL_NS, Shared, Team, TeamWindow};
use bench::prelude::*;
use fastrand::Rng;
use host::parse_cpus;
use laws::memory::Level;
use laws::memory::transfer::{Op, STREAM, Stores, Threads, Transfer};
use metal::memory::Mapping;
use metal::place;
use metal::ring::Ring;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Windows that fit into the case time, about. Short: the caches are steady before each, and rounds
/// are many.
const WINDOWS: f64 = 20.0;
/// Attempts at a window in which all threads are at work together for at least this share of it,
/// and by how much each is longer than the one before: a thread that comes late by a slice of the
/// scheduler's is no longer late in the third.
const ATTEMPTS: i32 = 4;
const OVERLAP_LEAST: f64 = 0.5;
const LONGER: f64 = 4.0;
/// Bytes of a step of a CPU alone, and of a member of the team, whose part of the node's rate may
/// be a tenth of that: 10 to 30 µs, so that a window holds many.
const STEP_BYTES: usize = 256 << 10;
const STEP_TEAM_BYTES: usize = 32 << 10;
const STEP_LOADS: u64 = 256;
/// Before a CPU's window alone it moves so much: more than its own caches. The last cache is as the
/// team's window left it, by the same kernel on the same memory.
pub(super) const WARM_BYTES: usize = 3 << 20;
/// Loads before a walk is timed: they bring back page tables, and the own caches' stored lines
/// leave.
pub(super) const WARM_LOADS: u64 = 1 << 14;
/// Distance of the ring's slots: two lines, so that a prefetcher of line pairs brings nothing of
/// it.
pub(super) const SLOT_BYTES: usize = 128;
/// The part of a member's memory that its streams leave out: what separates the arrays.
const APART_BYTES: usize = 32 << 10;
/// Rings up to this are walked with a count.
const VERIFIED_MOST: usize = 4 << 20;
/// No node was looked at.
const NOWHERE: usize = usize::MAX;

/// The length of one window in ns.
pub(super) fn window_ns(case_ns: u64, rehearsal: bool) -> f64 {
    let window_ns = case_ns as f64 / WINDOWS;
    if rehearsal { window_ns.max(REHEARSAL_NS) } else { window_ns }
}

/// The CPUs of one case.
struct Seat {
    pair: Pair,
    /// Drawn for this round: they work alone, one after the other.
    alone: Vec<usize>,
    /// One CPU of each core, which work together.
    team: Vec<usize>,
}

/// What was found of one case. Rates in bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Per kernel, and CPU alone.
    pub(super) alone: Vec<Vec<f64>>,
    /// Per kernel, all CPUs together.
    pub(super) team: Vec<f64>,
    /// The least share of a team's window in which all were at work.
    pub(super) overlap: Option<f64>,
    /// Per CPU alone, in ns.
    pub(super) latency_ns: Vec<f64>,
}

impl Found {
    /// The mean over kernels of the mean over CPUs, each alone: R4's cell.
    pub(super) fn bandwidth(&self) -> Option<f64> {
        let kernels: Option<Vec<f64>> = self.alone.iter().map(|cpus| mean(cpus)).collect();
        mean(&kernels?)
    }

    /// The slowest and the fastest CPU, as means over kernels.
    pub(super) fn cpu_range(&self) -> Option<(f64, f64)> {
        let cpus = self.alone.first()?.len();
        let of = |cpu: usize| {
            let kernels = self.alone.iter().map(|kernel| kernel.get(cpu).copied());
            mean(&kernels.collect::<Option<Vec<f64>>>()?)
        };
        let means: Option<Vec<f64>> = (0..cpus).map(of).collect();
        let means = means?;
        let low = means.iter().copied().reduce(f64::min)?;
        Some((low, means.iter().copied().reduce(f64::max)?))
    }
}

/// The arithmetic mean; none of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The memory of a round on one node.
struct Field {
    node: usize,
    /// The CPUs that place, link and prepare: the node's own where it has any.
    makers: Vec<usize>,
    /// Each member's part; empty once the first kernel's streams are laid out in them.
    parts: Vec<Placed>,
    arrays: Vec<Mutex<Arrays>>,
    /// The widths of the loops that were taken.
    widths: BTreeSet<String>,
    ring: Mutex<Ring>,
    /// Share of the streams in huge pages.
    huge_share: f64,
    notes: Vec<String>,
}

/// Measures every case of a series and writes down those that hold. Errors: the memory is not
/// available on its node, or this cannot be verified.
pub(super) fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
    let sizes = Sizes::from_series(series).context("the series has no sizes")?;
    let seats: Vec<Seat> = series
        .cases
        .iter()
        .map(|case| seat(case, sizes, bench.order().seed))
        .collect::<Result<_>>()?;
    let node = &seats.first().context("a series without cases")?.pair;
    ensure!(
        seats.iter().all(|seat| seat.pair.memory_node == node.memory_node),
        "a series has one memory node"
    );
    let field = Field::new(node.nodes().1, &seats, sizes, bench.order().seed);
    let Some(mut field) = unless_without_room(field, series, bench)? else { return Ok(()) };
    let mut found: Vec<Result<Found>> = seats.iter().map(|_| Ok(Found::default())).collect();
    for op in STREAM {
        field.prepare(op)?;
        for (seat, found) in seats.iter().zip(&mut found) {
            attempt(found, |found| field.stream(seat, bench, found));
        }
        field.check()?;
    }
    for (seat, found) in seats.iter().zip(&mut found) {
        attempt(found, |found| field.walk(seat, bench, found));
    }
    // Only now, on the pages that were used.
    field.verify()?;
    for ((case, seat), found) in series.cases.iter().zip(&seats).zip(found) {
        match found {
            Ok(found) => field.write(bench, case, seat, &found)?,
            Err(error) => bench.give_up([case], &error),
        }
    }
    Ok(())
}

/// Goes on with a case unless it has failed.
fn attempt(found: &mut Result<Found>, more: impl FnOnce(&mut Found) -> Result<()>) {
    if let Ok(have) = found
        && let Err(error) = more(have)
    {
        *found = Err(error);
    }
}

/// The threads of a case: the CPUs that work alone are drawn anew each round, the same ones against
/// every memory node.
fn seat(case: &Case, sizes: Sizes, seed: u64) -> Result<Seat> {
    let pair = Pair::decode(case)?;
    let list = |name: &str| -> Result<Vec<usize>> {
        let text = case.at.get(name).and_then(Value::text).unwrap_or("");
        let cpus = parse_cpus(text);
        ensure!(!cpus.is_empty(), "{} was not given CPUs", case.id);
        Ok(cpus)
    };
    let mut alone = list("node_cpus")?;
    Rng::with_seed(seed.wrapping_add(pair.cpu_node)).shuffle(&mut alone);
    alone.truncate(usize::try_from(sizes.cpus)?.max(1));
    Ok(Seat { pair, alone, team: list("team")? })
}

impl Field {
    fn new(node: usize, seats: &[Seat], sizes: Sizes, seed: u64) -> Result<Field> {
        let own = seats.iter().find(|seat| seat.pair.is_local());
        let makers = own.unwrap_or(&seats[0]).team.clone();
        let members = seats.iter().map(|seat| seat.team.len()).max().unwrap_or(1);
        let part = sizes.footprint.div_ceil(members as u64);
        // The ring is linked first: what that leaves in caches, the streams drive out.
        let mut rings = Team::each(&makers[..1], vec![()], |()| {
            let placed = place_huge_or_base(sizes.ring, node)?;
            let mut ring = Ring::new(placed.mapping, SLOT_BYTES, seed)?;
            ring.grow_to(ring.room())?;
            if ring.footprint() <= VERIFIED_MOST {
                ensure!(ring.verify(), "the walk does not visit all slots once");
            }
            Ok((ring, placed.notes))
        })
        .with_context(|| format!("placing a ring on node {node}"))?;
        let (ring, mut notes) = rings.pop().context("no ring was made")?;
        let parts = Team::each(&makers, vec![(); members], |()| place_huge_or_base(part, node));
        let parts = parts.with_context(|| format!("placing streams on node {node}"))?;
        let huge_share = parts.iter().map(|placed| placed.huge_share).sum::<f64>();
        notes.extend(parts.iter().flat_map(|placed| placed.notes.iter().cloned()));
        notes.sort();
        notes.dedup();
        Ok(Field {
            node,
            makers,
            parts,
            arrays: Vec::new(),
            widths: BTreeSet::new(),
            ring: Mutex::new(ring),
            huge_share: huge_share / members as f64,
            notes,
        })
    }

    /// Takes up the next kernel, all values written anew.
    fn prepare(&mut self, op: Op) -> Result<()> {
        let threads = Threads::Number(1);
        let kernel = Transfer::widest(op, Stores::Regular, Level::Memory, threads).kernel();
        let mut parts = std::mem::take(&mut self.parts);
        let before = std::mem::take(&mut self.arrays).into_iter();
        parts.extend(before.map(|arrays| unlocked(arrays).into_placed()));
        for laid_out in Team::each(&self.makers, parts, |part: Placed| {
            let bytes = part.mapping.bytes().checked_sub(APART_BYTES);
            let bytes = bytes.context("a member's part of the memory holds no arrays")?;
            let mut arrays = Arrays::new(kernel, part, bytes)?;
            let by = take_quickest(&mut arrays.stream);
            Ok((arrays, format!("{:?}", by.width).to_lowercase()))
        })? {
            self.arrays.push(Mutex::new(laid_out.0));
            self.widths.insert(laid_out.1);
        }
        Ok(())
    }

    /// Compares what the kernel left with what it must have left.
    fn check(&self) -> Result<()> {
        let arrays = self.arrays.iter().collect();
        Team::each(&self.makers, arrays, |arrays: &Mutex<Arrays>| locked(arrays).demand_right())?;
        Ok(())
    }

    /// One kernel by the team, then by every CPU alone. What is before in the node's last caches
    /// (the lines that other kernels and other nodes' memory left, stored or not, or nothing) would
    /// be written back in the window, or make room for stores that then do not reach the memory: so
    /// the team first moves a part of its arrays that is as large as those caches.
    fn stream(&self, seat: &Seat, bench: &mut Bench, found: &mut Found) -> Result<()> {
        let shared = self.run(bench, seat, &seat.team, |member| {
            let mut arrays = locked(&self.arrays[member]);
            let stream = &mut arrays.stream;
            let caches = stream.pass_bytes() / CACHES;
            let mut moved = 0;
            while moved < caches {
                moved += stream.step(STEP_BYTES);
            }
            move || arrays.stream.step(STEP_TEAM_BYTES)
        })?;
        found.team.push(shared.rate());
        let least = found.overlap.unwrap_or(1.0).min(shared.overlap);
        found.overlap = Some(least);
        let mut alone = Vec::with_capacity(seat.alone.len());
        for cpu in &seat.alone {
            // One CPU passes over what all members' arrays hold, so that no cache holds it.
            let shared = self.run(bench, seat, &[*cpu], |_| {
                let mut arrays: Vec<_> = self.arrays.iter().map(locked).collect();
                arrays[0].stream.step(WARM_BYTES);
                let (mut at, mut moved) = (0, 0);
                move || {
                    let stream = &mut arrays[at].stream;
                    let step = stream.step(STEP_BYTES);
                    moved += step;
                    if moved >= stream.pass_bytes() {
                        moved = 0;
                        at = (at + 1) % arrays.len();
                    }
                    step
                }
            })?;
            alone.push(lone_rate(&shared));
        }
        found.alone.push(alone);
        Ok(())
    }

    /// The walk by every CPU alone, on from where the one before stopped.
    fn walk(&self, seat: &Seat, bench: &mut Bench, found: &mut Found) -> Result<()> {
        for cpu in &seat.alone {
            let shared = self.run(bench, seat, &[*cpu], |_| {
                let mut ring = locked(&self.ring);
                ring.chase_pointer(WARM_LOADS);
                move || {
                    ring.chase_pointer(STEP_LOADS);
                    STEP_LOADS
                }
            })?;
            found.latency_ns.push(1e9 / lone_rate(&shared));
        }
        Ok(())
    }

    /// Runs a team of the pair and verifies where each member ran. The clock is the kernel's, one
    /// for all CPUs: counters of different sockets are not compared, and a step takes hundreds of
    /// its readings.
    fn run<S: FnMut() -> u64>(
        &self,
        bench: &mut Bench,
        seat: &Seat,
        cpus: &[usize],
        enlist: impl Fn(usize) -> S + Sync,
    ) -> Result<Shared> {
        let rehearsal = bench.order().rehearsal;
        let window_ns = window_ns(bench.order().case_ns, rehearsal);
        bench.declare(Declared::Cpus(cpus));
        let nodes: Vec<AtomicUsize> = cpus.iter().map(|_| AtomicUsize::new(NOWHERE)).collect();
        let (mut best, mut apart) = (None::<Shared>, None);
        for attempt in 0..ATTEMPTS {
            let window_ns = window_ns * LONGER.powi(attempt);
            let team = TeamWindow::new(Clock::Monotonic, cpus.to_vec(), window_ns, rehearsal);
            let shared = team.run_probed(|member| {
                let mut step = enlist(member);
                let seen = &nodes[member];
                // Called before and after the window: the last answer stays.
                let probe = move |_: &mut _| {
                    seen.store(place::current_node(), Ordering::Release);
                    None
                };
                Ok((move || Ok(step()), probe))
            });
            match shared {
                Ok(shared) => {
                    let nodes = nodes.iter().map(|node| node.load(Ordering::Acquire));
                    let ran = shared.members.iter().map(|member| member.cpu).zip(nodes);
                    at_home(cpus, ran, seat.pair.nodes().0)?;
                    let together = shared.overlap;
                    if best.as_ref().is_none_or(|best| best.overlap < together) {
                        best = Some(shared);
                    }
                    if together >= OVERLAP_LEAST {
                        break;
                    }
                }
                Err(error) if error.is::<NeverTogether>() => apart = Some(error),
                Err(error) => return Err(error),
            }
        }
        best.ok_or_else(|| apart.unwrap_or_else(|| anyhow!("no attempt was made")))
    }

    /// Asks where the pages are.
    fn verify(&self) -> Result<()> {
        for arrays in &self.arrays {
            is_on(locked(arrays).stream.mapping(), self.node).context("after the run")?;
        }
        is_on(locked(&self.ring).mapping(), self.node).context("after the run")
    }

    fn write(&self, bench: &mut Bench, case: &Case, seat: &Seat, found: &Found) -> Result<()> {
        let footprints = self.arrays.iter().map(|arrays| locked(arrays).stream.footprint_bytes());
        let footprint: usize = footprints.sum();
        let alone: Vec<String> = seat.alone.iter().map(usize::to_string).collect();
        let alone = alone.join(",");
        let widths: Vec<&str> = self.widths.iter().map(String::as_str).collect();
        let ring = locked(&self.ring).footprint();
        let team = mean(&found.team);
        let latency = mean(&found.latency_ns);
        let values =
            [("bandwidth", found.bandwidth()), ("node_bandwidth", team), ("latency", latency)];
        for (metric, value) in values {
            let value = value.with_context(|| format!("{} has no {metric}", case.id))?;
            let samples = bench.record(case, metric, Values::block(value).apart())?;
            samples.notes.extend(self.notes.iter().cloned());
            samples.at.put("alone", alone.as_str());
            samples.at.put("width", widths.join(","));
            samples.at.put("footprint", footprint as u64);
            samples.at.put("ring", ring as u64);
            samples.at.put("verified", "move_pages,getcpu");
            let kernels: Vec<f64> = match metric {
                "bandwidth" => found.alone.iter().filter_map(|cpus| mean(cpus)).collect(),
                "node_bandwidth" => found.team.clone(),
                _ => Vec::new(),
            };
            samples.set_quantities(STREAM.iter().map(|op| op.text()).zip(kernels));
            samples.set_quantities([("huge_share", self.huge_share)]);
            match metric {
                "node_bandwidth" => samples.quantities.put_known("overlap", found.overlap),
                "bandwidth" => {
                    let (low, high) = found.cpu_range().unzip();
                    samples.set_quantities([("cpu_low", low), ("cpu_high", high)]);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The rate of a team of one: in its median step, so that an interrupt or another's turn on the CPU
/// is not in it.
fn lone_rate(shared: &Shared) -> f64 {
    let steady = shared.members.first().and_then(|member| member.steady_rate);
    steady.unwrap_or_else(|| shared.rate())
}

/// Demands that all sampled pages are on the node, and that the kernel says so. Errors: pages
/// elsewhere, with both nodes named; or no answer, with what would allow one.
fn is_on(mapping: &Mapping, node: usize) -> Result<()> {
    let mut refused = Vec::new();
    verify_node(mapping, node, &mut refused)?;
    is_told(node, &refused)
}

/// Demands that the kernel refused no answer.
fn is_told(node: usize, refused: &[String]) -> Result<()> {
    ensure!(
        refused.is_empty(),
        "cannot verify that the memory is on node {node}: {}; there is no figure, because it might \
         be another node's (containers allow mbind and move_pages with --cap-add SYS_NICE)",
        refused.join("; ")
    );
    Ok(())
}

/// Demands that every member ran on its CPU and that the CPU is of the node.
fn at_home(cpus: &[usize], ran: impl Iterator<Item = (usize, usize)>, node: usize) -> Result<()> {
    for (wanted, (cpu, on)) in cpus.iter().zip(ran) {
        ensure!(
            cpu == *wanted && on == node,
            "a thread was placed on CPU {wanted} of node {node}, but ran on CPU {cpu} of node \
             {on}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
