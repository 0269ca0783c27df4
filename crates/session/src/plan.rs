//! A plan: a selection resolved against one site.

mod demands;
mod room;

use self::demands::demand_few;
use crate::budget::Claim;
use crate::params::Settings;
use crate::select::{Selection, domain_text, experiments};
use crate::setup::Usage;
use bench::device;
use bench::experiment::placement;
use bench::experiment::{
    AnyExperiment, Card, FAR, Family, LOOPBACK, Need, Offer, Params, Preset, Role, Site, Skip,
    ViewCard, lacks_loopback,
};
use record::case::Series;
use record::event::{Absence, Isolation, Plan, PlannedExperiment, PlannedSeries, Repeat};
use record::key::{CaseId, Value};
use record::order::Gather;
use record::view::View;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a round costs the session beside its worker's own stated time: seen here, a round of one
/// short window takes 20 to 35 ms in all, with the 45 that its experiment states for that.
pub const ROUND_OVERHEAD: Duration = Duration::from_millis(30);

pub struct Work {
    pub experiment: &'static dyn AnyExperiment,
    /// The series, sizes symbolic until its stage.
    pub series: Series,
    pub stage: usize,
    /// Stated cost of one round, overhead included.
    pub cost: Duration,
    /// Stated cost of what is made once before them.
    pub preparation: Duration,
    /// Cases that the quick preset has too, where this one is larger.
    pub in_quick: BTreeSet<CaseId>,
}

impl Work {
    /// Whether it is measured one time only.
    pub fn once(&self) -> bool {
        self.experiment.card().repeat != Repeat::Rounds
    }

    /// Stated cost of so many rounds and of what is made before them; one round of what is measured
    /// one time.
    pub fn whole(&self, rounds: u32) -> Duration {
        self.preparation + self.cost * if self.once() { 1 } else { rounds }
    }

    /// What it asks of the budget before its first round.
    pub fn claim(&self) -> Claim<'_> {
        let id = self.experiment.card().id;
        Claim {
            family: id.split_once('.').map_or(id, |(family, _)| family),
            stage: self.stage,
            once: self.once(),
            alone: self.alone(),
            has_keys: !self.experiment.card().keys.is_empty(),
            share: 1.0,
            stated: self.cost,
            preparation: self.preparation,
            ..Claim::default()
        }
    }

    /// Whether it must not be interleaved.
    pub fn alone(&self) -> bool {
        self.experiment.card().isolation == Isolation::Alone
    }
}

