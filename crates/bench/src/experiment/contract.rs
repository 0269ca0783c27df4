//! What the author of an experiment writes. The session sees [`super::AnyExperiment`], which
//! follows from it.

use super::{
    AnyExperiment, Card, DerivedValue, Fields, Hazards, Known, Offer, Params, Preset, Site, Skip,
    chosen, manual_of, once_each, shared_round_cost,
};
use crate::fitted::applied;
use crate::link::RoundOrder;
use crate::measure::{Bench, FarEnd};
use anyhow::{Result, bail};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, FAR, Value};
use record::metric::Metric;
use record::order::Gather;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::law::Facts;

/// Makes the files of a series in a directory, and calls the last argument (it lives) often. The
/// files, or why they could not be made.
pub type MakeFiles = fn(&Series, &Path, &mut dyn FnMut()) -> Result<Vec<PathBuf>>;

/// Files that are made once per stage, before the rounds that only read them.
pub struct Files {
    pub make: MakeFiles,
    /// Stated time that this takes on a slow device of the kind that is there.
    pub cost: fn(&Site, &Series) -> Duration,
    pub has: fn(&Series) -> bool,
}

/// A question with a method: a case type, data about it, and these functions.
pub trait Experiment: Sync + 'static {
    type Case: Fields;

    const CARD: &'static Card;
    /// Its manual: the header of its file ([`crate::manual!`]).
    const MANUAL: &'static str;
    const ORDER: Order = Order::Shuffled;
    const ROUND_COST: fn(&Site, &Series) -> Duration = shared_round_cost;
    /// What the bench sees to by itself in a round: files that may hang, memory that may run out,
    /// time spent waiting for a CPU.
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::NONE;
    /// Measured metrics that a round may lack though they are predicted: that is a finding, no
    /// failure.
    const MAY_LACK: &'static [&'static str] = &[];
    /// Metrics that are shares of a whole: no prediction of them passes 1.
    const SHARES: &'static [&'static str] = &[];
    /// Files that are made before its rounds.
    const FILES: Option<Files> = None;
    /// A directory below which the run makes a work directory for a series alone, in the journal.
    const FILES_BELOW: fn(&Series) -> Option<PathBuf> = |_| None;
    /// The control group below which rounds make one of their own; the run has its removal in the
    /// journal.
    const GROUP_BELOW: fn(&Site, &Series) -> Option<PathBuf> = |_, _| None;
    /// The far end of a two-ended experiment: why the round does not count, if it fails.
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> = None;
    /// Ports that a case of a two-ended experiment uses beyond that of its line.
    const PORTS: fn(&Site, &Self::Case) -> u64 = |_, _| 1;

    /// The cases of a preset here. Those that a user chose others of are replaced by one rule
    /// ([`chosen`]).
    fn cases(site: &Site, preset: Preset) -> Vec<Self::Case>;

    /// A case as it is with what the user chose in it; none for one that does not exist.
    fn complete(case: Self::Case) -> Option<Self::Case> {
        Some(case)
    }

    /// Why a case cannot be measured here.
    fn absent(_: &Site, _: &Self::Case, _: &Params) -> Option<Skip> {
        None
    }

    /// The cases in series, one apparatus each: in one with all settings, unless it says otherwise.
    /// Errors: why nothing can be measured here.
    fn series(site: &Site, cases: Vec<Self::Case>, params: &Params) -> Result<Offer, Skip> {
        Ok(one_series::<Self>(site, cases, params))
    }

    /// Fixes sizes at the start of the stage, and says from what. Errors: why the series cannot be
    /// measured after all.
    fn resolve(_: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        Ok(series)
    }

    /// What a measured metric of a case should be, in its unit; none where earlier figures add
    /// nothing. `at` is what the case resolved to.
    fn law(facts: Facts, case: &Self::Case, at: &Case, metric: &Metric) -> Option<Prediction>;

    /// One round of a series, cases in the order given. Errors: why the round does not count.
    fn measure(series: &Series, bench: &mut Bench) -> Result<()>;

    /// Cases whose figures [`Experiment::derive`] may yield from these series.
    fn derivable(_: &Site, _: &[Series]) -> Vec<CaseId> {
        Vec::new()
    }

    fn derived_law(_: Facts, _: &CaseId, _: &Metric) -> Option<Prediction> {
        None
    }

    /// What the figures say together: `values` are this experiment's, `known` the earlier ones'.
    fn derive(_: &Site, _: &Known, _: &Known) -> Vec<DerivedValue> {
        Vec::new()
    }
}

