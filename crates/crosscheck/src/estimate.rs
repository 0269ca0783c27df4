//! How long a crosscheck takes, before it begins.

use super::{Ours, Pairing};
use bench::experiment::{DirFacts, Site};
use catalogue::FAMILIES;
use session::params::Settings;
use session::plan::{case_ns, plan, stated_eta};
use session::select::Selection;
use std::time::Duration;

/// What a side takes beside its measuring: to start, to calibrate, to be waited for.
const AROUND: Duration = Duration::from_millis(500);

/// A turn of a pairing, where a rival measures for so long: most of them do in most pairings.
pub(super) fn turn(pairing: &Pairing, site: &Site, rival: Duration) -> Duration {
    ours(&pairing.ours, site) + rival + 2 * AROUND
}

/// plumb's side up to its first look, by its plan; its whole budget without a floor.
fn ours(ours: &Ours, site: &Site) -> Duration {
    let site = Site {
        cpus: ours.cpus.clone(),
        dir: ours.dir.clone().map(|path| DirFacts {
            path,
            ..site.dir.clone().unwrap_or(DirFacts {
                path: Default::default(),
                file_system: String::new(),
                allowance_bytes: site.memory_bytes,
                portions: Vec::new(),
            })
        }),
        case_ns: case_ns(ours.preset),
        ..site.clone()
    };
    let selection = Selection::parse(&[ours.experiment.to_owned()], FAMILIES);
    let settings = Settings::parse(&ours.settings(), FAMILIES);
    let (Ok(selection), Ok(settings)) = (selection, settings) else {
        return ours.budget;
    };
    let planned = plan(FAMILIES, &selection, &settings, ours.preset, ours.budget, &site);
    let first = &ours.preset.looks()[..1];
    planned.map_or(ours.budget, |planned| stated_eta(&planned.work, first, ours.budget))
}

#[cfg(test)]
mod tests {
    use super::turn;
    use crate::RIVALS;
    use crate::tests::conditions;
    use bench::experiment::Preset;
    use bench::experiment::fixtures::recorded;
    use std::time::Duration;

    #[test]
    fn a_turn_takes_what_its_plan_states_and_not_the_whole_budget() {
        let site = recorded("vm-granite-rapids");
        let conditions = conditions(&site, Preset::Standard, 2);
        let rival = Duration::from_secs(1);
        let mut below = 0;
        for known in RIVALS {
            for pairing in (known.pairings)(&conditions) {
                if pairing.skip.is_some() {
                    continue;
                }
                let expected = turn(&pairing, &site, rival);
                let label = format!("{}: {}: {expected:?}", known.name, pairing.name);
                assert!(expected > rival, "{label}");
                assert!(expected <= pairing.ours.budget * 2 + 2 * rival, "{label}");
                below += u32::from(expected < pairing.ours.budget);
            }
        }
        assert!(below > 0, "plans are shorter than budgets");
    }
}