/// What a run is going to do, for the record and for the session.
pub struct Planned {
    pub plan: Plan,
    pub work: Vec<Work>,
    /// The preset, whose rules the rounds follow.
    pub preset: Preset,
    /// Cases that this site does not allow.
    pub skipped: Vec<(&'static Card, Option<CaseId>, Skip)>,
}

impl Planned {
    pub fn nothing(preset: Preset) -> Planned {
        Planned { plan: Plan::default(), work: Vec::new(), preset, skipped: Vec::new() }
    }
}

pub fn default_budget(preset: Preset) -> Duration {
    Duration::from_secs(match preset {
        Preset::Rehearsal => 60,
        // On a busy machine, too, all first looks fit into it.
        Preset::Quick => 72,
        Preset::Standard => 360,
        // 20 minutes of it are R3's ten minutes of each type of arithmetic.
        Preset::Thorough => 5400,
    })
}

/// Measuring time of one case in one round.
pub fn case_ns(preset: Preset) -> u64 {
    match preset {
        Preset::Rehearsal => 200_000,
        Preset::Quick | Preset::Standard => 12_000_000,
        Preset::Thorough => 25_000_000,
    }
}

/// Resolves a selection against a site. Errors: nothing is left to measure, with the reason.
pub fn plan(
    families: &'static [&'static Family],
    selection: &Selection,
    settings: &Settings,
    preset: Preset,
    budget: Duration,
    site: &Site,
) -> Result<Planned, Usage> {
    let chosen: Vec<(&'static Family, &'static dyn AnyExperiment)> = experiments(families)
        .filter(|(family, experiment)| selection.wants(family, experiment.card()))
        .collect();
    let ids = chosen.iter().map(|(_, one)| one.card().id);
    let site = &room::shared(site, ids, |id, site| {
        let (family, one) = chosen.iter().find(|(_, one)| one.card().id == id)?;
        let params = settings.params(one.card(), Preset::Thorough);
        let site = Site { case_ns: case_ns(Preset::Thorough), ..site.clone() };
        offer(family, *one, selection, &params, &site).ok()?.ok()
    });
    let levels = levels(&chosen);
    let mut planned = Planned::nothing(preset);
    planned.plan.looks = preset.looks().to_vec();
    planned.plan.stages = vec![Vec::new(); levels.iter().max().map_or(0, |last| last + 1)];
    for ((family, experiment), stage) in chosen.into_iter().zip(levels) {
        let params = settings.params(experiment.card(), preset);
        demand_few(experiment.card(), &params, None)?;
        let mut entry = entry(experiment);
        let (mut left_out, mut offers) = (None, 0);
        for site in far_sites(experiment.card(), &params, site)? {
            match offer(family, experiment, selection, &params, &site) {
                Ok(offer) => {
                    offers += 1;
                    planned.add(&mut entry, experiment, offer, stage, &site);
                }
                Err(nothing) => left_out = Some(nothing),
            }
        }
        if let Some(nothing) = left_out.filter(|_| offers == 0) {
            return Err(nothing);
        }
        planned.skip_unmet(selection, family, experiment.card(), &entry, site);
        planned.demand_set(experiment.card(), settings, &entry)?;
        let cases = entry.series.iter().map(|series| series.cases.len()).sum();
        demand_few(experiment.card(), &params, Some(cases))?;
        // What no far end allows is skipped as a whole.
        entry.skipped = entry.skipped.filter(|_| entry.series.is_empty());
        planned.plan.experiments.push(entry);
    }
    if planned.work.is_empty() && planned.skipped.is_empty() {
        let nothing = "no experiment matches the selectors: `plumb list` shows all";
        return Err(Usage(nothing.to_owned()));
    }
    if let Some(excess) = planned.plan.excess() {
        return Err(Usage(format!("the plan has {excess}: narrow it by selectors or --set")));
    }
    planned.plan.stages.retain(|stage| !stage.is_empty());
    planned.plan.eta_s = stated_eta(&planned.work, preset.looks(), budget).as_secs_f64();
    Ok(planned)
}

impl Planned {
    fn add(
        &mut self,
        entry: &mut PlannedExperiment,
        experiment: &'static dyn AnyExperiment,
        offer: Result<Offer, Skip>,
        stage: usize,
        site: &Site,
    ) {
        let card = experiment.card();
        match offer {
            Err(skip) => {
                entry.skipped = Some(Absence::from(skip.clone()));
                let whole = site.peer.as_ref().map(|peer| CaseId::new().with(FAR, &*peer.name));
                self.skipped.push((card, whole, skip));
            }
            Ok(offer) => {
                entry.derived.extend(experiment.derivable(site, &offer.series));
                for (case, skip) in offer.skipped {
                    self.skipped.push((card, Some(case), skip));
                }
                for mut series in offer.series {
                    if let Some(peer) = &site.peer {
                        let name = format!("{} {}", peer.name, series.name);
                        series.name = name.trim_end().to_owned();
                    }
                    let cost = experiment.round_cost(site, &series) + ROUND_OVERHEAD;
                    entry.series.push(PlannedSeries {
                        name: series.name.clone(),
                        cases: series.cases.iter().map(|case| case.id.clone()).collect(),
                        order: series.order,
                        settings: series.settings.clone(),
                        round_cost_s: cost.as_secs_f64(),
                    });
                    self.plan.stages[stage].push(series.label());
                    let ids = series.cases.iter().map(|case| case.id.clone());
                    self.work.push(Work {
                        in_quick: ids.filter(|id| offer.in_quick.contains(id)).collect(),
                        preparation: experiment.prepare_cost(site, &series),
                        experiment,
                        series,
                        stage,
                        cost,
                    });
                }
            }
        }
    }
}

