//! Units as data. In files they are written exactly as listed here; values are never scaled there.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit of a metric, in its base (unscaled) form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Ns,
    /// Core clock cycles (never counter ticks).
    #[serde(rename = "cycle")]
    Cycle,
    /// Bytes.
    #[serde(rename = "B")]
    B,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BPerS,
    /// Operations per second.
    #[serde(rename = "op/s")]
    OpPerS,
    /// Floating-point operations per second.
    #[serde(rename = "flop/s")]
    FlopPerS,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hz,
    /// A dimensionless count.
    #[serde(rename = "count")]
    Count,
    /// A dimensionless ratio; shares are ratios, not percentages.
    #[serde(rename = "ratio")]
    Ratio,
    /// Hundredths of a ratio, in which people read a share. In files it is a ratio.
    #[serde(rename = "ratio", skip_deserializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Percent,
    /// Nanoseconds per byte.
    #[serde(rename = "ns/B")]
    NsPerB,
    /// Nanoseconds per operation.
    #[serde(rename = "ns/op")]
    NsPerOp,
}

/// Every unit with its exact spelling in files.
pub const UNITS: &[(Unit, &str)] = &[
    (Unit::Ns, "ns"),
    (Unit::Cycle, "cycle"),
    (Unit::B, "B"),
    (Unit::BPerS, "B/s"),
    (Unit::OpPerS, "op/s"),
    (Unit::FlopPerS, "flop/s"),
    (Unit::Hz, "Hz"),
    (Unit::Count, "count"),
    (Unit::Ratio, "ratio"),
    (Unit::NsPerB, "ns/B"),
    (Unit::NsPerOp, "ns/op"),
];

impl Unit {
    /// The spelling in files.
    pub fn text(self) -> &'static str {
        let in_files = if self == Unit::Percent { Unit::Ratio } else { self };
        UNITS.iter().find(|(unit, _)| *unit == in_files).map_or("", |(_, text)| text)
    }

    /// Whether values of this unit are times, which can also be given in core cycles.
    pub fn is_time(self) -> bool {
        matches!(self, Unit::Ns | Unit::NsPerOp)
    }

    /// Whether values of this unit are amounts in a second.
    pub fn is_rate(self) -> bool {
        matches!(self, Unit::BPerS | Unit::OpPerS | Unit::FlopPerS | Unit::Hz)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::{UNITS, Unit};

    #[test]
    fn text_is_what_serde_writes() {
        for (unit, text) in UNITS {
            let json = serde_json::to_string(unit).expect("a unit serialises");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(unit.text(), *text);
            let back: Unit = serde_json::from_str(&json).expect("and comes back");
            assert_eq!(back, *unit);
        }
        let share = serde_json::to_string(&Unit::Percent).expect("a unit serialises");
        assert_eq!((share.as_str(), Unit::Percent.text()), ("\"ratio\"", "ratio"));
    }
}
