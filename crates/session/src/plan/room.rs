//! What each chosen experiment may write in the directory for files.

use bench::device::share;
use bench::experiment::{DirFacts, Offer, Site};
use record::case::Series;
use record::key::CaseId;
use record::order::InOrder;
use std::cmp::Reverse;

/// The search for a need ends at this part of the whole.
const STEPS: u64 = 512;

/// The site where what may be written is divided among the chosen experiments by need
/// ([`divided`]). `offered` is what an experiment measures at a site in the longest preset, whichever
/// is run: all presets have one division, so that none lacks room for a case of a shorter one.
pub(super) fn shared(
    site: &Site,
    ids: impl Iterator<Item = &'static str>,
    offered: impl Fn(&'static str, &Site) -> Option<Offer>,
) -> Site {
    let Some(dir) = &site.dir else { return site.clone() };
    let with = |portions| Site { dir: Some(DirFacts { portions, ..dir.clone() }), ..site.clone() };
    let all = dir.allowance_bytes;
    let planned = |id: &'static str, bytes: u64| -> Option<(Vec<Series>, Vec<CaseId>)> {
        let offer = offered(id, &with(vec![(id, bytes)]))?;
        Some((offer.series, offer.skipped.into_iter().map(|(case, _)| case).collect()))
    };
    let writers: Vec<&'static str> = ids.filter(|id| share(id) > 0).collect();
    let need_of = |id| if writers.len() > 1 { need(all, |bytes| planned(id, bytes)) } else { all };
    let needs = writers.iter().map(|id| (*id, need_of(id)));
    with(divided(all, &needs.collect::<Vec<_>>()))
}

/// The least of `all` bytes with which as much is planned as with all of them.
fn need<P: PartialEq>(all: u64, planned: impl Fn(u64) -> P) -> u64 {
    let whole = planned(all);
    let (mut low, mut high) = (0, all);
    while high - low > all / STEPS + 1 {
        let middle = low.midpoint(high);
        match planned(middle) == whole {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// Each gets what it needs, up to its share; what is left goes to those that lack most, first.
fn divided(all: u64, needs: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let shares: u64 = needs.iter().map(|(id, _)| share(id)).sum();
    let by_share = |id| all / shares.max(1) * share(id);
    let mut given: Vec<_> = needs.iter().map(|(id, need)| (*id, by_share(id).min(*need))).collect();
    let mut left = all - given.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let lacks = needs.iter().zip(&given).map(|(need, has)| Reverse(need.1 - has.1));
    let mut lacks: Vec<(Reverse<u64>, usize)> = lacks.zip(0..).collect();
    lacks.order();
    for (Reverse(lack), at) in lacks {
        let more = lack.min(left);
        given[at].1 += more;
        left -= more;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::{divided, need};

    #[test]
    fn what_small_needs_leave_goes_to_the_greatest_lack_first() {
        let needs =
            |sync, cache, read| [("fs.sync", sync), ("fs.cache_size", cache), ("fs.read", read)];
        // Shares of 1, 6 and 6 in 13.
        for (asked, expected) in [
            ((130, 130, 130), (130 - 120, 60, 60)),
            ((0, 20, 30), (0, 20, 30)),
            ((1, 130, 30), (1, 99, 30)),
            ((1, 90, 80), (1, 69, 60)),
            ((0, 70, 130), (0, 60, 70)),
            ((50, 20, 40), (50, 20, 40)),
        ] {
            let given = divided(130, &needs(asked.0, asked.1, asked.2));
            assert_eq!(given, needs(expected.0, expected.1, expected.2), "{asked:?}");
        }
    }

    #[test]
    fn a_need_is_the_least_with_which_all_is_planned() {
        const GIB: u64 = 1 << 30;
        for wanted in [0, GIB, 32 * GIB, 64 * GIB] {
            let found = need(64 * GIB, |bytes| bytes.min(wanted));
            assert!(found >= wanted && found - wanted <= 64 * GIB / 512 + 1, "{wanted}: {found}");
        }
    }
}
