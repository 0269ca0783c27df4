//! Which sizes are measured here, and what they take.

use super::{CARD, ID, Limit, Size, Swept};
use crate::fs::prelude::*;
use laws::fs::cache_size::rate;

/// Sizes in hundredths of the limit: five below it or at it, the last 1.25 of it.
const GROUP_SIZES: [u64; 7] = [25, 50, 75, 90, 100, 110, 125];
/// Fewer for a whole memory, because each takes its time.
const MEMORY_SIZES: [u64; 5] = [50, 75, 90, 100, 125];
const BISECTIONS: [Size; 4] = [Size::Bisect1, Size::Bisect2, Size::Bisect3, Size::Bisect4];
pub(super) const GROUP_BYTES: u64 = 64 << 20;
pub(super) const STEP_BYTES: u64 = 64 << 10;
/// Passes over a size, at most.
pub(super) const PASSES: u64 = 12;
const REHEARSAL_BYTES: u64 = 1 << 20;
/// A pass over a file that does not fit in the memory reads so long of it, as a share of the whole
/// time: one over this.
const PASS_SHARE: u64 = 16;
/// What the bisection cuts off it writes again: half of the distance of two sizes, a tenth of the
/// file at most; one over this.
const REWRITTEN: u64 = 10;
/// Bytes per ns of a cached file, for stated costs.
const CACHED_RATE: f64 = 4.0;
/// The largest size is written and read in this share of the time.
const LARGEST_SHARE: f64 = 0.4;
/// Start and end of a worker, the group, evictions.
const OVERHEAD: Duration = Duration::from_millis(150);

pub(super) fn limits(site: &Site, preset: Preset) -> Vec<Limit> {
    match (preset, site.host.limits.memory_place.is_some()) {
        (Preset::Rehearsal, _) | (_, false) => vec![Limit::Memory],
        (Preset::Thorough, true) => vec![Limit::Group(GROUP_BYTES), Limit::Memory],
        (_, true) => vec![Limit::Group(GROUP_BYTES)],
    }
}

/// Sizes under a limit, where time and directory allow all.
pub(super) fn all(preset: Preset, limit: Limit) -> impl Iterator<Item = Size> {
    let (percents, steps): (&[u64], &[Size]) = match (preset, limit) {
        (Preset::Rehearsal, _) => (&[], &[Size::Largest]),
        (_, Limit::Group(_)) => (&GROUP_SIZES, &BISECTIONS),
        (_, Limit::Memory) => (&MEMORY_SIZES, &BISECTIONS),
    };
    percents.iter().map(|percent| Size::Percent(*percent)).chain(steps.iter().copied())
}

/// A limit in bytes; why the site does not allow it.
pub(super) fn bytes(site: &Site, limit: Limit) -> Result<u64, Skip> {
    let (host, limits) = (&site.host, &site.host.limits);
    let Limit::Group(bytes) = limit else {
        let all = host.memory_ceiling_bytes().or(Some(site.memory_bytes));
        let enough = all.filter(|bytes| *bytes >= REHEARSAL_BYTES);
        let why = "the kernel does not report how much memory is available";
        return enough.ok_or_else(|| Skip::because(why));
    };
    if limits.memory_place.is_none() {
        let why =
            limits.memory_place_refused.as_deref().unwrap_or("no suitable parent group found");
        let why = format!("cannot create a control group with a memory limit: {why}");
        return Err(Skip::because(why).needs(
            "root, or a delegated control group with the memory controller (systemd-run --user \
             --scope -p Delegate=yes), or plumb itself under a limit (-p MemoryMax=256M) with \
             --set fs.cache_size.limit=memory",
        ));
    }
    match limits.memory_left_bytes {
        Some(left) if left < bytes + bytes / 4 => {
            let left = render(left as f64, Unit::B);
            let why =
                format!("only {left} remain under the memory limit of plumb's own control group");
            Err(Skip::because(why).needs("a smaller one with --set fs.cache_size.limit=SIZE"))
        }
        _ => Ok(bytes),
    }
}

/// Adds the series of a limit, and the sizes that do not fit with what would help.
pub(super) fn offer(
    site: &Site,
    params: &Params,
    cases: &[Swept],
    limit_bytes: u64,
    offer: &mut Offer,
) {
    let limit = cases[0].limit;
    let budget = Budget::for_site(site, params, limit, limit_bytes);
    let ((sizes, steps), refused) = match params.chosen("size") {
        Some(_) => budget.asked(cases),
        None => budget.usual(params.preset, would_swap(site, params, limit)),
    };
    let refused = refused.into_iter();
    offer.skipped.extend(refused.map(|(size, skip)| (Swept { limit, size }.id(), skip)));
    let sizes = sizes.into_iter().map(|(size, bytes)| (size, Some(bytes)));
    let steps = BISECTIONS[..steps].iter().map(|step| (*step, None));
    let cases = sizes.chain(steps).map(|(size, bytes)| {
        let mut case = Case::new(Swept { limit, size }.id());
        case.at.put("limit_bytes", limit_bytes);
        case.at.put_known("bytes", bytes);
        case
    });
    let cases: Vec<Case> = cases.collect();
    if !cases.is_empty() {
        let series = offer.series_named(&CARD, &limit.name(), Order::Fixed);
        (series.cases, series.settings) = (cases, settings(site, params, limit));
    }
}

