//! How wide predictions are: a law's own width, which says what it does not know, times a scale that
//! the figures of recorded machines set (METHOD §5). `scripts/fit` writes the table.
//!
//! The scale of a metric's priors, or of its predictions from earlier figures, is the quantile of
//! the residuals |ln (measured / likely)| / [`spread`] that holds nine figures in ten or a little
//! more. A law that states four times the log width is wrong by less than twice as much, not by four
//! times: [`POWERS`] leave the least interval score on machines that were left out.

use crate::device::{disk_of, is_virtual, mount_of};
use crate::experiment::Site;
use host::Arch;
use record::event::{Prediction, Range, Shares};
use record::metric::Metric;
use record::unit::Unit;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Which power of a law's own log width counts, in priors and in derived predictions.
const POWERS: [f64; 2] = [0.3, 0.4];

/// No law that is not a limit is more certain than this: clocks and loops differ by so much.
const LEAST: f64 = 1.02;

/// A range that is wide, high over low.
const WIDE: f64 = 4.5;

/// The scales by metric ([`of_metric`]) of priors, by [`of_class`] of derived predictions, and by
/// experiment and family of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Widths(pub BTreeMap<String, [Option<f64>; 2]>);

static FITTED: LazyLock<Widths> = LazyLock::new(|| Widths::read(TABLE));

/// Name, scale of priors, scale of derived predictions.
pub const TABLE: &str = include_str!("widths.csv");

impl Widths {
    /// What the recorded machines give.
    pub fn fitted() -> &'static Widths {
        &FITTED
    }

    /// From a table; its first line names the columns.
    fn read(table: &str) -> Widths {
        let row = |line: &str| {
            let mut cells = line.split(',');
            let name = cells.next()?.to_owned();
            let mut scale = || cells.next()?.parse().ok();
            Some((name, [scale(), scale()]))
        };
        Widths(table.lines().skip(1).filter_map(row).collect())
    }

    /// The table, as [`Widths::read`] reads it.
    pub fn table(&self) -> String {
        let cell =
            |scale: &Option<f64>| scale.map_or_else(String::new, |scale| format!("{scale:.2}"));
        let row = |(name, [prior, derived]): (&String, &[Option<f64>; 2])| {
            format!("{name},{},{}\n", cell(prior), cell(derived))
        };
        std::iter::once("name,prior,derived\n".to_owned()).chain(self.0.iter().map(row)).collect()
    }

    /// A prediction as wide as the residuals of its metric make it.
    pub fn applied(
        &self,
        site: &Site,
        experiment: &str,
        metric: &Metric,
        is_derived: bool,
        prediction: Prediction,
    ) -> Prediction {
        let group = group(site, experiment);
        let scale = match is_derived {
            false => self.scale(&group, |of| of_metric(of, &metric.name), false),
            true => self.scale(&group, |of| of_class(of, prediction.range), true),
        };
        scaled(prediction, scale, is_derived, metric.unit)
    }

    /// The scale of a part of a [`group`], else of its experiment, else of the family; else those on
    /// any disk.
    fn scale(&self, group: &str, part: impl Fn(&str) -> String, is_derived: bool) -> f64 {
        let experiment = group.rsplit(APART).next().unwrap_or(group);
        let names = [group, experiment].into_iter().flat_map(|of| {
            let family = of.split('.').next().unwrap_or_default();
            [part(of), of.to_owned(), family.to_owned()]
        });
        let mut scales = names.filter_map(|name| self.0.get(&name)?[usize::from(is_derived)]);
        scales.next().unwrap_or(1.0)
    }
}

/// What stands between the name of a group apart and the experiment.
const APART: char = '-';

/// The group in which a machine's figures of an experiment are judged: the experiment, with the
/// figures of all machines. Files on a hypervisor's disk are judged by such files alone: what the
/// laws of known devices miss by says nothing of them. So is the kernel's work on Arm.
pub fn group(site: &Site, experiment: &str) -> String {
    let mount = site.dir.as_ref().and_then(|dir| mount_of(site, &dir.path));
    let disk = mount.and_then(|mount| disk_of(site, mount));
    let is_virtual = disk.is_some_and(|(disk, _)| is_virtual(disk, site));
    match is_virtual && experiment.starts_with("fs.") {
        true => format!("virtual{APART}{experiment}"),
        false => of_kernel(site, experiment),
    }
}

/// An experiment, or the same on Arm where it measures the kernel's work: the laws state that for
/// x86-64, and what they miss by on one architecture says nothing of the other.
pub fn of_kernel(site: &Site, experiment: &str) -> String {
    let is_of_kernel = experiment.starts_with("os.") || experiment.starts_with("net.");
    match is_of_kernel && site.host.cpu.arch == Arch::Aarch64 {
        true => format!("arm{APART}{experiment}"),
        false => experiment.to_owned(),
    }
}

