//! Which sleeps are measured where, and for how long.

use super::load;
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use host::{format_cpus, parse_cpus};
use laws::noise::wakeup::{Load, Slack, Sleep};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sleeps of a case in a rehearsal.
pub(super) const REHEARSAL_SLEEPS: usize = 3;

/// Start of a worker and its end.
const WORKER: Duration = Duration::from_millis(30);
/// Core clock and counters around a case.
const AROUND: Duration = Duration::from_millis(3);
/// Making, starting and ending one spinner.
const SPINNER: Duration = Duration::from_micros(500);

/// Parameters of which the shorter presets vary one at a time.
const VARIED: [&str; 4] = ["clock", "policy", "slack", "idle_states"];

/// Every case that the parameters ask for and the site allows.
///
/// # Errors
/// None of them is allowed.
pub(super) fn offer(experiment: &str, site: &Site, params: &Params) -> Result<Offer, Skip> {
    let mut offer = Offer::default();
    for id in asked(params) {
        if let Some(skip) = refused(site, &id) {
            offer.skipped.push((id, skip));
            continue;
        }
        let name = series_name(&id);
        let mut case = Case::new(id);
        let sleeps = sleeps(params, case.int("spacing").unwrap_or(1));
        case.at.insert("sleeps".to_owned(), Value::Int(sleeps));
        let cpus = cpus_of_load(site, case.text("load").unwrap_or_default());
        if !cpus.is_empty() {
            let cpus = Value::Text(format_cpus(&cpus));
            case.at.insert("load_cpus".to_owned(), cpus);
        }
        match offer.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.cases.push(case),
            None => offer.series.push(Series {
                experiment: experiment.to_owned(),
                name,
                order: Order::Shuffled,
                cases: vec![case],
                settings: BTreeMap::new(),
            }),
        }
    }
    match offer.series.is_empty() {
        true => Err(offer
            .skipped
            .into_iter()
            .next()
            .map_or_else(|| Skip::because("no sleep is asked for"), |(_, skip)| skip)),
        false => Ok(offer),
    }
}

/// Cases that need the same rights share a round: a series is refused as a whole.
fn series_name(id: &CaseId) -> String {
    let parts = [id.text("policy"), id.text("idle_states")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    parts.join("-")
}

/// The combinations that the parameters ask for.
fn asked(params: &Params) -> Vec<CaseId> {
    let mut ids = vec![CaseId::new()];
    for name in ["spacing", "load", "clock", "policy", "slack", "idle_states"] {
        let mut longer = Vec::new();
        for id in ids {
            // A real-time policy has no slack to choose.
            if name == "slack" && id.text("policy") == Some("fifo") {
                longer.push(id);
                continue;
            }
            for value in params.get(name) {
                longer.push(id.clone().with(name, value.clone()));
            }
        }
        ids = longer;
    }
    if params.preset != Preset::Thorough {
        ids.retain(|id| is_near(params, id));
    }
    ids
}

/// Whether a combination is plain (the first value of each varied parameter), or differs from that in
/// one, at the first spacing.
fn is_near(params: &Params, id: &CaseId) -> bool {
    let is_first =
        |name: &str| id.get(name).is_none_or(|value| params.get(name).first() == Some(value));
    let away = VARIED.iter().filter(|name| !is_first(name)).count();
    away == 0 || (away == 1 && is_first("spacing"))
}

/// Why a site does not allow a case.
fn refused(site: &Site, id: &CaseId) -> Option<Skip> {
    if id.text("policy") == Some("fifo")
        && let Some(skip) = no_fifo(site)
    {
        return Some(skip);
    }
    let states = &site.host.cpu.idle_states;
    let can_idle = states.iter().any(|state| state.name != "POLL" && !state.disabled);
    if id.text("idle_states") == Some("held_off") && !can_idle {
        return Some(Skip::because("the kernel tells no idle states that could be held off"));
    }
    let load = id.text("load").unwrap_or_default();
    let spinning = cpus_of_load(site, load).len();
    if load == "others" && spinning == 0 {
        return Some(
            Skip::because("there is one CPU to measure on, and no other that could be loaded")
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

/// Why nothing may be under SCHED_FIFO, as far as files tell.
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

/// The CPUs on which a load spins.
fn cpus_of_load(site: &Site, load: &str) -> Vec<usize> {
    match load {
        "same" => site.cpus.iter().take(1).copied().collect(),
        "others" => site.cpus.iter().skip(1).copied().collect(),
        _ => Vec::new(),
    }
}

/// The CPUs on which the load of a planned case spins.
pub(super) fn load_cpus(case: &Case) -> Vec<usize> {
    let list = case.at.get("load_cpus").and_then(Value::text);
    list.map(parse_cpus).unwrap_or_default()
}

/// Sleeps of a case in a round.
fn sleeps(params: &Params, spacing_ns: u64) -> u64 {
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

/// A case in the words of the law.
pub(super) fn sleep(case: &Case) -> Sleep {
    Sleep {
        spacing_ns: case.int("spacing").unwrap_or(1) as f64,
        load: match case.text("load") {
            Some("same") => Load::Same,
            Some("others") => Load::Others,
            _ => Load::Idle,
        },
        fifo: case.text("policy") == Some("fifo"),
        slack: match case.text("slack") {
            Some("least") => Slack::Least,
            _ => Slack::Default,
        },
        held_off: case.text("idle_states") == Some("held_off"),
    }
}