/// With swap, filling the machine's memory swaps out other processes: only if the user asks for
/// this limit alone.
fn would_swap(site: &Site, params: &Params, limit: Limit) -> Option<Skip> {
    let host = &site.host;
    let swap = host.memory.swap_total_bytes.filter(|bytes| *bytes > 0)?;
    let left = host.limits.memory_left_bytes;
    let is_by_group = left.is_some() && left == host.memory_ceiling_bytes();
    let is_asked = params.chosen("limit").is_some_and(|limits| limits.len() == 1);
    (limit == Limit::Memory && !is_by_group && !is_asked).then(|| {
        let swap = render(swap as f64, Unit::B);
        let why = format!(
            "{swap} of swap is enabled, so filling the memory would swap out other processes"
        );
        Skip::because(why)
            .needs("--set fs.cache_size.limit=memory to run anyway, or disable swap (swapoff -a)")
    })
}

/// What a run that is continued must find as it was: how much memory is available is not (it stands
/// in the cases' `at`).
fn settings(site: &Site, params: &Params, limit: Limit) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    settings.put("time", time_ns(params));
    if limit != Limit::Memory
        && let Some(place) = &site.host.limits.memory_place
    {
        settings.put("group_version", u64::from(place.version));
        settings.put("group_below", place.parent.as_str());
        settings.put("group_home", place.home.as_str());
    }
    settings
}

fn time_ns(params: &Params) -> u64 {
    params.ints("time").first().copied().unwrap_or(6_000_000_000)
}

/// A share of a limit in whole steps.
pub(super) fn bytes_of(limit_bytes: u64, percent: u64) -> u64 {
    let bytes = (limit_bytes as f64 * percent as f64 / 100.0) as u64;
    (bytes / STEP_BYTES * STEP_BYTES).max(STEP_BYTES)
}

struct Budget {
    allowed_bytes: u64,
    time_ns: f64,
    /// Bytes per ns that the device is taken to give and take.
    rate: f64,
    limit: Limit,
    limit_bytes: u64,
}

/// Sizes with their bytes, and steps of the bisection.
type Chosen = (Vec<(Size, u64)>, usize);

impl Budget {
    fn for_site(site: &Site, params: &Params, limit: Limit, limit_bytes: u64) -> Budget {
        // Without a directory nothing is measured; what would be is still told.
        let all = site.dir.as_ref().map_or(u64::MAX, |_| device::allowance(site, ID));
        let group = match (limit, params.preset) {
            (Limit::Memory, Preset::Thorough) => {
                params.ints("limit").into_iter().max().unwrap_or(GROUP_BYTES) / 4 * 5
            }
            _ => 0,
        };
        Budget {
            allowed_bytes: all.saturating_sub(group),
            time_ns: time_ns(params) as f64,
            rate: rate(Facts::prior(site)).range.likely,
            limit,
            limit_bytes,
        }
    }

    /// The largest size that can be written and read in the time, `most` at most.
    fn largest(&self, most: u64) -> u64 {
        let in_time = LARGEST_SHARE * self.time_ns * self.rate;
        let bytes = (in_time as u64).min(self.allowed_bytes).min(most);
        bytes / STEP_BYTES * STEP_BYTES
    }

    fn refuses(&self, bytes: u64) -> Option<Skip> {
        (bytes > self.allowed_bytes).then(|| {
            let [wanted, may] = [bytes, self.allowed_bytes].map(|of| render(of as f64, Unit::B));
            Skip::because(format!("needs to write {wanted}, but at most {may} may be written here"))
                .needs("--dir DIR with more free space")
        })
    }

    /// What has its bytes by itself, with them: all but the steps of the bisection.
    fn sized(&self, sizes: impl Iterator<Item = Size>) -> impl Iterator<Item = (Size, u64)> {
        sizes.filter_map(|size| match size {
            Size::Percent(percent) => Some((size, bytes_of(self.limit_bytes, percent))),
            Size::Largest => Some((size, self.largest(self.limit_bytes))),
            _ => None,
        })
    }