/// The cases that are not absent here, in one series with all settings.
pub fn one_series<E: Experiment + ?Sized>(
    site: &Site,
    cases: Vec<E::Case>,
    params: &Params,
) -> Offer {
    let settings = params.settings(E::CARD);
    Offer::sorted::<E>(site, cases, params, |_, _| (String::new(), settings.clone()))
}

/// The cases of a preset; where a user chose a parameter that none of them has, also those of the
/// next larger preset that have it.
fn offered<E: Experiment>(site: &Site, params: &Params) -> Vec<E::Case> {
    let mut cases = E::cases(site, params.preset);
    for param in E::Case::PARAMS {
        let has = |case: &E::Case| case.id().get(param.name).is_some();
        if params.chosen(param.name).is_none() || cases.iter().any(has) {
            continue;
        }
        let mut larger = Some(params.preset);
        while let Some(preset) = larger.and_then(Preset::larger) {
            let others = E::cases(site, preset);
            let before = cases.len();
            cases.extend(others.into_iter().filter(has));
            larger = (cases.len() == before).then_some(preset);
        }
    }
    cases
}

fn series_of_cases<E: Experiment>(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let all = chosen(offered::<E>(site, params), params).into_iter();
    let is_left =
        |case: &E::Case| params.only.as_ref().is_none_or(|only| only.contains(&case.id()));
    let cases = once_each(all.filter_map(E::complete).filter(is_left));
    with_far(E::series(site, cases, params)?, E::CARD, site, params)
}

/// The same with the parameter of the far end, where the experiment has one. Errors: the quick preset
/// has no such case.
fn with_far(mut offer: Offer, card: &Card, site: &Site, params: &Params) -> Result<Offer, Skip> {
    let is_nothing = offer.series.is_empty() && offer.skipped.is_empty();
    if is_nothing && params.only.is_none() && params.preset == Preset::Quick {
        let skip = Skip::because("the quick preset has no such case");
        return Err(skip.needs("--preset standard"));
    }
    if card.params.iter().any(|param| param.name == FAR) {
        let measured = offer.series.iter_mut().flat_map(|series| &mut series.cases);
        let skipped = offer.skipped.iter_mut().map(|(id, _)| id);
        for id in measured.map(|case| &mut case.id).chain(skipped) {
            id.0.insert(0, (FAR.to_owned(), site.far().into()));
        }
    }
    Ok(offer)
}

impl Offer {
    /// The cases that are not absent here. `place` completes what is known of a case, and gives the
    /// name and the settings of its series.
    pub fn sorted<E: Experiment + ?Sized>(
        site: &Site,
        cases: Vec<E::Case>,
        params: &Params,
        mut place: impl FnMut(&E::Case, &mut Case) -> (String, BTreeMap<String, Value>),
    ) -> Offer {
        let mut offer = Offer::default();
        for own in cases {
            let mut case = Case::new(own.id());
            match E::absent(site, &own, params) {
                Some(skip) => offer.skipped.push((case.id, skip)),
                None => {
                    let (name, settings) = place(&own, &mut case);
                    let series = offer.series_named(E::CARD, &name, E::ORDER);
                    series.settings.extend(settings);
                    series.cases.push(case);
                }
            }
        }
        offer
    }

