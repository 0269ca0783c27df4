//! Published boost clocks of server processors. A virtual machine sees the base clock only, and
//! some descriptions have no other; the core clock lies in the range of the processor's family.

use super::{core, is_guest};
use crate::range;
use bench::experiment::Site;
use record::event::Range;

/// A family of servers' processors: its platform (of Arm its core), the lowest published clock of a
/// part with all cores at work and the highest published boost of a part, in GHz, and where these
/// are published (docs/REFERENCES.md). Families without a row are unknown: no source was found.
type Row = (&'static str, f64, f64, &'static str);

const TABLE: [Row; 16] = [
    ("Sandy Bridge-EP", 3.2, 3.6, "[gce-cpus]"),
    ("Ivy Bridge-EP", 3.1, 3.5, "[gce-cpus]"),
    ("Haswell-EP", 2.8, 3.8, "[gce-cpus]"),
    ("Broadwell-EP", 2.6, 3.7, "[gce-cpus]"),
    ("Skylake-SP", 2.7, 4.0, "[gce-cpus] [ec2-clocks]"),
    ("Cascade Lake", 2.9, 4.5, "[gce-cpus] [ec2-clocks]"),
    ("Ice Lake-SP", 3.4, 3.5, "[gce-cpus] [ec2-clocks]"),
    ("Sapphire Rapids", 2.9, 3.8, "[gce-cpus]"),
    ("Emerald Rapids", 2.9, 4.0, "[gce-cpus]"),
    ("Granite Rapids", 3.4, 4.2, "[gce-cpus] [xeon-6520p]"),
    ("Rome", 2.7, 3.9, "[gce-cpus] [corefreq]"),
    ("Milan", 2.8, 4.1, "[gce-cpus] [epyc-7003]"),
    ("Genoa", 3.3, 4.4, "[gce-cpus] [corefreq]"),
    ("Turin", 3.5, 5.0, "[gce-cpus] [epyc-9005]"),
    ("Neoverse-N1", 2.5, 3.0, "[graviton] [gce-cpus]"),
    ("Neoverse-V1", 2.6, 2.6, "[graviton]"),
];

/// Vector code and the host's limit of power lower what all cores reach: down to this share.
const LOWERED: f64 = 0.9;

/// The core clock by what is published about the processor's family, in Hz, and words that name
/// both. `None` if the family is not in the table, or its base clock is above the likely one.
pub(super) fn published(site: &Site, base_hz: Option<f64>) -> Option<(Range, String)> {
    let family = site.host.cpu.microarchitecture.platform.as_deref();
    let family = family.unwrap_or(core(site).name());
    let (name, all, most, source) = TABLE.iter().find(|(name, ..)| *name == family)?;
    let (low, high) = ((LOWERED * 1e9 * all).max(base_hz.unwrap_or(0.0)), 1e9 * most);
    // Intel's parts have a highest clock for each number of busy cores, and those of a virtual
    // machine's host are busy; what AMD's and Arm's reach depends on power and heat alone.
    let has_bins = site.host.cpu.vendor.as_deref() == Some("GenuineIntel") && is_guest(site);
    let likely = if has_bins { 1e9 * all } else { (1e9 * all * high).sqrt() };
    (low < likely).then(|| {
        let from =
            format!("{name}: {all:.1} GHz with all cores to a boost of {most:.1} GHz {source}");
        (range(low, likely, high), from)
    })
}

#[cfg(test)]
mod tests {
    use super::{TABLE, published};
    use bench::experiment::fixtures::bare_site;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_a_family_of_its_own_with_clocks_in_order_and_a_source() {
        let references = include_str!("../../../../docs/REFERENCES.md");
        let names: BTreeSet<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), TABLE.len());
        for (name, all, most, source) in TABLE {
            assert!(1.0 < all && all <= most && most < 6.0, "{name}");
            assert!(!source.is_empty(), "{name}");
            for key in source.split_whitespace() {
                assert!(references.contains(&format!("- {key} ")), "{name}: {key}");
            }
        }
    }

    #[test]
    fn the_counter_raises_the_low_end_and_an_unknown_family_has_none() {
        let mut site = bare_site();
        assert!(published(&site, Some(2e9)).is_none());
        site.host.cpu.microarchitecture.platform = Some("Genoa".to_owned());
        let low = |base_hz| Some(published(&site, base_hz)?.0.low);
        assert_eq!(low(Some(3.2e9)), Some(3.2e9));
        assert!(low(Some(2.6e9)).is_some_and(|hz| (hz - 2.97e9).abs() < 1e6));
        assert_eq!(low(None), low(Some(1.0)));
        assert!(low(Some(6e9)).is_none());
    }

    #[test]
    fn busy_hosts_hold_intel_at_the_clock_of_all_cores_and_others_above_it() {
        for (vendor, platform, likely) in [
            ("GenuineIntel", "Emerald Rapids", 2.9e9),
            ("AuthenticAMD", "Genoa", 1e9 * (3.3_f64 * 4.4).sqrt()),
        ] {
            let mut site = bare_site();
            site.host.kernel.virtualisation.is_guest = Some(true);
            site.host.cpu.vendor = Some(vendor.to_owned());
            site.host.cpu.microarchitecture.platform = Some(platform.to_owned());
            let found = published(&site, None).map(|(range, _)| range.likely);
            assert!(found.is_some_and(|hz| (hz - likely).abs() < 1e6), "{platform}: {found:?}");
        }
    }
}