    /// Sizes that the user named, and those that are refused; bisections, where both sides of the
    /// limit are among them.
    fn asked(&self, cases: &[Swept]) -> (Chosen, Vec<(Size, Skip)>) {
        let (mut sizes, mut refused) = (Vec::new(), Vec::new());
        for (size, bytes) in self.sized(cases.iter().map(|case| case.size)) {
            match self.refuses(bytes) {
                Some(skip) => refused.push((size, skip)),
                None => sizes.push((size, bytes)),
            }
        }
        let steps = cases.len() - sizes.len() - refused.len();
        sizes.order_by_key(|(_, bytes)| *bytes);
        sizes.dedup_by_key(|(_, bytes)| *bytes);
        ((sizes, steps.min(BISECTIONS.len())), refused)
    }

    /// All sizes and as many bisections as the time allows, or the largest size alone and why the
    /// others are not had: of what others need too (`harm`), half of the limit at most.
    fn usual(&self, preset: Preset, harm: Option<Skip>) -> (Chosen, Vec<(Size, Skip)>) {
        if preset == Preset::Rehearsal {
            return ((vec![(Size::Largest, REHEARSAL_BYTES)], 0), Vec::new());
        }
        let mut sizes: Vec<(Size, u64)> = self.sized(all(preset, self.limit)).collect();
        let bytes: Vec<u64> = sizes.iter().map(|(_, bytes)| *bytes).collect();
        let most = bytes.last().copied().unwrap_or(0);
        let in_time = |steps: &usize| self.cost_ns(&bytes, *steps) <= self.time_ns;
        let steps = match self.limit {
            // Its cost is bounded by its limit; a device that is slow takes longer.
            Limit::Group(_) => Some(BISECTIONS.len()),
            Limit::Memory => (0..=BISECTIONS.len()).rev().find(in_time),
        };
        let too_long = || {
            let (most, s) = (render(most as f64, Unit::B), self.cost_ns(&bytes, 0) / 1e9);
            Skip::because(format!("files up to {most} take {s:.0} s here"))
                .needs("--preset thorough, or --set fs.cache_size.time=TIME")
        };
        let share = if harm.is_some() { 2 } else { 1 };
        let largest = self.largest(self.limit_bytes / share);
        let skip = self.refuses(most + most / REWRITTEN);
        let skip = skip.or_else(|| steps.is_none().then(too_long)).or(harm);
        let Some(skip) = skip else {
            return ((sizes, steps.unwrap_or(0)), Vec::new());
        };
        let refused = sizes.extract_if(.., |(_, bytes)| *bytes > largest);
        let refused = refused.map(|(size, _)| (size, skip.clone())).collect();
        if largest > 0 && sizes.iter().all(|(_, bytes)| *bytes < largest) {
            sizes.push((Size::Largest, largest));
        }
        ((sizes, 0), refused)
    }

    fn cost_ns(&self, sizes: &[u64], steps: usize) -> f64 {
        let (rate, limit_bytes) = (self.rate, self.limit_bytes as f64);
        let (case_ns, pass_ns) = pass_limits(self.limit, self.time_ns, sizes.len() + steps);
        let most = sizes.iter().max().copied().unwrap_or(0) as f64;
        let passes = |bytes: f64, rate: f64| {
            let one = (bytes / rate).min(pass_ns);
            one * (case_ns / one).ceil().clamp(1.0, PASSES as f64)
        };
        let of_size = |bytes: f64| {
            let above = bytes >= limit_bytes;
            // In a group every size is read in anew; in the memory, what was just written is there.
            let is_filled = self.limit != Limit::Memory || above;
            let fill = if is_filled { bytes / rate } else { 0.0 };
            fill + passes(bytes, if above { rate } else { CACHED_RATE })
        };
        let grid: f64 = sizes.iter().map(|bytes| of_size(*bytes as f64)).sum();
        // Half of the steps lie above the knee.
        let both = passes(limit_bytes, rate) + passes(limit_bytes, CACHED_RATE);
        most / rate + grid + steps as f64 * (limit_bytes / rate + 0.5 * both)
    }
}

/// Time that a case's passes may take, in ns, and that a single pass may: a part of the file is
/// enough of a whole memory.
pub(super) fn pass_limits(limit: Limit, time_ns: f64, cases: usize) -> (f64, f64) {
    match limit {
        Limit::Group(_) => (time_ns / cases.max(1) as f64, f64::INFINITY),
        Limit::Memory => (time_ns / (2 * PASS_SHARE) as f64, time_ns / PASS_SHARE as f64),
    }
}

pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let sizes: Vec<u64> = series.cases.iter().filter_map(|case| case.int("bytes")).collect();
    let Some(first) = series.cases.first() else { return OVERHEAD };
    let budget = Budget {
        allowed_bytes: 0,
        time_ns: series.setting("time").unwrap_or(0) as f64,
        rate: rate(Facts::prior(site)).range.likely,
        limit: Swept::from_id(&first.id).map_or(Limit::Memory, |case| case.limit),
        limit_bytes: first.int("limit_bytes").unwrap_or(0),
    };
    let ns = budget.cost_ns(&sizes, series.cases.len() - sizes.len());
    OVERHEAD + Duration::from_nanos(ns as u64)
}