/// The name that a metric of an experiment has in the table.
pub fn of_metric(experiment: &str, metric: &str) -> String {
    format!("{experiment} {metric}")
}

/// The same of predictions from earlier figures, whose laws state a narrow or a wide range: what
/// follows closely from the figures, and what does not.
pub fn of_class(experiment: &str, range: Option<Range>) -> String {
    let is_wide = range.is_none_or(|range| range.high > WIDE * range.low);
    format!("{experiment} {}", if is_wide { "wide" } else { "narrow" })
}

/// The width of one side of a range, by the factor between its end and the likely value.
fn spread(factor: f64, is_derived: bool) -> f64 {
    factor.max(LEAST).ln().powf(POWERS[usize::from(is_derived)])
}

/// How far a value is from the likely one, in widths of that side; none on no logarithmic scale.
pub fn residual(range: Range, value: f64, is_derived: bool) -> Option<f64> {
    let side =
        if value < range.likely { range.likely / range.low } else { range.high / range.likely };
    let width = spread(side, is_derived);
    (range.low > 0.0 && value > 0.0).then(|| (value / range.likely).ln().abs() / width)
}

/// A prediction with its width times a scale. Exact values, and ranges from zero on or across it,
/// stay what they are; so do bounds, and a share that cannot pass one.
fn scaled(prediction: Prediction, scale: f64, is_derived: bool, unit: Unit) -> Prediction {
    let stretched = |range: Range| {
        let Range { low, likely, high } = range;
        let side = |factor: f64| (scale * spread(factor, is_derived)).exp();
        if low <= 0.0 {
            return range;
        }
        let most = if unit == Unit::Ratio && high <= 1.0 { 1.0 } else { f64::INFINITY };
        Range {
            // A law that states an end so closely knows a limit: a shaper's rate, a tick.
            low: if likely / low > LEAST { likely / side(likely / low) } else { low },
            high: if high / likely > LEAST { likely * side(high / likely) } else { high }.min(most),
            ..range
        }
    };
    let other = prediction.otherwise.map(stretched);
    let range = prediction.range.map(stretched).map(|range| {
        let other = other.unwrap_or(range);
        Range { low: range.low.min(other.low), high: range.high.max(other.high), ..range }
    });
    let within = |of: Range| {
        let [low, likely, high] =
            [of.low, of.likely, of.high].map(|end| end.min(prediction.most.unwrap_or(end)));
        Range { low, likely, high }
    };
    let settled = range.and_then(Range::settled).map(within);
    let mut because = prediction.because;
    if range.is_some() && settled.is_none() {
        because += "; what the machine states of this gives no finite figure";
    }
    let share = |of: Range| stretched(of).settled();
    let shares = prediction.shares.and_then(|of| {
        Some(Shares { hardware: share(of.hardware)?, software: share(of.software)? })
    });
    let range = settled;
    let doubt = prediction.doubt.filter(|_| range.is_some_and(|range| !range.predicts(unit)));
    Prediction {
        range,
        because,
        shares,
        doubt,
        otherwise: None,
        most: None,
        fixed: 0.0,
        ..prediction
    }
}

#[cfg(test)]
mod tests {
    use super::{POWERS, Widths, group, of_class, residual, scaled, spread};
    use crate::experiment::fixtures::{recorded, with_dir};
    use record::event::{Prediction, Range};
    use record::unit::Unit;

    fn range(low: f64, likely: f64, high: f64) -> Range {
        Range { low, likely, high }
    }

    #[test]
    fn a_value_at_the_end_of_a_scaled_range_has_the_scale_as_its_residual() {
        let ranges = [(range(50.0, 100.0, 400.0), 0.5), (range(97.0, 100.0, 1e4), 2.0)];
        for ((of, scale), is_derived) in ranges.into_iter().zip([false, true]) {
            let prediction = scaled(Prediction::new(Some(of), ""), scale, is_derived, Unit::Ns);
            let wide = prediction.range.expect("it had one");
            assert_eq!(wide.likely, of.likely);
            for end in [wide.low, wide.high] {
                let residual = residual(of, end, is_derived).expect("a positive value");
                assert!((residual - scale).abs() < 1e-9, "{residual} {scale}");
            }
            assert_eq!(spread(1.0, is_derived), spread(1.01, is_derived));
            assert!((spread(std::f64::consts::E, is_derived) - 1.0).abs() < 1e-12);
            assert!(POWERS[usize::from(is_derived)] <= 1.0);
        }
        assert_eq!(residual(range(0.0, 1.0, 2.0), 1.0, false), None);
    }