    /// The series of a name, empty where it is not there yet.
    pub fn series_named(&mut self, card: &Card, name: &str, order: Order) -> &mut Series {
        let at = self.series.iter().position(|series| series.name == name);
        let at = at.unwrap_or_else(|| {
            let series = Series::new(card.id, order, Vec::new());
            self.series.push(Series { name: name.to_owned(), ..series });
            self.series.len() - 1
        });
        &mut self.series[at]
    }
}

impl<E: Experiment> AnyExperiment for E {
    fn card(&self) -> &'static Card {
        E::CARD
    }

    fn manual(&self) -> String {
        manual_of(E::MANUAL)
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = series_of_cases::<E>(site, params)?;
        if let Some(quick) = &params.quick {
            let quick = Params { only: params.only.clone(), ..(**quick).clone() };
            let quick = series_of_cases::<E>(site, &quick).unwrap_or_default().series.into_iter();
            let cases = quick.flat_map(|series| series.cases);
            offer.in_quick = cases.map(|case| case.id).gather();
        }
        Ok(offer)
    }

    fn derivable(&self, site: &Site, series: &[Series]) -> Vec<CaseId> {
        E::derivable(site, series)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        E::ROUND_COST(site, series)
    }

    fn resolve(&self, site: &Site, known: &Known, series: Series) -> Result<Series, Skip> {
        E::resolve(site, known, series)
    }

    fn unscaled(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let facts = Facts { site, known };
        let by_law = match metric.derived {
            true => E::derived_law(facts, &case.id, metric),
            false => E::law(facts, &E::Case::from_id(&case.id)?, case, metric),
        };
        let coefficient = facts.fitted(E::CARD.id, &case.id, &metric.name);
        let mut prediction = applied(coefficient, metric, by_law?);
        if self.is_share(metric) {
            prediction.most = Some(1.0);
        }
        Some(prediction)
    }

    fn may_lack(&self, metric: &Metric) -> bool {
        E::MAY_LACK.contains(&&*metric.name)
    }

    fn is_share(&self, metric: &Metric) -> bool {
        E::SHARES.contains(&&*metric.name)
    }

    fn prepare(
        &self,
        series: &Series,
        dir: &Path,
        lives: &mut dyn FnMut(),
    ) -> Result<Vec<PathBuf>> {
        match E::FILES {
            Some(files) => (files.make)(series, dir, lives),
            None => bail!("{} has no files to make", E::CARD.id),
        }
    }

    fn files_below(&self, series: &Series) -> Option<PathBuf> {
        E::FILES_BELOW(series)
    }

    fn group_below(&self, site: &Site, series: &Series) -> Option<PathBuf> {
        E::GROUP_BELOW(site, series)
    }

    fn is_prepared(&self, series: &Series) -> bool {
        E::FILES.is_some_and(|files| (files.has)(series))
    }

    fn prepare_cost(&self, site: &Site, series: &Series) -> Duration {
        E::FILES.map_or(Duration::ZERO, |files| (files.cost)(site, series))
    }

    fn hazards(&self, order: &RoundOrder) -> Hazards {
        E::HAZARDS(order)
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        E::measure(series, bench)
    }

    fn serve(&self, series: &Series, far: &mut FarEnd) -> Result<()> {
        match E::SERVE {
            Some(serve) => serve(series, far),
            None => bail!("{} has no far end", E::CARD.id),
        }
    }

    fn two_ended(&self) -> bool {
        E::SERVE.is_some()
    }

    fn ports(&self, site: &Site, series: &Series) -> u64 {
        let cases = series.cases.iter().filter_map(|case| E::Case::from_id(&case.id));
        let of_cases: u64 = cases.map(|case| 1 + E::PORTS(site, &case)).sum();
        // One more listens.
        E::SERVE.map_or(0, |_| 1 + of_cases)
    }

    fn derive(&self, site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        E::derive(site, known, values)
    }
}