/// What the plan says of an experiment before it has series.
pub fn entry(experiment: &'static dyn AnyExperiment) -> PlannedExperiment {
    let card = experiment.card();
    let mut views = card.views.iter().map(ViewCard::view);
    PlannedExperiment {
        id: card.id.to_owned(),
        title: card.title.to_owned(),
        manual: experiment.manual(),
        metrics: card.metrics.to_vec(),
        params: card
            .params
            .iter()
            .filter(|param| param.role == Role::Case)
            .map(|param| (param.name.to_owned(), param.doc.to_owned()))
            .collect(),
        units: card
            .params
            .iter()
            .filter_map(|param| Some((param.name.to_owned(), param.domain.unit()?)))
            .collect(),
        view: views.next().unwrap_or(View::Table),
        views: views.collect(),
        keys: card.keys.to_vec(),
        repeat: card.repeat,
        isolation: card.isolation,
        after: card.after.iter().map(|id| (*id).to_owned()).collect(),
        series: Vec::new(),
        derived: Vec::new(),
        skipped: None,
    }
}

/// The sites at which an experiment is offered: this one, or one for each of its far ends.
fn far_sites(card: &Card, params: &Params, site: &Site) -> Result<Vec<Site>, Usage> {
    if !card.params.iter().any(|param| param.name == FAR) {
        return Ok(vec![site.clone()]);
    }
    let names = || {
        let peers = site.peers.iter().map(|peer| peer.name.as_str());
        std::iter::once(LOOPBACK).chain(peers)
    };
    let wanted: Vec<&str> = match params.chosen(FAR) {
        None => names().collect(),
        Some(values) => values.iter().filter_map(Value::text).collect(),
    };
    if let Some(unknown) = wanted.iter().find(|far| !names().any(|name| name == **far)) {
        return Err(Usage(format!(
            "{}: unknown far end `{unknown}` ({}): add it with --peer {}URL",
            card.id,
            names().collect::<Vec<_>>().join(", "),
            if *unknown == "peer" { String::new() } else { format!("{unknown}=") },
        )));
    }
    Ok(wanted.into_iter().map(|far| site.toward(far)).collect())
}

/// Says on which CPUs the scheduler places the threads that wait for a device.
fn placed(experiment: &dyn AnyExperiment, site: &Site, mut offer: Offer) -> Offer {
    let facts = placement::facts(site, experiment.two_ended());
    let cases = offer.series.iter_mut().flat_map(|series| &mut series.cases);
    for case in cases.filter(|case| case.id.waits_for_device(experiment.card().id)) {
        case.at.extend(facts.iter().cloned());
    }
    offer
}