    #[test]
    fn a_range_whose_ends_are_no_numbers_or_in_disorder_is_none_or_reaches_its_likely_value() {
        let of = |range| scaled(Prediction::new(Some(range), "why"), 1.0, false, Unit::Ns);
        assert_eq!(of(range(0.0, 9.0, 4.0)).range, Some(range(0.0, 9.0, 9.0)));
        for none in [range(f64::NAN, 1.0, 2.0), range(1.0, f64::INFINITY, f64::INFINITY)] {
            let prediction = of(none);
            assert_eq!(prediction.range, None);
            assert!(prediction.because.starts_with("why; "));
        }
    }

    #[test]
    fn a_figure_that_may_be_otherwise_has_one_range_of_both() {
        let of = Prediction {
            otherwise: Some(range(70.0, 100.0, 190.0)),
            ..Prediction::new(Some(range(20.0, 25.0, 40.0)), "")
        };
        let alone = |of: Range| {
            scaled(Prediction::new(Some(of), ""), 0.4, false, Unit::Ns).range.expect("it had one")
        };
        let (near, far) = (alone(of.range.unwrap()), alone(of.otherwise.unwrap()));
        assert!(near.high < far.low, "{near:?} {far:?}");
        let both = scaled(of, 0.4, false, Unit::Ns);
        assert_eq!(both.range, Some(Range { high: far.high, ..near }));
        assert_eq!(both.otherwise, None);
    }

    #[test]
    fn nothing_passes_what_no_value_can_pass() {
        for most in [1.0, 64.0] {
            let of = Prediction {
                most: Some(most),
                ..Prediction::new(Some(range(0.5 * most, 0.9 * most, 1.4 * most)), "")
            };
            let found = scaled(of, 2.0, false, Unit::B).range.expect("it had one");
            assert_eq!((found.likely, found.high), (0.9 * most, most));
        }
    }

    #[test]
    fn what_has_no_factor_keeps_its_shape_and_a_share_its_limit() {
        let wide = |of: Range, unit| scaled(Prediction::new(Some(of), ""), 3.0, false, unit).range;
        for of in [
            range(0.0, 0.1, 0.5),
            range(-1.0, 1.0, 2.0),
            range(5.0, 5.0, 5.0),
            range(9.9, 10.0, 10.1),
        ] {
            assert_eq!(wide(of, Unit::Ratio), Some(of));
        }
        assert_eq!(wide(range(0.5, 0.9, 1.0), Unit::Ratio).map(|of| of.high), Some(1.0));
        assert!(wide(range(0.5, 0.9, 1.0), Unit::Ns).is_some_and(|of| of.high > 1.0));
        let said = |high| {
            let of = Prediction {
                doubt: Some(String::new()),
                ..Prediction::new(Some(range(1.0, 2.0, high)), "")
            };
            scaled(of, 1.0, false, Unit::Ns).doubt.is_some()
        };
        assert_eq!((said(4.0), said(400.0)), (false, true));
    }

    #[test]
    fn a_law_of_a_wide_range_is_of_another_class_than_one_of_a_narrow_range() {
        let class = |range| of_class("memory.latency", range);
        assert_eq!(class(Some(range(1.0, 2.0, 4.5))), "memory.latency narrow");
        for wide in [Some(range(1.0, 2.0, 4.6)), Some(range(0.0, 1.0, 2.0)), None] {
            assert_eq!(class(wide), "memory.latency wide");
        }
    }

    #[test]
    fn files_on_a_hypervisor_s_disk_and_kernels_on_arm_are_groups_of_their_own() {
        let mut site = recorded("vm-granite-rapids");
        let named = |site: &_, experiment| group(site, experiment);
        site.dir = None;
        assert_eq!(named(&site, "fs.read"), "fs.read");
        let site = with_dir(site, "/", 0);
        assert_eq!(named(&site, "fs.read"), "virtual-fs.read");
        assert_eq!(named(&site, "os.ipc"), "os.ipc");
        let arm = recorded("graviton3");
        assert_eq!(named(&arm, "os.ipc"), "arm-os.ipc");
        assert_eq!(named(&arm, "memory.latency"), "memory.latency");
    }

    #[test]
    fn what_has_no_row_has_the_scale_of_what_it_belongs_to() {
        let widths = Widths::read("name,prior,derived\nos,2,\nos.ipc,3,4\nos.ipc bandwidth,5,\n");
        let part = |part| move |of: &str| format!("{of} {part}");
        let of = |part_of, is_derived| widths.scale("os.ipc", part(part_of), is_derived);
        assert_eq!((of("bandwidth", false), of("bandwidth", true)), (5.0, 4.0));
        let scale = |id, is_derived| widths.scale(id, part("round_trip"), is_derived);
        assert_eq!((scale("os.ipc", false), scale("os.ipc", true)), (3.0, 4.0));
        assert_eq!((scale("os.fork", false), scale("os.fork", true)), (2.0, 1.0));
        assert_eq!(scale("net.rtt", false), 1.0);
        assert_eq!(scale("virtual-os.ipc", false), 3.0, "on other disks");
    }
}
