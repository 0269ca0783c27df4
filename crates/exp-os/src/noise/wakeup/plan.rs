//! Which sleeps are measured where, and for how long.

use super::{GridClock, IdleStates, Load, Policy, Slack, Sleep, Wakeups, load};
use bench::prelude::*;
use host::{format_cpus, parse_cpus};

pub(super) const REHEARSAL_SLEEPS: usize = 3;

/// Start of a worker and its end.
const WORKER: Duration = Duration::from_millis(30);
/// Core clock and counters around a case.
const AROUND: Duration = Duration::from_millis(3);
/// Making, starting and ending one spinner.
const SPINNER: Duration = Duration::from_micros(500);

/// The sleeps of a preset: the plain one, and those that differ from it in one of clock, policy,
/// slack and idle states, these at the first spacing; in thorough every combination.
pub(super) fn sleeps(preset: Preset) -> Vec<Sleep> {
    let [spacings, clocks, slacks, policies, states] = match preset {
        Preset::Rehearsal | Preset::Quick => [1, 1, 1, 1, 1],
        Preset::Standard => [2, 2, 2, 1, 1],
        Preset::Thorough => [2, 2, 2, 2, 2],
    };
    let loads = if preset <= Preset::Quick { &Load::ALL[..2] } else { Load::ALL };
    let mut all: Vec<Sleep> =
        [MS, 100 * MS][..spacings].iter().map(|ns| Sleep::plain(*ns)).collect();
    all = each(all, loads, |sleep, load| Sleep { load, ..sleep });
    all = each(all, &GridClock::ALL[..clocks], |sleep, clock| Sleep { clock, ..sleep });
    all = each(all, &Policy::ALL[..policies], |sleep, policy| Sleep { policy, ..sleep });
    all = each(all, &Slack::ALL[..slacks], |sleep, slack| Sleep { slack: Some(slack), ..sleep });
    all =
        each(all, &IdleStates::ALL[..states], |sleep, idle_states| Sleep { idle_states, ..sleep });
    all.retain(|sleep| preset == Preset::Thorough || is_near(sleep));
    all
}

const MS: u64 = 1_000_000;

fn each<T: Copy>(sleeps: Vec<Sleep>, values: &[T], with: fn(Sleep, T) -> Sleep) -> Vec<Sleep> {
    let sleeps = sleeps.into_iter();
    sleeps.flat_map(|sleep| values.iter().map(move |value| with(sleep.clone(), *value))).collect()
}

/// Whether a sleep is plain, or differs from that in one, at the first spacing.
fn is_near(sleep: &Sleep) -> bool {
    let plain = Sleep::plain(MS);
    let is_away = [
        sleep.clock != plain.clock,
        sleep.policy != plain.policy,
        sleep.slack != plain.slack,
        sleep.idle_states != plain.idle_states,
    ];
    let away = is_away.iter().filter(|is_away| **is_away).count();
    away == 0 || away == 1 && sleep.spacing == plain.spacing
}

/// Every case that the site allows, in series by the rights that they need.
pub(super) fn offer(site: &Site, sleeps: Vec<Sleep>, params: &Params) -> Result<Offer, Skip> {
    let offer = Offer::sorted::<Wakeups>(site, sleeps, params, |sleep, case| {
        case.at.put("sleeps", count(params, sleep.spacing));
        let cpus = cpus_of_load(site, sleep.load);
        if !cpus.is_empty() {
            case.at.put("load_cpus", format_cpus(&cpus));
        }
        let name = format!("{}-{}", sleep.policy.text(), sleep.idle_states.text());
        (name, BTreeMap::new())
    });
    if offer.series.is_empty() {
        let first = offer.skipped.into_iter().next();
        return Err(first.map_or_else(|| Skip::because("no sleep was requested"), |(_, skip)| skip));
    }
    Ok(offer)
}