/// What of an experiment the selection leaves; the outer error is the user's, the inner the site's.
fn offer(
    family: &Family,
    experiment: &'static dyn AnyExperiment,
    selection: &Selection,
    params: &Params,
    site: &Site,
) -> Result<Result<Offer, Skip>, Usage> {
    let card = experiment.card();
    if let Some(skip) = lacks(card, site) {
        return Ok(Err(skip));
    }
    if experiment.two_ended()
        && site.peer.is_none()
        && let Some(skip) = lacks_loopback(&site.host)
    {
        return Ok(Err(skip));
    }
    let offered = |params: &Params| {
        experiment.series(site, params).map(|offer| placed(experiment, site, offer))
    };
    let mut offer = match offered(params) {
        Ok(offer) => offer,
        Err(skip) => return Ok(Err(skip)),
    };
    if selection.filters(family, card) {
        let is_wanted = |case: &CaseId| selection.wants_case(family, card, case);
        let cases = offer.series.iter().flat_map(|series| &series.cases).map(|case| &case.id);
        let wanted = cases.chain(offer.skipped.iter().map(|(case, _)| case));
        let wanted: BTreeSet<CaseId> = wanted.filter(|case| is_wanted(case)).cloned().gather();
        if !wanted.is_empty() && device::share(card.id) > 0 {
            // What may be written is for these cases alone.
            offer = match offered(&Params { only: Some(wanted), ..params.clone() }) {
                Ok(offer) => offer,
                Err(skip) => return Ok(Err(skip)),
            };
        }
        for series in &mut offer.series {
            series.cases.retain(|case| is_wanted(&case.id));
        }
        offer.skipped.retain(|(case, _)| is_wanted(case));
        offer.series.retain(|series| !series.cases.is_empty());
        let is_empty = offer.series.is_empty() && offer.skipped.is_empty();
        if is_empty && !selection.may_be_unmet(family, card) {
            return Err(Usage(format!(
                "no case of {} passes the filter with this preset: `plumb plan {}` shows its cases, \
                 `--set {}.PARAM=VALUE` makes others ({})",
                card.id,
                card.id,
                card.id,
                card.params
                    .iter()
                    .map(|param| format!("{}: {}", param.name, domain_text(&param.domain)))
                    .collect::<Vec<_>>()
                    .join("; ")
            )));
        }
    }
    // All rounds that may begin before the first one's connections have left TIME_WAIT.
    let most = params.preset.looks().last().copied().map_or(1, u64::from);
    let lack = offer.series.iter().find_map(|series| {
        let cost_ms = experiment.round_cost(site, series).as_millis().max(1) as u64;
        site.lacks_ports(experiment.ports(site, series) * most.min(TIME_WAIT_MS.div_ceil(cost_ms)))
    });
    Ok(lack.map_or(Ok(offer), Err))
}

/// Linux keeps a closed connection for a minute.
const TIME_WAIT_MS: u64 = 60_000;

/// What an experiment needs and a site lacks.
pub fn lacks(card: &Card, site: &Site) -> Option<Skip> {
    card.needs.iter().find_map(|need| match need {
        Need::Directory => site.dir.is_none().then(|| {
            Skip::because(
                "no directory for files: the current one is not writable, or is in memory",
            )
            .needs("--dir DIR on a real file system")
        }),
        Need::Numa => (site.host.numa.nodes.len() < 2).then(|| Skip::because("one NUMA node")),
        Need::TwoCpus => (site.cpus.len() < 2).then(|| {
            Skip::because("only one CPU is allowed here").needs("--cpu with at least two CPUs")
        }),
    })
}

/// Stages are the topological levels of `after` among the chosen; the clock family, when chosen,
/// is level 0 alone.
fn levels(chosen: &[(&Family, &'static dyn AnyExperiment)]) -> Vec<usize> {
    let clocks = chosen.iter().any(|(family, _)| family.name == "clock");
    let mut levels: Vec<usize> =
        chosen.iter().map(|(family, _)| usize::from(clocks && family.name != "clock")).collect();
    // The graph has no cycle (a law): as many sweeps as experiments reach the fixed point.
    for _ in 0..chosen.len() {
        for (at, (family, experiment)) in chosen.iter().enumerate() {
            if family.name == "clock" {
                continue;
            }
            let below = chosen
                .iter()
                .zip(&levels)
                .filter(|((_, other), _)| experiment.card().after.contains(&other.card().id))
                .map(|(_, level)| level + 1)
                .max();
            levels[at] = levels[at].max(below.unwrap_or(0));
        }
    }
    levels
}

/// Expected time: everything that is measured one time, and as many passes as the last look wants
/// and the budget allows, but at least up to the first look.
pub fn stated_eta(work: &[Work], looks: &[u32], budget: Duration) -> Duration {
    let sum = |look: Option<&u32>| -> Duration {
        let rounds = look.copied().unwrap_or(1);
        work.iter().map(|work| work.whole(rounds)).sum()
    };
    sum(looks.last()).min(budget.max(sum(looks.first())))
}

#[cfg(test)]
mod tests;