/// Why a site does not allow a case.
pub(super) fn refused(site: &Site, sleep: &Sleep) -> Option<Skip> {
    if sleep.policy == Policy::Fifo
        && let Some(skip) = no_fifo(site)
    {
        return Some(skip);
    }
    let states = &site.host.cpu.idle_states;
    let can_idle = states.iter().any(|state| state.name != "POLL" && !state.disabled);
    if sleep.idle_states == IdleStates::HeldOff && !can_idle {
        return Some(Skip::because("the kernel lists no idle states that could be disabled"));
    }
    let spinning = cpus_of_load(site, sleep.load).len();
    if sleep.load == Load::Others && spinning == 0 {
        return Some(
            Skip::because("only one CPU to measure on, so no other can be loaded")
                .needs("a second CPU, allowed and named by --cpu"),
        );
    }
    // Alone they use what the group may have; sooner or later the sleeper is throttled with them.
    let quota = site.host.limits.cpu_quota.map(|quota| quota.cpus());
    quota.filter(|cpus| *cpus < spinning as f64).map(|cpus| {
        Skip::because(format!(
            "{spinning} spinning processes would use up the control group's quota of {cpus:.2} CPUs, \
             and the sleeper would be throttled with them"
        ))
        .needs("a higher cpu.max, or fewer CPUs by --cpu")
    })
}

/// Why SCHED_FIFO is not allowed, as far as files show.
fn no_fifo(site: &Site) -> Option<Skip> {
    let kernel = &site.host.kernel;
    if kernel.rt_runtime_us == Some(0) {
        return Some(
            Skip::because("kernel.sched_rt_runtime_us is 0: real-time processes never run")
                .needs("sysctl kernel.sched_rt_runtime_us=950000"),
        );
    }
    let highest = site.host.limits.realtime_priority.map_or(Some(0), |limit| limit.soft);
    let wanted = super::hold::PRIORITY as u64;
    let is_enough = highest.is_none_or(|highest| highest >= wanted);
    (kernel.euid.is_some_and(|euid| euid != 0) && !is_enough).then(|| {
        Skip::because(format!(
            "SCHED_FIFO with priority {wanted} is not allowed: not root, and RLIMIT_RTPRIO is {}",
            highest.unwrap_or(0)
        ))
        .needs(format!("root, CAP_SYS_NICE or `ulimit -r {wanted}`"))
    })
}

fn cpus_of_load(site: &Site, load: Load) -> Vec<usize> {
    match load {
        Load::Same => site.cpus.iter().take(1).copied().collect(),
        Load::Others => site.cpus.iter().skip(1).copied().collect(),
        Load::Idle => Vec::new(),
    }
}

pub(super) fn load_cpus(case: &Case) -> Vec<usize> {
    let list = case.at.get("load_cpus").and_then(Value::text);
    list.map(parse_cpus).unwrap_or_default()
}

fn count(params: &Params, spacing_ns: u64) -> u64 {
    if let Some(count) = params.ints("sleeps").first() {
        return *count;
    }
    let (window_ns, least) = match params.preset {
        Preset::Rehearsal => return REHEARSAL_SLEEPS as u64,
        Preset::Quick => (28_000_000, 2),
        Preset::Standard => (60_000_000, 2),
        Preset::Thorough => (100_000_000, 4),
    };
    (window_ns / spacing_ns).max(least)
}

/// The stated cost of a round: the sleeps, and the spinners that are made once.
pub(super) fn round_cost(series: &Series) -> Duration {
    let sleeps = series.cases.iter().map(|case| {
        let (spacing, sleeps) = (case.int("spacing"), case.int("sleeps"));
        let whole_ns = spacing.unwrap_or(0).saturating_mul(sleeps.unwrap_or(0));
        Duration::from_nanos(whole_ns.saturating_add(super::LEAD_NS)) + AROUND
    });
    let spinners = load::count(series.cases.iter().map(load_cpus));
    WORKER + sleeps.sum::<Duration>() + SPINNER * u32::try_from(spinners).unwrap_or(u32::MAX)
}
